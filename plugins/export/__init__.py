"""Exports models and predictions: `export`, `submission`."""

from harness.commands import Command

EXPORT = Command(
    "Write a model as a transformers checkpoint or ONNX file",
    "harness.plugins.export.options:Export",
    "harness.plugins.export.command:main",
)
SUBMISSION = Command(
    "Pack predictions for the GLUE leaderboard",
    "harness.plugins.export.options:Submission",
    "harness.plugins.export.submission:main",
)
