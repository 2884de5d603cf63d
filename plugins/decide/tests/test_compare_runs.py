"""`python -m reports compare`: which runs are meant, and what differs between them."""

import csv
import io

import pytest

from harness.plugins.decide import compare as compare_runs
from harness.reports.__main__ import main
from harness.terminal import WIDTH


@pytest.fixture
def ids(tracking, typical) -> list[str]:
    """base and a smaller model in the same study, each with a folder's name."""
    other = {"finetune.epochs": "3", "finetune.note": "x" * 300, "study": "s"}
    base = {"model.window": "8", "study": "before_after", "arm": "base", "environment.load_average": "11.4921875"}
    settings = (base, other | {"environment.load_average": "0.5"})
    values = (typical() | {"eval/examples": 100.0}, typical(2.0, 0.75) | {"eval/loss": 0.4})
    return [
        tracking.log(arm, values=of, params=params | {"environment.cores": cores}, fingerprint=fingerprint * 8, session="s1")
        for arm, of, params, cores, fingerprint in zip(
            ("base", "small"), values, settings, ("2", "4"), ("ab12", "cd34"), strict=True
        )
    ]


def said(capsys, *arguments: str) -> str:
    assert main(["compare", *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: str) -> str:
    assert main(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def lines_of(text: str, first: str) -> list[list[str]]:
    """Cells of the rows that begin like this."""
    return [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines() if line.startswith(first)]


def test_only_what_differs_is_shown_with_units(ids, capsys):
    text = said(capsys, *ids)
    assert [cells[0] for cells in lines_of(text, "model.window")] == ["model.window"]
    assert [cell.strip() for cell in lines_of(text, "finetune.epochs")[0]] == ["finetune.epochs", "–", "3"]
    assert not any(lines_of(text, name) for name in ("study", "arm ", "seed", "eval/majority_score", "environment.torch"))
    assert [cell.strip() for cell in lines_of(text, "environment.cores")[0]] == ["environment.cores", "2", "4"]
    assert [cell.strip() for cell in lines_of(text, "environment.load")[0]] == ["environment.load_average", "11.49", "0.5"]
    assert "eval/loss" not in text


def test_the_answer_comes_first_then_the_main_results_with_units(ids, capsys):
    text = said(capsys, *ids)
    answer = next(line for line in text.splitlines() if line.startswith("B against A: "))
    assert answer.startswith("B against A: score −5.0 points; ")
    assert "latency −50.0 %" in " ".join(text.split("Single runs")[0].split())
    assert text.index(answer) < text.index("Single runs") < text.index("Main results") < text.index("Settings")
    assert [cell.strip() for cell in lines_of(text, "score")[0]] == ["score", "0.800", "0.750", "−5.0 points"]
    assert [cell.strip() for cell in lines_of(text, "latency")[0]] == ["latency, ms", "12.3", "6.15", "−50.0 %"]


def test_times_of_two_sessions_are_no_part_of_the_answer(tracking, typical, capsys):
    ids = [tracking.log("base", seed, values=typical(), fingerprint=f"ab{seed}2" * 8, session=f"s{seed}") for seed in (1, 2)]
    answer, table = said(capsys, *ids).split("Main results")
    assert "B against A: score 0.0 points; " in answer
    assert "latency" not in answer
    assert lines_of(table, "latency")[0][-1].strip() == "–"


def test_a_default_that_one_run_lacks_is_shown_with_its_value(tracking, capsys):
    """The run is of before the key."""
    ids = [tracking.log(arm, params=params) for arm, params in (("a", {}), ("b", {"finetune.optimizer": "sgd"}))]
    row = lines_of(said(capsys, *ids), "finetune.optimizer")[0]
    assert [cell.strip() for cell in row] == ["finetune.optimizer", "adamw", "sgd"]


def test_all_numbers_are_counted_and_shown_on_demand(ids, capsys):
    assert "27 numbers; --all lists them" in said(capsys, *ids)
    text = said(capsys, *ids, "--all")
    assert "27 numbers\n" in text
    assert lines_of(text, "eval/majority_score")
    row = ["inference/latency_ms_p50, ms", "12.3", "6.15", "−50.0 %"]
    assert [cell.strip() for cell in lines_of(text, "inference/latency_ms_p50")[0]] == row
    assert [cell.strip() for cell in lines_of(text, "eval/loss")[0]] == ["eval/loss", "–", "0.400", "–"]
    assert "timing/" not in text
    assert "finetune/loss" not in text


def test_it_gives_no_verdict_and_says_so(ids, capsys):
    text = said(capsys, *ids)
    assert "Single runs are not evidence" in text
    assert not any(word in text for word in ("better", "worse", "equivalent within"))


def test_nothing_is_wider_than_a_terminal(ids, capsys):
    assert max(map(len, said(capsys, *ids).splitlines())) <= WIDTH


def test_ids_beginnings_names_and_folders_name_a_run(ids, tracking, capsys):
    text = said(capsys, *ids)
    for first in (ids[0][:12], "base-tiny-sst2-0-ab", "multirun/before_after/base-tiny-sst2-0-ab12ab12/"):
        assert said(capsys, first, ids[1]) == text
    name = tracking.client.get_run(ids[1]).info.run_name
    assert said(capsys, ids[0], name) == text


def test_folder_that_two_attempts_share_means_the_newest(ids, tracking, typical, capsys):
    again = tracking.log("base", values=typical(), fingerprint="ab12" * 8)
    assert again in said(capsys, "base-tiny", ids[1]).splitlines()[0]


def test_a_study_tells_folders_of_one_name_apart(ids, tracking, capsys):
    other = tracking.log("base", fingerprint="ab12" * 8, study="other")
    assert "is ambiguous (2 runs)" in refused(capsys, "base-tiny", ids[1])
    for first, meant in (("before_after", ids[0]), ("other", other), ("multirun/other", other)):
        assert meant in said(capsys, f"{first}/base-tiny-sst2-0-ab12ab12", ids[1]).splitlines()[0]


def test_unclear_and_unknown_runs_are_one_line_with_choices(ids, tracking, capsys):
    assert "no run 'nope' in the tracking store" in refused(capsys, "nope", ids[0])
    assert "before_after/small-tiny-sst2-0-cd34cd34" in refused(capsys, "nope", ids[0])
    assert "'before_after' is a study; compare takes two runs" in refused(capsys, "before_after", ids[0])
    assert "are the same run" in refused(capsys, ids[0], "base-tiny")
    assert "unknown study 'x'" in refused(capsys, *ids, "--study", "x")
    tracking.client.create_experiment("empty")
    assert "no run 'base' in study 'empty'" in refused(capsys, "base", ids[1], "--study", "empty")


def test_beginning_of_several_lists_them(ids, tracking, capsys):
    tracking.log("base", 1, fingerprint="ef56" * 8)
    line = refused(capsys, "base-tiny", ids[1])
    assert "is ambiguous (2 runs)" in line
    assert "base-tiny-sst2-1-ef56ef56" in line


def test_csv_has_base_units_and_all_numbers(ids, capsys):
    rows = {(row["part"], row["name"]): row for row in csv.DictReader(io.StringIO(said(capsys, *ids, "--format", "csv")))}
    latency = rows["number", "inference/latency_ms_p50"]
    assert (latency["unit"], float(latency["a"]), float(latency["b"])) == ("ms", 12.3, 6.15)
    assert float(latency["change_percent"]) == pytest.approx(-50)
    assert rows["number", "eval/majority_score"]["change"] == "0.0"
    assert (rows["setting", "model.window"]["a"], rows["setting", "model.window"]["b"]) == ("8", "")
    assert rows["environment", "environment.cores"]["b"] == "4"


def test_markdown_is_tables(ids, capsys):
    text = said(capsys, *ids, "--format", "md")
    assert "| score | 0.800 | 0.750 | −5.0 points |" in text


def test_those_of_the_overview_come_first_then_groups_and_what_does_not_compare_last(make_run):
    names = ("eval/loss", "eval/score", "finetune/peak_memory_bytes", "inference/tokens_per_s", "inference/peak_memory_bytes")
    first, second = (make_run(arm, values=dict.fromkeys(names, 4.0)) for arm in "ab")
    del second.metrics["eval/loss"]
    listed = [one.metric.name for one in compare_runs.numbers(first, second)]
    assert listed == [
        "eval/score",
        "inference/peak_memory_bytes",
        "eval/loss",
        "inference/tokens_per_s",
        "finetune/peak_memory_bytes",
    ]


def test_the_clock_of_the_verdicts_comes_first(make_run):
    names = ("inference/latency_ms_p50", "inference/latency_device_ms")
    first, second = (make_run(arm, values=dict.fromkeys(names, 4.0)) for arm in "ab")
    assert [one.metric.name for one in compare_runs.numbers(first, second)] == [*reversed(names)]
    del first.metrics[names[1]], second.metrics[names[1]]
    assert [one.metric.name for one in compare_runs.numbers(first, second)] == [names[0]]


@pytest.mark.parametrize(
    ("name", "sessions", "compares"),
    [
        ("inference/tokens_per_s", ("s1", "s1"), True),
        ("inference/tokens_per_s", ("s1", "s2"), False),
        ("inference/tokens_per_s", ("", ""), False),
        ("finetune/duration_s", ("s1", "s1"), False),
        ("finetune/mfu", ("s1", "s1"), False),
        ("eval/score_low", ("s1", "s2"), True),
    ],
)
def test_times_compare_only_where_one_session_launched_both(make_run, name, sessions, compares):
    runs = (
        make_run(arm, values={name: size}, session=session)
        for arm, size, session in zip("ab", (0.25, 0.5), sessions, strict=True)
    )
    (number,) = compare_runs.numbers(*runs)
    assert (number.first, number.second) == (0.25, 0.5)
    assert (number.change, number.percent) == ((0.25, 100.0) if compares else (None, None))


@pytest.mark.parametrize(("name", "compares"), [("eval/score", False), ("model/params_total", True)])
def test_scores_of_two_tasks_are_not_subtracted(make_run, name, compares):
    (number,) = compare_runs.numbers(*(make_run(values={name: 0.5}, task=task) for task in ("bag", "order")))
    assert (number.change is not None) is compares
