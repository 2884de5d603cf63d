"""Runs that do not count are named, also those that were never started; the legend says what changes are computed from."""

import json

import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.comparison.paired import Design
from harness.reports.chapters import appendix
from harness.reports.reading.study import Study


def plan(folder, titles: dict[str, str]) -> dict[str, object]:
    return {"folder": str(folder), "runs": [{"folder": f"s/{name}", "title": title} for name, title in titles.items()]}


def test_runs_of_the_newest_command_that_were_not_started_are_named(make_run, tmp_path):
    (tmp_path / "s" / "one").mkdir(parents=True)
    (tmp_path / "s" / "one" / "run.json").write_text("{}")
    older, newer = {"old": "old, seed 1"}, {"one": "base, seed 1", "two": "base, seed 2", "three": "small, seed 2"}
    plans = {"a": {"time": 1, **plan(tmp_path, older)}, "b": {"time": 2, **plan(tmp_path, newer)}}
    (tmp_path / "s" / "plan.json").write_text(json.dumps(plans))
    made = appendix.left_out(Study(compare("s", [make_run()]), output=tmp_path))
    assert made.paragraphs[0] == "## Runs that do not count"
    assert made.paragraphs[1].startswith("Planned but not started (2)")
    assert made.paragraphs[1].endswith("base, seed 2; small, seed 2.")


def test_nothing_is_said_where_everything_ran_or_no_plan_is_known(make_run, tmp_path):
    comparison = compare("s", [make_run()])
    assert appendix.left_out(Study(comparison)).sections == []
    assert appendix.left_out(Study(comparison, output=tmp_path)).sections == []
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "plan.json").write_text("torn")
    assert appendix.left_out(Study(comparison, output=tmp_path)).sections == []


def test_runs_that_failed_are_in_the_table(make_run):
    made = appendix.left_out(Study(compare("s", [make_run(), make_run("small", status="failed")])))
    assert "| small-0 | small | sst2 | 0 | failed |" in made.paragraphs[1]


@pytest.mark.parametrize(
    ("design", "said"),
    [
        (None, "the seeds that both arms ran"),
        (Design.RUNS, "all runs of both arms, which do not pair"),
        (Design.ITEMS, "the items of one run of each arm"),
    ],
)
def test_the_legend_says_what_changes_are_computed_from(make_run, design, said):
    stated = {tags.DESIGN: design} if design else {}
    comparison = compare("s", [make_run(arm, 0, {"eval/score": 0.5}, **stated) for arm in ("base", "new")])
    assert f"Changes use {said}, or" in "\n".join(appendix.legend(Study(comparison)).paragraphs)
