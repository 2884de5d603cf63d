"""The keys of `python -m harness memory`, read from the command line."""

import re
from dataclasses import dataclass

from harness.commands.arguments import whole_number
from harness.errors import InputError, unknown

KEYS = {
    "batch_sizes": "sequences of one optimiser step, in one piece ([1,4,8])",
    "length": "tokens of each sequence (measure.length: 128, or as many as the model takes)",
    "activation_checkpointing": "true, false or both (finetune.activation_checkpointing)",
    "fits": "memory, such as 2GB: searches the largest batch that stays within it",
}

MOST_SEQUENCES = 1e6
"""Most sequences of a batch: more than any machine holds, and few enough to count their bytes."""

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Request:
    """The command line; `checkpointing` is None where the config decides."""

    batch_sizes: tuple[int, ...]
    checkpointing: tuple[bool, ...] | None
    fits: int | None


def request_of(values: dict[str, str]) -> Request:
    """The request; InputError for a value that cannot be used."""
    modes = {"true": (True,), "false": (False,), "both": (False, True)}
    mode = values.get("activation_checkpointing")
    if mode is not None and mode not in modes:
        raise unknown("choice", mode, modes, "activation_checkpointing")
    sizes = values.get("batch_sizes", "[1,4,8]")
    if not re.fullmatch(r"\[?[1-9]\d*(,[1-9]\d*)*\]?", sizes.replace(" ", "")):
        raise InputError(f"batch_sizes={sizes!r} must be numbers of at least 1, such as [1,4,8]")
    numbers = dict.fromkeys(whole_number("batch_sizes", size, limit=MOST_SEQUENCES) for size in re.findall(r"\d+", sizes))
    return Request(
        tuple(numbers), None if mode is None else modes[mode], bytes_of(values["fits"]) if "fits" in values else None
    )


def bytes_of(text: str) -> int:
    """`2GB`, `1.5GiB` or `800 MB`; InputError for anything else, as a number without a unit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?i?B)", text.strip(), re.IGNORECASE)
    unit = found[2].upper() if found else None
    if not found or unit not in UNITS or not 0 < float(found[1]) * UNITS[unit] < float("inf"):
        raise InputError(f"fits={text!r} must be a size above 0 with its unit, such as 800MB, 2GB or 1.5GiB")
    return int(float(found[1]) * UNITS[unit])
