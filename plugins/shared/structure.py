"""Windows and shared layers of an encoder's config, in words."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from harness.config.schema import flatten

TITLE = "windows, sharing"

WORDS = {
    "attention_window": "windows of {} tokens",
    "local_attention": "windows of {} tokens",
    "sliding_window": "sliding windows of {} tokens",
    "global_attn_every_n_layers": "whole text in every {}th layer",
    "global_layer_every": "whole text in every {}th layer",
    "layer_types": "layers: {}",
    "attention_type": "attention: {}",
    "num_hidden_groups": "sets of weights that layers share: {}",
}
"""Key of a config.json, or of ours -> text for its value."""


def of_model(model: Any) -> str:
    """`words` of the config of a model."""
    return words({f"model.{key}": str(value) for key, value in flatten(vars(model)).items()})


def words(settings: Mapping[str, str]) -> str:
    """By the settings of a run, such as `model.options.sliding_window`; empty where none of them says anything.

    A list, which has a value for each layer, is counted.
    """
    found = []
    for key, value in settings.items():
        group, _, name = key.rpartition(".")
        is_used = settings.get(f"{group}.use_{name}") != "False" and value != "None"
        if name in WORDS and key.startswith("model.") and is_used:
            counts = Counter(re.findall(r"\w+", value))
            said = " and ".join(counts if len(counts) == 1 else (f"{count} {one}" for one, count in counts.items()))
            found.append(WORDS[name].format(said))
    return ", ".join(dict.fromkeys(found))
