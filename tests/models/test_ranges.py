"""Ranges stand beside the fields of a config, and one check reads them."""

import math
from dataclasses import dataclass, field

import pytest

from harness.models.config import EncoderConfig
from harness.models.objectives.config import ObjectiveConfig
from harness.models.ranges import option, refuse_out_of_range


@dataclass
class Inner:
    """A section."""

    rate: float = option(0.1, above=0, limit=10)
    share: float | None = option(None, at_least=0, at_most=1)
    betas: list[float] = option([0.9, 0.99], count=2, at_least=0, below=1)
    sizes: list[int] = option([], different=True, at_least=1)
    kept: list[float] = option([], above=0)
    plain: float = 1.0
    flag: bool = True


@dataclass
class Outer:
    """What holds it."""

    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rate": 0}, "inner.rate=0 must be above 0"),
        ({"rate": math.nan}, "inner.rate=nan must be a finite number above 0"),
        ({"rate": math.inf}, "inner.rate=inf must be a finite number above 0"),
        ({"rate": 10.5}, "inner.rate=10.5 must be at most 10"),
        ({"share": 1.5}, "inner.share=1.5 must be between 0 and 1"),
        ({"betas": [0.9]}, "inner.betas=[0.9] must be 2 numbers, each at least 0 and below 1"),
        ({"betas": [0.9, 1.0]}, "inner.betas=[0.9, 1.0] must be 2 numbers, each at least 0 and below 1"),
        ({"betas": [0.9, math.nan]}, "inner.betas=[0.9, nan] must be 2 numbers, each a finite number at least 0 and below 1"),
        ({"sizes": [8, 8]}, "inner.sizes=[8, 8] must be different numbers of at least 1"),
        ({"sizes": [8, 0]}, "inner.sizes=[8, 0] must be different numbers of at least 1"),
        ({"kept": [-1.0]}, "inner.kept=[-1.0] must be numbers above 0"),
        ({"plain": -math.inf}, "inner.plain=-inf must be a finite number"),
        ({"plain": 1e10}, "inner.plain=10000000000.0 must be at most 1000000000"),
    ],
)
def test_a_number_out_of_its_range_is_named_with_the_range(values, expected):
    with pytest.raises(ValueError, match="must be") as refused:
        refuse_out_of_range(Outer(Inner(**values)))
    assert str(refused.value) == expected


@pytest.mark.parametrize("values", [{}, {"rate": 10}, {"share": 0}, {"share": 1.0}, {"sizes": [1, 2]}, {"plain": -3.0}])
def test_numbers_within_their_ranges_pass(values):
    refuse_out_of_range(Outer(Inner(**values)))


SIZES = "vocab_size max_position_embeddings hidden_size num_hidden_layers num_attention_heads intermediate_size embedding_size"
SIZES += " num_hidden_groups head_size feed_forward_size attention_window"
OUTSIDE = [(EncoderConfig, key, 0, "at least 1") for key in SIZES.split()]
for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
    OUTSIDE += [(EncoderConfig, key, value, "at least 0 and below 1") for value in (-0.1, 1.0)]
OUTSIDE += [(EncoderConfig, "embedding_fraction", value, "above 0 and at most 1") for value in (0.0, 1.01)]
for key in ("layer_norm_eps", "initializer_range", "rotary_theta", "depth_fraction"):
    OUTSIDE += [(EncoderConfig, key, value, "a finite number") for value in (math.nan, math.inf)]
for key in ("mask_rate", "soft_weight", "temperature", "mean_span"):
    OUTSIDE += [(ObjectiveConfig, key, value, "a finite number") for value in (math.nan, math.inf)]


@pytest.mark.parametrize(("config", "key", "value", "expected"), OUTSIDE)
def test_numbers_of_shapes_and_objectives_have_their_ranges(config, key, value, expected):
    with pytest.raises(ValueError, match=rf"\.{key}={value} must be {expected}"):
        config(**{key: value})
