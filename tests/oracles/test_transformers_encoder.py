"""The encoder against the BERT and ALBERT of transformers, weights copied: same vectors, same gradients."""

import re

import pytest
import torch
from oracle_models import PADDING, padded_batch, scrambled, small_config
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel

from models.config import Activation
from models.encoder import Encoder

EMBEDDINGS = {
    "embeddings.token_embedding.weight": "embeddings.word_embeddings.weight",
    "embeddings.position_embedding.weight": "embeddings.position_embeddings.weight",
    "embeddings.type_embedding.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.norm": "embeddings.LayerNorm",
    "embeddings.projection": "encoder.embedding_hidden_mapping_in",
}
BERT_LAYER = {
    "attention.query_key_value": [f"attention.self.{part}" for part in ("query", "key", "value")],
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.input": "intermediate.dense",
    "feed_forward.output": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
ALBERT_LAYER = {
    "attention.query_key_value": [f"attention.{part}" for part in ("query", "key", "value")],
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.input": "ffn",
    "feed_forward.output": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}


def theirs(name: str, tensors: dict[str, torch.Tensor], layer_names: dict, layer_prefix: str) -> torch.Tensor:
    """The tensor in a transformers model (weights or gradients, by name) that is ours of this name."""
    if name in EMBEDDINGS:
        return tensors[EMBEDDINGS[name]]
    module, kind = name.rsplit(".", 1)
    if module in EMBEDDINGS:
        return tensors[f"{EMBEDDINGS[module]}.{kind}"]
    index, module = re.fullmatch(r"layers\.(\d+)\.(.+)", module).groups()
    parts = layer_names[module]
    parts = parts if isinstance(parts, list) else [parts]
    return torch.cat([tensors[f"{layer_prefix.format(index)}.{part}.{kind}"] for part in parts])


def bert():
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=20,
        pad_token_id=PADDING,
    )
    return BertModel(config, add_pooling_layer=False), BERT_LAYER, "encoder.layer.{}", {}


def albert():
    config = AlbertConfig(
        vocab_size=50,
        embedding_size=8,
        hidden_size=32,
        num_hidden_layers=5,
        num_hidden_groups=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=20,
        pad_token_id=PADDING,
    )
    changes = {"embedding_size": 8, "num_hidden_layers": 5, "num_hidden_groups": 2, "hidden_act": Activation.gelu_tanh}
    model = AlbertModel(config, add_pooling_layer=False)
    return model, ALBERT_LAYER, "encoder.albert_layer_groups.{}.albert_layers.0", changes


@pytest.mark.parametrize("build", [bert, albert])
def test_encoder_equals_transformers(build):
    reference, layer_names, layer_prefix, changes = build()
    scrambled(reference).eval()
    shape = {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 20,
    }
    model = Encoder(small_config(**shape, **changes)).eval()
    copied = dict(reference.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(theirs(name, copied, layer_names, layer_prefix))

    batch = padded_batch(vocab_size=50)
    mask = batch.attention_mask
    hidden = model(batch)
    expected = reference(
        input_ids=batch.input_ids, token_type_ids=batch.token_type_ids, attention_mask=mask.long()
    ).last_hidden_state
    torch.testing.assert_close(hidden[mask], expected[mask], rtol=0, atol=1e-5)

    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(5)) * mask[..., None] / mask.sum()
    (hidden * direction).sum().backward()
    (expected * direction).sum().backward()
    gradients = {name: parameter.grad for name, parameter in copied.items()}
    assert all(gradient is not None for gradient in gradients.values())
    for name, parameter in model.named_parameters():
        wanted = theirs(name, gradients, layer_names, layer_prefix)
        torch.testing.assert_close(parameter.grad, wanted, rtol=0, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
