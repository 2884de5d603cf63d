"""What all arms share is said once: parts of names, and numbers that are equal."""

import pytest

from harness.document import Bullets, Cell, Section, Table
from harness.reports.writing.concise import concise, shared_parts, short_names
from harness.reports.writing.formats import table


@pytest.mark.parametrize(
    ("labels", "names", "shared"),
    [
        (["minilm", "minilm+a", "minilm+a+b"], ["minilm", "a", "a+b"], "minilm"),
        (["base+mlm", "base+clm", "base x=true"], ["mlm", "clm", "x=true"], "base"),
        (["base+mlm", "a+mlm rate=0.1", "b+mlm rate=0.1"], ["base", "a rate=0.1", "b rate=0.1"], "mlm"),
        (["base", "base+a"], ["base", "base+a"], ""),
        (["base", "a", "b"], ["base", "a", "b"], ""),
        (["a+b+c", "b+c+a", "a+b"], ["a+b+c", "b+c+a", "a+b"], ""),
        (["b at=12000000", "b at=500000", "b at=1234567"], ["at=12 M", "at=500 k", "at=1234567"], "b"),
        (["m at=plain", "m at=bert", "m at=t5"], ["plain", "bert", "t5"], "m at="),
        (["m", "m at=bert", "m at=t5"], ["m", "at=bert", "at=t5"], "m"),
        (["m at=none", "m at=bert", "m at=t5"], ["at=none", "at=bert", "at=t5"], "m"),
        (["m at=bert", "m at=t5", "m by=t5"], ["at=bert", "at=t5", "by=t5"], "m"),
        (["b rate=0.00002", "c rate=3e-05", "d rate=0.001"], ["b rate=2e-5", "c rate=3e-5", "d rate=0.001"], ""),
    ],
)
def test_names_lose_what_they_share_and_have_short_numbers(labels, names, shared):
    assert [*short_names(labels).values()] == names
    assert shared_parts(labels) == shared


def test_every_text_has_the_short_name_and_code_the_label():
    labels = ["m", "m+a", "m+a_b", "m+a_b x=1"]
    texts = ["**m+a** loses; m+a_b x=1, m+a_b.", "`model=m+a`, m+a+c and m+a.5 are none", "**Hypothesis**: m+a wins"]
    rows = [["m+a", Cell("0.5", 0.5, "score", "like m+a_b")]]
    shown = concise(Section("m+a", [*texts, Bullets(["m+a"]), table(["arm", "m"], rows)]), labels)
    assert shown.title == "a"
    assert shown.blocks[:4] == ["**a** loses; a_b x=1, a_b.", *texts[1:], Bullets(["a"])]
    assert shown.blocks[4].rows == [[Cell("a"), Cell("0.5", 0.5, "score", "like a_b")]]


def blocks(*rows: list[Cell | str]) -> list[Table | str]:
    return concise(Section("", [table(["arm", "size", "loss"], rows)]), []).blocks


def test_a_number_that_is_equal_for_all_arms_is_said_below_the_table():
    size, same = Cell("1 M", 1e6, "parameters"), Cell("1 M", 1e6, "parameters", "0.0 % =")
    losses = [Cell("2.0", 2.0, "nats"), Cell("3.0", 3.0, "nats")]
    shown, sentence = blocks(["a", size, losses[0]], ["b", same, losses[1]], ["*guess*", "–", "9"])
    assert shown.head == ["arm", "loss"]
    assert sentence == "Equal for all arms: size 1 M."
    near = Cell("1 M", 1e6 + 1, "parameters")
    for rows in (
        [["a", size, losses[0]]],
        [["a", size, losses[0]], ["b", near, losses[1]]],
        [["a", size, losses[0]], ["b", same, losses[1]], ["c", Cell("1 M", 1e6, "parameters", "0.0 % ~"), losses[1]]],
        [["a", size, "x"], ["*guess*", "2", "x"]],
    ):
        assert len(blocks(*rows)) == 1
    both = [["a", size, losses[0]], ["b", same, losses[0]]]
    assert blocks(*both) == ["Equal for all arms: size 1 M; loss 2.0."]
    score = Cell("1.000", 1.0, "score")
    assert len(blocks(["a", score, losses[0]], ["b", score, losses[1]])) == 1
