"""Whether a training learned: a held-out masked loss against word frequencies, a loss or score against curves of reference.

Masked language models stay near the unigram entropy for thousands of steps before their loss falls suddenly
(arXiv:2309.07311). A comparison of models of which some have left this plateau measures who left it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.errors import InputError
from harness.paths import conf_directory

LOSS, ENTROPY, PROBE = "pretrain/masked_loss", "pretrain/unigram_entropy", "pretrain/probe_steps"

MASKED = (LOSS, "pretrain/masked_accuracy", "pretrain/heldout_bits_per_byte")
"""Metrics of a trained head or of a probe, which do not compare with each other: a probe is trained for some hundred steps."""

SHARE = 0.93
"""Share of the unigram entropy above which a masked loss is on the plateau. A bag of the words around reaches about 0.98."""

KEYS = ("seeds", "torch", "curve", "of")
"""Keys of a reference: seeds, version of torch, tokens -> [low, high] in nats, parameters of the runs that it is for.

That of a fine-tuning has `metric`, a score, and epochs -> [low, high].
"""

LATER = (
    *("trains", "lora_rank", "freeze_layers", "layer_decay", "optimizer", "schedule", "momentum", "decay_fraction", "phases"),
    *("class_weights", "early_stopping", "evaluations_per_epoch", "backend", "precision"),
)
"""Last parts of keys that runs lack at their defaults: a run with one that the reference lacks is another training."""


def is_on(metrics: Mapping[str, float]) -> bool:
    """Whether a finished pretraining with these metrics is on the plateau; False without a masked-LM head of its own."""
    return LOSS in metrics and ENTROPY in metrics and not metrics.get(PROBE) and metrics[LOSS] > SHARE * metrics[ENTROPY]


def warning(metrics: Mapping[str, float], parameters: Mapping[str, str]) -> str | None:
    """One sentence with the figures about a finished training that has not learned as it should; None for any other.

    `parameters` are the tracked ones of the run.
    """
    if is_on(metrics):
        return (
            f"still on the unigram plateau: held-out masked loss {metrics[LOSS]:.2f} nats, "
            f"unigram entropy {metrics[ENTROPY]:.2f}; undertrained: differences mostly show which model left the plateau"
        )
    return _outside(metrics, parameters)


def references() -> dict[str, dict[str, Any]]:
    """Name -> reference, of all in conf/reference; InputError for a file that is incomplete."""
    return {path.stem: _read(path) for path in sorted(conf_directory().glob("reference/*.yaml"))}


def _read(path: Path) -> dict[str, Any]:
    try:
        reference: dict[str, Any] = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: restore it, or remove it") from error
    if lacking := [key for key in KEYS if not isinstance(reference, dict) or key not in reference]:
        raise InputError(f"{path} lacks {', '.join(lacking)}: restore it, or remove it")
    return reference


def _outside(metrics: Mapping[str, float], parameters: Mapping[str, str]) -> str | None:
    later = {key for key in parameters if key.rpartition(".")[2] in LATER}
    for name, reference in references().items():
        value, of = metrics.get(reference.get("metric", LOSS)), reference["of"]
        if value is None or later - {*of} or not all(parameters.get(key) == str(expected) for key, expected in of.items()):
            continue
        at, (low, high) = list(reference["curve"].items())[-1]
        if not low <= value <= high:
            is_score = "metric" in reference
            what, digits, unit = ("score", 3, "") if is_score else ("held-out masked loss", 2, " nats")
            return (
                f"{what} {value:.{digits}f}{unit} is outside the reference {name}: {low:.{digits}f} to {high:.{digits}f}{unit} "
                f"after {f'{at:g} epochs' if is_score else f'{at / 1e6:g} M tokens'} "
                f"({reference['seeds']} seeds, torch {reference['torch']})"
            )
    return None
