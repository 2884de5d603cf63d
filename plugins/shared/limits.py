"""Limits and targets that are typed as METRIC=NUMBER."""

import difflib
import math
from collections.abc import Sequence

from harness import metrics
from harness.errors import FEW, InputError, unknown

RANGES = {"score": (-1.0, 1.0), "share": (0.0, 1.0)}
"""Unit -> its smallest and largest value; from 0 to infinity for all others."""


def metric_and_number(key: str, text: str, names: Sequence[str], usual: Sequence[str]) -> tuple[str, float]:
    """The metric, one of `names`, and a number in its base units.

    InputError, which names the `key`, for an unknown metric, no finite number, and one outside the range of the metric.
    The choices are the nearest metrics of the same group, such as `eval/`, or the `usual` ones.
    """
    name, equals, number = text.partition("=")
    if not equals:
        example = "model/params_total=20e6" if key == "at_most" else "eval/score=0.8"
        raise InputError(f"{key}={text!r}: expected METRIC=NUMBER, such as {example}")
    if name not in names:
        group = f"{name.partition('/')[0]}/"
        choices = [one for one in names if one.startswith(group)] or usual
        error = unknown("metric", name, difflib.get_close_matches(name, choices, n=FEW, cutoff=0), key)
        raise InputError(f"{error} and {len(choices) - FEW} more") if len(choices) > FEW else error
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{key}={text!r}: {number!r} must be a number in base units, such as 0.8 or 20e6")
    least, most = RANGES.get(metrics.get(name).unit, (0.0, math.inf))
    if not least <= value <= most:
        expected = f"between {least:g} and {most:g}" if math.isfinite(most) else f"at least {least:g}"
        raise InputError(f"{key}={text!r}: {name} must be {expected}")
    return name, value
