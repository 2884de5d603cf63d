"""Results of lm-evaluation-harness (0.4): `MODEL/results_DATE.json`, and `samples_TASK_DATE.jsonl` of --log_samples.

A group counts where none of its tasks is there. Runs of a model whose configs state other seeds are repetitions.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
from pyarrow import json
from pydantic import Field
from pydantic.dataclasses import dataclass

from harness import paths
from harness.errors import InputError, on_one_line
from harness.plugins.results import folders
from harness.reports.reading.results import Asked, Results
from harness.reports.reading.untrusted import LARGEST_JSON, PART, Line, json_of

TOOL = "lm-evaluation-harness"
DATE = r"(?P<date>\d{4}-\d\d-\d\dT[\d.-]*\d)"
SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
"""Keys of its config; --seed sets all of them."""
DIRECTIONS = {True: "higher", False: "lower"}


@dataclass(config=PART)
class Output:
    """What is read of a results file."""

    results: dict[Line, dict[Line, Any]]
    config: dict[str, Any]
    model_name: Line | None = None
    higher_is_better: dict[Line, dict[Line, bool | None]] = Field(default_factory=dict)
    group_subtasks: dict[Line, list[Line]] = Field(default_factory=dict)
    shots: dict[Line, int] = Field(default_factory=dict, alias="n-shot")
    samples: dict[Line, dict[Line, int]] = Field(default_factory=dict, alias="n-samples")


def _tasks(file: Path, samples: dict[str, Path]) -> Iterator[pd.DataFrame]:
    """Rows of each task of a results file; `samples` are the files of single items, by task."""
    output = folders.shaped(file, Output, TOOL)
    seeds = dict.fromkeys(str(seed) for key in SEEDS if (seed := output.config.get(key)) is not None)
    for task, values in output.results.items():
        if {*output.group_subtasks.get(task, ())} & {*output.results}:
            continue
        scores = {key: value for key, value in values.items() if "," in key and "_stderr," not in key}
        errors = pd.Series([values.get(key.replace(",", "_stderr,")) for key in scores], dtype=object)
        whole = {"metric": [*scores], "value": [*scores.values()], "error": pd.to_numeric(errors, errors="coerce")}
        rows = pd.DataFrame(whole).assign(items=output.samples.get(task, {}).get("effective"))
        if task in samples:
            rows = pd.concat([rows, *_items(samples[task], {key.partition(",")[0] for key in scores})])
        shots, higher = output.shots.get(task), output.higher_is_better.get(task, {})
        yield rows.assign(
            arm=output.model_name or file.parent.name,
            task=f"{task} {shots}-shot" if shots else task,
            seed=",".join(seeds) or None,
            direction=rows["metric"].map({key: DIRECTIONS.get(higher.get(key.partition(",")[0])) for key in scores}),
        )


def _items(file: Path, metrics: set[str]) -> Iterator[pd.DataFrame]:
    """Rows of the metrics that are a number of each item."""
    try:
        with paths.opened(file, paths.LARGEST_LOG) as lines:
            first = json_of(lines.readline(LARGEST_JSON), dict[str, Any], on_one_line(str(file)), f"what {TOOL} writes")
            lines.seek(io.SEEK_SET)
            numbers = {name: type(first[name]) for name in sorted(metrics) if isinstance(first.get(name), int | float)}
            columns = {name: pyarrow.bool_() if kind is bool else pyarrow.float64() for name, kind in numbers.items()}
            schema = pyarrow.schema({"doc_id": pyarrow.int64(), "filter": pyarrow.string(), **columns})
            options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            table = json.read_json(lines, json.ReadOptions(block_size=LARGEST_JSON), options).to_pandas()
    except pyarrow.ArrowException as error:
        raise InputError(f"{on_one_line(str(file))!r}: {on_one_line(str(error), 100)}; expected what {TOOL} writes") from error
    filters = table["filter"].fillna("none")
    for name in columns:
        yield pd.DataFrame({"metric": f"{name}," + filters, "value": table[name].astype(float), "item": table["doc_id"]})


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """The rows of all runs at or below the path."""
    runs = folders.found(path, rf".*/[^/]+_{DATE}\.json", r'\s*\{\s*"results"')
    if not runs:
        return None
    samples: dict[tuple[Path, str], dict[str, Path]] = {}
    for file, match in folders.found(path, rf".*/samples_(?P<task>[^/]+)_{DATE}\.jsonl"):
        samples.setdefault((file.parent, match["date"]), {})[match["task"]] = file
    dated = sorted(runs, key=lambda run: run[1]["date"])
    return folders.newest((rows for file, of in dated for rows in _tasks(file, samples.get((file.parent, of["date"]), {}))), TOOL)


LM_EVAL = Results(TOOL, read)
