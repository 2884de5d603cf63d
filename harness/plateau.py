"""Whether a pretraining learned: its held-out masked loss against word frequencies, and against curves of reference.

Masked language models stay near the unigram entropy for thousands of steps before their loss falls suddenly
(arXiv:2309.07311). A comparison of models of which some have left this plateau measures who left it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import InputError
from harness.paths import REFERENCE, conf_directory

LOSS, ENTROPY, PROBE = "pretrain/masked_loss", "pretrain/unigram_entropy", "pretrain/probe_steps"

MASKED = (LOSS, "pretrain/masked_accuracy", "pretrain/heldout_bits_per_byte")
"""Metrics of a trained head or of a probe, which do not compare with each other: a probe is trained for some hundred steps."""

SHARE = 0.93
"""Share of the unigram entropy above which a masked loss is on the plateau. A bag of the words around reaches about 0.98."""

KEYS = ("seeds", "torch", "curve", "of")
"""Keys of a reference: seeds, version of torch, tokens -> [low, high] in nats, parameters of the runs that it is for."""


def is_on(metrics: dict[str, float]) -> bool:
    """Whether a finished pretraining with these metrics is on the plateau; False without a masked-LM head of its own."""
    return LOSS in metrics and ENTROPY in metrics and not metrics.get(PROBE) and metrics[LOSS] > SHARE * metrics[ENTROPY]


def warning(metrics: dict[str, float], parameters: Mapping[str, str], folder: Path | None = None) -> str | None:
    """One sentence with the figures about a finished pretraining that has not learned as it should; None for any other.

    `parameters` are the tracked ones of the run; `folder` holds the curves of reference, by default conf/reference.
    """
    if is_on(metrics):
        return (
            f"still on the unigram plateau: held-out masked loss {metrics[LOSS]:.2f} nats, "
            f"unigram entropy {metrics[ENTROPY]:.2f}; comparisons after this pretraining measure who left it"
        )
    return _outside(metrics[LOSS], parameters, folder) if LOSS in metrics else None


def references(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Name -> reference, of all in the folder, by default conf/reference; InputError for a file that is torn."""
    return {path.stem: _read(path) for path in sorted((folder or conf_directory() / REFERENCE).glob("*.yaml"))}


def _outside(loss: float, parameters: Mapping[str, str], folder: Path | None) -> str | None:
    for name, reference in references(folder).items():
        if not all(parameters.get(key) == str(value) for key, value in reference["of"].items()):
            continue
        tokens, (low, high) = list(reference["curve"].items())[-1]
        if not low <= loss <= high:
            return (
                f"held-out masked loss {loss:.2f} nats is outside the reference {name}: {low:.2f} to {high:.2f} nats "
                f"after {tokens / 1e6:g} M tokens ({reference['seeds']} seeds, torch {reference['torch']})"
            )
    return None


def _read(path: Path) -> dict[str, Any]:
    import yaml  # only pretraining needs it

    try:
        values = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not YAML, it may be torn: restore it, or remove it") from error
    missing = [key for key in KEYS if not isinstance(values, dict) or not values.get(key)]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}, it may be torn: restore it, or remove it")
    return values
