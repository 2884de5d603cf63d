"""Tokenizers of published folders have the same pieces in transformers once the model is exported."""

import pytest
from drawn_tokenizers import FAMILIES, Drawn, ids_of_transformers, ours

from harness.checkpoints import native
from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import build
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier
from harness.plugins.export.checkpoint import export


@pytest.mark.long
@pytest.mark.parametrize("seed", range(len(FAMILIES)))
def test_what_is_exported_has_the_pieces_of_the_folder_in_transformers(tmp_path, seed):
    drawn = next(
        one for step in range(20) if not isinstance(ours((one := Drawn(tmp_path / str(step), seed + 16 * step)).folder), str)
    )
    tokenizer = build(TokenizerConfig(file=str(drawn.folder)), ())
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    shape = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=40, **sizes)
    model = SequenceClassifier(shape, 2)
    native.save(tmp_path / "run" / "checkpoint", model.state_dict(), shape)
    tokenizer.save(str(tmp_path / "run" / "checkpoint" / native.TOKENIZER))
    export(tmp_path / "run" / "checkpoint", tmp_path / "out")
    assert ids_of_transformers(tmp_path / "out") == ours(drawn.folder) == ours(tmp_path / "out")
