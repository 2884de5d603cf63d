"""Folders of transformers' `Trainer`: the last evaluation of each run, of `eval_results.json` or of its log.

Their paths say the arm, the task and the seed: `columns=path={arm}/{task}/seed{seed}`. `training_args.bin` is a pickle and
never read; the last evaluation is that of the best checkpoint where a run loads that and is evaluated again.
"""

import math
import re
from pathlib import Path

import pandas as pd

from harness import paths
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results import folders
from harness.plugins.results.columns import METRIC, of_runs, stated

NAMES = ("eval_results.json", "all_results.json", "trainer_state.json")
"""What it writes of a run; the first that has an evaluation is read."""

COSTS = re.compile(r"eval_(\w+_)?(runtime|samples|(samples|steps)_per_second|(model_preparation|jit_compilation)_time)")
"""Keys of an evaluation that are not metrics."""


def read(path: Path, asked: Asked) -> pd.DataFrame | None:
    """One row per run and metric; None where no file has an evaluation."""
    ranked = []
    for file, match in folders.found(path, rf".*?(/checkpoint-(?P<step>\d+))?/({'|'.join(NAMES)})"):
        run = file.parent.parent if match["step"] else file.parent
        ranked.append((run, -int(match["step"]) if match["step"] else -math.inf, NAMES.index(file.name), file))
    runs = {}
    for run, *_, file in sorted(ranked):
        content = paths.read_object(file)
        numbers = {
            name: float(value)
            for entry in content.get("log_history", [content])
            for name, value in entry.items()
            if name.startswith("eval_") and isinstance(value, int | float)
        }
        if numbers and run not in runs:
            items = {"items": numbers["eval_samples"]} if "eval_samples" in numbers else {}
            scores = {METRIC + name: value for name, value in numbers.items() if not COSTS.fullmatch(name)}
            runs[run] = {"folder": run.name, **stated(run, asked), **items, **scores}
    return of_runs([*runs.values()], asked, path, every=True)


TRAINER = Results("transformers' Trainer", read)
