"""The chapter of audited claims: every claim in one row, from the record alone."""

import json

import pytest

from harness.comparison.compare import compare
from harness.errors import InputError
from harness.plugins.audit import chapter as audit
from harness.reports.reading.study import Options, Study

READING = {"name": "counted", "beside": False, "claimed": "5 | 6", "measured": "7", "verdict": "refuted", "command": ""}
READING |= {"note": ""}
WHERE = {"time": 86_400_000, "machine": "1 CPU", "source": "a paper", "conditions": ""}
CLAIM = {"name": "a", "claim": "a claim", "verdict": "refuted", "text": "refuted (wrong)", "readings": [READING]} | WHERE
OPEN = READING | {"measured": "-", "claimed": "better", "command": "python -m harness -m seed=1"}
BESIDE = READING | {"name": "other", "beside": True, "note": "by *hand*"}
SEVERAL = CLAIM | {"claim": "another", "conditions": "at night", "source": "a book"}
SEVERAL |= {"verdict": "undecided", "text": "undecided", "readings": [OPEN, BESIDE]}


@pytest.fixture
def chapter_of(make_run):
    def chapter(record: object) -> list[str]:
        comparison = compare("study", [make_run("base", 0, {"eval/score": 0.8})])
        return audit.chapter(Study(comparison, options=Options(audit=json.dumps(record).encode()))).paragraphs

    return chapter


def test_every_claim_has_a_row_and_each_of_its_readings_if_there_are_several(chapter_of):
    heading, intro, *tables, how, notes, settled_by, studies = chapter_of({"claims": [CLAIM, SEVERAL]})
    assert heading.startswith("## Claims")
    assert "2 claims, audited on 1970-01-02 (1 CPU): 1 refuted, 1 undecided" in intro
    assert tables[::2] == ["### A paper", "### A book"]
    assert tables[1].splitlines()[2:] == [r"| a claim | 5 \| 6 | 7 | refuted (wrong) |"]
    assert tables[3].splitlines()[2:] == [
        "| **another**<br>(at night) |  |  | **undecided** |",
        "| counted | better | – | refuted |",
        r"| *other* | *5 \| 6* | *7* |  |",
    ]
    assert (how, notes) == ("How it was measured:", r"- other: by \*hand\*")
    assert (settled_by, studies) == (audit.COMMANDS, "- `python -m harness -m seed=1`")


def test_a_claim_that_depends_on_the_length_has_a_picture(chapter_of):
    points = [{"value": -0.1 * length, "interval": [-0.1 * length] * 2, "where": {"length": length}} for length in (1, 2, 4)]
    curve = READING | {"name": "FLOPs", "measure": "flops", "unit": "share", "points": points, "claimed_number": -0.2}
    paragraphs = chapter_of({"claims": [CLAIM | {"readings": [curve]}]})
    assert any(paragraph.startswith("![a claim: relative change by length") for paragraph in paragraphs)
    short = curve | {"points": points[:1]}
    assert not any("![" in paragraph for paragraph in chapter_of({"claims": [CLAIM | {"readings": [short]}]}))


def test_without_an_audit_there_is_no_chapter(make_run):
    comparison = compare("study", [make_run("base", 0, {"eval/score": 0.8})])
    assert audit.chapter(Study(comparison)).sections == []


@pytest.mark.parametrize("record", [{}, [], {"claims": [{"time": 1}]}], ids=["empty", "list", "part"])
def test_a_record_of_another_kind_is_one_line(chapter_of, record):
    with pytest.raises(InputError, match=r"audit\.json.*expected the file that `python -m harness audit` wrote"):
        chapter_of(record)
