"""Who must solve a generated task, who cannot, and where theory is silent; a rule over the variant's shape, no list of names.

`cannot` holds for every training: what decides does not get into the pooled vector, or not in a usable form. `solves` says
that a construction exists and that the budget was seen to be enough.
"""

import enum
import math
from dataclasses import dataclass

from harness.config.choices import TrainedOn
from harness.config.schema import GrammarConfig, RunConfig
from harness.tasks.synthetic import FAMILIES, theory_of
from harness.tasks.synthetic.base import Theory
from harness.tasks.synthetic.receptive_field import is_linear, is_order_free, travels
from models.config import Body, Pooling

DEVIATIONS = 3
"""Binomial standard errors above the best score without what decides that still count as that score."""

PART_OF_THE_WAY = 0.75
"""Where `solves` begins, between the best score without what decides and the ceiling."""


class Verdict(enum.Enum):
    """What theory says of a variant on a task."""

    solves = "solves"
    cannot = "cannot"
    open = "open"


@dataclass(frozen=True)
class Expectation:
    """A verdict with its reason and its bars: `cannot` is at or below `low`, `solves` at or above `high`."""

    verdict: Verdict
    reason: str
    low: float
    high: float
    chance: float
    ceiling: float


def expectation(config: RunConfig) -> Expectation | None:
    """For the cell's variant on its task; None where the task is not generated."""
    grammar = config.task.grammar
    if grammar is None:
        return None
    theory = theory_of(grammar)
    verdict, reason, without = _judge(config, grammar, theory)
    rows = min(filter(None, (grammar.validation_examples, config.data.validation_examples)))
    low = without + DEVIATIONS * math.sqrt(without * (1 - without) / rows)
    high = without + PART_OF_THE_WAY * (theory.ceiling - without)
    if verdict is Verdict.cannot and low >= high:
        verdict, reason = Verdict.open, f"{rows} validation rows are too few to tell {reason}"
    return Expectation(verdict, reason, round(low, 4), round(high, 4), theory.chance, theory.ceiling)


def _judge(config: RunConfig, grammar: GrammarConfig, theory: Theory) -> tuple[Verdict, str, float]:
    """Verdict, reason, and the best score without what the verdict turns on."""
    model = config.model
    reach, least, most = travels(model, theory)
    if reach < least:
        return Verdict.cannot, f"reaches {reach:.0f} tokens, what decides is {_range(least, most)} away", theory.unreached
    order_free, linear = is_order_free(model), is_linear(model)
    best = theory.linear if linear else theory.bag
    if order_free and best is not None and best < theory.ceiling:
        kind = "a weighted count of words" if linear else "a bag of words"
        return Verdict.cannot, f"{kind}, which gives {best:.3g} at best", best
    doubt = _doubt(config, theory)
    return Verdict.open if doubt else Verdict.solves, doubt or _how(config, theory), theory.unreached


def _doubt(config: RunConfig, theory: Theory) -> str | None:
    """Why it is not said that the variant solves the task; None where it is."""
    model, task = config.model, config.task
    reach, _, most = travels(model, theory)
    if theory.tokens > task.max_length:
        return f"rows of up to {theory.tokens} tokens are cut at task.max_length={task.max_length}"
    if model.body is Body.static and model.pooling is Pooling.max:
        return "the maximum of static vectors says which words there are, not how many"
    if model.body is Body.static and theory.linear is None:
        return "a mean of static vectors holds what decides, but faintly"
    if not math.isinf(reach) and not is_order_free(model) and config.tokenizer.trained_on is not TrainedOn.task:
        return f"reaches {reach:.0f} tokens, and a word may be several where the tokenizer is not trained on the task"
    if not is_order_free(model) and reach < most:
        return f"reaches {reach:.0f} tokens, in some rows what decides is up to {most} away"
    if model.body is Body.transformer and model.depth < theory.layers:
        return f"{model.depth} layer{'s' * (model.depth > 1)} where the known construction has {theory.layers}"
    return _doubt_of_budget(config, not math.isinf(reach) and not is_order_free(model) and most > reach / model.depth)


def _doubt_of_budget(config: RunConfig, relayed: bool) -> str | None:
    """`relayed`: what decides is farther than one layer reaches, and must be passed on from layer to layer."""
    family = FAMILIES[config.task.grammar.rule]
    needed, given = family.relayed_steps if relayed else family.steps, _planned_steps(config)
    if needed is None:
        way = " when passed on from layer to layer" if relayed else ""
        return f"a construction exists, no budget was seen to be enough to learn it{way}"
    return f"{given} steps, fewer than the {needed} that were seen to be enough" if given < needed else None


def _how(config: RunConfig, theory: Theory) -> str:
    reach, _, most = travels(config.model, theory)
    if is_order_free(config.model):
        return "a weighted count of words is enough" if is_linear(config.model) else "a bag of words is enough"
    return "sees all that decides" + ("" if math.isinf(reach) else f": up to {most} tokens away, reaches {reach:.0f}")


def _planned_steps(config: RunConfig) -> int:
    rows = min(filter(None, (config.task.grammar.train_examples, config.data.train_examples)))
    return config.finetune.planned_steps(rows)


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def tags(config: RunConfig) -> dict[str, str]:
    """What a run tells the tracking store of what is expected of it; empty where theory has no say."""
    expected = expectation(config)
    if expected is None:
        return {}
    bars = {"low": expected.low, "high": expected.high, "chance": expected.chance, "ceiling": expected.ceiling}
    told = {f"expected_{name}": f"{value:.4g}" for name, value in bars.items()}
    return {"expected": expected.verdict.value, "expected_reason": expected.reason, **told}
