"""Pretraining: what was predicted how, on which text and budget, what it reached, and what starts from it."""

from collections.abc import Callable

from harness import tags
from harness.comparison import arms, plateau
from harness.comparison.compare import Comparison
from harness.comparison.labels import seeds_text, stem
from harness.comparison.paired import Replicate, grouped
from harness.comparison.runs import Run
from harness.comparison.section import Section
from harness.reports.chapters import timing
from harness.reports.reading.study import Study
from harness.reports.writing import findings, formats, section_text
from harness.reports.writing.formats import Chapter, escape, listed
from harness.reports.writing.shown import SHOWN

OVERLAP = "corpus/overlap"
BUDGETS = {"tokens": "tokens", "steps": "steps", "flops": "FLOP", "seconds": "s"}
"""Key of a budget -> its unit."""
MASKED = "with the same 15 % replaced by [MASK] in every run"
"""What `harness/training/held_out.py` shows."""
OVERLAP_LENGTH = 13
"""Tokens of an n-gram."""


def chapter(study: Study) -> Chapter:
    """The sections of all pretrainings; empty without any."""
    whole = study.comparison
    return Chapter([section_text.chapter(whole, one, notes(whole, one), timing.notes(one)) for one in whole.pretrainings])


def objective(run: Run) -> str:
    """What was predicted; `own` means the objective of the model's configuration."""
    name = arms.objective(run.params) or "not recorded"
    return run.params.get("model.objective", name) if name == "own" else name


def notes(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on a pretraining."""
    sentences = [*_on_plateau(section), *_outside(section)]
    if stem(section.baseline) != stem(comparison.baseline):
        baseline, here = escape(comparison.baseline), escape(section.baseline)
        sentences.append(f"The baseline {baseline} was not pretrained: changes are relative to {here}, the same encoder.")
    sentences += [*_text(section), *_heads(section), *_parts(section)]
    objectives = dict.fromkeys(objective(run) for run in section.runs)
    if len(objectives) > 1:
        sentences.append(
            f"Training losses of different objectives ({listed(objectives)}) are not comparable. Held-out masked loss is "
            "compared among arms with their own heads, and among arms with probes."
        )
    return sentences + _elsewhere(section)


def notes_of_task(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on the pretrainings of a task: a plateau, overlap, and what this report does not show."""
    parts = comparison.pretrainings
    is_stuck = {run.tags.get(tags.FINGERPRINT): plateau.is_on(run.metrics) for part in parts for run in part.runs}
    older = {run.tags.get(tags.FINGERPRINT) for part in parts for run in part.superseded} - is_stuck.keys()

    def started(what: str, fits: Callable[[str], bool]) -> list[str]:
        rows = [row.label for row in section.rows if any(run.origin and fits(run.origin) for run in row.runs)]
        return [f"{what}: {listed(rows)}."] if rows else []

    return [
        *started("**Pretraining still on the unigram plateau**", lambda origin: is_stuck.get(origin, False)),
        *_overlap(section),
        *started("Pretraining superseded by a later run above", lambda origin: origin in older),
        *started("Pretraining run not found in this store", lambda origin: origin not in older and origin not in is_stuck),
    ]


def warnings(comparison: Comparison) -> list[str]:
    """Sentences for the head of the report: pretrainings that have not learned."""
    return [note for section in comparison.pretrainings for note in (*_on_plateau(section), *_outside(section))]


def _on_plateau(section: Section) -> list[str]:
    """Which rows have a pretraining that knows little more than word frequencies."""
    rows, entropies = [], []
    for row in section.rows:
        if stuck := [run.metrics for run in row.runs if plateau.is_on(run.metrics)]:
            entropies.append(stuck[0][plateau.ENTROPY])
            losses = ", ".join(f"{metrics[plateau.LOSS]:.2f}" for metrics in stuck)
            some = f"{len(stuck)} of {len(row.runs)} pretrainings, " if len(stuck) < len(row.runs) else ""
            rows.append(f"{escape(row.label)} ({some}masked loss {losses})")
    if not rows:
        return []
    return [
        f"**Still on the unigram plateau** of {entropies[0]:.2f} nats: {', '.join(rows)}. Undertrained: differences mostly "
        "show which model left the plateau."
    ]


def _outside(section: Section) -> list[str]:
    """Warnings of runs that left the plateau: a loss that rose, or that differs from the reference."""
    return [
        f"**{escape(f'{row.label}, seed {run.replicate.pretrain_seed}')}**: {escape(run.tags[tags.WARNING])}."
        for row in section.rows
        for run in row.runs
        if findings.is_warned(run) and not plateau.is_on(run.metrics)
    ]


def _text(section: Section) -> list[str]:
    """Budget, corpus and held-out text; facts that differ are listed with their arms."""

    def each(fact: Callable[[Run], str]) -> str:
        texts = grouped((fact(run), row.label) for row in section.rows for run in row.runs)
        return "; ".join(f"{text} ({listed(labels)})" if len(texts) > 1 else text for text, labels in texts.items())

    held_out = dict.fromkeys(text for run in section.runs if (text := _held_out(run)))
    masked = [f"Masked loss and accuracy: {' or '.join(held_out)}, {MASKED}."] if held_out else []
    return [f"Budget: {each(budget)}. Corpus: {each(corpus)}.", *masked]


def budget(run: Run) -> str:
    """The budget that was set, such as `20.0 M tokens`."""
    amounts = [_amount(value, unit) for key, unit in BUDGETS.items() if (value := run.setting(f"pretrain.{key}"))]
    return " and ".join(amounts) or "not recorded"


def corpus(run: Run) -> str:
    """Its name and size, such as `wikitext, 103.0 M tokens in 28,472 documents`."""
    sizes = {unit: run.metrics.get(f"corpus/{unit}") for unit in ("tokens", "documents")}
    parts = [_amount(size, unit) for unit, size in sizes.items() if size is not None]
    return escape(run.params.get("corpus.name", "not recorded")) + (f", {' in '.join(parts)}" if parts else "")


def _amount(number: str | float, unit: str) -> str:
    return formats.value(float(number), unit) + (" tokens" if unit == "tokens" else "")


def _held_out(run: Run) -> str | None:
    sequences, length = (run.params.get(f"pretrain.{key}", "") for key in ("eval_sequences", "length"))
    if not (sequences.isdecimal() and length.isdecimal()):
        return None
    total = int(sequences) * int(length)
    return f"up to {int(sequences):,} held-out sequences of {int(length):,} tokens ({total:,} tokens)"


def _heads(section: Section) -> list[str]:
    """Which head predicts the masked tokens of each row."""
    heads = grouped((steps, row.label) for row in section.rows for steps in dict.fromkeys(row.values(plateau.PROBE).values()))
    sentences = []
    for steps, labels in sorted(heads.items()):
        probe = f"a probe, a head trained for {steps:,.0f} steps on the frozen encoder"
        head = probe if steps else "the objective's own head"
        arms = f": {listed(labels)}" if len(heads) > 1 else " in every arm" * (len(section.rows) > 1)
        sentences.append(f"Masked tokens are predicted by {head}{arms}.")
    return sentences


def _parts(section: Section) -> list[str]:
    """What to compare the accuracies of segment pairs and of a detector with."""
    pair, detection, replaced = (any(row.values(name) for row in section.rows) for name in SHOWN.parts)
    notes = []
    if pair:
        notes.append("Segment pairs: held out, masked as in training; chance is 0.5.")
    if detection:
        what = ": judge it by the recall of replaced tokens" if replaced else ""
        notes.append(f"Replaced-token detection: always answering 'original' scores high, too{what}.")
    if any(row.values(name) for row in section.rows for name in SHOWN.own):
        notes.append(
            "Losses on unmasked tokens compare only arms with the same objective and settings; perplexity is exp(loss)."
        )
    return notes


def _elsewhere(section: Section) -> list[str]:
    reused = []
    for row in section.rows:
        of_row = grouped((run.elsewhere, Replicate("", run.replicate.seed)) for run in row.runs if run.elsewhere)
        reused += [(study, f"{row.label} ({seeds_text(replicates)})") for study, replicates in of_row.items()]
    return [f"Trained in study {escape(study)} and reused here: {listed(runs)}." for study, runs in grouped(reused).items()]


def _overlap(section: Section) -> list[str]:
    texts = []
    for row in section.rows:
        if shares := row.values(OVERLAP).values():
            ends = (formats.plain(100 * share, 2 if 0 < share < 0.01 else 1) for share in (min(shares), max(shares)))
            texts.append((" to ".join(dict.fromkeys(ends)), row.label))
    labels_of = grouped(texts)
    each = (f"{shares} %{f' ({listed(labels)})' if len(labels_of) > 1 else ''}" for shares, labels in labels_of.items())
    text = f"Evaluation items with a {OVERLAP_LENGTH}-gram overlap with the pretraining corpus"
    return [f"{text}: {'; '.join(each)}."] if texts else []


def tasks(study: Study) -> Chapter:
    """The sections of all tasks; empty if the study has only pretrainings."""
    comparison, sections = study.comparison, []
    for section in comparison.tasks:
        first, last = notes_of_task(comparison, section), [*timing.notes(section), *section_text.notes_of_scores(section)]
        sections.append(section_text.chapter(comparison, section, first, last))
    return Chapter(sections)
