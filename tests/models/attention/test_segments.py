"""Segment-level recurrence (arXiv:1901.02860). B sequences, T tokens, D hidden, L layers, S tokens a segment, M of memory."""

import pytest
import torch
from torch import Tensor
from variant_files import variant

from harness.measure import flops
from harness.measure.flops import Shape
from harness.models.attention.relative import relative_sinusoids
from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Pooling, Position
from harness.models.encoder import Encoder, initialise, without_values
from harness.models.keys import refuse_underived
from harness.models.reach import receptive_field

LENGTH = 13
SIZES = [(4, 4), (4, 2), (4, 6), (4, 8), (3, 7), (4, 0), (5, 13), (1, 1), (20, 4)]
"""(S, M): equal as published, a shorter and a longer memory, none, all of it, and a segment longer than the text."""
each_size = pytest.mark.parametrize(("segment", "memory"), SIZES)


def shape(segment: int | None, memory: int = 0, **changes) -> EncoderConfig:
    sizes = {"vocab_size": 60, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 40}
    relative = {"position": Position.relative, "causal": True, "type_vocab_size": 0, "attention_bias": False}
    return EncoderConfig(**{**sizes, **relative, "segment_length": segment, "memory_length": memory, **changes})


def built(segment: int | None, memory: int = 0, **changes) -> Encoder:
    """With weights large enough for every part of a score to matter, outside training."""
    encoder = Encoder(shape(segment, memory, **changes)).double().eval()
    initialise(encoder, 0.3, seed=0)
    return encoder


def ids(rows: int = 2, length: int = LENGTH) -> Tensor:
    return torch.randint(1, 60, (rows, length), generator=torch.Generator().manual_seed(0))


def assert_near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def recurrent(encoder: Encoder, text: Tensor, segment: int, memory: int) -> Tensor:
    """(T,) -> (T, D) as the paper says it: one segment after the other, which leaves a memory a layer for the next one."""
    memories, outputs = [torch.zeros(0, 24, dtype=torch.float64) for _ in encoder.layers.execution_order()], []
    for part in text.split(segment):
        hidden = encoder.embeddings(Batch(part[None]))[0]
        for layer, (block, feed_forward) in enumerate(encoder.layers.execution_order()):
            keys = torch.cat([memories[layer], hidden])  # (M + S, D)
            rows = [attended(block.attention, keys[: len(memories[layer]) + place + 1]) for place in range(len(hidden))]
            memories[layer] = keys[len(keys) - min(memory, len(keys)) :].detach()
            hidden = feed_forward(block.norm(hidden + torch.stack(rows)))
        outputs.append(hidden)
    return torch.cat(outputs)


def attended(attention: torch.nn.Module, keys: Tensor) -> Tensor:
    """(D,) of the last token over all keys (N, D), score by score (arXiv:1901.02860, section 3.3)."""
    query, size, joined = attention.query(keys[-1]), attention.head_size, []
    for head in range(attention.num_heads):
        part, scores = slice(head * size, (head + 1) * size), []
        for place in range(len(keys)):
            key = attention.key_value(keys[place]).chunk(2)[0][part]
            distance = relative_sinusoids(torch.tensor([len(keys) - 1 - place]), keys.shape[1])[0].double()
            by_content = (query + attention.content_bias)[part] @ key
            by_position = (query + attention.position_bias)[part] @ attention.position(distance)[part]
            scores.append((by_content + by_position) / size**0.5)
        values = torch.stack([attention.key_value(one).chunk(2)[1][part] for one in keys])
        joined.append(torch.stack(scores).softmax(dim=0) @ values)
    return attention.output(torch.cat(joined))


@pytest.mark.long
@each_size
def test_states_and_gradients_are_those_of_the_published_recurrence(segment, memory):
    encoder, text = built(segment, memory), ids(1)
    direction = torch.randn(LENGTH, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for run in (lambda: encoder(text)[0], lambda: recurrent(encoder, text[0], segment, memory)):
        encoder.zero_grad()
        states = run()
        (states * direction).sum().backward()
        results.append((states.detach(), {name: p.grad.clone() for name, p in encoder.named_parameters()}))
    (ours, gradients), (theirs, expected) = results
    assert_near(ours, theirs)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=0, atol=1e-8, msg=name)


@pytest.mark.parametrize("mask", ["padding", "pairs"])
def test_masks_are_cut_to_segments(mask):
    real = torch.arange(LENGTH) < torch.tensor([LENGTH, 6])[:, None]
    seen = real if mask == "padding" else real[:, None, :] & (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH) < 6)
    together = Batch(ids(), attention_mask=seen)
    segments, whole = built(4, LENGTH)(together), built(None)(together)
    assert_near(segments[real], whole[real])


def test_explicit_positions_equal_the_order_of_the_text():
    encoder, places = built(4, 6), torch.arange(LENGTH).expand(2, -1)
    assert_near(encoder(Batch(ids(), position_ids=places + 5)), encoder(ids()))


def test_no_gradient_flows_into_the_memory():
    encoder = built(4, 4)
    embedded = encoder.embeddings(Batch(ids())).detach().requires_grad_()
    *_, last = encoder.layers(embedded, Batch(ids()))
    (gradient,) = torch.autograd.grad(last[:, 8:12].sum() + last[:, 8:12].square().sum(), embedded)
    reached = gradient.abs().amax(dim=(0, 2)) > 0
    assert reached.tolist() == [8 <= place < 12 for place in range(LENGTH)]
    changed = ids()
    changed[:, 7] = changed[:, 7] % 59 + 1
    assert not torch.allclose(encoder(changed)[:, 8:12], last[:, 8:12], atol=1e-3)  # though it is read


@each_size
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_receptive_field_is_as_far_as_a_change_is_seen(segment, memory, layers):
    encoder, length = built(segment, memory, num_hidden_layers=layers), 40
    text, places = ids(1, length), torch.arange(length)
    changed = text.repeat(length, 1)
    changed[places, places] = text[0] % 59 + 1
    seen = (encoder(changed) - encoder(text)).abs().amax(dim=-1) > 1e-12  # (changed token, token)
    assert torch.equal(seen, seen.triu())
    farthest = int((seen * (places - places[:, None])).max())
    field = receptive_field(encoder.config)
    assert (farthest, field.leftwards) == (min(field.rightwards, length - 1), 0)
    if memory % segment == 0:
        assert field.rightwards == segment - 1 + layers * memory


@pytest.mark.long
@each_size
@pytest.mark.parametrize("length", [1, 4, 13, 16])
def test_flops_formula_equals_the_count(segment, memory, length):
    config = shape(segment, memory, pooling=Pooling.last)
    count = flops.counted(Shape(config, 2, 3, length), backward=False)
    assert count == flops.formula(Shape(config, 2, 3, length))


@pytest.mark.parametrize(
    ("layers", "hidden", "inner", "million"),
    [(12, 512, 2048, 41), (24, 1024, 3072, 277)],
)
def test_as_many_parameters_as_published(layers, hidden, inner, million):
    """Those of enwik8, whose 204 characters need no adaptive softmax (arXiv:1901.02860, table 2)."""
    published = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 8, "intermediate_size": inner}
    config = variant("transformer_xl", **published, vocab_size=204)
    with without_values():
        assert round(sum(one.numel() for one in Encoder(config).parameters()) / 1e6) == million


def test_a_causal_model_has_no_tensors_for_pairs_and_permutations():
    names = {name for name, _ in built(4, 4).named_parameters()}
    assert not [name for name in names if "segment" in name or "mask_embedding" in name]
    pairs = {name for name, _ in Encoder(shape(None, causal=False)).named_parameters()}
    assert len(pairs - names) == 1 + 3 * 2
    assert names < pairs


def test_weights_for_pairs_of_texts_do_not_become_causal():
    with pytest.raises(ValueError, match=r"model\.causal with position=relative"):
        refuse_underived(shape(None, 0, causal=False), shape(None, 0))
