"""A fine-tuned teacher: its answers and its hidden states in the loss, its cost in the FLOPs, what does not fit refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import metrics_of

from harness.__main__ import main
from harness.config.schema import FinetuneConfig, HardwareConfig
from harness.hardware.device import Machine
from harness.measure import flops
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier
from harness.models.losses import IGNORED
from harness.plugins.costs import expected
from harness.study.plan import plan
from harness.tasks.base import Kind, Split
from harness.tasks.batches import collate
from harness.tasks.classification import Classification, Regression
from harness.tasks.prepared import Prepared
from harness.tasks.spans import Spans
from harness.tasks.tagging import Tokens
from harness.training.finetune import Taught, with_answers
from harness.training.loop import Position

SHAPE = EncoderConfig(
    vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, max_position_embeddings=12
)
B, T = 3, 8
REAL = torch.arange(T) < torch.tensor([8, 5, 2])[:, None]
TAGS = torch.randint(0, 3, (B, T), generator=torch.Generator().manual_seed(2)).where(REAL & (torch.arange(T) % 2 == 0), IGNORED)
KINDS: dict[str, tuple[Kind, int, torch.Tensor]] = {
    "classes": (Classification(), 3, torch.tensor([0, 2, 1])),
    "regression": (Regression(), 1, torch.tensor([0.5, 2.0, 1.0])),
    "tokens": (Tokens(), 3, TAGS),
    "spans": (Spans(), 2, torch.tensor([[1, 2], [3, 3], [0, 1]])),
}


def models_of(kind: Kind, outputs: int, seed: int = 0):
    """The student, and a teacher of two layers."""
    deeper = EncoderConfig(**vars(SHAPE) | {"num_hidden_layers": 2, "initializer_range": 0.3})
    student, teacher = (build_classifier(shape, outputs, seed, kind.head()) for shape in (SHAPE, deeper))
    return student.eval(), teacher.eval().requires_grad_(False)


def batch_of(labels: torch.Tensor) -> Batch:
    ids = torch.randint(1, 40, (B, T), generator=torch.Generator().manual_seed(0)).where(REAL, 0)
    return Batch(ids, attention_mask=REAL, labels=labels)


def by_hand(name: str, ours: torch.Tensor, theirs: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    """Item by item; logits of a teacher and a student -> the mean over what has a label."""
    if name == "regression":
        return (ours - theirs).square().mean().item()
    if name == "spans":  # start and end of each text, over its real tokens
        pairs = [(ours[row, REAL[row], end], theirs[row, REAL[row], end]) for row in range(B) for end in (0, 1)]
    elif name == "tokens":
        pairs = [(ours[row, place], theirs[row, place]) for row, place in (labels != IGNORED).nonzero().tolist()]
    else:
        pairs = list(zip(ours, theirs, strict=True))
    total = 0.0
    for one, other in pairs:
        p, q = (other / temperature).softmax(0), (one / temperature).softmax(0)
        total += temperature**2 * (p * (p / q).log()).sum().item()
    return total / len(pairs)


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_that_of_labels_answers_and_hidden_states(name: str):
    kind, outputs, labels = KINDS[name]
    (student, teacher), batch = models_of(kind, outputs), batch_of(labels)
    config = FinetuneConfig(soft_weight=3.0, temperature=2.5, hidden_weight=0.7)
    with torch.no_grad():
        states, taught = student.encoder.hidden_states(batch), teacher.encoder.hidden_states(batch)
        hidden = [(states[own] - taught[other])[REAL].square().mean().item() for own, other in ((0, 0), (1, 2))]
        soft = by_hand(name, student(batch), teacher(batch), labels, 2.5)
        expected = kind.loss(student, batch).item() + 3.0 * soft + 0.7 * sum(hidden) / 2
    assert soft > 1e-4
    assert Taught(config, kind, student, teacher).loss(batch).item() == pytest.approx(expected, rel=1e-4)
    alone = FinetuneConfig(soft_weight=0.0)
    assert Taught(alone, kind, student, teacher).loss(batch).item() == pytest.approx(kind.loss(student, batch).item(), rel=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_the_student_alone_learns(name: str):
    kind, outputs, labels = KINDS[name]
    student, teacher = models_of(kind, outputs)
    loss = Taught(FinetuneConfig(hidden_weight=1.0), kind, student.train(), teacher).loss(batch_of(labels))
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in student.parameters())
    assert all(parameter.grad is None for parameter in teacher.parameters())


@pytest.mark.parametrize("name", KINDS)
def test_answers_that_are_computed_once_give_the_same_loss(name: str, capsys):
    """Batches carry them, so that the teacher runs once for all epochs: one that answers otherwise has no part in it."""
    kind, outputs, labels = KINDS[name]
    (student, teacher), batch = models_of(kind, outputs), batch_of(labels)
    ids, by_token = batch.input_ids[REAL].numpy(), kind.labels_of_tokens
    starts = np.concatenate([[0], REAL.sum(1).cumsum(0).numpy()])
    given = (labels[REAL] if by_token else labels).numpy()
    train = Split(ids, np.zeros(len(ids), np.uint8), starts, given, range(B), labels_of_tokens=by_token)
    position, machine = Position(), Machine(HardwareConfig(threads=1))
    data = with_answers(Prepared("key", 40, 0, "rows", 0, train, train), teacher, 2, machine, position)
    config = FinetuneConfig(soft_weight=3.0, temperature=2.5)
    expected = Taught(config, kind, student, teacher).loss(batch).item()
    _, other = models_of(kind, outputs, seed=5)
    whole = collate(data.train, np.arange(B), 0)
    assert Taught(config, kind, student, other).loss(whole).item() == pytest.approx(expected, rel=1e-5)
    weighed = [Taught(config, kind, student, other).loss(whole.part(slice(row, row + 1))).item() for row in range(B)]
    if not by_token:
        assert sum(weighed) / B == pytest.approx(expected, rel=1e-5)
    assert position.flops == flops.of_model(teacher, 2, 5) + flops.of_model(teacher, 1, 8)
    assert position.seconds > 0
    size = outputs * 4 * (len(ids) if kind.every_token else B)
    assert capsys.readouterr().out.endswith(f"{B} rows are kept for all epochs, {size / 1e6:.3g} MB\n")


SMALL = [
    *("scale=tiny", "task=bag", "data.train_examples=64", "data.validation_examples=32", "finetune.max_steps=3"),
    *("measure=none", "report=false", "hardware.threads=1"),
]


def finetuning(output: Path, *given: str) -> Path:
    assert main([*SMALL, f"output={output}", *given]) == 0
    return max((path.parent for path in output.glob("*/*/result.json")), key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    """A fine-tuning with its weights."""
    return finetuning(tmp_path_factory.mktemp("teacher"), "finetune.keep=last")


@pytest.mark.long
def test_a_run_is_taught_by_another_one(teacher: Path):
    given = ["model.num_hidden_layers=1", "seed=1"]
    alone, taught = (
        finetuning(teacher.parents[1], *given),
        finetuning(teacher.parents[1], *given, f"finetune.teacher={teacher}"),
    )
    assert alone != taught
    before, after = map(metrics_of, (alone, taught))
    assert after["finetune/flops"] > 1.3 * before["finetune/flops"]
    assert after["model/params_total"] == before["model/params_total"]


@pytest.mark.long
@pytest.mark.parametrize("weight", [0, 1])
def test_a_forecast_has_the_cost_of_the_teacher(teacher: Path, compose, weight):
    given = [f"finetune.teacher={teacher}", f"finetune.hidden_weight={weight}", "seed=2"]
    (run,) = plan(compose(*SMALL, *given, f"output={teacher.parents[1]}"))
    needed = expected.work(run)
    metrics = metrics_of(finetuning(teacher.parents[1], *given))
    assert needed.flops == metrics["finetune/flops"]
    seen = {"finetune/duration_s": 2.0, "finetune/samples_per_s": 32 / 3, "steps": 2.0, "finetune/flops": needed.flops / 2}
    assert expected._extrapolated(run, replace(needed, steps=300), 3.0, seen).seconds == pytest.approx(1 + 4 + 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["task=order"], "was fine-tuned on bag: expected a fine-tuning on order"),
        (["finetune.hidden_weight=1", "scale=mini"], "has a hidden size of 128, not model.hidden_size=256"),
        (["task.max_length=600", "model.max_position_embeddings=600"], "reads at most 512 tokens"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_in_one_line(teacher: Path, capsys, tmp_path, given, message):
    assert main([*SMALL, *given, f"finetune.teacher={teacher}", f"output={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"harness: finetune.teacher={teacher}")
    assert message in line
