"""Runs that do not finish: which others go on, when the sweep stops, and what is said; the runs themselves are replaced."""

import pytest

from harness.processes.ending import Ending
from harness.study import runner as process
from harness.study import supervisor
from harness.study.schedule import End
from harness.tracking.run_log import State

SMALL = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=40"]
BROKEN = End(State.failed, "RuntimeError: no room")
OTHER = End(State.failed, "KeyError: 'x'")
DIVERGED = End(State.diverged, "the loss of step 3 is nan")
FINISHED = End(State.finished)


@pytest.fixture
def ended(compose, output, monkeypatch, capsys):
    """Exit code, titles of the runs that were started, whether timings followed, and what a sweep of these ends prints."""

    def sweep(ends: list[End], *arguments: str) -> tuple[int, list[str], bool, list[str]]:
        started, timed, left = [], [], list(ends)

        def run_to_end(run, command, again):
            started.append(run.title)
            return left.pop(0), True

        monkeypatch.setattr(process, "run_to_end", run_to_end)
        monkeypatch.setattr(supervisor.timing_session, "time_runs", lambda planned, *_: timed.append(len(planned)))
        seeds = ",".join(str(seed) for seed in range(1, 1 + len(ends)))
        sweeps = [] if any(one.startswith("seed=") for one in arguments) else [f"seed={seeds}"]
        configs = compose("-m", *SMALL, "hardware.workers=1", "tracking=none", *sweeps, *arguments, f"output={output}")
        code = supervisor.run_study(configs)
        *others, last = capsys.readouterr().out.splitlines() or [""]
        summary, _, why = last.partition("; why: ")
        assert why in ("", f"python -m harness status default output={output}")
        return code, started, bool(timed), [*others, summary]

    return sweep


@pytest.mark.long
def test_the_others_go_on_and_are_timed(ended):
    code, started, timed, said = ended([BROKEN, FINISHED, DIVERGED, FINISHED])
    assert (code, len(started), timed) == (1, 4, True)
    assert said[-1] == "2 of 4 runs did not finish: 1 failed, 1 diverged"


@pytest.mark.long
def test_where_all_finish_the_exit_code_is_0_and_nothing_is_summed_up(ended):
    code, started, timed, said = ended([FINISHED, FINISHED])
    assert (code, len(started), timed) == (0, 2, True)
    assert not any("did not finish" in line for line in said)


@pytest.mark.long
@pytest.mark.parametrize("end", [BROKEN, DIVERGED])
def test_a_sweep_may_stop_at_the_first_failure(ended, end):
    code, started, timed, said = ended([FINISHED, end, FINISHED, FINISHED], "sweep.on_failure=stop")
    assert (code, len(started), timed) == (1, 2, False)
    assert f"Sweep stopped: a run did not finish ({end.state}; sweep.on_failure=stop)" in said[-2]
    assert said[-1] == f"3 of 4 runs did not finish: 2 not started, 1 {end.state}"


@pytest.mark.parametrize(
    ("ends", "started"),
    [
        ([BROKEN, BROKEN, BROKEN, FINISHED], 3),
        ([BROKEN, BROKEN, OTHER, BROKEN, BROKEN], 5),
        ([BROKEN, BROKEN, FINISHED, BROKEN, BROKEN], 5),
        ([BROKEN, BROKEN, DIVERGED, BROKEN, BROKEN], 5),
        ([DIVERGED] * 4, 4),
        ([End(State.out_of_memory, str(number)) for number in range(4)], 3),
    ],
    ids=["same", "another_kind", "one_finishes", "one_diverges", "all_diverge", "whatever_the_reason"],
)
def test_failures_of_one_kind_in_a_row_stop_the_sweep(ended, ends, started):
    code, found, timed, said = ended(ends, "sweep.same_failures=3")
    assert (code, len(found), timed) == (1, started, started == len(ends))
    assert any("Sweep stopped: 3 runs in a row ended with the same failure" in line for line in said) == (not timed)


@pytest.mark.long
def test_it_names_the_failure_and_the_key(ended):
    *_, said = ended([BROKEN] * 3, "sweep.same_failures=2")
    assert "'failed: RuntimeError' (sweep.same_failures=2)" in said[-2]


@pytest.mark.long
def test_zero_never_stops_a_sweep(ended):
    assert len(ended([BROKEN] * 7, "sweep.same_failures=0")[1]) == 7


@pytest.mark.long
def test_runs_without_their_pretraining_are_skipped_and_counted(ended):
    text = ["pretrain=mlm", "pretrain.tokens=1e4", "corpus.documents=50"]
    code, started, _, said = ended([BROKEN, *[FINISHED] * 4], "seed=1,2,3", *text)
    assert (code, len(started)) == (1, 5)  # three pretrainings, two of which finish
    assert said[-1] == "2 of 6 runs did not finish: 1 failed, 1 without its pretraining"


@pytest.mark.parametrize(
    ("ending", "result", "complaint", "expected"),
    [
        (Ending(0, ("step 10",)), {"status": "finished"}, None, FINISHED),
        (Ending(-9, ("step 10",)), {"status": "finished"}, "too long", FINISHED),
        (
            Ending(0, ("the loss is nan",)),
            {"status": "diverged"},
            None,
            End(State.diverged, "the loss is nan", ("the loss is nan",)),
        ),
        (Ending(-15, ("step 10",)), None, "too long", End(State.timeout, "too long", ("step 10",))),
        (
            Ending(2, ("no such device",)),
            None,
            None,
            End(State.invalid, "no such device", ("no such device",)),
        ),
        (Ending(1, ("KeyError: 'x'",)), None, None, End(State.failed, "KeyError: 'x'", ("KeyError: 'x'",))),
        (Ending(1, ("MemoryError",)), None, None, End(State.out_of_memory, "MemoryError", ("MemoryError",))),
    ],
    ids=["finished", "late", "diverged", "timeout", "invalid", "failed", "out_of_memory"],
)
def test_the_state_follows_from_result_complaint_and_process(ending, result, complaint, expected):
    assert process.end_of(ending, result, complaint) == expected


@pytest.mark.parametrize(
    ("code", "oom_kills", "state"),
    [(-9, 0, "killed"), (-9, 1, "out_of_memory"), (-15, 0, "killed"), (-11, 0, "failed"), (-6, 0, "failed"), (0, 0, "failed")],
)
def test_signals_of_others_kill_and_own_ones_fail(code, oom_kills, state):
    assert process.end_of(Ending(code, (), oom_kills), None, None).state == state
