"""Pictures look the same in fewer bytes, and marks say their values where they are."""

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from harness.plugins.pictures import plots
from harness.plugins.pictures.svg import lean

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = ("path", "use", "text", "clipPath")


@pytest.fixture
def full() -> bytes:
    with mpl.rc_context(fname=plots.STYLE):
        figure = Figure(figsize=(5, 3), layout="constrained")
        axes = figure.subplots(1, 2)
        axes[0].plot(np.linspace(0, 1, 50), np.linspace(0, 1, 50) ** 2, "s--", label='<b> & "c" 1.23456')
        axes[1].errorbar([1, 2, 3], [1, 4, 9], [0.1, 0.2, 0.3])
        axes[1].set(title="points", ylabel="score")
        figure.legend()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def elements(svg: bytes) -> list[tuple[str, str, list[float]]]:
    """Name, text and coordinates of all that is drawn, in order."""
    found = []
    for element in ElementTree.fromstring(svg).iter():
        name = element.tag.rpartition("}")[2]
        if name in DRAWN:
            places = " ".join(element.get(key, "") for key in ("d", "x", "y"))
            found.append((name, (element.text or "").strip(), list(map(float, re.findall(r"-?[\d.]+", places)))))
    return found


def test_what_is_drawn_is_where_it_was_in_two_thirds_of_the_bytes(full):
    small = lean(full)
    before, after = elements(full), elements(small)
    assert [one[:2] for one in after] == [one[:2] for one in before]
    assert '<b> & "c" 1.23456' in [text for _, text, _ in after]
    for (*_, were), (*_, are) in zip(before, after, strict=True):
        assert are == pytest.approx(were, abs=0.0051)
    assert 3 * len(small) < 2 * len(full)
    assert lean(small) == small


def test_what_is_referred_to_is_still_there(full):
    small = lean(full).decode()
    references = {*re.findall(r'(?:href="#|url\(#)([^")]+)', small)}
    assert len(references) > 2
    assert references == {*re.findall(r' id="([^"]*)"', small)}
    assert all(family in small for family in ("DejaVu Sans", "Verdana"))


def said(figure: Figure) -> list[tuple[float, float, str]]:
    """Centre and words of the shapes above marks."""
    with mpl.rc_context(fname=plots.STYLE):
        root = ElementTree.fromstring(plots.svg(figure))
    rects = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    return [(float(rect.get("x")) + 6, float(rect.get("y")) + 6, rect.find(f"{SVG}title").text) for rect in rects]


@pytest.mark.long
def test_marks_with_a_label_say_their_values_where_they_are_drawn():
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="length (tokens)", ylabel="latency (ms)", title="sst2", xscale="log")
    axes.plot([1, 10, 100], [3.14159, 1234.5, np.nan], "s", label="albert <b>")
    axes.plot([10], [5], "o", label="base\nits own words")
    axes.plot([1, 2], [1, 2], "o")
    axes.axhline(1, label="majority baseline")
    axes.plot([1, 100], [1, 2], label="a curve")
    axes.set_xlim(0.5, 50)
    *places, words = zip(*said(figure), strict=True)
    assert words == (
        "albert <b>, sst2\nlength (tokens): 1\nlatency (ms): 3.14",
        "albert <b>, sst2\nlength (tokens): 10\nlatency (ms): 1,234",
        "base, sst2\nits own words",
    )
    pixels = axes.transData.transform([(1, 3.14159), (10, 1234.5), (10, 5)])
    assert pytest.approx(np.array([[x, figure.bbox.height - y] for x, y in pixels]), abs=0.06) == np.array(places).T
