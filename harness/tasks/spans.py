"""Extractive question answering with the format and the scores of SQuAD (arXiv:1606.05250, arXiv:1806.03822).

A sequence is the question and a window of the context; successive windows of an item share `task.stride` tokens. A window
without the whole first answer is labelled with the position of [CLS], "no answer" (arXiv:1810.04805, section 4.3).
S windows, T tokens of a window.
"""

from dataclasses import dataclass
from operator import attrgetter
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
"""Lowest score of a token as start or end: where two distributions both exclude a token, their difference is 0."""

SHOWN = 100
"""Maximum number of characters of an invalid value in an error."""


class Spans(Kind):
    """`task.fields` names question and context, `task.label` the column of answers, each `{text, answer_start}`."""

    columns, expected = (2,), "the columns of question and context"
    every_token = True
    outputs = 2  # for the start and for the end

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
        cls = special_ids(tokenizer)["cls"]
        if cls is None or any(cls not in window.ids for window in windows):
            raise InputError(
                "task.kind=spans needs a tokenizer that writes [CLS], the label of no answer: change tokenizer.file"
            )
        at_cls = [window.ids.index(cls) for window in windows]
        offsets = [
            np.where(np.array(window.sequence_ids)[:, None] == 1, window.offsets, -1).astype(np.int32) for window in windows
        ]
        labels = [
            _label(of_window, examples.labels[owner], at) for of_window, owner, at in zip(offsets, owners, at_cls, strict=True)
        ]
        numbers = {"owners": np.array(owners), "cls": np.array(at_cls), "offsets": np.concatenate(offsets)}
        kept: dict[str, list[Any]] = {"contexts": [texts[1] for texts in examples.texts], "answers": _texts(examples.labels)}
        return Split(*joined(windows), np.array(labels, dtype=np.int64), examples.items, numbers, kept)

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """Number of words that the baseline predicts, the first of the context; 0, "no answer", where that scores as well."""
        contexts = [texts[1] for texts in train.texts[:BASELINE_ITEMS]]
        golds = _texts(train.labels[:BASELINE_ITEMS])
        counts = BASELINE_WORDS if task.answerable_only else (0, *BASELINE_WORDS)
        answers = {count: [_first_words(context, count) for context in contexts] for count in counts}
        return max(counts, key=lambda count: scores.compute(TaskKind.spans, task.headline, golds, answers[count]) or 0.0)

    def loss_of(self, model: "Classifier", logits: "Tensor", batch: "Batch") -> "Tensor":
        """Mean of the cross-entropies of start and end over all windows."""
        return span_loss(logits, present(batch.labels), batch.attention_mask)

    def soft_loss(self, logits: "Tensor", answers: "Tensor", batch: "Batch", temperature: float) -> "Tensor":
        """Mean of the divergences of start and end, which are distributions over real tokens."""
        ours, theirs = (span_scores(both, batch.attention_mask).clamp(min=NEVER) for both in (logits, answers))
        return soft_loss(ours, theirs, ones(len(ours), device=ours.device), temperature) / len(ours)

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns, one row per item: id, prediction, its score and logits, the score of "no answer", and the gold answers."""
        best: list[Span | None] = [None] * len(split.items)  # over all windows of the item
        null = [float("inf")] * len(split.items)  # its lowest score of "no answer": one window with an answer is enough
        for window, owner in enumerate(split.numbers["owners"].tolist()):
            span, null_score = _best(task, split, window, logits)
            null[owner] = min(null[owner], null_score)
            best[owner] = max(filter(None, (best[owner], span)), key=attrgetter("score"), default=None)
        contexts, golds = split.texts["contexts"], split.texts["answers"]
        predicted = [
            context[span.first : span.last] if span and (task.answerable_only or span.score > null_score) else ""
            for context, span, null_score in zip(contexts, best, null, strict=True)
        ]
        columns = {
            "item": list(split.items),
            "prediction": predicted,
            "score": [span and span.score for span in best],
            "start_logit": [span and span.start for span in best],
            "end_logit": [span and span.end for span in best],
            "null_score": null,
            "answers": golds,
        }
        windows = zip(np.split(logits, split.starts[1:-1]), split.labels, strict=True)
        losses = [span_loss(from_numpy(window)[None], tensor(labels)[None], None).item() for window, labels in windows]
        baseline = [_first_words(context, majority) for context in contexts]
        return Predictions(golds, predicted, baseline, float(np.mean(losses)), columns)


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
    blank = [text for text in texts if isinstance(text, str) and not text.strip()]
    if blank and len(blank) < len(texts):
        raise InputError(f"{where}: {column}, has the empty answer {blank[0]!r} among others: leave out the empty ones")
    if len(blank) == len(texts) and task.answerable_only:
        raise InputError(f"{where}: there is no answer in {column}; set task.answerable_only=false")
    for text, start in zip(texts, starts, strict=True):
        if not isinstance(text, str) or type(start) is not int or start < 0 or context[start : start + len(text)] != text:
            raise InputError(f"{where}: answer_start {start!r} in {column}, does not point at the answer {str(text)[:SHOWN]!r}")
    return list(zip(texts, starts, strict=True))


def _texts(labels: list[list[tuple[str, int]]]) -> list[list[str]]:
    return [[text for text, _ in answers] for answers in labels]


def _first_words(context: str, count: int) -> str:
    return " ".join(context.split(maxsplit=count)[:count])


def _windows(task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> tuple[list["Encoding"], list[int]]:
    """All windows and the item of each; InputError for a stride that is not shorter than the context of a window."""
    context_tokens = task.max_length - task.max_length // QUESTION_SHARE - tokenizer.num_special_tokens_to_add(True)
    if task.stride >= context_tokens:
        raise InputError(
            f"task.stride={task.stride} must be below {context_tokens}, the tokens of context left by a long question "
            f"with task.max_length={task.max_length}"
        )
    longest = task.max_length // QUESTION_SHARE
    tokenizer.no_truncation()
    whole = tokenizer.encode_batch([texts[0] for texts in examples.texts], add_special_tokens=False)
    pairs = [
        (question[: encoding.offsets[longest - 1][1]] if len(encoding.ids) > longest else question, context)
        for (question, context), encoding in zip(examples.texts, whole, strict=True)
    ]
    tokenizer.enable_truncation(task.max_length, stride=task.stride, strategy="only_second")
    of_items = [[first, *first.overflowing] for first in tokenizer.encode_batch(pairs)]
    owners = [owner for owner, windows in enumerate(of_items) for _ in windows]
    return [window for windows in of_items for window in windows], owners


def _label(offsets: np.ndarray, answers: list[tuple[str, int]], cls: int) -> tuple[int, int]:
    """Positions of the first and last token of the first answer, without blanks around it; that of [CLS] if the window does not
    contain all of it.
    """
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
