"""What a training computes as a whole: the parameters after five steps are those of a plain torch loop."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig, TaskConfig
from harness.hardware.device import Machine
from harness.measure import flops
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier, build_classifier
from harness.tasks.base import Split
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog
from harness.training.finetune import finetune

ROWS, LENGTH, VOCABULARY, STEPS = 16, 8, 50, 5
PEAK = 0.02  # learning rate at the end of the warm-up
RATES = [PEAK * share for share in (1 / 2, 1, 1, 2 / 3, 1 / 3)]  # two steps up, three down towards 0
BETAS, EPS, DECAY, MAX_NORM = (0.7, 0.85), 1e-3, 0.3, 0.05


@pytest.fixture
def rows() -> Split:
    """Texts of one length: a batch of all of them is the same batch in every epoch, whatever the order."""
    stream = np.random.default_rng(0)
    ids = stream.integers(1, VOCABULARY, (ROWS, LENGTH), dtype=np.int32)
    starts = np.arange(0, ROWS * LENGTH + 1, LENGTH)
    return Split(ids.ravel(), np.zeros(ids.size, dtype=np.uint8), starts, (ids[:, 1] % 2).astype(np.int64), range(ROWS))


def classifier() -> SequenceClassifier:
    """In double precision, without dropout, with every parameter away from the values that decay or a bias of 0 would hide."""
    shape = EncoderConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = build_classifier(shape, 2, seed=0).double()
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=stream, dtype=torch.float64), alpha=0.2)
    return model


def trained_by_hand(rows: Split) -> tuple[SequenceClassifier, list[float]]:
    """The model after the five steps, and the norm of the gradients of each step before clipping."""
    model, norms = classifier().train(), []
    ids = torch.from_numpy(rows.ids.reshape(ROWS, LENGTH).astype(np.int64))
    batch, labels = Batch(ids, torch.zeros_like(ids)), torch.from_numpy(rows.labels)
    kept = [p for name, p in model.named_parameters() if name.endswith("bias") or "norm" in name]
    decayed = [p for name, p in model.named_parameters() if not (name.endswith("bias") or "norm" in name)]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": kept, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=BETAS, eps=EPS, fused=False, foreach=False)
    for rate in RATES:
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        F.cross_entropy(model(batch), labels).backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)))
        optimiser.step()
    return model, norms


def test_five_steps_of_finetuning_are_those_of_a_plain_torch_loop(rows: Split, tmp_path: Path):
    """Schedule, clipping, betas, eps and the groups of weight decay at once, parameter by parameter."""
    budget = FinetuneConfig(
        epochs=STEPS,
        batch_size=ROWS,
        learning_rate=PEAK,
        warmup_fraction=0.4,
        adam_betas=list(BETAS),
        adam_eps=EPS,
        weight_decay=DECAY,
        max_grad_norm=MAX_NORM,
    )
    task = TaskConfig(name="parity", labels=["even", "odd"], scores=["accuracy"], headline="accuracy")
    data = Prepared("key", VOCABULARY, pad_token_id=0, rows="rows", majority=0, train=rows, validation=rows)
    ours, run_log = classifier(), RunLog(tmp_path)
    position = finetune(
        RunConfig(task=task, finetune=budget), ours, data, Machine(HardwareConfig(threads=1)), run_log, flops.of_training(ours)
    )
    run_log.finish("finished")
    expected, norms = trained_by_hand(rows)
    assert position.step == STEPS
    assert all(norm > 2 * MAX_NORM for norm in norms)  # so that clipping is at work in every step
    for (name, parameter), other in zip(ours.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
