"""The page of tokenizers: what is trained or read, the tables, and the picture."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from textwrap import wrap

import numpy as np
from tokenizers import Tokenizer

from harness import tasks
from harness.checkpoints import find_run, native
from harness.commands.tokenizer import picture
from harness.commands.tokenizer.counts import Counts, Text, Word, count, plain_words, text_of
from harness.commands.tokenizer.request import Request
from harness.config.choices import TaskKind, TokenizerKind
from harness.config.resolve import Found, resolve
from harness.config.schema import RunConfig
from harness.config.texts import TokenizerConfig
from harness.corpus.prepare import Lines
from harness.data import tokenizer as tokenizers
from harness.errors import InputError
from harness.tasks.rows import load_table
from harness.terminal import WIDTH, Row, live_line, table

PIECES = 8
"""Of a word that are shown."""

FIRST_BIN = 8
"""Words of the shortest texts that share a row; each further row has texts up to twice as long."""


def show(request: Request, configs: list[RunConfig]) -> str:
    """What is printed; writes the picture. InputError for several texts, and for what cannot be read or written."""
    if len(configs) > 1:
        raise InputError(f"the command line names {len(configs)} runs: expected one text")
    config = replace(resolve(configs[0], Found()), corpus=configs[0].corpus)  # without a pretraining no corpus is kept
    train, held_out = texts_of(config, request.is_corpus, "train"), texts_of(config, request.is_corpus, "validation")
    text = text_of(held_out, request.characters)
    if not text.texts:
        raise InputError("the held-out text has no words: choose another task= or corpus=")
    counted = []
    with live_line("training tokenizers") as line:
        for name, built in _tokenizers(request, config, train):
            line.show(f"counting {name}")
            counted.append(count(name, built, text))
    written = picture.write(counted, text, _source(config, request), request.out)
    return "\n".join([*_title(config, request, counted, text), "", *page(counted, text, _limit(config, request)), "", *written])


def texts_of(config: RunConfig, is_corpus: bool, split: str) -> Iterable[str]:
    """The texts of a split of the corpus or of the task; those of a corpus are read again in every iteration."""
    if is_corpus:
        return Lines(config, split)
    examples = tasks.kind_of(config.task).examples(config.task, load_table(config, split))
    if config.task.kind is TaskKind.tokens:
        return [" ".join(words) for words in examples.texts]
    return [text for texts in examples.texts for text in texts]


def _tokenizers(request: Request, config: RunConfig, train: Iterable[str]) -> Iterator[tuple[str, Tokenizer]]:
    """The one that exists, then those that are trained, to its size."""
    settings = config.tokenizer
    if request.run is not None:
        folder = find_run.weights_folder(request.run, "run", request.runs, config.tracking.uri)
        settings = replace(settings, file=str(folder / native.TOKENIZER), vocab_file=None)
    exists = bool(settings.file or settings.vocab_file)
    if exists:
        built = tokenizers.build(settings, ())
        yield "this one", built
        settings = replace(settings, file=None, vocab_file=None, vocab_size=built.get_vocab_size())
    for kind in request.kinds if request.named or not exists else ():
        try:
            yield kind, _trained(kind, settings, train)
        except tokenizers.TooFewPiecesError as error:
            if exists:
                raise InputError(f"kinds: {kind} needs more than the {settings.vocab_size} pieces of this one") from error
            raise InputError(f"{error}; or leave {kind} out of kinds={','.join(request.kinds)}") from error


def _trained(kind: str, settings: TokenizerConfig, train: Iterable[str]) -> Tokenizer:
    if kind == "words":
        built = plain_words(settings, tokenizers.limited(train, settings.train_characters))
        if (least := built.get_vocab_size()) > settings.vocab_size:
            raise tokenizers.TooFewPiecesError(
                f"tokenizer.vocab_size={settings.vocab_size} is too small: expected at least {least}"
            )
        return built
    return tokenizers.build(replace(settings, kind=TokenizerKind[kind]), train)


# Text


def _source(config: RunConfig, request: Request) -> str:
    return f"corpus {config.corpus.name}" if request.is_corpus else f"task {config.task.name}"


def _limit(config: RunConfig, request: Request) -> int:
    """Tokens to which a text is cut; a corpus is a stream, its lines are counted."""
    return config.pretrain.length if request.is_corpus else config.task.max_length


def _title(config: RunConfig, request: Request, counted: list[Counts], text: Text) -> list[str]:
    case = "lower case" if config.tokenizer.lowercase else "case kept"
    trained = [one.name for one in counted if one.name != "this one"]
    first = f"tokenizers on the held-out text of {_source(config, request)}: "
    first += f"{text.lengths.sum():,} words and punctuation marks in {len(text.texts):,} texts"
    size = next((one.vocab_size for one in counted if one.name == "this one"), config.tokenizer.vocab_size)
    second = f"trained on its training text to at most {size:,} pieces, {case}" if trained else ""
    existing = request.run or config.tokenizer.file or config.tokenizer.vocab_file
    third = f"this one: {existing}" if existing else ""
    return [line for part in (first, second, third) if part for line in wrap(part, WIDTH)]


def page(counted: list[Counts], text: Text, limit: int) -> list[str]:
    """The tables: of words, of lengths, and of the words split most and unknown."""
    return [_of_words(counted), "", _of_lengths(counted, text, limit), "", *_examples(counted)]


def _of_words(counted: list[Counts]) -> str:
    head = ("tokenizer", "pieces", "pieces a word", "letters a piece", "whole words", "unknown pieces", "unknown words")
    rows = [
        (
            one.name,
            f"{one.vocab_size:,}",
            f"{one.pieces_per_word:.3f}",
            f"{one.characters_per_piece:.2f}",
            percent(one.shares[0]),
            percent(one.unknown_pieces),
            percent(one.unknown_words),
        )
        for one in counted
    ]
    return table(head, rows, "lrrrrrr")


def _of_lengths(counted: list[Counts], text: Text, limit: int) -> str:
    """Mean pieces of texts by their number of words, and the share of texts that are longer than a run reads."""
    head = ("pieces of a text", "texts", *(one.name for one in counted))
    rows: list[Row] = []
    for low, high in bins(text.lengths):
        inside = (text.lengths >= low) & (text.lengths <= high)
        rows.append((f"{low}-{high} words", f"{inside.sum():,}", *(f"{one.lengths[inside].mean():.1f}" for one in counted)))
    rows.append(("longest", "", *(f"{one.lengths.max():,}" for one in counted)))
    rows.append((f"above {limit}", "", *(percent(float((one.lengths > limit).mean())) for one in counted)))
    return table(head, rows, "lr" + "r" * len(counted))


def bins(lengths: np.ndarray) -> list[tuple[int, int]]:
    """First and last number of words of each row that has texts."""
    found, low, high = [], 1, FIRST_BIN
    while low <= lengths.max():
        if ((lengths >= low) & (lengths <= high)).any():
            found.append((low, high))
        low, high = high + 1, high * 2
    return found


def _examples(counted: list[Counts]) -> list[str]:
    lines = []
    for one in counted:
        split = "; ".join(f"{word.text} ({word.count}): {_pieces(word)}" for word in one.split) or "no word is split"
        lines += wrap(f"{one.name}, most split: {split}", WIDTH, subsequent_indent="    ")
        if one.missed:
            missed = ", ".join(f"{word.text} ({word.count})" for word in one.missed)
            lines += wrap(f"{one.name}, unknown: {missed}", WIDTH, subsequent_indent="    ")
    return lines


def _pieces(word: Word) -> str:
    shown = " ".join(word.pieces[:PIECES])
    return f"{shown} ... {len(word.pieces)} pieces" if len(word.pieces) > PIECES else shown


def percent(share: float) -> str:
    """With two digits behind the point below one percent."""
    if 0 < share < 5e-5:
        return "< 0.01 %"
    return f"{100 * share:.1f} %" if share >= 0.01 or share == 0 else f"{100 * share:.2f} %"
