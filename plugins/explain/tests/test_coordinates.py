"""The coordinate check of arXiv:2203.03466: activations of one size at all widths, or growing ones."""

from dataclasses import replace
from math import log2

import pytest

from harness.config.schema import ModelConfig, PretrainConfig, RunConfig
from harness.models.objectives.config import ObjectiveName
from harness.plugins.explain.describe_curves import sizes_of

CONFIG = RunConfig(
    model=ModelConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, max_position_embeddings=32
    ),
    pretrain=PretrainConfig(objective=ObjectiveName.mlm, learning_rate=2e-3, initializer_range=0.1, dropout=0.0),
)


def with_base(width: int | None) -> RunConfig:
    return replace(CONFIG, pretrain=replace(CONFIG.pretrain, mup_base_width=width))


@pytest.fixture(scope="module")
def growth() -> dict[int | None, dict[str, float]]:
    """Base width -> place -> power of the width by which the activations grow over four times the width."""
    powers = {}
    for width in (None, 64):
        narrow, wide = (sizes_of(with_base(width), times) for times in (1, 4))
        powers[width] = {place: log2(wide[place] / narrow[place]) / 2 for place in narrow}
    return powers


def test_after_some_steps_activations_are_flat_over_widths(growth):
    blocks = {place: power for place, power in growth[64].items() if place != "logits"}
    assert blocks.keys() == {"attention 1", "feed-forward 1", "attention 2", "feed-forward 2"}
    assert all(abs(power) < 0.15 for power in blocks.values()), growth[64]
    assert growth[64]["logits"] < 0.1


def test_and_they_grow_without_it(growth):
    assert all(power > 0.4 for power in growth[None].values()), growth[None]
