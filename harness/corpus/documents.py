"""The documents of a corpus: generated, from plain text files, or from a data set. A line is a paragraph."""

import hashlib
import random
import re
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path

from harness.config.choices import CorpusSource
from harness.config.schema import CorpusConfig, RunConfig
from harness.corpus import generated, loaded
from harness.data.files import Wanted, rows, text_lines
from harness.errors import InputError, Mistakes, unknown
from harness.paths import TABLES, ending


def documents(config: RunConfig, split: str) -> Iterator[str]:
    """The non-empty documents of `train` or `validation`, in a fixed order.

    Without a validation split of its own, the corpus is split by a hash of each document's text, so that copies of a text are
    in the same split. Held-out text is never shuffled. InputError for files that are missing or not text, and for a split
    without documents.
    """
    corpus = config.corpus
    limit = corpus.train_documents if split == "train" else None
    text = None
    shuffles = corpus.shuffled_words and split == "train"
    for text in islice(_all_documents(config, split), limit):
        yield "\n".join(map(_shuffled, paragraphs(text))) if shuffles else text
    if text is None:
        cure = f"; corpus.validation_share={corpus.validation_share} may hold out none" if split == "validation" else ""
        raise InputError(f"corpus {corpus.name!r}, {split}: there are no documents, or all of them are empty{cure}")


def paragraphs(text: str) -> list[str]:
    """The lines of a document. A line ends at a line feed alone: others that Unicode has are characters of a text."""
    return text.replace("\r\n", "\n").split("\n")


def _shuffled(line: str) -> str:
    """The words of each sentence in a random order that its text decides; punctuation stays with its word."""
    sentences = [sentence.split() for sentence in re.split(r"(?<=[.!?])\s+", line)]
    for words in sentences:
        random.Random(" ".join(words)).shuffle(words)
    return " ".join(word for words in sentences for word in words)


def held_out(text: str, share: float) -> bool:
    """Whether a document with this text is held out; the same on every machine."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "little") < share * 2**64


def _all_documents(config: RunConfig, split: str) -> Iterator[str]:
    corpus = config.corpus
    if corpus.source is CorpusSource.builtin:
        return generated.generate(corpus, split)
    is_files = corpus.source is CorpusSource.files
    texts = _file_documents(corpus, split) if is_files else loaded.documents(config, split)
    if corpus.validation_files if is_files else corpus.validation_split:
        return texts
    return (text for text in texts if held_out(text, corpus.validation_share) == (split == "validation"))


def _file_documents(corpus: CorpusConfig, split: str) -> Iterator[str]:
    if not corpus.files:
        raise InputError(f"corpus {corpus.name!r} needs plain text files: set corpus.files=[a.txt,b.txt]")
    both = {Path(name).resolve() for name in corpus.files} & {Path(name).resolve() for name in corpus.validation_files}
    if both:
        raise InputError(f"corpus.validation_files: {min(both)} is in corpus.files too; remove it from one of them")
    key = "validation_files" if split == "validation" and corpus.validation_files else "files"
    for name in getattr(corpus, key):
        path, where = Path(name), f"corpus.{key}"
        if ending(path) in TABLES and path.is_file():
            yield from _texts_of_rows(path, corpus.text, where)
        elif path.is_file():
            lines = (line.strip() for _, line in text_lines(path, f"{where}: {path}", where))
            yield from ("\n".join(paragraphs) for are_text, paragraphs in groupby(lines, bool) if are_text)  # between blanks
        else:
            raise InputError(f"{where}: {name!r} is not a file")


def _texts_of_rows(path: Path, column: str, key: str) -> Iterator[str]:
    """Each row's text, a document; rows are read as those of a task."""
    where = f"{key}: {path}"
    for number, (line, row) in enumerate(rows(path, where, key, Wanted((column,)), Mistakes(first_ends=True))):
        if column not in row:
            raise unknown(f"column of {path}:", column, row, "corpus.text")
        if not isinstance(row[column], str):
            place = f"row {number}" if line is None else f"line {line}"
            raise InputError(f"{where}, {place}: expected text in {column!r} of corpus.text, got {row[column]!r:.60}")
        if text := "\n".join(filter(None, map(str.strip, row[column].split("\n")))):
            yield text
