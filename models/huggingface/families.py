"""What the tables of families.toml cannot say of a family. D hidden, H heads, K head size.

To add one: its section and tables there, and its line in FAMILIES; a subclass of Family where it
needs more.
"""

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.models.config import Activation, Body, EncoderConfig, NormPlace, Pooling, Position, PositionTerms
from harness.models.huggingface.names import ConfigJson, Family, State, activation, activation_name, joined, refuse
from harness.models.huggingface.task_heads import is_on_tokens


class Bert(Family):
    """BERT (arXiv:1810.04805), ALBERT (arXiv:1909.11942), DistilBERT (arXiv:1910.01108) and ELECTRA (arXiv:2003.10555)."""

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        """Sinusoidal positions of DistilBERT are published as a table like any other, so they load as one."""
        shape = self.shape(config_json)
        if self.name == "albert" and (width := shape["embedding_size"]) == shape["hidden_size"]:
            raise ValueError(f"embedding_size={width} cannot be expressed: a projection that changes no size is left out here")
        return EncoderConfig(**shape)

    def config_json(self, shape: EncoderConfig) -> ConfigJson:
        """The config.json that comes nearest to a settled shape."""
        config_json = self.written(shape)
        if self.name != "distilbert":  # their forward pass needs one row, of zeros where ours has none
            config_json["type_vocab_size"] = max(1, shape.type_vocab_size)
        return config_json | ({"num_hidden_groups": shape.groups} if self.name == "albert" else {})


class Roberta(Bert):
    """RoBERTa (arXiv:1907.11692); XLM-R (arXiv:1911.02116) and CamemBERT (arXiv:1911.03894) are the same.

    Positions are numbered from the one after the padding token's id.
    """

    def shape(self, config_json: ConfigJson) -> dict[str, Any]:
        shape = super().shape(config_json)
        return shape | {"position_offset": shape.get("pad_token_id", 0) + 1}

    def tensors(self, state: State, config: EncoderConfig) -> State:
        """The head that was fine-tuned wins over the pooler that it was published with."""
        fine_tuned = any(name.startswith("classifier.dense.") for name in state)
        return super().tensors({name: t for name, t in state.items() if not (fine_tuned and ".pooler." in name)}, config)

    def config_json(self, shape: EncoderConfig) -> ConfigJson:
        config_json = super().config_json(shape)
        config_json["max_position_embeddings"] += shape.pad_token_id + 1
        return config_json


class Longformer(Roberta):
    """Longformer (arXiv:2004.05150): RoBERTa with a window and a first token that sees and is seen by all."""

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        """ValueError for windows that differ from layer to layer."""
        windows = config_json.get("attention_window", 512)
        first, *others = (windows if isinstance(windows, list) else [windows]) or [None]
        if type(first) is not int or any(window != first for window in others):
            raise ValueError(f"attention_window={windows!r} cannot be expressed: only one number for all layers can")
        return replace(super().config(config_json), attention_window=first, global_tokens=1)


TERMS = {
    ("c2p", "p2c"): PositionTerms.both,
    ("c2p",): PositionTerms.content_to_position,
    ("p2c",): PositionTerms.position_to_content,
}
"""`pos_att_type`, sorted -> ours."""

BIASES = {"query": "q_bias", "value": "v_bias"}
"""Biases of the first DeBERTa, which joins three matrices in one; keys have none."""


class Deberta(Family):
    """DeBERTa, model_type deberta (arXiv:2006.03654) and deberta-v2, which v3 uses too (arXiv:2111.09543)."""

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        values, later = self.shape(config_json), self.name == "deberta-v2"
        terms = config_json.get("pos_att_type") or []
        terms = terms.lower().split("|") if isinstance(terms, str) else terms
        terms = tuple(sorted(term.strip() for term in terms))
        farthest = config_json.get("max_relative_positions", -1)
        buckets = config_json.get("position_buckets", -1) if later else -1
        ours = EncoderConfig(
            **values,
            max_relative_distance=farthest if farthest > 0 else values.get("max_position_embeddings", 512),
            position_buckets=buckets if buckets > 0 else None,
            share_position_projections=later and config_json.get("share_att_key", False),
            position_terms=TERMS.get(terms, PositionTerms.both),
            key_bias=later,
            norm_relative_embeddings=later and "layer_norm" in config_json.get("norm_rel_ebd", "none").lower(),
        )
        expressible = {
            "relative_attention": config_json.get("relative_attention", False),
            "position_biased_input": not config_json.get("position_biased_input", True),
            "pos_att_type": terms in TERMS,
            "talking_head": not config_json.get("talking_head", False),
            "conv_kernel_size": config_json.get("conv_kernel_size", 0) <= 0,
        }
        for key, is_expressible in expressible.items():
            if not is_expressible:
                raise ValueError(f"{key}={config_json.get(key, 'left out')} has no counterpart here")
        sizes = dict.fromkeys(("embedding_size", "pooler_hidden_size"), ours.hidden_size)
        refuse(config_json, {**sizes, "attention_head_size": ours.head_width, "pooler_dropout": 0})
        return ours

    def config_json(self, shape: EncoderConfig) -> ConfigJson:
        config_json = self.written(shape) | {
            "relative_attention": shape.position is Position.disentangled,
            "position_biased_input": False,
            "pos_att_type": next(list(theirs) for theirs, ours in TERMS.items() if ours is shape.position_terms),
            "max_relative_positions": shape.max_relative_distance,
            "pooler_hidden_size": shape.hidden_size,
            "pooler_dropout": 0,
        }
        later = {
            "position_buckets": shape.position_buckets or -1,
            "share_att_key": shape.share_position_projections,
            "norm_rel_ebd": "layer_norm" if shape.norm_relative_embeddings else "none",
        }
        return config_json | later if self.name == "deberta-v2" else config_json

    def tensors(self, state: State, config: EncoderConfig) -> State:
        """The first DeBERTa has one (3 D, D) with query, key and value of one head after those of another; ours are three."""
        apart = {}
        biases = {theirs: part for part, theirs in BIASES.items()}
        for name, value in state.items():
            module, _, kind = name.rpartition(".")
            if kind in biases:
                apart[f"{module}.{biases[kind]}_proj.bias"] = value
            elif name.endswith(".in_proj.weight"):
                rows = value.view(config.num_attention_heads, 3, config.head_width, config.hidden_size).unbind(1)
                for part, matrix in zip(("query", "key", "value"), rows, strict=True):
                    apart[f"{module.removesuffix('.in_proj')}.{part}_proj.weight"] = matrix.flatten(0, 1).contiguous()
            else:
                apart[name] = value
        return super().tensors(apart, config)

    def published(self, state: State, config: EncoderConfig) -> tuple[State, list[str]]:
        """The other way of `tensors`."""
        apart, homeless = super().published(state, config)
        if self.name == "deberta-v2":
            return apart, homeless
        tensors = {}
        for name, value in apart.items():
            projection = re.fullmatch(r"(.+\.self)\.(query|key|value)_proj\.(weight|bias)", name)
            if not projection:
                tensors[name] = value
            elif projection[3] == "bias":
                tensors[f"{projection[1]}.{BIASES[projection[2]]}"] = value
            elif projection[2] == "query":
                parts = [apart[f"{projection[1]}.{part}_proj.weight"] for part in ("query", "key", "value")]
                heads = [part.view(config.num_attention_heads, config.head_width, config.hidden_size) for part in parts]
                tensors[f"{projection[1]}.in_proj.weight"] = torch.stack(heads, dim=1).flatten(0, 2)
        return tensors, homeless


TRANSPOSED = (".query_key_value.weight", ".output.weight", ".input.weight")
"""Matrices that are published transposed, as (inputs, outputs)."""


class Gpt(Family):
    """GPT (Radford et al., 2018, "Improving Language Understanding by Generative Pre-Training") and GPT-2 (Radford et al.,
    2019, "Language Models are Unsupervised Multitask Learners"); neither is on arXiv."""

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        refuse(config_json, {"embd_pdrop": config_json.get("resid_pdrop", 0.1)})
        first, shape = self.name == "openai-gpt", self.shape(config_json)
        if first and shape.get("hidden_act", Activation.gelu) is Activation.gelu:  # which it calls gelu
            shape["hidden_act"] = Activation.gelu_tanh
        end = config_json.get("eos_token_id")  # pads where there is no padding token
        padding = (config_json.get("pad_token_id"), end[0] if isinstance(end, list) else end, 0)
        return EncoderConfig(
            **shape,
            intermediate_size=config_json.get("n_inner") or 4 * config_json.get("n_embd", 768),
            pad_token_id=next(token for token in padding if token is not None),
            norm_place=NormPlace.post if first else NormPlace.pre,
            pooler=None,
            classifier_bias=is_on_tokens(config_json),
            classifier_dropout=0.0,
        )

    def config_json(self, shape: EncoderConfig) -> ConfigJson:
        """Texts end with a token that the tokenizer names."""
        config_json = self.written(shape) | {
            "embd_pdrop": shape.hidden_dropout_prob,
            "pad_token_id": shape.pad_token_id,
            "bos_token_id": None,
            "eos_token_id": None,
        }
        if self.name == "gpt2":
            return config_json | {"n_inner": shape.intermediate_size}
        return config_json | ({"afn": "gelu"} if shape.hidden_act is Activation.gelu_tanh else {})

    def tensors(self, state: State, config: EncoderConfig) -> State:
        return self._turned(super().tensors(state, config))

    def published(self, state: State, config: EncoderConfig) -> tuple[State, list[str]]:
        return super().published(self._turned(state), config)

    def _turned(self, state: State) -> State:
        return {name: tensor.t() if name.endswith(TRANSPOSED) else tensor for name, tensor in state.items()}


BOTH = "T5Model"


class T5(Family):
    """T5 (arXiv:1910.10683) and T5 1.1, whose feed-forward is gated (arXiv:2002.05202).

    A checkpoint is read as its encoder alone, but for one that names the bare T5Model as its architecture, or that
    `with_decoder` makes name it: that one is read as encoder and decoder.
    """

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        shape, config_json = self.shape(config_json), self.defaults | config_json
        both = config_json.get("architectures") == [BOTH]
        if both and config_json.get("num_decoder_layers") is not None:
            refuse(config_json, {"num_decoder_layers": config_json["num_layers"]})
        kind, head_size = config_json["feed_forward_proj"], config_json["d_kv"]
        act = "gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-")  # which has always meant the one by tanh
        stated = {"dense_act_fn": act, "is_gated_act": kind.startswith("gated-")} | config_json
        return EncoderConfig(
            **shape,
            body=Body.encoder_decoder if both else Body.transformer,
            head_size=None if config_json["num_heads"] * head_size == config_json["d_model"] else head_size,
            gated_feed_forward=stated["is_gated_act"],
            hidden_act=activation(
                "dense_act_fn" if "dense_act_fn" in config_json else "feed_forward_proj", stated["dense_act_fn"]
            ),
            attention_probs_dropout_prob=config_json["dropout_rate"],
            pooler=None,
        )

    def config_json(self, shape: EncoderConfig) -> ConfigJson:
        act = activation_name(shape.hidden_act)
        gated = "gated-gelu" if shape.hidden_act is Activation.gelu_tanh else f"gated-{act}"
        return self.written(shape) | {
            "architectures": [BOTH if shape.body is Body.encoder_decoder else "T5EncoderModel"],
            "d_kv": shape.head_width,
            "d_ff": shape.feed_forward_width,
            "num_decoder_layers": shape.num_hidden_layers,
            "feed_forward_proj": gated if shape.gated_feed_forward else act,
            "decoder_start_token_id": shape.pad_token_id,
        }

    def _encoder(self, config: EncoderConfig) -> list[str]:
        """Tables of this shape."""
        body = "t5_both" if config.body is Body.encoder_decoder else "t5_encoder"
        return ["t5_embeddings", body, f"{body}_gated" if config.gated_feed_forward else f"{body}_plain"]

    def tensors(self, state: State, config: EncoderConfig) -> State:
        """What belongs to the decoder is left out where ours has none."""
        ignored = r"^lm_head\." if config.body is Body.encoder_decoder else r"^decoder\.|^lm_head\."
        return self.renamed(state, [*self._encoder(config), "t5_copies", *self.head], ignored)

    def published(self, state: State, config: EncoderConfig) -> tuple[State, list[str]]:
        return self.unrenamed(state, self._encoder(config))


THETA = {"full_attention": ("global_rope_theta", 160000.0), "sliding_attention": ("local_rope_theta", 10000.0)}
"""Kind of layer -> the older key of its theta, and its default."""


class ModernBert(Family):
    """ModernBERT (arXiv:2412.13663). The half of its gate that goes through the non-linearity comes first there and here."""

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        theta: dict[str, float] = {}
        shape, ropes = self.shape(config_json), config_json.get("rope_parameters") or {}
        if not isinstance(ropes, dict) or ropes.keys() - THETA or not all(isinstance(of or {}, dict) for of in ropes.values()):
            raise ValueError(f"rope_parameters={ropes!r} cannot be read: expected an object for each of {', '.join(THETA)}")
        for kind, (old_key, default) in THETA.items():
            rope = ropes.get(kind) or {}
            refuse(rope, {"rope_type": "default"})
            theta[kind] = rope.get("rope_theta") or config_json.get(old_key, default) or theta["full_attention"]
        refuse(config_json, {"rope_scaling": None})
        every = config_json.get("global_attn_every_n_layers", 3)  # distance between layers that see everything
        if (kinds := config_json.get("layer_types")) is not None:
            seeing = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"]
            every = seeing[1] if len(seeing) > 1 else len(kinds)
            if seeing != list(range(0, shape["num_hidden_layers"], every)):
                raise ValueError(f"layer_types={kinds} cannot be expressed: only full_attention in layers 0, n, 2n, ... can")
        return EncoderConfig(
            **shape,
            attention_window=2 * config_json.get("sliding_window", config_json.get("local_attention", 128) // 2),
            global_layer_every=every,
            rotary_theta=theta["sliding_attention"],
            rotary_global_theta=theta["full_attention"],
            pooling=Pooling(config_json.get("classifier_pooling", "cls")),
        )


POOLINGS = {"last": Pooling.last, "first": Pooling.cls, "mean": Pooling.mean}

VECTORS = {"mask_emb": "mask_embedding", "r_w_bias": "content_bias", "r_r_bias": "position_bias", "r_s_bias": "segment_bias"}
"""Published parameters that are one vector of all heads with ours."""


class XLNet(Family):
    """XLNet (arXiv:1906.08237); `mem_len` is left out, for a text is read without the one before.

    The published classifier pools over padding too: the very last place, or the mean of all. Ours pools real tokens, so
    padding changes no score.
    """

    def config(self, config_json: ConfigJson) -> EncoderConfig:
        shape, config_json = self.shape(config_json), self.defaults | config_json
        if (pooling := config_json.get("summary_type", "last")) not in POOLINGS:
            raise ValueError(f"summary_type={pooling!r} is not one of {', '.join(POOLINGS)}")
        config = EncoderConfig(**shape, pooling=POOLINGS[pooling])
        if config_json.get("d_head") is not None:
            refuse(config_json, {"d_head": config_json["d_model"] // config_json["n_head"]})
        return config

    def tensors(self, state: State, config: EncoderConfig) -> State:
        """Heads side by side: (D, H, K) published as input, heads, features of a head, but output first for `o`."""
        return super().tensors(dict(self._unheaded(name, tensor) for name, tensor in state.items()), config)

    def _unheaded(self, name: str, tensor: Tensor) -> tuple[str, Tensor]:
        module, dot, kind = name.rpartition(".")
        if kind in VECTORS:
            return f"{module}{dot}{VECTORS[kind]}", tensor.flatten()
        if kind == "seg_embed":
            return f"{module}.segment_embedding", tensor.flatten(1)
        if kind in ("q", "k", "v", "r"):
            return f"{name}.weight", tensor.flatten(1).T.contiguous()
        return (f"{name}.weight", tensor.flatten(1)) if kind == "o" else (name, tensor)


KINDS: dict[str, type[Family]] = {
    **dict.fromkeys(("bert", "albert", "distilbert", "electra"), Bert),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), Roberta),
    "longformer": Longformer,
    "modernbert": ModernBert,
    "openai-gpt": Gpt,
    "gpt2": Gpt,
    "t5": T5,
    "deberta": Deberta,
    "deberta-v2": Deberta,
    "xlnet": XLNet,
}
FAMILIES = {name: kind.read(name) for name, kind in KINDS.items()}
"""`model_type` of a checkpoint -> its family."""


STANDARD = ("hidden_size", "num_hidden_layers", "num_attention_heads")
"""Keys that transformers takes in every family, before the family's own names for them."""


def config_of(config_json: ConfigJson) -> EncoderConfig:
    """The shape of a published checkpoint; ValueError for a model type or a key that ours cannot express.

    Null means that a key is left out, but for those of `kept`.
    """
    family = family_of(config_json)
    refuse(config_json, {"quantization_config": None})
    kept = ("pad_token_id", "local_rope_theta", "summary_activation")
    config_json = {key: value for key, value in config_json.items() if value is not None or key in kept}
    keys = joined("keys", family.keys)
    return family.config(config_json | {keys[key]: config_json[key] for key in STANDARD if config_json.get(key) is not None})


def family_of(config_json: ConfigJson) -> Any:
    """The family of a checkpoint; ValueError listing the known ones."""
    kind = config_json.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(f"model_type={kind!r} is not one of {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]


def with_decoder(config_json: ConfigJson) -> ConfigJson:
    """The config.json, read with its decoder if it is a T5's; any other one unchanged."""
    return config_json | {"architectures": [BOTH]} if config_json.get("model_type") == "t5" else config_json
