"""Figures in README and docs are those of the files that they come from, and a changed one is noticed."""

import re

import pytest

from tests.docs import figures


@pytest.mark.parametrize("block", figures.blocks())
def test_a_document_has_the_figures_of_the_files(block):
    """Where it does not: python tests/docs/figures.py --write."""
    document, beginning = block
    text = (figures.ROOT / document).read_text()
    start, end = figures.place(text, beginning)
    assert text[start:end] == figures.blocks()[block]


CLAIMS = re.compile(
    r"no loss|los(?:es|e|ing) nothing|costs? (?:\w+ )?\d+(?:\.\d+)? points|a small (?:one|loss)|more seeds are needed|"
    r"(?:the others|they) need more seeds|does not (?:hurt|matter)|for free|as good as"
)
"""Words that say more of a difference than a verdict does; where one is right, the sentence is filled in from the report."""


@pytest.mark.parametrize("document", ["README.md", "docs/studies.md"])
def test_a_sentence_on_a_result_says_no_more_than_its_verdict(document):
    """A difference that is not shown is neither a loss nor none."""
    text = (figures.ROOT / document).read_text()
    for (name, _), block in figures.blocks().items():
        text = text.replace(block, "") if name == document else text
    found = [" ".join(match.group().split()) for match in CLAIMS.finditer(text)]
    assert not found, f"{document} claims {found}"


def test_an_arm_is_named_with_its_own_verdict_alone():
    column = ("compress", "score, mean of 5 tasks")
    worse, unclear, same = (figures.with_verdict(*column, mark, figures.HEALED) for mark in "▼~≈")
    assert len(worse) + len(unclear) + len(same) == len(figures.HEALED)
    assert "SwiGLU (−0.1 points)" in unclear
    assert "a window of 16 (−16.3 points)" in worse
    with pytest.raises(figures.MissingError, match="no arm has the verdict"):
        figures.enumerated(same)


def test_a_figure_that_no_file_has_is_an_error():
    for missing in (
        lambda: figures.cells("before_after", "no such arm", "parameters"),
        lambda: figures.cells("before_after", "base+mlm", "no such column"),
        lambda: figures.bench("amd-epyc-2-cores-2026-11-23", "sweep", "no such row"),
        lambda: figures.place("a\na\n", "a"),
    ):
        with pytest.raises(figures.MissingError):
            missing()
