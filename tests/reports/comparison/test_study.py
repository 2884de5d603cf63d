"""What chapters read: histories of metrics, each read once."""

from reports.comparison.compare import compare
from reports.comparison.study import Study


def test_history_is_read_once_and_a_curve_is_its_last_values(make_run):
    read = []

    def store(metric: str) -> dict:
        read.append(metric)
        return {"run1": {0: [3.0], 10: [2.0, 1.0]}}

    study = Study(compare("s", [make_run()]), store)
    assert study.curve("finetune/loss") == {"run1": {0: 3.0, 10: 1.0}}
    assert study.history("finetune/loss") == {"run1": {0: [3.0], 10: [2.0, 1.0]}}
    assert read == ["finetune/loss"]


def test_study_without_a_store_has_no_history(make_run):
    assert Study(compare("s", [make_run()])).curve("finetune/loss") == {}
