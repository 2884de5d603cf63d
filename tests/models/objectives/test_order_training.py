"""How ordered objectives train, what they cost, and two streams. B sequences, T tokens, K predicted positions, D hidden."""

import math
from dataclasses import dataclass

import pytest
import torch
from order_cases import (
    CAUSAL,
    LENGTH,
    LSTM,
    MAIN,
    MASK,
    PERMUTATION,
    RELATIVE,
    SEEDS,
    VOCABULARY,
    Case,
    each,
    packed,
)
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness.models.attention.relative import relative_sinusoids
from harness.models.batch import Batch
from harness.models.config import Position, Sharing
from harness.models.encoder import initialise
from harness.models.objectives.bidirectional import BidirectionalLM
from harness.models.objectives.causal import CausalLM
from harness.models.objectives.permutation import PermutationLM


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# Two streams, written out


@pytest.mark.parametrize("position", [Position.learned, Position.relative], ids=lambda position: position.value)
def test_one_row_with_queries_equals_two_streams(position):
    objective = Case(PermutationLM, {"position": position}).build()
    data = objective.make_batch(packed(), SEEDS)
    rows = objective.encoder(data.inputs)
    for row in range(len(SEEDS)):
        targets = data.inputs.position_ids[row, LENGTH:].tolist()
        content, queries = two_streams(objective, Batch(packed().input_ids[[row]], packed().token_type_ids[[row]]), targets)
        assert (rows[row, :LENGTH] - content).abs().max() <= 1e-5
        assert (rows[row, LENGTH:] - queries).abs().max() <= 1e-5


def two_streams(objective: PermutationLM, text: Batch, targets: list[int]) -> tuple[Tensor, Tensor]:
    """(T, D) of the tokens and (K, D) of the queries of the targets, in their order."""
    encoder, types = objective.encoder, text.token_type_ids[0]
    positions, asked = torch.arange(LENGTH), torch.tensor(targets)
    rank = torch.tensor([targets.index(place) + 1 if place in targets else 0 for place in range(LENGTH)])
    masks = Batch(torch.full((1, LENGTH), MASK), text.token_type_ids)
    if encoder.config.position is Position.relative:
        masks.queries = torch.ones(1, LENGTH, dtype=torch.bool)
    content, queries = encoder.embeddings(text)[0], encoder.embeddings(masks)[0, asked]
    for block, feed_forward in encoder.layers.execution_order():
        attended_content, attended_queries = [], []
        for place in range(LENGTH):
            seen = rank <= rank[place]
            keys = Tokens(content[seen], positions[seen], types[seen])
            attended_content.append(
                attended(block.attention, Tokens(content[[place]], positions[[place]], types[[place]]), keys)
            )
        for number, place in enumerate(targets):
            seen, query = rank < number + 1, Tokens(queries[[number]], positions[[place]], types[[place]])
            keys = Tokens(content[seen], positions[seen], types[seen])
            attended_queries.append(attended(block.attention, query, keys))
        content = feed_forward(block.norm(content + torch.cat(attended_content)))
        queries = feed_forward(block.norm(queries + torch.cat(attended_queries)))
    return content, queries


@dataclass
class Tokens:
    """N tokens as attention reads them."""

    hidden: Tensor  # (N, D)
    positions: Tensor  # (N,)
    types: Tensor  # (N,)


def attended(attention: torch.nn.Module, one: Tokens, keys: Tokens) -> Tensor:
    """(1, D) of one token over the keys, head by head."""
    K = attention.head_size
    relative = hasattr(attention, "content_bias")
    if relative:
        query, (key, value) = attention.query(one.hidden), attention.key_value(keys.hidden).chunk(2, dim=-1)
        distance = attention.position(relative_sinusoids(one.positions - keys.positions, keys.hidden.shape[1]))
        segment = attention.segment_embedding[(keys.types != one.types).long()]
    else:
        query = attention.query_key_value(one.hidden).chunk(3, dim=-1)[0]
        _, key, value = attention.query_key_value(keys.hidden).chunk(3, dim=-1)
    seen = []
    for head in range(attention.num_heads):
        part = slice(head * K, (head + 1) * K)
        scores = query[:, part] @ key[:, part].T
        if relative:
            scores = (query + attention.content_bias)[:, part] @ key[:, part].T
            scores = scores + (query + attention.position_bias)[:, part] @ distance[:, part].T
            scores = scores + (query + attention.segment_bias)[:, part] @ segment[:, part].T
        seen.append((scores / K**0.5).softmax(dim=-1) @ value[:, part])
    return attention.output(torch.cat(seen, dim=-1))


# How it trains


@each(MAIN)
def test_losses_and_gradients_of_micro_batches_add_up(case):
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS)
    whole = objective(data)
    whole.backward()
    gradients = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    losses = [objective(data.micro_batch(rows)) for rows in (slice(0, 1), slice(1, 3))]
    sum(losses).backward()
    torch.testing.assert_close(sum(losses), whole)
    for name, parameter in objective.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-5)


@each(MAIN)
def test_the_loss_is_the_mean_over_predictions_in_nats(case):
    objective = case.build()
    for parameter in objective.lm_head.output.parameters():
        parameter.data.zero_()
    assert objective(objective.make_batch(packed(), SEEDS)).item() == pytest.approx(math.log(VOCABULARY), rel=1e-5)


@each(MAIN)
def test_every_parameter_is_trained_under_dropout(case):
    objective = case.build(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).train()
    loss = objective(objective.make_batch(packed(), SEEDS))
    loss.backward()
    assert loss.isfinite()
    for name, parameter in objective.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(("case", "idle"), [(PERMUTATION[1], ("segment",)), (CAUSAL[5], ("mask", "segment"))], ids=str)
def test_relative_attention_without_types_leaves_segments_idle_and_without_queries_their_vector(case, idle):
    objective = case.build()
    objective(objective.make_batch(Batch(packed().input_ids), SEEDS)).backward()
    left = {name.rpartition(".")[2].partition("_")[0] for name, p in objective.named_parameters() if p.grad is None}
    assert left == set(idle)


def test_upper_lstm_layers_keep_the_columns_that_read_the_other_direction():
    objective = Case(BidirectionalLM, LSTM).build()
    objective(objective.make_batch(packed(), SEEDS)).backward()
    for there, again in objective.encoder.layers.execution_order()[1:]:
        own, other = there.weight_ih_l0.grad.chunk(2, dim=1)
        assert other.abs().max() == 0
        assert own.abs().amax(dim=0).min() > 0
        other, own = again.weight_ih_l0.grad.chunk(2, dim=1)
        assert other.abs().max() == 0
        assert own.abs().amax(dim=0).min() > 0


@pytest.mark.long
@each(MAIN)
def test_the_loss_falls(case):
    objective = case.build(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
    initialise(objective, 0.1, seed=0)
    data = objective.make_batch(packed(), SEEDS)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=2e-2)
    losses = []
    for _ in range(30):
        loss = objective(data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.75 * losses[0]


# What it costs


@pytest.mark.long
@each([*MAIN, CAUSAL[5], Case(CausalLM, {"sharing": Sharing.all, "num_hidden_groups": 1})])
def test_flops_are_those_that_torch_counts(case):
    """On the meta device, but for relative attention with given positions, which reads their extent."""
    objective = case.build()
    data = objective.make_batch(packed(), SEEDS).micro_batch(slice(0, 1))
    read = case.objective is PermutationLM and case.shape == RELATIVE
    data.inputs.token_type_ids = None  # segments are a vector a query, which the formula leaves out
    counter = FlopCounterMode(display=False)
    device = "cpu" if read else "meta"
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        objective.to(device)(data.to(device))
    assert objective.flops(LENGTH) == pytest.approx(counter.get_total_flops(), rel=0.02)
