"""A token from the mean of its neighbours: which tokens are in it."""

import torch

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.losses import IGNORED
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

V, CONTEXT = 40, 2
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
IDS = torch.tensor([[2, 10, 11, 12, 13, 14, 15, 3]])


def test_a_mean_is_that_of_the_ordinary_tokens_to_each_side_without_its_own():
    shape = EncoderConfig(vocab_size=V, hidden_size=8, body=Body.static, num_attention_heads=2, intermediate_size=8)
    objective = build(ObjectiveConfig(ObjectiveName.cbow, context=CONTEXT, mask_rate=0.9), shape, VOCABULARY, 0).eval()
    batch = objective.make_batch(Batch(IDS, torch.zeros_like(IDS), tokens=IDS.numel()), [0])
    with torch.no_grad():
        vectors, means = objective.encoder(batch.inputs)[0], objective.vectors(batch)[0]
    used = batch.targets[0] != IGNORED
    assert used.sum() == 6
    for position, mean in zip(batch.positions[0][used].tolist(), means[used], strict=True):
        near = [at for at in range(position - CONTEXT, position + CONTEXT + 1) if 1 <= at <= 6 and at != position]
        torch.testing.assert_close(mean, vectors[near].mean(dim=0))
