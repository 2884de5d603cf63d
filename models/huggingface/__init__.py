"""Published checkpoints into our models and back: one module a family, each translating a config and the names of its tensors.

A family module has `config(config_json)`, which makes an EncoderConfig from a config.json or raises a ValueError naming
the key that ours cannot express, and `tensors(state, config)`, which gives published tensors the names and shapes of ours.
`publish` says what a family adds that can be written too. Equality with the published model is promised outside training:
dropout sits in fewer places here.
"""

from collections.abc import Iterable

from torch import Tensor

from models.config import EncoderConfig
from models.heads import Classifier, TokenClassifier
from models.huggingface import task_heads
from models.huggingface.families import FAMILIES, config_of, module_of
from models.huggingface.masked import expresses_masked_head, masked_head_of
from models.huggingface.names import refuse_misfits
from models.huggingface.publish import exported, homeless, published
from models.huggingface.task_heads import DEEPER

__all__ = [
    "FAMILIES",
    "config_of",
    "exported",
    "expresses_masked_head",
    "homeless",
    "load",
    "masked_head_of",
    "published",
    "translated",
]


def load(model: Classifier, state: dict[str, Tensor], config_json: dict) -> list[str]:
    """Puts published tensors into the model; returns the names of a missing pooler or head, which stay randomly initialised.

    ValueError as `translated` raises it, before anything is copied.
    """
    found, absent = translated(model, state, config_json)
    model.load_state_dict(found, strict=False)
    return absent


def translated(model: Classifier, state: dict[str, Tensor], config_json: dict) -> tuple[dict[str, Tensor], list[str]]:
    """The published tensors under our names, and the names of a missing pooler or head; a model on the meta device will do.

    ValueError for tensors that are missing, left over or of another shape.
    """
    expected = model.state_dict()
    found = _found(state, model.encoder.config, config_json, isinstance(model, TokenClassifier))
    absent = [*_absent("pooler.", expected, found), *_absent("head.", expected, found)]
    needed = {name: tensor for name, tensor in expected.items() if name not in absent}
    refuse_misfits(f"model_type={config_json['model_type']!r} tensors do not fit the model", needed, found)
    return found, absent


def _found(state: dict[str, Tensor], config: EncoderConfig, config_json: dict, on_tokens: bool) -> dict[str, Tensor]:
    """The tensors under our names, without a head for another kind of task and a pooler that nothing would read."""
    family, foreign = config_json["model_type"], task_heads.is_of_another_task(state, config_json, on_tokens)
    head = {} if foreign or not on_tokens else task_heads.published_token_head(state, config_json, config.classifier_bias)
    rest = task_heads.without_token_heads(state, family) if on_tokens or foreign else state
    unread = (*(("head.",) if foreign else ()), *(("pooler.",) if on_tokens or (foreign and family in DEEPER) else ()))
    found = module_of(config_json).tensors(rest, config)
    return {name: tensor for name, tensor in found.items() if not name.startswith(unread)} | head


def _absent(prefix: str, expected: Iterable[str], found: Iterable[str]) -> list[str]:
    """All of a part's names when none of them was found: half a part would be a mistake."""
    return [] if any(name.startswith(prefix) for name in found) else [name for name in expected if name.startswith(prefix)]
