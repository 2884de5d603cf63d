"""Suggestions for an unknown key or choice: by spelling, by last part, or by meaning."""

import difflib
import re
from collections.abc import Iterable

from harness.config.synonyms import CHOICES, KEYS

AT_MOST = 3
"""Names in one suggestion."""

FIRST = ("", "model", "finetune", "task", "hardware", "pretrain", "measure")
"""Order in which sections are suggested; the others follow. The empty one is the top level."""

STATED = "model.recipe."
"""What a scale states of settings that have keys of their own; those are suggested."""


def keys(unknown: str, known: Iterable[str]) -> list[str]:
    """Keys that an unknown one may stand for, the likeliest first: `finetune.learning_rate` for `lr`."""
    section, _, name = unknown.strip("+~").rpartition(".")
    known = sorted((key for key in known if not key.startswith(STATED)), key=_place)
    siblings = [key for key in known if key.rpartition(".")[0] == section]
    synonyms = {canonical for canonical, others in KEYS.items() if _plain(name) in others.split()}
    found = [key for key in known if key.rpartition(".")[2] in synonyms] or [key for key in known if _last(key) == _plain(name)]
    found = [key for key in found if section and key in siblings] or found
    if section and not siblings:  # the section is misspelt too
        found = difflib.get_close_matches(unknown, known, n=1) or found
    if not found:
        found = difflib.get_close_matches(unknown, siblings, n=1) or difflib.get_close_matches(unknown, known, n=1)
    if not found:
        near = difflib.get_close_matches(_plain(name), [_last(key) for key in known], n=1)
        found = [key for key in known if _last(key) in near]
    return found[:AT_MOST]


def choices(group: str, unknown: str, known: Iterable[str]) -> list[str]:
    """Choices of a group that an unknown one may stand for: `base` for `model=bert`, `sst2` for `task=sst-2`."""
    known = sorted(known)
    synonyms = [choice for choice, others in CHOICES.get(group, {}).items() if _plain(unknown) in others.split()]
    found = [choice for choice in known if _letters(choice) == _letters(unknown)] or [
        choice for choice in synonyms if choice in known
    ]
    return found or difflib.get_close_matches(unknown, known, n=1)


def _place(key: str) -> tuple[int, str]:
    section = key.rpartition(".")[0]
    return (FIRST.index(section) if section in FIRST else len(FIRST), key)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _plain(name: str) -> str:
    return re.sub(r"[-\s]", "_", name.lower())


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
