"""The table of a profile from known values, and in which order what is launched."""

import random

import pytest

from harness.commands.profile import launch, picture, table
from harness.commands.profile.launch import Launch, Measured

NAME = "inference/latency_ms_p50"
PARTS = {"forward": {"attention": 3.0, "other": 1.0}, "backward": {"attention": 5.0}, "optimiser": {"other": 1.0}}
TRACED = {
    "forward": {"whole_ms": 4.0, "parts_ms": {"forward": PARTS["forward"]}},
    "training_step": {"whole_ms": 10.0, "parts_ms": PARTS},
    "unprofiled_forward_ms": 3.5,
}


def measured(*latencies: float, **others: dict) -> Measured:
    return Measured({"speed": {number: {NAME: value} for number, value in enumerate(latencies)}, **others})


def row(text: str, title: str) -> list[str]:
    """Cells of the row behind its title, ranges kept together."""
    (line,) = (line for line in text.partition(table.MISSING)[0].splitlines() if line.strip().startswith(title))
    return [cell.strip() for cell in line.strip()[len(title) :].split("  ") if cell.strip()]


def test_cells_are_medians_with_ranges_and_ratios_are_paired_by_round():
    text = table.render({"base": measured(10, 20, 40), "windowed": measured(5, 30, 20)})
    assert row(text, "latency p50") == ["ms", "20 (10 to 40)", "20 (5 to 30)", "0.500 (0.500 to 1.500)"]


def test_one_variant_has_no_ratio():
    assert row(table.render({"base": measured(12.5)}), "latency p50") == ["ms", "12.5"]


def test_missing_values_are_dashes_with_their_reason_below():
    failed = Measured(missing={"speed": "OutOfMemoryError: no room", "memory": "it was killed"})
    text = table.render({"base": measured(10), "large": failed})
    assert row(text, "latency p50") == ["ms", "10", "-", "-"]
    assert "large: OutOfMemoryError: no room (latency min, latency p50, " in text
    assert "large: it was killed (inference peak memory, training peak memory)" in text


def test_peak_that_the_system_does_not_give_is_a_dash_and_said():
    text = table.render(
        {"base": measured(memory={0: {"inference/peak_memory_bytes": None, "finetune/peak_memory_bytes": 2.5e6}})}
    )
    assert row(text, "inference peak memory") == ["bytes", "-"]
    assert row(text, "training peak memory") == ["MB", "2.50"]
    assert f"base: {table.NO_MARK} (inference peak memory)" in text


def test_component_that_no_variant_has_takes_no_row():
    sizes = {0: {"model/params_total": 3, "model/params_component_layers": 3, "model/params_component_head": 0}}
    text = table.render({"base": measured(1, sizes=sizes), "other": measured(1, sizes=sizes)})
    assert row(text, "layers") == ["parameters", "3", "3", "1.000"]
    assert not any(line.strip().startswith("head") for line in text.splitlines())


@pytest.mark.parametrize(
    ("unit", "values", "expected"),
    [
        ("bytes", [5e5, 2e6], (1e6, "MB")),
        ("FLOP", [872.5e6], (1e6, "MFLOP")),
        ("bytes", [12.0], (1.0, "B")),
        ("ms", [5e6], (1.0, "ms")),
    ],
    ids=["largest decides", "flops", "small", "no prefix"],
)
def test_one_prefix_holds_for_a_row(unit, values, expected):
    assert table.scale(unit, values) == expected


@pytest.mark.parametrize(
    ("value", "said"), [(3, "3"), (12345.6, "12,346"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.012")]
)
def test_numbers_are_short(value, said):
    assert table.number(value) == said


def test_time_by_component_is_told_with_shares_and_why_it_is_missing():
    text = table.component_rows({"base": Measured({"trace": {0: TRACED}}), "gpt": Measured(missing={"trace": "it broke"})})
    assert row(text, "attention") == ["ms", "3 (75 %)"]
    assert row(text, "backward: attention") == ["ms", "5 (50 %)"]
    assert row(text, "forward pass, no profiler") == ["ms", "3.50"]
    assert row(text, "optimiser") == ["ms", "1 (10 %)"]
    assert "gpt: it broke (time by component)" in text


def test_bars_are_as_long_as_the_times():
    figure = picture.draw({"base": TRACED, "windowed": TRACED})
    forward, step = figure.axes
    assert sum(bar.get_width() for bar in forward.patches) == pytest.approx(2 * 4)
    assert sum(bar.get_width() for bar in step.patches) == pytest.approx(2 * 10)
    assert sum(bar.get_hatch() is not None for bar in step.patches) == 2
    assert [label.get_text() for label in forward.get_yticklabels()] == ["base", "windowed"]


def test_picture_is_the_same_for_the_same_times():
    assert picture.files({"base": TRACED}) == picture.files({"base": TRACED})


# Launches


def test_every_round_launches_every_variant_once_for_speed_and_the_first_for_memory_too():
    order = launch.plan(["a", "b", "c"], 4, traced=False)
    rounds = [[(one.label, one.measures[0]) for one in order if one.round == number] for number in range(4)]
    assert sorted(rounds[0]) == [(label, kind) for label in "abc" for kind in ("memory", "speed")]
    assert [sorted(launches) for launches in rounds[1:]] == [[(label, "speed") for label in "abc"]] * 3
    assert [one.round for one in order] == sorted(one.round for one in order)


def test_order_differs_from_round_to_round_and_is_the_same_every_time():
    order = launch.plan(["a", "b", "c"], 4, traced=False)
    random.random()
    assert order == launch.plan(["a", "b", "c"], 4, traced=False)
    assert len({tuple(one.label for one in order if one.round == number) for number in range(1, 4)}) > 1


def test_counts_are_taken_once_and_traces_come_last():
    order = launch.plan(["a", "b"], 3, traced=True)
    assert [one.round for one in order if "flops" in one.measures] == [0, 0]
    assert [one.measures for one in order[-2:]] == [("trace",)] * 2


def test_launch_that_breaks_off_keeps_what_was_measured_before():
    one = Measured()
    one.add(Launch("a", 0, ("memory", "flops")), {"memory": {"finetune/peak_memory_bytes": 5}}, "RuntimeError: no formula")
    assert one.values == {"memory": {0: {"finetune/peak_memory_bytes": 5}}}
    assert one.missing == {"flops": "RuntimeError: no formula"}
