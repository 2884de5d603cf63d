"""The warning about a pretraining that has not learned."""

import pytest

from harness import plateau


def ended(loss: float, entropy: float = 6.7) -> dict[str, float]:
    return {plateau.LOSS: loss, plateau.ENTROPY: entropy}


@pytest.mark.parametrize("loss", [7.1, 6.61, 6.44, 6.24])
def test_a_loss_near_the_unigram_entropy_is_on_the_plateau_and_the_warning_has_both(loss):
    assert plateau.is_on(ended(loss))
    assert f"masked loss {loss:.2f} nats, unigram entropy 6.70" in plateau.warning(ended(loss))


@pytest.mark.parametrize("metrics", [ended(6.2), ended(5.2), {}, {"eval/score": 0.5}, {plateau.ENTROPY: 6.7}])
def test_a_lower_loss_and_a_run_without_one_get_no_warning(metrics):
    assert not plateau.is_on(metrics)
    assert plateau.warning(metrics) is None
