"""What an evaluation writes."""

from pathlib import Path

import numpy as np
import pytest

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.tasks.base import Predictions
from harness.tracking.run_log import Reader, RunLog
from harness.training.evaluation import write_intervals, write_scores


@pytest.mark.parametrize(("headline", "constant"), [("entity_recall", 1.0), ("entity_precision", 0.5)])
def test_constant_answer_is_scored_as_predictions_are(tmp_path: Path, headline: str, constant: float):
    """Precision and recall change places where labels and predictions do."""
    labels = ["O", "B-place"]
    task = TaskConfig(name="t", kind=TaskKind.tokens, fields=["words"], labels=labels, scores=[headline], headline=headline)
    log = RunLog(tmp_path)
    write_scores(task, Predictions([["B-place", "O", "O"]], [["O"] * 3], [["B-place", "O", "B-place"]], 0.1, {}), log)
    log.close()
    written = {entry["result"]: entry["value"] for entry in Reader(tmp_path).new_entries()}
    assert written["eval/majority_score"] == constant
    assert written["eval/score"] == 0


def test_the_loss_of_the_mean_label_is_the_variance_of_the_labels(tmp_path):
    task = TaskConfig(name="t", kind=TaskKind.regression, fields=["text"], scores=["pearson"], headline="pearson")
    labels, predicted = np.array([3.0, 4.0, 5.0, 8.0]), np.array([3.0, 5.0, 5.0, 7.0])
    log = RunLog(tmp_path)
    write_intervals(task, Predictions(labels, predicted, np.full(4, labels.mean()), 0.5, {}), log)
    log.close()
    written = {entry["result"]: entry["value"] for entry in Reader(tmp_path).new_entries()}
    assert written["eval/majority_loss"] == ((labels - 5.0) ** 2).mean() == 3.5


@pytest.mark.parametrize("predicted", [[1, 1, 0, 0, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0, 0, 0], [0] * 8])
def test_f1_is_written_with_an_interval_within_its_range(tmp_path: Path, predicted: list[int]):
    """Also where all or no rows of the class are found, so that no item moves it."""
    labels, scores = np.array([1, 1, 1, 0, 0, 0, 0, 0]), ["accuracy", "f1", "matthews"]
    task = TaskConfig(name="t", kind=TaskKind.classification, labels=["a", "b"], scores=scores, headline="f1")
    log = RunLog(tmp_path)
    write_scores(task, Predictions(labels, np.array(predicted), np.ones(8, dtype=int), 0.1, {}), log)
    log.close()
    written = {entry["result"]: entry["value"] for entry in Reader(tmp_path).new_entries()}
    assert 0 <= written["eval/f1_low"] <= written["eval/f1"] <= written["eval/f1_high"] <= 1
    assert written["eval/f1_low"] < written["eval/f1_high"]
    assert written["eval/matthews_low"] < written["eval/matthews_high"]
    assert "eval/accuracy_low" not in written


@pytest.mark.parametrize("score", ["f1", "matthews"])
def test_the_interval_of_a_rare_class_moves_with_the_score(tmp_path: Path, score: str):
    """9 of 300 rows: a perfect score is no less certain than one with a wrong row, nor than the rows of the class allow."""
    labels, ends = np.arange(300) < 9, []
    task = TaskConfig(name="t", kind=TaskKind.classification, labels=["a", "b"], scores=[score], headline=score)
    for wrong in (0, 1, 2, 4):
        predicted = np.roll(labels, wrong)
        (tmp_path / str(wrong)).mkdir()
        log = RunLog(tmp_path / str(wrong))
        write_intervals(task, Predictions(*(one.astype(int) for one in (labels, predicted, labels)), 0.1, {}), log)
        log.close()
        written = {entry["result"]: entry["value"] for entry in Reader(tmp_path / str(wrong)).new_entries()}
        ends.append([written[f"eval/{score}_{end}"] for end in ("low", "high")])
    assert all(np.all(np.diff(end) < 0) for end in np.transpose(ends)), ends
    assert ends[0][0] > 0.75
