"""A batch moves as a whole, and ids alone are one."""

from dataclasses import fields

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import SequenceClassifier, TokenClassifier

SHAPE = EncoderConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)


def test_to_moves_every_tensor():
    ids = torch.ones(2, 3, dtype=torch.int64)
    batch = Batch(ids, ids + 1, ids > 0, ids + 2, torch.zeros(2), tokens=6).to("meta")
    tensors = [value for field in fields(batch) if isinstance(value := getattr(batch, field.name), torch.Tensor)]
    assert len(tensors) == 5
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert [tensor.dtype for tensor in tensors] == [torch.int64, torch.int64, torch.bool, torch.int64, torch.float32]


@pytest.mark.parametrize(
    "build", [Encoder, lambda shape: SequenceClassifier(shape, 2), lambda shape: TokenClassifier(shape, 2)]
)
def test_models_take_ids_alone(build):
    model, ids = build(SHAPE).eval(), torch.tensor([[4, 5, 6], [7, 8, 0]])
    assert torch.equal(model(ids), model(Batch(ids)))
    assert torch.equal(model(ids.int()), model(Batch(ids)))


@pytest.mark.parametrize(
    ("inputs", "found"),
    [
        ([[4, 5]], "got list"),
        ({"input_ids": torch.tensor([[4]])}, "got dict"),
        (torch.tensor([4, 5]), r"got a tensor of shape \(2,\) and torch.int64"),
        (torch.ones(2, 3), r"got a tensor of shape \(2, 3\) and torch.float32"),
        (torch.ones(2, 3, dtype=torch.bool), "torch.bool"),
        (None, "got NoneType"),
    ],
)
def test_anything_else_is_refused_by_name(inputs, found):
    with pytest.raises(TypeError, match=r"expected a models.batch.Batch or a \(B, T\) tensor of integer ids, " + f".*{found}"):
        Encoder(SHAPE)(inputs)
