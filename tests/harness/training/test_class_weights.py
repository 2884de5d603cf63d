"""Weights of classes in the loss: those of scikit-learn, and what they do to it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from harness import tasks
from harness.config.choices import TaskKind
from harness.config.rules import refuse_class_weights
from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier
from harness.models.losses import IGNORED
from harness.training.finetune import class_weights, step_of

LABELS = np.array([0, 0, 0, 0, 0, 2, 2, 1])
SHAPE = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


def config(weights: object, kind: TaskKind = TaskKind.classification) -> RunConfig:
    task = TaskConfig(name="made", kind=kind, labels=["O", "B-x", "I-x"], fields=["text"])
    return RunConfig(task=task, finetune=FinetuneConfig(class_weights=weights))


def weights_of(given: object, labels: np.ndarray, machine: Machine, kind: TaskKind = TaskKind.classification) -> list | None:
    found = class_weights(config(given, kind), SimpleNamespace(train=SimpleNamespace(labels=labels)), machine)
    return found if found is None else found.tolist()


def test_balanced_weights_are_those_of_scikit_learn(machine):
    expected = compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    assert weights_of("balanced", LABELS, machine) == pytest.approx(expected.tolist())
    of_tokens = np.concatenate([LABELS, [IGNORED] * 5])  # pieces that no word begins with
    assert weights_of("balanced", of_tokens, machine, TaskKind.tokens) == pytest.approx(expected.tolist())


def test_balanced_weights_of_several_labels_are_texts_without_over_texts_with(machine):
    labels = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=np.float32)
    assert weights_of("balanced", labels, machine, TaskKind.multilabel) == [3, 4, pytest.approx(1 / 3)]


def test_given_weights_are_by_label_and_none_is_none(machine):
    assert weights_of({"I-x": 3, "O": 0.5, "B-x": 1}, LABELS, machine) == [0.5, 1, 3]
    assert weights_of(None, LABELS, machine) is None


@pytest.mark.parametrize("kind", [TaskKind.classification, TaskKind.tokens])
def test_loss_of_each_label_is_multiplied_by_its_weight(kind):
    of_kind = tasks.KINDS[kind]
    model = build_classifier(SHAPE, 3, 0, of_kind.head()).eval()
    labels = torch.tensor([[0, 1, IGNORED], [2, 0, 0]]) if kind is TaskKind.tokens else torch.tensor([2, 0])
    batch = Batch(input_ids=torch.randint(0, 50, (2, 3)), labels=labels)
    plain, weights = of_kind.loss(model, batch), torch.tensor([0.5, 2.0, 3.0])
    model.class_weights = torch.ones(3)
    assert of_kind.loss(model, batch).item() == pytest.approx(plain.item(), rel=1e-6)
    model.class_weights = weights
    logits, flat = model(batch).reshape(-1, 3), labels.flatten()
    each = F.cross_entropy(logits, flat, reduction="none", ignore_index=IGNORED) * weights[flat.clamp(min=0)]
    assert of_kind.loss(model, batch).item() == pytest.approx((each.sum() / (flat != IGNORED).sum()).item(), rel=1e-6)


def test_a_batch_in_pieces_has_the_weighted_loss_of_the_whole():
    kind, labels = tasks.KINDS[TaskKind.classification], torch.tensor([2, 0, 1, 0, 0])
    model = build_classifier(SHAPE, 3, 0).eval()
    model.class_weights = torch.tensor([0.5, 2.0, 3.0])
    batch = Batch(input_ids=torch.randint(0, 50, (5, 3)), labels=labels)
    step = step_of(batch, 2)
    pieces = zip(step.micro_batches, step.weights, strict=True)
    assert sum(kind.loss(model, piece).item() * weight for piece, weight in pieces) == pytest.approx(
        kind.loss(model, batch).item()
    )


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("even", "must be balanced, or a number above 0 for each label"),
        ({"O": 1, "B-x": 0, "I-x": 1}, "must be balanced, or a number above 0"),
        ({"O": 1, "B-y": 2, "I-x": 1}, "must have a weight for each label of task 'made': O, B-x, I-x"),
    ],
)
def test_wrong_weights_are_refused_in_one_line(weights, expected):
    with pytest.raises(InputError, match=expected):
        refuse_class_weights(config(weights))


def test_a_task_without_classes_takes_no_weights():
    run = config("balanced", TaskKind.regression)
    with pytest.raises(InputError, match="of kind regression has no classes: leave it out"):
        refuse_class_weights(run)
    refuse_class_weights(replace(run, finetune=FinetuneConfig()))


@pytest.mark.long
def test_weights_may_be_typed(compose):
    (run,) = compose("task=own", "task.train_file=a.csv", "finetune.class_weights={no: 1, yes: 3}")
    assert run.finetune.class_weights == {"no": 1, "yes": 3}
    (run,) = compose("task=own", "task.train_file=a.csv", "finetune.class_weights=balanced")
    assert run.finetune.class_weights == "balanced"
