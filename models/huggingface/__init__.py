"""Converts published checkpoints into our models. families.toml and families.py describe the families, both ways.

Models equal the published ones outside training: dropout is in fewer places here.
"""

import re
from collections import Counter
from collections.abc import Sequence

import torch

from harness.models.config import EncoderConfig
from harness.models.heads import Classifier, MaskedLMHead, TokenClassifier
from harness.models.huggingface import task_heads
from harness.models.huggingface.families import FAMILIES, config_of, family_of, with_decoder
from harness.models.huggingface.names import ConfigJson, State, joined, listed, pattern, refuse_misfits, those_of
from harness.models.huggingface.task_heads import DEEPER, ON_TOKENS, PROBLEMS

__all__ = [
    "FAMILIES",
    "config_of",
    "family_of",
    "listed",
    "load",
    "masked_head_of",
    "plain",
    "translated",
    "with_decoder",
]

WRAPPER = r"(?<![^.])(?:_orig_mod|module|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
"""Prefixes that torch adds for a module that is compiled, replicated or sharded."""

EMBEDDING = "encoder.embeddings.token_embedding"
TIED = (
    *("lm_head.weight", "lm_head.decoder.weight", "cls.predictions.decoder.weight", "predictions.decoder.weight"),
    *("vocab_projector.weight", "generator_lm_head.weight", "decoder.weight", "lm_loss.weight"),
)
"""Names of output matrices under which a file may store a tied token embedding."""


HEADED = (*PROBLEMS, *ON_TOKENS, "multiple_choice")
"""Kinds of tasks with a head."""

OURS, HEAD = ("encoder.", "pooler.", "masked_head."), ("head.weight", "head.bias")


def load(model: Classifier, state: State, config_json: ConfigJson) -> list[str]:
    """Loads published tensors into the model; returns the names of a missing pooler or head, which stay randomly initialised.

    ValueError as `translated` raises it, before anything is copied.
    """
    found, _ = translated(model, plain(state, config_json)[0], config_json)
    model.load_state_dict(found, strict=False)
    return [name for name in model.state_dict() if name not in found]


def translated(
    model: Classifier,
    state: State,
    config_json: ConfigJson,
    kind: str | None = None,
    labels: Sequence[str] = (),
) -> tuple[State, list[str]]:
    """Plain tensors under our names, without a missing pooler or a head that is new, and notes on both.

    `kind`: name of the kind of task, whose head must have the rows that `labels` name; one without a head reads the encoder
    alone; None: any head of the right shape. A model on the meta device will do. ValueError for tensors that are missing, left
    over in the encoder or of another shape.
    """
    expected, notes, headed = model.state_dict(), [], kind is None or kind in HEADED
    if not headed:
        expected = those_of("encoder.", expected)
    found, foreign = _found(state, model.encoder.config, config_json, isinstance(model, TokenClassifier), kind)
    if not headed:
        found = {name: tensor for name, tensor in found.items() if not name.startswith(("pooler.", "head."))}
    family, beside = family_of(config_json), []
    inside = tuple({f"{theirs.partition('.')[0]}." for theirs in joined("modules", family.encoder) if theirs})
    for name in [name for name in found if name not in expected and not name.startswith((*OURS, *HEAD))]:
        if not name.startswith((family.prefix, *inside)):
            beside.append(name)
            del found[name]
    if kind is not None and "head.weight" in found:
        rows, note = task_heads.rows_of(config_json, len(found["head.weight"]), len(expected["head.weight"]), kind, labels)
        notes.append(note)
        head = {} if rows is None else {name: found[name][rows] for name in HEAD if name in found}
        found = {name: tensor for name, tensor in found.items() if name not in HEAD} | head
    elif kind is not None and headed:
        notes.append(f"new head, as {'the published one is for another kind of task' if foreign else 'none is published'}")
    on_tokens, named = isinstance(model, TokenClassifier), task_heads.architecture(config_json)
    is_ours = task_heads.is_on_tokens(config_json) if on_tokens else task_heads.ON_TEXT in named
    if beside and headed and "head.weight" not in found and is_ours:
        raise ValueError(f"model_type={config_json['model_type']!r} tensors belong to a head that ours lacks: {listed(beside)}")
    missing = [
        part for part in ("pooler.", "head.") if not any(name.startswith(part) for name in found)
    ]  # half a part would be a mistake
    absent = [name for name in expected if name.startswith(tuple(missing))]
    notes += ["new pooler"] if any(name.startswith("pooler.") for name in absent) else []
    notes += [f"not read: {listed(beside)}"] if beside else []
    if on_tokens and "head.weight" in found and config_json["model_type"] == "longformer":
        theirs = "all tokens of the question do" if kind == "spans" else "no token does"
        notes.append(f"the first token alone sees all, where {theirs} in transformers")
    needed = {name: tensor for name, tensor in expected.items() if name not in absent}
    refuse_misfits(f"model_type={config_json['model_type']!r} tensors do not fit the model", needed, found)
    return found, notes


def _found(
    state: State, config: EncoderConfig, config_json: ConfigJson, on_tokens: bool, kind: str | None
) -> tuple[State, bool]:
    """The tensors under our names, without a head for another kind of task and a pooler that nothing would read.

    Also whether there is such a head.
    """
    family, foreign = config_json["model_type"], task_heads.is_of_another_task(state, config_json, on_tokens, kind)
    head = {} if foreign or not on_tokens else task_heads.published_token_head(state, config_json, config.classifier_bias, kind)
    heads = [*ON_TOKENS.values()] if family not in task_heads.WITHOUT else [ON_TOKENS["tokens"]]
    rest = {name: t for name, t in state.items() if not ((on_tokens or foreign) and name.rpartition(".")[0] in heads)}
    unread = (*(("head.",) if foreign else ()), *(("pooler.",) if on_tokens or (foreign and family in DEEPER) else ()))
    found = family_of(config_json).tensors(rest, config)
    return {name: tensor for name, tensor in found.items() if not name.startswith(unread)} | head, foreign


def plain(state: State, config_json: ConfigJson) -> tuple[State, list[str]]:
    """The tensors in float32 without prefixes of wrappers, and notes on what was done.

    Modules next to a wrapped model are left out. ValueError for two encoders in one file.
    """
    encoder, notes = _modules(config_json), []
    out = {re.sub(WRAPPER, "", name): tensor for name, tensor in state.items()}
    if len(out) < len(state):
        raise ValueError("tensors whose names differ only in the prefixes of wrappers: expected one model")
    removed = {match for name in state for match in re.findall(WRAPPER, name)}
    matches = (encoder.fullmatch(name) for name in out)
    counted = Counter((match["wrapper"], match["base"]) for match in matches if match)
    ((prefix, base), most), *others = counted.most_common() or [(("", ""), 0)]
    if others and 2 * others[0][1] > most:
        raise ValueError(f"two encoders, {prefix + base!r} and {''.join(others[0][0])!r}: expected the weights of one")
    if prefix:
        beside = {name: tensor for name, tensor in out.items() if not name.startswith(prefix)}
        out = {name.removeprefix(prefix): tensor for name, tensor in out.items() if name.startswith(prefix)}
        if not base and "For" in task_heads.architecture(config_json):  # the head is beside it
            out |= beside
        elif beside:
            notes.append(f"not read, as it is outside of {prefix!r}: {listed([*beside])}")
    if prefixes := sorted(removed | {prefix} - {""}):
        notes.insert(0, f"prefix {' and '.join(map(repr, prefixes))} left out")
    if any(name.endswith((".gamma", ".beta")) for name in out):
        notes.append("norms by their old names, gamma and beta")
    dtypes = {str(t.dtype).removeprefix("torch.") for t in out.values() if t.is_floating_point()} - {"float32"}
    if dtypes:
        notes.append(f"{' and '.join(sorted(dtypes))} read as float32")
        out = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in out.items()}
    return _with_embedding(out, config_json, notes), notes


def _modules(config_json: ConfigJson) -> re.Pattern[str]:
    """What a name of a tensor of the encoder looks like, in any wrapper."""
    family = family_of(config_json)
    known = "|".join(pattern(theirs) for theirs, ours in family.modules.items() if theirs and ours.startswith("encoder."))
    return re.compile(rf"(?P<wrapper>(?:.+?\.)??)(?P<base>(?:{re.escape(family.prefix)})?)(?:{known})\.[^.]+")


def _with_embedding(state: State, config_json: ConfigJson, notes: list[str]) -> State:
    """With the token embedding that a file holds as the output matrix alone."""
    family = family_of(config_json)
    table = next(f"{theirs}.weight" for theirs, ours in family.modules.items() if ours == EMBEDDING)
    tied = next((name for name in TIED if name in state), None)
    if tied is None or not config_json.get("tie_word_embeddings", True) or {table, family.prefix + table} & state.keys():
        return state
    notes.append(f"token embedding: {tied}, to which it is tied")
    return state | {table: state[tied]}


def masked_head_of(state: State, config_json: ConfigJson, config: EncoderConfig) -> State:
    """Tensors of MaskedLMHead as `masked_head.`, its output matrix included, which is the token embedding where both are tied.

    ValueError for a family without such a head, for tensors that are missing or of another shape, and for a non-linearity
    that the family's head does not share with its layers.
    """
    family = family_of(config_json)
    if not family.masked:
        raise ValueError(f"model_type={family.name!r} has no head for masked tokens that ours can express")
    act = config.hidden_act.value
    if family.masked_act not in (None, act):
        raise ValueError(f"model_type={family.name!r} has {family.masked_act} in its head, but hidden_act={act}")
    tensors = family.renamed(state, [*family.encoder, *family.masked], ignored=r"$^")
    head = those_of("masked_head.", tensors)
    if family.masked_bias and (bias := f"{family.masked_bias}.bias") in state:
        head["masked_head.output.bias"] = state[bias]
    if config.tie_masked_lm_head and f"{EMBEDDING}.weight" in tensors:
        head.setdefault("masked_head.output.weight", tensors[f"{EMBEDDING}.weight"])
    with torch.device("meta"):
        embedding = torch.nn.Embedding(config.vocab_size, config.embedding_width)
        ours = MaskedLMHead(config, embedding).state_dict(prefix="masked_head.")
    refuse_misfits(f"model_type={family.name!r} tensors do not fit a head for masked tokens", ours, head)
    return head
