"""What a reader must know of pretraining: what was predicted how, on which text and budget, and what starts from it."""

from collections.abc import Callable, Iterable

from reports import formats
from reports.compare import Comparison, Row, Section
from reports.formats import escape
from reports.notes import listed
from reports.store import Run

LOSS, ACCURACY, UNIGRAM = "pretrain/masked_loss", "pretrain/masked_accuracy", "pretrain/unigram_entropy"
PROBE, OVERLAP = "pretrain/probe_steps", "corpus/overlap"
COLUMNS = ("model/params_total", "pretrain/tokens", "pretrain/flops", "pretrain/duration_s", "pretrain/tokens_per_s")
COLUMNS += ("pretrain/peak_memory_bytes", LOSS, ACCURACY)
"""Of the before/after table; `pretrain/loss` is an objective's own and compares with no other."""
BUDGETS = {"tokens": "tokens", "steps": "steps", "flops": "FLOP", "seconds": "s"}
"""Key of a budget -> its unit."""
UNSET = ("None", "null", "")
OVERLAP_LENGTH = 13
"""Tokens of a run that counts as shared."""


def objective(run: Run) -> str:
    """What was predicted; `own` stands for what the variant's configuration says."""
    given = run.params.get("pretrain.objective", "not recorded")
    return run.params.get("model.objective", given) if given == "own" else given


def notes(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on a pretraining, or on what a task has to do with one."""
    if not section.is_pretraining:
        return [*_overlap(section), *_lost(comparison, section)]
    return [*_stand_in(comparison, section), *_text(section), *_answered(section), *_losses(section), *_elsewhere(section)]


def _stand_in(comparison: Comparison, section: Section) -> list[str]:
    if section.baseline == comparison.baseline:
        return []
    chosen, here = escape(comparison.baseline), escape(section.baseline)
    return [f"The baseline {chosen} was not pretrained: changes here are against {here}, the same encoder."]


def _text(section: Section) -> list[str]:
    notes = [f"Budget: {_each(section, budget)}. Corpus: {_each(section, corpus)}."]
    held_out = list(dict.fromkeys(text for run in section.runs if (text := _held_out(run))))
    return notes + ([f"Masked tokens were asked for in {' or '.join(held_out)}."] if held_out else [])


def _each(section: Section, fact: Callable[[Run], str]) -> str:
    """What `fact` says of the runs, with their variants where they differ."""
    said: dict[str, list[str]] = {}
    for row in section.rows:
        for run in row.runs.values():
            said.setdefault(fact(run), []).append(row.label)
    if len(said) == 1:
        return next(iter(said))
    return "; ".join(f"{text} ({listed(labels, most=None)})" for text, labels in said.items())


def budget(run: Run) -> str:
    """The one given, such as `20.0 M tokens`."""
    given = {key: run.params.get(f"pretrain.{key}", "None") for key in BUDGETS}
    told = [_amount(value, BUDGETS[key]) for key, value in given.items() if value not in UNSET]
    return " and ".join(told) or "not recorded"


def corpus(run: Run) -> str:
    """Its name and size, such as `wikitext, 103.0 M tokens in 28,472 documents`."""
    sizes = [run.metrics.get(f"corpus/{unit}") for unit in ("tokens", "documents")]
    parts = [_amount(size, unit) for size, unit in zip(sizes, ("tokens", "documents"), strict=True) if size is not None]
    return escape(run.params.get("corpus.name", "not recorded")) + (f", {' in '.join(parts)}" if parts else "")


def _amount(number: str | float, unit: str) -> str:
    try:
        number = float(number)
    except ValueError:
        return f"{escape(number)} {unit}"
    if unit in ("steps", "documents"):
        return f"{number:,.0f} {unit}"
    return formats.value(number, unit) + (" tokens" if unit == "tokens" else "")


def _held_out(run: Run) -> str | None:
    sequences, length = (run.params.get(f"pretrain.{key}", "") for key in ("eval_sequences", "length"))
    if not (sequences.isdecimal() and length.isdecimal()):
        return None
    total = int(sequences) * int(length)
    return f"at most {int(sequences):,} held-out sequences of {int(length):,} tokens ({total:,} tokens)"


def _answered(section: Section) -> list[str]:
    """By which head each row answers for masked tokens."""
    heads: dict[float, list[str]] = {}
    for row in section.rows:
        for steps in dict.fromkeys(row.values(PROBE).values()):
            heads.setdefault(steps, []).append(row.label)
    return [f"{_head(steps)}: {listed(labels, most=None)}." for steps, labels in sorted(heads.items())]


def _head(steps: float) -> str:
    if not steps:
        return "Masked tokens answered by the objective's own head"
    return f"Masked tokens answered by a probe, a head trained for {steps:,.0f} steps on the frozen encoder"


def _losses(section: Section) -> list[str]:
    seen = dict.fromkeys(objective(run) for run in section.runs)
    if len(seen) < 2:
        return []
    return [f"Training losses of different objectives ({listed(seen, most=None)}) are not compared; held-out masked loss is."]


def _elsewhere(section: Section) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in section.rows:
        for study in dict.fromkeys(run.elsewhere for run in row.runs.values() if run.elsewhere is not None):
            seeds = [seed for seed, run in row.runs.items() if run.elsewhere == study]
            found.setdefault(study, []).append(f"{row.label} (seed{'s' * (len(seeds) > 1)} {', '.join(seeds)})")
    return [f"Trained in study {escape(study)} and reused here: {listed(runs, most=None)}." for study, runs in found.items()]


def _overlap(section: Section) -> list[str]:
    said: dict[str, list[str]] = {}
    for row in section.rows:
        if shares := row.values(OVERLAP).values():
            ends = dict.fromkeys(_percent(end) for end in (min(shares), max(shares)))
            said.setdefault(" to ".join(ends), []).append(row.label)
    text = f"of the evaluation items share a run of {OVERLAP_LENGTH} tokens with the pretraining corpus"
    if len(said) == 1:
        return [f"{next(iter(said))} % {text}."]
    return [f"{shares} % {text} of {listed(labels, most=None)}." for shares, labels in said.items()]


def _percent(share: float) -> str:
    return formats.plain(100 * share, 2 if 0 < share < 0.01 else 1)


def _lost(comparison: Comparison, section: Section) -> list[str]:
    """Rows whose pretraining is not what the pretraining section shows."""
    parts = [part for part in comparison.sections if part.is_pretraining]
    shown = _fingerprints(run for part in parts for run in part.runs)
    older = _fingerprints(run for part in parts for run in part.superseded)
    replaced = _starting(section, lambda origin: origin in older - shown)
    lost = _starting(section, lambda origin: origin not in older | shown)
    told = {"a later one superseded above": replaced, "the store does not hold": lost}
    return [f"Started from a pretraining that {what}: {listed(rows, most=None)}." for what, rows in told.items() if rows]


def _fingerprints(runs: Iterable[Run]) -> set[str]:
    return {run.tags["fingerprint"] for run in runs if "fingerprint" in run.tags}


def _starting(section: Section, fits: Callable[[str], bool]) -> list[str]:
    def begins(row: Row) -> bool:
        return any(run.origin and fits(run.origin) for run in row.runs.values())

    return [row.label for row in section.rows if begins(row)]
