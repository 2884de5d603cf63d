"""Published checkpoints into our models and back: one module a family, each translating a config and the names of its tensors.

A family module has `config(config_json)`, which makes an EncoderConfig from a config.json or raises a ValueError naming
the key that ours cannot express, and `tensors(state, config)`, which gives published tensors the names and shapes of ours.
`publish` says what a family adds that can be written too. Equality with the published model is promised outside training:
dropout sits in fewer places here.
"""

import re
from collections.abc import Iterable, Sequence

from torch import Tensor

from harness.models.config import EncoderConfig
from harness.models.heads import Classifier, TokenClassifier
from harness.models.huggingface import task_heads
from harness.models.huggingface.families import FAMILIES, config_of, module_of, names_of
from harness.models.huggingface.masked import expresses_masked_head, masked_head_of
from harness.models.huggingface.names import ConfigJson, listed, refuse_misfits
from harness.models.huggingface.plain import plain
from harness.models.huggingface.publish import exported, homeless, published
from harness.models.huggingface.task_heads import DEEPER, ON_TOKENS, PROBLEMS

__all__ = [
    "FAMILIES",
    "config_of",
    "exported",
    "expresses_masked_head",
    "homeless",
    "load",
    "masked_head_of",
    "plain",
    "published",
    "translated",
]

HEADED = (*PROBLEMS, *ON_TOKENS)
"""Kinds of tasks with a head."""

OURS, HEAD = ("encoder.", "pooler.", "masked_head."), ("head.weight", "head.bias")


def load(model: Classifier, state: dict[str, Tensor], config_json: ConfigJson) -> list[str]:
    """Puts published tensors into the model; returns the names of a missing pooler or head, which stay randomly initialised.

    ValueError as `translated` raises it, before anything is copied.
    """
    found, _ = translated(model, plain(state, config_json)[0], config_json)
    model.load_state_dict(found, strict=False)
    return [name for name in model.state_dict() if name not in found]


def translated(
    model: Classifier,
    state: dict[str, Tensor],
    config_json: ConfigJson,
    kind: str | None = None,
    labels: Sequence[str] = (),
) -> tuple[dict[str, Tensor], list[str]]:
    """Plain tensors under our names, without a missing pooler or a head that is new, and notes on both.

    `kind`: name of the kind of task, whose head must have the rows that `labels` name; one without a head reads the encoder
    alone; None: any head of the right shape. A model on the meta device will do. ValueError for tensors that are missing, left
    over in the encoder or of another shape.
    """
    expected, notes, headed = model.state_dict(), [], kind is None or kind in HEADED
    if not headed:
        expected = {name: tensor for name, tensor in expected.items() if name.startswith("encoder.")}
    found, foreign = _found(state, model.encoder.config, config_json, isinstance(model, TokenClassifier), kind)
    if not headed:
        found = {name: tensor for name, tensor in found.items() if not name.startswith(("pooler.", "head."))}
    names, beside = names_of(config_json), []
    inside = "|".join(
        {re.split(r"\W", theirs)[0] for theirs, ours in names.modules.items() if ours.startswith("encoder.") and theirs}
    )
    for name in [name for name in found if name not in expected and not name.startswith((*OURS, *HEAD))]:
        if not re.match(rf"(?:{names.prefix}|(?:{inside})\.)", name):
            beside.append(name)
            del found[name]
    if kind is not None and "head.weight" in found:
        rows, note = task_heads.rows_of(config_json, len(found["head.weight"]), len(expected["head.weight"]), kind, labels)
        notes.append(note)
        head = {} if rows is None else {name: found[name][rows] for name in HEAD if name in found}
        found = {name: tensor for name, tensor in found.items() if name not in HEAD} | head
    elif kind is not None and headed:
        notes.append(f"new head, as {'the published one is for another kind of task' if foreign else 'none is published'}")
    if beside and headed and "head.weight" not in found and task_heads.is_for(config_json, isinstance(model, TokenClassifier)):
        raise ValueError(f"model_type={config_json['model_type']!r} tensors are a head that ours has not: {listed(beside)}")
    absent = [*_absent("pooler.", expected, found), *_absent("head.", expected, found)]
    notes += ["new pooler"] if any(name.startswith("pooler.") for name in absent) else []
    notes += [f"not read: {listed(beside)}"] if beside else []
    needed = {name: tensor for name, tensor in expected.items() if name not in absent}
    refuse_misfits(f"model_type={config_json['model_type']!r} tensors do not fit the model", needed, found)
    return found, notes


def _found(
    state: dict[str, Tensor], config: EncoderConfig, config_json: ConfigJson, on_tokens: bool, kind: str | None
) -> tuple[dict[str, Tensor], bool]:
    """The tensors under our names, without a head for another kind of task and a pooler that nothing would read.

    Also whether there is such a head.
    """
    family, foreign = config_json["model_type"], task_heads.is_of_another_task(state, config_json, on_tokens, kind)
    head = {} if foreign or not on_tokens else task_heads.published_token_head(state, config_json, config.classifier_bias, kind)
    rest = task_heads.without_token_heads(state, family) if on_tokens or foreign else state
    unread = (*(("head.",) if foreign else ()), *(("pooler.",) if on_tokens or (foreign and family in DEEPER) else ()))
    found = module_of(config_json).tensors(rest, config)
    return {name: tensor for name, tensor in found.items() if not name.startswith(unread)} | head, foreign


def _absent(prefix: str, expected: Iterable[str], found: Iterable[str]) -> list[str]:
    """All of a part's names when none of them was found: half a part would be a mistake."""
    return [] if any(name.startswith(prefix) for name in found) else [name for name in expected if name.startswith(prefix)]
