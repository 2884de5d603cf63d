"""GPT (Radford et al., 2018, "Improving Language Understanding by Generative Pre-Training") and GPT-2 (Radford et al., 2019,
"Language Models are Unsupervised Multitask Learners"); neither is on arXiv.
"""

from torch import Tensor

from models.config import Activation, EncoderConfig, NormPlace, Pooling
from models.huggingface.names import Layout, Names, activation, activation_name, refuse, renamed, unrenamed
from models.huggingface.task_heads import is_on_tokens

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


def config(config_json: dict) -> EncoderConfig:
    """ValueError naming a key that ours cannot express."""
    refuse(config_json, {"add_cross_attention": False, "scale_attn_by_inverse_layer_idx": False})
    refuse(config_json, {"embd_pdrop": config_json.get("resid_pdrop", 0.1)})
    first = config_json["model_type"] == "openai-gpt"
    width = config_json.get("n_embd", 768)
    return EncoderConfig(
        vocab_size=config_json.get("vocab_size", 40478 if first else 50257),
        max_position_embeddings=config_json.get("n_positions", 512 if first else 1024),
        hidden_size=width,
        num_hidden_layers=config_json.get("n_layer", 12),
        num_attention_heads=config_json.get("n_head", 12),
        intermediate_size=config_json.get("n_inner") or 4 * width,
        type_vocab_size=0,
        pad_token_id=_padding(config_json),
        embedding_norm=False,
        norm_place=NormPlace.post if first else NormPlace.pre,
        layer_norm_eps=config_json.get("layer_norm_epsilon", 1e-5),
        hidden_act=_activation(config_json, first),
        attention_scale=config_json.get("scale_attn_weights", True),
        causal=True,
        hidden_dropout_prob=config_json.get("resid_pdrop", 0.1),
        attention_probs_dropout_prob=config_json.get("attn_pdrop", 0.1),
        initializer_range=config_json.get("initializer_range", 0.02),
        pooling=Pooling.last,
        pooler=None,
        classifier_bias=is_on_tokens(config_json),
        classifier_dropout=0.0,
        tie_masked_lm_head=config_json.get("tie_word_embeddings", True),
    )


def config_json_of(shape: EncoderConfig, family: str) -> dict:
    """The config.json that comes nearest to a settled shape; texts end with a token that the tokenizer names."""
    first = family == "openai-gpt"
    act = "gelu" if first and shape.hidden_act is Activation.gelu_tanh else activation_name(shape.hidden_act)
    config_json = {
        "vocab_size": shape.vocab_size,
        "n_positions": shape.max_position_embeddings,
        "n_embd": shape.hidden_size,
        "n_layer": shape.num_hidden_layers,
        "n_head": shape.num_attention_heads,
        "afn" if first else "activation_function": act,
        "layer_norm_epsilon": shape.layer_norm_eps,
        "resid_pdrop": shape.hidden_dropout_prob,
        "embd_pdrop": shape.hidden_dropout_prob,
        "attn_pdrop": shape.attention_probs_dropout_prob,
        "initializer_range": shape.initializer_range,
        "pad_token_id": shape.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": None,
        "tie_word_embeddings": shape.tie_masked_lm_head,
    }
    only_second = {"n_inner": shape.intermediate_size, "scale_attn_weights": shape.attention_scale}
    return config_json if first else config_json | only_second


def publish(state: dict[str, Tensor], config: EncoderConfig, family: str) -> tuple[dict[str, Tensor], list[str]]:
    """Under published names, matrices of the layers as (inputs, outputs), and our names that have none."""
    turned = {name: tensor.t() if name.endswith(TRANSPOSED) else tensor for name, tensor in state.items()}
    return unrenamed(turned, LAYOUTS[family])


def _activation(config_json: dict, first: bool) -> Activation:
    """The first GPT says gelu and means its approximation by tanh."""
    chosen = activation(config_json, "afn", "gelu") if first else activation(config_json, "activation_function", "gelu_new")
    return Activation.gelu_tanh if first and chosen is Activation.gelu else chosen


def _padding(config_json: dict) -> int:
    """The token that ends a text is used for padding where there is no padding token."""
    end = config_json.get("eos_token_id")
    candidates = (config_json.get("pad_token_id"), end[0] if isinstance(end, list) else end, 0)
    return next(token for token in candidates if token is not None)


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names, matrices of the layers as (outputs, inputs)."""
    tensors = renamed(state, NAMES)
    return {name: tensor.t() if name.endswith(TRANSPOSED) else tensor for name, tensor in tensors.items()}
