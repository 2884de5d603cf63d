"""The second task of masked language modelling: what its evaluation says of pairs is what its loss is made of."""

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.objectives.base import PretrainBatch, Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.masked_lm import prediction_loss

V, T, B = 40, 20, 6
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
SHAPE = EncoderConfig(
    vocab_size=V,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=T,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
LABELS = torch.tensor([0, 1, 1, 0, 1, 1])


@pytest.fixture(params=[ObjectiveName.mlm_nsp, ObjectiveName.mlm_sop], ids=lambda name: name.value)
def objective(request):
    return build(ObjectiveConfig(request.param), SHAPE, VOCABULARY, 0)


def example(objective) -> PretrainBatch:
    ids = torch.randint(5, V, (B, T), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, 9], ids[:, -1] = 2, 3, 3
    types = (torch.arange(T) > 9).long().repeat(B, 1)
    return objective.make_batch(Batch(ids, types, labels=LABELS), list(range(B)))


def test_evaluation_counts_the_pairs_that_are_right(objective):
    with torch.no_grad():
        objective.pair_head.weight.zero_()
        objective.pair_head.bias.copy_(torch.tensor([0.0, 2.0]))  # always: not in order
    found = objective.evaluate_parts(example(objective))["pair"]
    assert (found.correct, found.predictions) == (4, 6)
    losses = torch.nn.functional.cross_entropy(torch.tensor([[0.0, 2.0]]).expand(6, 2), LABELS, reduction="sum")
    assert found.loss == pytest.approx(losses.item(), rel=1e-6)


def test_the_loss_is_that_of_masked_tokens_and_of_pairs(objective):
    data = example(objective)
    with torch.no_grad():
        pairs = objective.evaluate_parts(data)["pair"]
        _, read = objective.masked_head.read(objective.encoder, data.inputs)
        masked = prediction_loss(objective.masked_head, read, data)
        assert objective(data).item() == pytest.approx(masked.item() + pairs.loss / pairs.predictions, rel=1e-5)
