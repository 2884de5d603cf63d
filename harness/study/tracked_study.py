"""The study of a command in its trackers: begun with its plan, ended with its report, and where to look at it.

The report is written by `reports.after_sweep` in a process of its own. Whatever goes wrong there is one line; the sweep has its
results.
"""

import functools
import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec

from harness import document, paths, processes, tags
from harness.comparison.paired import grouped
from harness.config import command_line
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.redact import redacted
from harness.study import plan_file, run_folder
from harness.study.plan import PlannedRun
from harness.terminal import console, counted, live_line
from harness.tracking import run_log
from harness.tracking.trackers import Backend, Trackers

LONGEST_REPORT_S = 900.0

REPORTER = "harness.reports.after_sweep"


def baselines(planned: Sequence[PlannedRun]) -> list[str]:
    """`base`, the unchanged model of the arm that the command names first, and this arm: the first that the study has counts.

    The arm is that of a pretraining only if the command runs nothing else.
    """
    tasks = [run for run in planned if not run.inputs.is_pretraining]
    first = min(tasks or planned, key=lambda run: run.place).config
    return ["base", first.model_name, first.label]


def write_report(config: RunConfig, baselines: Sequence[str]) -> Path | None:
    """Folder of the report on this study, whose first table is shown; None, and why, where it could not be written.

    A report that is up to date stays unchanged, whichever command wrote it.
    """
    folder, audit = paths.report_folder(config.output, config.study), paths.audit_file(config.output)
    uri = config.tracking.uri or paths.database_uri(config.output)
    arguments = ["--study", config.study, "--to", str(folder), "--tracking.uri", uri]
    arguments += [f"--baseline={name}" for name in baselines]
    arguments += ["--audit", str(audit)] if audit.is_file() else []
    try:
        with live_line("writing the report"):
            request = {"arguments": arguments, "stamp": str(paths.report_stamp(config.output, config.study))}
            done = asked_of_reports(REPORTER, request)
    except RuntimeError as error:
        console.problem(f"no report: {redacted(str(error))}")
        return None
    command = plan_file.called(config.output, config.study, "reports study=")
    command += f" tracking.uri={shlex.quote(config.tracking.uri)}" if config.tracking.uri else ""
    if shown := document.first_screen(document.read((folder / document.FILE).read_bytes()).screen, command):
        console.result(f"\n{shown}\n")
    console.result(f"Report{'' if done == 'written' else ' (unchanged)'}: {os.path.relpath(folder / 'report.html')}")
    return folder


JUDGE = "harness.reports.after_look"


def judged(planned: Sequence[PlannedRun], **asked: str | None) -> Any:
    """What the reports say of these finished runs, by their folders; RuntimeError where they cannot."""
    config = planned[0].config
    folders = [str(run.folder) for run in planned]
    request = {"folders": folders, "study": config.study, "output": config.output, "baselines": baselines(planned)}
    return asked_of_reports(JUDGE, request | asked)


def show_table(planned: Sequence[PlannedRun], heading: str = "") -> None:
    """Prints the first table of the report on the runs that have finished, where it compares arms."""
    finished = [run for run in planned if run_log.finished(run.folder) is not None]
    try:
        screen = msgspec.convert(judged(finished), document.Screen | None) if finished else None
    except RuntimeError as error:
        console.problem(f"no table: {redacted(str(error))}")
        return
    if screen is not None:
        console.result("\n".join(["", *filter(None, [heading]), document.first_screen(screen, is_last=False), ""]))


class Tables:
    """The tables that a sweep shows before its report: after the first of several seeds, and before the networks are timed."""

    def __init__(self, planned: Sequence[PlannedRun]) -> None:
        config, tasks = planned[0].config, [run for run in planned if not run.inputs.is_pretraining] or [*planned]
        of_one_study = len({(run.config.output, run.config.study) for run in planned}) == 1
        self._planned = planned if config.report and of_one_study and command_line.sweep() is None else []
        self._first = [run for run in tasks if run.identity.seed == tasks[0].identity.seed] if self._planned else []
        self._open = {id(run) for run in self._first} if len(self._first) < len(tasks) else set()
        seed = tasks[0].identity.seed
        title = f"First results (seed {seed}, {len(self._first)} of {counted(len(planned), 'run')}):"
        self._thread = threading.Thread(target=show_table, args=[self._first, title], name="first table", daemon=True)

    def end(self, run: PlannedRun, ran: bool) -> None:
        """The run has ended, or was skipped: after the last one of the first seed the table is made in the background."""
        if id(run) in self._open:
            self._open.discard(id(run))
            if not self._open and ran:
                self._thread.start()

    def show(self) -> None:
        """The table of all runs."""
        self.close()
        if self._planned:
            show_table(self._planned, "All runs finished; before timing:")

    def close(self) -> None:
        """Waits for what is being made."""
        if self._thread.is_alive():
            self._thread.join()


def asked_of_reports(module: str, request: dict[str, Any]) -> Any:
    """What a module of the reports prints, as JSON; RuntimeError with its reason where it fails. It ends with this process.

    The request goes by stdin: a command line, with a password in an address, could be read by every user of the machine.
    """
    try:
        done = subprocess.run(
            processes.new_worker(module, []),
            env=os.environ | processes.importable(),
            check=False,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=LONGEST_REPORT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"python -m reports took longer than {LONGEST_REPORT_S:.0f} s") from error
    if done.returncode == -signal.SIGINT:  # Ctrl-C; the main thread hears of it, too, unless it reached that process alone
        raise KeyboardInterrupt if threading.current_thread() is threading.main_thread() else SystemExit
    if done.returncode:
        raise RuntimeError([f"python -m reports ended with exit code {done.returncode}", *done.stderr.strip().splitlines()][-1])
    return json.loads(done.stdout)


@contextmanager
def tracked(planned: Sequence[PlannedRun], trackers: Trackers, waits: bool = True) -> Iterator[None]:
    """Begins each study of the planned runs in all trackers, and ends it, with its report after a sweep.

    Without `waits`, what is on its way then is left to the next wait for the trackers, and there is no report. The job of a
    launcher writes none.
    """
    called = run_folder.source(str(facts.git_state()["git_commit"] or "unknown"))
    studies = grouped(((run.config.output, run.config.study), run) for run in planned).values()
    for runs in studies:
        trackers.send(runs[0].config, methodcaller("open_study", plan_of(runs), called))
    status, tables = "killed", []
    try:
        yield
        if waits:
            trackers.wait()
            has_report = command_line.sweep() is None and trackers.has_store
            for runs in studies if has_report and len(planned) > 1 else ():
                if runs[0].config.report and write_report(runs[0].config, baselines(runs)):
                    tables.append(runs[0].config)
            if has_report and len(planned) == 1 and run_log.finished(planned[0].folder):
                single, place = planned[0].config, os.path.relpath(planned[0].folder)
                if single.report and (planned[0].folder / run_log.TIMING).exists():
                    show_table(planned)
                command = plan_file.called(single.output, single.study, "reports study=")
                console.result(f"Results: {place}. Report: {command}. To compare: -m model=A,B")
        status = "finished"
    finally:
        for runs in studies:
            config = runs[0].config
            report = paths.report_folder(config.output, config.study)  # the one on disk, whichever command has written it
            here = report if (report / "report.md").is_file() else None
            trackers.send(config, methodcaller("close_study", plan_of(runs), called, status, here))
        if waits or status == "killed":
            trackers.wait(interrupted=status == "killed")
    for config in tables:
        trackers.send(config, functools.partial(_show_address, config))
    trackers.wait()


def _show_address(config: RunConfig, backend: Backend) -> None:
    if backend.table:
        command = "" if config.tracking.uri else f"python -m harness ui output={config.output}, then "
        console.result(f"MLflow: {command}{backend.table}")


def plan_of(planned: Sequence[PlannedRun]) -> list[dict[str, str]]:
    """Tags of each planned run in running order, and whether it has a result."""
    return [
        run.identity.names | {"folder": run.folder.name, tags.STATUS: result["status"] if result else "to run"}
        for run, result in zip(planned, [run_log.result(run.folder) for run in planned], strict=True)
    ]
