"""Text to ids: the trained WordPiece, and one read from a vocabulary against the reference."""

from itertools import pairwise

import pytest

from harness import tokenizer
from harness.config import TokenizerConfig
from harness.errors import InputError

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


def test_training_again_gives_equal_tokenizers():
    assert len({trained().to_str() for _ in range(4)}) == 1


def test_special_pieces_have_the_first_ids():
    built = trained()
    assert [built.token_to_id(piece) for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [0, 1, 2, 3, 4]


def test_single_text_is_framed_and_of_segment_0():
    encoding = trained().encode("the fox follows")
    assert encoding.tokens == ["[CLS]", "the", "fox", "follows", "[SEP]"]
    assert encoding.type_ids == [0] * 5


def test_pair_has_segments_0_and_1():
    encoding = trained().encode("the fox", "the gate stays")
    assert encoding.tokens == ["[CLS]", "the", "fox", "[SEP]", "the", "gate", "stays", "[SEP]"]
    assert encoding.type_ids == [0, 0, 0, 0, 1, 1, 1, 1]


def test_vocabulary_is_no_larger_than_asked():
    assert trained(vocab_size=60).get_vocab_size() <= 60 < trained().get_vocab_size()


def test_lowercase_is_a_choice():
    assert trained().encode("FOX").ids == trained().encode("fox").ids
    assert trained(lowercase=False).encode("Foxes").ids != trained(lowercase=False).encode("foxes").ids


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


def test_vocabulary_file_keeps_its_own_numbers(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("fox\n[MASK]\n[SEP]\n[CLS]\n[UNK]\n[PAD]\n##es\n")
    built = tokenizer.build(TokenizerConfig(vocab_file=str(path)), ["unused"])
    assert built.encode("foxes hawk").ids == [3, 0, 6, 4, 2]


def test_vocabulary_file_without_special_pieces_names_them(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\nfox\n")
    with pytest.raises(InputError, match=r"lacks the pieces \[CLS\], \[SEP\], \[MASK\]"):
        tokenizer.build(TokenizerConfig(vocab_file=str(path)), [])
