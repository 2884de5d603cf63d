"""A student and its teacher: what the student takes over, and what leaves the teacher as it is."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, Position
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedLMHead
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch, Vocabulary
from harness.models.objectives.config import MatchedLayers, ObjectiveConfig, ObjectiveName
from harness.models.objectives.distillation import Distillation, Teacher, matched, relation_loss, soft_loss
from harness.models.objectives.masked_lm import MaskedLM

V, T = 60, 24
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
SHAPE = EncoderConfig(
    vocab_size=V, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, max_position_embeddings=32
)
STILL = replace(SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
VARIANTS = {
    "bert": {},
    "albert": {"embedding_size": 12, "num_hidden_layers": 3, "num_hidden_groups": 1},
    "rotary": {"position": Position.rotary, "type_vocab_size": 0},
    "lstm": {"body": Body.lstm},
    "untied": {"tie_masked_lm_head": False},
}


LAYERS = {"soft_weight": 0.0, "masked_weight": 0.0, "cosine_weight": 0.0, "hidden_weight": 1.0, "relation_weight": 1.0}
"""What is learned from a teacher without a masked-LM head."""


def teacher(seed: int = 5, **keys) -> Teacher:
    """With dropout in its shape, which it must not run."""
    shape = replace(SHAPE, num_hidden_layers=2, **keys)
    encoder = Encoder(shape)
    made = Teacher(encoder, MaskedLMHead(shape, encoder.embeddings.token_embedding))
    initialise(made, 0.2, seed)
    return made


def batch(rows: int = 4) -> Batch:
    ids = torch.randint(5, V, (rows, T), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 2, 3
    return Batch(ids, torch.zeros_like(ids), tokens=rows * T)


def student(shape: EncoderConfig = STILL, taught_by: Teacher | None = None, **keys) -> Distillation:
    config = ObjectiveConfig(ObjectiveName.distillation, teacher="theirs", **keys)
    made = Distillation(config, shape, VOCABULARY, teacher() if taught_by is None else taught_by)
    initialise(made, 0.1, 0)
    return made


def example(objective: Distillation | MaskedLM, rows: int = 4) -> PretrainBatch:
    return objective.make_batch(batch(rows), list(range(rows)))


def gradients(objective: Distillation, *batches: PretrainBatch) -> dict[str, Tensor]:
    objective.zero_grad()
    for data in batches:
        objective(data).backward()
    return {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}


def trained(objective: Distillation, steps: int) -> list[float]:
    """The losses of so many steps on one data."""
    data = example(objective)
    optimiser = torch.optim.AdamW(objective.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        loss = objective(data)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_teacher_is_neither_a_parameter_nor_saved():
    objective = student()
    alone = MaskedLM(ObjectiveConfig(), STILL, VOCABULARY)
    assert [name for name, _ in objective.named_parameters()] == [name for name, _ in alone.named_parameters()]
    assert list(objective.state_dict()) == list(alone.state_dict())
    assert not any(parameter.requires_grad for parameter in objective.teacher.parameters())


def test_teacher_moves_and_is_copied_with_the_student():
    objective = student()
    moved = copy.deepcopy(objective).to("meta")
    assert {parameter.device.type for parameter in moved.teacher.parameters()} == {"meta"}
    assert {parameter.device.type for parameter in objective.teacher.parameters()} == {"cpu"}
    assert {parameter.dtype for parameter in copy.deepcopy(objective).double().teacher.parameters()} == {torch.float64}


def test_student_equal_to_the_teacher_has_only_the_masked_lm_loss():
    theirs = teacher()
    objective = student(replace(STILL, num_hidden_layers=2), theirs, masked_weight=0.0)
    objective.encoder.load_state_dict(theirs.encoder.state_dict())
    objective.masked_head.load_state_dict(theirs.head.state_dict())
    assert objective(example(objective)).item() == pytest.approx(0, abs=1e-5)
    with torch.no_grad():
        objective.encoder.embeddings.token_embedding.weight.mul_(1.5)
    assert objective(example(objective)).item() > 0.01


def test_masked_part_is_the_masked_lm_loss():
    objective = student(soft_weight=0.0, cosine_weight=0.0, masked_weight=2.0)
    alone = MaskedLM(ObjectiveConfig(), STILL, VOCABULARY)
    alone.load_state_dict(objective.state_dict())
    assert objective(example(objective)).item() == pytest.approx(2 * alone(example(alone)).item(), rel=1e-6)


def test_soft_loss_is_the_divergence_from_the_teacher_at_a_temperature():
    ours, theirs = torch.randn(2, 3, V, generator=torch.Generator().manual_seed(0)), torch.zeros(2, 3, V)
    theirs[..., 7] = 3.0
    used = torch.tensor([[True, True, False], [True, False, False]])
    p, q = (theirs[used] / 2).softmax(dim=-1), (ours[used] / 2).softmax(dim=-1)
    assert soft_loss(ours, theirs, used, 2.0).item() == pytest.approx(4 * (p * (p / q).log()).sum().item(), rel=1e-5)


def test_cosine_part_is_the_mean_over_all_tokens():
    theirs = teacher()
    objective = student(taught_by=theirs, soft_weight=0.0, masked_weight=0.0, cosine_weight=3.0)
    data = example(objective)
    hidden, taught = objective.encoder(data.inputs), theirs.encoder(data.inputs)
    expected = (1 - F.cosine_similarity(hidden, taught, dim=-1)).mean()
    assert objective(data).item() == pytest.approx(3 * expected.item(), rel=1e-5)


def test_loss_is_the_weighted_sum_of_three():
    weights = {"soft_weight": 5.0, "masked_weight": 2.0, "cosine_weight": 1.0}
    theirs, nothing = teacher(), dict.fromkeys(weights, 0.0)
    alone = [student(taught_by=theirs, **(nothing | {name: weight})) for name, weight in weights.items()]
    data = example(alone[0])
    losses = [objective(data).item() for objective in alone]
    assert min(losses) > 0
    assert student(taught_by=theirs, **weights)(data).item() == pytest.approx(sum(losses), rel=1e-5)


def test_unused_slots_have_no_say():
    objective = student(cosine_weight=0.0)
    data = example(objective)
    wider = replace(data, positions=F.pad(data.positions, (2, 0)), targets=F.pad(data.targets, (2, 0), value=IGNORED))
    assert objective(wider).item() == pytest.approx(objective(data).item(), rel=1e-5)


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("weights", [{}, LAYERS | {"relation_weight": 0.0}], ids=["predictions", "layers"])
def test_every_parameter_learns_under_dropout(keys: dict, weights: dict):
    objective = student(replace(SHAPE, **keys), teacher(hidden_size=48 if weights else 32), **weights).train()
    found = gradients(objective, example(objective))
    assert {name for name, _ in objective.named_parameters()} == {name for name in found if found[name].any()}


def test_neither_student_nor_teacher_reads_the_targets():
    objective = student(masked_share=1.0, random_share=0.0)
    data = example(objective)
    seen: list[Tensor] = []
    for encoder in (objective.encoder, objective.teacher.encoder):
        encoder.embeddings.register_forward_pre_hook(lambda _, given: seen.append(given[0].input_ids))
    objective(data)
    assert len(seen) == 2
    assert all((ids.gather(1, data.positions) == VOCABULARY.mask)[data.targets != IGNORED].all() for ids in seen)


def test_a_teacher_with_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match=r"pretrain\.teacher=theirs has a vocabulary of 70 tokens, not model\.vocab_size=60"):
        student(taught_by=teacher(vocab_size=70))


def test_vectors_of_another_size_are_refused_unless_not_compared():
    wide = teacher(hidden_size=48)
    with pytest.raises(ValueError, match=r"has a hidden size of 48, not model\.hidden_size=32: set pretrain\.cosine_weight=0"):
        student(taught_by=wide)
    objective = student(taught_by=wide, cosine_weight=0.0)
    assert objective(example(objective)).isfinite()


@pytest.mark.parametrize("layers", MatchedLayers)
def test_hidden_part_is_the_error_at_the_same_share_of_the_depth(layers: MatchedLayers):
    theirs = teacher()
    weights = LAYERS | {"relation_weight": 0.0, "hidden_weight": 3.0}
    objective = student(replace(STILL, num_hidden_layers=1), theirs, **weights, matched_layers=layers)
    data = example(objective)
    ours, taught = objective.encoder.hidden_states(data.inputs), theirs.encoder.hidden_states(data.inputs)
    pairs = [(ours[0], taught[0]), (ours[1], taught[2])][-1 if layers is MatchedLayers.last else 0 :]
    expected = 3 * sum((one - other).square().mean() for one, other in pairs) / len(pairs)
    assert objective(data).item() == pytest.approx(expected.item(), rel=1e-5)


def test_layers_are_matched_from_the_embeddings_to_the_last():
    assert matched(4, 7, MatchedLayers.all) == [(0, 0), (1, 2), (2, 4), (3, 6)]
    assert matched(5, 7, MatchedLayers.all) == [(0, 0), (1, 2), (2, 3), (3, 4), (4, 6)]
    assert matched(7, 4, MatchedLayers.last) == [(6, 3)]
    assert matched(1, 4, MatchedLayers.all) == [(0, 0)]


def test_relation_loss_is_the_divergence_of_three_attentions():
    """Each element by itself: student of 6 features, teacher of 8, two heads."""
    generator = torch.Generator().manual_seed(0)
    ours, theirs = (torch.randn(2, 5, 3 * width, generator=generator) for width in (6, 8))
    total = 0.0
    for row in range(2):
        for token in range(5):
            for vectors in range(3):
                for head in range(2):
                    p, q = (distribution(made[row], token, vectors, head) for made in (theirs, ours))
                    total += (p * (p / q).log()).sum().item() / 6
    assert relation_loss(ours, theirs, 2).item() == pytest.approx(total, rel=1e-5)


def distribution(projected: Tensor, token: int, vectors: int, head: int) -> Tensor:
    width = projected.shape[-1] // 6
    start = vectors * 2 * width + head * width
    mine = projected[:, start : start + width]
    return torch.stack([mine[token] @ other / width**0.5 for other in mine]).softmax(dim=0)


def test_relations_are_those_of_the_queries_keys_and_values_of_the_last_layer():
    theirs = teacher()
    objective = student(replace(STILL, num_hidden_layers=3), theirs, **LAYERS | {"hidden_weight": 0.0, "relation_weight": 2.0})
    data, projected = example(objective), []
    for encoder in (objective.encoder, theirs.encoder):
        *_, before, _ = encoder.hidden_states(data.inputs)
        projected.append(encoder.layers.attentions[-1].attention.query_key_value(before))
    expected = 2 * relation_loss(*projected, 2) / before[..., 0].numel()
    assert objective(data).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("weights", [LAYERS, LAYERS | {"relation_weight": 0.0}, LAYERS | {"hidden_weight": 0.0}])
def test_a_copy_of_the_teacher_has_nothing_to_learn(weights: dict):
    theirs = teacher()
    objective = student(replace(STILL, num_hidden_layers=2), theirs, **weights)
    objective.encoder.load_state_dict(theirs.encoder.state_dict())
    assert objective(example(objective)).item() == pytest.approx(0, abs=1e-6)
    with torch.no_grad():
        objective.encoder.embeddings.token_embedding.weight.mul_(1.5).add_(torch.randn(V, 32) / 10)
    assert objective(example(objective)).item() > 1e-4


@pytest.mark.long
def test_layers_are_learned_from_plain_text_without_a_head():
    objective = student(**LAYERS)
    assert objective.masked_head is None
    assert objective.teacher.head is None
    assert torch.equal(example(objective).inputs.input_ids, batch().input_ids)
    losses = trained(objective, 30)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("keys", "weights", "message"),
    [
        ({}, LAYERS | {"hidden_weight": 0.0, "relation_weight": 0.0}, r"are all 0: nothing is learned"),
        ({"body": Body.lstm}, LAYERS, r"which model\.body=lstm with position=learned does not have in one projection"),
        ({"position": Position.disentangled}, LAYERS, r"position=disentangled does not have in one projection"),
        ({"hidden_size": 30, "num_attention_heads": 3}, LAYERS, r"4 heads, which do not divide the 30 features"),
    ],
)
def test_what_cannot_be_compared_is_refused(keys: dict, weights: dict, message: str):
    with pytest.raises(ValueError, match=message):
        student(replace(STILL, **keys), teacher(num_attention_heads=4), **weights)
