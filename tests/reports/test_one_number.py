"""One name, one number: under one title an arm has one value in all of a report, and chapters over tasks agree."""

import re

import pytest

from harness.comparison.compare import compare
from harness.document import markdown
from harness.reports import render

pytestmark = pytest.mark.long

TIMES = {"base": [2.0, 2.2, 2.9], "new": [3.0, 3.1, 4.2]}


@pytest.fixture
def result(timed):
    """Two arms on two tasks, of which one ran under an older setting, too; latencies and scores differ between all of them."""
    runs = []
    for task, settings in (("sst2", {"1": -0.1, "3": 0.0}), ("cola", {"3": 0.05})):
        for epochs, other in settings.items():
            for at, (arm, times) in enumerate(TIMES.items()):
                params = {"finetune.epochs": epochs, "task.headline": "accuracy"}
                for seed in (0, 1):
                    score = 0.8 + other + at / 20 + seed / 100
                    values = {"eval/score": score, "eval/accuracy": score, "model/params_total": 100.0 + at + (task == "cola")}
                    run = timed(
                        arm, [time * (1 + abs(other)) for time in times], seed, values, task=task, session=task + epochs
                    )
                    run.params.update(params)
                    runs.append(run)
    return compare("s", runs)


def text_of(result, study_of) -> str:
    sections = render._report(study_of(result)).document.sections
    return "\n\n".join(part for section in sections for part in markdown(section))


def numbers(text: str, arms: list[str]) -> dict[tuple[str, str, str], set[str]]:
    """(task or part, arm, title) -> the numbers there, without their spread and change; part "": what is over all tasks."""
    found: dict[tuple[str, str, str], set[str]] = {}
    part = ""
    for block in text.split("\n\n"):
        heading = re.match("#+ (.*)", block)
        if heading and (block.startswith("## ") or ": before and after" not in part):  # details are of their task
            part = heading[1] if block.startswith("###") or ": before and after" in block else ""
        lines = [
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines() if line.startswith("| ")
        ]
        if not lines or lines[0][0] != "arm":
            continue
        table = [lines[0], *lines[2:]]
        if table[0][1] in arms:  # one row a metric
            table = [list(column) for column in zip(*table, strict=True)]
        for row in table[1:]:
            for title, cell in zip(table[0][1:], row[1:], strict=True):
                if value := re.match(r"\d[\d.,]*", cell):
                    found.setdefault((part, row[0], title.removesuffix(", ms")), set()).add(value[0])
    return found


def test_one_title_is_one_number_of_an_arm(result, study_of):
    found = numbers(text_of(result, study_of), result.labels)
    titles = {title for part, _, title in found if "before and after" in part}
    assert {"latency, wall clock", "score: accuracy"} <= titles
    assert {key: values for key, values in found.items() if len(values) > 1} == {}


def test_a_count_that_is_missing_is_a_dash_without_a_verdict(make_run, study_of):
    flops = "model/flops_forward"
    runs = [make_run("base", seed, {flops: 10.0, "eval/score": 0.8}) for seed in (0, 1)]
    runs += [make_run("unknown", seed, {"eval/score": 0.8}) for seed in (0, 1)]
    runs += [make_run("half", seed, {flops: 5.0, "eval/score": 0.8}) for seed in (0, 1)]
    text = text_of(compare("s", runs), study_of)
    lines = [line for line in text.splitlines() if line.startswith("| unknown |")]
    assert lines[0].endswith("| – |")
    sentence = next(line for line in text.splitlines() if line.startswith("- **unknown**"))
    assert "FLOPs" not in sentence
    assert "5 FLOP<br>−50.0 % ▲" in next(line for line in text.splitlines() if line.startswith("| half |"))


def test_means_over_tasks_are_called_so(result, study_of):
    found = numbers(text_of(result, study_of), result.labels)
    over_tasks = {title for part, _, title in found if not part}
    assert {"mean latency", "mean parameters", "score, mean of 2 tasks"} <= over_tasks
    assert "latency" not in over_tasks


def test_chapters_over_tasks_show_the_first_tables_numbers(result, study_of):
    """They are of one selection of runs: 0.805 and 0.855, not those of the older setting, 0.705."""
    found = numbers(text_of(result, study_of), result.labels)
    for arm, score in (("base", "0.830"), ("new", "0.880")):
        scores = {
            values
            for (part, label, title), group in found.items()
            if not part and label == arm
            for values in group
            if title.startswith("score")
        }
        assert scores == {score}
        assert ("", arm, "score") in found  # Trade-offs
