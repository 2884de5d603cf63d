"""The encoder as a whole. B sequences, T tokens, D hidden."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn
from variant_files import merged

from harness.models.batch import Batch
from harness.models.config import Activation, Body, EncoderConfig, Init, Sharing
from harness.models.encoder import Encoder, initialise
from harness.models.heads import build_classifier
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

ROOT = Path(__file__).parents[2]
AXES = {
    "factorized": {"embedding_fraction": 1 / 6},
    "windowed": {"attention_window": 8},
    "swiglu": {"hidden_act": Activation.silu, "gated_feed_forward": True},
    "shared": {"num_hidden_groups": 1},
}
LENGTH = 30  # longer than what one block of a window of 8 covers


def small_config(**changes) -> EncoderConfig:
    sizes = {"vocab_size": 60, "max_position_embeddings": LENGTH + 2, "hidden_size": 48, "num_attention_heads": 4}
    return EncoderConfig(**{**sizes, "num_hidden_layers": 2, "intermediate_size": 96, **changes})


def published(*files: str) -> EncoderConfig:
    """The configuration that files below conf/ make together."""
    parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in files]
    return merged(*parts)


def padded_batch(vocab_size: int = 60, padding: int = 0) -> Batch:
    """Four texts of unlike lengths with both token types and two classes."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 21, 9, 1])[:, None]
    ids = torch.randint(1, vocab_size, mask.shape, generator=generator).masked_fill(~mask, padding)
    types = torch.randint(0, 2, mask.shape, generator=generator)
    return Batch(ids, types, mask, labels=torch.tensor([0, 1, 1, 0]))


def built(config: EncoderConfig, seed: int = 0) -> Encoder:
    """An encoder whose weights are large enough for every token to matter, outside training."""
    encoder = Encoder(config)
    initialise(encoder, 0.1, seed)
    return encoder.eval()


# Training


@pytest.mark.parametrize("chosen", list(product([False, True], repeat=4)), ids=lambda flags: "".join(map(str, map(int, flags))))
def test_every_combination_of_enhancements_reaches_every_parameter(chosen):
    """One bit each for factorized, windowed, swiglu and shared."""
    axes = [axis for axis, on in zip(AXES.values(), chosen, strict=True) if on]
    changes = {key: value for axis in axes for key, value in axis.items()}
    model, batch = build_classifier(small_config(**changes), num_outputs=2, seed=0), padded_batch()
    torch.manual_seed(0)
    model.loss(model(batch), batch.labels).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
    assert not model.encoder.embeddings.position_embedding.weight.grad[LENGTH:].any()


# Sharing


@pytest.mark.parametrize(
    ("depth", "groups", "order"),
    [(4, None, [0, 1, 2, 3]), (4, 4, [0, 1, 2, 3]), (4, 1, [0, 0, 0, 0]), (6, 3, [0, 0, 1, 1, 2, 2]), (5, 2, [0, 0, 0, 1, 1])],
)
def test_execution_order_spreads_groups_over_the_depth(depth, groups, order):
    encoder = Encoder(small_config(num_hidden_layers=depth, num_hidden_groups=groups))
    run = encoder.layers.execution_order()
    assert len(encoder.layers.attentions) == len(encoder.layers.feed_forwards) == max(order) + 1
    assert [list(encoder.layers.attentions).index(block) for block, _ in run] == order
    assert [list(encoder.layers.feed_forwards).index(block) for _, block in run] == order


@pytest.mark.parametrize(
    ("sharing", "attentions", "feed_forwards"), [("attention", 1, 4), ("feed_forward", 4, 1), ("all", 1, 1)]
)
def test_one_half_of_a_layer_can_be_shared_alone(sharing, attentions, feed_forwards):
    encoder = Encoder(small_config(num_hidden_layers=4, num_hidden_groups=1, sharing=Sharing[sharing]))
    assert (len(encoder.layers.attentions), len(encoder.layers.feed_forwards)) == (attentions, feed_forwards)
    run = encoder.layers.execution_order()
    assert len({id(block) for block, _ in run}) == attentions
    assert len({id(block) for _, block in run}) == feed_forwards


# Inputs


def test_text_longer_than_the_position_table_is_refused_by_key():
    encoder = Encoder(small_config(max_position_embeddings=5))
    with pytest.raises(ValueError, match=r"6 tokens .* model\.max_position_embeddings=5"):
        encoder(Batch(torch.ones(1, 6, dtype=torch.int64)))
    assert encoder(Batch(torch.ones(1, 5, dtype=torch.int64))).shape == (1, 5, 48)


def test_unsaid_inputs_are_type_zero_counted_positions_and_no_padding():
    encoder, ids = built(small_config()), padded_batch().input_ids.clamp(min=1)
    positions = torch.arange(LENGTH).expand_as(ids)
    said = Batch(ids, torch.zeros_like(ids), torch.ones_like(ids, dtype=torch.bool), positions)
    torch.testing.assert_close(encoder(Batch(ids)), encoder(said), rtol=0, atol=1e-5)


# Files


@pytest.mark.parametrize("name", AXES)
def test_enhancement_says_what_the_single_model_says(name):
    model = OmegaConf.load(ROOT / "conf" / "model" / f"{name}.yaml")
    enhancement = OmegaConf.load(ROOT / "conf" / "enhancement" / f"{name}.yaml")
    assert enhancement == {"enhancements": {name: True}, "model": OmegaConf.to_container(model)}
    assert published(f"model/{name}") == EncoderConfig(**AXES[name])


@pytest.mark.parametrize(
    ("name", "stacked", "extra"),
    [("enhanced", list(AXES), {}), ("enhanced_shallow", ["factorized", "windowed", "swiglu"], {"num_hidden_layers": 1})],
)
def test_enhanced_model_is_its_enhancements_stacked(name, stacked, extra):
    parts = [OmegaConf.load(ROOT / "conf" / "enhancement" / f"{axis}.yaml").model for axis in stacked]
    assert OmegaConf.load(ROOT / "conf" / "model" / f"{name}.yaml") == OmegaConf.merge(*parts, extra)


# Initial values


def test_same_name_starts_from_the_same_values_in_every_variant():
    plain = built(small_config()).state_dict()
    for changes in AXES.values():
        other = built(small_config(**changes)).state_dict()
        same = [name for name in plain if name in other and plain[name].shape == other[name].shape]
        assert len(same) > len(plain) / 3
        assert all(torch.equal(plain[name], other[name]) for name in same)


def test_seed_changes_every_drawn_tensor():
    one, other = built(small_config(), seed=0), built(small_config(), seed=1)
    drawn = [name for name, parameter in one.named_parameters() if parameter.dim() > 1]
    assert drawn
    assert not any(torch.equal(one.state_dict()[name], other.state_dict()[name]) for name in drawn)


def test_initial_values_do_not_depend_on_what_was_built_before():
    class Pair(nn.Module):
        def __init__(self, *order: str) -> None:
            super().__init__()
            for name in order:
                self.add_module(name, nn.Linear(5, 6))

    torch.manual_seed(0)
    one, other = Pair("first", "second"), Pair("second", "first")
    state = torch.get_rng_state()
    initialise(one, 0.02, 3)
    initialise(other, 0.02, 3)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.first.weight, other.first.weight)
    assert torch.equal(one.second.weight, other.second.weight)
    assert not torch.equal(one.first.weight, one.second.weight)


DEPTH = 4
RULES = {
    Init.scaled_by_depth: {"attention.output.weight": 0.02 / 8**0.5, "feed_forward.output.weight": 0.02 / 8**0.5},
    Init.small_embeddings: dict.fromkeys(
        ("token_embedding.weight", "position_embedding.weight", "type_embedding.weight"), (2 / (5 * 192)) ** 0.5
    ),
}
"""Rule -> endings of names and the deviation that it gives them."""


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("body", [Body.transformer, Body.encoder_decoder])
def test_rule_gives_its_deviation_to_its_matrices_and_leaves_all_others(rule, body):
    sizes = {"vocab_size": 300, "hidden_size": 192, "num_attention_heads": 4, "num_hidden_layers": DEPTH, "type_vocab_size": 40}
    config = EncoderConfig(**sizes, intermediate_size=384, body=body, init=rule)
    flat, ruled = (build_classifier(replace(config, init=init), 3, seed=0).state_dict() for init in (Init.flat, rule))
    changed = [name for name in flat if not torch.equal(flat[name], ruled[name])]
    assert changed == [name for name in flat if name.endswith(tuple(RULES[rule]))]
    for ending, deviation in RULES[rule].items():
        found = [ruled[name] for name in changed if name.endswith(ending)]
        stacks = 2 if body is Body.encoder_decoder else 1
        layers = stacks * DEPTH + (DEPTH if body is Body.encoder_decoder and ending.startswith("attention") else 0)
        assert len(found) == (1 if rule is Init.small_embeddings else layers)
        assert all(tensor.std().item() == pytest.approx(deviation, rel=0.02) for tensor in found)


def test_rule_reaches_what_a_pretraining_and_a_probe_begin_with():
    config = EncoderConfig(
        vocab_size=60, hidden_size=192, num_attention_heads=4, num_hidden_layers=8, init=Init.scaled_by_depth
    )
    made = build(ObjectiveConfig(objective=ObjectiveName.mlm), config, Vocabulary(60, 0, 2, 3, 4, torch.ones(60)), seed=0)
    deviations = {name: parameter.std().item() for name, parameter in made.named_parameters() if parameter.dim() == 2}
    outputs = [deviation for name, deviation in deviations.items() if "layers" in name and name.endswith("output.weight")]
    assert len(outputs) == 16
    assert outputs == pytest.approx([0.005] * 16, rel=0.02)
    assert deviations["masked_head.dense.weight"] == pytest.approx(0.02, rel=0.02)


def test_biases_are_zero_norms_one_and_padding_zero():
    encoder = Encoder(small_config(pad_token_id=4, embedding_fraction=1 / 6))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.fill_(9.0)
    initialise(encoder, 0.02, 0)
    norms = [module for module in encoder.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 5
    assert all((norm.weight == 1).all() for norm in norms)
    biases = [parameter for name, parameter in encoder.named_parameters() if name.endswith("bias")]
    assert len(biases) == 14
    assert not any(bias.any() for bias in biases)
    empty = (encoder.embeddings.token_embedding.weight == 0).all(1)
    assert empty.nonzero().flatten().tolist() == [4]
