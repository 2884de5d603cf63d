"""Dropout from 16-bit draws."""

import math

import pytest
import torch

from harness.models.norms import LEVELS, Dropout, dropout

PROBABILITIES = [0.1, 0.5]
SIZE = 1 << 18


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_share_of_zeros_is_the_probability(probability):
    torch.manual_seed(0)
    zeros = (dropout(torch.ones(SIZE), probability) == 0).sum().item()
    deviation = math.sqrt(SIZE * probability * (1 - probability))
    assert abs(zeros - SIZE * probability) < 5 * deviation


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_four_elements_of_one_draw_are_independent(probability):
    """Elements 4i to 4i + 3 come from the same 64 bits: each drops as often as the others, and all together p^4 of the time."""
    torch.manual_seed(1)
    lanes = dropout(torch.ones(SIZE), probability).view(-1, 4) == 0
    draws = len(lanes)
    for count, share in [*((n, probability) for n in lanes.sum(0).tolist()), (lanes.all(1).sum().item(), probability**4)]:
        assert abs(count - draws * share) < 5 * math.sqrt(draws * share * (1 - share))


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_kept_elements_are_scaled_by_what_really_drops(probability):
    torch.manual_seed(0)
    values = torch.randn(SIZE, dtype=torch.float64)
    kept = dropout(values, probability)
    assert kept.dtype == torch.float64
    scale = 1 / (1 - round(probability * LEVELS) / LEVELS)
    torch.testing.assert_close(kept[kept != 0], values[kept != 0] * scale, rtol=1e-15, atol=0)


def test_seed_decides_the_mask():
    def drawn(seed):
        torch.manual_seed(seed)
        return dropout(torch.ones(1000), 0.5)

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))


def test_draws_of_a_compiled_model_are_the_same(monkeypatch):
    def drawn():
        torch.manual_seed(5)
        return dropout(torch.ones(4001), 0.3)

    plain = drawn()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert torch.equal(drawn(), plain)


def test_of_a_transposed_tensor_each_element_is_kept_or_zero():
    torch.manual_seed(0)
    values = torch.arange(1.0, 36.0).view(5, 7).t()
    seen = dropout(values, 0.5)
    assert seen.shape == (7, 5)
    assert ((seen == 0) | (seen == 2 * values)).all()
    assert 0 < (seen == 0).sum() < 35


def test_gradient_is_the_same_mask():
    torch.manual_seed(0)
    values = torch.full((50, 7), 2.0, requires_grad=True)
    seen = dropout(values, 0.3)
    seen.sum().backward()
    assert torch.equal(values.grad, seen.detach() / 2)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 11), (0, 4)])
def test_any_number_of_elements(shape):
    torch.manual_seed(0)
    seen = dropout(torch.ones(shape), 0.5)
    assert seen.shape == shape
    assert ((seen == 0) | (seen == 2)).all()


def test_bfloat16_stays_bfloat16():
    torch.manual_seed(0)
    seen = dropout(torch.ones(SIZE, dtype=torch.bfloat16), 0.1)
    assert seen.dtype == torch.bfloat16
    assert seen.unique().tolist() == [0, pytest.approx(1 / 0.9, rel=2**-8)]


def test_zero_probability_draws_nothing():
    values, state = torch.ones(9), torch.get_rng_state()
    assert dropout(values, 0.0) is values
    assert torch.equal(torch.get_rng_state(), state)


def test_module_is_the_identity_outside_training():
    module, values = Dropout(0.5), torch.ones(1000)
    assert (module(values) == 0).any()
    assert module.eval()(values) is values


def test_a_probability_next_to_one_stays_finite():
    torch.manual_seed(0)
    assert torch.isfinite(dropout(torch.ones(1000), 0.999999)).all()
