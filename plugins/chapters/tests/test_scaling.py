"""Cost by length: exponents that cover the truth, crossovers where the lines cross, and a report of nothing else."""

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.comparison.compare import compare
from harness.metrics import Direction
from harness.plugins.chapters import scaling
from harness.plugins.chapters.growth import fit, race
from harness.plugins.chapters.scaling import race_text
from harness.plugins.pictures import plots
from harness.reports.__main__ import main
from harness.reports.read import connect
from harness.reports.reading import store
from harness.reports.reading.study import Study

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
LATENCY, FLOPS, MEMORY = "scaling/latency_ms", "scaling/flops_forward", "scaling/peak_memory_bytes"
LOWER = Direction.LOWER


def line(*values: float) -> dict[int, list[float]]:
    return {length: [value] for length, value in zip(LENGTHS, values, strict=False)}


@pytest.mark.parametrize("exponent", [1, 2])
def test_exponent_of_exact_data_is_exact(exponent: int):
    result = fit({length: [3.0 * length**exponent] for length in LENGTHS})
    assert (result.exponent, result.last) == pytest.approx((exponent, exponent))
    assert result.interval == pytest.approx((exponent, exponent))
    assert result.deviation == pytest.approx(0, abs=1e-12)
    assert result.doubling == (2048, 4096)


def test_last_doubling_of_a_bent_cost_is_steeper_than_the_line():
    result = fit({length: [1e6 + 1e3 * length + length**2] for length in LENGTHS})
    assert result.exponent < result.last == pytest.approx(np.log2((1e6 + 4096e3 + 4096**2) / (1e6 + 2048e3 + 2048**2)))
    assert result.deviation > 0.2


def test_last_doubling_starts_at_half_the_longest_length_or_below():
    assert fit({128: [1.0], 300: [2.0], 400: [3.0], 512: [4.0]}).doubling == (128, 512)
    assert fit({400: [3.0], 512: [4.0]}).doubling == (400, 512)


def test_hand_worked_fit():
    result = fit({1: [1.0, 1.0], 2: [4.0, 1.0], 4: [4.0, 4.0]})  # logs base 2: 0, 1, 2
    assert result.exponent == pytest.approx(1)
    bent = fit({1: [1.0], 2: [4.0], 4: [4.0]})  # logs base 2: 0, 2, 2; line 1/3 + x; residuals -1/3, 2/3, -1/3
    half = stats.t.ppf(0.975, 1) * np.sqrt((6 / 9) / 1 / 2)
    assert bent.interval == pytest.approx((1 - half, 1 + half))
    assert bent.deviation == pytest.approx(2 ** (2 / 3) - 1)


def test_what_cannot_be_fitted_has_no_fit():
    assert fit({128: [1.0, 2.0]}) is None
    assert fit({128: [1.0], 256: [0.0]}) is None
    assert fit({128: [1.0], 256: [2.0]}).interval is None
    assert fit(line(1, 2, 5), counted=True).interval is None


@pytest.mark.long
@pytest.mark.parametrize("own", [0.0, 0.05], ids=["launches_alone", "lengths_too"])
def test_interval_covers_the_exponent_as_often_as_it_says(own: float):
    """Log-normal noise of every launch, and one that all launches of a length share."""
    stream, count, covered = np.random.default_rng(0), 3000, 0
    for _ in range(count):
        noise = stream.normal(0, own, (len(LENGTHS), 1)) + stream.normal(0, 0.03, (len(LENGTHS), 5))
        values = 3e-3 * np.array(LENGTHS)[:, None] ** 1.3 * np.exp(noise)
        low, high = fit(dict(zip(LENGTHS, values.tolist(), strict=True))).interval
        covered += low <= 1.3 <= high
    assert 0.93 <= covered / count <= 0.97


def test_crossover_is_where_the_lines_cross():
    before, after = {length: [float(length)] for length in LENGTHS}, {length: [30 * length**0.5] for length in LENGTHS}
    (crossing,) = race(before, after, LOWER).crossings  # L = 30 sqrt(L) at 900
    assert (crossing.length, crossing.begins, crossing.interval) == (pytest.approx(900), True, None)
    (crossing,) = race(before, after, Direction.HIGHER).crossings
    assert (crossing.length, crossing.begins) == (pytest.approx(900), False)


def in_words(*factors: float, direction: Direction = LOWER) -> str:
    """The race of an arm whose values are these multiples of the baseline's."""
    before = [7.0 * length for length in LENGTHS]
    values = [value * factor for value, factor in zip(before, factors, strict=False)]
    return race_text(race(line(*before), line(*values), direction))


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ((0.9, 0.9, 0.5), "from the shortest length on (128)"),
        ((1.1, 1.1, 1.1, 1.1, 1.1, 1.01), "never up to 4,096"),
        ((1, 1, 1), "equal at all lengths"),
        ((2, 0.5), "from 181 on"),
        ((0.5, 2), "up to 181"),
        ((2, 0.5, 2), "from 181 to 362"),
        ((0.5, 2, 2, 0.5), "up to 181 and from 724 on"),
        ((2, 0.5, 2, 0.5), "from 181 to 362 and from 724 on"),
        ((1, 1, 0.5), "from 256 on"),
        ((2, 1, 1, 0.5), "from 512 on"),
        ((0.5, 1, 2), "up to 256"),
        ((1, 2), "never up to 256"),
    ],
)
def test_every_stretch_of_winning_is_said(factors: tuple, words: str):
    assert in_words(*factors) == words


def test_more_is_better_for_throughput():
    assert in_words(0.5, 2, direction=Direction.HIGHER) == "from 181 on"


def noisy(middles: list[float], share: float) -> dict[int, list[float]]:
    """Two launches a length, this share of logs above and below."""
    pairs = zip(LENGTHS, middles, strict=False)
    return {length: [middle * np.exp(-share), middle * np.exp(share)] for length, middle in pairs}


def test_hand_worked_interval_of_a_crossover():
    # logs of the ratio 0.4, 0, -0.4; sd 0.01 sqrt(2) over 2 on both sides: half = t(2) * 0.01 sqrt(2); 0.4 is one doubling
    before, after = noisy([1.0, 1.0, 1.0], 0.01), noisy([np.exp(0.4), 1.0, np.exp(-0.4)], 0.01)
    half = stats.t.ppf(0.975, 2) * 0.01 * np.sqrt(2)
    (crossing,) = race(before, after, LOWER).crossings
    assert crossing.length == pytest.approx(256)
    assert crossing.interval == pytest.approx((256 * 2 ** (-half / 0.4), 256 * 2 ** (half / 0.4)))


def test_interval_that_no_length_ends_is_open():
    before, after = noisy([1.0, 1.0, 1.0], 0.01), noisy([1.5, 1.02, 0.98], 0.01)
    assert race_text(race(before, after, LOWER)).endswith(", &gt;512] on")


def test_difference_within_noise_is_unclear():
    before = noisy([1.0, 2.0, 3.0], 0.05)
    assert (
        race_text(race(before, noisy([1.01, 1.99, 3.01], 0.05), LOWER)) == "unclear: every interval from 128 to 512 includes 1"
    )
    assert race_text(race(before, noisy([0.99, 1.0, 1.5], 0.05), LOWER)) == "from the shortest length on (128) (unclear at 128)"


@pytest.mark.long
def test_interval_of_a_crossover_covers_it():
    """Pointwise intervals of a difference; between two measured lengths they are a little too wide."""
    stream, count, covered = np.random.default_rng(0), 1000, 0
    lengths = np.array(LENGTHS)[:, None]
    for _ in range(count):
        noise = np.exp(stream.normal(0, 0.1, (2, len(LENGTHS), 5)))
        before, after = (lengths * noise[0]).tolist(), (30 * lengths**0.5 * noise[1]).tolist()
        result = race(dict(zip(LENGTHS, before, strict=True)), dict(zip(LENGTHS, after, strict=True)), LOWER)
        covered += any(low <= 900 <= high for low, high in (crossing.interval for crossing in result.crossings))
    assert covered / count >= 0.94


def test_race_needs_a_shared_length_and_positive_values():
    assert race({128: [1.0]}, {256: [1.0]}, LOWER) is None
    assert race({128: [0.0]}, {128: [1.0]}, LOWER) is None
    assert race({128: [1.0, 1.1]}, {128: [1.0]}, LOWER).half is None


@pytest.fixture
def study(make_run, study_of) -> Study:
    """Two arms on one device, whose latencies cross at 900, and a run elsewhere."""
    runs = [make_run("base"), make_run("cheap"), make_run("base", 1, hardware="GPU")]
    latency = {"run1": {length: [length / 10] for length in LENGTHS}}
    latency |= {"run2": {length: [3 * length**0.5] for length in LENGTHS}, "run3": {128: [1.0], 256: [2.0]}}
    return study_of(compare("s", runs), {LATENCY: latency, MEMORY: {"run1": {128: [1.0]}}})


@pytest.mark.long
def test_devices_are_never_mixed(study):
    first, second = scaling.groups(study)
    assert (first.hardware, first.labels, second.hardware, second.labels) == ("1 CPU", ["base", "cheap"], "GPU", ["base"])
    assert first.values[LATENCY]["base"][128] == [12.8]
    result = scaling.chapter(study)
    assert sorted(result.files) == ["scaling.csv", "scaling_1.svg", "scaling_2.svg"]
    assert b"<title>base" in result.files["scaling_1.svg"]
    assert "### By length: sst2, GPU" in result.paragraphs


def test_seeds_that_share_launches_do_not_narrow_a_crossover(make_run, study_of):
    """They were timed once: the interval is that of one seed, however many there are."""

    def crossing(seeds: int):
        runs, histories = [], {}
        for arm, times in (("base", {10: [1.0, 1.1], 100: [10.0, 11.0]}), ("new", {10: [2.0, 2.2], 100: [5.0, 5.5]})):
            for seed in range(seeds):
                runs.append(make_run(arm, seed, session="s1"))
                histories[runs[-1].run_id] = times
        (group,) = scaling.groups(study_of(compare("s", runs), {"scaling/latency_ms": histories}))
        return group.race("scaling/latency_ms", "new").half

    assert crossing(1) is not None
    assert crossing(3) == crossing(1)


def test_seeds_are_replicates(make_run, study_of):
    runs = [make_run(seed=seed) for seed in (0, 1)]
    study = study_of(compare("s", runs), {LATENCY: {"run1": {128: [1.0, 2.0]}, "run2": {128: [3.0]}}})
    (group,) = scaling.groups(study)
    assert group.values == {LATENCY: {"base": {128: [1.0, 2.0, 3.0]}}}


def test_picture_has_a_panel_a_quantity(study):
    with mpl.rc_context(fname=plots.STYLE):
        figure = scaling.picture(study.comparison.labels, scaling.groups(study)[0])
    latency, memory = figure.axes
    assert (latency.get_xscale(), latency.get_yscale(), latency.get_ylabel()) == ("log", "log", "latency p50 (ms)")
    assert memory.get_ylabel() == "inference peak memory (B)"


def test_nothing_measured_by_length_has_no_chapter(make_run):
    assert scaling.chapter(Study(compare("s", [make_run()]))).sections == []


def log_lengths(tracking, number: str, growth: float, launches: int = 3) -> None:
    """Latency of several launches, memory and FLOPs by length, of one run in the store."""
    from mlflow.entities import Metric

    points = []
    for length in LENGTHS:
        for launch in range(launches):
            noise = 1 + 0.01 * ((launch + length // 128) % 3 - 1)
            points.append(Metric(LATENCY, noise * 1000 * (length / 1000) ** growth, 1000 + launch, length))
        points.append(Metric(FLOPS, 1e9 * (length / 1000) ** growth, 0, length))
        points.append(Metric(MEMORY, 1e6 * length, 0, length))
    tracking.client.log_batch(number, metrics=points)


def test_all_launches_of_a_length_are_read_oldest_first(tracking):
    from mlflow.entities import Metric

    number = tracking.log("base")
    values = [(2, 7.0, 128), (1, 9.0, 128), (5, 3.0, 256), (3, 7.0, 128)]
    tracking.client.log_batch(number, metrics=[Metric(LATENCY, value, time, length) for time, value, length in values])
    reader = connect(tracking.uri)
    runs = store.read_study(reader, "before_after")
    assert store.read_history(reader, runs, LATENCY) == {number: {128: [9.0, 7.0, 7.0], 256: [3.0]}}


@pytest.mark.long
def test_study_of_lengths_alone_has_a_whole_report(tracking):
    sizes = {"model/params_total": 4e6, "model/flops_forward": 1e9}
    log_lengths(tracking, tracking.log("base", values=sizes), 1.5)
    log_lengths(tracking, tracking.log("cheap", values=sizes), 1.0)
    assert main(["--out", "here"]) == 0
    text = Path("here", "report.md").read_text()
    assert "### By length: sst2, AMD EPYC, 2 threads" in text
    assert "](scaling.svg)" in text
    assert Path("here", "scaling.svg").stat().st_size
    row = next(line for line in text.splitlines() if line.startswith("| base | 1.50 ["))
    assert "last doubling 1.50, off by 0 %" in row
    assert "Equal for all arms: exponent of inference peak memory 1.00 [1.00, 1.00]." in text
    crossovers = next(line for line in text.splitlines() if line.startswith("| cheap | from 1,0"))
    assert crossovers.endswith("| from 1,000 on | equal at all lengths |")
    table = pd.read_csv(io.StringIO(Path("here", "scaling.csv").read_text())).set_index(["arm", "metric", "length"])
    assert table.loc[("cheap", LATENCY, 512), ["n", "max"]].tolist() == pytest.approx([3, 512 * 1.01])
    assert not [name for name in pd.read_csv("here/summary.csv")["metric"] if name.startswith("scaling/")]
