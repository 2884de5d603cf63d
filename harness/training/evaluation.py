"""Evaluation of a fine-tuned classifier: logits of a split, its scores, and the files that they are written to."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from torch import nn

from harness import paths, tasks
from harness.comparison import influences, paired
from harness.config.choices import TaskKind
from harness.config.conditions import ranks_a_corpus
from harness.config.schema import RunConfig, TaskConfig
from harness.data.cache import write_once
from harness.hardware.device import Machine
from harness.tasks import glue_submission, scores
from harness.tasks.base import Kind, Predictions, Split
from harness.tasks.batches import collate, evaluation_order
from harness.tasks.classification import Classification
from harness.tasks.prepared import Prepared
from harness.tasks.vectors import Similarity
from harness.tracking.run_log import RunLog
from harness.versions import VERSIONS

VECTORS = "vectors.npy"
"""Word frequencies of a corpus, in its cache folder."""

SAMPLES = 200
"""Samples of the items by which the error of a score is estimated."""


def evaluate_split(config: RunConfig, model: nn.Module, split: Split, data: Prepared, machine: Machine) -> Predictions:
    """The model's predictions on a split with known labels."""
    kind, corpus, how = tasks.kind_of(config.task), split.second, (config.finetune.eval_batch_size, data.pad_token_id, machine)
    if corpus is not None and isinstance(kind, Similarity) and ranks_a_corpus(config.task):
        documents = _kept(config, model, corpus, partial(predict, model, corpus, *how))
        logits = kind.compared(predict(model, split, *how), documents)
    else:
        logits = answers(kind, model, split, *how)
    return kind.predictions(config.task, split, logits, data.majority)


def _kept(config: RunConfig, model: nn.Module, corpus: Split, encode: Callable[[], np.ndarray]) -> np.ndarray:
    """(P, D) vectors of a corpus, which are encoded once for all queries that are asked of the same model."""
    made_by = (config.model, config.hardware, VERSIONS["models"])  # and the weights, and the texts
    digest = hashlib.sha256(repr(made_by).encode())
    for array in [*(tensor.cpu().numpy() for tensor in model.state_dict().values()), corpus.ids, corpus.starts]:
        digest.update(array.tobytes())
    folder = paths.cache_folder(config.output) / f"vectors-{digest.hexdigest()[:16]}"
    write_once(folder, lambda building: np.save(building / VECTORS, encode()))
    return np.asarray(np.load(folder / VECTORS))


def answers(kind: Kind, model: nn.Module, split: Split, batch_size: int, pad_token_id: int, machine: Machine) -> np.ndarray:
    """The model's logits, or how alike both sides are where the kind of task compares two."""
    sides = [split] if split.second is None else [split, split.second]
    logits, *others = (predict(model, side, batch_size, pad_token_id, machine) for side in sides)
    return kind.compared(logits, *others) if others and isinstance(kind, Similarity) else logits


@torch.inference_mode()
def predict(model: nn.Module, split: Split, batch_size: int, pad_token_id: int, machine: Machine) -> np.ndarray:
    """The model's float32 logits without dropout, in the order of the data.

    (S, C) for every sequence, or (N, C) for every token of all sequences, padding left out.
    """
    model.eval()
    logits = np.empty((0, 0), dtype=np.float32)
    for rows in evaluation_order(split, batch_size):
        batch = collate(split, rows, pad_token_id).to(machine.device)
        with machine.autocast():
            output = model(batch).float().cpu().numpy()  # (B, C) or (B, T, C)
        if not len(logits):
            logits = np.empty((len(split) if output.ndim == 2 else len(split.ids), output.shape[-1]), dtype=np.float32)
        if output.ndim == 2:
            logits[rows] = output
            continue
        for row, sequence in enumerate(rows):
            start, end = split.starts[sequence], split.starts[sequence + 1]
            logits[start:end] = output[row, : end - start]
    return logits


NEAR = 0.05
"""Standard deviations of the labels up to which two predicted numbers are alike."""


def write_scores(task: TaskConfig, answers: Predictions, run_log: RunLog) -> None:
    """Writes the task's scores, its headline score, the loss, the score of the constant prediction, and how alike answers are.

    An undefined score is reported on the console and left out.
    """
    write_more_scores(task, "", answers, run_log)
    run_log.values(
        {
            "eval/score": headline(task, answers),
            "eval/loss": answers.loss,
            "eval/examples": len(answers.labels),
            "eval/majority_score": scores.compute(task.kind, task.headline, answers.labels, answers.baseline),
        }
    )
    write_intervals(task, answers, run_log)
    if task.kind not in (TaskKind.minimal_pairs, TaskKind.similarity):  # whose answers are no labels
        for of, share in most_frequent_shares(task.kind, answers).items():
            run_log.value(f"eval/most_frequent_{of}_share", share)


def most_frequent_shares(kind: TaskKind, answers: Predictions) -> dict[str, float]:
    """Share of the most frequent one among the predictions, and among the labels: classes, sets, tags, texts, paragraphs.

    Numbers that are near their median count as one.
    """
    both = {"prediction": answers.predicted, "label": answers.labels}
    if kind is TaskKind.regression:
        near = NEAR * np.std(answers.labels)
        return {of: float(np.mean(abs(values - np.median(values)) <= near)) for of, values in both.items()}
    shares = {}
    for of, values in both.items():
        if kind is TaskKind.tokens:
            values = [*chain.from_iterable(values)]
        elif kind is TaskKind.multilabel:
            values = [tuple(row) for row in values.tolist()]
        elif kind in (TaskKind.spans, TaskKind.retrieval):
            values = [next(iter(one), "") if isinstance(one, list | dict) else one for one in values]
        shares[of] = max(Counter(values).values()) / len(values)
    return shares


def write_intervals(task: TaskConfig, answers: Predictions, run_log: RunLog) -> None:
    """Writes the ends of 95 % intervals over the items, of scores that are no share of right answers, and of a squared error.

    From 1.96 standard errors, by the delta method, or the standard deviation over samples of as many items with replacement; an
    end is never what no score can be.
    """
    regression, count = task.kind is TaskKind.regression, len(answers.labels)
    by_samples = task.kind in (TaskKind.multilabel, TaskKind.regression, TaskKind.similarity, TaskKind.retrieval)
    samples = np.random.default_rng(0).integers(count, size=(SAMPLES if by_samples else 0, count))
    for name in [*task.scores, *(["loss"] if regression else [])]:
        value = _score(task, name, answers, np.arange(count))
        moved = (
            None
            if value is None or name == "loss"
            else influences.of_score(task.kind.value, name, answers.labels, answers.predicted)
        )
        sampled = [_score(task, name, answers, sample) for sample in samples] if moved is None else []
        values = [one for one in sampled if one is not None]
        if value is None or len(values) < len(sampled) or (moved is None and not values):
            continue
        half = 1.96 * (paired.influence_error(*moved) if moved else float(np.std(values, ddof=1)))
        if name == "loss":
            low, high = (value * math.exp(side * half / value) if value else value for side in (-1, 1))
        else:
            low, high = paired.score_interval(value, half, name, None if moved else count)
        run_log.value(f"eval/{name}_low", low)
        run_log.value(f"eval/{name}_high", high)
    if regression:
        run_log.value("eval/majority_loss", float(np.var(answers.labels)))


def _score(task: TaskConfig, name: str, answers: Predictions, rows: np.ndarray) -> float | None:
    labels, predicted = (_rows(one, rows) for one in (answers.labels, answers.predicted))
    return float(np.mean((labels - predicted) ** 2)) if name == "loss" else scores.compute(task.kind, name, labels, predicted)


def _rows(values: Any, rows: np.ndarray) -> Any:
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def write_more_scores(task: TaskConfig, suffix: str, answers: Predictions, run_log: RunLog) -> None:
    """Writes the task's scores alone, with this suffix, such as `_mismatched` for a split of task.more_validation."""
    for name in task.scores:
        value = scores.compute(task.kind, name, answers.labels, answers.predicted)
        if value is None:
            print(f"score {name}{suffix} is undefined for these labels and predictions")
        run_log.value(f"eval/{name}{suffix}", value)


def headline(task: TaskConfig, answers: Predictions) -> float | None:
    """The task's headline score, None where it is undefined."""
    return scores.compute(task.kind, task.headline, answers.labels, answers.predicted)


def submit(config: RunConfig, model: nn.Module, data: Prepared, machine: Machine, folder: Path) -> list[Path]:
    """Writes predictions of the test splits below the folder in the benchmark's format; test labels are not read."""
    task, written = config.task, []
    for file, split in glue_submission.splits(task).items():
        logits = predict(model, data.more[split], config.finetune.eval_batch_size, data.pad_token_id, machine)
        predicted = cast(Classification, tasks.kind_of(task)).predicted(logits)
        written.append(glue_submission.write(folder, task, data.more[split].items, predicted.tolist(), file))
    return written


def write_predictions(answers: Predictions, path: Path) -> None:
    """One row per item, or per word of kind `tokens`; the columns are those of the kind."""
    pyarrow.parquet.write_table(pyarrow.table(answers.columns), path)
