"""The encoder as a whole. B sequences, T tokens, D hidden."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn
from variant_files import merged

from harness.models.attention.products import Context
from harness.models.batch import Batch
from harness.models.config import Activation, Body, EncoderConfig, Init, Sharing
from harness.models.encoder import Encoder, initialise
from harness.models.heads import SequenceClassifier, build_classifier
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

ROOT = Path(__file__).parents[2]
COUNTS = ROOT.parent / "shared" / "reference" / "parameters.json"
MODELS = ["base", "factorized", "windowed", "swiglu", "shared", "enhanced", "enhanced_shallow", "albert"]
AXES = {
    "factorized": {"embedding_fraction": 1 / 6},
    "windowed": {"attention_window": 8},
    "swiglu": {"hidden_act": Activation.silu, "gated_feed_forward": True},
    "shared": {"num_hidden_groups": 1},
}
LENGTH = 30  # longer than what one block of a window of 8 covers
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


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


# Size


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("reference", "files"),
    [
        ("bert-base", ("scale/base", "model/base")),
        ("bert-large", ("scale/large", "model/base")),
        ("albert-base", ("scale/base", "model/albert")),
    ],
)
def test_parameters_equal_the_published_model_to_the_last_weight(reference, files):
    if not COUNTS.exists():
        pytest.skip(f"no reference counts at {COUNTS.relative_to(ROOT.parent)} beside the repository")
    with torch.device("meta"):
        model = SequenceClassifier(published(*files), num_outputs=2)
    counts = {
        "encoder": count(model.encoder),
        "encoder_and_pooler": count(model.encoder) + count(model.pooler),
        "sequence_classification_2": count(model),
    }
    expected = json.loads(COUNTS.read_text())["counts"][reference]
    compared = counts.keys() & expected.keys()
    assert compared >= {"encoder", "encoder_and_pooler"}
    assert {name: counts[name] for name in compared} == {name: expected[name] for name in compared}


def test_embeddings_as_wide_as_the_stack_have_no_projection():
    assert Encoder(small_config()).embeddings.projection is None
    assert Encoder(small_config(embedding_size=48)).embeddings.projection is None
    narrow = Encoder(small_config(embedding_fraction=1 / 6)).embeddings
    assert narrow.projection.weight.shape == (48, 8)
    assert narrow.token_embedding.weight.shape == (60, 8)


def test_no_token_types_means_no_table():
    encoder = built(small_config(type_vocab_size=0))
    assert encoder.embeddings.type_embedding is None
    assert encoder(padded_batch()).shape == (4, LENGTH, 48)


# Training


@pytest.mark.parametrize("chosen", list(product([False, True], repeat=4)), ids=lambda flags: "".join(map(str, map(int, flags))))
def test_every_combination_of_enhancements_trains(chosen):
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

    model = build_classifier(small_config(**changes, **NO_DROPOUT), num_outputs=2, seed=0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        loss = model.loss(model(batch), batch.labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_padding_row_is_not_trained():
    model, batch = build_classifier(small_config(), num_outputs=2, seed=0), padded_batch()
    model.loss(model(batch), batch.labels).backward()
    assert not model.encoder.embeddings.token_embedding.weight.grad[0].any()


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


def test_forward_runs_the_execution_order():
    encoder, batch = built(small_config(num_hidden_layers=3, num_hidden_groups=2)), padded_batch()
    hidden = encoder.embeddings(batch)
    for index in (0, 0, 1):
        hidden = encoder.layers.attentions[index](hidden, Context(batch.attention_mask))
        hidden = encoder.layers.feed_forwards[index](hidden)
    assert torch.equal(encoder(batch), hidden)


def test_as_many_groups_as_layers_is_no_sharing():
    plain, grouped = built(small_config()), built(small_config(num_hidden_groups=2))
    assert plain.state_dict().keys() == grouped.state_dict().keys()
    assert torch.equal(plain(padded_batch()), grouped(padded_batch()))


def test_shared_layer_equals_copies_of_it():
    shared, copies = built(small_config(num_hidden_groups=1)), Encoder(small_config()).eval()
    copies.embeddings.load_state_dict(shared.embeddings.state_dict())
    for halves, once in (
        (copies.layers.attentions, shared.layers.attentions),
        (copies.layers.feed_forwards, shared.layers.feed_forwards),
    ):
        for half in halves:
            half.load_state_dict(once[0].state_dict())
    assert torch.equal(shared(padded_batch()), copies(padded_batch()))


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


def test_token_types_and_positions_are_read():
    encoder, ids = built(small_config()), padded_batch().input_ids
    plain = encoder(Batch(ids))
    assert not torch.allclose(plain, encoder(Batch(ids, torch.ones_like(ids))), atol=1e-3)
    backwards = torch.arange(LENGTH).flip(0).expand_as(ids)
    assert not torch.allclose(plain, encoder(Batch(ids, position_ids=backwards)), atol=1e-3)


# Every published model at the smallest scale


@pytest.fixture(params=MODELS)
def tiny(request) -> Encoder:
    return built(published("scale/tiny", f"model/{request.param}"))


def test_padding_does_not_reach_real_tokens(tiny):
    batch = padded_batch()
    mask = batch.attention_mask
    with torch.inference_mode():
        output = tiny(batch)
        noise = torch.randint(1, 60, mask.shape, generator=torch.Generator().manual_seed(8))
        noisy = tiny(Batch(torch.where(mask, batch.input_ids, noise), batch.token_type_ids, mask))
        assert torch.equal(output[mask], noisy[mask])
        for row, length in enumerate(mask.sum(1).tolist()):
            alone = tiny(Batch(batch.input_ids[row : row + 1, :length], batch.token_type_ids[row : row + 1, :length]))
            torch.testing.assert_close(output[row, :length], alone[0], rtol=0, atol=2e-5)


def test_every_real_token_matters_to_some_other(tiny):
    """Without this, a model that looked at no other token would pass the tests of padding."""
    batch = padded_batch()
    changed = Batch(batch.input_ids.clone(), batch.token_type_ids, batch.attention_mask)
    changed.input_ids[0, 5] = 1 + batch.input_ids[0, 5] % 59
    with torch.inference_mode():
        difference = (tiny(batch) - tiny(changed))[0].abs().amax(-1)
    assert (difference[[4, 6]] > 1e-4).all()


def test_evaluation_is_deterministic_and_training_is_not(tiny):
    batch = padded_batch()
    assert torch.equal(tiny(batch), tiny(batch))
    drops = tiny.config.hidden_dropout_prob > 0
    tiny.train()
    assert torch.equal(tiny(batch), tiny(batch)) != drops


def test_saved_weights_give_the_same_output_bit_by_bit(tiny, tmp_path):
    torch.save(tiny.state_dict(), tmp_path / "weights.pt")
    other = built(tiny.config, seed=1)
    assert not torch.equal(other(padded_batch()), tiny(padded_batch()))
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert torch.equal(other(padded_batch()), tiny(padded_batch()))


@pytest.mark.parametrize(("deviation", "bound"), [(0.02, 1e-2), (0.1, 2e-2)])
def test_bfloat16_autocast_stays_near_float32(tiny, deviation, bound):
    """Outputs are layer-normed, so the root mean square of the difference is relative to one."""
    initialise(tiny, deviation, seed=0)
    batch = padded_batch()
    mask = batch.attention_mask
    with torch.inference_mode():
        exact = tiny(batch)[mask]
        with torch.autocast("cpu", torch.bfloat16):
            rounded = tiny(batch)[mask].float()
    assert exact.square().mean().sqrt().item() == pytest.approx(1, abs=0.01)
    error = (rounded - exact).square().mean().sqrt().item()
    assert 0 < error < bound


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


@pytest.mark.parametrize("deviation", [0.02, 0.5])
def test_initial_weights_have_the_configured_deviation(deviation):
    config = small_config(vocab_size=2000, initializer_range=deviation)
    model = build_classifier(config, num_outputs=2, seed=0)
    large = [parameter for parameter in model.parameters() if parameter.numel() > 2000]
    assert len(large) == 10
    for weight in large:
        assert weight.std().item() == pytest.approx(deviation, rel=0.05)
        assert abs(weight.mean().item()) < 5 * deviation / weight.numel() ** 0.5
