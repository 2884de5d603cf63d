"""Tokenizers, by `tokenizers`: WordPiece, byte-level BPE or a unigram model, trained on text or read from a file."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, pairwise, takewhile
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import NFKC, NFKD, BertNormalizer, Lowercase, Nmt, StripAccents
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Metaspace, Split
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer

from harness.config.choices import TokenizerKind
from harness.config.schema import TokenizerConfig
from harness.data import published
from harness.errors import InputError, present, refused_errors

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

NAMES = {
    "pad": ("[PAD]", "<pad>", "<|pad|>", "<|padding|>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>", "<|mask|>"),
}
"""Names of the special pieces in published tokenizers."""

SENTINEL = "<extra_id_{}>"
"""Name of the piece that stands for a span, by its number (arXiv:1910.10683)."""

RARE = "\ua66e"
"""A letter that hardly a vocabulary has."""

LETTER_STEP = 1e-4
"""Difference between the scores of successive letters that the unigram trainer adds to cover the alphabet."""


class TooFewPiecesError(InputError):
    """The vocabulary size is smaller than the alphabet."""


def build(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """A tokenizer that writes `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` with token types 0 and 1.

    Between the texts of a pair are as many `[SEP]` as `config.separators`. Its last pieces are sentinels, the first one at the
    very end, as in T5: behind those of a vocabulary file, and among `config.vocab_size` where it is trained.
    `texts` may be iterated several times and is not kept in memory. Training is deterministic, also across processes.
    InputError when the vocabulary file is missing or lacks a special piece, TooFewPiecesError for a size below the alphabet.
    """
    if config.file:
        return _read_tokenizer(config)
    if iter(texts) is texts:
        raise TypeError("texts must be iterable several times, got an iterator")
    tokenizer = _read_vocabulary(config) if config.vocab_file else _train(config, texts)
    tokenizer.add_special_tokens([*SPECIAL, *(SENTINEL.format(number) for number in reversed(range(config.sentinels or 0)))])
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    frame = TemplateProcessing(
        single="[CLS] $A [SEP]", pair=f"[CLS] $A{' [SEP]' * present(config.separators)} $B:1 [SEP]:1", special_tokens=[cls, sep]
    )
    bytewise = isinstance(tokenizer.pre_tokenizer, ByteLevel)  # a piece does not begin at the white space before its word
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), frame]) if bytewise else frame
    return tokenizer


def vocabulary_bytes(config: TokenizerConfig) -> bytes:
    """Content of the tokenizer or vocabulary file, empty without one; InputError when it cannot be read."""
    key, path = ("file", config.file) if config.file else ("vocab_file", config.vocab_file)
    if not path:
        return b""
    if key == "file" and Path(path).is_dir():
        return published.read(path)[0].encode()
    return published.bytes_of(Path(path), f"tokenizer.{key}={path!r}")


def _read_tokenizer(config: TokenizerConfig) -> Tokenizer:
    """The tokenizer in `tokenizer.file`, without its padding and truncation."""
    with refused_errors(f"tokenizer.file={config.file!r} is not a tokenizer.json of the library `tokenizers`"):
        tokenizer = Tokenizer.from_str(vocabulary_bytes(config).decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    size, largest = tokenizer.get_vocab_size(), max(tokenizer.get_vocab().values(), default=-1)
    if largest >= size:
        raise InputError(
            f"tokenizer.file={config.file!r} gives a piece the id {largest:,}: expected 0 to {size - 1:,}, each once"
        )
    piece = f"model.unk_token={getattr(tokenizer.model, 'unk_token', None)!r}"
    what = f"tokenizer.file={config.file!r} has no piece for what is not in its vocabulary with {piece}"
    with refused_errors(what, ": add it to the pieces"):
        tokenizer.encode(RARE)
    return tokenizer


def rows_in(tokenizer: Tokenizer, published: Tokenizer, said: str) -> list[int] | None:
    """Number of each piece in a published tokenizer, in the order of the pieces; None if all numbers are equal.

    InputError, beginning with what was `said`, for a piece that the published one has not.
    """
    theirs, ours = published.get_vocab(), tokenizer.get_vocab()
    foreign = sorted(piece for piece in ours if piece not in theirs)
    if foreign:
        some = ", ".join(map(repr, foreign[:3]))
        raise InputError(
            f"{said} has {len(foreign):,} pieces that the tokenizer of the weights lacks, such as {some}: "
            "expected some of theirs, as `harness tokenizer keep=used` writes them, or leave it out"
        )
    rows = [theirs[piece] for piece, _ in sorted(ours.items(), key=lambda item: item[1])]
    return None if rows == list(range(len(rows))) else rows


def special_ids(tokenizer: Tokenizer) -> dict[str, int | None]:
    """Ids of pad, unk, cls, sep and mask, None for a missing piece.

    That of cls is the piece before a text and sep the one behind it, whatever their names.
    """
    vocabulary, special = tokenizer.get_vocab(), {piece.content for piece in tokenizer.get_added_tokens_decoder().values()}
    by_name = {
        role: sorted((name for name in names if name in vocabulary), key=lambda it: it not in special)
        for role, names in NAMES.items()
    }
    named = {role: vocabulary[names[0]] if names else None for role, names in by_name.items()}
    unknown = getattr(tokenizer.model, "unk_token", None)
    return named | ({"unk": vocabulary[unknown]} if unknown in vocabulary else {}) | _frame(tokenizer)


def _frame(tokenizer: Tokenizer) -> dict[str, int]:
    """Ids of the first special piece before a single text and of the first one behind it."""
    encoding = tokenizer.encode("a")
    places = [place for place, is_special in enumerate(encoding.special_tokens_mask) if not is_special]
    if not places:
        return {}
    before, behind = encoding.ids[: places[0]], encoding.ids[places[-1] + 1 :]
    return ({"cls": before[0]} if before else {}) | ({"sep": behind[0]} if behind else {})


def by_words(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer, set so that words one by one have the pieces of running text, but for the first one.

    Where pieces begin with the space before a word, one is put before a text that is a single word.
    """
    if tokenizer.encode(["a", "b"], is_pretokenized=True).ids != tokenizer.encode("a b").ids:
        alone = [normalizers.Prepend(" "), normalizers.Replace(Regex(r"\A (?=\S*\s)"), "")]
        own = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([*alone, *own])
    return tokenizer


def sentinels(tokenizer: Tokenizer) -> list[int]:
    """Ids of `<extra_id_0>`, `<extra_id_1>` and so on, up to the first missing one."""
    vocabulary, names = tokenizer.get_vocab(), map(SENTINEL.format, count())
    return [vocabulary[name] for name in takewhile(vocabulary.__contains__, names)]


def pad_token_id(tokenizer: Tokenizer) -> int | None:
    """Id of the padding piece, None without one."""
    return special_ids(tokenizer)["pad"]


def word_starts(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) bool, True for a piece that begins a word, and for punctuation and special pieces.

    All True for a tokenizer whose pieces do not mark the beginning of words (those of GPT mark the end).
    """
    inside, beginning = _marks(tokenizer)
    starts = np.ones(tokenizer.get_vocab_size(), dtype=bool)
    special = {piece.content for piece in tokenizer.get_added_tokens_decoder().values()}
    for piece, number in tokenizer.get_vocab().items():
        if inside and piece not in special:
            starts[number] = not piece.startswith(inside)
        elif beginning and piece not in special:  # what is not ASCII may be a byte of a letter
            is_letter = piece[0].isalnum() or not piece[0].isascii()
            starts[number] = piece.startswith(beginning) or not is_letter
    return starts


def sentence_ends(tokenizer: Tokenizer) -> list[int]:
    """Ids of the pieces that are a single full stop, exclamation mark or question mark."""
    inside, beginning = _marks(tokenizer)
    pieces = tokenizer.get_vocab().items()
    return sorted(number for piece, number in pieces if piece.removeprefix(inside).removeprefix(beginning) in (".", "!", "?"))


def _marks(tokenizer: Tokenizer) -> tuple[str, str]:
    """Prefix of the pieces inside of words, or else of those at the beginning of one; both empty where no piece is marked."""
    spec = json.loads(tokenizer.to_str())
    inside = spec["model"].get("continuing_subword_prefix")
    if inside:
        return inside, ""
    if spec["model"].get("end_of_word_suffix") or spec["model"]["type"] in ("WordPiece", "WordLevel"):
        return "", ""
    bytewise = '"ByteLevel"' in json.dumps([spec["pre_tokenizer"], spec["decoder"]])
    return "", "Ġ" if bytewise else "▁"


def limited(texts: Iterable[str], characters: int) -> Iterator[str]:
    """The first texts, up to this total number of characters."""
    for text in texts:
        yield text[:characters]
        characters -= len(text)
        if characters <= 0:
            return


def _train(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """TooFewPiecesError in place of a larger vocabulary than asked for: trainers keep the alphabet, whatever the size."""
    reserved = config.sentinels or 0
    learned = replace(config, vocab_size=max(0, present(config.vocab_size) - reserved))
    kind = present(config.kind)
    try:
        tokenizer = TRAINED[kind](learned, texts)
    except Exception as error:
        if "vocabulary is not large enough" not in str(error):  # of the unigram trainer
            raise
        raise _too_few(config, "more") from error
    if (size := tokenizer.get_vocab_size()) > present(learned.vocab_size):  # nothing was merged
        raise _too_few(config, "more" if kind is TokenizerKind.unigram else f"at least {reserved + size}")
    return tokenizer


def _too_few(config: TokenizerConfig, expected: str) -> TooFewPiecesError:
    alphabet = "every byte" if config.kind is TokenizerKind.bpe else "every letter of this text"
    sentinels = f", {config.sentinels} of them sentinels (tokenizer.sentinels)" if config.sentinels else ""
    return TooFewPiecesError(
        f"tokenizer.vocab_size={config.vocab_size} is too small: kind {present(config.kind).name} keeps {alphabet} and the "
        f"special pieces; expected {expected}{sentinels}"
    )


def _words_of_bert(model: WordPiece, lowercase: bool | None) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = BertNormalizer(lowercase=bool(lowercase))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def _train_wordpiece(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """The trainer numbers letters inside of words in the order of a hash map, which differs between processes, and breaks ties
    by these numbers. Passing the letters as special tokens, sorted, makes training deterministic.
    """
    learner = _words_of_bert(WordPiece(unk_token="[UNK]"), config.lowercase)
    trainer = WordPieceTrainer(
        vocab_size=present(config.vocab_size),
        min_frequency=config.min_frequency,
        special_tokens=[*SPECIAL, *_inner_letters(learner, limited(texts, config.train_characters))],
        show_progress=False,
    )
    learner.train_from_iterator(limited(texts, config.train_characters), trainer)
    return _with_vocabulary(learner.get_vocab(with_added_tokens=False), config)


def _inner_letters(learner: Tokenizer, texts: Iterable[str]) -> list[str]:
    """`##` and each letter that follows another one in a word, sorted."""
    pairs: set[tuple[str, str]] = set()
    for text in texts:
        pairs.update(pairwise(learner.normalizer.normalize_str(text)))
    cut = learner.pre_tokenizer.pre_tokenize_str
    return sorted({f"##{second}" for first, second in pairs if any(len(word) == 2 for word, _ in cut(first + second))})


def _train_bpe(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """Byte-level, so that no text is unknown."""
    tokenizer = Tokenizer(BPE())
    if config.lowercase:
        tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=present(config.vocab_size),
        min_frequency=config.min_frequency,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(limited(texts, config.train_characters), trainer)
    return tokenizer


def _train_unigram(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    learner = _marked_words(Unigram(), config.lowercase)
    trainer = UnigramTrainer(
        vocab_size=present(config.vocab_size), special_tokens=list(SPECIAL), unk_token="[UNK]", show_progress=False
    )
    learner.train_from_iterator(limited(texts, config.train_characters), trainer)
    pieces = json.loads(learner.to_str())["model"]["vocab"][len(SPECIAL) :]
    vocabulary = [(piece, 0.0) for piece in SPECIAL] + _sorted_pieces(pieces)
    return _marked_words(Unigram(vocabulary, unk_id=SPECIAL.index("[UNK]"), byte_fallback=False), config.lowercase)


def _sorted_pieces(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The pieces with deterministic scores, best first.

    The trainer sums in the order of a hash map, so the last digits of scores differ between processes: they are rounded. It
    also scores the rare letters that it must keep in that order, LETTER_STEP apart: they all get the lowest score.
    """
    if not pieces:
        return []
    lowest = min(score for _, score in pieces)
    rare = lowest + LETTER_STEP * sum(len(piece) == 1 for piece, _ in pieces)
    scored = [(piece, round(lowest if len(piece) == 1 and score < rare else score, 6)) for piece, score in pieces]
    return sorted(scored, key=lambda scored: (-scored[1], scored[0]))


def _marked_words(model: Unigram, lowercase: bool | None) -> Tokenizer:
    """Words and punctuation marks apart, as SentencePiece keeps scripts apart; each word has the prefix `▁`.

    Text is normalised as published: NFKC, and in lower case also without accents, as ALBERT's (arXiv:1909.11942).
    """
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([Nmt(), *([NFKD(), StripAccents(), Lowercase()] if lowercase else []), NFKC()])
    unmarked = Split(Regex(r"▁(?=[\p{P}$+<=>^`|~])"), "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([BertPreTokenizer(), Metaspace(), unmarked])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


TRAINED = {TokenizerKind.wordpiece: _train_wordpiece, TokenizerKind.bpe: _train_bpe, TokenizerKind.unigram: _train_unigram}


def _read_vocabulary(config: TokenizerConfig) -> Tokenizer:
    said = f"tokenizer.vocab_file={config.vocab_file!r}"
    pieces = published.pieces_of(vocabulary_bytes(config), said)
    missing = [piece for piece in SPECIAL if piece not in pieces]
    if missing:
        raise InputError(f"{said} lacks the pieces {', '.join(missing)}: add them")
    return _with_vocabulary(pieces, config)


def _with_vocabulary(vocabulary: dict[str, int], config: TokenizerConfig) -> Tokenizer:
    model = WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = _words_of_bert(model, config.lowercase)
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer
