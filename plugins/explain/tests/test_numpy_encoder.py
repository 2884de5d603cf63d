"""The torch encoder, its heads and all gradients against the same mathematics in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import SequenceClassifier
from harness.plugins.explain import numpy_encoder as oracle

TOLERANCE = 1e-8
PADDING, LENGTHS, LENGTH = 3, (7, 4, 1), 7
SIZES = {"vocab_size": 19, "max_position_embeddings": 9, "pad_token_id": PADDING, "hidden_size": 12, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 3, "intermediate_size": 20, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def padded_batch() -> Batch:
    """Three texts of unlike lengths, the shortest of one token, with both types."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(PADDING + 1, 19, mask.shape, generator=generator).masked_fill(~mask, PADDING)
    return Batch(ids, torch.randint(0, 2, mask.shape, generator=generator), mask)


def scrambled(model: nn.Module) -> nn.Module:
    """The model in doubles, far from an initialisation, so that biases and norms matter too."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.double().parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4
            parameter.copy_(noise + (1 if parameter.dim() == 1 else 0))
    return model


class MaskedLM(nn.Module):
    """BERT's head for masked tokens, tied to the token embeddings."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.output = nn.Linear(config.hidden_size, config.vocab_size)
        self.output.weight = self.encoder.embeddings.token_embedding.weight

    def forward(self, hidden, places):
        """(B, T, D) -> (N, V)."""
        return self.output(self.norm(F.gelu(self.dense(hidden[places]))))


def piece_of(model: nn.Module) -> oracle.Piece:
    return oracle.Piece({name: parameter.detach().numpy() for name, parameter in model.named_parameters()})


def classifier(hidden, p):
    """tanh(h0 W^T + b) U^T + c, h0 the first token's vector: (B, T, D) -> (B, C)."""
    inner, dense_backward = oracle.linear(hidden[:, 0], p.part("pooler.dense"))
    pooled = np.tanh(inner)
    logits, head_backward = oracle.linear(pooled, p.part("head"))

    def backward(dlogits):
        """tanh' = 1 - tanh^2; -> dhidden (B, T, D), zero but for the first token."""
        dhidden = np.zeros_like(hidden)
        dhidden[:, 0] = dense_backward(head_backward(dlogits) * (1 - pooled**2))
        return dhidden

    return logits, backward


def run_encoder(model: Encoder, batch: Batch, piece: oracle.Piece):
    order = [list(model.layers.attentions).index(block) for block, _ in model.layers.execution_order()]
    ids, types, mask = (x.numpy() for x in (batch.input_ids, batch.token_type_ids, batch.attention_mask))
    return oracle.encoder(ids, types, mask, piece, model.config.num_attention_heads, order)


def assert_gradients_equal(model: nn.Module, gradients: dict[str, np.ndarray]) -> None:
    assert gradients.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), gradients[name], rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("groups", [None, 2, 1])
def test_encoder_equals_numpy(groups):
    model, batch = scrambled(Encoder(EncoderConfig(**SIZES, num_hidden_groups=groups))), padded_batch()
    direction = torch.randn(3, LENGTH, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    hidden = model(batch)
    (hidden * direction).sum().backward()
    piece = piece_of(model)
    expected, backward = run_encoder(model, batch, piece)
    np.testing.assert_allclose(hidden.detach().numpy(), expected, rtol=0, atol=TOLERANCE)
    backward(direction.numpy())
    assert_gradients_equal(model, piece.gradients)


def test_masked_lm_and_its_gradients_equal_numpy():
    model, batch = scrambled(MaskedLM(EncoderConfig(**SIZES))), padded_batch()
    places = (torch.tensor([0, 0, 1, 2]), torch.tensor([1, 6, 3, 0]))
    labels = torch.tensor([5, 18, 5, 0])
    loss = F.cross_entropy(model(model.encoder(batch), places), labels)
    loss.backward()

    piece = piece_of(model)
    hidden, backward = run_encoder(model.encoder, batch, piece.part("encoder"))
    table = piece.part("encoder.embeddings.token_embedding")
    logits, head_backward = oracle.masked_lm(hidden, tuple(x.numpy() for x in places), piece, table)
    expected, dlogits = oracle.cross_entropy(logits, labels.numpy())
    assert loss.item() == pytest.approx(expected, abs=TOLERANCE)
    backward(head_backward(dlogits))
    assert_gradients_equal(model, piece.gradients)


def test_classifier_and_its_gradients_equal_numpy():
    model, batch = scrambled(SequenceClassifier(EncoderConfig(**SIZES), 4)), padded_batch()
    labels = torch.tensor([3, 0, 1])
    outputs = model(batch)
    F.cross_entropy(outputs, labels).backward()

    piece = piece_of(model)
    hidden, backward = run_encoder(model.encoder, batch, piece.part("encoder"))
    logits, head_backward = classifier(hidden, piece)
    np.testing.assert_allclose(outputs.detach().numpy(), logits, rtol=0, atol=TOLERANCE)
    expected, dlogits = oracle.cross_entropy(logits, labels.numpy())
    assert model.loss(outputs, labels).item() == pytest.approx(expected, abs=1e-6)
    backward(head_backward(dlogits))
    assert_gradients_equal(model, piece.gradients)


def test_the_padding_row_gets_no_gradient_from_a_loss_that_reads_no_padding():
    model, batch = scrambled(Encoder(EncoderConfig(**SIZES))), padded_batch()
    piece = piece_of(model)
    _, backward = run_encoder(model, batch, piece)
    backward(batch.attention_mask.numpy()[..., None] * np.ones((3, LENGTH, 12)))
    assert not piece.gradients["embeddings.token_embedding.weight"][PADDING].any()
