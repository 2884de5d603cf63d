"""Our models as checkpoints of published families: the way back from `config_of` and `load`.

A family that can be written has `config_json(shape)`.
"""

from dataclasses import replace

import torch
from torch.nn import functional as F

from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.models.huggingface.families import config_of, family_of
from harness.models.huggingface.names import ConfigJson, Family, State, joined, refuse_misfits, those_of
from harness.models.keys import NEEDS, typed, unmet

WRITTEN = ("bert", "roberta", "albert", "distilbert", "electra", "deberta", "deberta-v2", "openai-gpt", "gpt2", "t5")
"""Families that can be written; the first that fits is taken."""

POSITIONS = "encoder.embeddings.position_embedding.weight"
TOKENS = "encoder.embeddings.token_embedding.weight"
TYPES = "encoder.embeddings.type_embedding.weight"
OUTPUT, DECODER = "masked_head.output.", "masked_head.decoder."


def published(config: EncoderConfig, family: str | None = None) -> ConfigJson:
    """A config.json of a family that expresses the shape, of `family` or of the first that does.

    Reading it back gives a model that computes the same. ValueError with the families that were tried, and what the nearest
    of them lacks.
    """
    expected = settled(config)
    if family is not None and family not in WRITTEN:
        raise ValueError(f"family={family!r} is not one of {', '.join(WRITTEN)}")
    tried = {}
    # A model of one token type is a BERT as well as a RoBERTa: where its positions begin says what it was meant to be.
    candidates = sorted(WRITTEN, key=lambda name: name != "roberta") if config.position_offset else WRITTEN
    for name in (family,) if family else candidates:
        config_json: ConfigJson = {"model_type": name} | family_of({"model_type": name}).config_json(expected)
        try:
            tried[name] = _different(expected, settled(config_of(config_json)))
        except ValueError as error:
            tried[name] = [*_different(expected, EncoderConfig()), str(error)]
        if not tried[name]:
            return config_json
    nearest = min(tried, key=lambda name: len(tried[name]))
    reason = f"{nearest} cannot express {', '.join(tried[nearest])}"
    raise ValueError(reason if family else f"no family expresses this shape (tried {', '.join(tried)}): the nearest, {reason}")


def _different(expected: EncoderConfig, actual: EncoderConfig) -> list[str]:
    keys = [*NEEDS]
    if (expected.type_vocab_size, actual.type_vocab_size) == (0, 1):  # `_moved` adds a row of zeros
        keys.remove("type_vocab_size")
    if expected.gated_feed_forward != actual.gated_feed_forward:  # the width of the gate has the same information
        keys.remove("feed_forward_size")
    return [f"model.{key}={typed(getattr(expected, key))}" for key in keys if getattr(expected, key) != getattr(actual, key)]


def settled(config: EncoderConfig) -> EncoderConfig:
    """The model with every rule carried out, and with defaults for what it does not read: equal models are equal.

    Positions are numbered from 0: rows of the table that no text reaches are not part of a model.
    """
    plain = EncoderConfig()
    rules = {
        "num_hidden_layers": config.depth,
        "depth_fraction": 1.0,
        "num_hidden_groups": None if config.groups == config.depth else config.groups,
        "embedding_size": config.embedding_width,
        "embedding_fraction": 1.0,
        "max_position_embeddings": config.longest_text,
        "position_offset": 0,
        "mask_decoder": plain.mask_decoder,  # of a pretraining, as is what its values began as
        "init": plain.init,
        "vector_pooling": plain.vector_pooling,  # no family's config.json states it
        "base_head_size": None if config.product_scale is None else config.base_head_size,
        "head_size": None if config.attention_width == config.hidden_size else config.head_width,
        "classifier_dropout": config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout,
        "intermediate_size": config.feed_forward_width,
        "feed_forward_size": config.feed_forward_width if config.gated_feed_forward else None,
    }
    shape = EncoderConfig(**{key: getattr(config, key) for key in NEEDS} | rules)
    unread = (key for key in NEEDS if unmet(shape, key) and key not in ("num_attention_heads", "head_size"))  # fit hidden_size
    return replace(shape, **{key: getattr(plain, key) for key in unread})


def exported(state: State, config: EncoderConfig, config_json: ConfigJson) -> tuple[State, list[str]]:
    """Our tensors `encoder.`, `pooler.`, `masked_head.` and `head.` under published names, and names without a place there.

    An output matrix that is the token embedding is left out too: the family's loader ties it. ValueError for tensors of the
    encoder that are missing, left over or of another shape.
    """
    with torch.device("meta"):
        expected = Encoder(config).state_dict(prefix="encoder.")
    refuse_misfits("tensors do not fit the encoder", expected, those_of("encoder.", state))
    family = family_of(config_json)
    tied = config.tie_masked_lm_head
    moved = _moved(state, config, config_of(config_json))
    # The head would answer otherwise: with another non-linearity, or without absolute positions.
    foreign = family.masked_act not in (None, config.hidden_act.value) or any(name.startswith(DECODER) for name in state)
    heads = those_of("masked_head.", moved)
    rest = {name: tensor for name, tensor in moved.items() if not (name == f"{OUTPUT}weight" and tied)}
    found, left = family.published({n: t for n, t in rest.items() if not (foreign and n in heads)}, config)
    return _with_bias(found, heads, family, tied), [*left, *(n for n in rest if foreign and n in heads)]


def _with_bias(tensors: State, heads: State, family: Family, tied: bool) -> State:
    """The bias of the masked-token output, where a family stores it: separately, and also in the output unless tied."""
    modules = joined("modules", family.masked)
    output = next((f"{theirs}.bias" for theirs, ours in modules.items() if ours == "masked_head.output"), "")
    if not family.masked_bias or output not in tensors:
        return tensors
    kept = {name: tensor for name, tensor in tensors.items() if not (tied and name == output)}
    return kept | {f"{family.masked_bias}.bias": heads[f"{OUTPUT}bias"].clone()}


def _moved(state: State, config: EncoderConfig, other: EncoderConfig) -> State:
    """The state as the other shape has it: a row of zeros where only that one has token types, its first position in place.

    Rows before the first position are never read.
    """
    if other.type_vocab_size > config.type_vocab_size and TOKENS in state:
        state = state | {TYPES: state[TOKENS].new_zeros(other.type_vocab_size, config.embedding_width)}
    rows = other.position_offset - config.position_offset
    if not rows or POSITIONS not in state:
        return state
    table = state[POSITIONS]
    return state | {POSITIONS: F.pad(table, (0, 0, rows, 0)) if rows > 0 else table[-rows:].clone()}
