"""DeBERTa against transformers: every hidden state, logits and gradients, below and above the ends of its buckets."""

from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    DebertaConfig,
    DebertaForSequenceClassification,
    DebertaModel,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DebertaV2Model,
)
from variant_files import merged

from harness.measure import flops
from harness.models.attention.disentangled import DisentangledAttention, Distances, RelativePositions
from harness.models.batch import Batch
from harness.models.config import Activation, EncoderConfig, Position, PositionTerms
from harness.models.encoder import initialise
from harness.models.heads import SequenceClassifier
from harness.models.huggingface import config_of, family_of, load

ROOT = Path(__file__).parents[3]
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
    "num_labels": 3,
}
V3 = {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
KINDS = {
    "v1": (DebertaConfig, {}),
    "v1_short_table_and_types": (DebertaConfig, {"max_relative_positions": 6, "type_vocab_size": 2, "hidden_act": "relu"}),
    "v3": (DebertaV2Config, V3),
    "v3_wide_buckets": (DebertaV2Config, {**V3, "position_buckets": 17, "max_relative_positions": 40}),
    "v2_own_projections": (DebertaV2Config, {**V3, "share_att_key": False, "norm_rel_ebd": "none"}),
    "v2_without_buckets": (DebertaV2Config, {**V3, "position_buckets": -1, "pooler_hidden_act": "tanh"}),
    "v2_as_silent_as_it_may_be": (DebertaV2Config, {}),
    "v2_content_to_position": (DebertaV2Config, {**V3, "share_att_key": False, "pos_att_type": ["c2p"]}),
    "v2_position_to_content": (DebertaV2Config, {"pos_att_type": "p2c"}),
    "v3_position_to_content": (DebertaV2Config, {**V3, "pos_att_type": ["p2c"]}),
    "v1_content_to_position": (DebertaConfig, {"pos_att_type": ["c2p"]}),
    "v1_position_to_content": (DebertaConfig, {"pos_att_type": ["p2c"]}),
}
CLASSIFIERS = {DebertaConfig: DebertaForSequenceClassification, DebertaV2Config: DebertaV2ForSequenceClassification}
CONFIGS = {"deberta": DebertaConfig, "deberta-v2": DebertaV2Config}
BARE = {DebertaConfig: DebertaModel, DebertaV2Config: DebertaV2Model}
TERMS = {"relative_attention": True, "position_biased_input": False, "pos_att_type": "c2p|p2c"}
COMPARED = [(kind, length) for kind in KINDS for length in (12, 60)]
COMPARED += [(kind, length) for kind in ("v1_short_table_and_types", "v3") for length in (1, 3, 5, 24)]
"""Every kind below and above the longest distance of its table, and one of each table at all ends of its buckets."""


def reference(kind: str, models: dict = CLASSIFIERS) -> nn.Module:
    """A transformers model whose attention is far from uniform."""
    config, changes = KINDS[kind]
    model = models[config](config(**{**SIZES, **changes})).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            near_one = 1.0 if "LayerNorm.weight" in name else 0.0
            parameter.copy_(near_one + 0.25 * torch.randn(parameter.shape, generator=generator))
    return model


def translated(theirs: nn.Module) -> SequenceClassifier:
    config = config_of(theirs.config.to_dict())
    ours = SequenceClassifier(config, num_outputs=3).eval()
    ours.load_state_dict(family_of(theirs.config.to_dict()).tensors(theirs.state_dict(), config))
    return ours


def padded(length: int, types: int) -> Batch:
    """Four texts of unlike lengths."""
    generator = torch.Generator().manual_seed(length)
    mask = torch.arange(length) < torch.tensor([length, -(-2 * length // 3), -(-length // 4), 1])[:, None]
    ids = torch.randint(1, SIZES["vocab_size"], mask.shape, generator=generator).masked_fill(~mask, 0)
    kinds = torch.randint(0, types, mask.shape, generator=generator) if types else torch.zeros_like(ids)
    return Batch(ids, kinds, mask, labels=torch.tensor([0, 1, 2, 1]))


def worst(one: torch.Tensor, other: torch.Tensor) -> float:
    return (one - other).abs().max().item()


@pytest.fixture(params=KINDS)
def pair(request) -> tuple[nn.Module, SequenceClassifier]:
    theirs = reference(request.param)
    return theirs, translated(theirs)


@pytest.mark.parametrize(("kind", "length"), COMPARED)
def test_hidden_states_logits_and_gradients_are_the_reference(kind, length):
    theirs = reference(kind)
    ours = translated(theirs)
    batch = padded(length, theirs.config.type_vocab_size)
    asked = {
        "input_ids": batch.input_ids,
        "token_type_ids": batch.token_type_ids,
        "attention_mask": batch.attention_mask.long(),
    }
    if (
        length > SIZES["max_position_embeddings"]
    ):  # the reference takes numbers of positions from a table, and does not use them
        asked["position_ids"] = torch.zeros_like(batch.input_ids)
    expected = theirs(**asked, labels=batch.labels, output_hidden_states=True)
    states, logits = ours.encoder.hidden_states(batch), ours(batch)
    assert len(states) == len(expected.hidden_states) == 4
    for state, reference_state in zip(states, expected.hidden_states, strict=True):
        assert worst(state[batch.attention_mask], reference_state[batch.attention_mask]) < 1e-5
    assert worst(logits, expected.logits) < 1e-5
    ours.loss(logits, batch.labels).backward()
    expected.loss.backward()
    gradients = ours.encoder.embeddings.token_embedding.weight.grad, theirs.get_input_embeddings().weight.grad
    assert gradients[1].abs().max() > 1e-3
    assert worst(*gradients) < 1e-4
    tables = ours.encoder.layers.relative.embedding.weight.grad, theirs.deberta.encoder.rel_embeddings.weight.grad
    assert worst(*tables) < 1e-4


def test_distances_matter(pair):
    """Without this, a model that forgot distances would agree with a reference that had none."""
    _, ours = pair
    batch = padded(24, ours.encoder.config.type_vocab_size)
    with torch.inference_mode():
        before = ours(batch)
        ours.encoder.layers.relative.embedding.weight.zero_()
        assert worst(ours(batch), before) > 1e-2


@pytest.mark.parametrize("kind", ["v1", "v3"])
def test_bare_encoder_loads_and_pretraining_heads_are_left_aside(kind):
    bare = reference(kind, BARE)
    config = config_of(bare.config.to_dict())
    extra = {"lm_predictions.lm_head.bias": torch.zeros(50), "embeddings.position_ids": torch.arange(24)[None]}
    ours = SequenceClassifier(config, num_outputs=3)
    tensors = family_of(bare.config.to_dict()).tensors({**bare.state_dict(), **extra}, config)
    loaded = ours.load_state_dict(tensors, strict=False)
    assert sorted(loaded.missing_keys) == ["head.bias", "head.weight", "pooler.dense.bias", "pooler.dense.weight"]
    assert not loaded.unexpected_keys


def test_unknown_tensor_is_refused_by_name():
    bare = reference("v3", BARE)
    ours = SequenceClassifier(config_of(bare.config.to_dict()), num_outputs=3)
    state = bare.state_dict() | {"deberta.encoder.conv.conv.weight": torch.zeros(1)}
    with pytest.raises(ValueError, match=r"left over: deberta\.encoder\.conv\.conv\.weight$"):
        load(ours, state, bare.config.to_dict())


@pytest.mark.parametrize(("family", "file"), [("deberta", "deberta"), ("deberta-v2", "deberta_v3")])
def test_silent_keys_mean_the_defaults_of_their_family(family, file):
    given = {"model_type": family, **TERMS, **V3, "position_buckets": 256}
    theirs = CONFIGS[family]()
    sizes = {
        key: getattr(theirs, key) for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    }
    assert config_of(given) == EncoderConfig(**{**vars(published(f"model/{file}")), **sizes})


def published(*files: str) -> EncoderConfig:
    """The configuration that files below conf/ make together."""
    parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in files]
    return merged(*parts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "length", "changes"),
    [
        *((file, length, {}) for file in ("deberta", "deberta_v3") for length in (20, 128, 129, 600)),
        *((file, 129, {"num_hidden_groups": 1}) for file in ("deberta", "deberta_v3")),
        *((file, 129, {"position_terms": PositionTerms.content_to_position}) for file in ("deberta", "deberta_v3")),
    ],
)
def test_formula_is_what_the_operators_do(file, length, changes):
    config = EncoderConfig(**{**vars(published("scale/tiny", f"model/{file}")), **changes, "vocab_size": 100})
    forward = flops.counted(flops.Shape(config, 2, 1, length), backward=False)
    with torch.device("meta"):
        assert forward == SequenceClassifier(config, 2).flops(length)
    assert flops.counted(flops.Shape(config, 2, 6, length), backward=True) < 3 * 6 * forward


def test_longer_table_costs_nothing_that_a_short_text_does_not_reach():
    def count(**changes) -> int:
        config = EncoderConfig(hidden_size=32, num_attention_heads=4, position=Position.disentangled, **changes)
        attention, positions = DisentangledAttention(config), RelativePositions(config)
        relative, rows = positions(9)
        with FlopCounterMode(display=False) as counter:
            attention(torch.randn(1, 9, 32), Distances(relative=relative, relative_rows=rows))
        return counter.get_total_flops()

    assert count(max_relative_distance=9) == count(max_relative_distance=500) == count(position_buckets=18)
    assert count(max_relative_distance=8) < count(max_relative_distance=9) < count(position_buckets=16)


def test_keys_of_attention_are_read():
    def built(**changes) -> DisentangledAttention:
        return DisentangledAttention(
            EncoderConfig(hidden_size=16, num_attention_heads=2, position=Position.disentangled, **changes)
        )

    assert built().scale == 24**-0.5
    assert {built(position_terms=one).scale for one in PositionTerms if one is not PositionTerms.both} == {16**-0.5}
    assert built(position_terms=PositionTerms.content_to_position).position_query is None
    assert built(position_terms=PositionTerms.position_to_content).position_key is None
    assert built(attention_scale=False).scale == 1
    assert built().key.bias is not None
    assert built(key_bias=False).key.bias is built(key_bias=False).position_key.bias is None
    assert not any(name.endswith("bias") for name, _ in built(attention_bias=False).named_parameters())


def test_a_mask_by_pairs_is_the_mask_by_tokens_spread_out(pair):
    _, ours = pair
    batch = padded(12, 0)
    context = ours.encoder.layers.context(Batch(batch.input_ids, None, batch.attention_mask))
    attention, hidden = ours.encoder.layers.attentions[0].attention, torch.randn(4, 12, 32)
    by_token = attention(hidden, context)
    context.mask = batch.attention_mask[:, None, :].expand(-1, 12, -1)
    torch.testing.assert_close(attention(hidden, context), by_token, rtol=0, atol=1e-6)


def test_training_drops_distances_and_reaches_every_weight():
    config = config_of(DebertaConfig(**SIZES, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.1).to_dict())
    assert config.hidden_act is Activation.gelu
    model, batch = SequenceClassifier(config, 3).train(), padded(24, 0)
    initialise(model, 0.1, 0)
    attention, hidden = model.encoder.layers.attentions[0].attention, torch.randn(4, 24, 32)
    attention.config.attention_probs_dropout_prob = 0.0
    context = model.encoder.layers.context(batch)
    assert not torch.equal(attention(hidden, context), attention(hidden, context))
    attention.config.attention_probs_dropout_prob = 0.1
    model.loss(model(batch), batch.labels).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
