"""Figures in README and docs are those of the files that they come from, and a changed one is noticed."""

import pytest

from tests.docs import figures


@pytest.mark.parametrize("block", figures.blocks())
def test_a_document_has_the_figures_of_the_files(block):
    """Where it does not: python tests/docs/figures.py --write."""
    document, beginning = block
    text = (figures.ROOT / document).read_text()
    start, end = figures.place(text, beginning)
    assert text[start:end] == figures.blocks()[block]


def test_a_figure_that_no_file_has_is_an_error():
    for missing in (
        lambda: figures.cells("before_after", "no such arm", "parameters"),
        lambda: figures.cells("before_after", "base+mlm", "no such column"),
        lambda: figures.bench("amd-epyc-2-cores-2026-11-23", "sweep", "no such row"),
        lambda: figures.place("a\na\n", "a"),
    ):
        with pytest.raises(figures.MissingError):
            missing()
