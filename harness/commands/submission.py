"""Packs the answers that runs with finetune.submit=true left for GLUE's page.

python -m harness submission RUN_FOLDER... [to=submission.zip]
"""

from harness.commands.options import Submission
from harness.tasks.glue_submission import ROWS, pack


def main(options: Submission) -> int:
    """0; InputError where a run has no answers, or two have the same file."""
    missing = pack(list(options.folders), options.to)
    print(f"{options.to}: {len(ROWS) - len(missing)} of {len(ROWS)} files; missing: {', '.join(missing) or 'none'}")
    return 0
