"""Scores with their intervals over the items, as metrics of runs."""

from harness.comparison.compare import compare
from harness.plugins.chapters import over_items
from harness.reports.reading.study import Study


def text_of(runs: list) -> str:
    return "\n".join(over_items.chapter(Study(compare("s", runs))).paragraphs)


def test_each_arm_has_its_score_with_both_ends_and_a_dash_where_one_is_missing(make_run):
    scores = {"eval/score": 0.5, "eval/pearson": 0.5, "eval/pearson_low": 0.4, "eval/pearson_high": 0.6}
    runs = [
        make_run("base", 0, scores),
        make_run("base", 1, scores | {"eval/pearson": 0.6}),
        make_run("wide", 0, {"eval/score": 0.7, "eval/pearson": 0.7}),
    ]
    text = text_of(runs)
    assert "| arm | Pearson correlation |" in text
    assert "| base | 0.550 [0.400, 0.600] |" in text
    assert "| wide | – |" in text


def test_without_intervals_there_is_no_chapter(make_run):
    assert text_of([make_run("base", 0, {"eval/score": 0.5, "eval/accuracy": 0.5})]) == ""
