"""Weights of one shape as those of another: exact where nothing is lost, else with the error that is stated."""

import math
from dataclasses import replace

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import Activation, EncoderConfig, Norm, NormPlace, Position, Sharing
from harness.models.derive import STEPS, derived
from harness.models.heads import build_classifier
from harness.models.keys import KEYS, refuse_underived, spaced, with_own_head_size

SHAPE = EncoderConfig(
    vocab_size=60, hidden_size=16, num_hidden_layers=4, num_attention_heads=4, intermediate_size=24, max_position_embeddings=20
)
T = 12


def model_of(shape: EncoderConfig, seed: int = 0):
    """A classifier whose tensors, biases and norms among them, all matter."""
    model = build_classifier(shape, 2, seed).eval()
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=stream))
    return model


def batch_of(types: bool = True) -> Batch:
    ids = torch.randint(1, 60, (3, T), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(3, T, dtype=torch.bool)
    mask[2, 7:] = False
    return Batch(input_ids=ids, attention_mask=mask, token_type_ids=(ids % 2) if types else torch.zeros_like(ids))


def changed(model, layers=None, **changes):
    """A model of the shape with changes, from the weights of this one, and where each tensor comes from."""
    target = with_own_head_size(model.encoder.config, changes)
    state, origins = derived(model.state_dict(), model.encoder.config, target, layers)
    other = build_classifier(target, 2, 7).eval()
    other.load_state_dict(state)
    return other, origins


def logits(model, batch):
    with torch.no_grad():
        return model(batch)


EXACT = {
    "a window at least as long as the text": {"attention_window": 2 * T},
    "all layers": {"num_hidden_layers": 4},
    "groups of one layer": {"num_hidden_groups": 4},
    "all heads": {"num_attention_heads": 4, "head_size": 4},
    "all units": {"feed_forward_size": 24},
    "a gate without another function": {"gated_feed_forward": True, "feed_forward_size": 24},
    "more positions": {"max_position_embeddings": 45},
    "fewer positions": {"max_position_embeddings": T},
}


@pytest.mark.parametrize("changes", EXACT.values(), ids=EXACT)
def test_logits_are_equal_where_nothing_is_lost(changes):
    model = model_of(SHAPE)
    other, _ = changed(model, **changes)
    torch.testing.assert_close(logits(other, batch_of()), logits(model, batch_of()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("place", NormPlace)
def test_a_factorisation_of_full_rank_is_exact(norm, place):
    """Tables of rank 5 fit into 6 features beside a layer norm, whose mean takes one."""
    model = model_of(replace(SHAPE, norm=norm, norm_place=place, norm_bias=norm is Norm.layer))
    stream, embeddings = torch.Generator().manual_seed(3), model.encoder.embeddings
    basis = torch.randn(5, 16, generator=stream)
    with torch.no_grad():
        for table in (embeddings.token_embedding, embeddings.position_embedding, embeddings.type_embedding):
            table.weight.copy_(torch.randn(len(table.weight), 5, generator=stream) @ basis)
    other, origins = changed(model, embedding_size=6)
    torch.testing.assert_close(logits(other, batch_of()), logits(model, batch_of()), atol=1e-5, rtol=1e-4)
    assert origins["encoder.embeddings.token_embedding.weight"].error < 1e-5
    assert other.encoder.embeddings.token_embedding.weight.shape == (60, 6)


def test_a_truncated_factorisation_has_the_error_of_its_singular_values():
    """Without positions and types there is one table to decompose."""
    model = model_of(replace(SHAPE, position=Position.none, type_vocab_size=0))
    table = model.encoder.embeddings.token_embedding.weight.detach().double()
    values = torch.linalg.svdvals(table - table.mean(dim=1, keepdim=True))
    _, origins = changed(model, embedding_size=8)
    expected = (values[7:].square().sum() / values.square().sum()).sqrt().item()
    assert origins["encoder.embeddings.token_embedding.weight"].error == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("layers", [None, [0, 1, 3]])
def test_kept_layers_are_those_of_the_weights(layers):
    model = model_of(SHAPE)
    other, origins = changed(model, layers, num_hidden_layers=3)
    chosen = layers or spaced(4, 3)
    for new, old in enumerate(chosen):
        for kind in ("attentions", "feed_forwards"):
            for name, tensor in getattr(other.encoder.layers, kind)[new].state_dict().items():
                torch.testing.assert_close(tensor, getattr(model.encoder.layers, kind)[old].state_dict()[name])
    moved = {name for name, origin in origins.items() if origin.kind == "derived"}
    assert all(f".{new}." in name for name in moved for new in [int(name.split(".")[3])] if chosen[new] != new)
    assert not any(name.startswith("encoder.embeddings") for name in moved)


def test_a_layer_that_sees_more_or_less_in_its_new_place_is_named():
    """As of ModernBERT, in which every third sees all."""
    model = model_of(replace(SHAPE, attention_window=4, global_layer_every=2))
    _, origins = changed(model, [0, 2, 3], num_hidden_layers=3)
    said = {origin.how for origin in origins.values() if origin.kind == "derived"}
    assert said == {"layer 2 of 4, whose window was all, not 4", "layer 3 of 4, whose window was 4, not all"}


def test_layers_are_spaced_from_the_first_to_the_last():
    assert [spaced(12, 6), spaced(6, 3), spaced(6, 1), spaced(4, 4)] == [[0, 2, 4, 7, 9, 11], [0, 2, 5], [0], [0, 1, 2, 3]]


@pytest.mark.parametrize("sharing", Sharing)
def test_a_group_is_the_mean_of_its_layers(sharing):
    model = model_of(SHAPE)
    other, origins = changed(model, num_hidden_groups=2, sharing=sharing)
    for kind, alone in (("attentions", Sharing.feed_forward), ("feed_forwards", Sharing.attention)):
        blocks, old = getattr(other.encoder.layers, kind), getattr(model.encoder.layers, kind)
        assert len(blocks) == (4 if sharing is alone else 2)
        for name, tensor in blocks[0].state_dict().items():
            members = old[:1] if sharing is alone else old[:2]
            torch.testing.assert_close(tensor, sum(block.state_dict()[name] for block in members) / len(members))
    shared = [origin for origin in origins.values() if origin.how.startswith("mean of layers")]
    assert shared
    assert all(0 < origin.error < 1 for origin in shared)


def test_shared_layers_can_part_again():
    model = model_of(replace(SHAPE, num_hidden_groups=2))
    other, _ = changed(model, num_hidden_groups=None)
    assert len(other.encoder.layers.attentions) == 4
    torch.testing.assert_close(logits(other, batch_of()), logits(model, batch_of()))


def test_heads_and_units_that_do_nothing_are_left_out_without_a_change():
    model = model_of(SHAPE)
    with torch.no_grad():
        for block in model.encoder.layers.attentions:
            block.attention.output.weight[:, 4:8] = 0.0  # the second head
        for block in model.encoder.layers.feed_forwards:
            block.feed_forward.output.weight[:, [3, 10]] = 0.0
    other, origins = changed(model, num_attention_heads=3, intermediate_size=22)
    torch.testing.assert_close(logits(other, batch_of()), logits(model, batch_of()), atol=1e-5, rtol=1e-5)
    assert {origin.error for origin in origins.values() if origin.kind == "derived"} <= {0.0}
    assert other.encoder.config.head_width == 4


def test_the_largest_units_and_heads_are_kept():
    model = model_of(SHAPE)
    _, origins = changed(model, num_attention_heads=2, intermediate_size=12)
    errors = {origin.error for origin in origins.values() if origin.kind == "derived"}
    assert all(0 < error < math.sqrt(0.5) for error in errors)  # the smaller half


def test_gelu_becomes_a_gated_silu_within_the_bound_of_its_approximation():
    """silu(1.702 x) / 1.702 differs from GELU by at most 0.021: hidden states by that times what the output makes of it."""
    model = model_of(SHAPE)
    other, _ = changed(model, hidden_act=Activation.silu, gated_feed_forward=True, feed_forward_size=24)
    hidden = torch.randn(50, 16, generator=torch.Generator().manual_seed(2))
    for before, after in zip(model.encoder.layers.feed_forwards, other.encoder.layers.feed_forwards, strict=True):
        with torch.no_grad():
            difference = (after.feed_forward(hidden) - before.feed_forward(hidden)).abs()
        bound = 0.0211 * before.feed_forward.output.weight.abs().sum(dim=1)
        assert (difference <= bound).all()
        assert difference.max() > 1e-4


def test_everything_at_once_has_the_shape_that_is_asked_for():
    """With a window, factorised tables, shared layers and gated units, of half of the layers."""
    model = model_of(SHAPE)
    changes = {"attention_window": 4, "embedding_size": 8, "num_hidden_groups": 1, "num_hidden_layers": 2}
    other, origins = changed(model, hidden_act=Activation.silu, gated_feed_forward=True, **changes)
    assert set(origins) == set(other.state_dict())
    assert logits(other, batch_of()).isfinite().all()


REFUSED = {
    "model.hidden_size": {"hidden_size": 32},
    "model.norm_place": {"norm_place": NormPlace.pre},
    "model.qk_norm": {"qk_norm": True},
    "model.num_hidden_layers above": {"num_hidden_layers": 5},
    "model.intermediate_size above": {"intermediate_size": 25},
    "model.type_vocab_size=1": {"type_vocab_size": 1},
    "model.head_size=2": {"head_size": 2},
    "model.embedding_size=1": {"embedding_size": 1},
    "keep_layers": {"num_hidden_layers": 2, "layers": [0, 4]},
}


@pytest.mark.parametrize(("name", "changes"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_derive_is_named(name, changes):
    layers = changes.pop("layers", None)
    with pytest.raises(ValueError, match=name):
        refuse_underived(SHAPE, replace(SHAPE, **changes), layers)


def test_heads_beside_global_tokens_are_not_cut():
    source = replace(SHAPE, attention_window=4, global_tokens=1)
    with pytest.raises(ValueError, match=r"model\.num_attention_heads with model\.global_tokens"):
        refuse_underived(source, with_own_head_size(source, {"num_attention_heads": 2}))


def test_every_kind_of_change_is_carried_out():
    """Which tokens are seen changes no tensor, and layers come first."""
    assert [*KEYS] == ["tokens that are seen", "layers", *STEPS]


CHANGES = {
    "layers": {"num_hidden_layers": 2},
    "sharing": {"num_hidden_groups": 2},
    "heads": {"num_attention_heads": 2},
    "units": {"feed_forward_size": 12},
    "gate": {"gated_feed_forward": True, "hidden_act": Activation.silu},
    "rows": {"max_position_embeddings": 30},
    "types": {"type_vocab_size": 0},
    "embeddings": {"embedding_size": 8},
    "window": {"attention_window": 4},
    **{f"to {position.value}": {"position": position} for position in Position},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("position", Position)
@pytest.mark.parametrize("more", [{}, {"num_hidden_groups": 2}, {"gated_feed_forward": True}, {"norm_place": NormPlace.pre}])
def test_a_change_is_refused_or_fits_the_model_of_its_shape(position, more, changes):
    source = replace(SHAPE, position=position, **more)
    try:
        target = with_own_head_size(source, changes)
        refuse_underived(source, target)
    except ValueError as error:
        assert str(error).startswith(("cannot derive from these weights: model.", "model."))  # noqa: PT017
        return
    state, _ = derived(build_classifier(source, 2, 0).state_dict(), source, target)
    report = build_classifier(target, 2, 0).load_state_dict(state, strict=False)
    assert not report.unexpected_keys
    assert all("position_embedding" in name or name.startswith("encoder.layers.bias") for name in report.missing_keys)


def test_the_heads_that_are_kept_are_those_of_the_largest_values_and_outputs():
    """Not of queries or keys: those say where a head looks, and nothing of how much it adds."""
    model = model_of(SHAPE)
    attention = model.encoder.layers.attentions[0].attention
    with torch.no_grad():
        rows = attention.query_key_value.weight.data.view(3, 4, 4, 16)
        rows[:2] *= torch.tensor([9.0, 8.0, 1.0, 1.0]).view(1, 4, 1, 1)
        rows[2] *= torch.tensor([0.1, 1.0, 0.2, 2.0]).view(4, 1, 1)
        attention.output.weight.data.view(16, 4, 4).mul_(torch.tensor([1.0, 1.0, 40.0, 1.0]).view(1, 4, 1))
    other, _ = changed(model, num_attention_heads=2)
    kept = other.encoder.layers.attentions[0].attention.query_key_value.weight.view(3, 2, 4, 16)
    torch.testing.assert_close(kept.data, rows[:, [2, 3]])


def test_a_longer_table_of_positions_repeats_the_rows_of_positions_alone():
    """Rows before the first position, as RoBERTa has for padding, stand once."""
    shape = replace(SHAPE, position_offset=2, max_position_embeddings=22)
    model = model_of(shape)
    table = model.encoder.embeddings.position_embedding.weight
    other, _ = changed(model, max_position_embeddings=45)
    longer = other.encoder.embeddings.position_embedding.weight
    torch.testing.assert_close(longer, torch.cat([table[:2], table[2:], table[2:], table[2:5]]))


def test_texts_of_one_type_do_not_miss_the_types_of_scaled_tokens():
    model = model_of(replace(SHAPE, embedding_scale=True))
    assert model.encoder.config.token_scale == 4
    other, _ = changed(model, type_vocab_size=0)
    torch.testing.assert_close(logits(other, batch_of(False)), logits(model, batch_of(False)), atol=1e-5, rtol=1e-5)


def test_every_table_weighs_the_same_in_a_factorisation_whatever_its_rows():
    """The sum over the tables of the mean squared error of a row is the least that a rank can have."""
    model = model_of(SHAPE)
    state = {name: value.double() for name, value in model.encoder.embeddings.state_dict().items() if "_embedding" in name}
    with torch.no_grad():
        model.encoder.embeddings.position_embedding.weight.mul_(3.0)
    centred = [table - table.mean(dim=1, keepdim=True) for table in (state[name] for name in sorted(state))]
    centred = [3.0 * table if "position" in name else table for name, table in zip(sorted(state), centred, strict=True)]
    values = torch.linalg.svdvals(torch.cat([table / math.sqrt(len(table)) for table in centred]))
    _, origins = changed(model, embedding_size=8)
    errors = [origins[f"encoder.embeddings.{name}"].error for name in sorted(state)]
    lost = sum(error**2 * table.square().sum().item() / len(table) for error, table in zip(errors, centred, strict=True))
    assert lost == pytest.approx(values[7:].square().sum().item(), rel=1e-5)
