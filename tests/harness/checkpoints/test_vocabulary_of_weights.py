"""Part of a published vocabulary: on texts that have their pieces, the model answers as before."""

import pytest
import torch
from published_bert import LETTERS, save_bert
from tokenizers import Tokenizer

from harness.checkpoints import huggingface, start
from harness.checkpoints import teacher as teachers
from harness.config.resolve import resolve
from harness.config.schema import TokenizerConfig
from harness.data import tokenizer as tokenizers
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.heads import build_classifier
from harness.models.objectives.config import ObjectiveConfig

WORDS = ["the", "cat", "sat", "on", "mat", "matter", "##ter", "##ting", "sit", "dog", "dogs", "un", "##able"]
SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "."]
TEXTS = ["The cat sat on the mats.", "sitting dogs", "unable"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("weights") / "small-bert", "BertModel", PIECES, initializer_range=0.3)


def whole(folder) -> Tokenizer:
    return tokenizers.build(TokenizerConfig(vocab_file=str(folder / "vocab.txt"), lowercase=True), ())


def part(folder, texts) -> Tokenizer:
    """Of that vocabulary: special pieces, letters, and the pieces of these texts; all cut as before."""
    used = {piece for text in texts for piece in whole(folder).encode(text).tokens}
    kept = [piece for piece in PIECES if piece in used or piece in SPECIAL[2:] or len(piece.removeprefix("##")) == 1]
    (folder / "part.txt").write_text("\n".join(["[PAD]", *kept]))
    return tokenizers.build(TokenizerConfig(vocab_file=str(folder / "part.txt"), lowercase=True), ())


def built(compose, *given: str):
    (run,) = compose("task=bag", *given)
    config = resolve(run, start.read(run))
    model = build_classifier(config.model, 2, 0).eval()
    origins = huggingface.load_weights(config, model)
    return config, model, origins


@pytest.mark.long
@pytest.mark.parametrize("texts", [TEXTS, [" ".join(WORDS)]], ids=["used", "others"])
def test_vectors_of_texts_that_have_their_pieces_are_the_same(published, compose, tmp_path, texts):
    before, after = whole(published), part(published, texts)
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


@pytest.mark.long
def test_a_vocabulary_with_all_pieces_keeps_all_tensors(published, compose, tmp_path):
    """In another file, and so written that a number is what it was."""
    whole(published).save(str(tmp_path / "tokenizer.json"))
    config, _, origins = built(compose, f"model.init_from={published}", f"tokenizer.file={tmp_path / 'tokenizer.json'}")
    assert config.model.vocab_size == len(PIECES)
    assert {origin.kind for name, origin in origins.items() if name.startswith("encoder.")} == {"kept"}


@pytest.mark.long
def test_the_teacher_of_a_student_with_part_of_the_pieces_has_their_rows(published, tmp_path):
    before, after = whole(published), part(published, TEXTS)
    after.save(str(tmp_path / "tokenizer.json"))
    plain = ObjectiveConfig(soft_weight=0.0)
    settings = TokenizerConfig(file=str(tmp_path / "tokenizer.json"))
    teacher, full = teachers.load(published, plain, settings), teachers.load(published, plain)
    ids = [torch.tensor([tokenizer.encode(TEXTS[0]).ids]) for tokenizer in (after, before)]
    with torch.no_grad():
        torch.testing.assert_close(teacher.encoder(Batch(ids[0])), full.encoder(Batch(ids[1])))


@pytest.mark.long
def test_pieces_that_the_weights_have_not_are_refused(published, compose, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, "cat", "horse", "cow"]))
    with pytest.raises(
        InputError, match=r"vocab\.txt has 2 pieces that the tokenizer of the weights lacks, such as 'cow', 'horse'"
    ):
        built(compose, f"model.init_from={published}", f"tokenizer.vocab_file={tmp_path / 'vocab.txt'}")
