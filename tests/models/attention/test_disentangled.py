"""Disentangled attention by itself; against transformers it stands in ../huggingface/test_huggingface.py."""

from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch.utils.flop_counter import FlopCounterMode
from transformers import DebertaConfig, DebertaV2Config
from variant_files import merged

from harness.models.attention.disentangled import DisentangledAttention, Distances, RelativePositions
from harness.models.batch import Batch
from harness.models.config import Activation, EncoderConfig, Position, PositionTerms
from harness.models.encoder import initialise
from harness.models.heads import SequenceClassifier
from harness.models.huggingface import config_of

ROOT = Path(__file__).parents[3]
SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
TERMS = {"relative_attention": True, "position_biased_input": False, "pos_att_type": "c2p|p2c"}
CONFIG = DebertaV2Config(**SIZES, **TERMS, max_position_embeddings=24).to_dict()
V3 = {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
CONFIGS = {"deberta": DebertaConfig, "deberta-v2": DebertaV2Config}


@pytest.mark.parametrize(("family", "file"), [("deberta", "deberta"), ("deberta-v2", "deberta_v3")])
def test_silent_keys_mean_the_defaults_of_their_family(family, file):
    given = {"model_type": family, **TERMS, **V3, "position_buckets": 256}
    theirs = CONFIGS[family]()
    sizes = {key: getattr(theirs, key) for key in SIZES if key != "vocab_size"}
    assert config_of(given) == EncoderConfig(**{**vars(published(f"model/{file}")), **sizes})


def published(*files: str) -> EncoderConfig:
    """The configuration that files below conf/ make together."""
    parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in files]
    return merged(*parts)


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


def padded() -> Batch:
    """Four texts of unlike lengths."""
    mask = torch.arange(24) < torch.tensor([24, 16, 6, 1])[:, None]
    ids = torch.randint(1, 50, mask.shape, generator=torch.Generator().manual_seed(24)).masked_fill(~mask, 0)
    return Batch(ids, torch.zeros_like(ids), mask, labels=torch.tensor([0, 1, 2, 1]))


@pytest.mark.parametrize("changes", [{}, V3])
def test_a_mask_by_pairs_is_the_mask_by_tokens_spread_out(changes):
    model, batch, hidden = SequenceClassifier(config_of(CONFIG | changes), 3).eval(), padded(), torch.randn(4, 24, 32)
    initialise(model, 0.3, 0)
    context, attention = model.encoder.layers.context(batch), model.encoder.layers.attentions[0].attention
    by_token = attention(hidden, context)
    context.mask = batch.attention_mask[:, None, :].expand(-1, 24, -1)
    torch.testing.assert_close(attention(hidden, context), by_token, rtol=0, atol=1e-6)


def test_training_drops_distances_and_reaches_every_weight():
    config = config_of(CONFIG | {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.1})
    assert config.hidden_act is Activation.gelu
    model, batch = SequenceClassifier(config, 3).train(), padded()
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
