"""The expected best score of a search against its number of trials (arXiv:1909.03004, section 3)."""

from collections.abc import Sequence


def expected_best(scores: Sequence[float], trials: int) -> float:
    """Expectation of the highest of `trials` independent draws from the empirical distribution of the scores, exactly.

    ValueError without a score, or for more trials than there are scores: the distribution says nothing of them.
    """
    count = len(scores)
    if not 1 <= trials <= count:
        raise ValueError(f"{trials=} must be between 1 and the {count} scores")
    return sum(
        score * ((rank / count) ** trials - ((rank - 1) / count) ** trials) for rank, score in enumerate(sorted(scores), 1)
    )
