"""Six recorded studies and what commands print of them: `python tests/reports/render_studies.py` writes it anew.

`rendered/studies.tar.xz` has the tracking store and the small files of runs as one command after the other left them: one
run; a sweep with timing; seeds of pretraining and fine-tuning; a factorial design; failed runs; runs that were interrupted;
published weights.
"""

import contextlib
import io
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.__main__ import main as harness
from harness.reports.__main__ import main as reports

RENDERED = Path(__file__).with_name("rendered")
STUDIES = {
    "one_run": "base",
    "demo": "base",
    "seeds": "base+mlm",
    "factorial": "base learning_rate=0.001 batch_size=8",
    "failed": "base learning_rate=0.0003",
    "missing": "base",
    "published": "weights-base",
}
"""Study -> baseline of its report."""
FORMATS = "md,html,csv,latex"
LEFT_OUT = (".svg", ".html", ".json")

PRINTED = {
    "one_run": ["harness status one_run"],
    "demo": [
        "harness status demo",
        "reports pick --study demo --max-params 1e6",
        "reports gate --study demo --against demo --max-drop 5%",
    ],
    "failed": ["harness status failed"],
    "missing": ["harness status missing"],
    "seeds": ["reports pick --study seeds --at-least eval/score=0.3"],
}
"""Study -> commands whose lines are compared too."""


@contextlib.contextmanager
def unpacked() -> Iterator[Path]:
    """A working directory with the studies in `multirun`."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(RENDERED / "studies.tar.xz") as archive:
        archive.extractall(Path(folder, "multirun"), filter="data")
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def of(study: str) -> dict[str, str]:
    """File name -> text of all that is rendered and printed of a study, in its working directory.

    Left out are the objects, of which all this is made, pictures, whose bytes follow the library that draws them, the style and
    script of all pages and their hashes, and what follows the ninth digit of a number, which differs between processors.
    """
    _run("reports", "--study", study, "--baseline", STUDIES[study], "--out", "rendered", "--format", FORMATS)
    files = {path.name: path.read_text("utf-8") for path in Path("rendered").glob("*.*") if path.suffix not in LEFT_OUT}
    page = Path("rendered", "report.html").read_text("utf-8")
    page = re.sub(r"<(svg|style|script)\b.*?</\1>", r"<\1>", page, flags=re.DOTALL)
    files["report.html"] = re.sub(r"'sha256-[^']+'", "'sha256'", page)
    files["pictures.txt"] = "".join(f"{path.name}\n" for path in sorted(Path("rendered").glob("*.svg")))
    shutil.rmtree("rendered")
    if study in PRINTED:
        files["printed.txt"] = "\n".join(f"$ {command}\n{_run(*command.split())}" for command in PRINTED[study])
    return {
        name: re.sub(r"\d+\.\d{9,}(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", text) for name, text in files.items()
    }


def _run(name: str, *arguments: str) -> str:
    """What the command prints, and its exit code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = {"harness": harness, "reports": reports}[name](list(arguments))
    return f"{out.getvalue()}exit code {code}\n".replace(os.getcwd(), "FOLDER")


if __name__ == "__main__":
    with unpacked():
        for study in STUDIES:
            shutil.rmtree(RENDERED / study, ignore_errors=True)
            (RENDERED / study).mkdir()
            for name, text in of(study).items():
                (RENDERED / study / name).write_text(text, "utf-8")
