"""One section of the report: the table of one task under the same conditions, its notes, differences and details."""

import re
import shlex
from collections.abc import Collection

from harness import document, metrics, tags
from harness.comparison import arms, launches
from harness.comparison.compare import Comparison, differing_settings
from harness.comparison.labels import says_setting, seeds_text, typed
from harness.comparison.paired import Design, grouped, pair
from harness.comparison.runs import UNSET, Run, states_text
from harness.comparison.section import HEADLINE, Row, Section
from harness.document import DASH, Block, Cell
from harness.reports.writing import formats, tables
from harness.reports.writing.formats import SHARES, SHOWN_VALUES, bullets, code, escape, listed
from harness.reports.writing.shown import SHOWN
from harness.reports.writing.tables import by_the_wall, present

OF_RECIPE = {
    "model.hidden_dropout_prob": "pretrain.dropout",
    "model.attention_probs_dropout_prob": "pretrain.dropout",
    "model.initializer_range": "pretrain.initializer_range",
}
"""Setting of a model that says how it trains -> setting of the recipe that replaces it while pretraining."""
HEAD_DROPOUT = "model.classifier_dropout"
OF_TRAINING = (*OF_RECIPE, HEAD_DROPOUT, "model.init", "finetune.learning_rate")
"""Settings that say how an arm trains, not what it computes."""
NAMED = ("pretrain.objective", "pretrain.checkpoint", "pretrain.teacher")


def section_notes(section: Section) -> list[str]:
    """Sentences on this section, in order of weight."""
    missing = f"The baseline {escape(section.baseline)} has no finished run here: no change can be computed."
    cut = {row.label: {run.tags[tags.PIECES] for run in row.runs if run.tags.get(tags.PIECES)} for row in section.rows}
    in_pieces = [
        f"{escape(label)} ran out of memory and trained with its batch in pieces ({escape(', '.join(sorted(pieces)))}): "
        "compare its training memory, time and throughput only with runs in as many pieces."
        for label, pieces in cut.items()
        if pieces
    ]
    before = section.before
    notes = [*in_pieces, *_paired(section, before), *_trained_otherwise(section, before)] if before else [missing, *in_pieces]
    settings = {
        row.label: [
            f"{escape(key)} ({listed(values, most=SHOWN_VALUES)})" for key, values in differing_settings(row.runs).items()
        ]
        for row in section.rows
    }
    differing = [f"The seeds of {escape(label)} differ in {'; '.join(texts)}." for label, texts in settings.items() if texts]
    return [*notes, *differing, *_superseded(section)]


def without_score(comparison: Comparison, section: Section) -> list[str]:
    """Why an arm has no score here: it was not trained, or none of its runs finished (said in the task's first section)."""
    without = [row for row in section.rows if not section.is_pretraining and not row.values(HEADLINE)]
    untrained = [row.label for row in without if all(run.params.get("finetune.enabled") == "False" for run in row.runs)]
    others = [row.label for row in without if row.label not in untrained]
    reasons = {"measured without training (finetune.enabled=false)": untrained, "no run logged one": others}
    sentences = [f"No score of {listed(labels)}: {why}." for why, labels in reasons.items() if labels]
    of_task = [other for other in comparison.sections if other.task == section.task]
    if section is not of_task[0]:
        return sentences
    left_out = [run for run in comparison.left_out if run.tags.get(tags.TASK) == section.task and not run.is_aa_replicate]
    finished = {run.tags[tags.ARM] for other in of_task for run in other.runs}
    states = grouped((run.tags.get(tags.ARM), run.status) for run in left_out)
    return sentences + [
        f"No score of {escape(arm)}: none of its runs finished ({states_text(of_arm)})."
        for arm, of_arm in states.items()
        if arm and arm not in finished
    ]


def _paired(section: Section, before: Row) -> list[str]:
    """Rows with other seeds than the baseline; and rows whose interval is over the fine-tunings of a single pretraining."""
    ran: list[tuple[str, str]] = []
    labels: list[str] = []
    for row in section.rows if section.design is not Design.RUNS else ():
        pairs = pair(before.by_replicate, row.by_replicate)
        if {mine for mine, _ in pairs} != set(before.by_replicate) or {other for _, other in pairs} != set(row.by_replicate):
            replicates = (row.by_replicate, before.by_replicate, [other for _, other in pairs])
            here, there, both = (escape(seeds_text(seeds)) for seeds in replicates)
            ran.append((f"ran {here}, the baseline {there}: changes use {both or 'none of them'}", row.label))
        if row is not before and len(pairs) > 1 and len(tables.pretrain_seeds(pairs)) == 1 and not section.is_pretraining:
            labels.append(row.label)
    of_one = (
        f"Only one pretraining: intervals of {listed(labels)} cover fine-tuning seeds, not other pretraining seeds "
        "(arXiv:2106.16163)."
    )
    every = grouped(ran).items()
    sentences = [f"{listed(of)} {text} (counted metrics do not depend on the seed)." for text, of in every]
    return [*sentences, *([of_one] if labels else [])]


def _trained_otherwise(section: Section, before: Row) -> list[str]:
    """Settings of training in which arms differ from the baseline, except those in their label."""
    ours, differing = _of_training(before.first), []
    for row in section.rows:
        theirs = _of_training(row.first)
        texts = [
            f"{escape(key)} {' → '.join(escape(typed(of.get(key, DASH))) for of in (ours, theirs))}"
            for key in arms.varying([ours, theirs])
            if not says_setting(row.label, key)
        ]
        differing += [(", ".join(texts), row.label)] if texts else []
    each = "; ".join(f"{text} ({listed(labels)})" for text, labels in grouped(differing).items())
    return [f"Also differs from {escape(section.baseline)} in {each}."] if differing else []


def _of_training(run: Run) -> arms.Facts:
    """What applies to this run: while pretraining, what the recipe sets in place of the model."""
    facts = {key: run.facts[key] for key in OF_TRAINING if key in run.facts}
    if HEAD_DROPOUT in facts and facts[HEAD_DROPOUT] in UNSET:  # that of the layers
        facts[HEAD_DROPOUT] = facts.get("model.hidden_dropout_prob", DASH)
    if not run.is_pretraining:
        return facts
    recipe = {key: value for key, value in run.facts.items() if key.startswith("pretrain.") and key not in NAMED}
    replaced = {key for key, by in OF_RECIPE.items() if recipe.get(by) not in UNSET}
    return {key: value for key, value in facts.items() if key not in replaced} | recipe


def _superseded(section: Section) -> list[str]:
    pairs = [(old, row.by_replicate[old.replicate]) for row in section.rows for old in row.superseded]
    if not pairs:
        return []
    keys = {key for both in pairs for key in differing_settings(both)}
    settings = f" They had other settings: {listed(sorted(keys), most=SHOWN_VALUES)}." if keys else ""
    alike = [(old, new) for old, new in pairs if old.is_measured == new.is_measured]
    changed = any(old.tags.get(tags.FINGERPRINT) != new.tags.get(tags.FINGERPRINT) for old, new in alike)
    unmeasured = len(alike) < len(pairs)
    which, by = ("Older or unmeasured", "latest measured") if unmeasured else ("Older", "latest")
    text = f"{which} runs of the same arm and seeds, superseded by the {by}: {len(pairs)}."
    return [f"{text}{' Code or versions had changed in between: the fingerprints differ.' * changed}{settings}"]


LIMITED, SEED = "data.validation_examples", "data.split_seed"
OWN = "own"
"""Task of the user's own rows, which have no official split."""
NOT_OFFICIAL = ", not the official split"


def notes_of_scores(section: Section) -> list[str]:
    """Notes on a task where a score is of other data than the official split, or weights were chosen by the reported score."""
    labels_of = grouped((text, row.label) for row in section.rows for run in row.runs for text in _slices(section, run))
    every = {row.label for row in section.rows}
    names = {text: "All arms" if {*of} == every and len(every) > 2 else listed(of) for text, of in labels_of.items()}
    return [f"{of} {text}." for text, of in names.items()]


def _slices(section: Section, run: Run) -> list[str]:
    texts = []
    for verb, key in (("scored", "task.validation_split"), ("trained", "task.train_split")):
        split = run.params.get(key, "")
        if "[" in split:
            seed, is_own = run.params.get(SEED), section.task == OWN
            drawn = f", {SEED}={seed}" if seed else ""
            of = "your rows" if is_own else f"a slice of {split.partition('[')[0]}"
            official = "" if is_own else NOT_OFFICIAL
            texts.append(f"{verb} on {escape(f'{of} ({split}{drawn})')}{official}")
        elif verb == "scored" and (first := run.setting(LIMITED)):
            texts.append(f"scored on the first {escape(first)} examples of the validation split{NOT_OFFICIAL}")
    return texts


def conditions_differences(comparison: Comparison, section: Section) -> list[Block]:
    """How the conditions of this section's task differ and how to compare along them; empty where there is one section."""
    sections = [other for other in comparison.sections if other.task == section.task]
    if len(sections) < 2:
        return []
    keys = arms.varying(other.facts for other in sections)
    names = (escape(other.conditions) + " (this one)" * (other is section) for other in sections)
    header, rows = ["key", *names, "to compare along it"], []
    for key in keys:
        values = [escape(typed(other.facts.get(key, DASH))) for other in sections]
        rows.append([escape(key), *values, code(f"along={shlex.quote(key)}")])
    intro = (
        f"**{escape(section.task)} was run under {len(sections)} sets of conditions, which are not compared with one another.**"
    )
    along = shlex.join(f"along={key}" for key in keys)
    advice = f"{code(f'python -m reports {along}')} compares them in one table."
    return [f"{intro} They differ in:", formats.table(header, rows, left=len(header)), advice]


PEAKS = {"inference/mfu": "inference/peak_flops_per_s", "finetune/mfu": "hardware/peak_flops_per_s"}
"""Share of a peak -> that peak."""
ENERGY = "inference/energy_j_per_token"
MILLION = 1e6
"""Tokens that an energy is shown for: that of one has too many zeros."""
INTRO = """\
Means over replicates ± the sample standard deviation. Seeds share launches; timings by launch vary over sessions."""


def part(section: Section, less: Collection[str] = ()) -> list[document.Section]:
    """The section on figures in detail, with their meaning; empty if no row has any."""
    above = {*metrics.JUDGED_BY} & {*SHOWN.task} - {*by_the_wall(section)}
    names = [name for name in present(section, SHOWN.detail) if name not in above and name not in less]
    if not names:
        return []
    rows = [[escape(row.label), *(cell(row, name) for name in names)] for row in section.rows]
    head = ["arm", *(f"{metrics.get(name).title}{' per million tokens' * (name == ENERGY)}" for name in names)]
    return [document.Section("Measured in detail", [intro(section, names), *formats.readable(head, rows)], detail=True)]


SAID_OF_WEIGHTS = re.compile(r"computed by [^;]+|revision [^;]+|licence [^;]+|[^;]*padding[^;]+")
"""What a run notes of an encoder that says whose weights and code it has, and whether vectors depend on padding."""


def cell(row: Row, name: str) -> Cell:
    """Value with unit and spread; a utilisation with the peak that it is a share of."""
    if name == ENERGY and (spread := row.spread(ENERGY)):
        return formats.cell(MILLION * spread.mean, "J", None if spread.sd is None else MILLION * spread.sd)
    own = tables.value(row, name)
    peak = tables.value(row, PEAKS[name]) if name in PEAKS and own.value is not None else None
    return Cell(f"{own.text} of {peak.text}", own.value, own.unit) if peak and peak.value is not None else own


def intro(section: Section, names: list[str]) -> str:
    """What each of the shown figures is, and the settings that the runs recorded."""
    sentences = [said.text for said in SHOWN.said if present(section, said.of)]
    counts = {str(len(rounds)) for run in section.runs if (rounds := run.launches.get(launches.LATENCY))}
    settings = {"launches": sorted(counts)} if counts else {}
    for key in ("measure.repeats", "measure.length", "measure.threads", "measure.batch_size", "measure.throughput_texts"):
        settings[key] = [value for run in section.runs if (value := run.setting(key))]
    if any(name.startswith("finetune/") for name in names):
        settings["environment.threads"] = [value for run in section.runs if (value := run.setting("environment.threads"))]
    texts = [f"{key} {listed(values, most=SHOWN_VALUES)}" for key, values in settings.items() if values]
    return " ".join([INTRO, *sentences, *([f"Settings: {', '.join(texts)}."] if texts else [])])


def data(section: Section) -> dict[str, str]:
    """What to say of conditions and data set."""
    of_ours = not any(tags.DESIGN in run.tags for run in section.runs)
    origins = {run.tags[tags.ORIGIN]: None for run in section.runs if tags.ORIGIN in run.tags}
    name, _, licence = "; ".join(origins).partition(", licence ")
    return {"Conditions (hash)": section.conditions * of_ours, "Data set": name, "Licence": licence}


def notes(comparison: Comparison, section: Section, with_data: bool = True) -> list[str]:
    """Sentences on weights, seeds and settings, and on conditions and data set."""
    read = {row.label: SAID_OF_WEIGHTS.findall(run.tags.get(tags.WEIGHTS_READ, "")) for row in section.rows for run in row.runs}
    sources = [f"{label} ({', '.join(said)})" for label, said in read.items() if said]
    said = {"Weights": "; ".join(sources)} | (data(section) if with_data else {})
    facts = [f"{name}: {escape(text)}." for name, text in said.items() if text]
    return [*section_notes(section), *without_score(comparison, section), *facts]


def chapter(comparison: Comparison, section: Section, notes: list[str], first: Section | None = None) -> document.Section:
    """The section of a task. With a `first` task, it is a detail, without the metrics that it shares with that one."""
    less = repeated(section, first) if first and first is not section else []
    as_first = [f"As on {escape(first.name)}: {'; '.join(metrics.get(name).title for name in less)}."] if first and less else []
    about = "before and after" if len(comparison.labels) > 1 else "measured"
    apart = conditions_differences(comparison, section)
    blocks: list[Block] = [*apart, *tables.before_after(section, less), *bullets([*as_first, *notes])]
    if differences := tables.differences(section, less):
        tested: list[Block] = [tables.differences_intro(section), *differences]
        blocks.append(document.Section(tables.TESTED, tested, detail=True, for_paper=True))
    title = f"{escape(section.name)}: {about}"
    return document.Section(title, [*blocks, *part(section, less)], detail=first is not None and not apart)


def repeated(section: Section, first: Section) -> list[str]:
    """Metrics, scores apart, that have the values and changes of the first task: timed by the same launches, or counted."""

    def cells(of: Section, name: str) -> list[tuple[str, Cell]]:
        return [(row.label, tables.value_and_change(of, row, name)) for row in of.rows]

    names = present(section, dict.fromkeys([*tables.columns(section), *SHOWN.detail]))
    return [name for name in names if metrics.get(name).unit not in SHARES and cells(section, name) == cells(first, name)]
