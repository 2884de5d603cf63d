"""A study of every kind of run: pretrainings, and fine-tunings from them that keep their weights."""

from pathlib import Path

from pyarrow import parquet

from harness import paths
from harness.tracking import run_log

STUDY = (
    *("-m", "model=base,albert", "seed=0,1", "scale=tiny", "task=bag", "study=torn"),
    *("task.grammar.train_examples=60", "task.grammar.validation_examples=40", "task.max_length=32", "finetune.max_steps=4"),
    *("finetune.keep=last", "hardware.threads=1", "measure=none", "report=false"),
    *("pretrain=mlm", "pretrain.steps=4", "pretrain.length=32", "pretrain.batch_size=4", "pretrain.eval_sequences=8"),
    *("pretrain.evaluations=1", "pretrain.keep=[]"),
)


def runs(output: Path) -> list[Path]:
    return sorted(path.parent for path in paths.matching(output, "*/*/run.json"))


def results(output: Path) -> dict[str, object]:
    """Everything that a study measured, without times and memory, which no second run has again."""
    found: dict[str, object] = {}
    for folder in runs(output):
        metrics = run_log.result(folder)["metrics"]
        varies = ("_s", "_per_s", "bytes", "_j", "mfu")
        found[folder.name] = {key: value for key, value in metrics.items() if not key.endswith(varies)}
        if (folder / "predictions.parquet").exists():
            found[f"{folder.name} predictions"] = parquet.read_table(folder / "predictions.parquet").to_pydict()
    return found
