"""Text to ids: the three trained kinds, and a vocabulary that is read against the reference."""

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Unigram, WordLevel, WordPiece
from tokenizers.processors import ByteLevel, RobertaProcessing, Sequence, TemplateProcessing

from harness.config.choices import TokenizerKind
from harness.config.schema import TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
TEXTS = ["the fox follows the hare", "a hawk hears a mouse near the gate", "the gate stays barred", "Foxes follow hares"] * 3
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "it 's a charming and often affecting journey .",
    "Naïve café résumés — coördinated façades!",
    "unaffable electroencephalographically 1234567890 3.14",
    "don't \t stop\nnow\u00a0please \u200b here",
    "日本語 and 한국어 mixed with English",
    '[MASK] is kept, [UNK] too? <html> & "quotes" (brackets) -- dash',
    "supercalifragilisticexpialidocious" * 4,
    "",
]


def trained(**keys) -> tokenizer.Tokenizer:
    return tokenizer.build(TokenizerConfig(**keys), TEXTS)


FRESH = """\
import hashlib, random
from harness.data import tokenizer
from harness.config.choices import TokenizerKind
from harness.config.schema import TokenizerConfig
stream = random.Random(0)
words = ["".join(stream.choices("abcdefgh", k=stream.randint(1, 6))) for _ in range(300)]
rare = [chr(code) for code in range(0x3B1, 0x3C9)]
texts = [" ".join(stream.choices(words, k=20)) + f" x{stream.choice(rare)}{stream.choice(rare)}." for _ in range(200)]
for kind in TokenizerKind:
    for size in (270 if kind is TokenizerKind.bpe else 150, 600):
        built = tokenizer.build(TokenizerConfig(kind=kind, vocab_size=size), texts)
        print(kind.name, size, built.get_vocab_size(), hashlib.sha256(built.to_str().encode()).hexdigest())
"""


@pytest.mark.long
def test_training_in_another_process_gives_equal_tokenizers(start_process):
    """Hash maps are ordered otherwise there, and threads take turns otherwise."""
    settings = [os.environ | {"PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": value} for value in ("false", "true", "false")]
    processes = [start_process("-c", FRESH, env=setting) for setting in settings]
    outputs = [process.communicate()[0] for process in processes]
    assert len(outputs[0].splitlines()) == 6
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize("kind", TokenizerKind)
def test_special_pieces_have_the_first_ids(kind):
    built = trained(kind=kind)
    assert [built.token_to_id(piece) for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [0, 1, 2, 3, 4]
    assert tokenizer.special_ids(built) == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


@pytest.mark.parametrize("kind", TokenizerKind)
def test_every_kind_frames_and_reads_back_its_text(kind):
    built = trained(kind=kind)
    single, pair = built.encode("the fox follows"), built.encode("the fox", "the gate stays")
    assert (single.ids[0], single.ids[-1]) == (2, 3)
    assert built.decode(single.ids).strip() == "the fox follows"
    cut = pair.ids.index(3) + 1
    assert built.decode(pair.ids[cut:]).strip() == "the gate stays"
    assert pair.type_ids == [0] * cut + [1] * (len(pair.ids) - cut)


@pytest.mark.parametrize("kind", TokenizerKind)
def test_special_pieces_in_a_text_can_be_read_as_text(kind):
    built = tokenizer.build(TokenizerConfig(kind=kind, min_frequency=1), [*TEXTS, "[SEP] [MASK]"])
    built.encode_special_tokens = True
    assert not set(range(5)) & set(built.encode("a [SEP] [MASK]", add_special_tokens=False).ids)


@pytest.mark.parametrize("kind", TokenizerKind)
def test_every_word_and_punctuation_mark_begins_a_word(kind, tmp_path):
    """As many beginnings as words, in a tokenizer that was saved and read too."""
    text = "the foxes follow a hare, near the gate. hawks hear foxes!"
    built = tokenizer.build(TokenizerConfig(kind=kind, vocab_size=300, min_frequency=1), [*TEXTS, ", . !"])
    built.save(str(tmp_path / "tokenizer.json"))
    for read in (built, tokenizer.build(TokenizerConfig(file=str(tmp_path / "tokenizer.json")), [])):
        starts = tokenizer.word_starts(read)
        ids = read.encode(text, add_special_tokens=False).ids
        assert starts[ids].sum() == len(text.replace(",", "").replace(".", "").replace("!", "").split()) + 3
        assert len(ids) > starts[ids].sum()
        assert starts[:5].all()
        assert {read.id_to_token(number)[-1] for number in tokenizer.sentence_ends(read)} >= {".", "!"}


def test_pieces_that_mark_the_end_of_a_word_count_as_words():
    from tokenizers.models import BPE

    built = tokenizer.Tokenizer(BPE({"fox</w>": 0, "f": 1, "ox</w>": 2}, [], end_of_word_suffix="</w>"))
    assert tokenizer.word_starts(built).all()


@pytest.mark.parametrize("kind", TokenizerKind)
def test_no_more_is_learned_from_than_told(kind):
    config = TokenizerConfig(kind=kind, min_frequency=1, train_characters=sum(map(len, TEXTS)))
    less = tokenizer.build(config, TEXTS)
    assert tokenizer.build(config, [*TEXTS, "zebra zebra zebra"]).to_str() == less.to_str()
    assert tokenizer.build(config, ["zebra zebra zebra", *TEXTS]).to_str() != less.to_str()


def test_texts_that_are_gone_after_one_pass_are_refused():
    with pytest.raises(TypeError, match="iterable several times, got an iterator"):
        tokenizer.build(TokenizerConfig(), iter(TEXTS))


@pytest.mark.parametrize(
    ("kind", "kept", "expected"),
    [
        ("bpe", "every byte", r"at least (\d+)"),
        ("wordpiece", "every letter", r"at least (\d+)"),
        ("unigram", "every letter", "more"),
    ],
)
def test_a_size_below_the_alphabet_is_refused(kind, kept, expected):
    kind, match = TokenizerKind[kind], rf"vocab_size=10 is too small: kind {kind} keeps {kept}.* expected {expected}$"
    with pytest.raises(tokenizer.TooFewPiecesError, match=match) as refused:
        trained(kind=kind, vocab_size=10)
    if kind is not TokenizerKind.unigram:
        least = int(re.search(match, str(refused.value))[1])
        assert trained(kind=kind, vocab_size=least).get_vocab_size() == least
        with pytest.raises(tokenizer.TooFewPiecesError):
            trained(kind=kind, vocab_size=least - 1)


@pytest.mark.parametrize("kind", TokenizerKind)
def test_sentinels_are_the_last_pieces_the_first_one_at_the_very_end(kind):
    size = 300 if kind is TokenizerKind.bpe else 60
    built = trained(kind=kind, vocab_size=size, sentinels=5)
    last = built.get_vocab_size() - 1
    assert last < size
    assert tokenizer.sentinels(built) == [*range(last, last - 5, -1)]
    assert built.id_to_token(last) == "<extra_id_0>"
    assert tokenizer.word_starts(built)[last - 4 :].all()
    same = trained(kind=kind, vocab_size=size - 5)  # what is learned from the text has the rest
    assert {piece: number for piece, number in built.get_vocab().items() if number <= last - 5} == same.get_vocab()
    assert tokenizer.sentinels(same) == []
    built.encode_special_tokens = True
    assert not {*built.encode("the <extra_id_0> hare").ids} & {*tokenizer.sentinels(built)}


@pytest.mark.parametrize("kind", [TokenizerKind.wordpiece, TokenizerKind.bpe])
def test_a_size_without_room_for_the_sentinels_is_refused_and_the_least_one_is_named(kind):
    match = r"expected at least (\d+), 400 of them sentinels \(tokenizer\.sentinels\)$"
    with pytest.raises(InputError, match=match) as refused:
        trained(kind=kind, vocab_size=300, sentinels=400)
    least = int(re.search(match, str(refused.value))[1])
    assert trained(kind=kind, vocab_size=least, sentinels=400).get_vocab_size() <= least


@pytest.mark.parametrize("kind", TokenizerKind)
def test_lowercase_is_a_choice(kind):
    assert trained(kind=kind).encode("FOX").ids == trained(kind=kind).encode("fox").ids
    cased = trained(kind=kind, lowercase=False)
    assert cased.encode("Foxes").ids != cased.encode("foxes").ids


def test_vocabulary_file_equals_the_reference(shared_data):
    from transformers import BertTokenizer

    path = shared_data / "vocab" / "bert-base-uncased" / "vocab.txt"
    ours = tokenizer.build(TokenizerConfig(vocab_file=str(path)), [])
    theirs = BertTokenizer(str(path), do_lower_case=True)
    assert ours.get_vocab_size() == theirs.vocab_size == 30522
    for sentence in SENTENCES:
        assert ours.encode(sentence).ids == theirs(sentence)["input_ids"], sentence
    for first, second in pairwise(SENTENCES[:-1]):
        expected = theirs(first, second, return_token_type_ids=True)
        got = ours.encode(first, second)
        assert (got.ids, got.type_ids) == (expected["input_ids"], expected["token_type_ids"])


def test_sentinels_come_behind_a_vocabulary_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("fox\n[MASK]\n[SEP]\n[CLS]\n[UNK]\n[PAD]\n##es\n")
    built = tokenizer.build(TokenizerConfig(vocab_file=str(path), sentinels=2), ["unused"])
    assert built.encode("foxes hawk").ids == [3, 0, 6, 4, 2]
    assert tokenizer.sentinels(built) == [8, 7]


def test_vocabulary_file_without_special_pieces_names_them(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\nfox\n")
    with pytest.raises(InputError, match=r"lacks the pieces \[CLS\], \[SEP\], \[MASK\]"):
        tokenizer.build(TokenizerConfig(vocab_file=str(path)), [])


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0c", "\x1c"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_of_a_vocabulary_ends_at_a_line_feed_alone(tmp_path, character, end):
    path = tmp_path / "vocab.txt"
    path.write_bytes(end.join(["\ufeff[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", character, "fox", ""]).encode())
    built = tokenizer.build(TokenizerConfig(vocab_file=str(path)), ["unused"])
    assert built.encode("fox").ids == [2, 6, 3]
    assert built.get_vocab_size() == 7


@pytest.mark.parametrize(
    "model", [WordLevel({"fox": 0}, unk_token="[UNK]"), WordPiece({"fox": 0}, unk_token="[UNK]"), Unigram([("fox", -1.0)])]
)
def test_a_tokenizer_without_a_piece_for_the_unknown_is_refused(tmp_path, model):
    Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"has no piece for what is not in its vocabulary .*: add it to the pieces"):
        tokenizer.build(TokenizerConfig(file=str(tmp_path / "tokenizer.json")), [])


def test_special_pieces_are_those_around_a_text_whatever_their_names():
    names = ["<|end|>", "<|pad|>", "<|mask|>", "<bos>", "<eos>", "[CLS]", "[SEP]", "fox"]
    built = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<|end|>"))
    for frame in (
        TemplateProcessing(single="<bos> $A <eos>", pair="<bos> $A $B", special_tokens=[("<bos>", 3), ("<eos>", 4)]),
        RobertaProcessing(("<eos>", 4), ("<bos>", 3)),
        Sequence([ByteLevel(), RobertaProcessing(("<eos>", 4), ("<bos>", 3))]),
    ):
        built.post_processor = frame
        assert tokenizer.special_ids(built) == {"pad": 1, "unk": 0, "cls": 3, "sep": 4, "mask": 2}


def test_words_one_by_one_have_the_pieces_of_running_text():
    texts = ["Ana lives in Mel", "Ana lives", "Mel, Ana!"] * 9
    built = tokenizer.build(TokenizerConfig(kind=TokenizerKind.bpe, vocab_size=300, min_frequency=1), texts)
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    running = [built.encode(text).tokens for text in texts]
    words = [built.encode(text.split(), is_pretokenized=True).tokens for text in texts]
    assert words != running
    again = tokenizer.by_words(built)
    assert [again.encode(text).tokens for text in texts] == running
    for text, pieces in zip(texts, running, strict=True):
        first, *later = text.split()
        ours = again.encode([first, *later], is_pretokenized=True).tokens
        begin = next(place for place, piece in enumerate(pieces) if piece.startswith("Ġ") and place > 1)
        assert ours[-len(pieces[begin:]) :] == pieces[begin:]
    prefixed = tokenizer.build(TokenizerConfig(kind=TokenizerKind.bpe, lowercase=False, vocab_size=300, min_frequency=1), texts)
    assert tokenizer.by_words(prefixed).normalizer is None


def test_a_vocabulary_with_a_piece_twice_is_refused(tmp_path):
    config = TokenizerConfig(vocab_file=str(tmp_path / "vocab.txt"))
    (tmp_path / "vocab.txt").write_text("\n".join([*tokenizer.SPECIAL, "a", "b", "a"]))
    with pytest.raises(InputError, match="has the piece 'a' twice"):
        tokenizer.build(config, ["a"])
