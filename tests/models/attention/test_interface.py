"""What layers and costs ask of an attention is the protocol `Attention`, and nothing else."""

import pytest
import torch
from torch import nn

from harness.models import layers
from harness.models.attention import Attention, make_attention
from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Position
from harness.models.heads import SequenceClassifier

SMALL = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


class Mean(nn.Module):
    """Every token gets the mean of all, without a weight."""

    def forward(self, hidden, context):
        return hidden.mean(1, keepdim=True).expand_as(hidden)

    def flops(self, length):
        return 0


@pytest.mark.parametrize("position", Position)
def test_every_attention_has_it(position):
    assert isinstance(make_attention(EncoderConfig(**SMALL, position=position), 0), Attention)


def test_a_class_that_has_it_has_all_that_a_model_needs(monkeypatch):
    monkeypatch.setattr(layers, "make_attention", lambda config, layer: Mean())
    assert isinstance(Mean(), Attention)
    model = SequenceClassifier(EncoderConfig(**SMALL), 2)
    assert model(Batch(torch.ones(2, 5, dtype=torch.int64))).shape == (2, 2)
    assert model.encoder.layers.flops(5) == 2 * 5 * 2 * 8 * 16
