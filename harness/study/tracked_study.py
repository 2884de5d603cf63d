"""The study of a command in its trackers: begun with its plan, ended with its report, and where to look at it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness import paths, tags
from harness.config import launched
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.study import identity, run_folder, sweep_report
from harness.study.plan import PlannedRun
from harness.terminal import console
from harness.tracking import run_log
from harness.tracking.trackers import Trackers


@dataclass(frozen=True)
class _Study:
    """The runs of a command that belong to one study, on their way to the trackers."""

    config: RunConfig  # of any of them
    planned: Sequence[PlannedRun]
    trackers: Trackers
    called: dict[str, str]  # tags of the command

    def open(self) -> None:
        plan = plan_of(self.planned)
        self.trackers.send(self.config, lambda backend: backend.open_study(plan, self.called))

    def write_report(self) -> bool:
        """Whether there is a report on the runs as the store has them."""
        writes = self.config.report and self.trackers.has_store
        return writes and sweep_report.write(self.config, self._first_arm()) is not None

    def close(self, status: str) -> None:
        """The study gets the report on disk, whichever command has written it."""
        plan, report = plan_of(self.planned), paths.report_folder(self.config.output, self.config.study)
        kept = report if (report / "report.md").is_file() else None
        self.trackers.send(self.config, lambda backend: backend.close_study(plan, self.called, status, kept))

    def _first_arm(self) -> str:
        """The arm that the command names first; of pretrainings only where it runs nothing else."""
        tasks = [item for item in self.planned if item.inputs.data is not None]
        return min(tasks or self.planned, key=lambda item: item.place).config.label

    def show_table(self) -> None:
        tables: list[str | None] = []
        self.trackers.send(self.config, lambda backend: tables.append(backend.table))
        self.trackers.wait()
        for table in filter(None, tables):
            command = "" if self.config.tracking.uri else f" (start python -m harness ui --output {self.config.output} first)"
            console.result(f"table: {table}{command}")


@contextmanager
def tracked(planned: Sequence[PlannedRun], trackers: Trackers, waits: bool = True) -> Iterator[None]:
    """Begins each study of the planned runs in all trackers, and ends it, with its report after a sweep.

    Without `waits`, what is on its way then is left to the next wait for the trackers, and there is no report. The job of a
    launcher writes none.
    """
    called = run_folder.source(str(facts.git_state()["git_commit"] or "unknown"))
    groups: dict[tuple[str, str], list[PlannedRun]] = {}
    for item in planned:
        groups.setdefault((item.config.output, item.config.study), []).append(item)
    studies = [_Study(several[0].config, several, trackers, called) for several in groups.values()]
    for study in studies:
        study.open()
    status, reported = "killed", []
    try:
        yield
        if waits:
            trackers.wait()
            is_sweep = len(planned) > 1 and launched.sweep() is None
            reported = [study for study in studies if is_sweep and study.write_report()]
        status = "finished"
    finally:
        for study in studies:
            study.close(status)
        if waits or status == "killed":
            trackers.wait(interrupted=status == "killed")
    for study in reported:
        study.show_table()


def plan_of(planned: Sequence[PlannedRun]) -> list[dict[str, str]]:
    """What each planned run is, in the order of running, and whether it has a result."""
    return [_entry(item) for item in planned]


def _entry(item: PlannedRun) -> dict[str, str]:
    result = run_log.result(item.folder)
    known = {
        tags.ARM: item.config.label,
        tags.SCALE: item.config.scale_name,
        tags.TASK: identity.task_of(item.config, item.inputs),
        tags.SEED: str(identity.seed_of(item.config, item.inputs)),
        "folder": item.folder.name,
        tags.STATUS: result["status"] if result else "to run",
    }
    return known | (
        {tags.PRETRAIN_SEED: str(item.config.pretrain.seed)} if item.inputs.pretraining or not item.inputs.data else {}
    )
