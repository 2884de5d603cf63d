"""Replaced token detection: what the generator samples, what the encoder reads, what both share and what both learn."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.config import Activation, Body, EncoderConfig, NormPlace, Position
from harness.models.encoder import initialise
from harness.models.heads import build_classifier
from harness.models.losses import IGNORED
from harness.models.objectives.base import PretrainBatch, Vocabulary
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.masked_lm import MaskedLM
from harness.models.objectives.replaced_tokens import ReplacedTokenDetection, generator_shape, replaced, sample

V, T = 60, 24
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
SHAPE = EncoderConfig(
    vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32
)
STILL = replace(SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
VARIANTS = {
    "bert": {},
    "albert": {"embedding_size": 12, "num_hidden_groups": 1},
    "wide feed-forward": {"feed_forward_size": 96},
    "sinusoidal": {"position": Position.sinusoidal, "embedding_scale": True},
    "alibi": {"position": Position.alibi, "num_attention_heads": 2},
    "rotary": {"position": Position.rotary, "norm_place": NormPlace.pre, "gated_feed_forward": True, "type_vocab_size": 0},
    "bucketed": {"position": Position.bucketed, "hidden_act": Activation.relu},
    "deberta": {"position": Position.disentangled, "type_vocab_size": 0},
    "xlnet": {"position": Position.relative, "type_vocab_size": 0, "embedding_norm": False},
    "longformer": {"attention_window": 8, "global_tokens": 1, "type_vocab_size": 1},
    "gpt": {"causal": True},
    "untied": {"tie_masked_lm_head": False},
    "lstm": {"body": Body.lstm},
    "encoder and decoder": {"body": Body.encoder_decoder},
}


def batch(rows: int = 4, seed: int = 0) -> Batch:
    ids = torch.randint(5, V, (rows, T), generator=torch.Generator().manual_seed(seed))
    ids[:, 0], ids[:, -1] = 2, 3
    return Batch(ids, torch.zeros_like(ids), tokens=rows * T)


def detection(shape: EncoderConfig = STILL, spread: float = 0.1, **keys) -> ReplacedTokenDetection:
    made = ReplacedTokenDetection(ObjectiveConfig(ObjectiveName.rtd, **keys), shape, VOCABULARY)
    initialise(made, spread, 0)
    return made


def example(objective: ReplacedTokenDetection | MaskedLM, rows: int = 4) -> PretrainBatch:
    return objective.make_batch(batch(rows), list(range(rows)))


def always_says(objective: ReplacedTokenDetection, piece: int) -> ReplacedTokenDetection:
    """Its generator samples this token everywhere: nothing is random."""
    with torch.no_grad():
        objective.generator_head.output.bias[piece] = 80.0
    return objective


def inputs_of_encoder(objective: ReplacedTokenDetection, data: PretrainBatch) -> Tensor:
    seen: list[Tensor] = []
    hook = objective.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0].input_ids))
    objective(data)
    hook.remove()
    return seen[0]


def gradients(objective: ReplacedTokenDetection, *batches: PretrainBatch) -> dict[str, Tensor]:
    objective.zero_grad()
    for data in batches:
        objective(data).backward()
    return {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}


def test_a_token_that_the_generator_predicted_counts_as_original():
    original = torch.tensor([[2, 10, 11, 12, 3], [2, 20, 21, 22, 3]])
    places = torch.tensor([[1, 3], [0, 2]])
    targets = torch.tensor([[10, 12], [IGNORED, 21]])
    ids, labels = replaced(original, places, targets, torch.tensor([[10, 40], [41, 42]]))
    assert ids.tolist() == [[2, 10, 11, 40, 3], [2, 20, 42, 22, 3]]
    assert labels.int().tolist() == [[0, 0, 0, 1, 0], [0, 0, 1, 0, 0]]


def test_encoder_reads_what_was_sampled_and_neither_mask_nor_target():
    objective = always_says(detection(), 7)
    data = example(objective)
    clean, seen = batch().input_ids, inputs_of_encoder(objective, data)
    predicted = torch.zeros_like(clean, dtype=torch.bool)
    predicted[torch.arange(4)[:, None].expand_as(data.positions), data.positions] = data.targets != IGNORED
    assert (data.inputs.input_ids == VOCABULARY.mask).any()
    assert not (seen == VOCABULARY.mask).any()
    assert (seen[predicted] == 7).all()
    assert torch.equal(seen[~predicted], clean[~predicted])


def test_samples_follow_the_softmax_and_are_never_special():
    torch.manual_seed(0)
    logits = torch.tensor([0.0, 9.0, 1.0, 2.0]).expand(20000, 4)
    drawn = sample(logits, (1,)).bincount(minlength=4) / 20000
    expected = torch.tensor([0.0, float("-inf"), 1.0, 2.0]).softmax(dim=0)
    assert drawn[1] == 0
    assert torch.allclose(drawn, expected, atol=0.015)


def test_loss_of_chance_is_known():
    objective = detection(spread=0.0, detection_weight=50.0)
    with torch.no_grad():
        loss = objective(example(objective))
    assert loss.item() == pytest.approx(torch.tensor(float(V)).log().item() + 50 * torch.tensor(2.0).log().item(), rel=1e-5)


def test_detection_teaches_the_generator_nothing_but_the_shared_embeddings():
    found = []
    for weight in (1.0, 50.0):
        torch.manual_seed(0)
        objective = detection(detection_weight=weight)
        found.append(gradients(objective, example(objective)))
    own = [name for name in found[0] if name.startswith("generator")]
    assert own
    assert all(torch.equal(found[0][name], found[1][name]) for name in own)
    shared = "encoder.embeddings.token_embedding.weight"
    assert not torch.allclose(found[0][shared], found[1][shared])


def test_micro_batches_add_up_to_the_whole():
    objective = always_says(detection(spread=0.05), 7)
    data = example(objective)
    micro_batches = [data.micro_batch(slice(0, 1)), data.micro_batch(slice(1, 4))]
    assert sum(objective(part) for part in micro_batches).item() == pytest.approx(objective(data).item(), rel=1e-5)
    whole, parts = gradients(objective, data), gradients(objective, *micro_batches)
    assert all(torch.allclose(parts[name], whole[name], atol=1e-4, rtol=1e-4) for name in whole)


def test_embeddings_are_the_same_tensors_and_counted_once():
    objective = detection(replace(STILL, tie_masked_lm_head=False))
    ours, theirs = objective.encoder.embeddings, objective.generator.embeddings
    assert theirs.token_embedding is ours.token_embedding
    assert theirs.position_embedding is ours.position_embedding
    assert theirs.type_embedding is ours.type_embedding
    assert objective.generator_head.output.weight is ours.token_embedding.weight
    assert theirs.norm is not ours.norm
    parameters = list(objective.parameters())
    assert len({id(parameter) for parameter in parameters}) == len(parameters)
    copied = copy.deepcopy(objective)
    assert copied.generator_head.output.weight is copied.encoder.embeddings.token_embedding.weight
    assert copied.encoder.embeddings.token_embedding.weight is not ours.token_embedding.weight


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS)
def test_encoder_starts_as_that_of_a_classifier(keys: dict):
    shape = replace(SHAPE, **keys)
    objective = detection(shape, spread=shape.initializer_range)
    classifier = build_classifier(shape, 2, seed=0).encoder.state_dict()
    state = objective.state_dict()
    assert all(torch.equal(state[f"encoder.{name}"], tensor) for name, tensor in classifier.items())
    assert objective.masked_head is None


@pytest.mark.parametrize("keys", VARIANTS.values(), ids=VARIANTS)
def test_every_parameter_learns_under_dropout(keys: dict):
    objective = detection(replace(SHAPE, **keys)).train()
    found = gradients(objective, example(objective))
    silent = {name for name, _ in objective.named_parameters() if name not in found or not found[name].any()}
    assert silent == {name for name in silent if has_no_say(name, objective.encoder.config)}


def has_no_say(name: str, shape: EncoderConfig) -> bool:
    """The query of permutation, terms of a second segment, and what [CLS] alone reads in the generator's last layer."""
    if shape.position is Position.relative:
        return name.endswith(("mask_embedding", "segment_bias", "segment_embedding"))
    last = f"generator.layers.attentions.{shape.depth - 1}.attention.global_query_key_value."
    return shape.global_tokens > 0 and name.startswith(last)


def test_paper_sizes():
    base = generator_shape(EncoderConfig(), 1 / 3)  # arXiv:2003.10555, table 6
    assert (base.hidden_size, base.num_attention_heads, base.intermediate_size) == (256, 4, 1024)
    small = generator_shape(
        EncoderConfig(hidden_size=256, num_attention_heads=4, intermediate_size=1024, embedding_size=128), 0.25
    )
    assert (small.hidden_size, small.num_attention_heads, small.intermediate_size, small.embedding_width) == (64, 1, 256, 128)


NARROW = [*((name, 0.25) for name in VARIANTS), *((name, part) for name in ("bert", "alibi") for part in (1 / 3, 0.5, 0.9))]


@pytest.mark.parametrize(("name", "fraction"), NARROW)
def test_generator_is_a_narrow_variant_of_the_same_kind(name: str, fraction: float):
    """Only the number of heads decides how a fraction is rounded: two of four and of two heads see every fraction."""
    shape = replace(SHAPE, hidden_size=48, **VARIANTS[name])
    small = generator_shape(shape, fraction)
    assert small.hidden_size % small.num_attention_heads == 0
    assert abs(small.hidden_size - 48 * fraction) <= small.num_attention_heads
    assert small.feed_forward_width == pytest.approx(shape.feed_forward_width * fraction, abs=8)
    assert (small.depth, small.groups, small.embedding_width) == (shape.depth, shape.groups, shape.embedding_width)


def test_batches_are_those_of_masked_tokens_with_masks_alone():
    ours = example(detection())
    theirs = example(MaskedLM(ObjectiveConfig(), replace(SHAPE, hidden_size=16), VOCABULARY))
    assert (ours.inputs.input_ids.gather(1, ours.positions) == VOCABULARY.mask).all()
    assert not (theirs.inputs.input_ids.gather(1, theirs.positions) == VOCABULARY.mask).all()
    assert torch.equal(ours.positions, theirs.positions)
    assert torch.equal(ours.targets, theirs.targets)


def test_a_detector_that_says_never_is_mostly_right_and_finds_nothing():
    objective = always_says(detection(), 7)
    with torch.no_grad():
        objective.detection_head.output.weight.zero_()
        objective.detection_head.output.bias.fill_(-3.0)
    data = example(objective)
    changed = int((inputs_of_encoder(objective, data) != batch().input_ids).sum())
    found = objective.evaluate_parts(data)
    assert (found["detection"].correct, found["detection"].predictions) == (4 * T - changed, 4 * T)
    assert (found["replaced"].correct, found["replaced"].predictions) == (0, changed)
    assert 0 < changed < T
    assert found["replaced"].loss == pytest.approx(changed * 3.0486, rel=1e-4)  # log(1 + e^3)


def test_evaluation_of_the_detector_is_its_part_of_the_loss():
    losses = {}
    for weight in (10.0, 50.0):
        objective = always_says(detection(detection_weight=weight), 7)
        data = example(objective)
        losses[weight] = objective(data).item()
    found = objective.evaluate_parts(data)["detection"]
    assert losses[50.0] - losses[10.0] == pytest.approx(40 * found.loss / found.predictions, rel=1e-4)
