"""Takes models and answers out of the harness: `export`, `submission`."""

from harness.commands import Command

EXPORT = Command(
    "a trained model as a checkpoint that transformers loads",
    "harness.plugins.export.options:Export",
    "harness.plugins.export.command:main",
)
SUBMISSION = Command(
    "pack predictions for GLUE's page",
    "harness.plugins.export.options:Submission",
    "harness.plugins.export.submission:main",
)
