"""A class for every word, as entities are marked: O, or B- at the beginning and I- inside of an entity (arXiv:cmp-lg/9505040).

The label stands at the first piece of a word, the others are not asked about. A word that is cut off by the task's length, or
that has no piece, is predicted O and scored like any other.
"""

import numpy as np
from tokenizers import Encoding, Tokenizer
from torch import from_numpy
from torch.nn.functional import cross_entropy

from harness.config.schema import TaskConfig
from harness.errors import InputError
from harness.tasks.base import Answers, Examples, Kind, Split, joined, logit_columns
from harness.tasks.classification import refuse_class, refuse_missing_texts
from harness.tasks.rows import Table
from models.batch import Batch
from models.heads import IGNORED

OUTSIDE = "O"
"""Name of the class of a word that is in no entity."""


class Tokens(Kind):
    """`task.fields` names the column of words, `task.label` that of their tags."""

    every_token = True
    labels_of_tokens = True

    def num_outputs(self, task: TaskConfig) -> int:
        """One a class."""
        return len(task.labels)

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for more than one column, and for names of classes that do not mark entities."""
        if len(task.fields) != 1:
            raise InputError(f"task.fields={task.fields} of task {task.name!r} must name the one column of words")
        if not task.labels:
            return  # the rows say which there are: `load_table` tells them
        odd = [name for name in task.labels if name != OUTSIDE and not (name[:2] in ("B-", "I-") and name[2:])]
        if odd or OUTSIDE not in task.labels or len(task.labels) < 2:
            raise InputError(
                f"task.labels={task.labels} of task {task.name!r} must be {OUTSIDE} and names that begin with B- or I-"
            )

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The rows; InputError for one without words, with another number of tags, or with a tag that there is not."""
        words, tags = table.columns[task.fields[0]], table.columns[task.label]
        for row, (given, classes) in enumerate(zip(words, tags, strict=True)):
            where = f"{table.where}, row {row}"
            if not isinstance(given, list) or not given:
                raise InputError(f"{where}: expected a list of words in column {task.fields[0]!r}, task.fields, got {given!r}")
            if not isinstance(classes, list) or len(classes) != len(given):
                count = len(classes) if isinstance(classes, list) else repr(classes)
                raise InputError(f"{where}: {len(given)} words, but {count} tags in column {task.label!r}, task.label")
            for tag in classes:
                refuse_class(task, tag, where)
        refuse_missing_texts(words, table.where)
        return Examples(words, tags, table.items, table.where)

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence a row; `numbers["words"]` is (N,) the place of the word that a token begins, -1 for other tokens."""
        tokenizer.enable_truncation(task.max_length)
        encodings = tokenizer.encode_batch(examples.texts, is_pretokenized=True)
        parts = joined(encodings)
        words = np.concatenate([_first_pieces(encoding) for encoding in encodings])
        offsets = np.cumsum([0, *map(len, examples.labels)])[:-1]
        places = np.repeat(offsets, np.diff(parts[2])) + words
        tags = np.concatenate([np.asarray(tags, dtype=np.int64) for tags in examples.labels])
        labels = np.where(words >= 0, tags[np.maximum(places, 0)], IGNORED)
        return Split(*parts, labels, examples.items, {"words": words}, {"tags": examples.labels}, True)

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """The most frequent class."""
        return int(np.bincount([tag for tags in train.labels for tag in tags]).argmax())

    def asked(self, batch: "Batch") -> int:
        """Words that have a label."""
        return int((batch.labels != IGNORED).sum())

    def answers(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Answers:
        """One row a word: item, position, label, prediction, a logit for each class; no logits for a word that is cut off."""
        tags = split.texts["tags"]
        lengths = np.array([len(words) for words in tags])
        firsts = split.numbers["words"] >= 0
        owners = np.repeat(np.arange(len(split)), split.lengths)[firsts]
        places = np.cumsum([0, *lengths])[owners] + split.numbers["words"][firsts]
        seen = np.zeros(lengths.sum(), dtype=bool)
        seen[places] = True
        of_words = np.zeros((len(seen), logits.shape[1]), dtype=np.float32)
        of_words[places] = logits[firsts]
        predicted = np.full(len(of_words), task.labels.index(OUTSIDE))
        predicted[seen] = of_words[seen].argmax(axis=1)
        loss = cross_entropy(from_numpy(logits), from_numpy(split.labels)).item() if seen.any() else 0.0
        answers = (np.concatenate(tags), predicted, np.full_like(predicted, majority))
        named = [_named(task, numbers, lengths) for numbers in answers]
        columns = {
            "item": np.repeat(np.array(split.items, dtype=object), lengths).tolist(),
            "position": np.concatenate([np.arange(length) for length in lengths]),
            "label": answers[0],
            "prediction": predicted,
        }
        return Answers(*named, loss, columns | logit_columns(of_words, seen))


def _first_pieces(encoding: "Encoding") -> np.ndarray:
    """(T,) the word of its first piece, -1 elsewhere."""
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    first = np.ones(len(words), dtype=bool)
    first[1:] = words[1:] != words[:-1]
    return np.where(first, words, -1)


def _named(task: TaskConfig, numbers: np.ndarray, lengths: np.ndarray) -> list[list[str]]:
    """Names of the classes of each row's words."""
    names = np.array(task.labels, dtype=object)[numbers]
    return [part.tolist() for part in np.split(names, np.cumsum(lengths)[:-1])]
