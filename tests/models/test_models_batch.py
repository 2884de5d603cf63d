"""A batch moves as a whole."""

from dataclasses import fields

import torch

from models.batch import Batch


def test_to_moves_every_tensor():
    ids = torch.ones(2, 3, dtype=torch.int64)
    batch = Batch(ids, ids + 1, ids > 0, ids + 2, torch.zeros(2), tokens=6).to("meta")
    tensors = [value for field in fields(batch) if isinstance(value := getattr(batch, field.name), torch.Tensor)]
    assert len(tensors) == 5
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert [tensor.dtype for tensor in tensors] == [torch.int64, torch.int64, torch.bool, torch.int64, torch.float32]


def test_to_keeps_values_none_and_numbers():
    batch = Batch(torch.tensor([[4, 5]]), tokens=2)
    moved = batch.to(torch.device("cpu"))
    assert moved is not batch
    assert torch.equal(moved.input_ids, batch.input_ids)
    assert moved.tokens == 2
    left = (moved.token_type_ids, moved.attention_mask, moved.position_ids, moved.labels)
    assert left == (None, None, None, None)


def test_to_leaves_the_original_where_it_was():
    batch = Batch(torch.tensor([[4, 5]]), labels=torch.tensor([1]))
    batch.to("meta")
    assert batch.input_ids.device.type == batch.labels.device.type == "cpu"
