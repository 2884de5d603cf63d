"""Verdicts by the clock of the device where it was measured: what neighbours do is in the wall clock alone."""

import re
from dataclasses import replace

import pytest
from texts import md, parts

from harness import tags
from harness.comparison.compare import compare
from harness.comparison.section import change_over
from harness.comparison.verdicts import Verdict
from harness.reports.chapters import overview
from harness.reports.writing import findings, section_text, tables

DEVICE, WALL = "inference/latency_device_ms", "inference/latency_ms_p50"
NOISY = [10.0, 22.0, 12.0, 25.0, 9.0, 18.0]
"""Milliseconds by the wall clock on a machine with other work."""

STEADY = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0]


def scaled(values: list[float], factor: float, turned: int = 0) -> list[float]:
    return [factor * value for value in (*values[turned:], *values[:turned])]


@pytest.fixture
def study(timed):
    """A study of base, its A/A replicate and an arm, with its factors by the wall clock and by that of the device."""

    def make(wall: float, device: float, noise: list[float] = NOISY, steady: list[float] = STEADY, **more: object):
        runs = [
            timed("base", noise, device=steady, **more),
            timed("base", scaled(noise, 1.0, 1), device=scaled(steady, 1.001, 2), replicate="true", **more),
            timed("albert", scaled(noise, wall, 2), device=scaled(steady, device, 3), **more),
        ]
        return compare("s", runs, "base")

    return make


def change(comparison, metric: str):
    (section,) = comparison.sections
    return section.change(section.row_of("albert"), metric)


def test_the_device_says_what_the_wall_clock_of_a_busy_machine_cannot(study):
    comparison = study(1.1, 1.1)
    assert change(comparison, DEVICE).verdict is Verdict.WORSE
    assert change(comparison, WALL).verdict in (Verdict.OPEN, Verdict.INCONCLUSIVE)
    low, high = change(comparison, DEVICE).interval
    assert low < 1.0 < high  # ms of 10: a tenth
    (sentence,) = [one for one in findings.effects(comparison) if one.name == "latency"]
    assert (sentence.metric, sentence.change.verdict) == (DEVICE, Verdict.WORSE)


def test_the_table_has_the_clock_of_the_device_and_the_details_the_other(study):
    (section,) = study(1.0, 1.0).sections
    columns = tables.columns(section)
    assert DEVICE in columns
    assert WALL not in columns
    assert "latency, wall clock" in parts(section_text.part(section))[2]
    assert "inference/device_tokens_per_s" in columns
    assert "inference/tokens_per_s" not in columns
    assert tables.title(section, DEVICE) == "latency, device time"
    assert tables.title(section, WALL) == "latency, wall clock"


def test_the_first_table_says_whose_time_it_has(study):
    assert "latency, ms of device time" in md(overview.overview(study(1.0, 1.0)))


def test_what_is_not_resolved_says_how_many_rounds_and_minutes_it_takes(study):
    """Three launches a round of 20 s each: a minute a round more than the six that there are."""
    wide = [10.0, 11.0, 9.0, 10.6, 9.4, 10.0]
    unresolved = change(study(1.04, 1.04, seconds=20.0, steady=wide), DEVICE)
    assert unresolved.verdict is Verdict.INCONCLUSIVE
    assert unresolved.minutes == pytest.approx(unresolved.needed - 6)
    assert f"needs {unresolved.needed} rounds, {unresolved.minutes:.0f} min more" in tables.lacking(
        unresolved, unresolved.evidence, "ms"
    )
    assert change(study(1.04, 1.04, steady=wide), DEVICE).minutes is None


def test_minutes_are_those_of_the_session_that_timed_both(timed):
    """On order the arm was not timed."""
    runs = [
        timed("base", STEADY, device=STEADY, seconds=20.0, task="bag"),
        timed("base", scaled(STEADY, 1.0, 1), device=scaled(STEADY, 1.001, 2), replicate="true", seconds=20.0, task="bag"),
        timed("albert", scaled(STEADY, 1.0, 2), device=scaled(STEADY, 1.1, 3), seconds=20.0, task="bag"),
    ]
    untimed = [
        replace(run, launches={}, tags=run.tags | {tags.TASK: "order"}, run_id=f"{run.run_id}-order") for run in runs[::2]
    ]
    comparison = compare("s", [*runs, *untimed], "base")
    tasks = [section.against(section.row_of("albert")) for section in sorted(comparison.sections, key=lambda one: one.task)]
    assert [pairing.section.task for pairing in tasks] == ["bag", "order"]
    assert change_over(tasks, DEVICE).seconds == pytest.approx(60.0)


@pytest.mark.parametrize(("wall", "device", "said"), [(1.5, 1.0, True), (1.3, 1.3, False), (1.0, 1.0, False)])
def test_clocks_that_disagree_are_named(study, wall, device, said):
    """Half as slow again by the wall clock and the same by the device: it waits."""
    text = "\n".join(parts(findings.cautions(study(wall, device, STEADY))))
    assert ("**Wall-clock and device time disagree for albert**" in text) is said
    if said:
        by_wall, _, by_device = text.partition("latency: wall-clock ")[2].partition(", device time ")
        assert (by_wall[:7], by_device[0] in "+−") == ("+50.0 [", True)


def test_clocks_that_disagree_have_one_form_where_one_of_them_is_a_factor(study):
    text = "\n".join(parts(findings.cautions(study(30.0, 3.0, STEADY))))
    assert re.search(r"latency: wall-clock ×30\.\d \[×\d.*\], device time ×3\.\d+ \[×2\.\d+, ×3\.\d+\]\. ", text), text


def test_p_and_interval_count_the_looks_at_which_the_session_could_have_ended(study):
    once, often = (change(study(1.1, 1.03, looks=looks), DEVICE) for looks in ("1", "5"))
    assert often.p == pytest.approx(once.p * (1 + 0.57 * 4))
    assert often.interval[0] < once.interval[0] < once.interval[1] < often.interval[1]
    assert tags.LOOKS == "looks"


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.9997, Verdict.INCONCLUSIVE), (0.6, Verdict.DIRECTION_BETTER), (1.3, Verdict.DIRECTION_WORSE)]
)
def test_memory_of_one_run_is_measured_once_however_little_launches_scatter(timed, factor, verdict):
    """A launch calls the model on one text, to 0.1 %; the same run, on batches of texts, differs by several percent."""
    runs = []
    for arm, times, replicate in (("base", 1.0, {}), ("base", 1.0002, {"replicate": "true"}), ("albert", factor, {})):
        values = {"inference/peak_memory_bytes": 45e6 * times}
        memory = scaled([40e6, 40.01e6, 39.99e6, 40e6], times)
        runs.append(timed(arm, STEADY[:4], values=values, memory=memory, **replicate))
    assert change(compare("s", runs, "base"), "inference/peak_memory_bytes").verdict is verdict
