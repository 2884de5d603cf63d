"""The report on a study at the end of its sweep, written by `reports.after_sweep` in a process of its own.

Whatever goes wrong there is one line; the sweep has its results.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import paths
from harness.config.schema import RunConfig
from harness.redact import redacted, whole
from harness.terminal import console, live_line

LONGEST_S = 900.0

MODULE = "reports.after_sweep"


def write(config: RunConfig, first: str) -> Path | None:
    """Folder of the report on this study; None where it could not be written. Prints a line either way.

    One that is of the runs as the store has them now stays as it is, whichever command has written it. The baseline is the
    arm `base`, or the `first` arm that the command names.
    """
    folder, audit = paths.report_folder(config.output, config.study), paths.audit_file(config.output)
    uri = config.tracking.uri or paths.database_uri(config.output)
    arguments = ["--study", config.study, "--out", str(folder), "--uri", whole(uri), "--baseline", "base", "--baseline", first]
    arguments += ["--audit", str(audit)] if audit.is_file() else []
    began = time.monotonic()
    with live_line("writing the report"):
        done = _run({"arguments": arguments, "stamp": str(paths.report_stamp(config.output, config.study))})
    if done not in ("written", "current"):
        console.problem(f"no report: {redacted(done)}")
        return None
    how = f"{time.monotonic() - began:.0f} s, report=false skips it" if done == "written" else "nothing has changed"
    console.result(f"report: {os.path.relpath(folder / 'report.html')} (and report.md; {how})")
    return folder


def _run(request: dict[str, Any]) -> str:
    """`written`, `current`, or the reason of a failure. The process ends with this one.

    The request goes by stdin: a command line, with a password in an address, could be read by every user of the machine.
    """
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-P", "-m", "harness.processes.new_worker", str(os.getpid()), MODULE]
    streams = {"input": json.dumps(request), "capture_output": True, "text": True, "timeout": LONGEST_S}
    try:
        done = subprocess.run(command, env=environment, check=False, **streams)
    except subprocess.TimeoutExpired:
        return f"python -m reports took longer than {LONGEST_S:.0f} s"
    if done.returncode == -signal.SIGINT:  # Ctrl-C reached that process alone
        raise KeyboardInterrupt
    lines = done.stderr.strip().splitlines() or [f"python -m reports ended with exit code {done.returncode}"]
    return done.stdout.strip() if done.returncode == 0 else lines[-1]
