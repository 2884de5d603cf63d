"""What holds for every objective on every variant that it can train: its cost, and that micro-batches add up to the step."""

from dataclasses import replace

import pytest
import torch
from variant_files import variant
from variants import VARIANTS

from harness.measure import flops
from harness.models.batch import Batch
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.build import OBJECTIVES
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.distillation import Teacher

V, T = 90, 40
VOCABULARY = Vocabulary(V, 0, 2, 3, 4, torch.ones(V, dtype=torch.bool), tuple(range(V - 1, V - 21, -1)))
SIZES = {"vocab_size": V, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 3}
SHAPES = {name: replace(variant(name, **SIZES, pad_token_id=0), mask_decoder=False) for name in VARIANTS}
CASES = [
    (name, objective)
    for name, shape in SHAPES.items()
    for objective, kind in OBJECTIVES.items()
    if not any(kind.misfits(shape).values())
]
SAMPLES = ObjectiveName.rtd
"""Draws replacements in its forward pass, other ones for a part of the batch."""


def built(name: str, objective: ObjectiveName) -> tuple[Objective, PretrainBatch]:
    """In evaluation mode, with a batch of pairs of segments."""
    shape, config, others = SHAPES[name], ObjectiveConfig(objective, teacher="theirs"), []
    if objective is ObjectiveName.distillation:
        encoder = Encoder(shape)
        others = [Teacher(encoder, MaskedLMHead(shape, encoder.embeddings.token_embedding))]
        initialise(others[0], 0.2, seed=5)
    made = OBJECTIVES[objective](config, shape, VOCABULARY, *others)
    initialise(made, 0.2, seed=0)
    ids = torch.randint(5, V - 20, (3, T), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, 17], ids[:, -1] = 2, 3, 3
    types = (torch.arange(T) > 17).long().expand(3, -1) if made.segment_pairs else None
    return made.eval(), made.make_batch(Batch(ids, types, labels=torch.arange(3) % 2, tokens=ids.numel()), [1, 2, 3])


@pytest.mark.parametrize(("name", "objective"), [case for case in CASES if case[1] is not SAMPLES])
def test_losses_and_gradients_of_micro_batches_add_up(name, objective):
    whole, data = built(name, objective)
    whole.double()(data).backward()
    cut = built(name, objective)[0].double()
    losses = [cut(data.micro_batch(rows)) for rows in (slice(0, 1), slice(1, 3))]
    sum(losses).backward()
    torch.testing.assert_close(sum(losses), whole(data), rtol=1e-5, atol=0)
    for (parameter, one), other in zip(whole.named_parameters(), cut.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-6, msg=parameter)


@pytest.mark.long
@pytest.mark.parametrize(("name", "objective"), CASES)
def test_formula_is_what_is_counted(name, objective):
    """RuntimeError where both are more than 2 % apart."""
    assert flops.of_objective(*built(name, objective), T) > 0
