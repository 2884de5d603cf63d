"""Where in a context the answer to a question stands: the layout and the scores of SQuAD (arXiv:1606.05250, arXiv:1806.03822).

A sequence is the question and a window of the context; windows of one item have `task.stride` tokens in common. A window that
does not hold the whole first answer has both labels at [CLS], which stands for "no answer" (arXiv:1810.04805, section 4.3).
S windows, T tokens of a window.
"""

from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding, Tokenizer
from torch import Tensor, from_numpy, tensor

from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.data.tokenizer import special_ids
from harness.errors import InputError
from harness.tasks import scores
from harness.tasks.base import Answers, Examples, Kind, Split, joined
from harness.tasks.classification import refuse_missing_texts
from harness.tasks.rows import Table
from models.batch import Batch
from models.heads import Classifier, span_loss

QUESTION_SHARE = 2
"""A question is cut to this part of `task.max_length`, so that a window has room for context."""

TRIED_WORDS = (1, 2, 3, 5, 8, 12, 20, 30)
TRIED_ITEMS = 200
"""Constant answers that are compared on so many items of the training split: the first so many words of the context."""


SHOWN = 100
"""Characters of a wrong value that an error shows."""


class Spans(Kind):
    """`task.fields` names question and context, `task.label` the column of answers, `{text, answer_start}` of each row."""

    every_token = True

    def num_outputs(self, task: TaskConfig) -> int:
        """Start and end."""
        return 2

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError unless there are two text columns, no classes, and lengths that make windows."""
        if len(task.fields) != 2:
            raise InputError(f"task.fields={task.fields} of task {task.name!r} must name the columns of question and context")
        if task.labels:
            raise InputError(f"task.labels={task.labels} of task {task.name!r} must be empty: task.kind is spans")
        if task.stride < 0:
            raise InputError(f"task.stride={task.stride} must be at least 0")
        if task.max_answer_length < 1:
            raise InputError(f"task.max_answer_length={task.max_answer_length} must be at least 1")

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """Questions and contexts with `(text, first character)` of each answer; InputError for answers that are none."""
        texts = [list(texts) for texts in zip(*(table.columns[column] for column in task.fields), strict=True)]
        refuse_missing_texts(texts, table.where)
        given = table.columns[task.label]
        labels = [_answers(task, row, texts[row][1], answers, table.where) for row, answers in enumerate(given)]
        return Examples(texts, labels, table.items, table.where)

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence a window.

        `numbers`: "owners" (S,) the item of a window, "cls" (S,) the place of [CLS] in it, "offsets" (N, 2) the characters of a
        token of the context, -1 for other tokens. `texts`: "contexts", and "answers", the gold ones of each item.
        """
        windows, owners = _windows(task, tokenizer, examples)
        cls = _cls_places(tokenizer, windows)
        offsets = [_offsets(window) for window in windows]
        golds = [examples.labels[owner] for owner in owners]
        labels = [_label(*given) for given in zip(offsets, golds, cls, strict=True)]
        numbers = {"owners": np.array(owners), "cls": np.array(cls), "offsets": np.concatenate(offsets)}
        kept = {"contexts": [texts[1] for texts in examples.texts], "answers": _texts(examples.labels)}
        return Split(*joined(windows), np.array(labels, dtype=np.int64), examples.items, numbers, kept)

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """Words of the constant answer, the first ones of the context; 0 where "no answer" is as good."""
        given = [(texts[1], gold) for texts, gold in zip(train.texts, _texts(train.labels), strict=True)][:TRIED_ITEMS]
        contexts, golds = [context for context, _ in given], [gold for _, gold in given]
        tried = TRIED_WORDS if task.answerable_only else (0, *TRIED_WORDS)

        def score(count: int) -> float:
            first = [_first_words(context, count) for context in contexts]
            return scores.compute(TaskKind.spans, task.headline, golds, first) or 0.0

        return max(tried, key=score)

    def loss(self, model: "Classifier", batch: "Batch") -> "Tensor":
        """Mean over start and end of every window."""
        return span_loss(model(batch), batch.labels, batch.attention_mask)

    def answers(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Answers:
        """One row an item: id, prediction, its score and logits, the score of no answer, and the gold answers."""
        found = [_best(task, split, window, logits) for window in range(len(split))]
        best, null = _of_items(split, found)
        spans = [
            None if span is None or (not task.answerable_only and nothing >= span.score) else span
            for span, nothing in zip(best, null, strict=True)
        ]
        contexts, golds = split.texts["contexts"], split.texts["answers"]
        predicted = [_text(context, span) for context, span in zip(contexts, spans, strict=True)]
        constant = [_first_words(context, majority) for context in contexts]
        columns = {
            "item": list(split.items),
            "prediction": predicted,
            "score": [None if span is None else span.score for span in best],
            "start_logit": [None if span is None else span.start for span in best],
            "end_logit": [None if span is None else span.end for span in best],
            "null_score": null,
            "answers": golds,
        }
        return Answers(golds, predicted, constant, _mean_loss(split, logits), columns)


@dataclass(frozen=True)
class Span:
    """A stretch of the context, from character `first` to before `last`."""

    score: float
    start: float
    end: float
    first: int
    last: int


def _answers(task: TaskConfig, row: int, context: str, given: object, where: str) -> list[tuple[str, int]]:
    told = f"{where}, row {row}"
    column = f"column {task.label!r}, task.label"
    lists = [given.get(key) for key in ("text", "answer_start")] if isinstance(given, dict) else []
    if not lists or not all(isinstance(values, list) for values in lists):
        raise InputError(f"{told}: expected lists `text` and `answer_start` in {column}, got {str(given)[:SHOWN]}")
    texts, starts = lists
    if len(texts) != len(starts):
        raise InputError(f"{told}: {len(texts)} answers, but {len(starts)} of answer_start in {column}")
    if not texts and task.answerable_only:
        raise InputError(f"{told}: there is no answer in {column}; set task.answerable_only=false")
    for text, start in zip(texts, starts, strict=True):
        if not isinstance(text, str) or not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
            raise InputError(f"{told}: answer_start {start!r} in {column}, does not point at the answer {str(text)[:SHOWN]!r}")
    return list(zip(texts, starts, strict=True))


def _texts(labels: list[list[tuple[str, int]]]) -> list[list[str]]:
    return [[text for text, _ in answers] for answers in labels]


def _text(context: str, span: Span | None) -> str:
    return "" if span is None else context[span.first : span.last]


def _first_words(context: str, count: int) -> str:
    return " ".join(context.split(maxsplit=count)[:count])


def _windows(task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> tuple[list["Encoding"], list[int]]:
    """All windows and the item of each; InputError where the stride leaves no room to go on."""
    special = tokenizer.num_special_tokens_to_add(True)
    room = task.max_length - task.max_length // QUESTION_SHARE - special
    if task.stride >= room:
        raise InputError(
            f"task.stride={task.stride} must be below {room}, what task.max_length={task.max_length} leaves for context "
            "beside a long question"
        )
    questions = _cut(tokenizer, [texts[0] for texts in examples.texts], task.max_length // QUESTION_SHARE)
    contexts = [texts[1] for texts in examples.texts]
    tokenizer.enable_truncation(task.max_length, stride=task.stride, strategy="only_second")
    windows: list[Encoding] = []
    owners: list[int] = []
    for owner, first in enumerate(tokenizer.encode_batch(list(zip(questions, contexts, strict=True)))):
        cut = [first, *first.overflowing]
        windows += cut
        owners += [owner] * len(cut)
    return windows, owners


def _cut(tokenizer: "Tokenizer", questions: list[str], length: int) -> list[str]:
    tokenizer.no_truncation()
    encodings = tokenizer.encode_batch(questions, add_special_tokens=False)
    pairs = zip(questions, encodings, strict=True)
    return [text[: found.offsets[length - 1][1]] if len(found.ids) > length else text for text, found in pairs]


def _cls_places(tokenizer: "Tokenizer", windows: list["Encoding"]) -> list[int]:
    cls = special_ids(tokenizer)["cls"]
    if cls is None or any(cls not in window.ids for window in windows):
        raise InputError(
            "task.kind=spans needs a tokenizer that writes [CLS], which stands for no answer: change tokenizer.file"
        )
    return [window.ids.index(cls) for window in windows]


def _offsets(window: "Encoding") -> np.ndarray:
    """(T, 2) characters of the context, -1 for tokens of the question and special ones."""
    inside = np.array([part == 1 for part in window.sequence_ids])
    return np.where(inside[:, None], np.array(window.offsets), -1).astype(np.int32)


def _label(offsets: np.ndarray, answers: list[tuple[str, int]], cls: int) -> tuple[int, int]:
    """Places of the first and last token of the first answer, both that of [CLS] where the window does not hold it whole."""
    places = np.flatnonzero(offsets[:, 1] > 0)
    if not answers or not answers[0][0] or not len(places):
        return cls, cls
    first, last = answers[0][1], answers[0][1] + len(answers[0][0])
    inside = places[(offsets[places, 1] > first) & (offsets[places, 0] < last)]
    if not len(inside) or offsets[places[0], 0] > first or offsets[places[-1], 1] < last:
        return cls, cls
    return int(inside[0]), int(inside[-1])


def _best(task: TaskConfig, split: Split, window: int, logits: np.ndarray) -> tuple[Span | None, float]:
    """The best span of the context that is not too long, None where the window has no context, and the score of no answer."""
    tokens = slice(split.starts[window], split.starts[window + 1])
    start, end = logits[tokens].astype(np.float64).T  # (T,) each
    cls = split.numbers["cls"][window]
    nothing = float(start[cls] + end[cls])
    offsets = split.numbers["offsets"][tokens]
    places = np.flatnonzero(offsets[:, 1] > 0)
    if not len(places):
        return None, nothing
    length = min(task.max_answer_length, len(places))
    padded = np.concatenate([end[places], np.full(length - 1, -np.inf)])
    sums = start[places][:, None] + np.lib.stride_tricks.sliding_window_view(padded, length)  # start, tokens beyond it
    row, beyond = np.unravel_index(sums.argmax(), sums.shape)
    begin, stop = places[row], places[row + beyond]
    span = Span(float(sums[row, beyond]), float(start[begin]), float(end[stop]), int(offsets[begin, 0]), int(offsets[stop, 1]))
    return span, nothing


def _of_items(split: Split, found: list[tuple[Span | None, float]]) -> tuple[list[Span | None], list[float]]:
    """The best span of all windows of an item, and the lowest score of no answer: one window with an answer is enough."""
    best: list[Span | None] = [None] * len(split.items)
    null = [float("inf")] * len(split.items)
    for owner, (span, nothing) in zip(split.numbers["owners"].tolist(), found, strict=True):
        null[owner] = min(null[owner], nothing)
        if span is not None and (best[owner] is None or span.score > best[owner].score):
            best[owner] = span
    return best, null


def _mean_loss(split: Split, logits: np.ndarray) -> float:
    """Of all windows."""
    cut = np.split(logits, split.starts[1:-1])
    losses = [
        span_loss(from_numpy(window)[None], tensor(places)[None], None).item()
        for window, places in zip(cut, split.labels, strict=True)
    ]
    return float(np.mean(losses))
