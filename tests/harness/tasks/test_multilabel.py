"""Any number of labels for a text: encoding, loss, scores and the majority baseline, worked out by hand or by torch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from harness import tasks
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier
from harness.plugins.archive import verify
from harness.tasks import scores
from harness.tasks.base import Split
from harness.tasks.rows import Table

TASK = TaskConfig(
    name="made",
    kind=TaskKind.multilabel,
    fields=["text"],
    labels=["awe", "joy", "rage"],
    scores=["f1_micro", "f1_macro", "accuracy"],
    headline="f1_micro",
    max_length=8,
)
KIND = tasks.kind_of(TASK)
TEXTS, LABELS = ["a film", "a play", "a song", "a walk"], [[0, 1], [], [1], [1, 2]]
LOGITS = np.array([[2, -1, -3], [-1, -2, 1], [-1, 3, -1], [0.5, 2, -1]], dtype=np.float32)  # awe; rage; joy; awe, joy


@pytest.fixture(scope="module")
def cut() -> Tokenizer:
    return tokenizer.build(TokenizerConfig(vocab_size=80), TEXTS * 3)


@pytest.fixture(scope="module")
def split(cut: Tokenizer) -> Split:
    table = Table({"text": TEXTS, "label": LABELS}, list(range(4)), "made")
    return KIND.encode(TASK, cut, KIND.examples(TASK, table))


def test_labels_are_a_row_of_zeros_and_ones(split):
    assert split.labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert split.labels.dtype == np.float32


@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 3.0]])
def test_loss_is_torchs_binary_cross_entropy(split, weights):
    shape = EncoderConfig(vocab_size=90, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    model = build_classifier(shape, KIND.num_outputs(TASK), 0).eval()
    model.class_weights = None if weights is None else torch.tensor(weights)
    batch = Batch(input_ids=torch.randint(0, 90, (4, 5)), labels=torch.from_numpy(split.labels))
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=model.class_weights)(model(batch), batch.labels)
    assert torch.equal(KIND.loss(model, batch), expected)
    assert "class_weights" not in model.state_dict()


def test_answers_of_a_teacher_that_are_ones_own_cost_nothing():
    logits, batch = torch.from_numpy(LOGITS), Batch(input_ids=torch.zeros(4, 1, dtype=torch.long))
    assert KIND.soft_loss(logits, logits, batch, 2.0).item() == pytest.approx(0, abs=1e-6)
    assert KIND.soft_loss(logits, -logits, batch, 2.0).item() > 0.1


def test_scores_are_the_hand_worked_ones(split):
    """awe: 1 right, 1 wrong; joy: 2 right, 1 missing; rage: 1 wrong, 1 missing. One text of four has just its labels."""
    answers = KIND.predictions(TASK, split, LOGITS, 0)
    values = {name: scores.compute(TASK.kind, name, answers.labels, answers.predicted) for name in TASK.scores}
    f1 = [2 / (2 + 1), 4 / (4 + 1), 0]
    assert values == pytest.approx({"f1_micro": 6 / (6 + 2 + 2), "f1_macro": sum(f1) / 3, "accuracy": 1 / 4})
    assert answers.loss == pytest.approx(
        torch.nn.functional.binary_cross_entropy(torch.from_numpy(LOGITS).sigmoid(), torch.from_numpy(split.labels)).item()
    )


def test_constant_answer_has_the_most_frequent_labels(split):
    """joy alone: 3 right, 1 wrong, 2 missing; with awe or rage it is worse."""
    majority = KIND.majority(TASK, KIND.examples(TASK, Table({"text": TEXTS, "label": LABELS}, list(range(4)), "made")))
    baseline = KIND.predictions(TASK, split, LOGITS, majority).baseline
    assert baseline.tolist() == [[0, 1, 0]] * 4
    assert scores.compute(TASK.kind, "f1_micro", split.labels, baseline) == pytest.approx(6 / (6 + 1 + 2))


def test_predictions_are_names_from_which_scores_follow(split):
    answers = KIND.predictions(TASK, split, LOGITS, 0)
    assert answers.columns["labels"] == [["awe", "joy"], [], ["joy"], ["joy", "rage"]]
    assert answers.columns["predictions"] == [["awe"], ["rage"], ["joy"], ["awe", "joy"]]
    columns = {name: np.array(answers.columns[name], dtype=object) for name in ("labels", "predictions")}
    labels, predicted = verify.answers(TASK.kind, columns, TASK.labels)
    assert (labels == answers.labels).all()
    assert (predicted == answers.predicted).all()


def test_a_single_label_is_refused():
    """The library takes one column for two classes, and would count the absence of the label as a class."""
    with pytest.raises(
        InputError, match=r"task.labels=\['awe'\] of task 'made' is a single label.*set task.kind=classification"
    ):
        KIND.refuse_impossible(replace(TASK, labels=["awe"]))
