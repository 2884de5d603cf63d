"""Writes a curve of reference from finished pretrainings, or fine-tunings, that differ in their seeds alone.

    python tests/benchmarks/reference_curve.py conf/reference/NAME.yaml multirun/pretrained/RUN multirun/pretrained/RUN ...

The band at each evaluation is the 95 % interval in which the held-out masked loss of one more seed is expected; of fine-tunings
the score after their epochs.
"""

import importlib.metadata
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import yaml
from scipy import stats

from harness.comparison.plateau import LOSS
from harness.config.conditions import NO_TASK

SCORE = "eval/score"
NAMED = ("model_name", "scale_name", "corpus.name", "hardware.dtype", "facts.text")
TASK_NAMED = ("model_name", "hardware.dtype", "task.name", "task.max_length", "facts.rows", "facts.weights")
NEUTRAL_KEYS = (
    "finetune.keep",
    "finetune.submit",
    "finetune.eval_batch_size",
    "model.init_from",
    "pretrain.seed",
    "pretrain.keep",
    "pretrain.at",
    "pretrain.evaluations",
    "pretrain.checkpoint_every_s",
)


def main(target: Path, folders: list[Path]) -> None:
    """ValueError unless the runs have the same settings and evaluations."""
    settings, curves = [settings_of(folder) for folder in folders], [curve_of(folder) for folder in folders]
    if any(one != settings[0] for one in settings) or any(curve.keys() != curves[0].keys() for curve in curves):
        raise ValueError("the runs differ in more than their seeds")
    bands = {tokens: band([curve[tokens] for curve in curves]) for tokens in curves[0]}
    facts = {"seeds": len(folders), "torch": importlib.metadata.version("torch"), "curve": bands, "of": settings[0]}
    if is_finetuning(settings[0]):
        facts = {"metric": SCORE} | facts
    target.parent.mkdir(exist_ok=True)
    target.write_text(yaml.safe_dump(facts, sort_keys=False, default_flow_style=None, width=128))


def settings_of(folder: Path) -> dict[str, Any]:
    """The tracked parameters that shape the curve, as text."""
    parameters = json.loads((folder / "run.json").read_text())["parameters"]
    named, phase = (TASK_NAMED, "finetune.") if is_finetuning(parameters) else (NAMED, "pretrain.")
    chosen = {key for key in parameters if key in named or key.startswith(("model.", phase))} - {*NEUTRAL_KEYS}
    return {key: parameters[key] for key in sorted(chosen)}


def is_finetuning(parameters: dict[str, str]) -> bool:
    """Whether these are the parameters of a run on a task."""
    return parameters.get("task.name", NO_TASK) != NO_TASK


def curve_of(folder: Path) -> dict[float, float]:
    """Tokens -> held-out masked loss in nats; of a fine-tuning epochs -> score."""
    parameters = json.loads((folder / "run.json").read_text())["parameters"]
    if is_finetuning(parameters):
        return {float(parameters["finetune.epochs"]): json.loads((folder / "result.json").read_text())["metrics"][SCORE]}
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {entry["tokens"]: entry["value"] for entry in entries if entry.get("key") == LOSS}


def band(values: list[float]) -> list[float]:
    """[low, high] of one more value of the same normal distribution."""
    quantile = float(stats.t.ppf(0.975, len(values) - 1))
    reach = quantile * statistics.stdev(values) * math.sqrt(1 + 1 / len(values))
    middle = statistics.mean(values)
    return [round(middle - reach, 4), round(middle + reach, 4)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
