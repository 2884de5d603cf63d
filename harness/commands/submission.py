"""Packs the answers that runs with finetune.submit=true left for GLUE's page.

python -m harness submission RUN_FOLDER... [--output submission.zip]
"""

from pathlib import Path

from harness.commands.arguments import Parser


def main(arguments: list[str]) -> int:
    """0; InputError where a run has no answers, or two have the same file."""
    parser = Parser("submission", __doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="folders of runs with finetune.submit=true")
    parser.add_argument("--output", type=Path, default=Path("submission.zip"), help="archive to write (submission.zip)")
    options = parser.parse_args(arguments)
    from harness.tasks.glue_submission import ROWS, pack  # the schema takes 0.2 s, which --help does not need

    missing = pack(options.folders, options.output)
    print(f"{options.output}: {len(ROWS) - len(missing)} of {len(ROWS)} files; missing: {', '.join(missing) or 'none'}")
    return 0
