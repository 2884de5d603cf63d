"""A session that was interrupted resumes at its round, and leaves nothing twice."""

import json
from pathlib import Path

import pytest
from launches import finish

from harness import paths
from harness.study import timing_session as timing
from harness.study.timing_session import Session

ROUNDS = ["model=base,albert", "measure.rounds=4", "measure.min_rounds=4"]
EACH = ["albert bag", "base bag", "base bag (A/A replicate)"]


def interrupted_after(launches, number: int):
    """The stand-in, which is interrupted like a command at the launch after so many."""

    def milliseconds(title: str, round_number: int) -> float:
        if len(launches.order) > number:
            raise KeyboardInterrupt
        return 1.0 + round_number

    launches.milliseconds = milliseconds


def sessions_of(output: Path) -> list[Path]:
    return sorted(path.parent for path in output.glob(f"sessions/*/{paths.SESSION}"))


@pytest.fixture
def interrupted(planned, launches):
    """Runs whose session was interrupted in its third round, after one launch of it; and what was launched."""
    items = planned(*ROUNDS)
    interrupted_after(launches, 7)
    session = Session(items)
    with pytest.raises(KeyboardInterrupt):
        session.run()
    launches.order.clear()
    launches.milliseconds = lambda title, number: 5.0 + number
    return items, session


def test_the_same_command_resumes_at_the_round_that_was_not_complete(interrupted, launches, output, capsys):
    items, before = interrupted
    session = Session(items)
    session.run()
    assert session.name == before.name
    assert {number for number, _ in launches.order} == {2, 3}
    assert [sorted(launches.of_round(number)) for number in (2, 3)] == [EACH] * 2  # a slow minute affects all of a round
    assert "1 A/A replicate, up to 4 rounds, resuming at round 3" in capsys.readouterr().out
    for item, timed in [*session.runs, *session.replicates]:
        found = timed.launches[item.inputs.data]
        assert [(one.round, one.latency.ms) for one in found] == [(0, 1.0), (1, 2.0), (2, 7.0), (3, 8.0)]
    assert sessions_of(output) == [session.folder]


def test_the_order_of_a_round_is_that_of_the_session_without_interruption(interrupted, launches):
    items, before = interrupted
    Session(items).run()
    resumed = launches.of_round(3)
    names = {timed.title: name for name, timed in before.timed.items()}
    assert len(names) == len(resumed) == 3
    whole = Session.__new__(Session)
    whole.__dict__ |= before.__dict__ | {"_peaks": {}, "_futile": 0}
    launches.order.clear()
    for timed in whole.timed.values():
        timed.launches.clear()
    whole._state["rounds"] = 0
    whole.run()
    assert launches.of_round(3) == resumed


@pytest.mark.long
def test_a_session_that_was_complete_is_not_launched_again(planned, launches):
    items = planned(*ROUNDS)
    first = Session(items)
    first.run()
    launches.order.clear()
    again = Session(items)
    again.run()
    assert (again.name, launches.order) == (first.name, [])
    assert [timed.launches for _, timed in again.runs] == [timed.launches for _, timed in first.runs]


def test_what_was_added_before_the_interruption_has_no_twin(planned, launches):
    """The baseline has its timing from this session, so its own launches are not those of another one."""
    items = planned(*ROUNDS)
    first = Session(items)
    first.run()
    finish(next(item for item in items if item.config.label == "base"), session=first.name)
    again = Session(items)
    assert again.name == first.name
    assert [item.config.label for item, _ in again.runs] == ["albert"]
    assert [timed.is_aa_replicate for _, timed in again.replicates] == [True]


def test_a_variant_that_failed_stays_out_of_its_session(planned, launches):
    items = planned(*ROUNDS)
    launches.failing = {"albert bag"}
    interrupted_after(launches, 7)
    with pytest.raises(KeyboardInterrupt):
        Session(items).run()
    launches.failing, launches.milliseconds = set(), lambda title, number: 1.0
    launches.order.clear()
    session = Session(items)
    session.run()
    assert "albert bag" not in {title for _, title in launches.order}
    (failed,) = (timed for item, timed in session.runs if item.config.label == "albert")
    assert failed.failed.startswith("RuntimeError: no such device")


@pytest.mark.long
@pytest.mark.parametrize("change", ["machine", "code", "more_shapes", "done", "held", "corrupt", "corrupt_launch"])
def test_another_session_is_begun_where_that_one_cannot_go_on(interrupted, planned, launches, monkeypatch, change):
    items, before = interrupted
    if change == "machine":
        monkeypatch.setattr(timing.facts, "device_name", lambda hardware: "another")
    elif change == "code":
        monkeypatch.setitem(timing.versions.VERSIONS, "measure", 0)
    elif change == "more_shapes":
        items = planned(ROUNDS[0] + ",windowed", *ROUNDS[1:])
    elif change == "done":
        before.finish()
    elif change == "corrupt":
        (before.folder / paths.SESSION).write_text("{")
    elif change == "corrupt_launch":
        next(before.folder.glob(f"*/*/{timing.COUNTED}")).write_text("{")
    if change == "held":
        with before.held():
            session = Session(items)
    else:
        session = Session(items)
    session.run()
    assert session.name != before.name
    assert {number for number, _ in launches.order} == {0, 1, 2, 3}


def test_peaks_are_not_measured_again(interrupted, launches):
    items, _ = interrupted
    launches.requests.clear()
    session = Session(items)
    session.run()
    assert not any(request.with_peak_flops for request in launches.requests)
    assert {one.peak_flops_per_s for _, timed in session.runs for one in timed.launches[items[0].inputs.data]} == {1e9}


@pytest.mark.long
def test_a_command_that_is_killed_while_it_adds_leaves_no_twin(run_harness, small, output, runs_of, monkeypatch):
    command = ["-m", *small, "study=s", "seed=1,2", "model=base", f"output={output}", "measure.repeats=3"]
    add_timing, calls = timing._add_timing, []

    def once(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        add_timing(*arguments)

    monkeypatch.setattr(timing, "_add_timing", once)
    assert run_harness(*command).returncode == 130
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    (session,) = sessions_of(output)
    assert json.loads((session / paths.SESSION).read_text())["done"] is True
    folders = list((output / "s").glob("replicate-*"))
    assert len(folders) == 1
    runs = runs_of(output, "s")
    assert len([run for run in runs if run.data.tags.get("replicate") == "true"]) == len(folders)
    assert {run.data.tags["session"] for run in runs} == {session.name}
