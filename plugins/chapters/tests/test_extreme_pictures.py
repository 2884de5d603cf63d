"""Pictures of extreme studies: every mark is at its values, no two texts overlap, and nothing is cut off."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from harness.comparison.compare import Comparison, compare
from harness.comparison.paired import grouped
from harness.plugins.chapters import components, effects, opening, pictures
from harness.plugins.pictures import plots
from harness.reports.writing import findings

pytestmark = pytest.mark.long

SCORE, TOTAL, LATENCY, MEMORY = "eval/score", "model/params_total", "inference/latency_ms_p50", "inference/peak_memory_bytes"
PARTS = ("token_embedding", "position_embedding", "layers", "head")


def values(total: float, score: float) -> dict[str, float]:
    """Of a run whose sizes go with `total`."""
    shares = dict(zip(PARTS, (0.6, 0.001, 0.398, 0.001), strict=True))
    counted = {f"model/params_component_{part}": share * total for part, share in shares.items()}
    return counted | {TOTAL: total, SCORE: score, LATENCY: total / 1e6, MEMORY: 40 * total, "eval/majority_score": 0.3}


def ties(arms: int) -> list[tuple[float, float]]:
    """Of one parameter more each, which no picture shows: what is equal is in none."""
    return [(1e6 + index, 1.0) for index in range(arms)]


def close(arms: int) -> list[tuple[float, float]]:
    return [(1e6 * (1 + index / 1000), 0.8 + index / 10_000) for index in range(arms)]


def huge(arms: int) -> list[tuple[float, float]]:
    return [(10.0 ** (3 + index % 9), index % 11 / 10) for index in range(arms)]


STUDIES = {
    "one arm": ties(1),
    "two ties": ties(2),
    "23 ties": ties(23),
    "23 close": close(23),
    "23 huge ranges": huge(23),
    "one far away": [*close(5), (1e12, 0.0)],
    "names of 120 letters": close(8),
}


def name(study: str, index: int) -> str:
    """Of the longest all but one letter in the middle are the same."""
    if study.startswith("names"):
        return f"{'a_change_' * 6}{index:02d}{'_and_more' * 7}x"
    return f"a_variant_with_a_long_name_{index:02d}"


@pytest.fixture(params=STUDIES)
def comparison(request: pytest.FixtureRequest, make_run) -> Comparison:
    """Two tasks and two seeds; every fifth arm lacks a task, every seventh its latency."""
    runs = []
    for index, (total, score) in enumerate(STUDIES[request.param]):
        arm = name(request.param, index) if index else "base"
        for task, seed in itertools.product(("sst2", "cola"), (0, 1)):
            if task == "cola" and index % 5 == 4:
                continue
            known = values(total, min(1.0, score + 0.001 * seed))
            if index % 7 == 6:
                del known[LATENCY]
            runs.append(make_run(arm, seed, known, task=task))
    return compare("s", runs)


def drawn(figure: Figure) -> Figure:
    """The same, with its layout done as it is when the picture is written."""
    plots.lay_out(figure)
    figure.draw_without_rendering()
    return figure


def marks(axes: Axes) -> list[np.ndarray]:
    """Places of marks in 1/72 inch."""
    points = [line for line in axes.lines if not line.get_label().startswith("_") and len(line.get_xdata()) == 1]
    return [line.get_transform().transform(line.get_xydata())[0] * 72 / axes.figure.dpi for line in points]


def values_of(axes: Axes) -> dict[str, tuple[float, float]]:
    """Name of each mark -> its values, as they are read at the axes."""
    lines = [line for line in axes.lines if not line.get_label().startswith("_") and len(line.get_xdata()) == 1]
    assert all(line.get_transform() == axes.transData for line in lines)
    return {line.get_label().split("\n")[0]: tuple(line.get_xydata()[0]) for line in lines}


def texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is shown, and where in the picture that is written."""
    renderer = figure._get_renderer()
    found = []
    for axes in figure.axes:
        if axes.get_visible():
            low, high = sorted(axes.get_xlim())
            ticks = [
                label for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=False) if low <= tick <= high
            ]
            bottom, top = sorted(axes.get_ylim())
            ticks += [
                label for tick, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=False) if bottom <= tick <= top
            ]
            found += [*ticks, *axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
    found += [text for legend in figure.legends for text in legend.get_texts()]
    return [(one.get_text(), one.get_window_extent(renderer)) for one in found if one.get_text() and one.get_visible()]


def check(figure: Figure) -> None:
    """AssertionError where a text is cut or two overlap."""
    page, found = figure.bbox, texts(figure)
    for text, box in found:
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.width + 1 and box.y1 <= page.height + 1
        assert inside, f"{text!r} is cut off: {box} of {page}"
    for (one, first), (other, second) in itertools.combinations(found, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        up = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across <= 1 or up <= 1, f"{one!r} and {other!r} overlap by {across:.1f} x {up:.1f} pixels"


@pytest.mark.parametrize("metric", [TOTAL, LATENCY])
def test_scores_against_cost(comparison: Comparison, metric: str):
    with mpl.rc_context(fname=plots.STYLE):
        figure = drawn(pictures.score_against(comparison, metric))
    check(figure)
    factor, _ = plots.axis_unit(
        metric, [row.mean(metric) for one in comparison.sections for row in one.rows if row.mean(metric)]
    )
    for axes, section in zip((one for one in figure.axes if one.get_visible()), comparison.sections, strict=True):
        rows = [row for row in section.rows if row.spread(metric)]
        expected = {row.label: (row.mean(metric) / factor, row.mean(SCORE)) for row in rows}
        assert values_of(axes) == expected
        places = marks(axes)
        box = axes.get_window_extent().transformed(mpl.transforms.Affine2D().scale(72 / figure.dpi))
        assert all(box.x0 - 2 <= x <= box.x1 + 2 and box.y0 - 2 <= y <= box.y1 + 2 for x, y in places)


def test_changes(comparison: Comparison):
    with mpl.rc_context(fname=plots.STYLE):
        figure = opening.change_picture(comparison)
        if figure is None:
            assert comparison.labels == ["base"]
            return
        check(drawn(figure))
    effects_of = grouped((effect.name, effect) for effect in findings.effects(comparison))
    effects_of = {name: of for name, of in effects_of.items() if any(effect.change.absolute for effect in of)}
    panels = {axes.get_title("left"): of for axes, of in zip(figure.axes, effects_of.values(), strict=False)}
    for axes in (one for one in figure.axes if one.get_visible()):
        places = marks(axes)
        assert len({place[1].round(1) for place in places}) == len(places)  # a line for each
        shown = {effect.label: opening.ends(effect)[0] for effect in panels[axes.get_title("left")]}
        assert {label: x for label, (x, _) in values_of(axes).items()} == shown


def test_parameter_bars(comparison: Comparison):
    with mpl.rc_context(fname=plots.STYLE):
        check(drawn(components.parameter_bars(comparison, components.groups(comparison))))


def test_one_panel_of_long_names(make_run):
    names = [f"{'a_change_' * 6}{index:02d}{'_and_more' * 7}" for index in range(3)]
    parts = [values(1e6 * (1 + index), 0.5) for index in range(3)]
    counted = [{name: value for name, value in known.items() if name.startswith(TOTAL[:12])} for known in parts]
    comparison = compare("s", [make_run(name, 0, known) for name, known in zip(names, counted, strict=True)], names[0])
    with mpl.rc_context(fname=plots.STYLE):
        check(drawn(opening.change_picture(comparison)))
        check(drawn(components.parameter_bars(comparison, components.groups(comparison))))


@pytest.mark.parametrize("changes", [2, 5])
def test_effects(make_run, changes: int):
    """Long names, effects of 0 and of 80 points."""
    names = [f"a_change_with_a_long_name_{index}" for index in range(changes)]
    runs = []
    for arm in itertools.chain.from_iterable(itertools.combinations(names, size) for size in range(changes + 1)):
        settings = {f"model.{name}": "1" for name in arm} | {f"enhancements.{name}": "True" for name in arm}
        score = 0.9 - (0.8 if names[0] in arm else 0.0)
        for task, seed in itertools.product(("sst2", "cola"), (0, 1)):
            values = {SCORE: score + 0.001 * seed * len(arm), "eval/examples": 1000.0}
            runs.append(make_run("~".join(["base", *arm]), seed, values, settings, task=task))
    comparison = compare("s", runs)
    with mpl.rc_context(fname=plots.STYLE):
        figure = effects.forest([effects.design(section) for section in comparison.selected_tasks])
        check(drawn(figure))
    of_first = [line.get_xdata()[0] for axes in figure.axes for line in axes.lines if names[0] in line.get_label()]
    assert min(of_first) == pytest.approx(-80, abs=0.5)
