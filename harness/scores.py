"""Scores of predictions, by scikit-learn and scipy. An undefined score is None, never a number."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.errors import unknown


@dataclass(frozen=True)
class Score:
    """`compute(truth, predicted)`; a regression compares numbers, the others class numbers."""

    compute: Callable[[np.ndarray, np.ndarray], float | None]
    regression: bool = False


def _accuracy(truth: np.ndarray, predicted: np.ndarray) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, predicted))


def _f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """F1 of class 1; 0 when it is never predicted, as GLUE counts it."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, predicted, zero_division=0.0))


def _matthews(truth: np.ndarray, predicted: np.ndarray) -> float:
    """0 when only one class is predicted or present, as GLUE counts it."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(truth, predicted))


def _correlation(name: str) -> Callable[[np.ndarray, np.ndarray], float | None]:
    def compute(truth: np.ndarray, predicted: np.ndarray) -> float | None:
        from scipy import stats

        if len(truth) < 2 or np.ptp(truth) == 0 or np.ptp(predicted) == 0:
            return None  # undefined where one side is constant
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.NearConstantInputWarning)
            value = float(getattr(stats, name)(truth, predicted).statistic)
        return value if np.isfinite(value) else None

    return compute


SCORES = {
    "accuracy": Score(_accuracy),
    "f1": Score(_f1),
    "matthews": Score(_matthews),
    "pearson": Score(_correlation("pearsonr"), regression=True),
    "spearman": Score(_correlation("spearmanr"), regression=True),
}


def compute(name: str, truth: np.ndarray, predicted: np.ndarray) -> float | None:
    """The score of this name, or None where it is undefined; InputError for a name that there is not."""
    if name not in SCORES:
        raise unknown("score", name, SCORES, "task.scores")
    return SCORES[name].compute(truth, predicted)
