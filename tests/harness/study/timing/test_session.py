"""Who is launched in a session, how often and in which order; the launches themselves are replaced by what one would say."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from harness import paths
from harness.measure.launch import Outcome
from harness.measure.records import Measured, from_json
from harness.study.plan import PlannedRun, plan
from harness.study.timing import session as sessions
from harness.study.timing import summary
from harness.study.timing.session import Session
from harness.tracking import run_log

ARGUMENTS = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40"]


@pytest.fixture
def planned(compose, output):
    """Cells of a command line, their data prepared."""
    return lambda *arguments: plan(compose("-m", *ARGUMENTS, *arguments, f"output={output}"))


class Launches:
    """Stands in for the processes: records what was launched, and returns the load that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launch_of: Callable) -> None:
        self._launch_of = launch_of
        self.order: list[tuple[int, str]] = []
        self.foreign = lambda title, number, attempt: 0.0
        self.failing: set[str] = set()
        monkeypatch.setattr(sessions, "launch", self._one)

    def _one(self, config, request, folder):
        number, again = request.round, " (A/A replicate)" if "-again-" in folder.parent.name else ""
        title = f"{config.label} {config.task.name}{again}"
        attempt = self.order.count((number, title))
        self.order.append((number, title))
        folder.mkdir(parents=True, exist_ok=True)
        if title in self.failing:
            (folder / "log.txt").write_text("RuntimeError: no such device")
            return Outcome(Measured(), 1, folder / "log.txt")
        timing = self._launch_of(0, [1.0], foreign_cpus=self.foreign(title, number, attempt))
        return Outcome(Measured(timing=timing), 0, folder / "log.txt")

    def of_round(self, number: int) -> list[str]:
        return [title for at, title in self.order if at == number]


@pytest.fixture
def launches(monkeypatch, launch_of) -> Launches:
    return Launches(monkeypatch, launch_of)


def run(cells: list[PlannedRun]) -> Session:
    session = Session(cells)
    session.run()
    return session


def finish(item: PlannedRun) -> None:
    item.folder.mkdir(parents=True)
    run_log.write_json(item.folder / "result.json", {"status": "finished", "metrics": {}})


def test_every_round_launches_every_variant_once_and_the_baseline_twice_in_an_order_of_its_own(planned, launches):
    cells = planned("model=base,albert,windowed,static", "measure.rounds=6")
    session = run(cells)
    expected = sorted(["base bag", "base bag (A/A replicate)", "albert bag", "windowed bag", "static bag"])
    assert [sorted(launches.of_round(number)) for number in range(6)] == [expected] * 6
    assert len({tuple(launches.of_round(number)) for number in range(6)}) > 1
    assert [launch.round for launch in session.of(cells[0]).launches] == list(range(6))


def test_no_other_command_on_this_output_times_anything_during_a_launch(planned, launches, output, monkeypatch):
    held: list[bool] = []
    launch = sessions.launch

    def looking(config, request, folder):
        try:
            with FileLock(paths.timing_lock(str(output)), timeout=0):
                held.append(False)
        except Timeout:
            held.append(True)
        return launch(config, request, folder)

    monkeypatch.setattr(sessions, "launch", looking)
    run(planned("model=base", "measure.rounds=1"))
    assert held == [True, True]


def test_every_round_is_told(planned, launches, capsys):
    run(planned("model=base", "measure.rounds=3"))
    rounds = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Timing: round")]
    assert [line.split(" done")[0] for line in rounds] == [f"Timing: round {number} of 3" for number in (1, 2, 3)]
    assert rounds[-1].endswith("about 0 s left")


def test_seeds_share_the_launches_of_their_network(planned, launches):
    cells = planned("model=base,albert", "seed=1,2,3", "measure.rounds=2")
    session = run(cells)
    assert len(launches.order) == 2 * 3
    seen = {item.config.label: [] for item in cells}
    for item in cells:
        seen[item.config.label].append(session.of(item))
    for timed in seen.values():
        assert len(timed) == 3
        assert timed[0] is timed[1] is timed[2]
    assert seen["base"][0] is not seen["albert"][0]


def test_every_task_has_a_pair_of_its_own(planned, launches):
    run(planned("model=base,albert", "task=bag,order", "measure.rounds=1"))
    assert sorted(title for title in launches.of_round(0) if "A/A" in title) == [
        "base bag (A/A replicate)",
        "base order (A/A replicate)",
    ]


@pytest.mark.parametrize(
    ("chosen", "replicates"),
    [
        (["model=albert,base,static"], {"base"}),
        (["model=base", "model.attention_window=8,null,32"], {"base"}),
        (["model=albert,static"], {"albert", "static"}),
    ],
    ids=["base", "base_as_it_is", "another_stands_in"],
)
def test_the_baseline_is_the_one_that_is_timed_twice(planned, launches, chosen, replicates):
    run(planned(*chosen, "measure.rounds=1"))
    (replicate,) = (title for title in launches.of_round(0) if "A/A" in title)
    assert replicate.removesuffix(" bag (A/A replicate)") in replicates


def test_a_baseline_that_is_finished_is_timed_twice_again_beside_what_is_new(planned, launches):
    """Its own launches belong to another session, so both halves of the pair are new."""
    cells = planned("model=base,albert", "measure.rounds=1")
    finish(next(item for item in cells if item.config.label == "base"))
    session = run(cells)
    assert sorted(launches.of_round(0)) == ["albert bag", "base bag (A/A replicate)", "base bag (A/A replicate)"]
    assert [timed.number for _, timed in session.replicates] == [1, 2]
    assert session.replicates[0][1].folder != session.replicates[1][1].folder


def test_a_seed_that_is_finished_does_not_time_the_baseline_a_third_time(planned, launches):
    cells = planned("model=base", "seed=1,2", "measure.rounds=1")
    finish(cells[0])
    run(cells)
    assert sorted(launches.of_round(0)) == ["base bag", "base bag (A/A replicate)"]


def test_nothing_is_launched_where_everything_is_finished_or_nothing_is_measured(planned, launches):
    cells = planned("model=base", "measure.rounds=1")
    finish(cells[0])
    run(cells)
    run(planned("model=base", "measure=none"))
    assert launches.order == []


def test_a_cell_that_is_run_again_is_timed_again(planned, launches):
    cells = planned("model=base", "measure.rounds=1", "rerun=true")
    finish(cells[0])
    run(cells)
    assert sorted(launches.of_round(0)) == ["base bag", "base bag (A/A replicate)"]


def test_a_launch_beside_other_work_is_repeated_and_the_quietest_counts(planned, launches):
    launches.foreign = lambda title, number, attempt: [1.5, 0.9, 1.2, 0.1][attempt] if title == "base bag" else 0.0
    cells = planned("model=base", "measure.rounds=1", "measure.retries=2", "measure.foreign_cpus=0.5")
    (kept,) = run(cells).of(cells[0]).launches
    assert launches.of_round(0).count("base bag") == 3
    assert (kept.foreign_cpus, kept.repeated) == (0.9, 2)


def test_where_others_stay_launches_are_soon_repeated_no_more(planned, launches):
    launches.foreign = lambda title, number, attempt: 2.0
    run(planned("model=base,albert,static", "measure.rounds=3", "measure.retries=1"))
    assert len(launches.order) == 3 * 4 + sessions.FUTILE_REPEATS


def test_a_quiet_launch_is_not_repeated_and_neither_is_one_whose_load_is_unknown(planned, launches):
    launches.foreign = lambda title, number, attempt: None if "A/A" in title else 0.5
    run(planned("model=base", "measure.rounds=1", "measure.retries=2", "measure.foreign_cpus=0.5"))
    assert len(launches.order) == 2


def test_a_variant_whose_launch_fails_takes_no_further_part_and_the_others_go_on(planned, launches, capsys):
    launches.failing = {"albert bag"}
    cells = planned("model=base,albert", "measure.rounds=3")
    session = run(cells)
    assert [title for _, title in launches.order].count("albert bag") == 1
    assert session.of(next(item for item in cells if item.config.label == "albert")) is None
    assert len(session.of(next(item for item in cells if item.config.label == "base")).launches) == 3
    assert "Timing of albert bag failed: RuntimeError: no such device" in capsys.readouterr().out


def test_a_real_launch_leaves_times_of_each_pass(compose, output):
    settings = ["measure.rounds=1", "measure.retries=0", "measure.repeats=4", "measure.lengths=[16,9999]"]
    cells = plan(compose(*ARGUMENTS, *settings, f"output={output}"))
    session = run(cells)
    (launch,) = session.of(cells[0]).launches
    assert len(launch.latency.raw_ms) == 4
    assert [point.length for point in launch.points] == [16]
    written = Path(session.of(cells[0]).folder, "launch-0", "measured.json")
    assert from_json(Measured, json.loads(written.read_text())).timing == launch
    rates = summary.values([launch])
    assert rates["inference/tokens_per_s"] * launch.throughput.seconds == pytest.approx(launch.throughput.tokens)
    counted = launch.flops_forward / (rates["inference/latency_ms_p50"] / 1e3)
    assert rates["inference/mfu"] * launch.peak_flops_per_s == pytest.approx(counted)
    (replicate,) = session.replicates[0][1].launches
    assert replicate.flops_forward == launch.flops_forward
