"""Predictions of texts of mixed length at scale mini, fp32, batch 32: our `predict` against the pipeline of transformers.

Both sides start with the same texts in memory and end with a written file. They have the same weights, exported by
`harness.plugins.export.checkpoint`, and must predict the same labels.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import datasets
import ours
import peers
import rounds
import transformers

from harness.models.heads import build_classifier
from harness.plugins.predict.predict import CHUNK, chunks, write
from harness.plugins.shared.predictor import Predictor

BATCH, LENGTH = 32, 512
PARTS = {"sst2": 240, "qnli": 80, "wikitext": 40}
"""Texts of each source: short sentences, long sentences, paragraphs."""

TIE = 1e-4
"""Probabilities that are nearer to each other have no label that both sides must share."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """Texts per second of both sides, and their ratio."""
    texts = mixed_texts({name: count if quick else 10 * count for name, count in PARTS.items()})
    with tempfile.TemporaryDirectory() as folder:
        sides = _sides(Path(folder), texts)
        _refuse_other_labels(*(side() for side in sides.values()))
        values = rounds.interleaved(
            {name: rounds.per_second(len(texts), side) for name, side in sides.items()}, 3 if quick else 11
        )
    return [rounds.times_as_fast(*values.values(), "ours / pipeline, fp32"), *rounds.rates(values, "texts/s")]


def mixed_texts(counts: dict[str, int]) -> list[str]:
    """Texts of all sources in an order that mixes their lengths."""
    datasets.disable_progress_bars()
    root = ours.data_root()
    short = datasets.load_dataset(str(root / "glue"), "sst2", split="train")["sentence"][: counts["sst2"]]
    long = datasets.load_dataset(str(root / "glue"), "qnli", split="validation")["sentence"][: counts["qnli"]]
    lines = datasets.load_dataset(str(root / "wikitext"), "wikitext-103-v1", split="train")["text"]
    paragraphs = [line.strip() for line in lines if len(line) > 600][: counts["wikitext"]]
    mixed = datasets.Dataset.from_dict({"text": [*short, *long, *paragraphs]}).shuffle(seed=0)
    return list(mixed["text"])


def _sides(folder: Path, texts: list[str]) -> dict[str, Any]:
    """Both sides as functions without arguments that return (label, highest probability) of every text."""
    config, data = ours.on_task(
        "task=sst2", "data.train_examples=100", f"task.max_length={LENGTH}", output=ours.prepared_folder(folder / "o")
    )
    model = build_classifier(config.model, 2, 0)
    checkpoint, published = ours.exported(model, config, data, folder)
    predictor = Predictor(checkpoint, config.hardware, BATCH)
    pipeline = transformers.pipeline(
        "text-classification", model=str(published), tokenizer=peers.tokenizer(), device=-1, batch_size=BATCH
    )

    def predicted() -> list[tuple[str, float]]:
        parts = chunks(([text] for text in texts), CHUNK)
        batches = (predictor.rows(part, index * CHUNK + 1) for index, part in enumerate(parts))
        write(batches, folder / "ours.jsonl", "jsonl")
        rows = map(json.loads, (folder / "ours.jsonl").read_text().splitlines())
        return [(row["prediction"], row["probability"]) for row in rows]

    def piped() -> list[tuple[str, float]]:
        rows = pipeline(texts, truncation=True, max_length=LENGTH)
        (folder / "peer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return [(row["label"], row["score"]) for row in rows]

    return {"ours": predicted, "pipeline": piped}


def _refuse_other_labels(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> None:
    """RuntimeError unless both sides predict the same label for every text that has no tie."""
    for number, ((label, probability), (label_there, _)) in enumerate(zip(one, other, strict=True)):
        if label != label_there and abs(probability - 0.5) > TIE:
            raise RuntimeError(f"text {number}: ours predicts {label} ({probability:.4f}), the pipeline {label_there}")
