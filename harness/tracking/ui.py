"""Pages of the MLflow UI: the address of a study's table, with the columns that matter, sorted by score."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from harness import tags
from harness.tracking.notes import TRAINING

VIEW = "results"
"""Name of the table's view, in the addresses and in the menu Views."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""Tag of an experiment in which the UI of MLflow keeps a saved view."""

ADDRESS = "http://127.0.0.1:5000"
"""Where `mlflow ui` and `python -m harness ui` listen by default."""

SCORES = ("eval/score", "pretrain/masked_loss")
"""Metrics to sort by; the first one that the study has."""

COLUMNS = (
    *("eval/score", "pretrain/masked_loss", "model/params_total", "model/flops_forward", "inference/latency_ms_p50"),
    *("inference/tokens_per_s", "inference/peak_memory_bytes", "finetune/duration_s", "finetune/peak_memory_bytes"),
)


def table(experiment: str, address: str = ADDRESS) -> str:
    """Address of the study's table of runs."""
    return f"{address}/#/experiments/{experiment}/runs?{TRAINING}&viewStateShareKey={VIEW}"


def view(metrics: Iterable[str], varied: Iterable[str], now_ms: int) -> str:
    """Value of VIEW_TAG: columns and order of the table, for runs with these metrics, in which these parameters vary."""
    known = set(metrics)
    score = next((name for name in SCORES if name in known), None)
    columns = [_column("tags", tags.ARM), _column("tags", tags.TASK), _column("tags", tags.SEED)]
    columns += [_column("params", name) for name in varied]
    columns += [_column("metrics", name) for name in COLUMNS if name in known]
    state: dict[str, Any] = {
        "selectedColumns": columns,
        "columnOrder": columns,
        "searchFilter": f"tags.{tags.ROLE} = '{tags.ROLE_RUN}'",
    }
    if score:
        state |= {"orderByKey": _column("metrics", score), "orderByAsc": score == "pretrain/masked_loss"}
    return json.dumps({"name": VIEW, "createdAt": now_ms, "updatedAt": now_ms, "state": json.dumps(state)})


def _column(kind: str, name: str) -> str:
    return f"{kind}.`{name}`"


def varied_parameters(several: Iterable[Mapping[str, str]], most: int = 4) -> list[str]:
    """Parameters of the runs that differ between them and that the arm, task and seed do not say already."""
    runs = list(several)
    said = ("model_name", "scale_name", "task.", "seed", "enhancements.", "model.")
    keys = dict.fromkeys(key for run in runs for key in run if not key.startswith(said))
    return [key for key in keys if len({run.get(key) for run in runs}) > 1][:most]
