"""Which keys an objective reads, by its loss, is what the schema states."""

from dataclasses import replace

import pytest
import torch

from harness.config.rules import unread_by
from harness.config.schema import PretrainConfig, RunConfig
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import OBJECTIVES, build
from harness.models.objectives.config import Masking, MatchedLayers, ObjectiveName
from harness.models.objectives.distillation import Teacher

V, T = 60, 24
SENTINELS = tuple(range(59, 49, -1))
SHAPE = EncoderConfig(
    vocab_size=V,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
SHAPES = {
    ObjectiveName.clm: {"causal": True},
    ObjectiveName.span_corruption: {"body": Body.encoder_decoder},
    ObjectiveName.bidirectional_lm: {"body": Body.lstm},
    ObjectiveName.cbow: {"body": Body.static},
}
OTHER = {
    "mask_rate": 0.4,
    "masking": Masking.word,
    "masked_share": 0.5,
    "random_share": 0.2,
    "noise_density": 0.4,
    "mean_noise_span_length": 1.0,
    "generator_fraction": 0.5,
    "detection_weight": 5.0,
    "predicted_share": 0.5,
    "temperature": 4.0,
    "soft_weight": 1.0,
    "masked_weight": 1.0,
    "cosine_weight": 3.0,
    "hidden_weight": 2.0,
    "matched_layers": MatchedLayers.last,
    "relation_weight": 1.0,
    "context": 1,
}
"""Key -> another value than its default."""
CASES = [(name, {"masked_share": 0.7} if name is ObjectiveName.rtd else {}) for name in OBJECTIVES]
CASES += [(ObjectiveName.distillation, {"soft_weight": 0.0, "masked_weight": 0.0, "hidden_weight": 1.0})]
CASES += [(ObjectiveName.mlm, {"masking": Masking.span})]


def loss(options: PretrainConfig) -> float:
    shape = replace(SHAPE, **SHAPES.get(options.objective, {}))
    words = torch.arange(V) % 2 == 0
    vocabulary = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=words, sentinels=SENTINELS)
    ids = torch.randint(5, 50, (8, T), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, T // 2], ids[:, -1] = 2, 3, 3
    types = (torch.arange(T) > T // 2).long().repeat(8, 1)
    teacher = None
    if options.objective is ObjectiveName.distillation:
        encoder = Encoder(shape)
        teacher = Teacher(encoder, MaskedLMHead(shape, encoder.embeddings.token_embedding))
        initialise(teacher, 0.2, 5)
    objective = build(options, replace(shape, initializer_range=0.2), vocabulary, 0, teacher).eval()
    batch = objective.make_batch(Batch(ids, types, tokens=ids.numel()), [*range(8)])
    torch.manual_seed(0)  # of what a generator samples
    with torch.no_grad():
        return float(objective(replace(batch, inputs=replace(batch.inputs, labels=torch.arange(8) % 2))))


@pytest.mark.long
@pytest.mark.parametrize(("name", "keys"), CASES)
def test_a_key_changes_the_loss_where_it_is_read(name, keys):
    options = PretrainConfig(objective=name, **keys)
    before, different = loss(options), set()
    for key, value in (OTHER | ({"mean_span": 1.0} if keys.get("masking") is Masking.span else {})).items():
        changed = replace(options, **{key: value})
        if loss(changed) != before:
            different.add(key)
    read = {key for key in OTHER | {"mean_span": 1.0} if f"pretrain.{key}" not in unread_by(RunConfig(pretrain=options))}
    assert different == read
