"""The next token is predicted, not the token itself. B sequences, T tokens."""

import torch

from models.batch import Batch
from models.config import EncoderConfig
from models.losses import IGNORED
from models.objectives.base import Objective, PretrainBatch, Vocabulary
from models.objectives.build import build
from models.objectives.config import ObjectiveConfig, ObjectiveName

CLS, SEP = 2, 3
IDS = torch.tensor([[CLS, 10, 11, 12, 13, 14, SEP], [CLS, 15, 16, SEP, 17, 18, SEP]])  # (B, T), each word once


def objective(name: ObjectiveName) -> Objective:
    shape = EncoderConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, max_position_embeddings=8
    )
    vocabulary = Vocabulary(20, pad=0, cls=CLS, sep=SEP, mask=4, word_start=torch.ones(20, dtype=torch.bool))
    return build(ObjectiveConfig(name), shape, vocabulary, seed=0)


def predicted(data: PretrainBatch) -> torch.Tensor:
    return data.targets != IGNORED


def test_each_position_predicts_the_token_that_follows_it():
    data = objective(ObjectiveName.clm).make_batch(Batch(IDS), [0, 1])
    assert torch.equal(data.inputs.input_ids, IDS)
    following = IDS.gather(1, data.positions + 1)
    assert torch.equal(following[predicted(data)], data.targets[predicted(data)])
    # All ordinary pieces are predicted, and no [CLS] or [SEP].
    assert data.targets.tolist() == [[10, 11, 12, 13, 14, IGNORED], [15, 16, IGNORED, 17, 18, IGNORED]]
    assert data.positions.tolist() == [[0, 1, 2, 3, 4, 5]] * 2


def test_each_position_predicts_the_tokens_on_both_sides_of_it():
    """The states are those of the onward direction, then those of the backward one."""
    data, T = objective(ObjectiveName.bidirectional_lm).make_batch(Batch(IDS), [0, 1]), IDS.shape[1]
    onward = data.positions < T
    neighbour = IDS.gather(1, torch.where(onward, data.positions + 1, data.positions - T - 1))
    assert torch.equal(neighbour[predicted(data)], data.targets[predicted(data)])
    assert int(predicted(data).sum()) == 2 * 9  # each of the nine words once from either side
