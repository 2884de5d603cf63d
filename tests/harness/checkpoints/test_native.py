"""Weights that a pretraining leaves: they come back whole with their shape, or are refused."""

import errno
import json
import os
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from harness.checkpoints import native
from harness.config.schema import ModelConfig
from harness.errors import InputError
from harness.models.config import Activation, EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead

SHAPE = ModelConfig(
    vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20
)


def state_of(shape: EncoderConfig) -> dict[str, Tensor]:
    encoder = Encoder(shape)
    head = MaskedLMHead(shape, encoder.embeddings.token_embedding)
    return nn.ModuleDict({"encoder": encoder, "masked_head": head}).state_dict()


def test_weights_of_an_earlier_version_are_read(tmp_path):
    """It has not written the keys that were added since."""
    native.save(tmp_path, state_of(SHAPE), SHAPE)
    shape = {key: value for key, value in json.loads((tmp_path / native.SHAPE).read_text()).items() if key not in native.ADDED}
    (tmp_path / native.SHAPE).write_text(json.dumps(shape))
    save_file(load_file(tmp_path / native.WEIGHTS), tmp_path / native.WEIGHTS, metadata={"shape": json.dumps(shape)})
    assert native.plain(native.read(tmp_path)[1]) == native.plain(SHAPE)


def test_weights_come_back_with_their_shape(tmp_path):
    shape = replace(SHAPE, pooler=Activation.relu, classifier_dropout=0.25, init_from="elsewhere")
    state = state_of(shape)
    native.save(tmp_path / "w", state, shape)
    found, again = native.read(tmp_path / "w")
    assert type(again) is EncoderConfig
    assert native.plain(again) == native.plain(shape)
    assert again.pooler is Activation.relu
    assert state.keys() - found.keys() == {"masked_head.output.weight"}
    assert all(torch.equal(tensor, state[name]) for name, tensor in found.items())
    assert {path.name for path in (tmp_path / "w").iterdir()} == {"model.safetensors", "model.json"}


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_weights_have_the_permissions_that_the_user_gives_all_files(tmp_path, umask):
    before = os.umask(umask)
    try:
        native.save(tmp_path / "w", state_of(SHAPE), SHAPE)
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "w").iterdir()} == dict.fromkeys(
        (native.WEIGHTS, native.SHAPE), 0o666 & ~umask
    )


def test_weights_on_a_full_disk_leave_nothing_and_the_earlier_ones_whole(tmp_path, monkeypatch):
    state = state_of(SHAPE)
    native.save(tmp_path / "w", state, SHAPE)
    before = {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()}

    def full(tensors, path, **more):
        path.write_bytes(b"begun")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(native, "save_file", full)
    other = {name: tensor + 1 for name, tensor in state.items()}
    for folder in (tmp_path / "w", tmp_path / "new"):
        with pytest.raises(OSError, match="No space left"):
            native.save(folder, other, SHAPE)
    assert {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()} == before
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.long
def test_corrupt_and_missing_weights_are_named(tmp_path):
    shape, folder = SHAPE, tmp_path / "w"
    state = state_of(shape)
    with pytest.raises(InputError, match=r"lacks model\.json"):
        native.read(folder)

    def broken(name: str, change: object, message: str) -> None:
        native.save(folder, state, shape)
        change(folder / name)
        with pytest.raises(InputError, match=message):
            native.read(folder)

    broken("model.safetensors", lambda path: path.unlink(), r"lacks model\.safetensors")
    broken(
        "model.safetensors",
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        r"safetensors cannot be read, it may be corrupt",
    )
    broken("model.safetensors", lambda path: save_file({"a": torch.ones(1)}, path), "does not match model.json")
    broken("model.json", lambda path: path.write_text("{"), r"model\.json is not JSON")
    broken("model.json", lambda path: path.write_text('{"x": 1}'), "missing or unknown: .*vocab_size, x")
    said = native.plain(shape)
    wrong = json.dumps(said | {"norm": "batch"})
    broken("model.json", lambda path: path.write_text(wrong), r"model\.json, norm: Invalid value 'batch'")
    broken(
        "model.json", lambda path: path.write_text(json.dumps(said | {"num_attention_heads": 2})), "does not match model.json"
    )


def test_untied_output_matrix_is_kept(tmp_path):
    shape = replace(SHAPE, tie_masked_lm_head=False)
    state = state_of(shape)
    native.save(tmp_path, state, shape)
    assert torch.equal(native.read(tmp_path)[0]["masked_head.output.weight"], state["masked_head.output.weight"])
