"""Runs of Weights & Biases, sent or offline, from the log `run-ID.wandb` that each keeps in its folder.

`metric=NAME columns=arm=config.model,seed=config.seed` says which number of the summary counts, and which keys of the config
are what; `a.b` is a key b within a. A table of runs that a page exports is a CSV like any other.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from harness import extensions, paths
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results import folders
from harness.plugins.results.columns import FINISHED, METRIC, Row, of_runs, stated

MODULES = ("sdk.internal.datastore", "proto.wandb_internal_pb2")


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """One row per run; None without a log."""
    logs = folders.found(path, r".*/run-\w+\.wandb", ":W&B")
    return of_runs([_of_log(log) | stated(log.parent, asked) for log, _ in logs], asked, path)


def _of_log(file: Path) -> Row:
    """The config and the last summary, from the records that `wandb sync` would send."""
    storage, records = (extensions.library(f"wandb.{name}", "wandb") for name in MODULES)
    row = {"folder": file.parent.name, FINISHED: False}
    with tempfile.NamedTemporaryFile() as copy, contextlib.closing(storage.DataStore()) as log:
        copy.write(paths.read(file, paths.LARGEST_LOG))
        copy.flush()
        log.open_for_scan(copy.name)  # for writing, too
        while (content := log.scan_data()) is not None:
            record = records.Record.FromString(content)
            row[FINISHED] |= record.HasField("exit") and record.exit.exit_code == 0
            for item in (*record.run.config.update, *record.config.update):
                row |= {f"config.{name}": str(value) for name, value in _leaves(item)}
            for item in (*record.run.summary.update, *record.summary.update):
                row |= {METRIC + name: float(value) for name, value in _leaves(item) if isinstance(value, int | float)}
    return row


def _leaves(item: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of what was logged as one, an object in it by `outer.inner`; what W&B adds itself begins with `_`."""
    left = [(".".join(item.nested_key) or item.key, json.loads(item.value_json))]
    for name, value in left:
        if isinstance(value, dict):
            left += [(f"{name}.{inner}", of_inner) for inner, of_inner in value.items()]
        elif not name.startswith("_"):
            yield name, value


WANDB = Results("Weights & Biases", read)
