"""The classifier on the encoder. B sequences, T tokens, D hidden, C outputs."""

import math

import pytest
import torch

from harness.models.config import Activation, EncoderConfig, Pooling
from harness.models.heads import MaskedLMHead, SequenceClassifier, TokenClassifier, build_classifier, pool, span_loss
from harness.models.layers import ACTIVATIONS
from harness.models.losses import IGNORED

SIZES = {"vocab_size": 30, "max_position_embeddings": 8, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 16}
CONFIG = EncoderConfig(**SIZES)


@pytest.fixture
def classifier() -> SequenceClassifier:
    return build_classifier(CONFIG, num_outputs=3, seed=0)


def test_classification_loss_is_mean_cross_entropy_in_nats(classifier):
    logits = torch.tensor([[0.0, math.log(2), 0.0], [math.log(6), 0.0, 0.0]])
    expected = (-math.log(2 / 4) - math.log(1 / 8)) / 2
    assert classifier.loss(logits, torch.tensor([1, 2])).item() == pytest.approx(expected, rel=1e-6)


def test_regression_loss_is_mean_squared_error():
    model = build_classifier(CONFIG, num_outputs=1, seed=0)
    loss = model.loss(torch.tensor([[1.0], [2.0], [-1.0]]), torch.tensor([1.5, 0.0, 3.0]))
    assert loss.item() == pytest.approx((0.25 + 4 + 16) / 3)


@pytest.mark.parametrize(("outputs", "labels"), [(1, torch.tensor([0.5, 0.5])), (3, torch.tensor([0, 2]))])
def test_loss_of_half_precision_outputs_is_float32(outputs, labels):
    model = build_classifier(CONFIG, num_outputs=outputs, seed=0)
    loss = model.loss(torch.ones(2, outputs, dtype=torch.bfloat16), labels)
    assert loss.dtype == torch.float32


@pytest.mark.parametrize(("given", "used"), [(None, 0.2), (0.0, 0.0), (0.4, 0.4)])
def test_classifier_dropout_follows_the_hidden_one_unless_said(given, used):
    config = EncoderConfig(hidden_size=8, num_attention_heads=2, hidden_dropout_prob=0.2, classifier_dropout=given)
    with torch.device("meta"):
        assert SequenceClassifier(config, 2).dropout.probability == used


MASK = torch.tensor([[True, True, True, False], [True, True, True, True]])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [("cls", [[0.0], [4.0]]), ("last", [[2.0], [7.0]]), ("mean", [[1.0], [5.5]]), ("max", [[2.0], [7.0]])],
)
def test_pooling_sees_real_tokens_only(pooling, expected):
    hidden = torch.arange(8.0).view(2, 4, 1)
    assert pool(hidden, MASK, Pooling[pooling]).tolist() == expected
    assert pool(hidden, torch.ones_like(MASK), Pooling[pooling]).tolist() == pool(hidden, None, Pooling[pooling]).tolist()


@pytest.fixture
def tagger() -> TokenClassifier:
    return build_classifier(CONFIG, num_outputs=3, seed=0, head=TokenClassifier)


def test_token_loss_is_the_mean_over_labelled_tokens_alone(tagger):
    logits = torch.tensor([[[0.0, math.log(2), 0.0], [9.0, 0.0, 0.0]], [[math.log(6), 0.0, 0.0], [0.0, 0.0, 0.0]]])
    labels = torch.tensor([[1, IGNORED], [2, 0]])
    expected = (-math.log(2 / 4) - math.log(1 / 8) - math.log(1 / 3)) / 3
    assert tagger.loss(logits, labels).item() == pytest.approx(expected, rel=1e-6)


def test_token_loss_without_any_label_is_zero(tagger):
    assert tagger.loss(torch.randn(2, 3, 3), torch.full((2, 3), IGNORED)).item() == 0.0


def test_span_loss_is_the_mean_of_start_and_end_over_real_tokens():
    logits = torch.zeros(1, 4, 2)
    logits[0, 1, 0], logits[0, 2, 1], logits[0, 3] = math.log(4), math.log(2), 50.0  # the last token is padding
    mask = torch.tensor([[True, True, True, False]])
    expected = (-math.log(4 / 6) - math.log(2 / 4)) / 2
    assert span_loss(logits, torch.tensor([[1, 2]]), mask).item() == pytest.approx(expected, rel=1e-6)
    assert span_loss(logits[:, :3], torch.tensor([[1, 2]]), None).item() == pytest.approx(expected, rel=1e-6)


def test_span_loss_of_padding_has_no_gradient():
    logits = torch.randn(2, 4, 2, requires_grad=True)
    span_loss(logits, torch.tensor([[0, 1], [2, 3]]), torch.tensor([[True, True, False, False], [True] * 4])).backward()
    assert not logits.grad[0, 2:].any()
    assert logits.grad[0, :2].all()


@pytest.mark.parametrize("activation", list(Activation))
def test_the_masked_head_has_the_non_linearity_of_the_model(activation):
    shape = EncoderConfig(vocab_size=20, hidden_size=8, num_attention_heads=2, intermediate_size=8, hidden_act=activation)
    head = MaskedLMHead(shape, torch.nn.Embedding(20, 8))
    hidden = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(head(hidden), head.output(head.norm(ACTIVATIONS[activation](head.dense(hidden)))))
