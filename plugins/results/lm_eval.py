"""Results of lm-evaluation-harness (since 0.4.3): `MODEL/results_DATE.json`, `samples_TASK_DATE.jsonl` of --log_samples.

A group counts where none of its tasks is there. Runs of a model whose configs state other seeds are repetitions.
"""

import collections
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from harness import paths
from harness.plugins.results import folders

SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
"""Keys of its config; --seed sets all of them."""
DIRECTIONS = {True: "higher", False: "lower"}
COLUMNS = ["task", "version", "metric", "direction", "value", "error", "items", "item", "document"]


def _of_run(file: Path) -> pd.DataFrame:
    output, rows = paths.read_object(file), []
    for task, values in output["results"].items():
        if {*output["group_subtasks"].get(task, ())} & {*output["results"]}:
            continue
        shots, higher = output["n-shot"].get(task), output["higher_is_better"].get(task, {})
        items = output["n-samples"].get(task, {}).get("effective")
        named: dict[str, dict[str, tuple[Any, ...]]] = collections.defaultdict(dict)  # filter -> metric -> beginning of a row
        for metric in (key for key in values if "," in key and "_stderr," not in key):
            name, _, of = metric.partition(",")
            title, direction = f"{task} {shots}-shot" if shots else task, DIRECTIONS.get(higher.get(name))
            named[of][name] = (title, output["versions"].get(task), metric, direction)
            error = values.get(f"{name}_stderr,{of}")
            rows.append((*named[of][name], values[metric], error if isinstance(error, float) else None, items, None, None))
        for sample in _read(paths.named(file.parent, f"samples_{task}_{file.stem.rpartition('_')[2]}.jsonl")):
            for name, said in named[sample.get("filter", "none")].items():
                if isinstance(value := sample.get(name), int | float):
                    rows.append((*said, value, None, None, sample["doc_id"], sample.get("doc_hash")))
    config = output["config"]
    seeds = dict.fromkeys(str(seed) for key in SEEDS if (seed := config.get(key)) is not None)
    found = pd.DataFrame(rows, columns=COLUMNS).assign(arm=output["model_name"], seed=",".join(seeds) or None)
    return found.assign(model_args=str(config.get("model_args")))


def _read(samples: Path) -> Iterator[dict[str, Any]]:
    if samples.is_file() and not samples.is_symlink():
        with paths.opened(samples, paths.LARGEST_LOG) as lines:
            yield from map(json.loads, iter(lambda: lines.readline(paths.LARGEST_RECORD), b""))


LM_EVAL = folders.results("lm-evaluation-harness", rf"(.*)/[^/]+_{folders.DATE}\.json", r'\s*\{\s*"results"', _of_run)
