"""The descriptions of runs and studies in MLflow."""

from harness.tracking import pages
from harness.tracking.pages import Links

PLAN = [{"arm": arm, "task": "bag", "seed": "1"} for arm in ("base", "albert")]
REPORT = "#/experiments/1/runs/abc/artifacts/report/report.html?workflowType=machine_learning"
LINKS = Links("1", "abc", ("report.html", "report.md"))


def test_first_line_of_a_study_links_its_report():
    """The page shows that line without unfolding the rest."""
    first, *rest = pages.of_study("s", PLAN, "harness -m model=base,albert", LINKS, "# Report: s\n").split("\n")
    assert first == f"**s**: 2 runs: 2 arms (base, albert), 1 task (bag), 1 seed. [The whole report]({REPORT})"
    assert "[The whole report]" not in "\n".join(rest)
    assert "Command: `harness -m model=base,albert`" in rest


def test_a_study_without_a_report_links_none():
    text = pages.of_study("s", PLAN, "", Links("1", "abc"))
    assert text.startswith("**s**: 2 runs: 2 arms (base, albert), 1 task (bag), 1 seed.\n")
    assert "](" not in text


def test_a_run_links_the_report_of_its_study(tmp_path):
    record = {"tags": {"arm": "base", "task": "bag", "seed": "1"}}
    assert pages.of_run(record, {}, "finished", tmp_path, LINKS).endswith(f"[Report of the study]({REPORT})")
