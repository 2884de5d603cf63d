"""Settings by task: typed as `task.NAME.KEY=VALUE`, or those of a protocol: how a paper fine-tunes (`conf/protocol/`)."""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from harness.config.help import default_choices
from harness.config.schema import flatten
from harness.errors import InputError, unknown

OF_TASKS = ("data", "finetune", "task")
"""Sections that may differ between the tasks of one arm: none of them belongs to the arm."""

OF_PROTOCOLS = (*OF_TASKS, "protocol", "search")
"""Sections that a protocol may state."""

TYPED = re.compile(r"(?s)\+*task\.(\w+)\.((\w+)\.[^=]*=.*)")
"""`task.rte.finetune.epochs=3`: the task, what is typed for it alone, and the section of that."""

NAMED = re.compile(r"\+*protocol=(.*)")


class OtherTaskError(InputError):
    """A task that a protocol does not mention."""


class Protocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of `conf/protocol/`: settings are sections with keys of a run; those of `protocol` say how runs make a number."""

    sources: list[str]  # where they are stated: paper and section, repository and path
    tasks: dict[str, dict[str, Any] | None]  # task: its own settings; of no other task does the protocol say anything
    settings: dict[str, Any] = {}  # of all tasks
    assumed: list[str] = []  # what no source says, or is different here

    def overrides(self, name: str, task: str) -> list[str]:
        """What is typed for the task in place of the protocol of this name; InputError for another task or section."""
        if task not in self.tasks:
            raise OtherTaskError(f"protocol={name} has no task {task!r}: expected one of {', '.join(self.tasks)}")
        stated = flatten(self.settings) | flatten(self.tasks[task] or {})
        for key in stated:
            if not re.fullmatch(rf"({'|'.join(OF_PROTOCOLS)})(\.\w+)+", key):
                raise unknown("section", key, OF_PROTOCOLS, f"protocol={name}")
        return [f"protocol_name={name}", *(f"{key}={json.dumps(value)}" for key, value in stated.items())]


def of_task(overrides: Iterable[str]) -> tuple[str, list[str]]:
    """The one task that overrides name, and they without what is typed for others; what is typed for it alone stands last."""
    words = [*overrides]
    named = [word.partition("=")[2] for word in words if word.startswith("task=")]
    task = [str(default_choices()["task"]), *named][-1]
    typed = {word: match for word in words if (match := TYPED.fullmatch(word))}
    return task, [*(word for word in words if word not in typed), *(match[2] for match in typed.values() if match[1] == task)]


def named(overrides: Iterable[str]) -> str | None:
    """The protocol that overrides name, of several the last; InputError with a choice that it would replace.

    `search=none` leaves out its search.
    """
    words = [*overrides]
    names = [match[1] for word in words if (match := NAMED.fullmatch(word))]
    for word in words if names else ():
        if word.startswith(("finetune=", "search=")) and word != "search=none":
            raise InputError(f"{word} and protocol={names[-1]} both say how runs train: leave one out, or set single keys")
    return names[-1] if names else None
