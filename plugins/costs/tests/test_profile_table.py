"""The table of a profile from known values, and in which order what is launched."""

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.measure.flops import ModelFlops
from harness.measure.launch import TIMING, Outcome
from harness.measure.records import Launch, Measured, MemoryPeaks, Peak, Trace, TracedCall, TrainingTime
from harness.plugins.costs import profile
from harness.plugins.costs.profile import Column

NAME = "inference/latency_ms_p50"
PARTS = {"forward": {"attention": 3.0, "other": 1.0}, "backward": {"attention": 5.0}, "optimiser": {"other": 1.0}}
TRACED = Trace(TracedCall(4.0, {"forward": PARTS["forward"]}), TracedCall(10.0, PARTS), 3.5)


@pytest.fixture
def measured(launch_of) -> Callable[..., Column]:
    """A variant that was timed in as many rounds as there are latencies."""

    def column(*latencies: float, **others: dict) -> Column:
        return Column({"timing": {number: launch_of(number, [value]) for number, value in enumerate(latencies)}, **others})

    return column


def row(text: str, title: str) -> list[str]:
    """Cells of the row behind its title, ranges kept together."""
    (line,) = (line for line in text.partition(profile.MISSING)[0].splitlines() if line.strip().startswith(title))
    return [cell.strip() for cell in line.strip()[len(title) :].split("  ") if cell.strip()]


def test_cells_are_medians_and_of_one_variant_have_ranges(measured):
    assert row(profile.render({"base": measured(10, 20, 40)}), "latency, wall clock, ms") == ["20 (10 to 40)"]
    text = profile.render({"base": measured(10, 20, 40), "windowed": measured(5, 30, 50)})
    assert row(text, "latency, wall clock, ms")[:2] == ["20", "30"]


def test_ratios_of_times_are_to_the_mean_of_both_timings_of_the_first_with_a_t_interval(measured):
    first, again, faster = (10.0, 11.0, 10.0, 12.0, 10.5), (10.5, 10.0, 10.2, 12.1, 11.0), (8.0, 8.1, 8.0, 9.6, 8.4)
    of_new = [math.log(c) - (math.log(a) + math.log(b)) / 2 for a, b, c in zip(first, again, faster, strict=True)]
    of_again = [math.log(b / a) for a, b in zip(first, again, strict=True)]
    text = profile.render({"base": measured(*first), "new": measured(*faster), profile.AGAIN: measured(*again)})
    assert text.splitlines()[0].split() == ["base", "A/A", "new", "/", "base"]

    def interval(logs: list[float]) -> tuple[float, float]:
        half = 2.776445 * statistics.stdev(logs) / math.sqrt(5)
        return statistics.mean(logs) - half, statistics.mean(logs) + half

    low, high = interval(of_new)
    ratio = f"{math.exp(statistics.mean(of_new)):.3f} [{math.exp(low):.3f}, {math.exp(high):.3f}]"
    floor = math.exp(max(map(abs, interval(of_again)))) - 1
    assert row(text, "latency, wall clock, ms") == ["10.5", f"{100 * floor:.1f} %", "8.10", ratio]


def test_equal_variants_are_not_resolved_and_several_are_corrected(measured):
    noisy = [10.0, 12.0, 9.0, 11.0, 10.5]
    again, half = measured(*noisy[1:], noisy[0]), measured(*(value / 2 for value in noisy))
    text = profile.render({"base": measured(*noisy), "same": measured(*noisy[::-1]), "half": half, profile.AGAIN: again})
    same, faster = row(text, "latency, wall clock")[-3::2]
    assert same.startswith("~ [")
    assert faster.startswith("0.5")
    alone = row(profile.render({"base": measured(*noisy), "half": half, profile.AGAIN: again}), "latency, wall clock")[-1]

    def width(cell: str) -> float:
        low, high = cell.partition("[")[2].rstrip("]").split(", ")
        return float(high) - float(low)

    assert width(faster) > width(alone)


def test_what_is_the_same_in_every_round_has_no_interval(measured):
    text = profile.render({"base": measured(8, 8), "new": measured(8, 8), profile.AGAIN: measured(8, 8)})
    assert row(text, "latency, wall clock, ms") == ["8", "0.0 %", "8", "1.000"]


@pytest.mark.long
def test_of_equal_variants_one_family_in_twenty_is_resolved():
    """Log normal times of one spread, five rounds, three variants."""
    stream, resolved, families = random.Random(1), 0, 1000
    for _ in range(families):
        first, again, *others = [{NAME: {number: math.exp(stream.gauss(0, 0.1)) for number in range(5)}} for _ in range(5)]
        resolved += not all(cell.startswith("~") for cell in profile.compared(NAME, [first, *others], again)[1])
    assert 0.02 <= resolved / families <= 0.07


def test_counts_have_no_replicate_and_a_single_round_says_so(measured):
    sizes = {0: {"model/params_total": 3}}
    text = profile.render({"base": measured(10, sizes=sizes), "new": measured(5, sizes=sizes), profile.AGAIN: measured(20)})
    assert row(text, "parameters") == ["3", "-", "3", "1.000"]
    assert row(text, "latency, wall clock, ms") == ["10", "-", "5", f"{5 / math.sqrt(200):.3f}, one round"]


@pytest.mark.parametrize("names", [("base", "windowed"), ("albert", "albert (params as base)")])
def test_two_variants_fit_eighty_columns_in_one_table(measured, monkeypatch, names):
    monkeypatch.setenv("COLUMNS", "80")
    sizes = {0: dict.fromkeys(profile.ROWS["sizes"], 123456789)}
    others = {"sizes": sizes, "flops": {0: ModelFlops(10**9, 10**12)}, "memory": {0: MemoryPeaks(Peak(10**9), Peak(10**9))}}
    columns = {name: measured(*(1234.5 + 100 * number for number in range(5)), **others) for name in (*names, profile.AGAIN)}
    for column in columns.values():
        launches = column.records["timing"].items()
        column.records["timing"] = {number: by_both_clocks(launch, 1234.5 + number**3) for number, launch in launches}
    text = profile.render(columns).partition(f"\n\n{profile.MISSING}")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert "\n\n" not in text


def test_missing_values_are_dashes_with_their_reason_below(measured):
    failed = Column(missing={"timing": "OutOfMemoryError: no room", "memory": "it was killed"})
    text = profile.render({"base": measured(10), "large": failed})
    assert row(text, "latency, wall clock, ms") == ["10", "-", "-"]
    assert "large: OutOfMemoryError: no room (latency, device time, latency min, latency, wall clock, " in text
    assert "large: it was killed (inference peak memory, training step peak memory)" in text


def test_peak_that_the_system_does_not_give_is_a_dash_and_said(measured):
    text = profile.render({"base": measured(memory={0: MemoryPeaks(Peak(None), Peak(2_500_000))})})
    assert row(text, "inference peak memory, bytes") == ["-"]
    assert row(text, "training peak memory, MB") == ["2.50"]
    assert row(profile.render({"base": measured(flops={0: ModelFlops(872_500_000, 12)})}), "forward FLOPs, MFLOP") == ["872.5"]
    assert f"base: {profile.NO_MARK} (inference peak memory)" in text


def test_component_that_no_variant_has_takes_no_row(measured):
    sizes = {0: {"model/params_total": 3, "model/params_component_layers": 3, "model/params_component_head": 0}}
    text = profile.render({"base": measured(1, sizes=sizes), "other": measured(1, sizes=sizes)})
    assert row(text, "layers") == ["3", "3", "1.000"]
    assert not any(line.strip().startswith("head") for line in text.splitlines())


@pytest.mark.parametrize(
    ("value", "said"), [(3, "3"), (12345.6, "12,346"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.012")]
)
def test_numbers_are_short(value, said):
    assert profile.number(value) == said


def test_time_by_component_is_told_with_shares_and_why_it_is_missing():
    text = profile.component_rows({"base": Column({"trace": {0: TRACED}}), "gpt": Column(missing={"trace": "it broke"})})
    assert row(text, "attention") == ["ms", "3 (75 %)"]
    assert row(text, "backward: attention") == ["ms", "5 (50 %)"]
    assert row(text, "forward pass, no profiler") == ["ms", "3.50"]
    assert row(text, "optimiser") == ["ms", "1 (10 %)"]
    assert "gpt: it broke (time by component)" in text


# Launches


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, profile.LEAST), (1e9, profile.MOST)])
def test_rounds_are_whole_in_an_order_of_their_own_and_begin_within_the_seconds(
    compose, monkeypatch, launch_of, seconds, rounds
):
    """Every variant and the replicate once a round; memory and counts in the first round; traces last."""
    timing, started = Measured(timing=[launch_of(0, [1.0])]), []
    monkeypatch.setattr(profile, "SECONDS", seconds)

    def launched(config, request, folder):
        started.append((request.round, config.arm, request.instruments))
        return Outcome(timing, 0, folder / "log.txt")

    monkeypatch.setattr(profile, "launch", launched)
    (config,) = compose("scale=tiny", "task=bag")
    variants = {name: replace(config, arm=name) for name in "abc"}
    columns = profile.measure(variants, None, {"a": None})
    assert list(columns) == ["a", "b", "c", profile.AGAIN]
    assert [list(one.records["timing"]) for one in columns.values()] == [[*range(rounds)]] * 4
    assert [number for number, *_ in started[:-1]] == sorted(number for number, *_ in started[:-1])
    assert sorted(arm for number, arm, which in started if which == profile.FIRST_ROUND) == ["a", "b", "c"]
    assert {number for number, _, which in started if which == profile.FIRST_ROUND} == {0}
    assert started[-1] == (0, "a", (profile.TRACED,))
    orders = [[arm for number, arm, which in started if number == of and which == TIMING] for of in range(rounds)]
    assert all(sorted(order) == ["a", "a", "b", "c"] for order in orders)
    assert len({*map(tuple, orders)}) > 1
    before, _ = [*started], started.clear()
    profile.measure(variants, None, {"a": None})
    assert started == before
    assert list(profile.measure({"a": config}, None, {})["a"].records["timing"]) == [0]


def test_launch_that_breaks_off_keeps_what_was_measured_before():
    one, peaks = Column(), MemoryPeaks(Peak(3), Peak(5))
    one.add(0, ("memory", "flops"), Measured(memory=peaks), "RuntimeError: no formula")
    assert one.records == {"memory": {0: peaks}}
    assert one.history("memory")["train_step/peak_memory_bytes"] == {0: 5}
    assert one.missing == {"flops": "RuntimeError: no formula"}


def by_both_clocks(launch: Launch, device_ms: float, reference_ms: float = 2.0) -> Launch:
    """The launch as one CPU thread leaves it: each call so many milliseconds of device time."""
    beside = {"reference_device_ms": [reference_ms]}
    return replace(
        launch,
        latency=replace(launch.latency, device_ms=[device_ms], **beside),
        throughput=replace(launch.throughput, device_seconds=device_ms, **beside),
        training=TrainingTime(300, [1.0], [2.0], [device_ms], [reference_ms]),
    )


def test_all_that_the_table_shows_has_a_record_that_gives_it(launch_of):
    records = {
        "sizes": {"model/params_total": 1},
        "flops": ModelFlops(1, 3),
        "timing": by_both_clocks(launch_of(0, [1.0]), 1.0),
        "memory": MemoryPeaks(Peak(1), Peak(2)),
    }
    assert records.keys() == profile.ROWS.keys()
    for instrument in ("flops", "timing", "memory"):
        shown = {*profile.ROWS[instrument]} - {profile.COMPILING}  # where a variant compiles
        assert shown <= profile.metrics_of(records[instrument]).keys()


def test_ratios_of_device_time_are_over_the_reference_workload(launch_of):
    """A machine that is slower by a half in every second round: the reference is, too."""
    columns = {}
    for label, factor in (("base", 1.0), ("wide", 2.0), (profile.AGAIN, 1.0)):
        slow = [1.5 if number % 2 else 1.0 for number in range(4)]
        launches = {n: by_both_clocks(launch_of(n, [5.0]), 3 * factor * one, 2 * one) for n, one in enumerate(slow)}
        columns[label] = Column({"timing": launches})
    assert row(profile.render(columns), "latency, device, ms")[1::2] == ["0.0 %", "2.000"]


@pytest.mark.parametrize("compiled", [[], ["b"]], ids=["no_variant", "one_variant"])
def test_time_to_compile_has_a_row_where_a_variant_compiles(compiled: list[str], launch_of: Callable):
    launches = {label: launch_of(0, [1.0], compile_s=7.0 if label in compiled else None) for label in "ab"}
    text = profile.render({label: Column({"timing": {0: launch}}) for label, launch in launches.items()})
    rows = [line.split() for line in text.splitlines() if line.startswith("time to compile")]
    assert rows == [["time", "to", "compile,", "s", "-", "7", "-"]] * len(compiled)
    assert "(time to compile" not in text.partition(profile.MISSING)[2]
