"""How one tokenizer cuts a text. Words are runs of letters and digits and each punctuation mark, as BERT finds them.

N texts, W different words.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordLevelTrainer

from harness.config.texts import TokenizerConfig
from harness.data.tokenizer import SPECIAL, special_ids

LISTED = 4
"""Words that are shown of those split most, and of those unknown most often."""

MOST = 4
"""Pieces of a word from which on they are counted together."""


@dataclass(frozen=True)
class Word:
    """One word of the text, how often it is there, and its pieces."""

    text: str
    count: int
    pieces: tuple[str, ...]
    unknown: bool


@dataclass(frozen=True)
class Counts:
    """Of one tokenizer on one text."""

    name: str
    vocab_size: int
    pieces_per_word: float
    characters_per_piece: float
    unknown_pieces: float  # share of all pieces
    unknown_words: float  # share of all words that have an unknown piece
    shares: tuple[float, ...]  # of words with 1, 2, ... pieces, the last one MOST or more; without unknown ones
    lengths: np.ndarray  # (N,) pieces of each text, without special ones
    split: tuple[Word, ...]  # words in most pieces, the more frequent first
    missed: tuple[Word, ...]  # words with an unknown piece, the most frequent first


Span = tuple[int, int]
"""First character, and the one after the last."""


@dataclass(frozen=True)
class Text:
    """The texts that are counted, cut into words."""

    texts: list[str]
    words: list[list[tuple[str, Span]]]  # of each text
    lengths: np.ndarray  # (N,) words of each text

    @property
    def characters(self) -> int:
        """Letters of all words, without spaces."""
        return sum(len(word) for words in self.words for word, _ in words)


def text_of(texts: Iterable[str], characters: int) -> Text:
    """The first texts with so many characters; a text without words is left out."""
    kept, words = [], []
    cut = BertPreTokenizer().pre_tokenize_str
    for text in texts:
        shown = text[:characters]
        if found := cut(shown):
            kept.append(shown)
            words.append(found)
        characters -= len(shown)
        if characters <= 0:
            break
    return Text(kept, words, np.array([len(one) for one in words]))


def plain_words(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """A piece for each of the most frequent words; every other word is unknown."""
    tokenizer = Tokenizer(WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=config.lowercase), BertPreTokenizer()
    trainer = WordLevelTrainer(
        vocab_size=config.vocab_size, min_frequency=config.min_frequency, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def count(name: str, tokenizer: Tokenizer, text: Text) -> Counts:
    """What the tokenizer makes of the text."""
    tokenizer.no_truncation()
    unknown = special_ids(tokenizer)["unk"]
    encoded = tokenizer.encode_batch(text.texts, add_special_tokens=False)
    lengths = np.array([len(one.ids) for one in encoded])
    pieces = int(lengths.sum())
    missing = sum(one.ids.count(unknown) for one in encoded)
    words, total = _words(encoded, text, unknown), int(text.lengths.sum())
    missed = [word for word in words if word.unknown]
    shares = [0] * MOST
    for word in words:
        if not word.unknown:
            shares[min(max(len(word.pieces), 1), MOST) - 1] += word.count
    split = sorted(
        (word for word in words if len(word.pieces) > 1), key=lambda word: (-len(word.pieces), -word.count, word.text)
    )
    return Counts(
        name=name,
        vocab_size=tokenizer.get_vocab_size(),
        pieces_per_word=pieces / total,
        characters_per_piece=text.characters / pieces,
        unknown_pieces=missing / pieces,
        unknown_words=sum(word.count for word in missed) / total,
        shares=tuple(share / total for share in shares),
        lengths=lengths,
        split=tuple(split[:LISTED]),
        missed=tuple(sorted(missed, key=lambda word: (-word.count, word.text))[:LISTED]),
    )


def _words(encoded: list[Encoding], text: Text, unknown: int | None) -> list[Word]:
    """Each word with its pieces as they are in the text, equal ones counted together."""
    found: Counter[tuple[str, tuple[str, ...], bool]] = Counter()
    for one, words in zip(encoded, text.words, strict=True):
        for (word, _), places in zip(words, pieces_of(one.offsets, [span for _, span in words]), strict=True):
            pieces = tuple(one.tokens[place] for place in places)
            found[word, pieces, any(one.ids[place] == unknown for place in places)] += 1
    return [Word(word, number, pieces, is_unknown) for (word, pieces, is_unknown), number in found.items()]


def pieces_of(offsets: list[Span], words: list[Span]) -> list[list[int]]:
    """The places of the pieces that cover some of each word; both in the order of the text.

    A piece may cover several words, and one that marks the beginning of a word covers no character.
    """
    found, first = [], 0
    for start, end in words:
        while first < len(offsets) and offsets[first][1] <= start and not _is_mark(offsets[first], start):
            first += 1
        place, mine = first, []
        while place < len(offsets) and offsets[place][0] < end:
            if offsets[place][1] > start or _is_mark(offsets[place], start):
                mine.append(place)
            place += 1
        found.append(mine)
    return found


def _is_mark(piece: Span, start: int) -> bool:
    return piece == (start, start)
