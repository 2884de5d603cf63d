"""Pictures look the same in fewer bytes."""

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from harness.reports.writing import plots
from harness.reports.writing.lean import lean

DRAWN = ("path", "use", "text", "clipPath")


@pytest.fixture
def full() -> bytes:
    with mpl.rc_context(plots.STYLE):
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
