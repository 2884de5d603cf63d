"""Several runs at once, of one command or of several: the results of one after the other, and a kill leaves what can go on."""

import contextlib
import json
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from child_processes import PATIENCE_S, wait_for, workers
from small_study import STUDY, results

from harness import paths, processes
from harness.config.schema import SweepConfig
from harness.study import runner as process
from harness.study import supervisor
from harness.study.plan import plan, with_workers
from harness.study.runner import Command, LoadCheck, Outcome
from harness.study.schedule import End
from harness.tracking import run_log
from harness.tracking.run_log import State

AT_ONCE = "hardware.workers=2"
FINISHED = (End(State.finished), True)


@dataclass(eq=False)
class Run:
    """What scheduling needs of a planned run."""

    title: str
    needs: "Run | None" = None
    label: str = ""
    began: threading.Event = field(default_factory=threading.Event)
    config: SimpleNamespace = None
    place: int = 0


@pytest.fixture
def in_order(monkeypatch):
    """Runs all by this stand-in for what starts workers, so many at once."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")  # the load is not looked at
    monkeypatch.setattr(supervisor.timing_session, "prepare", lambda planned: None)
    monkeypatch.setattr(supervisor, "Tables", lambda planned: SimpleNamespace(end=lambda run, ran: None, close=lambda: None))

    def run_all(runs: list[Run], workers: int, run_to_end, **sweep) -> bool:
        hardware, settings = SimpleNamespace(workers=workers), SweepConfig(timing=False, **sweep)
        for place, run in enumerate(runs):
            run.config, run.place = SimpleNamespace(sweep=settings, hardware=hardware, study="s", output="multirun"), place
        monkeypatch.setattr(process, "run_to_end", run_to_end)
        return supervisor.run_in_order(runs, None, LoadCheck())

    return run_all


def test_two_run_at_once_and_never_more(in_order):
    running, most = [], []
    lock, both = threading.Lock(), threading.Barrier(2, timeout=60)

    def run_to_end(run: Run, command: Command, again: bool) -> Outcome:
        with lock:
            running.append(run)
            most.append(len(running))
        both.wait()
        with lock:
            running.remove(run)
        return FINISHED

    assert in_order([Run(str(number)) for number in range(6)], 2, run_to_end)
    assert len(most) == 6
    assert max(most) == 2


@pytest.mark.parametrize(("count", "calls"), [(2, 1), (1, 0)])
def test_timing_is_prepared_once_where_a_worker_is_free_before_the_end(in_order, count, calls, monkeypatch):
    runs, began_before, prepared = [Run(str(number)) for number in range(4)], [], threading.Event()

    def run_to_end(run: Run, command: Command, again: bool) -> Outcome:
        run.began.set()
        if run is runs[-1] and count > 1:  # ends when the others have and timing was prepared
            assert prepared.wait(60)
        return FINISHED

    def prepare(planned: list[Run]) -> None:
        began_before.append([run.title for run in planned if run.began.is_set()])
        prepared.set()

    monkeypatch.setattr(supervisor.timing_session, "prepare", prepare)
    assert in_order(runs, count, run_to_end)
    assert began_before == [["0", "1", "2", "3"]] * calls


def test_a_run_starts_after_what_it_needs(in_order):
    first, other = Run("pretraining"), Run("other")
    second, ended = Run("task", first), []

    def run_to_end(run: Run, command: Command, again: bool) -> Outcome:
        run.began.set()
        if run is first:
            assert other.began.wait(60), "the other one was not started beside it"
            assert not second.began.is_set()
        ended.append(run.title)
        return FINISHED

    assert in_order([first, second, other], 2, run_to_end)
    assert ended.index("pretraining") < ended.index("task")


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_of_another_command_comes_last_with_what_needs_it(in_order, count):
    held, free, tried = Run("held"), Run("free"), []
    needs_held = Run("needs held", held)

    def run_to_end(run: Run, command: Command, again: bool) -> Outcome | None:
        tried.append((run.title, again))
        return None if run is held and tried.count((run.title, True)) < 2 else FINISHED

    assert in_order([held, needs_held, free], count, run_to_end)
    assert (held.label, needs_held.label, free.label) == ("[1/3] held", "[2/3] needs held", "[3/3] free")
    others = [one for one in tried if one != ("free", False)]
    assert others == [("held", False), ("held", True), ("held", True), ("needs held", False)]
    assert tried.index(("free", False)) < tried.index(("held", True))


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_starts_after_a_stop(in_order, count):
    ran = []

    def run_to_end(run: Run, command: Command, again: bool) -> Outcome:
        ran.append(run.title)
        return (End(State.failed), True) if run.title == "1" else FINISHED

    assert not in_order([Run(str(number)) for number in range(9)], count, run_to_end, on_failure="stop")
    assert 2 <= len(ran) <= 1 + count


def test_what_a_run_raises_ends_the_others(in_order):
    runs, left = [Run("raises"), Run("waits")], []

    def run_to_end(run: Run, command: Command, again: bool) -> Outcome:
        run.began.set()
        if run.title == "raises":
            runs[1].began.wait(60)
            raise BrokenPipeError
        command.interrupted.wait(60)
        left.append(run.title)
        return FINISHED

    with pytest.raises(BrokenPipeError):
        in_order(runs, 2, run_to_end)
    assert left == ["waits"]


def times(output: Path) -> list[tuple[int, int]]:
    """Begin and end of each run, in milliseconds."""
    folders = [path.parent for path in paths.matching(output, "*/*/run.json")]
    return [(json.loads((one / "run.json").read_text())["started"], run_log.result(one)["time"]) for one in folders]


def without_hash(found: dict[str, object]) -> dict[str, object]:
    """Results by the name of a run without its fingerprint: the number of workers is a fact of it."""
    return {name.partition(" ")[0].rpartition("-")[0] + name[len(name.partition(" ")[0]) :]: one for name, one in found.items()}


def losses(output: Path) -> dict[str, list[float]]:
    found = {}
    for path in paths.matching(output, "*/*/result.json"):
        entries = run_log.Reader(path.parent).new_entries()
        found[path.parent.name.rpartition("-")[0]] = [one["value"] for one in entries if one.get("key", "").endswith("/loss")]
    return found


@pytest.mark.long
@pytest.mark.skipif(len(psutil.Process().cpu_affinity()) < 2, reason="two workers need two cores")
def test_results_are_those_of_one_worker_and_of_a_new_process_bit_by_bit(run_harness, tmp_path, monkeypatch):
    alone = [word for word in STUDY if not word.startswith("model=")]
    for name, more, forks in (("new", [], "0"), ("one", [], "1"), ("two", [AT_ONCE], "1")):
        monkeypatch.setenv(processes.FORK, forks)
        done = run_harness(*alone, *more, f"output={name}", "tracking=none")
        assert done.returncode == 0, done.stdout + done.stderr
    new, one, two = tmp_path / "new", tmp_path / "one", tmp_path / "two"
    assert len(losses(one)) == 4
    assert losses(new) == losses(one) == losses(two)
    assert without_hash(results(new)) == without_hash(results(one)) == without_hash(results(two))
    spans = times(two)
    assert any(a < b_end and b < a_end for at, (a, a_end) in enumerate(spans) for b, b_end in spans[:at]), spans


@pytest.mark.long
def test_the_cores_are_divided(compose, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.hardware.facts.cores", lambda: 5)
    (item,) = plan(compose("task=bag", "scale=tiny", AT_ONCE, "task.grammar.train_examples=20", f"output={tmp_path}"))
    assert item.config.hardware.threads == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "workers"),
    [
        (["-m", "seed=1,2"], 5),
        (["-m", "seed=1,2", "scale=mini"], 5),
        (["-m", "seed=1,2", "hardware.workers=3"], 3),
        ([], 1),  # a single run has all cores
        (["-m", "seed=1,2", "scale=tiny,small"], 1),  # larger models use them
        (["-m", "seed=1,2", "model.init_from=PUBLISHED"], 1),
        (["-m", "seed=1,2", "hardware.threads=2"], 1),  # who says the threads says how many runs share the cores
        (["-m", "seed=1,2", "hardware.device=cuda"], 1),
        (["-m", "seed=1,2", "sweep.budget_minutes=5"], 1),
    ],
)
def test_small_models_of_a_sweep_train_one_on_each_core(compose, command, workers):
    runs = with_workers(compose("task=bag", *command), 5)
    assert {run.hardware.workers for run in runs} == {workers}


ENDLESS = ["finetune.epochs=1000000", "finetune.max_steps=1000000", "measure=none", "tracking=none", "study=s", "output=out"]


@pytest.mark.long
@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGKILL))]
)
def test_the_end_of_the_command_ends_both_workers(number, start_harness, small, tmp_path):
    command = ["-m", *small, AT_ONCE, "seed=1,2,3", *ENDLESS]
    process = start_harness(*command)
    found = wait_for(lambda: both if len(both := workers(process.pid)) == 2 else None, process)
    wait_for(lambda: len(list(tmp_path.glob("out/s/*/metrics.jsonl"))) == 2, process)
    process.send_signal(number)
    _, err = process.communicate()
    psutil.wait_procs(found, timeout=PATIENCE_S)
    assert [one for one in found if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130), err
    if number != signal.SIGKILL:
        states = [json.loads(path.read_text())["end"]["state"] for path in tmp_path.glob("out/s/*/run.json")]
        assert states == ["killed", "killed"]


@pytest.mark.long
def test_a_killed_worker_does_not_end_the_other_one(start_harness, small, tmp_path):
    steps = ["finetune.epochs=1000000", "finetune.max_steps=60", *ENDLESS[2:]]
    command = ["-m", *small, AT_ONCE, "seed=1,2", *steps]
    process = start_harness(*command)
    (one, _) = wait_for(lambda: both if len(both := workers(process.pid)) == 2 else None, process)
    with contextlib.suppress(psutil.NoSuchProcess):
        one.kill()
    out, err = process.communicate()
    assert process.returncode == 1, out + err
    assert out.count(": killed: ended by SIGKILL") == 1
    assert out.count(": finished in ") == 1
    again = start_harness(*command)
    out, err = again.communicate()
    assert again.returncode == 0, out + err
    assert out.count("finished already, skipped") == 1


@pytest.mark.long
def test_four_commands_share_a_sweep_and_one_that_is_killed_loses_nothing(start_harness, small, tmp_path, runs_of):
    """Nothing runs twice: every run has one start and one end, and each command waits for those of the others."""
    command = ["-m", *small, "hardware.threads=1", "seed=range(1,13)", "measure=none", "study=s", "output=out", "report=false"]
    started = [start_harness(*command) for _ in range(4)]
    wait_for(lambda: len(list(tmp_path.glob("out/s/*/result.json"))) >= 2 and workers(started[0].pid), started[0])
    started[0].kill()
    said = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started[1:]] == [0, 0, 0], said
    folders = list(tmp_path.glob("out/s/base-*"))
    assert len(folders) == 12
    assert {run_log.result(folder)["status"] for folder in folders} == {"finished"}
    finished = [line for text in said for line in text.splitlines() if ": finished in " in line]
    by_run = {line.partition("] ")[2].partition(":")[0] for line in finished}
    assert len(finished) == len(by_run) >= 11  # the killed command may have ended one that it could not say
    others = [text.count(": finished in ") for text in said[1:]]
    assert min(others) >= 1, others  # none stands behind a run of another
    tracked = runs_of(tmp_path / "out", "s")
    ended = [run.data.tags["seed"] for run in tracked if run.info.status == "FINISHED"]
    assert sorted(ended, key=int) == [str(seed) for seed in range(1, 13)]
    assert {run.info.status for run in tracked} <= {"FINISHED", "KILLED"}  # that of the killed command, tried again by another
    assert len(tracked) <= 13


@pytest.mark.parametrize(("workers", "expected"), [(1, 60.0), (2, 40.0), (3, 40.0)])
def test_a_forecast_divides_the_time_but_not_a_run(workers, expected):
    from harness.study import forecast

    assert forecast.training_s([10.0, 40.0, 10.0], workers) == expected
    assert forecast.training_s([], workers) == 0.0
