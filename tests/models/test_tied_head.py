"""The output matrix of masked tokens is the token embedding where `tie_masked_lm_head` says so, and its own elsewhere."""

import torch

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

V, D = 20, 8


def objective(tied: bool, name: ObjectiveName = ObjectiveName.mlm) -> Objective:
    sizes = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    shape = EncoderConfig(**sizes, max_position_embeddings=8, tie_masked_lm_head=tied)
    vocabulary = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
    return build(ObjectiveConfig(name), shape, vocabulary, seed=0)


def test_a_change_of_the_embedding_reaches_a_tied_head_and_no_other():
    found = {}
    for tied in (True, False):
        made = objective(tied)
        made.encoder.embeddings.token_embedding.weight.data.fill_(1.0)
        found[tied] = bool((made.masked_head.output.weight == 1.0).all())
    assert found == {True: True, False: False}


def test_a_tied_matrix_learns_from_both_uses():
    """A piece that stands nowhere in the text learns as an output alone; untied, its embedding gets no gradient."""
    ids = torch.tensor([[2, 10, 11, 12, 13, 3]])
    gradients = {}
    for tied in (True, False):
        made = objective(tied).eval()
        made(made.make_batch(Batch(ids), [0])).backward()
        gradients[tied] = made.encoder.embeddings.token_embedding.weight.grad[19].any().item()
    assert gradients == {True: True, False: False}
