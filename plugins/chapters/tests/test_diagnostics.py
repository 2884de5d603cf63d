"""Expected vs. observed: what agrees, what does not, and that a contradiction of theory cannot be overlooked."""

import pytest

from harness.comparison.compare import compare
from harness.plugins.chapters import diagnostics
from harness.reports.reading.study import Study
from harness.reports.render import render
from harness.reports.writing.expectation import Outcome, outcome, sentence


@pytest.fixture
def make(make_run):
    """One finished run that carries an expectation with bars 0.6 and 0.9."""

    def of(arm: str, expected: str, score: float, seed: int = 0, **tags: str):
        known = {"expected": expected, "expected_reason": f"why {expected}", "expected_low": "0.6", "expected_high": "0.9"}
        known |= {"expected_chance": "0.5", "expected_ceiling": "1", "task": "order"}
        return make_run(arm, seed, {"eval/score": score}, **known | tags)

    return of


@pytest.mark.parametrize(
    ("expected", "score", "result"),
    [
        ("solves", 0.9, Outcome.AGREE),
        ("solves", 0.89, Outcome.DISAGREE),
        ("cannot", 0.6, Outcome.AGREE),
        ("cannot", 0.61, Outcome.DISAGREE),
        ("open", 0.7, Outcome.OPEN),
    ],
)
def test_score_is_held_against_its_bar(make, expected, score, result):
    assert outcome(make("base", expected, score)) is result


def test_report_without_expectations_has_no_section(make_run):
    comparison = compare("study", [make_run("base", 0, {"eval/score": 0.8})])
    assert diagnostics.chapter(Study(comparison)).sections == []
    assert "Diagnostics" not in render(Study(comparison))["report.md"].decode()


def test_table_shows_expected_found_chance_and_ceiling_of_every_arm(make):
    runs = [make("base", "solves", 0.99), make("static", "cannot", 0.52), make("bilstm", "open", 0.7)]
    report = render(Study(compare("study", runs)))["report.md"].decode()
    assert "## Sanity checks: expected vs. observed" in report
    assert "| task | chance | ceiling | base | bilstm | static |" in report
    row = next(line for line in report.splitlines() if line.startswith("| order | 0.500 | 1.000 |"))
    assert "0.990<br>solves ≥ 0.900<br>agree" in row
    assert "0.520<br>cannot ≤ 0.600<br>agree" in row
    assert "0.700<br>open |" in row
    assert "against theory" not in report


def test_finding_against_theory_stands_out_with_its_reason(make):
    runs = [make("base", "solves", 0.99), make("static", "cannot", 0.95)]
    _, warning, against, *_ = diagnostics.chapter(Study(compare("study", runs))).paragraphs
    assert warning.startswith("**1 result against theory: a bug until explained.**")
    assert "**static on order**, seed 0: expected cannot ≤ 0.600 (why cannot), observed 0.950" in against


def test_one_seed_of_several_against_theory_is_not_averaged_away(make):
    runs = [make("base", "solves", 1.0, seed) for seed in (1, 2)] + [make("base", "solves", 0.8, 3)]
    text = "\n".join(diagnostics.chapter(Study(compare("study", runs))).paragraphs)
    assert "**DISAGREE** (1 of 3 runs)" in text
    assert "seed 3" in text


def test_arm_without_a_run_on_a_task_has_a_dash(make):
    runs = [make("base", "solves", 1.0), make("base", "solves", 1.0, task="bag"), make("static", "solves", 1.0, task="bag")]
    text = "\n".join(diagnostics.chapter(Study(compare("study", runs))).paragraphs)
    assert any(line.startswith("| order |") and line.endswith("| – |") for line in text.splitlines())
    assert "- bag, base, static: solves, why solves" in text


def test_reason_of_a_stranger_cannot_break_the_table(make):
    text = "\n".join(
        diagnostics.chapter(Study(compare("study", [make("base", "solves", 0.1, expected_reason="a | b <script>")]))).paragraphs
    )
    assert "<script>" not in text


def test_one_sentence_says_what_is_as_expected_or_all_that_is_not(make):
    def said(*runs) -> list[str]:
        return sentence(compare("study", list(runs)))

    solved = [make("base", "solves", 0.99), make("bilstm", "solves", 0.95), make("open", "open", 0.7)]
    assert said(*solved, make("static", "cannot", 0.5)) == [
        "**As theory expects**: base and bilstm solve order; static cannot solve order."
    ]
    low = [make("third", "solves", score, seed) for seed, score in enumerate((0.95, 0.2, 0.95))]
    assert said(*solved, *low, make("static", "cannot", 0.9)) == [
        "**Contradicts theory, a bug until explained**: static on order (score too high); "
        "third on order (score too low in 1 of 3 runs)."
    ]
    assert said(make("base", "open", 0.7)) == []
