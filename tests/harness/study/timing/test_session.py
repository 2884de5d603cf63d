"""Who is launched in a session, how often and in which order; the launches themselves are replaced by what one would say."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock, Timeout
from launches import ARGUMENTS, finish

from harness import metrics, paths, records
from harness.comparison import by_launch
from harness.comparison import launches as reports
from harness.comparison.verdicts import Verdict
from harness.measure.records import Launch, Measured
from harness.metrics import LATENCY, THROUGHPUT
from harness.study import timing_session as timing
from harness.study.plan import PlannedRun, plan
from harness.study.timing_session import Session, Timed, of_undecided


def run(items: list[PlannedRun]) -> Session:
    session = Session(items)
    session.run()
    return session


def of(session: Session, item: PlannedRun) -> Timed:
    """What was launched for a run."""
    (timed,) = (timed for run, timed in session.runs if run is item)
    return timed


def launches_of(session: Session, item: PlannedRun) -> list[Launch]:
    return of(session, item).launches[item.inputs.data]


@pytest.mark.long
def test_every_round_launches_every_variant_once_and_the_baseline_twice_in_an_order_of_its_own(planned, launches):
    items = planned("model=base,albert,windowed,static", "measure.rounds=6", "measure.min_rounds=6")
    launches.milliseconds = lambda title, number: 1 + 0.1 * number * len(title)
    session = run(items)
    expected = sorted(["base bag", "base bag (A/A replicate)", "albert bag", "windowed bag", "static bag"])
    assert [sorted(launches.of_round(number)) for number in range(6)] == [expected] * 6
    assert len({tuple(launches.of_round(number)) for number in range(6)}) > 1
    assert [launch.round for launch in launches_of(session, items[0])] == list(range(6))


@pytest.mark.long
def test_no_other_command_on_this_output_times_anything_during_a_launch(planned, launches, output, monkeypatch):
    held: list[bool] = []
    launch = timing.launch

    def looking(config, request, folder):
        try:
            with FileLock(paths.timing_lock(str(output)), timeout=0):
                held.append(False)
        except Timeout:
            held.append(True)
        return launch(config, request, folder)

    monkeypatch.setattr(timing, "launch", looking)
    run(planned("model=base", "measure.rounds=1"))
    assert held == [True, True]


@pytest.mark.long
def test_plain_lines_tell_what_is_timed_and_what_floor_it_gave(planned, launches, capsys):
    launches.milliseconds = lambda title, number: 1.02 ** (number % 2 if "A/A" in title else 0)
    run(planned("model=base", "measure.rounds=3"))
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("Timing 1 model and 1 A/A replicate, up to 3 rounds (measure=none skips timing)")
    assert last.startswith("Timed 3 rounds in 0 s. Noise floor: latency 3.6 %, throughput 0.0 %")


def test_a_floor_that_supports_no_verdict_is_said_when_the_session_ends(planned, launches, capsys):
    launches.milliseconds = lambda title, number: 1.5 ** (number % 2 if "A/A" in title else 0)
    run(planned("model=base,static", "measure.rounds=3"))
    ended, last = capsys.readouterr().out.splitlines()[-2:]
    assert "; 1 of 2 comparisons decided. " in ended  # not that of latency, whose rounds agree
    assert last.startswith(
        "No verdict on latency: noise floor above 25 %. On a quieter machine, repeat the command with sweep.retime=true"
    )


@pytest.mark.long
def test_what_is_not_decided_is_said_with_the_rounds_and_minutes_that_it_takes(planned, launches, capsys):
    launches.milliseconds = jumping
    run(planned("model=base,albert", "measure.rounds=9"))
    *_, last, others = capsys.readouterr().out.splitlines()
    assert "1 of 2 comparisons decided. Noise floor: " in last  # throughput is the same in every launch
    assert re.fullmatch(
        r"To decide the rest, .* measure.rounds=\d+ sweep.retime=true \(about \d+ rounds, \d+ s; nothing .*\)", others
    )


@pytest.mark.parametrize(
    ("needed", "line"),
    [
        (
            [181, 20],
            "To decide one more, .* measure.rounds=20 .*about 20 rounds, 10 min; .*; all of them need 181 rounds, 1 h 30 min",
        ),
        ([1001, 20], ".* measure.rounds=20 .*; all of them need over 1,000 rounds"),
        ([1001], "The rest need over 1,000 rounds: leave them inconclusive, or time on a quieter machine"),
    ],
)
def test_the_cheapest_further_verdict_is_offered_first(needed, line):
    assert re.fullmatch(line, of_undecided(needed, 30.0))


def jumping(title: str, number: int) -> float:
    """Milliseconds of an arm that is a third slower every other round."""
    return 1.3 ** (number % 2) if "albert" in title else 1.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("milliseconds", "settings", "rounds"),
    [
        (lambda title, number: 1.0 + number * 1e-4, ["measure.rounds=9"], 4),
        (lambda title, number: 1.0 + number * 1e-4, ["measure.rounds=9", "measure.min_rounds=6"], 6),
        (lambda title, number: 1.0, ["measure.rounds=3"], 3),
        (lambda title, number: 2.0 if "albert" in title else 1.0, ["measure.rounds=9"], 4),
        (jumping, ["measure.rounds=9"], 9),
        (lambda title, number: 1.05 if "albert" in title and not number else 1 + 1e-4 * number, ["measure.rounds=9"], 6),
        (lambda title, number: 1.4 if "albert" in title and number < 2 else 1.0, ["measure.rounds=50"], 50),
        (jumping, ["measure.rounds=9", "measure.budget_minutes=1e-9"], 1),
    ],
    ids=["same", "fewest", "most", "different", "not_resolved", "decided_between_two_looks", "an_early_difference", "budget"],
)
def test_a_session_ends_when_every_comparison_is_decided(planned, launches, milliseconds, settings, rounds):
    launches.milliseconds = milliseconds
    run(planned("model=base,albert", *settings))
    assert {len(launches.of_round(number)) for number in range(rounds)} == {3}
    assert len(launches.order) == 3 * rounds


def test_a_session_decides_as_the_report_does(launch_of):
    """The rule and the report say the same of the same launches: whether each arm is decided at this look."""
    generator, decided = np.random.default_rng(3), []
    for _ in range(40):
        scale, shift = generator.choice([0.01, 0.1]), generator.choice([0.0, 0.02, 0.15])
        logs = generator.normal([[0], [0], [shift]], scale, (3, 6))
        series = [[launch_of(at, [math.exp(log)]) for at, log in enumerate(one)] for one in logs]
        first, again, arm = (by_launch.history_of((one.round, one.values) for one in launches) for launches in series)
        table = reports.Table(by_launch.LATENCY, first, again, (arm,))
        both, with_reference = by_launch.merged([first, again]), by_launch.corrects(table.metric, [(first, again)])
        ratio = by_launch.compared(table.metric, both, arm, with_reference)
        verdict = reports.evidence(metrics.get("inference/latency_ms_p50"), ratio, 1e-3, looks=4).verdict()
        decided.append(verdict is not Verdict.INCONCLUSIVE)
        assert decided[-1] == (not table.undecided(4))
    assert 5 < sum(decided) < 35


@pytest.mark.long
def test_values_are_at_the_mean_reference_time_of_all_launches_each_counted_once(planned, launches):
    session = run(planned("model=base,static", "measure.rounds=1"))
    for place, timed in enumerate(session.timed.values()):
        for key, (one,) in timed.launches.items():
            latency = replace(one.latency, device_ms=[1.0], reference_device_ms=[2.0**place])
            timed.launches[key] = [replace(one, latency=latency)]
    (place,) = [place for place, timed in enumerate(session.timed.values()) if timed.config.label == "static"]
    (static,) = [values for (name, _), values in session.values().items() if name == [*session.timed][place]]
    assert len(session.timed) == 3
    assert static[metrics.DEVICE_LATENCY] * 2.0**place == pytest.approx(2.0)  # of 1, 2 and 4


@pytest.mark.long
def test_seeds_share_the_launches_of_their_network(planned, launches):
    items = planned("model=base,albert", "seed=1,2,3", "measure.rounds=2")
    session = run(items)
    assert len(launches.order) == 2 * 3
    seen = {item.config.label: [] for item in items}
    for item in items:
        seen[item.config.label].append(of(session, item))
    for timed in seen.values():
        assert len(timed) == 3
        assert timed[0] is timed[1] is timed[2]
    assert seen["base"][0] is not seen["albert"][0]


@pytest.mark.long
def test_tasks_of_one_shape_share_launches_that_measure_throughput_on_each(planned, launches):
    items = planned("model=base,albert", "task=bag,order", "measure.rounds=1")
    session = run(items)
    assert len(launches.order) == 3
    assert all(set(request.data) == {item.inputs.data for item in items} for request in launches.requests)
    for label in ("base", "albert"):
        (one,), (other,) = (launches_of(session, item) for item in items if item.config.label == label)
        assert one.latency is other.latency
        assert one.throughput != other.throughput
    compared = [table.metric for table in session._tables()]
    assert sorted(compared) == [LATENCY, *[THROUGHPUT] * 2]  # latency is measured once for both
    assert sorted(item.config.task.name for item, _ in session.replicates) == ["bag", "order"]
    assert session.replicates[0][1] is session.replicates[1][1]


@pytest.mark.long
def test_tasks_of_different_shapes_are_launched_apart(planned, launches):
    items = [*planned("model=base", "task=order", "measure.rounds=1"), *planned("model=base", "measure.rounds=1")]
    assert len({timing.shape_key(item) for item in items}) == 1
    wide = replace(items[0].config.task, labels=["a", "b", "c"])
    other = replace(items[0], config=replace(items[0].config, task=wide))
    assert timing.shape_key(other) != timing.shape_key(items[0])
    larger = replace(items[0].config.model, vocab_size=items[0].config.model.vocab_size + 1)
    assert timing.shape_key(replace(items[0], config=replace(items[0].config, model=larger))) != timing.shape_key(items[0])


@pytest.mark.long
@pytest.mark.parametrize(
    "swept",
    [
        "trains=all,lora,head",
        "optimizer=adamw,sgd",
        "freeze_layers=null,1",
        "ema_decay=null,0.9",
        "activation_checkpointing=true,false",
    ],
)
def test_what_changes_the_work_of_a_training_step_is_launched_apart(planned, swept):
    items = planned("model=base", f"finetune.{swept}")
    assert len({timing.shape_key(item) for item in items}) == len(items)
    untimed = planned("model=base", f"finetune.{swept}", "measure.train_steps=0")
    assert len({timing.shape_key(item) for item in untimed}) == 1  # latency and throughput alone


@pytest.mark.long
def test_what_leaves_the_work_of_a_training_step_is_launched_together(planned):
    items = planned("model=base", "finetune.learning_rate=1e-4,1e-3", "finetune.epochs=1,2", "finetune.batch_size=8,16")
    assert len({timing.shape_key(item) for item in items}) == 1


@pytest.mark.long
def test_launches_of_a_shape_share_what_is_compiled_outside_the_results_and_plain_ones_nothing(planned, launches, output):
    run(planned("model=base", "measure.rounds=2", "hardware.compile=true,false"))
    folders = [request.compiled for request in launches.requests]
    shared = {folder: folders.count(folder) for folder in folders}
    assert shared.pop(None) == 4
    assert [*shared.values()] == [2]  # the baseline and its replicate are not compiled
    assert not any(Path(folder).is_relative_to(output) or Path(folder).parent.exists() for folder in shared)


@pytest.mark.long
def test_the_fastest_product_is_measured_once_a_session(planned, launches):
    items = planned("model=base,albert", "measure.rounds=2")
    session = run(items)
    assert [request.with_peak_flops for request in launches.requests] == [True] + [False] * 5
    assert {launch.peak_flops_per_s for item in items for launch in launches_of(session, item)} == {1e9}


@pytest.mark.long
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


@pytest.mark.long
def test_a_baseline_that_was_timed_is_timed_twice_again_beside_what_is_new(planned, launches):
    """Its own launches belong to another session, so both halves of the pair are new."""
    items = planned("model=base,albert", "measure.rounds=1")
    finish(next(item for item in items if item.config.label == "base"), session="earlier")
    session = run(items)
    assert sorted(launches.of_round(0)) == ["albert bag", "base bag", "base bag (A/A replicate)"]
    assert [item.config.label for item, _ in session.runs] == ["albert"]
    assert [timed.is_aa_replicate for _, timed in session.replicates] == [False, True]


@pytest.mark.long
def test_a_seed_that_was_timed_does_not_time_the_baseline_a_third_time(planned, launches):
    items = planned("model=base", "seed=1,2", "measure.rounds=1")
    finish(items[0], session="earlier")
    run(items)
    assert sorted(launches.of_round(0)) == ["base bag", "base bag (A/A replicate)"]


@pytest.mark.long
def test_nothing_is_launched_where_everything_was_timed_or_nothing_is_measured(planned, launches):
    items = planned("model=base", "measure.rounds=1")
    finish(items[0], session="earlier")
    run(items)
    run(planned("model=base", "measure=none"))
    assert launches.order == []


@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_a_run_that_did_not_finish_is_not_timed_and_is_no_baseline(planned, launches, status):
    items = planned("model=base,albert", "measure.rounds=1")
    base = next(item for item in items if item.config.label == "base")
    if status == "failed":
        (base.folder / "result.json").unlink()
    else:
        finish(base, status)
    run(items)
    assert sorted(launches.of_round(0)) == ["albert bag", "albert bag (A/A replicate)"]


@pytest.mark.long
def test_a_launch_beside_other_work_is_repeated_and_the_quietest_counts(planned, launches):
    launches.foreign = lambda title, number, attempt: [1.5, 0.9, 1.2, 0.1][attempt] if title == "base bag" else 0.0
    launches.compile_s = 7.0  # only the first try has to
    items = planned("model=base", "measure.rounds=1", "measure.retries=2", "measure.foreign_cpus=0.5")
    (kept,) = launches_of(run(items), items[0])
    assert launches.of_round(0).count("base bag") == 3
    assert (kept.foreign_cpus, kept.repeated, kept.compile_s) == (0.9, 2, 7.0)


@pytest.mark.long
def test_the_seconds_of_a_launch_are_those_of_its_tries_and_not_of_a_wait_for_another_session(planned, launches, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timing.time, "monotonic", lambda: clock.now)
    launch, lock = timing.launch, timing.FileLock

    def slow(*arguments):
        clock.now += 3.0
        return launch(*arguments)

    def waiting(*arguments, **more):
        clock.now += 100.0
        return lock(*arguments, **more)

    monkeypatch.setattr(timing, "launch", slow)
    monkeypatch.setattr(timing, "FileLock", waiting)
    launches.foreign = lambda title, number, attempt: 0.0 if attempt else 2.0
    items = planned("model=base", "measure.rounds=1", "measure.retries=1")
    (kept,) = launches_of(run(items), items[0])
    assert kept.seconds == kept.values["timing/launch_s"] == 6.0


@pytest.mark.long
def test_where_others_stay_launches_are_soon_repeated_no_more(planned, launches):
    launches.foreign = lambda title, number, attempt: 2.0
    run(planned("model=base,albert,static", "measure.rounds=3", "measure.retries=1"))
    assert len(launches.order) == 3 * 4 + timing.FUTILE_REPEATS


def test_a_quiet_launch_is_not_repeated_and_neither_is_one_whose_load_is_unknown(planned, launches):
    launches.foreign = lambda title, number, attempt: None if "A/A" in title else 0.5
    run(planned("model=base", "measure.rounds=1", "measure.retries=2", "measure.foreign_cpus=0.5"))
    assert len(launches.order) == 2


@pytest.mark.long
def test_a_variant_whose_launch_fails_takes_no_further_part_and_the_others_go_on(planned, launches, capsys):
    launches.failing = {"albert bag"}
    items = planned("model=base,albert", "measure.rounds=3")
    session = run(items)
    assert [title for _, title in launches.order].count("albert bag") == 1
    assert of(session, next(item for item in items if item.config.label == "albert")).failed
    assert len(launches_of(session, next(item for item in items if item.config.label == "base"))) == 3
    assert "Timing of albert on bag failed: RuntimeError: no such device" in capsys.readouterr().out


def test_where_every_variant_fails_its_replicate_is_not_launched_on(planned, launches):
    launches.failing = {"base bag"}
    run(planned("model=base", "measure.rounds=3"))
    assert sorted(launches.order) == [(0, "base bag"), (0, "base bag (A/A replicate)")]


@pytest.mark.long
@pytest.mark.parametrize("texts", [4, None], ids=["one_shape", "of_each_task"])
def test_a_real_launch_leaves_times_of_each_pass(compose, output, texts):
    settings = ["measure.rounds=1", "measure.retries=0", "measure.repeats=4", "measure.lengths=[16,9999]"]
    settings += [f"measure.throughput_texts={texts or 'null'}"]
    items = plan(compose("-m", *ARGUMENTS, *settings, "task=bag,order", f"output={output}"))
    for item in items:
        finish(item)
    session = run(items)
    (launch,), (other,) = (launches_of(session, item) for item in items)
    assert (launch.latency, launch.points) == (other.latency, other.points)
    assert (launch.throughput == other.throughput) is (texts is not None)
    assert launch.throughput.tokens != other.throughput.tokens or launch.throughput.tokens % (4 * 128) == 0
    assert len(launch.latency.raw_ms) == 4
    assert len(launch.training.raw_ms) == items[0].config.measure.train_steps
    assert [point.length for point in launch.points] == [16, 128]
    written = Path(of(session, items[0]).folder, "launch-0", "measured.json")
    assert records.read(written, Measured).timing[0].latency == launch.latency
    rates = timing.timing_values([launch], 1e6)
    assert rates["inference/tokens_per_s"] * launch.throughput.seconds == pytest.approx(launch.throughput.tokens)
    achieved = 1e6 / (rates["inference/latency_ms_p50"] / 1e3)
    assert rates["inference/mfu"] * launch.peak_flops_per_s == pytest.approx(achieved)
    again = session.replicates[0][1].launches[items[0].inputs.data]
    assert again[0].peak_flops_per_s == launch.peak_flops_per_s
