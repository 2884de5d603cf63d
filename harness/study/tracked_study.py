"""The study of a command in its trackers: begun with its plan, ended with its report, and where to look at it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import tags
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.study import identity, run_folder, sweep_report
from harness.study.plan import PlannedRun
from harness.tracking import run_log
from harness.tracking.trackers import Trackers

Plan = list[dict[str, str]]


@contextmanager
def tracked(planned: Sequence[PlannedRun], trackers: Trackers) -> Iterator[None]:
    """Begins each study of the planned runs in all trackers, and ends it, with its report after a sweep that ran anything."""
    studies = {(item.config.output, item.config.study): item.config for item in planned}
    called, before = run_folder.source(str(facts.git_state()["git_commit"] or "unknown")), _results(planned)
    for config in studies.values():
        _open(config, planned, called, trackers)
    interrupted = True
    try:
        yield
        interrupted = False
        trackers.wait()
    finally:
        for config in studies.values():
            is_new = len(planned) > 1 and _results(planned) != before
            report = _report(config, trackers) if is_new and not interrupted else None
            _close(config, planned, called, trackers, "killed" if interrupted else "finished", report)
        trackers.wait(interrupted)


def _results(planned: Sequence[PlannedRun]) -> list[int]:
    """When each result was last written, 0 for none."""
    files = [item.folder / "result.json" for item in planned]
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in files]


def _report(config: RunConfig, trackers: Trackers) -> Path | None:
    return sweep_report.write(config) if config.report and trackers.has_store else None


def _open(config: RunConfig, planned: Sequence[PlannedRun], called: dict[str, str], trackers: Trackers) -> None:
    plan = plan_of(planned, config)
    trackers.send(config, lambda backend: backend.open_study(plan, called))


def _close(
    config: RunConfig,
    planned: Sequence[PlannedRun],
    called: dict[str, str],
    trackers: Trackers,
    status: str,
    report: Path | None,
) -> None:
    plan = plan_of(planned, config)
    trackers.send(config, lambda backend: backend.close_study(plan, called, status, report))


def plan_of(planned: Sequence[PlannedRun], config: RunConfig) -> Plan:
    """What each planned run of this study is, in the order of running, and whether it has a result."""
    return [_entry(item) for item in planned if (item.config.output, item.config.study) == (config.output, config.study)]


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
