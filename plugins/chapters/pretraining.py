"""Pretraining: what was predicted how, on which text and budget, and what it reached."""

from collections.abc import Callable

from harness.comparison import arms, plateau
from harness.comparison.compare import Comparison
from harness.comparison.labels import seeds_text, stem
from harness.comparison.paired import Replicate, grouped
from harness.comparison.runs import Run
from harness.comparison.section import Section
from harness.reports.chapters import Added, tasks, timing
from harness.reports.reading.study import Study
from harness.reports.writing import formats, section_text
from harness.reports.writing.formats import Chapter, escape, listed
from harness.reports.writing.shown import SHOWN

BUDGETS = {"tokens": "tokens", "steps": "steps", "flops": "FLOP", "seconds": "s"}
"""Key of a budget -> its unit."""
MASKED = "with the same 15 % replaced by [MASK] in every run"
"""What `harness/training/held_out.py` shows."""


def chapter(study: Study) -> Chapter:
    """The sections of all pretrainings; empty without any."""
    whole = study.comparison
    every = [(one, [*notes(whole, one), *section_text.notes(whole, one), *timing.notes(one)]) for one in whole.pretrainings]
    return Chapter([section_text.chapter(whole, *one) for one in every])


def objective(run: Run) -> str:
    """What was predicted; `own` means the objective of the model's configuration."""
    name = arms.objective(run.params) or "not recorded"
    return run.params.get("model.objective", name) if name == "own" else name


def notes(comparison: Comparison, section: Section) -> list[str]:
    """Sentences on a pretraining."""
    sentences = [*tasks.on_plateau(section), *tasks.outside(section)]
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


CHAPTER = Added(chapter, before=timing.chapter, order=-5)
