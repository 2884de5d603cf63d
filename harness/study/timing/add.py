"""Times the finished runs of a command, and adds what was measured to them."""

import uuid

from filelock import FileLock

from harness import paths, tags
from harness.measure import launch
from harness.measure.records import Launch
from harness.study import run_folder
from harness.study.plan import PlannedRun
from harness.study.screen import Screen
from harness.study.timing import summary
from harness.study.timing.session import Session, Timed, has_timing, is_measured, is_to_be_timed
from harness.tracking import run_log
from harness.tracking.trackers import TrackedRun, Trackers


def prepare(planned: list[PlannedRun]) -> None:
    """Starts what a later `time_runs` begins with, where there will be something to time."""
    if planned[0].config.sweep.timing and any(is_to_be_timed(item) for item in planned):
        launch.prepare()


def time_runs(planned: list[PlannedRun], trackers: Trackers, screen: Screen | None = None) -> None:
    """Times the finished runs that are to be timed, and adds it to them; a failed launch leaves a run as it was."""
    for item in planned:
        if is_measured(item) and not has_timing(item) and (item.folder / summary.FILE).exists():
            _add_timing(item, *summary.read(item.folder), trackers)  # an earlier command was killed while it added this
    session = Session(planned)
    if session.kept is None:
        return
    with session.kept.held():
        session.run(screen)
        for item, timed in session.replicates:
            if timed.failed is None:
                _track_replicate(item, timed, session.name, trackers)
        for item, timed in session.runs:
            if timed.failed is None:
                is_new = _supersede(item, session.name)
                _add_timing(item, session.name, timed.launches[item.inputs.data], trackers)
                if is_new:
                    _send(item, trackers)
        session.kept.finish()


def _supersede(item: PlannedRun, session: str) -> bool:
    """Makes a run that another session has timed a new attempt, whose timing is still to be added; whether it did."""
    with FileLock(item.folder / paths.LOCK):
        if not (is_measured(item) and has_timing(item)):
            return False
        record = run_folder.read(item.folder)
        if record["tags"].pop(tags.SESSION) == session:
            return False
        # of two attempts reports count the one that started later
        run_folder.write(item.folder, record | {"attempt": uuid.uuid4().hex, "started": record["started"] + 1})
        return True


def _send(item: PlannedRun, trackers: Trackers) -> None:
    record = run_folder.read(item.folder)
    trackers.send(item.config, lambda backend: backend.agree(record, item.folder))


def _add_timing(item: PlannedRun, session: str, launches: list[Launch], trackers: Trackers) -> None:
    """Adds launches to a finished run: to its folder, then in MLflow. The record of the run names the session last."""
    with FileLock(item.folder / paths.LOCK):
        if not is_measured(item) or has_timing(item):  # meanwhile another command ran it again, or timed it
            return
        record, result = run_folder.read(item.folder), run_log.result(item.folder)
        record["tags"][tags.SESSION] = session
        run_log.drop_later(item.folder, summary.FILE)  # of another session, or of a command that was killed here
        reader = run_log.Reader(item.folder)
        reader.new_entries()
        log = summary.write(item.folder, session, launches, result["metrics"].get("model/flops_forward"))
        log.finish(result["status"], result["time"])
        entries = reader.new_entries()
        trackers.send(item.config, lambda backend: backend.add(record, item.folder, entries))
        run_folder.write(item.folder, record)


def _track_replicate(item: PlannedRun, timed: Timed, session: str, trackers: Trackers) -> None:
    """Tracks a second timing of the baseline as a run of its own, without training."""
    number = "2" if timed.is_aa_replicate else "1"  # the first one of a baseline that another session timed
    folder = item.folder.with_name(f"replicate-{session}-{number}-{item.folder.name}")
    if run_log.result(folder) is not None:  # an earlier command was interrupted after it had added this
        known = run_folder.read(folder)
        trackers.send(item.config, lambda backend: backend.agree(known, folder))
        return
    record = run_folder.record(item.config, item.inputs, item.lifted)
    record["name"] += " (A/A replicate)"
    record["tags"] |= {tags.SESSION: session, tags.REPLICATE: "true", tags.ROLE: tags.ROLE_REPLICATE}
    run_folder.prepare(folder, item.config, record)
    summary.write(folder, session, timed.launches[item.inputs.data]).finish("finished")
    tracked = TrackedRun(trackers, item.config, record, folder)
    tracked.add(run_log.Reader(folder).new_entries())
    tracked.end("finished")
