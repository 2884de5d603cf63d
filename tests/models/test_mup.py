"""Initial values and rates by width: roles of the tensors, and that nothing changes at the base width."""

from dataclasses import replace

import pytest
import torch

from harness.models import mup
from harness.models.attention.full import SelfAttention
from harness.models.config import EncoderConfig, Position
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

VOCABULARY = Vocabulary(30, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(30, dtype=torch.bool))
SHAPE = EncoderConfig(vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


def built(name: str = "mlm_nsp", shape: EncoderConfig = SHAPE) -> Objective:
    return build(ObjectiveConfig(ObjectiveName(name)), shape, VOCABULARY, seed=0)


@pytest.mark.parametrize("tied", [True, False])
def test_tensors_have_the_roles_of_table_8(tied):
    roles = mup.roles(built(shape=replace(SHAPE, tie_masked_lm_head=tied)))
    layer = "encoder.layers"
    hidden = {
        f"{layer}.attentions.0.attention.query_key_value.weight",
        f"{layer}.attentions.0.attention.output.weight",
        f"{layer}.feed_forwards.0.feed_forward.input.weight",
        f"{layer}.feed_forwards.0.feed_forward.output.weight",
        "masked_head.dense.weight",
        "pooler.dense.weight",
    }
    output = {"masked_head.norm.weight", "masked_head.norm.bias", "pair_head.weight"}
    assert {name for name, role in roles.items() if role == "hidden"} == hidden
    assert {name for name, role in roles.items() if role == "output"} == output
    assert roles["encoder.embeddings.token_embedding.weight"] == "input"
    assert roles.get("masked_head.output.weight", "input") == "input"  # a table too where it is not the embedding
    assert roles["masked_head.output.bias"] == "input"


def test_four_times_the_width_has_half_of_the_deviation_and_a_quarter_of_the_rate():
    plain, scaled = built().state_dict(), built()
    mup.scale_initial_values(scaled, 4)
    factors = {"input": 1, "hidden": 1 / 2, "output": 1 / 4}
    for name, role in mup.roles(scaled).items():
        assert torch.equal(scaled.state_dict()[name], factors[role] * plain[name]), name
    rates = mup.rates(scaled, 4)
    assert {rates[name] for name, role in mup.roles(scaled).items() if role == "input"} == {1}
    assert {rates[name] for name, role in mup.roles(scaled).items() if role != "input"} == {1 / 4}


def test_at_the_base_width_nothing_changes():
    plain, scaled = built().state_dict(), built()
    mup.scale_initial_values(scaled, 1)
    assert all(torch.equal(tensor, plain[name]) for name, tensor in scaled.state_dict().items())
    assert set(mup.rates(scaled, 1).values()) == {1}


def test_logits_of_a_wide_model_are_those_of_the_standard_one_over_its_width():
    """The factor is in the norm before them, as if it multiplied them."""
    plain, scaled = built("mlm").masked_head, built("mlm")
    mup.scale_initial_values(scaled, 4)
    scaled.masked_head.dense.weight.data.copy_(plain.dense.weight)
    hidden = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(scaled.masked_head(hidden), plain(hidden) / 4, atol=1e-7)


def test_products_are_divided_by_the_head_size_over_the_root_of_the_base():
    assert SelfAttention(replace(SHAPE, base_head_size=8)).scale is None  # that of the model: as without it, bit by bit
    assert SelfAttention(replace(SHAPE, base_head_size=4)).scale == pytest.approx(4**0.5 / 8)


@pytest.mark.parametrize(
    "keys",
    [
        {"position": Position.disentangled},
        {"position": Position.sinusoidal},
        {"embedding_size": 8},
    ],
)
def test_a_shape_whose_tensors_have_other_roles_is_refused(keys):
    with pytest.raises(ValueError, match=r"pretrain\.mup_base_width cannot be combined with model\."):
        mup.refuse_misfit(replace(SHAPE, **keys))
    mup.refuse_misfit(replace(SHAPE, embedding_fraction=0.5))
