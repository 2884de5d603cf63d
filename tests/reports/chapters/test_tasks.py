"""What to know of several tasks is said once, and so are the metrics that they share."""

import pytest
from texts import line, md, parts

from harness.comparison.compare import compare
from harness.document import is_detail
from harness.reports.chapters import tasks
from harness.reports.writing import section_text, tables

TIMES = {"base": [10.0, 10.1, 9.9], "new": [8.0, 8.1, 7.9]}


@pytest.fixture
def sections(timed, study_of):
    """The chapter on two tasks that share launches; arms have different seeds on both, and one has a part of its rows."""
    runs = []
    for task, score in (("sst2", 0.8), ("cola", 0.5)):
        for arm, seeds in (("base", (0, 1)), ("new", (1,))):
            for seed in seeds:
                values = {"eval/score": score + seed / 100, "model/params_total": 100.0 + (arm == "new")}
                runs.append(timed(arm, TIMES[arm], seed, values, task=task))
                runs[-1].params["data.validation_examples"] = "100" if task == "cola" else "None"
                runs[-1].tags.update({"data_set": "glue@1f, configuration sst2, licence other"} if task == "sst2" else {})
    comparison = compare("s", runs)
    return comparison, tasks.chapter(study_of(comparison)).sections


def test_a_note_on_several_tasks_is_said_once_and_another_names_its_task(sections):
    comparison, (notes, *of_tasks) = sections
    said = parts(notes)
    assert sum(text.count("new ran seed 1, the baseline seeds 0, 1") for text in said) == 1
    assert "- cola: base, new scored on the first 100 examples of the validation split, not the official split." in said[-1]
    assert [line(said[1], section.name) for section in comparison.tasks] == [
        ["sst2", comparison.tasks[0].conditions, "glue@1f, configuration sst2", "other"],
        ["cola", comparison.tasks[1].conditions, "–", "–"],
    ]
    assert not any("Conditions (hash)" in text or "Data set:" in text for text in said)
    assert all(is_detail(section) for section in of_tasks)  # no chapter without a table in report.md
    assert not any("ran seed" in text or "Conditions" in text for section in of_tasks for text in parts(section))


def test_metrics_that_tasks_share_are_in_the_table_of_the_first(sections):
    comparison, (_, first, second) = sections
    shared = section_text.repeated(comparison.tasks[1], comparison.tasks[0])
    assert {"model/params_total", "inference/latency_ms_p50"} <= {*shared}
    assert not any(name.startswith("eval/") for name in shared)
    assert "| parameters | latency" in md(first)
    assert f"As on {comparison.tasks[0].name}: parameters; latency" in md(second)
    assert not any("parameters" in head for head in md(second).splitlines() if head.startswith("| arm"))


def test_a_metric_that_differs_in_one_arm_is_in_every_table(timed):
    runs = [timed(arm, TIMES[arm], 0, {"eval/score": 0.8}, task=task) for task in ("sst2", "cola") for arm in TIMES]
    runs[-1].metrics["model/params_total"] = 7.0
    runs[1].metrics["model/params_total"] = 8.0
    first, second = compare("s", runs).tasks
    assert first.rows[0].mean("eval/score") == second.rows[0].mean("eval/score")
    assert "eval/score" not in section_text.repeated(second, first)  # equal by chance
    assert "model/params_total" not in section_text.repeated(second, first)
    assert "| parameters |" in md(tables.before_after(second, section_text.repeated(second, first)))
