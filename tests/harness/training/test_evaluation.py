"""What an evaluation writes."""

from pathlib import Path

import pytest

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.tasks.base import Predictions
from harness.tracking.run_log import Reader, RunLog
from harness.training.evaluation import write_scores


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
