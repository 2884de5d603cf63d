"""Text to ids: WordPiece (arXiv:1609.08144) through `tokenizers`, trained on the training text or read from a vocabulary."""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordPieceTrainer

from harness.config import TokenizerConfig
from harness.errors import InputError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def build(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """A tokenizer that writes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` with segment numbers 0 and 1.

    InputError when the vocabulary file is missing or lacks a special piece.
    """
    if config.file:
        return _whole(config)
    tokenizer = _read(config) if config.vocab_file else _train(config, texts)
    cls, sep = (("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]")))
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[cls, sep]
    )
    return tokenizer


def vocabulary_bytes(config: TokenizerConfig) -> bytes:
    """Content of the vocabulary or tokenizer file, empty without one; InputError when it cannot be read."""
    key, path = ("file", config.file) if config.file else ("vocab_file", config.vocab_file)
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"tokenizer.{key}={path!r} cannot be read: {error.strerror}") from error


def _whole(config: TokenizerConfig) -> Tokenizer:
    """A tokenizer as its makers saved it, padding and truncation left to us."""
    try:
        tokenizer = Tokenizer.from_str(vocabulary_bytes(config).decode("utf-8"))
    except Exception as error:
        raise InputError(f"tokenizer.file={config.file!r} is not a tokenizer.json: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def pad_token_id(tokenizer: Tokenizer) -> int | None:
    """Id of the padding piece under any of its usual names, None where there is none."""
    ids = (tokenizer.token_to_id(piece) for piece in ("[PAD]", "<pad>"))
    return next((number for number in ids if number is not None), None)


def _empty(model: WordPiece, lowercase: bool) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    return tokenizer


def _train(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """The same pieces with the same ids each time.

    The trainer numbers the letters inside of words in the order of a hash map, other in every process, and merges ties by
    number: so those letters are given to it in order, as if they were special.
    """
    texts = list(texts)
    learner = _empty(WordPiece(unk_token="[UNK]"), config.lowercase)
    normalise, cut = learner.normalizer.normalize_str, learner.pre_tokenizer.pre_tokenize_str
    inner = sorted({f"##{letter}" for text in texts for word, _ in cut(normalise(text)) for letter in word[1:]})
    trainer = WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=[*SPECIAL, *inner],
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    return _with_vocabulary(learner.get_vocab(with_added_tokens=False), config)


def _read(config: TokenizerConfig) -> Tokenizer:
    try:
        pieces = vocabulary_bytes(config).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"tokenizer.vocab_file={config.vocab_file!r} is not UTF-8 text: {error.reason}") from error
    missing = [piece for piece in SPECIAL if piece not in pieces]
    if missing:
        raise InputError(f"tokenizer.vocab_file={config.vocab_file!r} lacks the pieces {', '.join(missing)}")
    return _with_vocabulary({piece: index for index, piece in enumerate(pieces)}, config)


def _with_vocabulary(vocabulary: dict[str, int], config: TokenizerConfig) -> Tokenizer:
    tokenizer = _empty(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100), config.lowercase)
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer
