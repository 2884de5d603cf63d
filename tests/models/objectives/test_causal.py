"""The next piece is what is predicted, not the piece itself. B sequences, T tokens."""

import torch

from models.batch import Batch
from models.config import EncoderConfig
from models.objectives.build import build
from models.objectives.config import ObjectiveConfig, ObjectiveName
from models.objectives.question import IGNORED, Objective, Question, Vocabulary

CLS, SEP = 2, 3
IDS = torch.tensor([[CLS, 10, 11, 12, 13, 14, SEP], [CLS, 15, 16, SEP, 17, 18, SEP]])  # (B, T), each word once


def objective(name: ObjectiveName) -> Objective:
    shape = EncoderConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, max_position_embeddings=8
    )
    vocabulary = Vocabulary(20, pad=0, cls=CLS, sep=SEP, mask=4, word_start=torch.ones(20, dtype=torch.bool))
    return build(ObjectiveConfig(name), shape, vocabulary, seed=0)


def predicted(question: Question) -> torch.Tensor:
    return question.targets != IGNORED


def test_each_place_predicts_the_piece_that_follows_it():
    question = objective(ObjectiveName.clm).ask(Batch(IDS), [0, 1])
    assert torch.equal(question.batch.input_ids, IDS)
    following = IDS.gather(1, question.places + 1)
    assert torch.equal(following[predicted(question)], question.targets[predicted(question)])
    # All ordinary pieces are predicted, and no [CLS] or [SEP].
    assert question.targets.tolist() == [[10, 11, 12, 13, 14, IGNORED], [15, 16, IGNORED, 17, 18, IGNORED]]
    assert question.places.tolist() == [[0, 1, 2, 3, 4, 5]] * 2


def test_each_place_predicts_the_pieces_on_both_sides_of_it():
    """The states are those of the onward direction, then those of the backward one."""
    question, T = objective(ObjectiveName.bidirectional_lm).ask(Batch(IDS), [0, 1]), IDS.shape[1]
    onward = question.places < T
    neighbour = IDS.gather(1, torch.where(onward, question.places + 1, question.places - T - 1))
    assert torch.equal(neighbour[predicted(question)], question.targets[predicted(question)])
    assert int(predicted(question).sum()) == 2 * 9  # each of the nine words once from either side
