"""The descriptions of runs and studies in MLflow."""

import json

import pytest

from harness.document import Document, Picture, Section
from harness.plugins.trackers import pages

PLAN = [{"arm": arm, "task": "bag", "seed": "1"} for arm in ("base", "albert")]
REPORT = "#/experiments/1/runs/abc/artifacts/report/report.html?workflowType=machine_learning"


def test_first_line_of_a_study_links_its_report():
    """The page shows that line without unfolding the rest."""
    opening = Section("", ["**Score**: albert\nmatches base.", "albert against **base**"])
    report = Document("Report: s", [opening])
    link = pages.files_page("1", "abc", "/report/report.html")
    assert link == REPORT
    first, *rest = pages.of_study("s", PLAN, "harness -m model=base,albert", link, report).split("\n")
    assert first == f"Score: albert matches base. [Full report]({REPORT})"
    assert "2 runs: 2 arms (base, albert), 1 task (bag), 1 seed." in rest
    assert "[Full report]" not in "\n".join(rest)
    assert "Command: `harness -m model=base,albert`" in rest


def test_the_page_of_a_study_has_no_picture_that_it_does_not_show_and_no_detail():
    opening = [
        "It is.",
        Picture("a.svg", "Loss; mean"),
        "*Note.*",
        Section("Arms", ["a"]),
        Section("Tests", ["x"], detail=True),
    ]
    report = Document("Report: s", [Section("", opening)])
    assert pages.of_study("s", PLAN, "", REPORT, report).endswith("1 seed.\n\n*Note.*\n\n## Arms\n\na")


def test_the_page_of_a_small_study_ends_where_its_report_folds():
    report = Document("Report: s", [Section("", ["It is.", "a table"]), Section("Trade-offs", ["Text."])], is_small=True)
    assert pages.of_study("s", PLAN, "", REPORT, report).endswith("1 seed.\n\na table")


def test_the_page_of_a_study_ends_before_the_chapter_that_is_too_long():
    chapters = [Section("", ["It is."]), Section("A", ["a" * 3000]), Section("B", ["b" * 3000])]
    text = pages.of_study("s", PLAN, "", REPORT, Document("Report: s", chapters))
    assert "## A" in text
    assert "## B" not in text


def test_the_table_has_one_number_of_a_quantity():
    both = {"inference/latency_ms_p50", "inference/latency_device_ms", "inference/tokens_per_s"}
    both |= {"inference/device_tokens_per_s", "train_step/tokens_per_s", "train_step/device_tokens_per_s"}
    for measured, device in ((both, "device_"), ({name for name in both if "device" not in name}, "")):
        columns = json.loads(json.loads(pages.view(measured, [], 0))["state"])["selectedColumns"]
        assert [name for name in columns if name.startswith("metrics")] == [
            f"metrics.`inference/latency_{'device_ms' if device else 'ms_p50'}`",
            f"metrics.`inference/{device}tokens_per_s`",
            f"metrics.`train_step/{device}tokens_per_s`",
        ]


def test_a_study_without_a_report_links_none():
    text = pages.of_study("s", PLAN, "")
    assert text.startswith("2 runs: 2 arms (base, albert), 1 task (bag), 1 seed.\n")
    assert "](" not in text


def test_a_run_links_the_report_of_its_study(tmp_path):
    record = {"tags": {"arm": "base", "task": "bag", "seed": "1"}}
    assert pages.of_run(record, {}, "finished", tmp_path, REPORT).endswith(f"[Report of the study]({REPORT})")


def test_a_score_has_the_name_of_its_task_too():
    assert pages.main_and_details({"eval/score": 0.5}, {}, "sst2|a")[0] == {"eval/score": 0.5, "by_task/sst2_a_score": 0.5}
    assert pages.main_and_details({"pretrain/masked_loss": 3.0}, {}, "pretraining")[0] == {"pretrain/masked_loss": 3.0}


@pytest.mark.parametrize(
    ("tasks", "columns", "first"),
    [
        (["bag"], ["eval/score", "model/params_total"], "eval/score"),
        (["order", "bag"], ["by_task/bag_score", "by_task/order_score", "model/params_total"], "by_task/bag_score"),
    ],
)
def test_the_table_mixes_scores_of_no_two_tasks(tasks, columns, first):
    measured = {"model/params_total", "eval/score", *(f"by_task/{task}_score" for task in tasks)}
    state = json.loads(json.loads(pages.view(measured, [], 0))["state"])
    assert [name for name in state["selectedColumns"] if name.startswith("metrics")] == [
        f"metrics.`{name}`" for name in columns
    ]
    assert (state["orderByKey"], state["orderByAsc"]) == (f"metrics.`{first}`", False)
    assert "tags.`harness.warning`" in state["selectedColumns"]  # of a diverged run, which has a score, too


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("inference/tokens_per_s", 59284.4, "59.3 k tokens/s"),
        ("pretrain/tokens", 2.5e6, "2.5 M tokens"),
        ("pretrain/tokens", 12.0, "12 tokens"),
        ("model/params_total", 238714.0, "239 k"),
        ("inference/peak_memory_bytes", 21.78e6, "21.8 MB"),
        ("eval/score", 0.36667, "0.367"),
        ("pretrain/duration_s", 123456.0, "123,456 s"),
    ],
)
def test_a_number_has_its_unit_as_it_is_written(key, value, text):
    assert pages.value_text(key, value) == text


@pytest.mark.parametrize("lifted", ['["data.split_seed"]', '{"data.split_seed"', "\x00"])
def test_a_key_that_the_command_varies_is_shown_and_a_broken_list_of_them_breaks_nothing(lifted):
    parameters = {"seed": "0", "data.split_seed": "0"}
    shown = pages.parameters({"parameters": parameters, "tags": {"task": "bag", "lifted": lifted}}, 40)
    assert ("data.split_seed" in shown) == ("split_seed" in lifted)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("5e-05", 5e-5), ("-3", -3), ("0.15", 0.15), ("25e21f49", "25e21f49"), ("None", "None"), ("9" * 5000, "9" * 5000)],
)
def test_a_number_is_a_number_in_charts(value, expected):
    assert pages.typed(value) == expected
