"""The documents of a corpus: generated, from plain text files, or from a data set. A line is a paragraph."""

import difflib
import hashlib
import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from harness.config.choices import CorpusSource
from harness.config.schema import CorpusConfig, RunConfig
from harness.corpus import generated, loaded
from harness.data.files import Wanted, rows
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
        raise _no_documents(corpus, split)


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
    if corpus.source is CorpusSource.files:
        texts, has_validation = _file_documents(corpus, split), bool(corpus.validation_files)
    else:
        texts, has_validation = loaded.documents(config, split), bool(corpus.validation_split)
    if has_validation:
        return texts
    return (text for text in texts if held_out(text, corpus.validation_share) == (split == "validation"))


def _no_documents(corpus: CorpusConfig, split: str) -> InputError:
    where = f"corpus {corpus.name!r}, {split}"
    validation = corpus.validation_files if corpus.source is CorpusSource.files else corpus.validation_split
    if split == "validation" and not validation:
        key = "corpus.validation_files" if corpus.source is CorpusSource.files else "corpus.validation_split"
        share = f"corpus.validation_share={corpus.validation_share}"
        return InputError(f"{where}: {share} holds out no document; increase it or set {key}")
    return InputError(f"{where}: there are no documents, or all of them are empty")


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
        else:
            yield from _paragraphs_between_blanks(path, where)


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


def _paragraphs_between_blanks(path: Path, key: str) -> Iterator[str]:
    lines: list[str] = []
    for line in _lines(path, key):
        if line:
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _lines(path: Path, key: str) -> Iterator[str]:
    """Stripped lines; InputError names the first line and byte that are not UTF-8 text."""
    if not path.is_file():
        raise _no_file(path, key)
    begin = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                place = f"line {number}, byte {begin + error.start}"
                raise InputError(f"{key}: {path}, {place}: not UTF-8 text ({error.reason}); convert the file") from error
            if "\0" in text:
                place = f"line {number}, byte {begin + raw.index(0)}"
                raise InputError(f"{key}: {path}, {place}: there is a NUL byte; expected plain UTF-8 text")
            yield text.strip()
            begin += len(raw)


def _no_file(path: Path, key: str) -> InputError:
    beside = [other.name for other in path.parent.iterdir() if other.is_file()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    hint = f"; did you mean {str(path.parent / near[0])!r}?" if near else ""
    return InputError(f"{key}: {str(path)!r} is not a file{hint}")
