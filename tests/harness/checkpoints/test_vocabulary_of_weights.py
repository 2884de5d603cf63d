"""Part of a published vocabulary: the tokenizer cuts its texts as before, and the model answers as before on them."""

import json

import pytest
import torch
from small_disk import fill, mounted
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from harness.__main__ import main
from harness.checkpoints import huggingface, start
from harness.checkpoints import teacher as teachers
from harness.config.resolve import resolve
from harness.config.schema import TokenizerConfig
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import rows_in
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.heads import build_classifier
from harness.models.objectives.config import ObjectiveConfig
from harness.plugins.explain.used_pieces import restricted

WORDS = ["the", "cat", "sat", "on", "mat", "matter", "##ter", "##ting", "sit", "dog", "dogs", "un", "##able"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "."]
TEXTS = ["The cat sat on the mats.", "sitting dogs", "unable"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights") / "small-bert"
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(PIECES), initializer_range=0.3, **sizes)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES))
    return folder


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


def built(compose, *given: str):
    (run,) = compose("task=bag", *given)
    config = resolve(run, start.read(run))
    model = build_classifier(config.model, 2, 0).eval()
    origins = huggingface.load_weights(config, model)
    return config, model, origins


@pytest.mark.parametrize("texts", [TEXTS, [" ".join(WORDS)]], ids=["used", "others"])
def test_vectors_of_texts_that_have_their_pieces_are_the_same(published, compose, tmp_path, texts):
    before, after = whole(published), restricted(whole(published), texts)
    after.save(str(tmp_path / "tokenizer.json"))
    _, theirs, _ = built(compose, f"model.init_from={published}")
    config, ours, origins = built(compose, f"model.init_from={published}", f"tokenizer.file={tmp_path / 'tokenizer.json'}")
    assert (config.model.vocab_size, config.model.pad_token_id) == (after.get_vocab_size(), 0)
    for text in texts:
        ids = [torch.tensor([tokenizer.encode(text).ids]) for tokenizer in (before, after)]
        with torch.no_grad():
            torch.testing.assert_close(ours.encoder(Batch(ids[1])), theirs.encoder(Batch(ids[0])))
    table = origins["encoder.embeddings.token_embedding.weight"]
    assert (table.kind, table.how) == ("derived", f"{after.get_vocab_size()} of {len(PIECES)} pieces")
    assert {origin.kind for name, origin in origins.items() if name.startswith("encoder.layers.")} == {"kept"}


def test_a_vocabulary_with_all_pieces_keeps_all_tensors(published, compose, tmp_path):
    """In another file, and so written that a number is what it was."""
    whole(published).save(str(tmp_path / "tokenizer.json"))
    config, _, origins = built(compose, f"model.init_from={published}", f"tokenizer.file={tmp_path / 'tokenizer.json'}")
    assert config.model.vocab_size == len(PIECES)
    assert {origin.kind for name, origin in origins.items() if name.startswith("encoder.")} == {"kept"}


def test_the_teacher_of_a_student_with_part_of_the_pieces_has_their_rows(published, tmp_path):
    before, after = whole(published), restricted(whole(published), TEXTS)
    after.save(str(tmp_path / "tokenizer.json"))
    plain = ObjectiveConfig(soft_weight=0.0)
    settings = TokenizerConfig(file=str(tmp_path / "tokenizer.json"))
    teacher, full = teachers.load(published, plain, settings), teachers.load(published, plain)
    ids = [torch.tensor([tokenizer.encode(TEXTS[0]).ids]) for tokenizer in (after, before)]
    with torch.no_grad():
        torch.testing.assert_close(teacher.encoder(Batch(ids[0])), full.encoder(Batch(ids[1])))


def test_pieces_that_the_weights_have_not_are_refused(published, compose, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, "cat", "horse", "cow"]))
    with pytest.raises(
        InputError, match=r"vocab\.txt has 2 pieces that the tokenizer of the weights has not, such as 'cow', 'horse'"
    ):
        built(compose, f"model.init_from={published}", f"tokenizer.vocab_file={tmp_path / 'vocab.txt'}")


def test_other_kinds_of_vocabularies_are_not_cut():
    bpe = tokenizers.build(TokenizerConfig(kind=tokenizers.TokenizerKind.bpe, vocab_size=300), TEXTS)
    with pytest.raises(InputError, match=r"^keep=used cuts WordPiece vocabularies alone: this one is of BPE$"):
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
    said = f"{size} of {len(PIECES)} pieces are used: tokenizer.file={tmp_path / 'tokenizer.json'} beside the weights\n"
    assert line == said
    small = ["finetune.max_steps=2", "measure=none", "report=false", f"output={tmp_path / 'out'}"]
    assert main(["task=bag", *given, f"tokenizer.file={tmp_path / 'tokenizer.json'}", *small]) == 0
    (run,) = (path.parent for path in (tmp_path / "out").glob("*/*/result.json"))
    assert json.loads((run / "run.json").read_text())["parameters"]["model.vocab_size"] == str(size)
