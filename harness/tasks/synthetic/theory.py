"""Whether a variant can solve a generated task, derived from the config of its encoder.

`cannot` holds for any training: the pooled vector does not depend on the deciding words, or only through a bag of words.
`solves`: a construction is known, and the training budget was sufficient in practice. `open`: theory does not decide.
"""

import enum
import math
from dataclasses import dataclass

from harness.config.choices import TrainedOn
from harness.config.schema import RunConfig
from harness.errors import present
from harness.models.config import Body, EncoderConfig, Pooling, Position
from harness.models.reach import depends_on_order, receptive_field
from harness.tasks.synthetic.families import FAMILIES, Theory, theory_of

DEVIATIONS = 3
"""A score within this many binomial standard errors of the best score of a model that cannot solve the task is such a score."""

SOLVED_SHARE = 0.75
"""`solves` requires this share of the difference between that best score and the ceiling."""


class Verdict(enum.Enum):
    """The prediction of theory for a variant on a task."""

    solves = "solves"
    cannot = "cannot"
    open = "open"


@dataclass(frozen=True)
class Expectation:
    """A verdict with its reason and thresholds: `cannot` scores at most `low`, `solves` at least `high`."""

    verdict: Verdict
    reason: str
    low: float
    high: float
    chance: float
    ceiling: float


def expectation(config: RunConfig) -> Expectation | None:
    """What the run's variant can reach on its task; None where the task is not generated."""
    grammar = config.task.grammar
    if grammar is None:
        return None
    theory = theory_of(grammar)
    verdict, reason, baseline = _judge(config, theory)
    rows = min(filter(None, (grammar.validation_examples, config.data.validation_examples)))
    low = baseline + DEVIATIONS * math.sqrt(baseline * (1 - baseline) / rows)
    high = baseline + SOLVED_SHARE * (theory.ceiling - baseline)
    if verdict is Verdict.cannot and low >= high:
        verdict, reason = Verdict.open, f"{rows} validation rows are too few to show that it cannot: it {reason}"
    return Expectation(verdict, reason, round(low, 4), round(high, 4), theory.chance, theory.ceiling)


def _judge(config: RunConfig, theory: Theory) -> tuple[Verdict, str, float]:
    """Verdict, reason, and the best score of a variant that cannot solve the task."""
    model = config.model
    reach, least, most = reach_and_distance(model, theory)
    if reach < least:
        distance = f"{least}" if least == most else f"{least} to {most}"
        reason = f"sees {reach:.0f} tokens to each side; the deciding words are {distance} away"
        return Verdict.cannot, reason, theory.unreached
    order_free, linear = is_order_free(model), is_linear(model)
    best = theory.linear if linear else theory.bag
    if order_free and best is not None and best < theory.ceiling:
        kind = "a weighted count of words" if linear else "a bag of words"
        return Verdict.cannot, f"is {kind}, whose expected score is at most {best:.3g}", best
    doubt = _why_open(config, theory)
    return Verdict.open if doubt else Verdict.solves, doubt or _why_solved(config, theory), theory.unreached


def _why_open(config: RunConfig, theory: Theory) -> str | None:
    """Why theory does not decide; None where the variant solves the task."""
    model, task = config.model, config.task
    reach, _, most = reach_and_distance(model, theory)
    limited = not math.isinf(reach) and not is_order_free(model)
    if theory.tokens > task.max_length:
        return f"rows have up to {theory.tokens} tokens and are cut at task.max_length={task.max_length}"
    if model.body is Body.static and model.pooling is Pooling.max:
        return "the maximum of static vectors shows which words occur, not how often"
    if model.body is Body.static and theory.linear is None:
        return "a mean of static vectors dilutes the deciding word; theory does not say whether that is learned"
    if model.body is Body.static and model.pooler is None and not is_linear(model) and theory.linear != theory.ceiling:
        return "norms extend static vectors beyond a weighted count of words; theory does not say how far"
    if limited and config.tokenizer.trained_on is not TrainedOn.task:
        reason = "a word may be several tokens: the tokenizer is not trained on the task"
        return f"sees {reach:.0f} tokens to each side, and {reason}"
    if limited and reach < most:
        return f"sees {reach:.0f} tokens to each side; in some rows the deciding words are up to {most} away"
    if model.body is Body.transformer and model.depth < theory.layers:
        return f"{model.depth} layer{'s' * (model.depth > 1)}; the known construction has {theory.layers}"
    return _why_budget_is_open(config, relayed=limited and most > reach / model.depth)


def _why_budget_is_open(config: RunConfig, relayed: bool) -> str | None:
    """`relayed`: the deciding words are outside of the window of one layer, so their information passes through several."""
    grammar = present(config.task.grammar)
    family = FAMILIES[grammar.rule]
    required = family.relayed_steps if relayed else family.steps
    planned = config.finetune.planned_steps(min(filter(None, (grammar.train_examples, config.data.train_examples))))
    if config.finetune.seconds is not None:
        return "the number of steps of a budget in seconds is unknown"
    if required is None:
        through = " through several layers" if relayed else ""
        return f"a construction exists, but no budget is known to suffice for learning it{through}"
    return f"{planned} steps, fewer than the {required} known to suffice" if planned < required else None


def _why_solved(config: RunConfig, theory: Theory) -> str:
    reach, _, most = reach_and_distance(config.model, theory)
    if is_order_free(config.model):
        return "a weighted count of words is enough" if is_linear(config.model) else "a bag of words is enough"
    limit = "" if math.isinf(reach) else f", up to {most} tokens away, as it sees {reach:.0f} to each side"
    return f"reaches all deciding words{limit}"


def tags(config: RunConfig) -> dict[str, str]:
    """Tags of a run that state its expected result; empty where the task is not generated."""
    expected = expectation(config)
    if expected is None:
        return {}
    thresholds = {f"expected_{name}": f"{getattr(expected, name):.4g}" for name in ("low", "high", "chance", "ceiling")}
    return {"expected": expected.verdict.value, "expected_reason": expected.reason, **thresholds}


def reach_and_distance(model: EncoderConfig, theory: Theory) -> tuple[float, int, int]:
    """Receptive field of the pooled vector in tokens, and the minimum and maximum distance of the deciding words from it.

    Mean and max pooling read every token: there one token between the deciding words that reaches all of them is enough. Where
    a word is labelled, the field is that of its own vector.
    """
    reach = receptive_field(model)
    if theory.to_right is not None:
        return reach.leftwards, theory.to_right.least, theory.to_right.most
    if model.pooling is Pooling.cls:
        return math.inf if reach.hub else reach.leftwards, theory.to_first.least, theory.to_first.most
    if model.pooling is Pooling.last:
        return reach.rightwards, theory.to_last.least, theory.to_last.most
    return reach.leftwards + reach.rightwards, 0, theory.span


def is_order_free(model: EncoderConfig) -> bool:
    """Whether the pooled vector is invariant to the order of the words.

    Without positions attention is permutation-invariant, unless it is causal or windowed. The mean of static vectors with
    added positions is the sum of two bags, unless a norm mixes word and position first.
    """
    if depends_on_order(model):
        return False
    adds_positions = model.position in (Position.learned, Position.sinusoidal)
    if model.body is Body.static and model.pooling is Pooling.mean:
        return not (adds_positions and model.embedding_norm)
    return not adds_positions and (model.body is not Body.static or model.pooling is Pooling.max)


def is_linear(model: EncoderConfig) -> bool:
    """Whether the logits are a weighted count of words: the mean of static vectors with a linear classifier.

    A norm of the mean is not linear in it. A norm of word and type together weighs a word in each sentence anew.
    """
    normed = model.pooler_norm or (model.embedding_norm and model.type_vocab_size > 1)
    plain = model.pooler is None and not normed
    return is_order_free(model) and model.body is Body.static and model.pooling is Pooling.mean and plain
