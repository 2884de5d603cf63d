"""Extractive question answering with the format and the scores of SQuAD (arXiv:1606.05250, arXiv:1806.03822).

A sequence is the question and a window of the context; successive windows of an item share `task.stride` tokens. A window
without the whole first answer is labelled with the position of [CLS], "no answer" (arXiv:1810.04805, section 4.3).
S windows, T tokens of a window.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from torch import Tensor, from_numpy, ones, tensor

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.data.tokenizer import special_ids
from harness.errors import InputError, checked, present
from harness.models.batch import Batch
from harness.models.heads import Classifier, span_loss, span_scores
from harness.models.objectives.distillation import soft_loss
from harness.tasks import scores
from harness.tasks.base import Examples, Kind, Predictions, Split, joined
from harness.tasks.classification import texts_of
from harness.tasks.rows import Table

QUESTION_SHARE = 2
"""A question is truncated to `task.max_length` divided by this, to leave tokens for the context."""

BASELINE_WORDS = (1, 2, 3, 5, 8, 12, 20, 30)
BASELINE_ITEMS = 200
"""The baseline predicts the first words of the context; their number is selected on so many items of the training split."""

NEVER = -1e4
"""Least score of a token as start or end: of two distributions without such tokens no difference is left."""

SHOWN = 100
"""Maximum number of characters of an invalid value in an error."""


class Spans(Kind):
    """`task.fields` names question and context, `task.label` the column of answers, each `{text, answer_start}`."""

    every_token = True

    def num_outputs(self, task: TaskConfig) -> int:
        """One for the start and one for the end."""
        return 2

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError unless there are two text columns and no classes."""
        if len(task.fields) != 2:
            raise InputError(f"task.fields={task.fields} of task {task.name!r} must name the columns of question and context")
        if task.labels:
            raise InputError(f"task.labels={task.labels} of task {task.name!r} must be empty: task.kind is spans")

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """Questions and contexts with `(text, first character)` of each answer; InputError for invalid answers."""
        texts = texts_of(task, table)
        labels = checked(table.columns[task.label], lambda row, value: _answers(task, texts[row][1], value, table.place(row)))
        return Examples(texts, labels, table.items, table.where)

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence per window.

        `numbers`: "owners" (S,) index of the window's item, "cls" (S,) position of [CLS], "offsets" (N, 2) first character and
        end of a token in the context, -1 for other tokens. `texts`: "contexts", and "answers", the gold answers of each item.
        """
        windows, owners = _windows(task, tokenizer, examples)
        cls = _cls_positions(tokenizer, windows)
        offsets = [_offsets(window) for window in windows]
        golds = [examples.labels[owner] for owner in owners]
        labels = [_label(*window) for window in zip(offsets, golds, cls, strict=True)]
        numbers = {"owners": np.array(owners), "cls": np.array(cls), "offsets": np.concatenate(offsets)}
        kept: dict[str, list[Any]] = {"contexts": [texts[1] for texts in examples.texts], "answers": _texts(examples.labels)}
        return Split(*joined(windows), np.array(labels, dtype=np.int64), examples.items, numbers, kept)

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """Number of words that the baseline predicts, the first of the context; 0, "no answer", where that scores as well."""
        contexts = [texts[1] for texts in train.texts[:BASELINE_ITEMS]]
        golds = _texts(train.labels[:BASELINE_ITEMS])
        counts = BASELINE_WORDS if task.answerable_only else (0, *BASELINE_WORDS)

        def score(count: int) -> float:
            first = [_first_words(context, count) for context in contexts]
            return scores.compute(TaskKind.spans, task.headline, golds, first) or 0.0

        return max(counts, key=score)

    def loss_of(self, model: "Classifier", logits: "Tensor", batch: "Batch") -> "Tensor":
        """Mean of the cross-entropies of start and end over all windows."""
        return span_loss(logits, present(batch.labels), batch.attention_mask)

    def soft_loss(self, logits: "Tensor", answers: "Tensor", batch: "Batch", temperature: float) -> "Tensor":
        """Mean of the divergences of start and end, which are distributions over real tokens."""
        ours, theirs = (span_scores(both, batch.attention_mask).clamp(min=NEVER) for both in (logits, answers))
        return soft_loss(ours, theirs, ones(len(ours), device=ours.device), temperature) / len(ours)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns, one row per item: id, prediction, its score and logits, the score of "no answer", and the gold answers."""
        of_windows = [_best(task, split, window, logits) for window in range(len(split))]
        best, null = _of_items(split, of_windows)
        spans = [
            None if span is None or (not task.answerable_only and null_score >= span.score) else span
            for span, null_score in zip(best, null, strict=True)
        ]
        contexts, golds = split.texts["contexts"], split.texts["answers"]
        texts = zip(contexts, spans, strict=True)
        predicted = ["" if span is None else context[span.first : span.last] for context, span in texts]
        baseline = [_first_words(context, majority) for context in contexts]
        columns = {
            "item": list(split.items),
            "prediction": predicted,
            "score": [None if span is None else span.score for span in best],
            "start_logit": [None if span is None else span.start for span in best],
            "end_logit": [None if span is None else span.end for span in best],
            "null_score": null,
            "answers": golds,
        }
        return Predictions(golds, predicted, baseline, _mean_loss(split, logits), columns)


@dataclass(frozen=True)
class Span:
    """A span of the context."""

    score: float  # sum of both logits
    start: float  # logit
    end: float  # logit
    first: int  # first character
    last: int  # character after the last one


def _answers(task: TaskConfig, context: str, value: object, where: str) -> list[tuple[str, int]]:
    column = f"column {task.label!r}, task.label"
    if isinstance(value, list) and all(isinstance(answer, dict) for answer in value):  # as in SQuAD's own file
        value = {key: [answer.get(key) for answer in value] for key in ("text", "answer_start")}
    texts, starts = (value.get(key) if isinstance(value, dict) else None for key in ("text", "answer_start"))
    if not isinstance(texts, list) or not isinstance(starts, list):
        raise InputError(f"{where}: expected lists `text` and `answer_start` in {column}, got {str(value)[:SHOWN]}")
    if len(texts) != len(starts):
        raise InputError(f"{where}: {len(texts)} answers, but {len(starts)} of answer_start in {column}")
    if not texts and task.answerable_only:
        raise InputError(f"{where}: there is no answer in {column}; set task.answerable_only=false")
    for text, start in zip(texts, starts, strict=True):
        if not isinstance(text, str) or not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
            raise InputError(f"{where}: answer_start {start!r} in {column}, does not point at the answer {str(text)[:SHOWN]!r}")
    return list(zip(texts, starts, strict=True))


def _texts(labels: list[list[tuple[str, int]]]) -> list[list[str]]:
    return [[text for text, _ in answers] for answers in labels]


def _first_words(context: str, count: int) -> str:
    return " ".join(context.split(maxsplit=count)[:count])


def _windows(task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> tuple[list["Encoding"], list[int]]:
    """All windows and the item of each; InputError for a stride that is not shorter than the context of a window."""
    special = tokenizer.num_special_tokens_to_add(True)
    context_tokens = task.max_length - task.max_length // QUESTION_SHARE - special
    if task.stride >= context_tokens:
        raise InputError(
            f"task.stride={task.stride} must be below {context_tokens}, the tokens of context beside a long question "
            f"with task.max_length={task.max_length}"
        )
    questions = _truncated(tokenizer, [texts[0] for texts in examples.texts], task.max_length // QUESTION_SHARE)
    contexts = [texts[1] for texts in examples.texts]
    tokenizer.enable_truncation(task.max_length, stride=task.stride, strategy="only_second")
    windows: list[Encoding] = []
    owners: list[int] = []
    for owner, first in enumerate(tokenizer.encode_batch(list(zip(questions, contexts, strict=True)))):
        of_item = [first, *first.overflowing]
        windows += of_item
        owners += [owner] * len(of_item)
    return windows, owners


def _truncated(tokenizer: "Tokenizer", questions: list[str], length: int) -> list[str]:
    tokenizer.no_truncation()
    encodings = tokenizer.encode_batch(questions, add_special_tokens=False)
    pairs = zip(questions, encodings, strict=True)
    return [text[: encoding.offsets[length - 1][1]] if len(encoding.ids) > length else text for text, encoding in pairs]


def _cls_positions(tokenizer: "Tokenizer", windows: list["Encoding"]) -> list[int]:
    cls = special_ids(tokenizer)["cls"]
    if cls is None or any(cls not in window.ids for window in windows):
        raise InputError("task.kind=spans needs a tokenizer that writes [CLS], the label of no answer: change tokenizer.file")
    return [window.ids.index(cls) for window in windows]


def _offsets(window: "Encoding") -> np.ndarray:
    """(T, 2) first character and end in the context, -1 for tokens of the question and special tokens."""
    inside = np.array([part == 1 for part in window.sequence_ids])
    return np.where(inside[:, None], np.array(window.offsets), -1).astype(np.int32)


def _label(offsets: np.ndarray, answers: list[tuple[str, int]], cls: int) -> tuple[int, int]:
    """Positions of the first and last token of the first answer, without blanks around it; of [CLS] where the window does not
    contain all of it."""
    positions = np.flatnonzero(offsets[:, 1] > 0)
    if not answers or not answers[0][0].strip() or not len(positions):
        return cls, cls
    text, start = answers[0]
    first, last = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
    inside = positions[(offsets[positions, 1] > first) & (offsets[positions, 0] < last)]
    if not len(inside) or offsets[positions[0], 0] > first or offsets[positions[-1], 1] < last:
        return cls, cls
    return int(inside[0]), int(inside[-1])


def _best(task: TaskConfig, split: Split, window: int, logits: np.ndarray) -> tuple[Span | None, float]:
    """Best span up to task.max_answer_length, None in a window without context, and the score of "no answer"."""
    tokens = slice(split.starts[window], split.starts[window + 1])
    start, end = logits[tokens].astype(np.float64).T  # (T,) each
    cls = split.numbers["cls"][window]
    null_score = float(start[cls] + end[cls])
    offsets = split.numbers["offsets"][tokens]
    positions = np.flatnonzero(offsets[:, 1] > 0)
    if not len(positions):
        return None, null_score
    length = min(task.max_answer_length, len(positions))
    padded = np.concatenate([end[positions], np.full(length - 1, -np.inf)])
    sums = start[positions][:, None] + np.lib.stride_tricks.sliding_window_view(padded, length)  # (positions, length)
    row, offset = np.unravel_index(sums.argmax(), sums.shape)
    first, last = positions[row], positions[row + offset]
    span = Span(float(sums[row, offset]), float(start[first]), float(end[last]), int(offsets[first, 0]), int(offsets[last, 1]))
    return span, null_score


def _of_items(split: Split, of_windows: list[tuple[Span | None, float]]) -> tuple[list[Span | None], list[float]]:
    """Best span over all windows of each item, and its lowest score of "no answer": one window with an answer is enough."""
    best: list[Span | None] = [None] * len(split.items)
    null = [float("inf")] * len(split.items)
    for owner, (span, null_score) in zip(split.numbers["owners"].tolist(), of_windows, strict=True):
        null[owner] = min(null[owner], null_score)
        if span is not None and (best[owner] is None or span.score > best[owner].score):
            best[owner] = span
    return best, null


def _mean_loss(split: Split, logits: np.ndarray) -> float:
    """Mean loss of all windows."""
    windows = np.split(logits, split.starts[1:-1])
    losses = [
        span_loss(from_numpy(window)[None], tensor(labels)[None], None).item()
        for window, labels in zip(windows, split.labels, strict=True)
    ]
    return float(np.mean(losses))
