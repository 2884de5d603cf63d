"""One section of the report: the table of one task under the same conditions, its notes, differences and details."""

from collections import Counter

from harness import arms, metrics, tags
from harness.paired import pair, spread
from reports.comparison import launches
from reports.comparison.compare import Comparison, differing_settings
from reports.comparison.labels import seeds_text
from reports.comparison.section import HEADLINE, Row, Section
from reports.reading.store import Run
from reports.writing import formats, tables
from reports.writing.formats import DASH, escape, listed
from reports.writing.tables import present, rates_by_the_wall, value_text

FACT_WORDS = {
    "pretrain.objective": "objective of pretraining",
    "pretrain.tokens": "pretraining budget in tokens",
    "pretrain.steps": "pretraining budget in steps",
    "pretrain.flops": "pretraining budget in FLOPs",
    "pretrain.seconds": "pretraining budget in seconds",
    "pretrain.length": "tokens of a pretraining sequence",
    "pretrain.batch_size": "sequences of a pretraining step",
    "pretrain.mask_rate": "share of tokens predicted in pretraining",
    "pretrain.masking": "what is masked in pretraining",
    "pretrain.learning_rate": "learning rate of pretraining",
    "pretrain.probe_steps": "steps of the probe for masked tokens",
    "pretrain.eval_sequences": "held-out sequences of pretraining",
    "corpus.name": "corpus of pretraining",
    "corpus.key": "content of the corpus",
    "tokenizer.trained_on": "text that the tokenizer was trained on",
}
"""Fact -> what it is; other facts are named by their key alone."""

OF_RECIPE = {
    "model.hidden_dropout_prob": "pretrain.dropout",
    "model.attention_probs_dropout_prob": "pretrain.dropout",
    "model.initializer_range": "pretrain.initializer_range",
}
"""Setting of a model that says how it trains -> setting of the recipe that replaces it while pretraining."""
OF_TRAINING = (*OF_RECIPE, "model.classifier_dropout", "model.init")
"""Settings of a model that say how it trains, not what it computes."""
NAMED = ("pretrain.objective", "pretrain.checkpoint", "pretrain.teacher")
UNSET = "None"


def section_notes(section: Section) -> list[str]:
    """Sentences on this section, in order of weight."""
    return [
        *_missing_baseline(section),
        *_in_pieces(section),
        *_unpaired(section),
        *_one_pretraining(section),
        *_trained_otherwise(section),
        *_differing(section),
        *_superseded(section),
    ]


def _in_pieces(section: Section) -> list[str]:
    """Arms of which a run was out of memory and trained in smaller pieces, which changes what training takes."""
    cut = {row.label: {run.tags[tags.PIECES] for run in row.runs.values() if run.tags.get(tags.PIECES)} for row in section.rows}
    return [
        f"{escape(label)} ran out of memory and was trained with its batch in pieces ({escape(', '.join(sorted(found)))}): "
        "training memory, time and throughput are those in pieces, and compare with runs in as many pieces alone."
        for label, found in cut.items()
        if found
    ]


def _missing_baseline(section: Section) -> list[str]:
    if section.before:
        return []
    return [f"The baseline {escape(section.baseline)} has no finished run here: no change can be computed."]


def without_score(comparison: Comparison, section: Section) -> list[str]:
    """Why an arm has no score here: it was not trained, or none of its runs finished (said in the task's first section)."""
    sentences = [] if section.is_pretraining else _scoreless(section)
    of_task = [one for one in comparison.sections if one.task == section.task]
    if section is not of_task[0]:
        return sentences
    finished = {run.tags[tags.ARM] for one in of_task for run in one.runs}
    states: dict[str, Counter[str]] = {}
    for run in comparison.left_out:
        arm = run.tags.get(tags.ARM)
        if run.tags.get(tags.TASK) == section.task and arm and arm not in finished and not run.is_aa_replicate:
            states.setdefault(arm, Counter())[run.status] += 1
    for arm, counted in states.items():
        each = ", ".join(f"{count} {status}" for status, count in sorted(counted.items()))
        sentences.append(f"No score of {escape(arm)}: none of its runs finished ({each}).")
    return sentences


def _scoreless(section: Section) -> list[str]:
    found: dict[str, list[str]] = {}
    for row in section.rows:
        if not row.values(HEADLINE):
            untrained = all(run.params.get("finetune.enabled") == "False" for run in row.runs.values())
            why = "measured without training (finetune.enabled=false)" if untrained else "no run logged one"
            found.setdefault(why, []).append(row.label)
    return [f"No score of {listed(labels, most=None)}: {why}." for why, labels in found.items()]


def _unpaired(section: Section) -> list[str]:
    before, sentences = section.before, []
    for row in section.rows if before else ():
        pairs = pair(before.runs, row.runs)
        if {one for one, _ in pairs} != set(before.runs) or {other for _, other in pairs} != set(row.runs):
            here, there, both = (escape(seeds_text(found)) for found in (row.runs, before.runs, [other for _, other in pairs]))
            sentences.append(
                f"{escape(row.label)} ran {here}, the baseline {there}: changes use {both or 'none of them'} "
                "(counted metrics do not depend on the seed)."
            )
    return sentences


def _one_pretraining(section: Section) -> list[str]:
    """Rows whose interval is over the fine-tunings of a single pretraining."""
    rows = [row.label for row in section.rows if not section.is_pretraining and _is_of_one_pretraining(section, row)]
    if not rows:
        return []
    return [
        f"One pretraining only: intervals of {listed(rows, most=None)} are over fine-tuning seeds and hold for that "
        "pretraining alone; another pretraining seed may give another result (arXiv:2106.16163)."
    ]


def _is_of_one_pretraining(section: Section, row: Row) -> bool:
    before = section.before
    pairs = pair(before.runs, row.runs) if before and row is not before else []
    return len(pairs) > 1 and len({one.pretrain_seed or other.pretrain_seed for one, other in pairs} - {""}) == 1


def _trained_otherwise(section: Section) -> list[str]:
    """Settings of training in which arms differ from the baseline beside what their label names."""
    before = section.before
    if before is None:
        return []
    ours = _of_training(next(iter(before.runs.values())))
    found: dict[str, list[str]] = {}
    for row in section.rows:
        theirs = _of_training(next(iter(row.runs.values())))
        keys = [key for key in arms.varying([ours, theirs]) if not _is_named(key, row.label)]
        if keys:
            texts = (f"{escape(key)} {escape(ours.get(key, DASH))} → {escape(theirs.get(key, DASH))}" for key in keys)
            found.setdefault(", ".join(texts), []).append(row.label)
    if not found:
        return []
    arms_with = "; ".join(f"{listed(labels, most=None)} ({text})" for text, labels in found.items())
    return [f"Trained otherwise than the baseline {escape(section.baseline)}, beside what their names say: {arms_with}."]


def _is_named(key: str, label: str) -> bool:
    return any(f" {name}=" in label for name in (key, arms.short_name(key)))


def _of_training(run: Run) -> arms.Facts:
    """What applies to this run: while pretraining, what the recipe sets in place of the model."""
    found = {key: run.facts[key] for key in OF_TRAINING if key in run.facts}
    if not run.is_pretraining:
        return found
    recipe = {key: value for key, value in run.facts.items() if key.startswith("pretrain.") and key not in NAMED}
    replaced = {key for key, by in OF_RECIPE.items() if recipe.get(by, UNSET) != UNSET}
    return {key: value for key, value in found.items() if key not in replaced} | recipe


def _differing(section: Section) -> list[str]:
    differing = {row.label: differing_settings(row.runs.values()) for row in section.rows}
    texts = {label: [f"{escape(key)} ({listed(values)})" for key, values in of.items()] for label, of in differing.items()}
    return [f"The seeds of {escape(label)} differ in {'; '.join(settings)}." for label, settings in texts.items() if settings]


def _superseded(section: Section) -> list[str]:
    pairs = [(old, row.runs[old.replicate]) for row in section.rows for old in row.superseded]
    if not pairs:
        return []
    runs = (
        f"{len(pairs)} older runs of the same arm and seeds were"
        if len(pairs) > 1
        else "1 older run of the same arm and seeds was"
    )
    text = f"{runs} superseded by the latest."
    if any(old.tags.get(tags.FINGERPRINT) != new.tags.get(tags.FINGERPRINT) for old, new in pairs):
        text += " Code or versions had changed in between: the fingerprints differ."
    keys = {key for pair_of_runs in pairs for key in differing_settings(pair_of_runs)}
    return [text + (f" They had other settings: {listed(sorted(keys))}." if keys else "")]


def conditions_differences(comparison: Comparison, section: Section) -> str | None:
    """How the conditions of this section's task differ and how to compare along them; None where there is one section."""
    sections = [other for other in comparison.sections if other.task == section.task]
    if len(sections) < 2:
        return None
    keys = arms.varying(other.facts for other in sections)
    header = [
        "key",
        *(escape(other.conditions) + " (this one)" * (other is section) for other in sections),
        "to compare along it",
    ]
    flags = {key: f"--along {key}" for key in keys}
    names = {key: f"{FACT_WORDS[key]} ({escape(key)})" if key in FACT_WORDS else escape(key) for key in keys}
    rows = [[names[key], *(escape(other.facts.get(key, DASH)) for other in sections), f"`{flags[key]}`"] for key in keys]
    intro = (
        f"**{escape(section.task)} was run under {len(sections)} sets of conditions, which are not compared with one another.**"
    )
    advice = f"`python -m reports {' '.join(flags.values())}` compares them in one table."
    return f"{intro} They differ in:\n\n{formats.table(header, rows, left=len(header))}\n\n{advice}"


P50 = "inference/latency_ms_p50"
ENDS = (f"{P50}_low", f"{P50}_high")
PEAKS = {"inference/mfu": "inference/peak_flops_per_s", "finetune/mfu": "hardware/peak_flops_per_s"}
"""Share of a peak -> that peak."""
ENERGY = "inference/energy_j_per_token"
MILLION = 1e6
"""Tokens that an energy is shown for: that of one has too many zeros."""
MEMORY = ("peak", "sampled_peak", "reserved_peak", "process_peak")

RATES = ("inference/tokens_per_s", "train_step/tokens_per_s")
"""Shown here where the table before has them by the clock of the device."""

COLUMNS = (
    "inference/latency_ms_min",
    P50,
    "inference/latency_ms_p90",
    "inference/latency_ms_p99",
    "inference/first_call_ms",
    "setup/build_s",
    "setup/import_s",
    *RATES,
    "inference/padded_tokens_per_s",
    "inference/samples_per_s",
    "inference/padding_share",
    "model/arithmetic_intensity",
    "model/bytes_forward",
    "inference/mfu",
    "finetune/mfu",
    "finetune/padded_tokens_per_s",
    "finetune/samples_per_s",
    "finetune/padding_share",
    *(f"{phase}/{kind}_memory_bytes" for phase in ("inference", "finetune") for kind in MEMORY),
    ENERGY,
    "finetune/energy_j",
)

INTRO = """\
Mean over replicates, ± its sample standard deviation where there are several; seeds share their launches, so that timings by
launch spread over sessions."""
SENTENCES = (
    ((P50,), "Latency is that of batch size 1{length}{launches}{threads}."),
    (ENDS, "In brackets is the 95 % interval of p50."),
    (
        ("inference/latency_ms_p90",),
        "Percentiles are of all calls, as measured; the latency by the wall clock above is the mean of the launches' medians, "
        "each divided by its reference workload where that lowers their scatter.",
    ),
    (
        ("inference/latency_device_ms",),
        "Device time is the CPU time of the one thread that computes, or GPU time between two events: the trimmed mean of the "
        "calls of a launch, always divided by the reference workload. Training steps of a launch are of {texts} texts of the "
        "same length.",
    ),
    (
        ("inference/first_call_ms", "setup/build_s", "setup/import_s"),
        "First call and times to build and to import are medians over launches, each a new process.",
    ),
    (
        ("inference/padded_tokens_per_s", "inference/samples_per_s", "inference/padding_share"),
        "Inference throughput is that of real validation batches{batches}.",
    ),
    (
        ("model/arithmetic_intensity", "model/bytes_forward"),
        "Bytes are those that the operators of a forward pass read and write, as if there were no cache; arithmetic intensity "
        "is FLOPs over these bytes.",
    ),
    (tuple(PEAKS), "FLOPs utilisation is the share of the fastest matrix product of the same machine, threads and arithmetic."),
    (
        tuple(name for name in COLUMNS if "sampled_peak" in name),
        "A sampled peak is what a thread beside the work saw, the other one the high-water mark of the system or of the "
        "GPU's allocator.",
    ),
    ((ENERGY, "finetune/energy_j"), "Energy is what the counters of the whole processor or GPU say."),
)
"""(metrics, what they are): shown where a row has one of them."""


def part(section: Section) -> list[str]:
    """Heading, what the figures are, and the table; empty where no row has any of them."""
    names = [name for name in present(section, COLUMNS) if name not in RATES or name in rates_by_the_wall(section)]
    if not names:
        return []
    rows = [[escape(row.label), *(text_of(row, name) for name in names)] for row in section.rows]
    return [
        "### Measured in detail",
        intro(section, names),
        formats.readable(["arm", *(title(section, name) for name in names)], rows),
    ]


def title(section: Section, name: str) -> str:
    """A column's head."""
    more = {ENERGY: " per million tokens", P50: " of all calls" + " [95 % interval]" * bool(present(section, ENDS))}
    return metrics.get(name).title + more.get(name, "")


def text_of(row: Row, name: str) -> str:
    """Value with unit and spread; p50 with its interval, a utilisation with the peak that it is a share of."""
    if name == P50:
        return _with_interval(row)
    if name == ENERGY:
        return _of_a_million(row)
    text = value_text(row, name) or DASH
    peak = value_text(row, PEAKS[name]) if name in PEAKS and text != DASH else None
    return f"{text} of {peak}" if peak else text


def _with_interval(row: Row) -> str:
    """Without the interval where the runs were timed by several sessions: their intervals are not that of the mean."""
    measured = {tuple(run.metrics.get(name) for name in (P50, *ENDS)) for run in row.runs.values() if P50 in run.metrics}
    unit = metrics.get(P50).unit
    if len(measured) != 1 or None in (only := measured.pop()):
        of_sessions = {run.session or run.run_id: run.metrics[P50] for run in row.runs.values() if P50 in run.metrics}
        over = spread(list(of_sessions.values())) if of_sessions else None
        return formats.value(over.mean, unit, over.sd) if over else DASH
    middle, *ends = only
    digits = formats.decimals(middle)
    return f"{formats.value(middle, unit)} [{', '.join(formats.plain(end, digits) for end in ends)}]"


def _of_a_million(row: Row) -> str:
    spread = row.spread(ENERGY)
    return (
        DASH
        if spread is None
        else formats.value(MILLION * spread.mean, "J", None if spread.sd is None else MILLION * spread.sd)
    )


def intro(section: Section, names: list[str]) -> str:
    """What each of the shown figures is; numbers are those that the runs recorded."""
    words = {
        "length": _worded(" and {} tokens", _setting(section, "measure.length")),
        "launches": _by(_launches(section), _setting(section, "measure.repeats")),
        "threads": _worded(", CPU threads: {}", _setting(section, "measure.threads")),
        "batches": _worded(" of {} texts", _setting(section, "measure.batch_size")),
        "texts": _setting(section, "measure.train_batch_size"),
    }
    sentences = [sentence.format(**words) for needed, sentence in SENTENCES if present(section, needed)]
    trained = _setting(section, "environment.threads") if any(name.startswith("finetune/") for name in names) else ""
    return " ".join([INTRO, *sentences, _worded("CPU threads of training: {}.", trained)]).rstrip()


def _worded(text: str, known: str) -> str:
    return text.format(known) if known else ""


def _by(launches: str, calls: str) -> str:
    """`, 5 launches of 30 calls`, or what is known of it."""
    known = [f"{number} {name}" for number, name in ((launches, "launches"), (calls, "calls")) if number]
    return f", {' of '.join(known)}" if known else ""


def _setting(section: Section, key: str) -> str:
    """The values that the runs have under this key, empty where none says."""
    return listed(run.params[key] for run in section.runs if run.params.get(key, "None") != "None")


def _launches(section: Section) -> str:
    """How many each run has, as 5 or 5 to 10; empty where no run has any."""
    counts = sorted({len(rounds) for run in section.runs if (rounds := run.launches.get(launches.LATENCY))})
    return " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else ""


def paragraphs(comparison: Comparison, section: Section, first: list[str], last: list[str]) -> list[str]:
    """Markdown; `first` and `last` are sentences around the notes that every section has."""
    other_conditions = conditions_differences(comparison, section)
    differences = tables.differences(section)
    sentences = [*first, *section_notes(section), *without_score(comparison, section), *last]
    about = "before and after" if len(comparison.labels) > 1 else "measured"
    parts = [f"## {tables.section_name(comparison, section)}: {about}", f"Conditions {escape(section.conditions)}."]
    parts += [other_conditions] if other_conditions else []
    parts.append(tables.before_after(section))
    parts += ["\n".join(f"- {sentence}" for sentence in sentences)] if sentences else []
    parts += [tables.differences_intro(section), differences] if differences else []
    return parts + part(section)
