"""The next token is predicted, not the token itself. B sequences, T tokens."""

import math
from dataclasses import replace

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Position
from harness.models.losses import IGNORED
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

CLS, SEP = 2, 3
IDS = torch.tensor([[CLS, 10, 11, 12, 13, 14, SEP], [CLS, 15, 16, SEP, 17, 18, SEP]])  # (B, T), each word once


def objective(name: ObjectiveName, **changes: object) -> Objective:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    shape = EncoderConfig(**{"vocab_size": 20, "max_position_embeddings": 8, **sizes, **changes})
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


@pytest.mark.long
def test_text_that_repeats_the_segment_before_is_predicted_from_the_memory_alone():
    """Of 8 words that come twice, the second time in a segment of their own: those that were there are known."""
    losses = {memory: loss_of_repeated_words(memory) for memory in (0, 8)}
    chance = math.log(15)
    assert losses[0] > 0.95 * chance
    assert losses[8] < 0.05 * chance


def loss_of_repeated_words(memory: int) -> float:
    """Nats of the words of the second half that follow one of the same, after training."""
    recurrent = {"position": Position.relative, "causal": True, "segment_length": 8, "memory_length": memory}
    size = {"hidden_size": 32, "intermediate_size": 64, "type_vocab_size": 0, "initializer_range": 0.1}
    model = objective(ObjectiveName.clm, **recurrent, **size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    optimiser, stream = torch.optim.AdamW(model.parameters(), lr=1e-2), torch.Generator().manual_seed(0)
    for _ in range(300):
        loss = nats(model, torch.randint(5, 20, (32, 8), generator=stream).repeat(1, 2))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return nats(model, torch.randint(5, 20, (256, 8), generator=stream).repeat(1, 2)).item()


def nats(model: Objective, ids: torch.Tensor) -> torch.Tensor:
    data = model.make_batch(Batch(ids), [0] * len(ids))
    repeated = data.positions >= 8  # the word before it is one of the second segment, which says nothing by itself
    targets = data.targets.masked_fill(~repeated, IGNORED)
    return model(replace(data, targets=targets, total_predictions=int(repeated.sum())))
