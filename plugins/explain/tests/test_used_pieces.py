"""Part of a published vocabulary: the tokenizer cuts its texts as before, and what is left out is cut to letters."""

import json

import pytest
from published_bert import LETTERS, save_bert
from small_disk import fill, mounted
from tokenizers import Tokenizer

from harness.__main__ import main
from harness.config.schema import TokenizerConfig
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import rows_in
from harness.errors import InputError
from harness.plugins.explain.tokenizer import restricted

WORDS = ["the", "cat", "sat", "on", "mat", "matter", "##ter", "##ting", "sit", "dog", "dogs", "un", "##able"]
SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "."]
TEXTS = ["The cat sat on the mats.", "sitting dogs", "unable"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("weights") / "small-bert", "BertModel", PIECES, initializer_range=0.3)


def whole(folder) -> Tokenizer:
    return tokenizers.build(TokenizerConfig(vocab_file=str(folder / "vocab.txt"), lowercase=True), ())


def test_the_texts_are_cut_as_before_and_others_to_letters(published):
    before, after = whole(published), restricted(whole(published), TEXTS)
    for text in [*TEXTS, ("sitting dogs", "unable")]:
        pair = (text,) if isinstance(text, str) else text
        one, other = before.encode(*pair), after.encode(*pair)
        assert (one.tokens, one.type_ids, one.offsets) == (other.tokens, other.type_ids, other.offsets)
    gone = {piece for piece in before.get_vocab() if piece not in after.get_vocab()}
    assert gone == {"[unused0]", "matter", "##ter", "dog"}
    assert after.encode("matter", add_special_tokens=False).tokens == ["mat", "##t", "##e", "##r"]
    assert sorted(after.get_vocab().values()) == list(range(after.get_vocab_size()))
    rows = rows_in(after, before, "tokenizer.file=x")
    assert [PIECES[row] for row in rows] == [piece for piece, _ in sorted(after.get_vocab().items(), key=lambda item: item[1])]


def test_other_kinds_of_vocabularies_are_not_cut():
    bpe = tokenizers.build(TokenizerConfig(kind=tokenizers.TokenizerKind.bpe, vocab_size=300), TEXTS)
    with pytest.raises(InputError, match=r"^keep=used cuts WordPiece vocabularies only, not BPE$"):
        restricted(bpe, TEXTS)


@pytest.mark.long
def test_a_full_disk_is_one_line_and_leaves_the_older_tokenizer(published, tmp_path, capsys):
    given = [f"model.init_from={published}", "data.train_examples=30", "data.validation_examples=10"]
    with mounted(tmp_path / "disk", 1 << 14) as disk:
        (disk / "tokenizer.json").write_text("of yesterday")
        fill(disk, 0)
        assert main(["tokenizer", *given, "task=bag", "keep=used", f"to={disk}"]) == 1
        err = capsys.readouterr().err
        assert (err.count("\n"), err.endswith(": free some, and the same command continues\n")) == (1, True), err
        assert (disk / "tokenizer.json").read_text() == "of yesterday"
        assert {path.name for path in disk.iterdir()} == {"tokenizer.json", "filler"}


@pytest.mark.long
def test_the_command_writes_a_tokenizer_that_a_run_starts_from(published, tmp_path, capsys):
    given = [f"model.init_from={published}", "data.train_examples=30", "data.validation_examples=10"]
    assert main(["tokenizer", *given, "task=bag", "keep=used", f"to={tmp_path}"]) == 0
    line, size = capsys.readouterr().out, len(json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"])
    said = f"{size} of {len(PIECES)} pieces are used; set tokenizer.file={tmp_path / 'tokenizer.json'} with the weights\n"
    assert line == said
    small = ["finetune.max_steps=2", "measure=none", "report=false", f"output={tmp_path / 'out'}"]
    assert main(["task=bag", *given, f"tokenizer.file={tmp_path / 'tokenizer.json'}", *small]) == 0
    (run,) = (path.parent for path in (tmp_path / "out").glob("*/*/result.json"))
    assert json.loads((run / "run.json").read_text())["parameters"]["model.vocab_size"] == str(size)
