"""Commands in the process of a test, and what texts of a picture overlap."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from harness.__main__ import main
from harness.plugins.explain.pictures import STYLE


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def said(capsys: pytest.CaptureFixture) -> Callable[..., str]:
    """What a command prints that succeeds."""

    def run(*words: str) -> str:
        code = main(list(words))
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


@pytest.fixture
def style():
    with mpl.rc_context(fname=STYLE):
        yield


@pytest.fixture
def boxes_inside() -> Callable[[Figure], list[Bbox]]:
    """The places of all texts of a figure, none of which leaves it."""

    def boxes_of(figure: Figure) -> list[Bbox]:
        with mpl.rc_context(fname=STYLE):
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
        texts = figure.findobj(lambda artist: hasattr(artist, "get_text"))
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts if text.get_text() and text.get_visible()]
        width, height = figure.get_size_inches() * figure.dpi
        assert len(boxes) > 8
        assert all(0 <= box.x0 <= box.x1 <= width and 0 <= box.y0 <= box.y1 <= height for box in boxes)
        return boxes

    return boxes_of
