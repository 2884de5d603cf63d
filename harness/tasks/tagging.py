"""A tag for every word: O, or B- at the beginning and I- inside of an entity (IOB2, arXiv:cmp-lg/9505040).

Other schemes are read as they stand and scored as what they mean: IOB1 has B- only after an entity of the same type, BIOES also
E- at the end and S- for a single word, which BILOU calls L- and U-.
Pieces are those of running text, the words with a space between them: byte-level pieces may begin with that space. Only the
first piece of a word is labelled. A word that is truncated, or that has no piece, is predicted O and scored like
any other.
"""

from itertools import pairwise

import numpy as np
from tokenizers import Encoding, Tokenizer
from torch import from_numpy
from torch.nn.functional import cross_entropy

from harness.config.schema import TaskConfig
from harness.data.files import TAG
from harness.errors import InputError, checked, present
from harness.models.batch import Batch
from harness.models.losses import IGNORED
from harness.tasks.base import Examples, Kind, Predictions, Split, cut_share, joined, logit_columns
from harness.tasks.classification import refuse_empty_texts
from harness.tasks.rows import Table

OUTSIDE = "O"
"""Tag of a word outside of all entities."""


class Tokens(Kind):
    """`task.fields` names the column of words, `task.label` the column of their tags."""

    columns, expected = (1,), "the one column of words"
    has_classes = every_token = labels_of_tokens = True

    def refuse_impossible(self, task: TaskConfig) -> None:
        """InputError for more than one column, and for labels outside of the BIO scheme."""
        super().refuse_impossible(task)
        if not task.labels:
            return  # `load_table` names the labels of the rows in its error
        odd = [name for name in task.labels if not TAG.fullmatch(name)]
        if odd or OUTSIDE not in task.labels or len(task.labels) < 2:
            raise InputError(
                f"task.labels={task.labels} of task {task.name!r} must be {OUTSIDE} and names that begin with B- or I-, "
                "in BIOES with E- or S-, too, in BILOU with L- or U-; task.label=NUMBER names another column of words and tags"
            )

    def examples(self, task: TaskConfig, table: Table) -> Examples:
        """The rows; InputError for a row without words or with another number of tags, and where all words are empty."""
        words, tags = table.columns[task.fields[0]], table.columns[task.label]

        def refuse(row: int, row_tags: object) -> None:
            where, row_words = table.place(row), words[row]
            if not row_words:
                raise InputError(f"{where}: expected a list of words in column {task.fields[0]!r}, task.fields, got []")
            if not isinstance(row_tags, list) or len(row_tags) != len(row_words):
                count = len(row_tags) if isinstance(row_tags, list) else repr(row_tags)
                raise InputError(f"{where}: {len(row_words)} words, but {count} tags in column {task.label!r}, task.label")

        checked(tags, refuse)
        refuse_empty_texts(words, table.where)
        return Examples(words, tags, table.items, table.where)

    def encode(self, task: TaskConfig, tokenizer: "Tokenizer", examples: Examples) -> Split:
        """One sequence per row. `numbers["words"]`: (N,) index of the word that a token begins, -1 for other tokens."""
        tokenizer.enable_truncation(task.max_length)
        encodings = tokenizer.encode_batch([running_text(words) for words in examples.texts])
        parts = joined(encodings)
        rows = zip(encodings, examples.texts, strict=True)
        words = np.concatenate([_first_pieces(encoding, words) for encoding, words in rows])
        offsets = np.cumsum([0, *map(len, examples.labels)])[:-1]
        positions = np.repeat(offsets, np.diff(parts[2])) + words
        tags = np.concatenate([np.asarray(tags, dtype=np.int64) for tags in examples.labels])
        labels = np.where(words >= 0, tags[np.maximum(positions, 0)], IGNORED)
        return Split(
            *parts, labels, examples.items, {"words": words}, {"tags": examples.labels}, True, cut=cut_share(encodings)
        )

    def majority(self, task: TaskConfig, train: Examples) -> int:
        """The most frequent tag."""
        return int(np.bincount([tag for tags in train.labels for tag in tags]).argmax())

    def num_targets(self, batch: "Batch") -> int:
        """Number of labelled words."""
        return int((present(batch.labels) != IGNORED).sum())

    def predictions(self, task: TaskConfig, split: Split, logits: np.ndarray, majority: int) -> Predictions:
        """Columns, one row per word: item, position, label, prediction, and one logit per tag, null for truncated words."""
        lengths, labels = np.array([*map(len, split.texts["tags"])]), np.concatenate(split.texts["tags"])
        starts, words = np.cumsum([0, *lengths]), split.numbers["words"]
        firsts = words >= 0
        places = np.repeat(starts[:-1], split.lengths)[firsts] + words[firsts]
        has_logits, of_words = np.zeros(len(labels), dtype=bool), np.zeros((len(labels), logits.shape[1]), dtype=np.float32)
        has_logits[places], of_words[places] = True, logits[firsts]
        predicted = np.where(has_logits, of_words.argmax(axis=1), task.labels.index(OUTSIDE))
        loss = cross_entropy(from_numpy(logits), from_numpy(split.labels)).item() if has_logits.any() else 0.0
        names = np.array(task.labels, dtype=object)
        tagged, ours, constant = (
            [part.tolist() for part in np.split(names[numbers], starts[1:-1])]
            for numbers in (labels, predicted, np.full_like(predicted, majority))
        )
        columns = {
            "item": np.repeat(np.array(split.items, dtype=object), lengths).tolist(),
            "position": np.arange(len(labels)) - np.repeat(starts[:-1], lengths),
            "label": labels,
            "prediction": predicted,
        }
        return Predictions(tagged, ours, constant, loss, columns | logit_columns(of_words, has_logits))


def scheme_of(rows: list[list[str]]) -> str:
    """Name of the scheme of these tags: IOB2 unless more entities begin with I- than with B-; empty without entities."""
    tags = {tag[:2] for row in rows for tag in row}
    if tags & {"L-", "U-"}:
        return "BILOU"
    if tags & {"E-", "S-"}:
        return "BIOES"
    pairs = ((before, tag) for row in rows for before, tag in pairwise([OUTSIDE, *row]))
    begins = [tag[:2] for before, tag in pairs if tag.startswith("B-") or (tag.startswith("I-") and before[2:] != tag[2:])]
    return ("IOB1" if begins.count("I-") > begins.count("B-") else "IOB2") if begins else ""


def running_text(words: list[str]) -> str:
    """The words with a space between them; white space alone is not a word."""
    return " ".join(word.strip() for word in words if word.strip())


def _first_pieces(encoding: "Encoding", words: list[str]) -> np.ndarray:
    """(T,) index of the word at its first piece, -1 elsewhere. A piece over several words is that of the first one."""
    lengths = [len(word.strip()) for word in words]
    numbers = np.flatnonzero(lengths)  # of the words in the text
    if not len(numbers):
        return np.full(len(encoding.ids), -1)
    ends = np.cumsum([lengths[number] + 1 for number in numbers]) - 1
    # a piece may begin at the space before its word, and one that marks the beginning of a word may have no character
    begins = np.array([begin for begin, _ in encoding.offsets], dtype=np.int64)
    owners = np.searchsorted(ends, begins, side="right").clip(max=len(numbers) - 1)
    is_text = np.array([sequence is not None for sequence in encoding.sequence_ids], dtype=bool)
    firsts = np.where(is_text, numbers[owners], -1)
    return np.where(np.diff(firsts, prepend=-1) != 0, firsts, -1)
