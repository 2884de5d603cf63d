"""Pretraining: what was predicted how, on which text and budget, what it reached, and what starts from it."""

from collections.abc import Callable, Iterable

from harness import plateau, tags
from harness.paired import Replicate, grouped
from reports.chapters import glue, pretraining_pictures, timing
from reports.comparison.compare import Comparison, Study
from reports.comparison.labels import seeds_text, stem
from reports.comparison.section import Row, Section
from reports.reading.store import Run
from reports.writing import formats, plots, section_text, tables
from reports.writing.formats import Chapter, escape, listed

OVERLAP = "corpus/overlap"
BUDGETS = {"tokens": "tokens", "steps": "steps", "flops": "FLOP", "seconds": "s"}
"""Key of a budget -> its unit."""
UNSET = ("None", "null", "")
MASKED = "15 % of which are replaced by [MASK], the same ones for every run"
"""What `harness/training/masked_lm_eval.py` shows."""
OVERLAP_LENGTH = 13
"""Tokens of a run that counts as shared."""


def chapter(study: Study) -> Chapter:
    """Before and after of every pretraining, and the pictures; empty where nothing was pretrained."""
    comparison, names = study.comparison, plots.panel_names(study.comparison)
    sections = [section for section in comparison.sections if section.is_pretraining]
    if not sections:
        return Chapter()
    paragraphs = []
    for section in sections:
        first, last = notes(comparison, section), timing.notes(section)
        paragraphs += section_text.paragraphs(comparison, section, first, last)
    files = plots.drawn(
        {
            "masked_loss.svg": (pretraining_pictures.masked_loss, comparison, names, study),
            "pretrain_loss.svg": (pretraining_pictures.training_loss, comparison, names, study),
        }
    )
    return Chapter([*paragraphs, *plots.pictured(pretraining_pictures.CAPTIONS, files)], files)


def notes(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on a pretraining."""
    warned = [*_on_plateau(section), *_outside(section)]
    return [
        *warned,
        *_same_encoder(comparison, section),
        *_text(section),
        *_heads(section),
        *_parts(section),
        *_losses(section),
        *_elsewhere(section),
    ]


def notes_of_task(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on what a task has to do with a pretraining."""
    return [*_from_plateau(comparison, section), *_overlap(section), *_lost(comparison, section)]


def warnings(comparison: Comparison) -> list[str]:
    """Sentences for the head of the report: pretrainings that have not learned."""
    sections = [section for section in comparison.sections if section.is_pretraining]
    return [note for section in sections for note in (*_on_plateau(section), *_outside(section))]


def _on_plateau(section: Section) -> list[str]:
    """Which rows have a pretraining that knows little more than word frequencies."""
    found = []
    for row in section.rows:
        if stuck := [run for run in row.runs.values() if plateau.is_on(run.metrics)]:
            losses = ", ".join(f"{run.metrics[plateau.LOSS]:.2f}" for run in stuck)
            some = f"{len(stuck)} of {len(row.runs)} pretrainings, " if len(stuck) < len(row.runs) else ""
            found.append(f"{escape(row.label)} ({some}masked loss {losses})")
    if not found:
        return []
    entropy = next(run.metrics[plateau.ENTROPY] for run in section.runs if plateau.is_on(run.metrics))
    return [
        f"**Still on the unigram plateau** of {entropy:.2f} nats: {', '.join(found)}. Comparisons after this pretraining "
        "measure who left the plateau, not which model is better."
    ]


def _outside(section: Section) -> list[str]:
    """What was said of runs that left the plateau, but not as their reference did."""
    runs = {f"{row.label}, seed {run.replicate.pretrain_seed}": run for row in section.rows for run in row.runs.values()}
    said = {
        name: run.tags[tags.WARNING]
        for name, run in runs.items()
        if tags.WARNING in run.tags and not plateau.is_on(run.metrics) and not run.metrics.get(plateau.PROBE)
    }
    return [f"**{escape(name)}**: {escape(text)}." for name, text in said.items()]


def _from_plateau(comparison: Comparison, section: Section) -> list[str]:
    parts = [part for part in comparison.sections if part.is_pretraining]
    stuck = _fingerprints(run for part in parts for run in part.runs if plateau.is_on(run.metrics))
    rows = _starting(section, lambda origin: origin in stuck)
    if not rows:
        return []
    return [f"**Started from a pretraining that is still on the unigram plateau**: {listed(rows, most=None)}."]


def _same_encoder(comparison: Comparison, section: Section) -> list[str]:
    if stem(section.baseline) == stem(comparison.baseline):
        return []
    chosen, here = escape(comparison.baseline), escape(section.baseline)
    return [f"The baseline {chosen} was not pretrained: changes here are against {here}, the same encoder."]


def _text(section: Section) -> list[str]:
    notes = [f"Budget: {_each(section, budget)}. Corpus: {_each(section, corpus)}."]
    held_out = list(dict.fromkeys(text for run in section.runs if (text := _held_out(run))))
    return notes + ([f"Masked loss and accuracy are of {' or '.join(held_out)}, {MASKED}."] if held_out else [])


def _each(section: Section, fact: Callable[[Run], str]) -> str:
    """What `fact` says of the runs, with their arms where they differ."""
    said = grouped((fact(run), row.label) for row in section.rows for run in row.runs.values())
    if len(said) == 1:
        return next(iter(said))
    return "; ".join(f"{text} ({listed(labels, most=None)})" for text, labels in said.items())


def budget(run: Run) -> str:
    """The budget that was set, such as `20.0 M tokens`."""
    values = {key: run.params.get(f"pretrain.{key}", "None") for key in BUDGETS}
    amounts = [_amount(value, BUDGETS[key]) for key, value in values.items() if value not in UNSET]
    return " and ".join(amounts) or "not recorded"


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


def _heads(section: Section) -> list[str]:
    """Which head predicts the masked tokens of each row."""
    heads = grouped((steps, row.label) for row in section.rows for steps in dict.fromkeys(row.values(plateau.PROBE).values()))
    if len(heads) == 1:
        return [f"{_head(steps)}{' in every arm' * (len(section.rows) > 1)}." for steps in heads]
    return [f"{_head(steps)}: {listed(labels, most=None)}." for steps, labels in sorted(heads.items())]


def _head(steps: float) -> str:
    if not steps:
        return "Masked tokens are predicted by the objective's own head"
    return f"Masked tokens are predicted by a probe, a head trained for {steps:,.0f} steps on the frozen encoder"


def _parts(section: Section) -> list[str]:
    """What to hold the accuracies of segment pairs and of a detector against."""
    pair, detection, replaced = (any(row.values(name) for row in section.rows) for name in tables.PARTS)
    notes = []
    if pair:
        notes.append("Segment pairs: guessing reaches 0.5. Held-out pairs, masked as in training.")
    if detection:
        found = ": what counts is the share of replaced tokens that it finds" if replaced else ""
        notes.append(f"Detector of replaced tokens: one that never says replaced has a high accuracy, too{found}.")
    if any(row.values(name) for row in section.rows for name in tables.OWN):
        notes.append(
            "Losses on other tokens than masked ones compare arms of one objective and its settings; perplexity is e to them."
        )
    return notes


def _losses(section: Section) -> list[str]:
    objectives = dict.fromkeys(pretraining_pictures.objective(run) for run in section.runs)
    if len(objectives) < 2:
        return []
    return [
        f"Training losses of different objectives ({listed(objectives, most=None)}) are not compared; held-out masked loss is "
        "between arms with their own heads, and between arms with probes."
    ]


def _elsewhere(section: Section) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in section.rows:
        for study in dict.fromkeys(run.elsewhere for run in row.runs.values() if run.elsewhere is not None):
            reused = [Replicate("", one.seed) for one, run in row.runs.items() if run.elsewhere == study]
            found.setdefault(study, []).append(f"{row.label} ({seeds_text(reused)})")
    return [f"Trained in study {escape(study)} and reused here: {listed(runs, most=None)}." for study, runs in found.items()]


def _overlap(section: Section) -> list[str]:
    shares_of = {row.label: row.values(OVERLAP).values() for row in section.rows if row.values(OVERLAP)}
    ends = {label: dict.fromkeys(map(_percent, (min(shares), max(shares)))) for label, shares in shares_of.items()}
    said = grouped((" to ".join(texts), label) for label, texts in ends.items())
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
    starts = {"a later one superseded above": replaced, "the store does not hold": lost}
    return [f"Started from a pretraining that {what}: {listed(rows, most=None)}." for what, rows in starts.items() if rows]


def _fingerprints(runs: Iterable[Run]) -> set[str]:
    return {run.tags[tags.FINGERPRINT] for run in runs if tags.FINGERPRINT in run.tags}


def _starting(section: Section, fits: Callable[[str], bool]) -> list[str]:
    def begins(row: Row) -> bool:
        return any(run.origin and fits(run.origin) for run in row.runs.values())

    return [row.label for row in section.rows if begins(row)]


def tasks(study: Study) -> Chapter:
    """Empty where the study has pretrainings alone."""
    comparison = study.comparison
    return Chapter(
        [
            paragraph
            for section in comparison.sections
            if not section.is_pretraining
            for paragraph in section_text.paragraphs(
                comparison,
                section,
                first=notes_of_task(comparison, section),
                last=[*timing.notes(section), *glue.notes(section)],
            )
        ]
    )
