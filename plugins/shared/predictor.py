"""Predictions of a fine-tuned checkpoint on texts without labels. S sequences, C classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from harness.checkpoints.finetuned import load_finetuned, tokenizer_of
from harness.config.choices import TaskKind
from harness.config.schema import HardwareConfig
from harness.data.tokenizer import pad_token_id
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.tasks import kind_of
from harness.tasks.base import Examples
from harness.tasks.rows import lists_endings
from harness.training.evaluation import predict

BATCH_SIZE = 64
"""Texts of one batch of a registered model."""


class Predictor:
    """A fine-tuned model on its device."""

    def __init__(self, checkpoint: Path, hardware: HardwareConfig, batch_size: int) -> None:
        """InputError for a checkpoint or a device that cannot be used, and for a task of kind `spans` or `retrieval`."""
        model, facts, tokenizer = load_finetuned(checkpoint)
        self.task = facts.config()
        unsupported = {TaskKind.spans: "predicts spans of a context", TaskKind.retrieval: "compares vectors of texts"}
        if self.task.kind in unsupported:
            what = unsupported[self.task.kind]
            raise InputError(f"{checkpoint}: task {facts.name!r} {what}, which `predict` does not support")
        self._machine = Machine(hardware)
        self._model = self._machine.prepare(model.to(self._machine.device))
        self._tokenizer = tokenizer_of(tokenizer, model.encoder.config)
        self._pad, self._batch_size = pad_token_id(self._tokenizer) or 0, batch_size

    @property
    def example(self) -> pd.DataFrame:
        """What `predict` reads: the columns of the task, with texts, or with lists of words or of endings."""
        words = ["two", "words"]
        row: dict[str, Any] = dict.fromkeys(self.task.fields, words if self._is_tagged else " ".join(words))
        if self._lists_endings:
            row[self.task.fields[-1]] = [" ".join(words)] * len(self.task.labels)
        return pd.DataFrame([row])

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The predictions of `rows` without their numbers, a row for each of the frame: what a server of MLflow answers.

        InputError for a row without text.
        """
        texts = frame[self.task.fields].to_numpy().tolist()
        texts = [[*words] for (words,) in texts] if self._is_tagged else texts
        texts = [[first, *endings] for first, endings in texts] if self._lists_endings else texts
        for number, row in enumerate(texts):
            if not row or not all(isinstance(text, str) for text in row):
                raise InputError(f"row {number}: expected text in {', '.join(self.task.fields)}, got {row!r:.60}")
        return pd.DataFrame(self.rows(texts, 0)).drop(columns=["row", "words"], errors="ignore")

    @property
    def _is_tagged(self) -> bool:
        return self.task.kind is TaskKind.tokens

    @property
    def _lists_endings(self) -> bool:
        return lists_endings(self.task, self.task.fields[-1])

    def rows(self, texts: list[list[str]], first: int) -> list[dict[str, Any]]:
        """One row per text, pair or list of words, numbered from `first`."""
        tagged, numbers = self._is_tagged, list(range(first, first + len(texts)))
        multiple = self.task.kind is TaskKind.multilabel
        unlabelled: list[Any] = [[0] * len(words) for words in texts] if tagged else [[] if multiple else 0] * len(texts)
        kind = kind_of(self.task)
        split = kind.encode(self.task, self._tokenizer, Examples(texts, unlabelled, numbers, "input"))
        logits = predict(self._model, split, self._batch_size, self._pad, self._machine)
        columns: dict[str, list[Any]] = {"row": numbers}
        if tagged:
            columns |= {"words": texts, "prediction": kind.predictions(self.task, split, logits, 0).predicted}
        elif self.task.kind is TaskKind.regression:
            columns["prediction"] = logits[:, 0].tolist()
        else:
            shares = 1 / (1 + np.exp(-logits)) if multiple else softmax(logits.astype(np.float64), axis=1)
            by_label = [dict(zip(self.task.labels, row, strict=True)) for row in shares.tolist()]
            if multiple:
                columns["prediction"] = [[label for label in row if row[label] > 0.5] for row in by_label]
            else:
                columns["prediction"] = best = [max(row, key=row.__getitem__) for row in by_label]
                columns["probability"] = [row[label] for row, label in zip(by_label, best, strict=True)]
            columns["probabilities"] = by_label
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _load_pyfunc(checkpoint: str) -> Predictor:
    """A registered model, as MLflow loads it: on the CPU."""
    return Predictor(Path(checkpoint), HardwareConfig(), BATCH_SIZE)
