"""The report on a study at the end of its sweep, written by `python -m reports` in a process of its own.

Whatever goes wrong there is one line; the sweep has its results.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from harness import paths
from harness.config.redact import redacted, whole
from harness.config.schema import RunConfig
from harness.terminal import console, live_line

LONGEST_S = 900.0

CODE = "import json, sys; from reports.__main__ import main; sys.exit(main(json.load(sys.stdin)))"
"""Arguments come by stdin: a command line, with a password in an address, could be read by every user of the machine."""


def write(config: RunConfig, first: str) -> Path | None:
    """Folder of the report on this study; None where it could not be written. Prints a line either way.

    The baseline is the arm `base`, or the `first` arm that the command names.
    """
    folder, audit = paths.report_folder(config.output, config.study), paths.audit_file(config.output)
    uri = config.tracking.uri or paths.database_uri(config.output)
    arguments = ["--study", config.study, "--out", str(folder), "--uri", whole(uri), "--baseline", "base", "--baseline", first]
    arguments += ["--audit", str(audit)] if audit.is_file() else []
    began = time.monotonic()
    with live_line("writing the report"):
        failed = _run(arguments)
    if failed:
        console.problem(f"no report: {redacted(failed)}")
        return None
    seconds = f"{time.monotonic() - began:.0f} s"
    console.result(f"report: {os.path.relpath(folder / 'report.html')} (and report.md; {seconds}, report=false skips it)")
    return folder


def _run(arguments: list[str]) -> str | None:
    """The reason of a failure; None where the report was written."""
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-P", "-c", CODE]
    streams = {"input": json.dumps(arguments), "capture_output": True, "text": True, "timeout": LONGEST_S}
    try:
        done = subprocess.run(command, env=environment, check=False, **streams)
    except subprocess.TimeoutExpired:
        return f"python -m reports took longer than {LONGEST_S:.0f} s"
    lines = done.stderr.strip().splitlines() or [f"python -m reports ended with exit code {done.returncode}"]
    return None if done.returncode == 0 else lines[-1]
