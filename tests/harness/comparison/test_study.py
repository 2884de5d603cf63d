"""What chapters read: histories of metrics, each read once."""

from harness.comparison.compare import compare
from harness.reports.reading.study import Study


def test_history_is_read_once_and_a_curve_is_its_last_values(make_run):
    read = []

    def store(metric: str, runs: list) -> dict:
        read.append(metric)
        return {"run1": {0: [3.0], 10: [2.0, 1.0]}}

    study = Study(compare("s", [make_run()]), store)
    assert study.curve("finetune/loss") == {"run1": {0: 3.0, 10: 1.0}}
    assert study.history("finetune/loss") == {"run1": {0: [3.0], 10: [2.0, 1.0]}}
    assert read == ["finetune/loss"]


def test_curves_of_some_runs_are_read_of_these_alone(make_run):
    runs, read = [make_run("base"), make_run("other")], []
    study = Study(compare("s", runs), lambda metric, chosen: read.append(chosen) or {runs[1].run_id: {0: [2.0, 1.0]}})
    assert study.curves_of(runs[1:], "finetune/loss") == {runs[1].run_id: {0: 1.0}}
    assert read == [runs[1:]]


def test_study_without_a_store_has_no_history(make_run):
    assert Study(compare("s", [make_run()])).curve("finetune/loss") == {}


def test_a_score_is_that_of_its_evaluation_also_where_an_earlier_checkpoint_was_restored(make_run):
    study = Study(compare("s", [make_run()]), lambda metric, runs: {"run1": {7: [0.51], 24: [0.49, 0.51]}})
    assert study.curve("tune/score") == {"run1": {7: 0.51, 24: 0.49}}
