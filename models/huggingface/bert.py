"""BERT (arXiv:1810.04805), ALBERT (arXiv:1909.11942), RoBERTa (arXiv:1907.11692), DistilBERT (arXiv:1910.01108) and ELECTRA
(arXiv:2003.10555); XLM-R (arXiv:1911.02116) and CamemBERT (arXiv:1911.03894) are RoBERTa.

Their tensor names never contradict each other, so one table reads all of them.
"""

from typing import Any

from torch import Tensor

from harness.models.choices import Activation
from harness.models.config import EncoderConfig
from harness.models.huggingface.names import (
    ConfigJson,
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

EMBEDDINGS = {
    r"embeddings\.word_embeddings": "encoder.embeddings.token_embedding",
    r"embeddings\.position_embeddings": "encoder.embeddings.position_embedding",
    r"embeddings\.token_type_embeddings": "encoder.embeddings.type_embedding",
    r"embeddings\.LayerNorm": "encoder.embeddings.norm",
}
PROJECTION = {
    "albert": {r"encoder\.embedding_hidden_mapping_in": "encoder.embeddings.projection"},
    "electra": {r"embeddings_project": "encoder.embeddings.projection"},
}
ATTENTION, FEED_FORWARD = r"encoder.layers.attentions.\1", r"encoder.layers.feed_forwards.\1"
BERT_LAYER = {
    r"encoder\.layer\.(\d+)\.attention\.self\.query": f"{ATTENTION}.attention.query_key_value#0",
    r"encoder\.layer\.(\d+)\.attention\.self\.key": f"{ATTENTION}.attention.query_key_value#1",
    r"encoder\.layer\.(\d+)\.attention\.self\.value": f"{ATTENTION}.attention.query_key_value#2",
    r"encoder\.layer\.(\d+)\.attention\.output\.dense": f"{ATTENTION}.attention.output",
    r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm": f"{ATTENTION}.norm",
    r"encoder\.layer\.(\d+)\.intermediate\.dense": f"{FEED_FORWARD}.feed_forward.input",
    r"encoder\.layer\.(\d+)\.output\.dense": f"{FEED_FORWARD}.feed_forward.output",
    r"encoder\.layer\.(\d+)\.output\.LayerNorm": f"{FEED_FORWARD}.norm",
}
ALBERT_GROUP = r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0"
ALBERT_LAYER = {
    rf"{ALBERT_GROUP}\.attention\.query": f"{ATTENTION}.attention.query_key_value#0",
    rf"{ALBERT_GROUP}\.attention\.key": f"{ATTENTION}.attention.query_key_value#1",
    rf"{ALBERT_GROUP}\.attention\.value": f"{ATTENTION}.attention.query_key_value#2",
    rf"{ALBERT_GROUP}\.attention\.dense": f"{ATTENTION}.attention.output",
    rf"{ALBERT_GROUP}\.attention\.LayerNorm": f"{ATTENTION}.norm",
    rf"{ALBERT_GROUP}\.ffn": f"{FEED_FORWARD}.feed_forward.input",
    rf"{ALBERT_GROUP}\.ffn_output": f"{FEED_FORWARD}.feed_forward.output",
    rf"{ALBERT_GROUP}\.full_layer_layer_norm": f"{FEED_FORWARD}.norm",
}
DISTILBERT_LAYER = {
    r"transformer\.layer\.(\d+)\.attention\.q_lin": f"{ATTENTION}.attention.query_key_value#0",
    r"transformer\.layer\.(\d+)\.attention\.k_lin": f"{ATTENTION}.attention.query_key_value#1",
    r"transformer\.layer\.(\d+)\.attention\.v_lin": f"{ATTENTION}.attention.query_key_value#2",
    r"transformer\.layer\.(\d+)\.attention\.out_lin": f"{ATTENTION}.attention.output",
    r"transformer\.layer\.(\d+)\.sa_layer_norm": f"{ATTENTION}.norm",
    r"transformer\.layer\.(\d+)\.ffn\.lin1": f"{FEED_FORWARD}.feed_forward.input",
    r"transformer\.layer\.(\d+)\.ffn\.lin2": f"{FEED_FORWARD}.feed_forward.output",
    r"transformer\.layer\.(\d+)\.output_layer_norm": f"{FEED_FORWARD}.norm",
}
POOLER, HEAD = {r"pooler\.dense": "pooler.dense"}, {r"classifier": "head"}
DEEP_HEAD = {r"classifier\.dense": "pooler.dense", r"classifier\.out_proj": "head"}
HEADS = POOLER | HEAD | DEEP_HEAD
MASKED = {
    r"cls\.predictions\.transform\.dense": "masked_head.dense",
    r"cls\.predictions\.transform\.LayerNorm": "masked_head.norm",
    r"cls\.predictions\.decoder": "masked_head.output",
}
ROBERTA_MASKED = {
    r"lm_head\.dense": "masked_head.dense",
    r"lm_head\.layer_norm": "masked_head.norm",
    r"lm_head\.decoder": "masked_head.output",
}
ALBERT_MASKED = {
    r"predictions\.dense": "masked_head.dense",
    r"predictions\.LayerNorm": "masked_head.norm",
    r"predictions\.decoder": "masked_head.output",
}
DISTILBERT_MASKED = {
    r"vocab_transform": "masked_head.dense",
    r"vocab_layer_norm": "masked_head.norm",
    r"vocab_projector": "masked_head.output",
}
ELECTRA_MASKED = {
    r"generator_predictions\.dense": "masked_head.dense",
    r"generator_predictions\.LayerNorm": "masked_head.norm",
    r"generator_lm_head": "masked_head.output",
}
LAYOUTS = {
    "bert": Layout("bert.", EMBEDDINGS | BERT_LAYER | POOLER, HEAD, MASKED, "cls.predictions"),
    "albert": Layout(
        "albert.",
        EMBEDDINGS | PROJECTION["albert"] | ALBERT_LAYER | {r"pooler": "pooler.dense"},
        HEAD,
        ALBERT_MASKED,
        "predictions",
    ),
    "roberta": Layout("roberta.", EMBEDDINGS | BERT_LAYER | POOLER, DEEP_HEAD, ROBERTA_MASKED, "lm_head", Activation.gelu),
    "distilbert": Layout(
        "distilbert.",
        EMBEDDINGS | DISTILBERT_LAYER,
        {r"pre_classifier": "pooler.dense"} | HEAD,
        DISTILBERT_MASKED,
    ),
    "electra": Layout(
        "electra.",
        EMBEDDINGS | PROJECTION["electra"] | BERT_LAYER,
        DEEP_HEAD,
        ELECTRA_MASKED,
        masked_act=Activation.gelu,
    ),
}
ROBERTAS = ("roberta", "xlm-roberta", "camembert")
LAYOUTS |= dict.fromkeys(ROBERTAS, LAYOUTS["roberta"])
IGNORED = (
    r"^(cls|predictions|sop_classifier|lm_head|vocab_(transform|layer_norm|projector)"
    r"|generator_predictions|generator_lm_head|discriminator_predictions)\."
)
"""Heads of pretraining, which a classifier does without."""

NAMES = Names(
    prefix=r"(bert|albert|roberta|distilbert|electra)\.",
    modules={name: ours for layout in LAYOUTS.values() for name, ours in {**layout.inside, **layout.beside}.items()},
    ignored=IGNORED,
)

SAME = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size", "pad_token_id", "initializer_range", "layer_norm_eps"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
KEYS = {key: key for key in SAME} | {"tie_masked_lm_head": "tie_word_embeddings"}
DISTILBERT_KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_position_embeddings",
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout": "seq_classif_dropout",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
    "tie_masked_lm_head": "tie_word_embeddings",
}
"""Our key -> key of config.json."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"vocab_size": 50265, "pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "camembert": {"pad_token_id": 1},
    "albert": {
        "vocab_size": 30000,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "embedding_size": 128,
        "num_hidden_groups": 1,
        "hidden_act": "gelu_new",
        "classifier_dropout_prob": 0.1,
    },
    "distilbert": {"n_layers": 6, "seq_classif_dropout": 0.2},
    "electra": {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "embedding_size": 128},
}
"""What a config.json means where it is silent, and BERT's value is another."""


def config(config_json: ConfigJson) -> EncoderConfig:
    """Config of any of the families; ValueError naming a key that ours cannot express.

    Sinusoidal positions of DistilBERT are published as a table like any other, so they load as one.
    """
    refuse(config_json, {"is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute"})
    family = config_json["model_type"]
    config_json = DEFAULTS[family] | config_json
    if family == "distilbert":
        act = activation(config_json, "activation", "gelu")
        return EncoderConfig(
            **read_keys(config_json, DISTILBERT_KEYS), hidden_act=act, type_vocab_size=0, pooler=Activation.relu
        )
    shape = of_roberta(config_json) if family in ROBERTAS else of_bert(config_json)
    if family in PROJECTION:
        shape["embedding_size"] = width = config_json["embedding_size"]
    if family == "electra":
        shape["pooler"] = Activation.gelu
    if family == "albert":
        refuse(config_json, {"inner_group_num": 1})
        if width == config_json["hidden_size"]:
            raise ValueError(f"embedding_size={width} cannot be expressed: a projection that changes no size is left out here")
        shape |= {
            "num_hidden_groups": config_json["num_hidden_groups"],
            "classifier_dropout": config_json["classifier_dropout_prob"],
        }
    return EncoderConfig(**shape)


def of_bert(config_json: ConfigJson) -> dict[str, Any]:
    """What is the same in all families but DistilBERT."""
    return read_keys(config_json, KEYS) | {
        "hidden_act": activation(config_json, "hidden_act", "gelu"),
        "classifier_dropout": config_json.get("classifier_dropout"),
    }


def of_roberta(config_json: ConfigJson) -> dict[str, Any]:
    """Positions are numbered from the one after the padding token's id."""
    shape = of_bert(config_json)
    return shape | {"position_offset": shape.get("pad_token_id", 0) + 1}


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names."""
    return renamed(without_other_pooler(state), NAMES)


def without_other_pooler(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The head that was fine-tuned wins over the pooler that RoBERTa was published with."""
    fine_tuned = any(name.startswith("classifier.dense.") for name in state)
    return {name: tensor for name, tensor in state.items() if not (fine_tuned and ".pooler." in name)}


def config_json_of(shape: EncoderConfig, family: str) -> dict[str, Any]:
    """The config.json that comes nearest to a settled shape."""
    act = activation_name(shape.hidden_act)
    if family == "distilbert":
        return written_keys(shape, DISTILBERT_KEYS) | {"activation": act}
    config_json = written_keys(shape, KEYS) | {"hidden_act": act}
    # their forward pass needs one row, of zeros where ours has none
    config_json["type_vocab_size"] = max(1, shape.type_vocab_size)
    config_json["classifier_dropout_prob" if family == "albert" else "classifier_dropout"] = shape.classifier_dropout
    if family == "roberta":
        config_json["max_position_embeddings"] += shape.pad_token_id + 1
    if family == "albert":
        config_json["num_hidden_groups"] = shape.groups
    return config_json | {"embedding_size": shape.embedding_size} if family in PROJECTION else config_json


def publish(state: dict[str, Tensor], config: EncoderConfig, family: str) -> tuple[dict[str, Tensor], list[str]]:
    """Under published names, and our names that have none."""
    return unrenamed(state, LAYOUTS[family])
