"""`python -m harness tokenizer`: what tokenizers make of a text, trained to one size or read."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import BertConfig, BertModel

from harness.__main__ import main
from harness.config.choices import TokenizerKind
from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import SPECIAL, build
from harness.plugins.explain.options import TOKENIZERS
from harness.plugins.explain.tokenizer import MOST, bins, count, percent, pieces_of, plain_words, text_of

ROWS = [("the fox runs", 0), ("foxes run, they say!", 1), ("a hare hears the fox", 0), ("the hares ran", 1)] * 5


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["tokenizer"])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def task(tmp_path: Path) -> list[str]:
    for split, more in (("train", []), ("validation", [("zzyzx the fox", 0)])):
        lines = (json.dumps({"text": text, "label": label}) for text, label in [*ROWS, *more])
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    files = [f"task.{split}_file={tmp_path / split}.jsonl" for split in ("train", "validation")]
    return ["task=own", *files, "task.fields=[text]", "task.labels=[no,yes]", "tokenizer.vocab_size=270"]


def said(capsys, *arguments: str) -> list[str]:
    assert main(["tokenizer", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def rows(lines: list[str]) -> dict[str, list[str]]:
    """Of the first table."""
    first = next(number for number, line in enumerate(lines) if line.startswith("tokenizer "))
    table = lines[first + 2 : lines.index("", first)]
    return {line.split()[0]: line.split() for line in table}


def test_counts_are_those_of_the_tokenizer():
    text = text_of(["the fox, the den", "zz"], 1000)
    assert [[word for word, _ in words] for words in text.words] == [["the", "fox", ",", "the", "den"], ["zz"]]
    assert text.lengths.tolist() == [5, 1]
    found = count("words", plain_words(TokenizerConfig(min_frequency=1), ["the fox, the"]), text)
    assert found.vocab_size == 5 + 3
    assert found.pieces_per_word == 1
    assert found.unknown_pieces == found.unknown_words == 2 / 6
    assert [word.text for word in found.missed] == ["den", "zz"]
    assert found.lengths.tolist() == [5, 1]
    assert found.characters_per_piece == 15 / 6


def test_words_are_split_into_the_pieces_that_the_tokenizer_gives():
    tokenizer = build(TokenizerConfig(vocab_size=40, min_frequency=1), ["abc bca cab dabd", "x y"])
    text = text_of(["abc abdabc x"], 1000)
    found = count("one", tokenizer, text)
    split = {word.text: word.pieces for word in found.split}
    assert split["abdabc"] == tuple(tokenizer.encode("abdabc", add_special_tokens=False).tokens)
    assert len(found.split[0].pieces) == max(len(pieces) for pieces in split.values())
    assert sum(found.shares) + found.unknown_words == pytest.approx(1)
    assert len(found.shares) == MOST
    assert found.lengths.sum() == len(tokenizer.encode("abc abdabc x", add_special_tokens=False).ids)


def test_piece_may_cover_several_words_or_mark_one():
    assert pieces_of([(0, 0), (0, 3), (3, 5), (6, 6), (5, 9)], [(0, 3), (3, 4), (4, 5), (6, 9)]) == [[0, 1], [2], [2], [3, 4]]


def test_punctuation_is_cut_as_it_is_in_the_text():
    config = TokenizerConfig(kind=TokenizerKind.bpe, vocab_size=300, min_frequency=1)
    found = count("bpe", build(config, ["fox, fox, fox,"] * 9), text_of(["fox, fox, fox,"], 1000))
    assert found.pieces_per_word == 1
    assert found.shares[0] == 1  # "," alone would be a space and a comma


@pytest.mark.parametrize("kind", TokenizerKind)
def test_every_kind_of_the_project_is_compared(kind):
    assert kind.name in TOKENIZERS


def test_text_ends_after_so_many_characters():
    assert text_of(["abc def", "ghi"], 7).texts == ["abc def"]
    assert text_of(["abc def", "ghi"], 9).texts == ["abc def", "gh"]
    assert text_of(["   ", "a"], 9).texts == ["a"]


@pytest.mark.long
def test_kinds_are_trained_to_one_size_and_compared_on_held_out_text(capsys, task):
    lines = said(capsys, *task, "to=made")
    assert lines[0] == "tokenizers on the held-out text of task own: 88 words and punctuation marks in 21 texts"
    assert lines[1] == "trained on its training text to at most 270 pieces, lower case"
    assert max(map(len, lines)) <= 100
    found = rows(lines)
    assert list(found) == list(TOKENIZERS)
    assert all(int(found[kind][1]) <= 270 for kind in TOKENIZERS)
    assert found["words"][2] == "1.000"
    assert found["words"][-2:] == ["1.1", "%"]  # zzyzx alone, of 88
    assert any(line.startswith("words, unknown: zzyzx (1)") for line in lines)
    assert lines[-2:] == ["made/task-own.png", "made/task-own.svg"]
    assert all(Path(line).is_file() for line in lines[-2:])


@pytest.mark.long
def test_one_that_exists_is_shown_alone_or_beside_those_that_are_named(capsys, task):
    build(TokenizerConfig(vocab_size=50, min_frequency=1), [text for text, _ in ROWS]).save("mine.json")
    assert list(rows(said(capsys, *task, "tokenizer.file=mine.json"))) == ["this"]
    lines = said(capsys, *task, "tokenizer.file=mine.json", "kinds=unigram,words")
    assert [name.split()[0] for name in rows(lines)] == ["this", "unigram", "words"]
    assert lines[1] == "trained on its training text to at most 50 pieces, lower case"
    assert lines[2] == "this one: mine.json"
    assert main(["tokenizer", *task, "tokenizer.file=mine.json", "kinds=bpe"]) == 2
    assert "kinds: bpe needs more than the 50 pieces of this one" in capsys.readouterr().err


@pytest.mark.long
def test_corpus_is_a_text_too(capsys):
    lines = said(capsys, "corpus=builtin", "corpus.documents=60", "kinds=[wordpiece]", "tokenizer.vocab_size=300")
    assert lines[0].startswith("tokenizers on the held-out text of corpus builtin: ")
    assert list(rows(lines)) == ["wordpiece"]


def test_rows_of_lengths_double_and_hold_all_texts():
    ranges = bins(np.array([1, 8, 9, 40]))
    assert {name: inside.tolist().count(True) for name, inside in ranges.items()} == {
        "1-8 words": 2,
        "9-16 words": 1,
        "33-64 words": 1,
    }
    assert [percent(share) for share in (0, 0.00001, 0.004, 0.25)] == ["0.0 %", "< 0.01 %", "0.40 %", "25.0 %"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "task= and corpus= are missing: expected one of them"),
        (["task=bag", "corpus=builtin"], "task= and corpus= both name a text"),
        (["task=bag", "kinds=bpee"], "unknown kind 'bpee'; did you mean 'bpe'?"),
        (["task=bag", "nowhere"], "RUN='nowhere' is neither a folder nor the id of a run"),
        (["task=bag", "tokenizer.file=nowhere.json"], "tokenizer.file='nowhere.json' cannot be read"),
        (["-m", "task=bag,order"], "the command line names 2 runs: expected one text"),
        (["task=bag", "tokenizer.vocab_size=60"], "at least 261; or leave bpe out of kinds=wordpiece,bpe,unigram,words"),
        (["task=bag", "tokenizer.vocab_size=3", "kinds=words"], "tokenizer.vocab_size=3 is too small: expected at least 5;"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(capsys, arguments, expected):
    assert main(["tokenizer", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert expected in err
    assert not Path("multirun", "tokenizer").exists()


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


def test_words_of_a_text_with_their_pieces_and_ids(capsys, vocabulary):
    lines = said(capsys, vocabulary, "text=The unhappy fox ran!", "to=.")
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
    drawn = Path(lines[-1]).read_text()
    assert all(text in drawn for text in ("##hap", "5 words", "this one: 7 pieces", "[UNK]"))


def test_a_special_piece_in_the_text_is_one_word(capsys, vocabulary):
    lines = said(capsys, vocabulary, "text=The [MASK] fox!", "to=.")
    found = words_of(lines, "this one: vocab.txt, 11 pieces")
    assert (found["[MASK]"], found["all 4"]) == (["1", "[MASK]", "4"], ["4"])


def test_trained_kinds_cut_the_text_too(capsys, task):
    lines = said(capsys, *task, "text=the hare unhappy", "kinds=words,bpe", "to=.")
    assert words_of(lines, "words, trained on task own")["hare"][:2] == ["1", "hare"]
    assert words_of(lines, "words, trained on task own")["unhappy"][:2] == ["1", "[UNK]"]
    assert "".join(words_of(lines, "bpe, trained on task own")["unhappy"][1].split()) == "Ġunhappy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text=a"], "text= needs a tokenizer: give RUN, tokenizer.vocab_file=FILE or tokenizer.file=FILE"),
        (["text=a", "tokenizer.vocab_file=vocab.txt", "kinds=bpe"], "kinds= are trained: name the text"),
        (["text= ", "tokenizer.vocab_file=vocab.txt"], "text= has 0 words: expected 1 to 200"),
        (["text=" + "a " * 201, "tokenizer.vocab_file=vocab.txt"], "text= has 201 words: expected 1 to 200"),
    ],
)
def test_texts_that_cannot_be_cut_are_one_line(capsys, vocabulary, arguments, message):
    assert main(["tokenizer", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_a_published_folder_is_shown_with_its_added_pieces_as_words(tmp_path, capsys):
    config = BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained(tmp_path / "published")
    pieces = [*SPECIAL, "\u2028", "today", "über", "u", "##ber", "<", "user", ">"]
    (tmp_path / "published" / "vocab.txt").write_bytes("\n".join(pieces).encode())
    settings = {"strip_accents": False, "additional_special_tokens": ["<user>"]}
    (tmp_path / "published" / "tokenizer_config.json").write_text(json.dumps(settings))
    lines = said(capsys, "text=Über <user> today", f"model.init_from={tmp_path / 'published'}", f"to={tmp_path / 'to'}")
    table = lines[lines.index(next(line for line in lines if line.startswith("word"))) + 2 :]
    assert [line.split() for line in table[:4]] == [
        ["Über", "1", "über", "7"],
        ["<user>", "1", "<user>", "13"],
        ["today", "1", "today", "6"],
        ["all", "3", "3"],
    ]
