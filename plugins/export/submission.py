"""Packs the answers that runs with finetune.submit=true left for GLUE's page.

python -m harness submission RUN_FOLDER... [to=submission.zip]
"""

import zipfile
from pathlib import Path

from harness.errors import InputError, writing
from harness.paths import replaced
from harness.plugins.export.options import Submission
from harness.tasks.glue_submission import FOLDER, ROWS


def main(options: Submission) -> int:
    """0; InputError where a run has no answers, or two have the same file."""
    found: dict[str, Path] = {}
    for folder in options.folders:
        if not folder.is_dir():
            raise InputError(f"{str(folder)!r} is not a folder: expected that of a run")
        files = sorted((folder / FOLDER).glob("*.tsv"))
        if not files:
            raise InputError(f"{folder} has no files to submit: run it with finetune.submit=true")
        for path in files:
            if path.name in found:
                raise InputError(f"{found[path.name]} and {path} are of the same task: name one run per task")
            found[path.name] = path
    with (
        writing(options.to, "a file"),
        replaced(options.to) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name, path in sorted(found.items()):
            packed.write(path, name)
    missing = [f"{name}.tsv" for name in ROWS if f"{name}.tsv" not in found]
    print(f"{options.to}: {len(ROWS) - len(missing)} of {len(ROWS)} files; missing: {', '.join(missing) or 'none'}")
    return 0
