"""GPT (Radford et al., 2018, "Improving Language Understanding by Generative Pre-Training") and GPT-2 (Radford et al., 2019,
"Language Models are Unsupervised Multitask Learners"); neither is on arXiv.
"""

from typing import Any

from torch import Tensor

from harness.models.choices import Activation, NormPlace, Pooling
from harness.models.config import EncoderConfig
from harness.models.huggingface.names import (
    Layout,
    Names,
    activation,
    activation_name,
    read_keys,
    refuse,
    renamed,
    unrenamed,
    written_keys,
)
from harness.models.huggingface.task_heads import is_on_tokens

LAYER = {
    r"h\.(\d+)\.attn\.c_attn": r"encoder.layers.attentions.\1.attention.query_key_value",
    r"h\.(\d+)\.attn\.c_proj": r"encoder.layers.attentions.\1.attention.output",
    r"h\.(\d+)\.ln_1": r"encoder.layers.attentions.\1.norm",
    r"h\.(\d+)\.mlp\.c_fc": r"encoder.layers.feed_forwards.\1.feed_forward.input",
    r"h\.(\d+)\.mlp\.c_proj": r"encoder.layers.feed_forwards.\1.feed_forward.output",
    r"h\.(\d+)\.ln_2": r"encoder.layers.feed_forwards.\1.norm",
}
GPT = {
    r"tokens_embed": "encoder.embeddings.token_embedding",
    r"positions_embed": "encoder.embeddings.position_embedding",
}
GPT2 = {
    r"wte": "encoder.embeddings.token_embedding",
    r"wpe": "encoder.embeddings.position_embedding",
    r"ln_f": "encoder.layers.norm",
}
HEAD = {r"score": "head"}
LAYOUTS = {
    "openai-gpt": Layout("transformer.", GPT | LAYER, HEAD, {}),
    "gpt2": Layout("transformer.", GPT2 | LAYER, HEAD, {}),
}
NAMES = Names(
    prefix=r"transformer\.",
    modules=GPT | GPT2 | LAYER | HEAD,
    ignored=r"^lm_head\.|^h\.\d+\.attn\.(bias|masked_bias)$",
)
TRANSPOSED = (".query_key_value.weight", ".output.weight", ".input.weight")
"""Matrices that are published as (inputs, outputs)."""


KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "n_positions",
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_dropout_prob": "resid_pdrop",
    "attention_probs_dropout_prob": "attn_pdrop",
    "initializer_range": "initializer_range",
    "tie_masked_lm_head": "tie_word_embeddings",
}
"""Our key -> key of config.json."""

DEFAULTS = {
    "openai-gpt": {"vocab_size": 40478, "layer_norm_epsilon": 1e-5},
    "gpt2": {"vocab_size": 50257, "layer_norm_epsilon": 1e-5, "n_positions": 1024},
}
"""What a config.json means where it is silent, and BERT's value is another."""


def config(config_json: dict[str, Any]) -> EncoderConfig:
    """ValueError naming a key that ours cannot express."""
    refuse(config_json, {"add_cross_attention": False, "scale_attn_by_inverse_layer_idx": False})
    refuse(config_json, {"embd_pdrop": config_json.get("resid_pdrop", 0.1)})
    first = config_json["model_type"] == "openai-gpt"
    act = activation(config_json, "afn", "gelu") if first else activation(config_json, "activation_function", "gelu_new")
    end = config_json.get("eos_token_id")  # pads where there is no padding token
    padding = (config_json.get("pad_token_id"), end[0] if isinstance(end, list) else end, 0)
    return EncoderConfig(
        **read_keys(DEFAULTS[config_json["model_type"]] | config_json, KEYS),
        intermediate_size=config_json.get("n_inner") or 4 * config_json.get("n_embd", 768),
        type_vocab_size=0,
        pad_token_id=next(token for token in padding if token is not None),
        embedding_norm=False,
        norm_place=NormPlace.post if first else NormPlace.pre,
        hidden_act=Activation.gelu_tanh if first and act is Activation.gelu else act,  # which the first GPT calls gelu
        attention_scale=config_json.get("scale_attn_weights", True),
        causal=True,
        pooling=Pooling.last,
        pooler=None,
        classifier_bias=is_on_tokens(config_json),
        classifier_dropout=0.0,
    )


def config_json_of(shape: EncoderConfig, family: str) -> dict[str, Any]:
    """The config.json that comes nearest to a settled shape; texts end with a token that the tokenizer names."""
    config_json = written_keys(shape, KEYS) | {
        "embd_pdrop": shape.hidden_dropout_prob,
        "pad_token_id": shape.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    act = activation_name(shape.hidden_act)
    if family == "openai-gpt":
        return config_json | {"afn": "gelu" if shape.hidden_act is Activation.gelu_tanh else act}
    return config_json | {
        "activation_function": act,
        "n_inner": shape.intermediate_size,
        "scale_attn_weights": shape.attention_scale,
    }


def publish(state: dict[str, Tensor], config: EncoderConfig, family: str) -> tuple[dict[str, Tensor], list[str]]:
    """Under published names, matrices of the layers as (inputs, outputs), and our names that have none."""
    return unrenamed(_turned(state), LAYOUTS[family])


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names, matrices of the layers as (outputs, inputs)."""
    return _turned(renamed(state, NAMES))


def _turned(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.t() if name.endswith(TRANSPOSED) else tensor for name, tensor in state.items()}
