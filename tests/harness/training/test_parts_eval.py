"""Held-out evaluation of what an objective trains beside masked tokens."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numbered_words import config_on, read, words
from torch.nn import functional as F

from harness import metrics
from harness.checkpoints import native
from harness.config.schema import HardwareConfig, ModelConfig, PretrainConfig
from harness.hardware.device import Machine
from harness.models.batch import Batch
from harness.models.config import Body, Position
from harness.models.objectives import masked_lm
from harness.models.objectives.build import OBJECTIVES
from harness.models.objectives.causal import one_sided
from harness.models.objectives.config import ObjectiveName
from harness.training.held_out import HeldOut
from harness.training.pretrain import build, save_weights

SHAPE = ModelConfig(
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    hidden_dropout_prob=0.5,
    attention_probs_dropout_prob=0.5,
)
SHAPES = {
    ObjectiveName.cbow: replace(SHAPE, body=Body.static, position=Position.none),
    ObjectiveName.span_corruption: replace(SHAPE, body=Body.encoder_decoder),
}
"""Of objectives that need another body."""
PAIR = {"pretrain/pair_loss", "pretrain/pair_accuracy"}
OWN = {
    ObjectiveName.clm: "next_token",
    ObjectiveName.plm: "permuted",
    ObjectiveName.bidirectional_lm: "two_sided",
    ObjectiveName.span_corruption: "span",
}
"""What replaces masked tokens."""
DETECTOR = {f"pretrain/{part}_{what}" for part in ("detection", "replaced") for what in ("loss", "accuracy")}


@pytest.fixture
def made(tmp_path: Path) -> Callable:
    """An objective and its evaluation on a text of numbered words; `documents` of 50 words each are held out."""

    def configured(objective: ObjectiveName, documents: int, length: int, shape: ModelConfig, seed: int = 0):
        texts = [words(start, start + 50) for start in range(0, 300, 50)]
        options = PretrainConfig(objective=objective, steps=2, length=length, batch_size=3, seed=seed, probe_steps=3)
        given = ("\n\n".join(texts), "\n\n".join(texts[:documents]), 300)
        config = config_on(tmp_path, *given, sentinels=3, model=shape, pretrain=options)
        corpus = read(config)
        return replace(config, model=replace(shape, vocab_size=corpus.vocab_size)), corpus

    def make(objective: ObjectiveName, documents: int = 4, length: int = 32, shape: ModelConfig | None = None, seed: int = 0):
        shape = shape or SHAPES.get(objective, SHAPE)
        config, corpus = configured(objective, documents, length, shape, seed)
        machine = Machine(HardwareConfig(threads=1))
        return build(config, corpus.vocabulary()), HeldOut(config.pretrain, config.model, corpus, machine)

    def masked(objective: ObjectiveName, shape: ModelConfig) -> HeldOut:
        config, corpus = configured(objective, 4, 32, shape)
        return HeldOut(config.pretrain, config.model, corpus, Machine(HardwareConfig(threads=1)))

    make.masked = masked
    return make


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (ObjectiveName.mlm, set()),
        (ObjectiveName.mlm_nsp, PAIR),
        (ObjectiveName.mlm_sop, PAIR),
        (ObjectiveName.rtd, DETECTOR),
        (ObjectiveName.cbow, {"pretrain/centre_loss", "pretrain/centre_accuracy"}),
        *((objective, {f"pretrain/{part}_loss", f"pretrain/{part}_accuracy"}) for objective, part in OWN.items()),
    ],
    ids=lambda value: value.value if isinstance(value, ObjectiveName) else "",
)
def test_each_part_has_its_declared_metrics(made, objective, expected):
    model, evaluation = made(objective)
    scores = evaluation.parts(model)
    assert scores.keys() == expected | ({"pretrain/next_token_bits_per_byte"} if objective is ObjectiveName.clm else set())
    assert all(metrics.check(name, value) == value for name, value in scores.items())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name is not ObjectiveName.distillation])
def test_held_out_losses_are_computed_again_from_the_checkpoint(made, tmp_path, name, tied):
    """Those of its own heads, and the masked loss, for which a probe is trained where the objective has no such head."""
    shape = replace(SHAPES.get(name, SHAPE), tie_masked_lm_head=tied)
    model, evaluation = made(name, shape=shape)
    with torch.no_grad():
        for parameter in model.parameters():  # as if trained: no tensor has its initial value
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    save_weights(tmp_path / "checkpoint", model, model.encoder.config, tmp_path / "vocab.txt", {})
    again, _ = made(name, shape=shape, seed=9)
    state, _ = native.read(tmp_path / "checkpoint")
    missing, unexpected = again.load_state_dict(state, strict=False)
    assert not unexpected
    outputs = {"masked_head.output.weight", "lm_head.output.weight"} if tied else set()
    shared = {"generator_head.output.weight", *outputs}  # one tensor under two names, as are embeddings of the generator
    assert all(place in shared or place.startswith("generator.embeddings.") for place in missing)

    def losses(objective):
        return evaluation.parts(objective) | made.masked(name, shape).masked(objective)

    expected = losses(model)
    assert any(key.endswith("_loss") for key in expected)
    assert losses(again) == pytest.approx(expected, rel=1e-5)


def test_loss_on_next_tokens_is_that_of_a_plain_shift(made, monkeypatch):
    """Also where few logits fit at a time."""
    model, evaluation = made(ObjectiveName.clm)
    with torch.no_grad():
        for matrix in (parameter for parameter in model.parameters() if parameter.dim() > 1):
            matrix.mul_(20)  # attention with small random weights sees next to nothing, whatever its mask
    scores = evaluation.parts(model)
    every = np.arange(len(evaluation._of_phases[0]))
    ids = evaluation._of_phases[0].batch(every, np.zeros_like(every)).input_ids
    logits = model.lm_head(model.encoder(one_sided(Batch(ids), backward=True)))[:, :-1]
    counted = ids[:, 1:] > 4  # special tokens are the first five
    assert counted.sum() > 100
    expected = F.cross_entropy(logits[counted], ids[:, 1:][counted]).item()
    assert scores["pretrain/next_token_loss"] == pytest.approx(expected, rel=1e-5)
    correct = (logits.argmax(-1) == ids[:, 1:])[counted].float().mean().item()
    assert scores["pretrain/next_token_accuracy"] == pytest.approx(correct, rel=1e-6)
    monkeypatch.setattr(masked_lm, "LOGITS", 1)
    assert evaluation.parts(model) == pytest.approx(scores, rel=1e-6)


@pytest.mark.parametrize(
    "objective", [ObjectiveName.mlm_sop, ObjectiveName.rtd, ObjectiveName.plm], ids=lambda name: name.value
)
def test_two_evaluations_agree_and_leave_the_random_stream(made, objective):
    model, evaluation = made(objective)
    torch.manual_seed(1)
    first, after = evaluation.parts(model.train()), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    torch.manual_seed(2)
    assert evaluation.parts(model.train()) == first


def test_held_out_text_too_short_for_pairs_is_said_and_has_no_number(made, capsys):
    model, evaluation = made(ObjectiveName.mlm_nsp, documents=1)
    assert evaluation.parts(model) == {}
    assert "pairs are trained on, but not evaluated on held-out text: pretrain.length=32" in capsys.readouterr().out
