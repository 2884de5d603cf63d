"""Differences of a handful of replicates, paired by seed, and what a verdict on trained models takes, wherever one is given.

Seeds are replicates, on two levels: pretrainings, and the fine-tunings that start from each. The fine-tunings of one
pretraining share its luck, so that they are one cluster: intervals are over the means of the clusters (a nested model; why it
matters: Multi-Bootstrap, arXiv:2106.16163). No bootstrap: over a handful of seeds its intervals are far too narrow.

`python -m reports`, `pick`, `gate` and `python -m harness audit` decide by these rules, of scores and held-out losses. What is
counted is exact and needs none; times have a noise floor of their own.
"""

import bisect
import enum
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr, stdtrit

from harness.metrics import FEWEST_REPLICATES

Key = TypeVar("Key")
Value = TypeVar("Value")
Numbers = npt.NDArray[np.float64]
CONFIDENCE = 0.95
EXACT_LIMIT = 14
"""Largest number of pairs for which all sign patterns are tried."""
ROUNDING = 1e-9
"""Share of a difference below which a scatter is that of floating point."""
HALVINGS = 50
"""Halvings of the range in which p is searched."""


class Replicate(NamedTuple):
    """The seeds of a run, by which replicates of arms are paired."""

    pretrain_seed: str  # empty without pretraining
    seed: str


NO_SEED = Replicate("", "any seed")
"""Replicate of a score that no seed changes."""

Values = Mapping[Replicate, float]


class Design(enum.StrEnum):
    """What is replicated in a comparison; the value names the unit of n."""

    SEEDS = "seeds"  # of both arms the same: pairs
    RUNS = "runs"  # of either arm its own: nothing pairs
    ITEMS = "items"  # of one run of each arm: nothing is known of another run
    TASKS = "tasks"  # of one run of each arm: pairs


@dataclass(frozen=True)
class Spread:
    """Values of one metric over seeds; `sd` (n - 1 in the denominator) is None for a single value."""

    n: int
    mean: float
    sd: float | None
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Difference:
    """Mean of the paired differences after - before; its standard error and all that follows are None for a single pair.

    `pretrainings` counts the clusters among the `n` pairs: 0 where neither side was pretrained. `freedom` is that of
    Student's t, `p` that of the exact sign-flip test. `independent` counts what varies freely: pairs or clusters, None
    where both levels do. `of` says what `n` counts.
    """

    n: int
    mean: float
    error: float | None
    p: float | None = None
    pretrainings: int = 0
    freedom: float = 0.0
    independent: int | None = None
    items: float = 0.0
    of: Design = Design.SEEDS

    @property
    def replicates(self) -> int:
        """Number of pairs or clusters; if both levels of seeds vary, of the level with fewer."""
        return self.independent or math.floor(self.freedom) + 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's t interval of the mean."""
        return self.interval_at(CONFIDENCE)

    def interval_at(self, confidence: float) -> tuple[float, float] | None:
        """Student's t interval at another confidence."""
        if self.error is None:
            return None
        half = self._half_interval(confidence)
        return self.mean - half, self.mean + half

    def _half_interval(self, confidence: float) -> float:
        """Replicates and items each by their own quantile: it is never too narrow (Banerjee, Sankhya A 23, 1961)."""
        of_replicates = t_quantile(self.freedom, confidence) * self.replicates_error
        return math.hypot(of_replicates, ndtri((1 + confidence) / 2) * self.items) if self.items else of_replicates

    @property
    def sd(self) -> float:
        """Scatter of single pairs."""
        return self.replicates_error * math.sqrt(self.independent or 1)

    @property
    def replicates_error(self) -> float:
        """The part of the error that is that of the replicates."""
        error = self.error or 0.0
        return math.sqrt(max(0.0, error**2 - self.items**2)) if self.items else error

    def with_items(self, error: float) -> "Difference":
        """The difference with this standard error over the items added to its error; a single pair has no error."""
        return self if self.error is None else replace(self, error=math.hypot(self.error, error), items=error)

    def t_test_p(self, against: float = 0.0, side: int = 0) -> float:
        """p of the t test against a mean of `against`: two-sided, or for the true mean above (1) or below (-1) it.

        1 where nothing scatters or there is one pair: then there is nothing to test by.
        """
        if not self.error:
            return 1.0
        distance = self.mean - against
        if self.items:
            both = smallest_p(lambda p: self._half_interval(1 - p) <= abs(distance))
        else:
            both = float(2 * stdtr(self.freedom, -abs(distance) / self.error))
        if not side:
            return both
        return both / 2 if side * distance > 0 else 1 - both / 2


def smallest_p(settles: Callable[[float], bool]) -> float:
    """The smallest p at which a test settles, as it does at all larger ones."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high


def spread(values: Sequence[float]) -> Spread:
    """Count, mean, sample standard deviation and range; ValueError without values."""
    if not values:
        raise ValueError("a spread needs at least one value")
    sd = math.sqrt(variance(values)) if len(values) > 1 else None
    return Spread(len(values), math.fsum(values) / len(values), sd, min(values), max(values))


def variance(values: Sequence[float]) -> float:
    """Sample variance of two values or more."""
    n, mean = len(values), math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (n - 1)


def with_seeds(several: Sequence[Values]) -> list[Values]:
    """The values of each, where what no seed changes has its value with every seed of the others."""
    seeded = next((values for values in several if NO_SEED not in values), several[0])
    return [dict.fromkeys(seeded, values[NO_SEED]) if NO_SEED in values else values for values in several]


def pair(before: Iterable[Replicate], after: Iterable[Replicate]) -> list[tuple[Replicate, Replicate]]:
    """(before, after) of the same seeds; where one side was not pretrained, of the same fine-tuning seed.

    A score that no seed changes is paired with every other one.
    """
    earlier, later = list(before), list(after)
    is_pretrained = [all(one.pretrain_seed for one in of) for of in (earlier, later)]
    if NO_SEED not in (*earlier, *later) and is_pretrained[0] == is_pretrained[1]:
        known = set(earlier)
        return [(one, one) for one in later if one in known]
    return [(one, other) for other in later for one in earlier if one.seed == other.seed or NO_SEED in (one, other)]


def compare_paired(before: Values, after: Values) -> Difference | None:
    """Mean difference and its error, with fine-tunings of one pretraining as one cluster; None without a pair."""
    pairs = pair(before, after)
    if not pairs:
        return None
    seeds = [(one.pretrain_seed or other.pretrain_seed, other.seed) for one, other in pairs]
    differences = [after[other] - before[one] for one, other in pairs]
    pretrainings = len({pretrain_seed for pretrain_seed, _ in seeds if pretrain_seed})
    if pretrainings < 2:
        return replace(of_differences(differences), pretrainings=pretrainings)
    means = group_means([pretrain_seed for pretrain_seed, _ in seeds], differences)
    shared = len({seed for _, seed in seeds}) < len(seeds) and any(one != other for one, other in pairs)
    if not shared or NO_SEED in (*before, *after):
        return replace(of_differences(means), n=len(pairs), pretrainings=pretrainings)
    error, freedom = _crossed_error(means, group_means([seed for _, seed in seeds], differences))
    return Difference(len(pairs), spread(means).mean, error, None, pretrainings, freedom)


def of_differences(differences: Sequence[float]) -> Difference:
    """The mean of independent differences; ValueError without any."""
    over = spread(differences)
    if over.sd is None:
        return Difference(1, over.mean, None, independent=1)
    tied = over.sd <= ROUNDING * max(1e-3, abs(over.minimum), abs(over.maximum))
    error = 0.0 if tied else over.sd / math.sqrt(over.n)
    return Difference(over.n, over.mean, error, sign_flip_p(differences), freedom=over.n - 1, independent=over.n)


def compare_independent(before: Values, after: Values) -> Difference | None:
    """The difference of two means, of runs that do not pair (Welch, Biometrika 34, 1947); None without values.

    A single run of either arm leaves it without an error.
    """
    if not before or not after:
        return None
    sides = [spread([*values.values()]) for values in (before, after)]
    mean, count = sides[1].mean - sides[0].mean, sum(side.n for side in sides)
    errors = [side.sd**2 / side.n for side in sides if side.sd is not None]
    if len(errors) < 2:
        return Difference(count, mean, None, of=Design.RUNS)
    freedoms = [side.n - 1 for side in sides]
    total = sum(errors)
    freedom = total**2 / sum(error**2 / own for error, own in zip(errors, freedoms, strict=True)) if total else min(freedoms)
    return Difference(count, mean, math.sqrt(total), None, freedom=freedom, of=Design.RUNS)


CLOCK = 1e-6
"""Share of a time or a loss that is certainly resolved: equal ratios are no ties of coarse steps."""


def scattered(difference: Difference, step: float) -> Difference:
    """At least the scatter that rounding to a step leaves: two values, each uniform within one."""
    if difference.error is None or difference.independent is None:
        return difference
    return replace(difference, error=max(difference.error, step / math.sqrt(6 * difference.independent)))


def group_means(names: Sequence[str], values: Sequence[float]) -> list[float]:
    """The mean of the values of each name, in the order in which names first come."""
    return [math.fsum(group) / len(group) for group in grouped(zip(names, values, strict=True)).values()]


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Key -> its values, in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def by_pretraining(values: Mapping[Replicate, float]) -> list[float]:
    """The mean of every pretraining where there are several, else the values of the seeds."""
    seeds = [one.pretrain_seed for one in values]
    return group_means(seeds, list(values.values())) if len(set(seeds)) > 1 else list(values.values())


def replicates(seeds: Iterable[Replicate]) -> int:
    """Number of independent replicates: pretrainings if there are several, else seeds."""
    return len(by_pretraining(dict.fromkeys(seeds, 0.0)))


def _crossed_error(of_pretrainings: list[float], of_seeds: list[float]) -> tuple[float | None, float]:
    """Error of a mean that varies with the pretraining, and with the fine-tuning that all pretrainings are compared with.

    The two variances are added, which counts a part of the noise twice, with Satterthwaite's degrees of freedom, which come
    second, but no more than those of the smaller number of means: a large variance of two means may seem small. None where one
    fine-tuning seed does not show its own variance.
    """
    if len(of_seeds) < 2:
        return None, 0.0
    errors = [(variance(values) / len(values), len(values) - 1) for values in (of_pretrainings, of_seeds)]
    total = sum(error for error, _ in errors)
    if total == 0:
        return 0.0, len(of_seeds) - 1
    satterthwaite = total**2 / sum(error**2 / freedom for error, freedom in errors)
    return math.sqrt(total), min(satterthwaite, *(freedom for _, freedom in errors))


@functools.cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t."""
    return float(stdtrit(freedom, (1 + confidence) / 2))


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """Two-sided p: the share of all sign patterns whose mean is at least as far from 0; None above EXACT_LIMIT pairs."""
    if len(differences) > EXACT_LIMIT:
        return None
    signs = np.indices((2,) * len(differences)).reshape(len(differences), -1) * 2 - 1
    sums, observed = np.abs(np.asarray(differences, dtype=float) @ signs), abs(math.fsum(differences))
    return float(np.mean(sums >= observed - 1e-9 * max(observed, 1e-300)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's factors: adjusted p = factor x p, so that at most one in twenty families of tests holds a false difference.

    A p that is 0 stays 0. Its interval is consistent at a confidence of 1 - (1 - CONFIDENCE) / factor. Holm, Scandinavian
    Journal of Statistics 6, 1979.
    """
    factors, highest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        left = len(p_values) - rank
        highest = max(highest, left * p_values[place])
        factors[place] = highest / p_values[place] if p_values[place] else float(left)
    return factors


LEVEL = 1 - CONFIDENCE

FEWEST_PAIRS, MOST_PAIRS = 2, 1000
"""Beyond this no number of pairs is computed that would resolve a margin."""


def fewest(fits: Callable[[int], bool], least: int = 0) -> int:
    """The smallest number of pairs, from `least` up, for which the monotonic `fits` holds; MOST_PAIRS + 1 if it is larger."""
    least = max(FEWEST_PAIRS, least)
    return least + bisect.bisect_left(range(least, MOST_PAIRS + 1), True, key=fits)


ASSUMED_SCORE = 0.8
"""Score at which items are counted where no earlier run says one."""
POWER = 0.8
"""How often a difference shall be shown, or an equal arm pass, for what is advised."""


@functools.lru_cache(maxsize=65536)
def quantiles(factor: float, looks: float, n: int | None = None) -> tuple[float, float]:
    """Half intervals of the test of a difference and of that of equivalence, for n pairs of a standard deviation of 1.

    Without n for a known standard error of 1, as that over the items.
    """
    shares = np.array([1 - LEVEL / looks / factor / 2, 1 - LEVEL / looks])
    different, same = ndtri(shares) if n is None else stdtrit(n - 1, shares) / math.sqrt(n)
    return float(different), float(same)


def no_study(replicates: int) -> str:
    """Why so few replicates support no verdict; empty for enough of them."""
    if replicates >= FEWEST_REPLICATES:
        return ""
    return f"only {replicates} seed{'s' * (replicates != 1)}; verdicts need {FEWEST_REPLICATES}"


CORRELATIONS = ("matthews", "pearson", "spearman")
"""Scores from -1 to 1; all others are shares of items, from 0 to 1, or are taken for such."""


class Tells(enum.Enum):
    """What a task can say of two arms."""

    EVERYTHING = ""
    NO_EQUALITY = "both arms are at ceiling"
    NOTHING = "neither arm is shown to beat the majority baseline"


def ends(headline: str | None) -> tuple[float, float]:
    """Smallest and largest value of a score."""
    return (-1.0 if headline in CORRELATIONS else 0.0), 1.0


def item_error(score: float, items: float, headline: str | None = None) -> float:
    """Standard error of a score over the validation items.

    Binomial, with two items more on either side (Agresti and Coull, The American Statistician 52, 1998), so that it is not
    0 for a perfect score; for a correlation the usual (1 - r^2) / sqrt(n - 1), for Matthews', which has two classes,
    sqrt((1 - r^2) / (n - 1)), at least one item.
    """
    share = (min(max(score, 0.0), 1.0) * items + 2) / (items + 4)
    binomial = math.sqrt(share * (1 - share) / (items + 4))
    if headline in CORRELATIONS:
        least, left = 1 / (items + 4), 1 - score**2
        return max((math.sqrt(left) if headline == "matthews" else left) / math.sqrt(max(1.0, items - 1)), least)
    return binomial


STATED = "eval/rows"
"""As many rows as a score counts as, by the error that another tool states."""


def rows_with(score: float, error: float, headline: str | None = None) -> float:
    """As many rows as leave a score with this error (`item_error`)."""
    if headline in CORRELATIONS:
        left = 1 - score**2
        return max(1 + (left if headline == "matthews" else left**2) / error**2, 1 / error - 4)
    return _rows(score * (1 - score), error)


def score_interval(score: float, half: float, headline: str | None = None, items: float | None = None) -> tuple[float, float]:
    """Wilson's interval (Journal of the American Statistical Association 22, 1927) of as many items as have this half interval.

    It holds the score and never leaves what a score can be. `half` is of the normal or Student's t interval, of `item_error`
    and whatever else scatters; `items`: as many rows as the score counts, by default those that have this error (`rows_of`).
    """
    least, most = ends(headline)
    share, size = (score - least) / (most - least), half / (most - least)
    if size == 0:
        return score, score
    one = _one(share, size, items)
    centre, reach = share + one / 2, math.sqrt(one * (max(0.0, share * (1 - share)) + one / 4))
    low, high = (least + (most - least) * (centre + side * reach) / (1 + one) for side in (-1, 1))
    return max(least, low), min(most, high)  # the last digit of a float


def half_of(score: float, low: float, high: float, headline: str | None) -> float:
    """The half interval of which `score_interval` makes this one, from its width, and at most all that a score can be."""
    least, most = ends(headline)
    share, width = (score - least) / (most - least), min((high - low) / (most - least), 1 - ROUNDING)
    a, b = width**2 - 1, 2 * width**2 - 4 * share * (1 - share)
    expected = (-b - math.sqrt(b**2 - 4 * a * width**2)) / (2 * a)
    return (most - least) * smallest_p(lambda size: _one(share, size) >= expected)


def _one(share: float, size: float, items: float | None = None) -> float:
    """A quantile squared over the number of items that have this half interval around this share of them."""
    error = size / float(ndtri((1 + CONFIDENCE) / 2))
    rows = items or _rows(share * (1 - share), error)
    middle = (share * rows + 2) / (rows + 4)  # as `item_error` has it
    return size**2 / (middle * (1 - middle) * rows / (rows + 4))


def _rows(variance: float, error: float) -> float:
    """How many items of this variance have this error over them, where one more or less counts."""
    return max(variance / error**2, 1 / error)


def items_error(before: float, after: float, items: Sequence[float], headline: str | None = None, apart: float = 1.0) -> float:
    """Standard error of the difference of two scores on the same items; `apart`: the share of the scatter not common to both.

    `items`: as many rows as each side counts (`rows_of`). Without predictions nothing is known to be common: `apart` is 1, the
    largest that it is for arms that err on the same items.
    """
    each = zip((before, after), items, strict=True)
    return math.sqrt(apart) * math.hypot(*(item_error(score, count, headline) for score, count in each))


def influence_error(influences: Numbers, one: float) -> float:
    """Standard error over the items of a score, or of a difference, that each moves so far (`influences.of_score`)."""
    return math.hypot(float(np.linalg.norm(influences)), one) / len(influences)


def rows_of(measured: Mapping[str, float], headline: str | None) -> float | None:
    """Number of rows whose share scatters as a score does over the validation items; None where their number is unknown.

    As many as a stated error implies; else all of them for accuracy; for F1 and Matthews' correlation, as many as its recorded
    interval implies. A run of F1 without one: labelled and predicted rows of the class, as many as the score of the majority
    baseline says, over 2 - F1.
    """
    if STATED in measured:
        return measured[STATED]
    items = measured.get("eval/examples")
    is_share = headline != "matthews" and "f1" not in str(headline) and not str(headline).startswith("entity")
    is_share &= "eval/accuracy_by_piece" not in measured  # of minimal pairs: a mean over paradigms of unlike sizes
    score, low, high = (measured.get(f"eval/{headline}{end}") for end in ("", "_low", "_high"))
    if items is None or is_share or "eval/exact_match" in measured:
        return items
    # its ends are equal where the class neither occurs nor is predicted
    if score is not None and low is not None and high is not None and low < high:
        variance = (1 - score**2) if headline == "matthews" else score * (1 - score)
        return _rows(variance, half_of(score, low, high, headline) / 1.96)
    constant, own = measured.get("eval/majority_score"), measured.get("eval/score", 0.0)
    if headline != "f1" or not constant or score not in (None, own):
        return items
    return 2 * items * constant / (2 - constant) / (2 - own)


def share_apart(before: Numbers, after: Numbers) -> float:
    """Share of the scatter over items that two arms do not have in common, from the scores of each item: (seeds, items) each.

    The variance of the differences of single items, means over seeds, over that of single runs. One item more or less counts.
    """
    items = before.shape[1]
    common = items * float(np.var(before, axis=1).mean() + np.var(after, axis=1).mean())
    return float(min(1.0, (items * float(np.var(np.mean(after - before, axis=0))) + 1) / (common + 1)))


def over_tasks(errors: Sequence[float]) -> float:
    """Standard error over the items of a mean over tasks with independent items."""
    return math.hypot(*errors) / max(1, len(errors))


def tells_of_tasks(each: Sequence[Tells]) -> Tells:
    """What several tasks say together: that of the most informative one."""
    return next((one for one in Tells if one in each), Tells.EVERYTHING)


def beats_constant(scores: Sequence[float], constant: float, item: float = 0.0) -> bool:
    """Whether scores of independent replicates are shown to be better than the majority baseline (one-sided t test at 5 %).

    `item`: their standard error over the items. One score, or equal ones without it, must be better.
    """
    difference = of_differences(scores).with_items(item)
    if not difference.error:
        return difference.mean > constant
    return difference.t_test_p(constant, 1) <= LEVEL


def tells(
    before: Sequence[float],
    after: Sequence[float],
    constant: float | None,
    margin: float,
    items: Sequence[float | None] = (None, None),
    headline: str | None = None,
) -> Tells:
    """What a task says of two arms by the scores of their replicates; `constant` is that of the majority baseline.

    Both solve it if the rest up to a perfect score could be the margin, or less: then nothing can be better by the margin.
    `items`: as many rows as each side counts (`rows_of`), by which a quality of 1 - margin has an error.
    """

    def error(score: float, count: float | None) -> float:
        return item_error(score, count, headline) if count else 0.0

    sides = [(side, fmean(side), count) for side, count in zip((before, after), items, strict=True)]
    if constant is not None and not any(beats_constant(side, constant, error(mean, count)) for side, mean, count in sides):
        return Tells.NOTHING
    rooms = [margin + float(ndtri(CONFIDENCE)) * error(1 - margin, count) for _, _, count in sides]
    solved = [1 - mean <= room * (1 + 1e-9) for (_, mean, _), room in zip(sides, rooms, strict=True)]
    return Tells.NO_EQUALITY if all(solved) else Tells.EVERYTHING
