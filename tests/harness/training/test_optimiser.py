"""Sparse gradients of large tables, clipping, and the step: equal to torch's own with dense gradients."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from harness.config.choices import Optimizer
from harness.config.schema import FinetuneConfig, OptimiserConfig
from harness.models import config as choices
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier, build_classifier
from harness.training import resume
from harness.training.loop import Position
from harness.training.optimiser import KINDS, LEAST_ROWS, Clipped, make_optimiser, rates_by_layer, use_sparse_gradients

BLOCKS = ("attentions", "feed_forwards")
ROWS, WIDTH = LEAST_ROWS + 76, 3


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(ROWS, WIDTH, padding_idx=0), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2)).double()


def batches() -> list[torch.Tensor]:
    """Rows that come back, rows that do not, repeated ones and padding."""
    return [
        torch.tensor([[5, 5, 9, 0]]),
        torch.tensor([[9, 1, 0, 0]]),
        torch.tensor([[5, 1099, 7, 7]]),
        torch.tensor([[2, 2, 2, 3]]),
    ]


@pytest.mark.parametrize("max_norm", [0.01, 1e6], ids=["clipped", "not clipped"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_steps_are_those_of_dense_gradients_and_torchs_own_clipping(max_norm: float, accumulation: int):
    config = OptimiserConfig(learning_rate=0.1, weight_decay=0.2, max_grad_norm=max_norm)
    ours, plain = model(), model()
    use_sparse_gradients(ours)
    optimiser = make_optimiser(ours, config)
    decayed, kept = ([p for p in plain.parameters() if (p.dim() >= 2) is flag] for flag in (True, False))
    groups = [{"params": decayed, "weight_decay": 0.2}, {"params": kept, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.1, fused=False, foreach=False)
    for number, ids in enumerate(batches(), 1):
        for one in (ours, plain):
            one(ids).square().sum().backward()
        assert [one[0].weight.grad.is_sparse for one in (ours, plain)] == [True, False]
        if number % accumulation:
            continue
        optimiser.update()
        nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
        reference.step()
        reference.zero_grad()
        assert all(p.grad is None for p in ours.parameters())
    for own, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-12)


def test_rows_in_use_train_as_the_whole_table_and_are_there_when_it_is_written():
    config = OptimiserConfig(learning_rate=0.1, weight_decay=0.2, max_grad_norm=0.5)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": ROWS}
    shape = EncoderConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ours, plain = (build_classifier(shape, 2, 0).double() for _ in range(2))
    use_sparse_gradients(ours)
    optimiser, reference = make_optimiser(ours, config), make_optimiser(plain, config)
    optimiser.use_rows(ours)
    tables = [one.encoder.embeddings.token_embedding.weight for one in (ours, plain)]
    for number, ids in enumerate(batches() + batches(), 1):
        for group in optimiser.param_groups + reference.param_groups:
            group["lr"] = 0.1 / number
        for one in (ours, plain):
            one.train()(ids).square().sum().backward()
        assert tables[0].grad.is_sparse
        norms = [one.update() for one in (optimiser, reference)]
        torch.testing.assert_close(*norms, rtol=1e-9, atol=1e-12)
        if number == 3:
            assert not torch.equal(tables[0][8:1000], tables[1][8:1000])  # which nothing has looked up
            optimiser.write()
            torch.testing.assert_close(*tables, rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(*(one.eval()(torch.tensor([[5, 8]])) for one in (ours, plain)))
    assert optimiser.state_bytes == reference.state_bytes
    optimiser.finish()
    for own, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        ours.encoder.embeddings.token_embedding.weight.fill_(1.0)
    ours.train()(torch.tensor([[5, 9]]))
    assert (tables[0] == 1).all()  # the training is over


def test_only_large_tables_that_nothing_else_uses_get_sparse_gradients():
    large, small, tied = nn.Embedding(LEAST_ROWS, 2), nn.Embedding(LEAST_ROWS - 1, 2), nn.Embedding(LEAST_ROWS, 2)
    output = nn.Linear(2, LEAST_ROWS)
    output.weight = tied.weight
    use_sparse_gradients(nn.ModuleList([large, small, tied, output]))
    assert (large.sparse, small.sparse, tied.sparse) == (True, False, False)


def test_a_frozen_table_and_a_parameter_without_gradient_are_left_alone():
    one = model()
    one[0].weight.requires_grad = False
    use_sparse_gradients(one)
    optimiser = make_optimiser(one, OptimiserConfig(learning_rate=0.1))
    before = one[0].weight.clone()
    one(batches()[0]).sum().backward()
    one[1].bias.grad = None
    optimiser.update()
    assert torch.equal(one[0].weight, before)


def layered() -> SequenceClassifier:
    return build_classifier(
        EncoderConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=20), 2, 0
    )


def stepped(one: SequenceClassifier, optimiser: Clipped, steps: int) -> None:
    ids = torch.arange(1, 13).view(2, 6)
    for _ in range(steps):
        one.eval()(ids).square().sum().backward()
        optimiser.update()


@pytest.mark.parametrize("kind", Optimizer, ids=lambda kind: kind.value)
def test_every_optimizer_trains_and_resumes_as_if_it_had_not_stopped(kind, tmp_path):
    config, whole, parted = OptimiserConfig(optimizer=kind, learning_rate=0.01), layered(), layered()
    optimiser = make_optimiser(whole, config)
    assert isinstance(optimiser, KINDS[kind.value])
    stepped(whole, optimiser, 4)
    assert all(not torch.equal(p, start) for p, start in zip(whole.head.parameters(), layered().head.parameters(), strict=True))
    first, after = make_optimiser(parted, config), layered()
    stepped(parted, first, 2)
    resume.save(tmp_path, "one", Position(step=2), parted, first)
    second = make_optimiser(after, config)
    assert resume.load(tmp_path, "one", after, second).step == 2
    stepped(after, second, 2)
    for name, parameter in after.named_parameters():
        assert torch.equal(parameter, whole.get_parameter(name)), name


@pytest.mark.parametrize(("kind", "moments"), [("adamw", 2), ("sgd", 0), ("adagrad", 1)])
def test_bytes_of_the_state_are_those_of_its_moments_and_counts(kind, moments):
    one = layered()
    optimiser = make_optimiser(one, OptimiserConfig(optimizer=Optimizer[kind]))
    assert optimiser.state_bytes == 0 or kind == "adagrad"  # which begins with a state
    stepped(one, optimiser, 1)
    tensors = [p for p in one.parameters() if p.grad is not None or p in optimiser.state]
    assert optimiser.state_bytes == (4 * moments * sum(p.numel() for p in tensors) + 4 * len(tensors) if moments else 0)


@pytest.mark.parametrize("kind", Optimizer, ids=lambda kind: kind.value)
def test_averages_are_those_of_torchs_averaged_model_and_are_resumed_and_counted(kind, tmp_path):
    config = OptimiserConfig(optimizer=kind, learning_rate=0.01)
    plain, averaged, after = layered(), layered(), layered()
    optimiser, other = make_optimiser(plain, config), make_optimiser(averaged, replace(config, ema_decay=0.8))
    reference = AveragedModel(plain, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    for step in range(1, 5):
        stepped(plain, optimiser, 1)
        reference.update_parameters(plain)
        stepped(averaged, other, 1)
        if step == 2:
            resume.save(tmp_path, "one", Position(step=2), averaged, other)
    weights = sum(4 * p.numel() for p in averaged.parameters() if p in other.state)
    assert other.state_bytes == optimiser.state_bytes + weights
    resumed = make_optimiser(after, replace(config, ema_decay=0.8))
    resume.load(tmp_path, "one", after, resumed)
    stepped(after, resumed, 2)
    assert all(torch.equal(p, plain.get_parameter(name)) for name, p in averaged.named_parameters())
    for one, kept in ((averaged, other), (after, resumed)):
        kept.swap_averages()
        assert all(torch.equal(p, reference.module.get_parameter(name)) for name, p in one.named_parameters())
        kept.swap_averages()
        assert all(torch.equal(p, plain.get_parameter(name)) for name, p in one.named_parameters())


def test_muon_has_the_matrices_of_layers_and_adamw_the_rest():
    one = layered()
    optimiser = make_optimiser(one, OptimiserConfig(optimizer=Optimizer.muon, momentum=0.9))
    names = {parameter: name for name, parameter in one.named_parameters()}
    of_muon = {names[p] for group in optimiser.param_groups if group["muon"] for p in group["params"]}
    assert of_muon == {name for name in names.values() if ".layers." in name and one.get_parameter(name).dim() == 2}
    stepped(one, optimiser, 1)
    assert {tuple(sorted(optimiser.state[p])) for p, name in names.items() if name in of_muon} == {("momentum_buffer",)}
    assert {group["momentum"] for group in optimiser.param_groups if group["muon"]} == {0.9}


@pytest.mark.parametrize("position", ["disentangled", "bucketed", "relative"])
def test_muon_leaves_tables_that_layers_read_to_adamw(position):
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    shape = EncoderConfig(**sizes, position=choices.Position[position])
    one = build_classifier(shape, 2, 0)
    tables = [p for name, p in one.encoder.layers.named_parameters() if "embedding" in name or name == "bias.bias.weight"]
    groups = make_optimiser(one, OptimiserConfig(optimizer=Optimizer.muon)).param_groups
    assert tables
    assert {group["muon"] for group in groups for p in group["params"] if any(p is table for table in tables)} == {False}
    assert any(group["muon"] for group in groups)


def test_matrices_decay_and_biases_do_not_also_where_they_have_a_row_for_each_head():
    one = nn.Module()
    for name in ("weight", "r_w_bias"):
        setattr(one, name, nn.Parameter(torch.ones(2, 3)))
    groups = make_optimiser(one, OptimiserConfig(weight_decay=0.2)).param_groups
    assert {p: group["weight_decay"] for group in groups for p in group["params"]} == {one.weight: 0.2, one.r_w_bias: 0.0}


def test_rates_fall_from_layer_to_layer_down_to_the_embeddings():
    one = layered()
    rates = rates_by_layer(one, 0.5)
    groups = make_optimiser(one, OptimiserConfig(weight_decay=0.0), rates).param_groups
    factors = {names: group["rate_factor"] for group in groups for names in group["params"]}
    assert {name: factors[p] for name, p in one.named_parameters() if name.endswith("norm.weight")} == {
        "encoder.embeddings.norm.weight": 0.125,
        **{f"encoder.layers.{block}.{layer}.norm.weight": 0.5 ** (2 - layer) for block in BLOCKS for layer in (0, 1)},
    }
    assert {factors[p] for p in (*one.pooler.parameters(), *one.head.parameters())} == {1.0}


@pytest.mark.parametrize("kind", [Optimizer.adamw, Optimizer.adafactor, Optimizer.sgd], ids=lambda kind: kind.value)
def test_a_step_of_a_layer_is_that_of_the_optimizer_at_its_rate_with_the_decay_of_all(kind):
    """As in the code of arXiv:2003.10555, where the rate multiplies the decay, too."""
    ours, theirs = layered(), layered()
    optimiser = make_optimiser(
        ours, FinetuneConfig(optimizer=kind, weight_decay=0.3, max_grad_norm=1e9), rates_by_layer(ours, 0.5)
    )
    for group in optimiser.param_groups:
        group["lr"] = 0.1 * group["rate_factor"]
    stepped(ours, optimiser, 1)
    theirs.eval()(torch.arange(1, 13).view(2, 6)).square().sum().backward()
    for name, factor in {"embeddings.token_embedding": 0.125, "layers.feed_forwards.0.feed_forward.input": 0.25}.items():
        matrix = theirs.encoder.get_submodule(name).weight
        getattr(torch.optim, KINDS[kind.value].__name__)([matrix], lr=0.1 * factor, weight_decay=0.3).step()
        torch.testing.assert_close(ours.encoder.get_submodule(name).weight, matrix)


@pytest.mark.parametrize(("hidden", "inner"), [(64, 16), (64, 256)])
def test_a_step_of_muon_has_the_size_of_one_of_adamw(hidden, inner):
    """A root mean square of 0.2 times the rate, whatever the shape of the matrix (arXiv:2502.16982, section 2.2)."""
    sizes = {"hidden_size": hidden, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": inner}
    one = build_classifier(EncoderConfig(**sizes, vocab_size=20), 2, 0)
    optimiser = make_optimiser(one, OptimiserConfig(optimizer=Optimizer.muon, learning_rate=1e-3, weight_decay=0.0))
    matrices = [p for group in optimiser.param_groups if group["muon"] for p in group["params"]]
    before = [p.detach().clone() for p in matrices]
    for p in one.parameters():  # of full rank, so that every direction is stepped in
        p.grad = torch.randn_like(p)
    optimiser.update()
    for p, old in zip(matrices, before, strict=True):
        assert (p - old).square().mean().sqrt().item() == pytest.approx(0.2 * 1e-3, rel=0.2), p.shape
