"""`python -m harness tokenizer`: what tokenizers make of a text, trained to one size or read."""

import json
import re
from pathlib import Path

import pytest
from transformers import BertConfig, BertModel

from harness.__main__ import main
from harness.config.choices import TokenizerKind
from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import SPECIAL, build
from harness.plugins.explain.options import TOKENIZERS
from harness.plugins.explain.tokenizer import MOST, _trained, count, percent, pieces_of, text_of

ROWS = [("the fox runs", 0), ("foxes run, they say!", 1), ("a hare hears the fox", 0), ("the hares ran", 1)] * 5


@pytest.fixture
def task(tmp_path: Path) -> list[str]:
    for split, more in (("train", []), ("validation", [("zzyzx the fox", 0)])):
        lines = (json.dumps({"text": text, "label": label}) for text, label in [*ROWS, *more])
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    files = [f"task.{split}_file={tmp_path / split}.jsonl" for split in ("train", "validation")]
    return ["task=own", *files, "task.fields=[text]", "task.labels=[no,yes]", "tokenizer.vocab_size=270"]


def rows(out: str) -> dict[str, dict[str, str]]:
    """Tokenizer -> its row of each count, of the first table."""
    head, _, *lines = (re.split(r"\s{2,}", line) for line in out.split("\n\n")[1].splitlines())
    return {name: {line[0]: line[column] for line in lines} for column, name in enumerate(head) if column}


def test_counts_are_those_of_the_tokenizer():
    text = text_of(["the fox, the den", "zz"], 1000)
    assert text.words == 6
    found = count("words", _trained("words", TokenizerConfig(min_frequency=1), ["the fox, the"]), text)
    assert found.vocab_size == 5 + 3
    assert found.unknown_pieces == found.unknown_words == 2 / 6
    assert [word for (word, _), _ in found.missed] == ["den", "zz"]
    assert found.lengths.tolist() == [5, 1]


def test_words_are_split_into_the_pieces_that_the_tokenizer_gives():
    tokenizer = build(TokenizerConfig(vocab_size=40, min_frequency=1), ["abc bca cab dabd", "x y"])
    text = text_of(["abc abdabc x"], 1000)
    found = count("one", tokenizer, text)
    split = dict(pair for pair, _ in found.split)
    assert split["abdabc"] == tuple(tokenizer.encode("abdabc", add_special_tokens=False).tokens)
    assert len(found.split[0][0][1]) == max(map(len, split.values()))
    assert sum(found.shares) + found.unknown_words == pytest.approx(1)
    assert len(found.shares) == MOST
    assert found.lengths.sum() == len(tokenizer.encode("abc abdabc x", add_special_tokens=False).ids)


def test_piece_may_cover_several_words_or_mark_one():
    assert pieces_of([(0, 0), (0, 3), (3, 5), (6, 6), (5, 9)], [(0, 3), (3, 4), (4, 5), (6, 9)]) == [[0, 1], [2], [2], [3, 4]]


def test_punctuation_is_cut_as_it_is_in_the_text():
    config = TokenizerConfig(kind=TokenizerKind.bpe, vocab_size=300, min_frequency=1)
    found = count("bpe", build(config, ["fox, fox, fox,"] * 9), text_of(["fox, fox, fox,"], 1000))
    assert found.shares[0] == 1  # "," alone would be a space and a comma


def test_text_ends_after_so_many_characters():
    assert text_of(["abc def", "ghi"], 7).texts == ["abc def"]
    assert text_of(["abc def", "ghi"], 9).texts == ["abc def", "gh"]
    assert text_of(["   ", "a"], 9).texts == ["a"]
    assert [percent(share) for share in (0, 0.00001, 0.004, 0.25)] == ["0.0 %", "0.001 %", "0.4 %", "25.0 %"]


@pytest.mark.long
def test_kinds_are_trained_to_one_size_and_compared_on_held_out_text(said, task):
    out = said("tokenizer", *task, "to=made")
    lines, counts = out.splitlines(), rows(out)
    assert lines[0] == "tokenizers on the held-out text of task own: 88 words and punctuation marks in 21 texts"
    assert lines[1] == "trained on its training text to at most 270 pieces, lower case"
    assert list(counts) == list(TOKENIZERS)
    assert all(int(of["pieces"]) <= 270 for of in counts.values())
    assert (counts["words"]["pieces per word"], counts["words"]["unknown words"]) == ("1.000", "1.1 %")  # zzyzx alone, of 88
    assert counts["words"]["letters per piece"] == "3.19"  # 281 of 88
    assert any(line.startswith("words, unknown: zzyzx (1)") for line in lines)
    assert lines[-2:] == ["made/task-own.png", "made/task-own.svg"]
    assert all(Path(line).is_file() for line in lines[-2:])


@pytest.mark.long
def test_one_that_exists_is_shown_alone_or_beside_those_that_are_named(said, task, capsys):
    build(TokenizerConfig(vocab_size=50, min_frequency=1), [text for text, _ in ROWS]).save("mine.json")
    assert list(rows(said("tokenizer", *task, "tokenizer.file=mine.json"))) == ["this one"]
    out = said("tokenizer", *task, "tokenizer.file=mine.json", "kinds=unigram,words")
    assert list(rows(out)) == ["this one", "unigram", "words"]
    assert "trained on its training text to at most 50 pieces, lower case\nthis one: mine.json" in out
    assert main(["tokenizer", *task, "tokenizer.file=mine.json", "kinds=bpe"]) == 2
    assert "kinds: bpe needs more than the 50 pieces of this one" in capsys.readouterr().err


@pytest.mark.long
def test_corpus_is_a_text_too(said):
    out = said("tokenizer", "corpus=builtin", "corpus.documents=60", "kinds=[wordpiece]", "tokenizer.vocab_size=300")
    assert out.startswith("tokenizers on the held-out text of corpus builtin: ")
    assert list(rows(out)) == ["wordpiece"]


# A text of the user

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "un", "##hap", "##py", "!"]


@pytest.fixture
def vocabulary(tmp_path: Path) -> str:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return "tokenizer.vocab_file=vocab.txt"


def words_of(lines: list[str], title: str) -> dict[str, list[str]]:
    """Word -> its number of pieces, its pieces and its ids, of the table below this title."""
    first = next(number for number, line in enumerate(lines) if line.startswith(title))
    start = next(number for number in range(first, len(lines)) if lines[number].startswith("---")) + 1
    return {word: columns for word, *columns in (re.split(r"\s{2,}", line) for line in lines[start : lines.index("", start)])}


def test_words_of_a_text_with_their_pieces_and_ids(said, vocabulary):
    lines = said("tokenizer", vocabulary, "text=The unhappy fox ran!", "to=.").splitlines()
    assert words_of(lines, "this one: vocab.txt, 11 pieces") == {
        "The": ["1", "the", "5"],
        "unhappy": ["3", "un ##hap ##py", "7 8 9"],
        "fox": ["1", "fox", "6"],
        "ran": ["1", "[UNK]", "1"],
        "!": ["1", "!", "10"],
        "all 5": ["7"],
    }
    assert "as a model reads it: [CLS] the un ##hap ##py fox [UNK] ! [SEP]" in lines
    assert "ids: 2 5 7 8 9 6 1 10 3" in lines
    assert "3 of 5 words are whole; to a tokenizer of whole words the others are unknown" in lines


def test_a_special_piece_in_the_text_is_one_word(said, vocabulary):
    lines = said("tokenizer", vocabulary, "text=The [MASK] fox!", "to=.").splitlines()
    found = words_of(lines, "this one: vocab.txt, 11 pieces")
    assert (found["[MASK]"], found["all 4"]) == (["1", "[MASK]", "4"], ["4"])


@pytest.mark.long
def test_trained_kinds_cut_the_text_too(said, task):
    lines = said("tokenizer", *task, "text=the hare unhappy", "kinds=words,bpe", "to=.").splitlines()
    assert words_of(lines, "words, trained on task own")["hare"][:2] == ["1", "hare"]
    assert words_of(lines, "words, trained on task own")["unhappy"][:2] == ["1", "[UNK]"]
    assert "".join(words_of(lines, "bpe, trained on task own")["unhappy"][1].split()) == "Ġunhappy"


@pytest.mark.long
def test_a_published_folder_is_shown_with_its_added_pieces_as_words(tmp_path, said):
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained(tmp_path / "published")
    pieces = [*SPECIAL, "\u2028", "today", "über", "u", "##ber", "<", "user", ">"]
    (tmp_path / "published" / "vocab.txt").write_bytes("\n".join(pieces).encode())
    settings = {"strip_accents": False, "additional_special_tokens": ["<user>"]}
    (tmp_path / "published" / "tokenizer_config.json").write_text(json.dumps(settings))
    lines = said(
        "tokenizer", "text=Über <user> today", f"model.init_from={tmp_path / 'published'}", f"to={tmp_path / 'to'}"
    ).splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("word"))) + 2 :]
    assert [line.split() for line in table[:4]] == [
        ["Über", "1", "über", "7"],
        ["<user>", "1", "<user>", "13"],
        ["today", "1", "today", "6"],
        ["all", "3", "3"],
    ]
