"""Figures and outputs in README and docs are those of the files that they come from, and a changed one is noticed."""

import re

import pytest

from tests.docs import figures


@pytest.mark.long
@pytest.mark.parametrize("path", figures.DOCUMENTS, ids=lambda path: path.name)
def test_a_document_has_the_figures_and_outputs_of_the_files(path):
    """Where it does not: python tests/docs/figures.py --write."""
    assert path.read_text() == figures.filled(path)


@pytest.mark.parametrize("path", figures.DOCUMENTS, ids=lambda path: path.name)
def test_no_output_is_written_by_hand(path):
    text = path.read_text()
    assert len(re.findall("^```text", text, re.MULTILINE)) == len(figures.SHOWN.findall(text))


def test_an_output_is_cut_to_the_lines_that_its_marker_names():
    output = "one\n\ntwo\nthree\n\nfour\n  five  \n\n\nsix\n"
    assert figures.kept(output, "1 /fi/,$") == "one\n\n...\n  five\n\n\nsix\n"
    assert figures.kept(output, "'/three$/'") == "...\nthree\n\n...\n"
    assert figures.kept("a\nb\nc\na\n", "'/b/,${/a/'") == "...\na\n"
    with pytest.raises(figures.MissingError, match="no line at /seven/"):
        figures.kept(output, "1 /seven/")


def test_commands_run_in_order_in_one_folder_and_a_failed_one_is_an_error(tmp_path):
    record = figures.run(["sh -c 'echo $COLUMNS > width'", "cat width"], tmp_path)
    assert record["commands"]["cat width"]["output"] == f"{figures.COLUMNS}\n"
    assert record["processor"]
    with pytest.raises(RuntimeError, match="ended with 3:\nbroken"):
        figures.run(["sh -c 'echo broken >&2; exit 3'"], tmp_path)


def test_the_time_of_the_demo_is_that_of_its_command():
    (demo,) = re.findall(r"^\t\$\(BIN\)/(python -m harness -m .*)$", (figures.ROOT / "Makefile").read_text(), re.MULTILINE)
    assert demo in figures.to_run()


@pytest.mark.slow
def test_a_new_run_prints_every_word_that_documents_show(tmp_path):
    """Numbers, and what depends on them, differ between machines; words do not."""
    record = figures.run(list(dict.fromkeys(figures.shown())), tmp_path)["commands"]
    for path in figures.DOCUMENTS:
        for found in figures.SHOWN.finditer(path.read_text()):
            printed = record[figures.commands_of(found[1])[-1]]["output"]
            shown = found[0].partition("```text")[2]
            assert {*re.findall(r"[^\W\d_]{3,}", shown)} <= {*re.findall(r"[^\W\d_]{3,}", printed)}


CLAIMS = re.compile(
    r"no loss|los(?:es|e|ing) nothing|costs? (?:\w+ )?\d+(?:\.\d+)? points|a small (?:one|loss)|more seeds are needed|"
    r"(?:the others|they) need more seeds|does not (?:hurt|matter)|for free|as good as"
)
"""Words that say more of a difference than a verdict does; where one is right, the sentence is filled in from the report."""


@pytest.mark.long
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
