"""Evaluation and scoring of many items of SST-2: our `evaluate_split` and scores against `Trainer.evaluate`.

Scale tiny in the quick form, so that data and scoring count, and mini too in the full one. The Trainer once as it is set up
usually, in the order of the data, and once with batches grouped by length. All sides must find the same accuracy.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import finetune_speed
import ours
import peers
import rounds
import torch
import transformers
from sklearn.metrics import accuracy_score

from harness.models.heads import build_classifier
from harness.training.evaluation import evaluate_split, headline

BATCH = 64


def measure(quick: bool) -> list[dict[str, Any]]:
    """Items per second of every side, and ours over each."""
    rows: list[dict[str, Any]] = []
    for scale in ("tiny",) if quick else ("tiny", "mini"):
        with tempfile.TemporaryDirectory() as folder:
            rows += _measured(scale, Path(folder), 2 if quick else 5, ours.ROWS if quick else 40_000)
    return rows


def _measured(scale: str, folder: Path, count: int, items: int) -> list[dict[str, Any]]:
    sides, scores = _sides(scale, folder, items), {}

    def timed(name: str) -> rounds.Side:
        return rounds.per_second(items, lambda: scores.update({name: sides[name]()}))

    values = rounds.interleaved({name: timed(name) for name in sides}, count)
    if max(scores.values()) - min(scores.values()) > 2 / items:  # one item may be a tie
        raise RuntimeError(f"the sides find different accuracies: {scores}")
    named = {f"{name}, {scale}": one for name, one in values.items()}
    ratios = [
        rounds.times_as_fast(values["ours"], values[other], f"ours / {other}, {scale}") for other in values if other != "ours"
    ]
    return ratios + rounds.rates(named, "items/s")


def _sides(scale: str, folder: Path, items: int) -> dict[str, Callable[[], float]]:
    """Functions that evaluate all items and return their accuracy."""
    overrides = ("task=sst2", f"scale={scale}", f"data.train_examples={items}", f"finetune.eval_batch_size={BATCH}")
    config, data = ours.on_task(*overrides, output=ours.prepared_folder(folder))
    model, machine = build_classifier(config.model, 2, 0), ours.machine("fp32")
    _, published = ours.exported(model, config, data, folder)
    model, rows = machine.prepare(model), finetune_speed.tokenised(peers.tokenizer(), data)

    def evaluated() -> float:
        return headline(config.task, evaluate_split(config, model, data.train, data, machine))

    def by_trainer(strategy: str) -> Callable[[], float]:
        theirs = transformers.BertForSequenceClassification.from_pretrained(str(published), dtype=torch.float32)
        more = {"per_device_eval_batch_size": BATCH, "train_sampling_strategy": strategy}
        trainer = transformers.Trainer(
            model=theirs,
            args=peers.arguments(folder / "trainer", config.finetune, **more),
            data_collator=transformers.DataCollatorWithPadding(peers.tokenizer()),
            compute_metrics=lambda found: {"accuracy": accuracy_score(found.label_ids, found.predictions.argmax(axis=1))},
        )
        trainer.remove_callback(transformers.PrinterCallback)
        return lambda: trainer.evaluate(rows)["eval_accuracy"]

    return {
        "ours": evaluated,
        "Trainer": by_trainer("random"),
        "Trainer, grouped by length": by_trainer("group_by_length"),
    }
