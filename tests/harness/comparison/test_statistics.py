"""Hand-worked values of a few seeds."""

import math

import pytest

from harness.comparison.paired import Difference, Replicate, compare_paired, sign_flip_p, spread


def paired(before: list[float], after: list[float]) -> Difference:
    """Of fine-tunings with seeds 0, 1, ... and no pretraining."""
    sides = [{Replicate("", str(seed)): value for seed, value in enumerate(side)} for side in (before, after)]
    return compare_paired(*sides)


def test_spread_uses_the_sample_standard_deviation():
    result = spread([2.0, 4.0, 9.0])
    assert (result.n, result.mean, result.minimum, result.maximum) == (3, 5.0, 2.0, 9.0)
    assert result.sd == pytest.approx(math.sqrt((9 + 1 + 16) / 2))


def test_one_value_has_no_standard_deviation():
    assert spread([3.0]).sd is None


def test_spread_without_values_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        spread([])


def test_paired_interval_matches_the_t_table():
    result = paired([10.0, 10.0, 10.0], [11.0, 12.0, 13.0])  # differences 1, 2, 3: mean 2, sd 1; t(0.975, 2) = 4.3027
    half = 4.302653 / math.sqrt(3)
    assert result.mean == pytest.approx(2)
    assert result.interval == pytest.approx((2 - half, 2 + half), rel=1e-6)


def test_pairing_removes_what_the_seeds_share():
    result = paired([1.0, 50.0, 900.0], [2.0, 51.0, 901.0])
    assert result.interval == pytest.approx((1.0, 1.0))


def test_one_pair_has_neither_interval_nor_p():
    result = paired([1.0], [3.0])
    assert (result.mean, result.interval, result.p) == (2.0, None, None)


def test_seed_that_one_side_lacks_is_left_out():
    assert paired([1.0], [3.0, 90.0]) == paired([1.0], [3.0])
    assert paired([], [1.0]) is None


@pytest.mark.parametrize(("n", "floor"), [(3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_sign_flip_cannot_go_below_its_floor(n: int, floor: float):
    assert sign_flip_p([1.0 + index for index in range(n)]) == pytest.approx(floor)


def test_sign_flip_counts_all_patterns():
    # |sum| of +-1 +-2 +-3 is 6, 4, 2, 0 (twice over); observed 1 + 2 - 3 = 0 is reached by all, 1 - 2 + 3 = 2 by 6 of 8
    assert sign_flip_p([1.0, 2.0, -3.0]) == 1.0
    assert sign_flip_p([1.0, -2.0, 3.0]) == pytest.approx(6 / 8)


def test_sign_flip_keeps_ties_that_rounding_parts():
    assert sign_flip_p([0.1, 0.2, 0.3]) == pytest.approx(0.25)


def test_many_pairs_have_no_exact_p():
    assert sign_flip_p([1.0] * 30) is None
