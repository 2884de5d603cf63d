"""What span corruption cuts out, what its decoder reads, and its equality with T5."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import transformers
from torch import Tensor, nn
from variant_files import variant

from harness.measure import flops
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import initialise
from harness.models.huggingface import FAMILIES, config_of, with_decoder
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import refuse_misfit
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.models.objectives.span_corruption import SpanCorruption, Spans, corrupted

V, T, PAD, CLS, SEP, MASK = 90, 128, 0, 2, 3, 4
SENTINELS = tuple(range(V - 1, V - 41, -1))
VOCABULARY = Vocabulary(V, PAD, CLS, SEP, MASK, torch.ones(V, dtype=torch.bool), SENTINELS)
CONFIG = ObjectiveConfig(ObjectiveName.span_corruption)
SMALL = {"vocab_size": V, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 3}
WORDS = range(5, V - 40)


def built(shape: EncoderConfig | None = None, config: ObjectiveConfig = CONFIG, **changes: object) -> SpanCorruption:
    """In evaluation mode, with weights large enough for every dependence to show."""
    shape = replace(shape or variant("t5_full", **SMALL), **changes)
    refuse_misfit(config, shape)
    objective = SpanCorruption(config, shape, VOCABULARY)
    initialise(objective, 0.3, seed=0)
    return objective.eval()


def texts(length: int = T, rows: int = 3) -> Batch:
    """Random words in their frame, with a separator inside."""
    ids = torch.randint(WORDS.start, WORDS.stop, (rows, length), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1], ids[0, length // 2] = CLS, SEP, SEP
    return Batch(ids)


def restored(inputs: list[int], targets: list[int], sentinels: tuple[int, ...]) -> list[int]:
    """The text with each sentinel of the inputs replaced by what is behind it in the targets."""
    spans: dict[int, list[int]] = {}
    for token in targets:
        if token in sentinels:
            spans[token] = []
        else:
            spans[[*spans][-1]].append(token)
    return [token for place in inputs for token in spans.get(place, [place])]


# What is cut out


def test_the_example_of_the_paper():
    """Figure 2 of arXiv:1910.10683; the first and the last token are the frame."""
    words = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week.", "<X>", "<Y>", "<Z>"]
    x, y, z = range(10, 13)
    inputs, targets = corrupted(torch.arange(10), [1, 2, 4, 1], (x, y, z))
    assert " ".join(words[number] for number in inputs) == "Thank you <X> me to your party <Y> week."
    assert " ".join(words[number] for number in targets) == "<X> for inviting <Y> last <Z>"


@pytest.mark.parametrize("length", [8, 13, 64, T])
@pytest.mark.parametrize(("density", "mean"), [(0.15, 3.0), (0.5, 3.0), (0.9, 1.5), (0.15, 1.0), (0.02, 8.0)])
def test_inputs_and_targets_restore_the_text_and_no_two_spans_touch(length, density, mean):
    config = ObjectiveConfig(CONFIG.objective, noise_density=density, mean_noise_span_length=mean)
    sentinels = tuple(range(V + 200, V, -1))
    objective = SpanCorruption(config, variant("t5_full", **SMALL), replace(VOCABULARY, sentinels=sentinels))
    batch = texts(length, rows=20)
    data = objective.make_batch(batch, list(range(20)))
    for ids, inputs, targets in zip(
        batch.input_ids.tolist(), data.inputs.input_ids.tolist(), data.targets.tolist(), strict=True
    ):
        marks = [token for token in targets if token in sentinels]
        assert marks == [*sentinels[: len(marks)]]  # descending, from the first one
        assert [token for token in inputs if token in sentinels] == marks[:-1]
        assert [targets[0], targets[-1]] == [marks[0], marks[-1]]
        assert restored(inputs, targets, sentinels) == ids
        assert [inputs[0], inputs[-1]] == [CLS, SEP]
        for row in (inputs, targets):  # neither two spans nor two sentinels touch
            assert not any(one in sentinels and other in sentinels for one, other in pairwise(row))


@pytest.mark.parametrize(("length", "noise", "spans"), [(T, 19, 6), (514, 77, 26), (66, 10, 3), (8, 1, 1)])
def test_fifteen_percent_of_the_text_in_spans_of_three(length, noise, spans):
    counted = Spans.of(length, CONFIG)
    assert (counted.noise, counted.count) == (noise, spans)
    data = built().make_batch(texts(length), [1, 2, 3])
    assert data.inputs.input_ids.shape == (3, length - noise + spans)
    assert data.targets.shape == data.positions.shape == (3, noise + spans + 1)
    assert data.total_predictions == 3 * (noise + spans + 1)
    assert data.predictions == data.total_predictions


@pytest.mark.long
def test_every_division_into_spans_is_as_likely_as_any_other():
    spans, seeds = Spans(text=6, noise=4, count=2), range(1500)
    drawn = Counter(tuple(spans.sample(torch.Generator().manual_seed(seed))) for seed in seeds)
    assert drawn.keys() == {(1, 1, 1, 3), (1, 2, 1, 2), (1, 3, 1, 1)}
    assert all(abs(count / len(seeds) - 1 / 3) < 0.05 for count in drawn.values())  # four standard deviations


def test_a_row_follows_from_its_seed_alone():
    objective, batch = built(), texts()
    data, alone = objective.make_batch(batch, [7, 8, 9]), objective.make_batch(Batch(batch.input_ids[1:2]), [8])
    assert torch.equal(alone.inputs.input_ids, data.inputs.input_ids[1:2])
    assert torch.equal(alone.targets, data.targets[1:2])
    assert not torch.equal(objective.make_batch(batch, [8, 9, 10]).targets, data.targets)


# What is read


def test_a_target_is_predicted_from_the_inputs_and_the_targets_before_it():
    objective = built()
    data = objective.make_batch(texts(), [1, 2, 3])
    plain = objective.states(data)
    for place in (0, 4, 25):
        targets = data.targets.clone()
        targets[1, place] = WORDS.start + (targets[1, place] + 7) % len(WORDS)
        states = objective.states(replace(data, targets=targets))
        assert torch.equal(states[:, : place + 1], plain[:, : place + 1])
        assert all(
            not torch.allclose(now, before) for now, before in zip(states[1, place + 1 :], plain[1, place + 1 :], strict=True)
        )
        ids = data.inputs.input_ids.clone()
        ids[1, place + 1] = WORDS.start + (ids[1, place + 1] + 7) % len(WORDS)
        states = objective.states(replace(data, inputs=replace(data.inputs, input_ids=ids)))
        assert all(not torch.allclose(now, before) for now, before in zip(states[1], plain[1], strict=True))
        assert torch.equal(states[[0, 2]], plain[[0, 2]])


def test_held_out_loss_is_that_of_the_step():
    objective = built()
    data = objective.make_batch(texts(), [1, 2, 3])
    held_out = objective.evaluate_parts(data)["span"]
    assert held_out.loss / held_out.predictions == pytest.approx(objective(data).item(), rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["t5_full", "encoder_decoder"])
@pytest.mark.parametrize("changes", [{}, {"tie_masked_lm_head": False}, {"tie_masked_lm_head": False, "embedding_size": 8}])
def test_flops_are_those_of_the_lengths_that_are_read(name, changes):
    objective = built(variant(name, **SMALL), **changes)
    data = objective.make_batch(texts(), [1, 2, 3])
    assert flops.of_objective(objective, data, T) == pytest.approx(3 * 3 * objective.flops(T), rel=1e-3)
    assert objective.flops(T) < objective.encoder.flops(T)  # the decoder reads 26 tokens, not 128


# T5


GIVEN = {"vocab_size": V, "d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 48, "num_layers": 3, "decoder_start_token_id": PAD}
VERSION_1_1 = {"feed_forward_proj": "gated-gelu", "d_kv": 6, "num_heads": 3}


@pytest.mark.parametrize(
    ("changes", "tied"), [({}, True), (VERSION_1_1, False), (VERSION_1_1, True)], ids=["1.0", "1.1", "gated, tied"]
)
def test_logits_and_loss_equal_transformers_with_the_same_weights(changes, tied):
    reference = transformers.T5ForConditionalGeneration(
        transformers.T5Config(**GIVEN | changes, tie_word_embeddings=tied)
    ).eval()
    if not tied:
        reference.lm_head.weight = nn.Parameter(reference.lm_head.weight.detach().clone())
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.copy_((1 if parameter.dim() == 1 else 0) + 0.15 * torch.randn(parameter.shape, generator=generator))
    given = reference.config.to_dict() | {"architectures": ["T5ForConditionalGeneration"], "tie_word_embeddings": tied}
    shape = config_of(with_decoder(given))
    objective = loaded(shape, reference.state_dict())
    data = objective.make_batch(texts(), [1, 2, 3])
    ours = objective.lm_head(objective.states(data))
    theirs = reference(input_ids=data.inputs.input_ids, labels=data.targets)
    assert ours.std() > 0.05
    torch.testing.assert_close(ours, theirs.logits, rtol=0, atol=1e-5)
    assert objective(data).item() == pytest.approx(theirs.loss.item(), rel=1e-5)
    objective(data).backward()
    theirs.loss.backward()
    learnt = objective.encoder.embeddings.token_embedding.weight.grad
    assert learnt[PAD].any(), "the decoder starts with it"
    torch.testing.assert_close(learnt, reference.shared.weight.grad, rtol=0, atol=1e-6)


def test_the_start_token_has_values_of_its_own_from_the_beginning():
    assert built().encoder.embeddings.token_embedding.weight[PAD].any()


def loaded(shape: EncoderConfig, state: dict[str, Tensor]) -> SpanCorruption:
    """The objective with published weights."""
    objective = SpanCorruption(CONFIG, shape, VOCABULARY).eval()
    found = FAMILIES["t5"].tensors(state, shape)
    if not shape.tie_masked_lm_head:
        found["lm_head.output.weight"] = state["lm_head.weight"]
    missing, unexpected = objective.load_state_dict(found, strict=False)
    assert set(missing) == ({"lm_head.output.weight"} if shape.tie_masked_lm_head else set())
    assert not unexpected
    return objective


SIZES = {
    "t5-small": ({"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 2048}, 60_506_624),
    "t5-base": ({}, 222_903_552),
}


@pytest.mark.parametrize("name", SIZES)
def test_parameters_equal_the_published_count(name):
    sizes, published = SIZES[name]
    shape = variant("t5_full", "base", **sizes)
    theirs = {"d_model": shape.hidden_size, "d_ff": shape.intermediate_size, "num_heads": shape.num_attention_heads}
    with torch.device("meta"):
        ours = SpanCorruption(CONFIG, shape, VOCABULARY)
        reference = transformers.T5ForConditionalGeneration(transformers.T5Config(**theirs, num_layers=shape.depth))
    counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (ours, reference)]
    assert counts == [published, published]


# What cannot be


def test_too_few_sentinels_are_refused_with_the_number_that_is_needed():
    objective = built()
    objective.vocabulary = replace(VOCABULARY, sentinels=SENTINELS[:6])
    with pytest.raises(ValueError, match=r"needs 7 sentinels for 128 tokens, the tokenizer has 6: set tokenizer\.sentinels=7"):
        objective.make_batch(texts(), [1, 2, 3])
