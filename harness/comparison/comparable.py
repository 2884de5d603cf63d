"""Which runs may be compared, and in what.

Runs meet in a comparison where their conditions agree: all facts but those of the arm (`arms.py`). Even then a loss by token
is not meaningful across vocabularies, nor one of masked tokens where another head predicts them; times compare within a session
alone (`launches.py`), and never what the clock of one training says (`metrics.Compared.OWN_CLOCK`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.comparison import arms
from harness.comparison.paired import grouped
from harness.comparison.plateau import MASKED, PROBE
from harness.comparison.runs import Run
from harness.metrics import PER_TOKEN, has_one_vocabulary

OF_OPTIMISER = ("pretrain.",)
OF_PRETRAINING = (*OF_OPTIMISER, "corpus.", "facts.text", "tokenizer.trained_on")
"""Settings, or groups of them, without effect on a run that was not pretrained here, if its tokenizer is read from a file."""
SERVED = ("measure.backend", "measure.precision")
"""Settings of measuring that scores depend on."""


def conditions(runs: Sequence[Run], lifted: Mapping[str, Iterable[str]]) -> dict[str, arms.Facts]:
    """Run id -> the facts that must agree for a comparison; `lifted`: task -> keys that belong to its arms.

    Settings of a pretraining are none of a run that had none, nor those of measuring of one with `measure=none`: it takes those
    of the runs of its task that have them and with which it agrees in all else, if these agree.
    """
    facts = {run.run_id: arms.conditions(run.facts, lifted[run.task]) for run in runs}
    others = {}
    for run_id, own in facts.items():
        # a tokenizer that is trained reads the text, with or without pretraining
        reads_text = own.get("facts.tokenizer_file", "None") in arms.NO_FILE
        others[run_id] = _without(own, OF_OPTIMISER if reads_text else OF_PRETRAINING)
    facts = _filled(runs, facts, others, lambda run: run.origin is not None or run.is_pretraining)
    scored = {run_id: _without(own, ("measure.",), SERVED) for run_id, own in facts.items()}
    return _filled(runs, facts, scored, lambda run: run.is_measured)


def _without(own: arms.Facts, groups: Iterable[str], kept: Iterable[str] = ()) -> arms.Known:
    left_out = arms.members(tuple(own), tuple(groups))
    return arms.known({key: value for key, value in own.items() if key in kept or key not in left_out})


def _filled(
    runs: Sequence[Run], facts: dict[str, arms.Facts], others: Mapping[str, arms.Known], has: Callable[[Run], bool]
) -> dict[str, arms.Facts]:
    having = grouped(((run.task, others[run.run_id]), facts[run.run_id]) for run in runs if has(run))
    agreed = {key: each[0] for key, each in having.items() if len({arms.known(own) for own in each}) == 1}
    return facts | {run.run_id: agreed.get((run.task, others[run.run_id]), facts[run.run_id]) for run in runs if not has(run)}


def why_not(name: str, before: Iterable[Run], after: Iterable[Run]) -> str:
    """Why runs under the same conditions are not comparable in a metric; empty if they are."""
    before, after = list(before), list(after)
    if name in PER_TOKEN and not has_one_vocabulary(run.params for run in (*before, *after)):
        return "per-token values cannot be compared across vocabularies: tokenizer=wordpiece gives both the same one"
    if name in MASKED and heads_of(before) != heads_of(after):
        return "masked tokens of one arm are predicted by a probe"
    return ""


def heads_of(runs: Iterable[Run]) -> set[float]:
    """Steps that the probes of these pretrainings were trained for; 0 stands for the objective's own head."""
    return {run.metrics[PROBE] for run in runs if PROBE in run.metrics}


def have_probes(runs: Iterable[Run]) -> bool:
    """Whether a probe answers for any of these pretrainings."""
    return any(heads_of(runs))
