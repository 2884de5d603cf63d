"""Marks say their values where they are."""

import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from harness.comparison.compare import compare
from harness.reports.render import render
from harness.reports.writing import plots

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"


def drawn(figure: Figure) -> ElementTree.Element:
    with mpl.rc_context(plots.STYLE):
        return ElementTree.fromstring(plots.svg(figure))


def titles(root: ElementTree.Element) -> list[str]:
    return [title.text for title in root.iter(f"{SVG}title")]


def centres(root: ElementTree.Element) -> list[tuple[float, float]]:
    """Of the shapes that say a value."""
    (group,) = [group for group in root.iter(f"{SVG}g") if group.get("class") == "marks"]
    boxes = [[float(rect.get(name)) for name in ("x", "y", "width", "height")] for rect in group]
    return [(x + width / 2, y + height / 2) for x, y, width, height in boxes]


def markers(root: ElementTree.Element, marker: str) -> list[tuple[float, float]]:
    """Where matplotlib has drawn markers with this path, in order."""
    names = {path.get("id") for path in root.iter(f"{SVG}path") if marker in (path.get("d") or "") and path.get("id")}
    return [
        (float(use.get("x")), float(use.get("y")))
        for use in root.iter(f"{SVG}use")
        if use.get(LINK, "#")[1:] in names and use.get("x")
    ]


@pytest.fixture
def panel():
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="length (tokens)", ylabel="latency (ms)", title="sst2")
    return axes


def test_points_say_their_values_where_they_are_drawn(panel):
    panel.plot([1, 10, 100], [3.14159, 1234.5, 0.5], "s", color="red", markersize=7, label="albert <b>")
    panel.set_xscale("log")
    root = drawn(panel.figure)
    assert titles(root) == [
        "albert <b>, sst2\nlength (tokens): 1\nlatency (ms): 3.14",
        "albert <b>, sst2\nlength (tokens): 10\nlatency (ms): 1,234",
        "albert <b>, sst2\nlength (tokens): 100\nlatency (ms): 0.500",
    ]
    assert np.array(centres(root)) == pytest.approx(np.array(markers(root, "M-3.5 3.5")), abs=0.11)


def test_marks_of_one_place_say_the_values_of_all(panel):
    for label in ("first", "second"):
        panel.plot([1.0], [2.0], "o", label=f"{label}\nscore: 2.0")
    assert titles(drawn(panel.figure)) == ["first, sst2\nscore: 2.0\n\nsecond, sst2\nscore: 2.0"]


def test_error_bars_say_their_ends(panel):
    panel.errorbar([1, 2], [10, 20], [[1, 0], [2, 0]], [0.25, 0.5], "o", label="base")
    assert titles(drawn(panel.figure)) == [
        "base, sst2\nlength (tokens): 1 (bar from 0.750 to 1.25)\nlatency (ms): 10 (bar from 9 to 12)",
        "base, sst2\nlength (tokens): 2 (bar from 1.50 to 2.50)\nlatency (ms): 20",
    ]


def test_bars_say_their_row_part_and_length(panel):
    for part, widths, left in (("layers", [1.5, 0], [0, 0]), ("head", [0.25, 0.5], [1.5, 0])):
        panel.barh(["base", "albert"], widths, left=left, label=part)
    panel.set_xlabel("parameters (millions)")
    assert [text.replace("\n", "; ") for text in titles(drawn(panel.figure))] == [
        "base, layers, sst2; parameters (millions): 1.50",
        "base, head, sst2; parameters (millions): 0.250",
        "albert, head, sst2; parameters (millions): 0.500",
    ]


def test_curve_says_some_values_and_its_last_one(panel):
    panel.plot(range(1, 1001), range(1, 1001), label="base")
    texts = titles(drawn(panel.figure))
    assert 12 <= len(texts) <= 24
    assert texts[-1] == "base, sst2\nlength (tokens): 1,000\nlatency (ms): 1,000"


def test_what_has_no_label_or_no_place_says_nothing(panel):
    panel.plot([1, 2], [1, 2], "o")
    panel.axhline(1, label="constant answer")
    panel.plot([1, np.nan, 9], [1, 1, 1], "o", label="base")
    panel.set_xlim(0, 5)
    assert len(titles(drawn(panel.figure))) == 1


def test_axis_in_percent_has_values_in_percent(panel):
    panel.plot([64], [-0.123], "o", label="reading")
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    assert titles(drawn(panel.figure))[0].endswith("latency (ms): −12.3 %")


@pytest.mark.long
def test_every_picture_of_a_study_says_the_values_of_every_arm(make_run, study_of):
    values = {"eval/score": 0.8, "model/params_total": 1e6, "inference/latency_ms_p50": 3.0}
    values |= {"model/params_component_layers": 6e5, "model/params_component_token_embedding": 4e5}
    arms = enumerate(("base", "albert", "<b>"))  # equal ones would be in no picture
    runs = [make_run(arm, values={name: value * (1 + place / 10) for name, value in values.items()}) for place, arm in arms]
    curves = {run.run_id: {step: 1 / (step + 1) for step in range(50)} for run in runs}
    files = render(study_of(compare("s", runs), {"finetune/loss": curves}), ("md",))
    roots = {name: ElementTree.fromstring(content) for name, content in files.items() if name.endswith(".svg")}
    pictures = {name: [part for text in titles(root) for part in text.split("\n\n")] for name, root in roots.items()}
    assert len(pictures) == 5
    for name, texts in pictures.items():
        assert {re.split(",|\n", text)[0] for text in texts} == {"albert", "<b>"} | (
            {"base"} - ({"base"} if name == "changes.svg" else set())
        )
    assert "base, sst2\nparameters: 1.00 M\nscore: 0.800" in pictures["score_parameters.svg"]
