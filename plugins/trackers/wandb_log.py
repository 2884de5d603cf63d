"""Runs for Weights & Biases, kept below `output`/wandb: a run with its config, curves and results, in the group of its study.

WANDB_MODE, WANDB_PROJECT, WANDB_ENTITY and the login are those of wandb itself; offline runs are sent later by `wandb sync`.
"""

import ast
import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import tags
from harness.errors import InputError
from harness.plugins.trackers import pages
from harness.tracking import run_log
from harness.tracking.run_log import Entry, Record
from harness.tracking.trackers import Backend

try:
    import wandb
except ImportError as error:
    raise InputError(f"tracking=wandb: {error}: pip install 'encoder-variant-harness[wandb]'") from error

STEP = "step"
"""Axis of all curves: each has steps of its own, of training or of launches."""

PROJECT = "encoder-variants"
FOLDER = "wandb"

CONSTANTS: dict[str, Any] = {"True": True, "False": False, "None": None}


def plain(text: str) -> Any:
    """The value of a parameter: a constant, a number, a list, or else the words."""
    if text.startswith("["):
        with contextlib.suppress(ValueError, SyntaxError):
            return ast.literal_eval(text)
    return CONSTANTS.get(text, pages.typed(text))


def nested(values: Mapping[str, str]) -> dict[str, Any]:
    """`{"task": {"name": "rte"}}` of `{"task.name": "rte"}`: a section can be folded, and W&B reads a dot as a level."""
    sections: dict[str, Any] = {}
    for key, text in values.items():
        *path, name = key.split(".")
        section = sections
        for part in path:
            section = section.setdefault(part, {})
        section[name] = plain(text)
    return sections


class WeightsAndBiases(Backend):
    """A study as a group of runs. wandb.Error where there is no login and WANDB_MODE is not offline."""

    def __init__(self, uri: str | None, output: str, study: str) -> None:
        self._study, self._folder = study, Path(output).absolute()
        self._runs: dict[str, tuple[wandb.Run, int]] = {}  # attempt -> run, and points of its log that were passed on
        self._is_online = os.environ.get("WANDB_MODE") not in ("offline", "disabled")
        if self._is_online and not wandb.api.api_key:  # wandb would ask on the terminal
            raise wandb.Error("not logged in: call `wandb login`, or set WANDB_MODE=offline")

    def begin(self, record: Record, folder: Path) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        is_asked = record["parameters"].get("tracking.system_metrics") == "True"
        is_pretraining = record["tags"].get(tags.TASK) == tags.PRETRAINING_TASK
        settings = wandb.Settings(x_disable_stats=not is_asked, silent=True, console="off", disable_git=True, save_code=False)
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=record["attempt"],
            name=record["name"],
            group=re.sub(r"[/\\#?%:]", "_", self._study),
            tags=[text[:64] for key in ("arm", "task") if (text := record["tags"].get(key))],
            job_type=tags.PRETRAINING_TASK if is_pretraining else record["tags"].get(tags.ROLE, tags.ROLE_RUN),
            config=nested(record["parameters"]) | {"tags": {k: v for k, v in record["tags"].items() if "." not in k}},
            dir=str(self._folder),
            resume="allow" if self._is_online else None,  # offline it is ignored, with a warning: `wandb sync` joins the parts
            reinit="create_new",
            settings=settings,
        )
        run.define_metric(STEP, hidden=True)
        run.define_metric("*", step_metric=STEP)
        self._runs[record["attempt"]] = (run, 0)

    def curves(self, record: Record, entries: list[Entry]) -> None:
        run, first = self._runs[record["attempt"]]
        points = [entry for entry in entries if "key" in entry]
        for number, entry in enumerate(points, first):  # by which W&B joins the parts of a run
            if number >= run.starting_step:  # of what an earlier process has sent
                run.log({entry["key"]: entry["value"], STEP: entry["step"]}, step=number)
        self._runs[record["attempt"]] = (run, first + len(points))

    def end(self, record: Record, folder: Path, status: str) -> None:
        run, _ = self._runs.pop(record["attempt"])
        result = run_log.result(folder)
        values = result["metrics"] if result else {}
        run.notes = pages.of_folder(folder, record, status)
        run.summary.update({**values, "status": status, tags.WARNING: run_log.said_of(result)})
        run.finish(exit_code=0 if status == "finished" else 1)

    def add(self, record: Record, folder: Path, entries: list[Entry]) -> None:
        self.begin(record, folder)
        earlier = run_log.Reader(folder).new_entries()[: -len(entries) or None]
        self._runs[record["attempt"]] = (self._runs[record["attempt"]][0], sum("key" in entry for entry in earlier))
        super().add(record, folder, entries)

    def sync_if_stale(self, record: Record, folder: Path) -> None:
        if not list(self._folder.glob(f"{FOLDER}/*-{record['attempt']}")):
            self.send(record, folder)
