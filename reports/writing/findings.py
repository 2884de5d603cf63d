"""What a study found, in words: nothing that the tests of its overall changes, or of single items, do not carry."""

import ast
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from harness import metrics, tags
from harness.comparison import arms, comparable, launches, overall, paired, plateau
from harness.comparison.compare import Comparison
from harness.comparison.items import CLASSES, SPANS, TAGS, Paired
from harness.comparison.labels import typed, unnamed_settings
from harness.comparison.overall import Overall
from harness.comparison.paired import LEVEL, Design, Tells, grouped
from harness.comparison.plateau import LOSS
from harness.comparison.runs import Run, states_text
from harness.comparison.section import HEADLINE, RESULTS, Row, Section, results_of
from harness.comparison.verdicts import Change, Verdict
from harness.document import Bullets
from harness.errors import some_of
from harness.metrics import PER_BYTE, Compared, judged_by
from harness.reports.writing import formats, tables
from harness.reports.writing.concise import shared_parts
from harness.reports.writing.formats import bullets, escape, listed
from harness.reports.writing.shown import SHOWN

BASELINE = "baseline"
"""Kind of a note of a run whose score is not above the majority baseline."""
WRONG_WITH = {
    "collapsed": "collapsed to one prediction",
    "falling": "the loss still fell at the end",
    "rose": "the loss rose",
    "best_first": "the first evaluation was the best",
    BASELINE: "not above the majority baseline",
}
"""Kind of a note of a training -> what went wrong."""

WRONG = {CLASSES: "wrong on", SPANS: "wrong on", TAGS: "wrong, as a share of the words, on"}
"""What the error of an item is -> how it is said; errors of other scores are not counts."""


def by_items(comparison: Comparison) -> list[tuple[Section, Row, Paired, int]]:
    """Differences of single items that no other sample of them explains, where too few replicates decide on the score.

    With the number of comparisons that they are corrected for; the largest ones first.
    """
    every = [
        (section, row, paired)
        for section in comparison.selected_tasks
        for row in section.rows
        if (paired := section.errors_of_both(row.label)) and paired.what in WRONG
    ]
    undecided = (Verdict.DIRECTION_BETTER, Verdict.DIRECTION_WORSE, Verdict.INCONCLUSIVE)
    differing = [
        (section, row, paired, len(every))
        for section, row, paired in every
        if (change := section.change(row, HEADLINE)) and change.verdict in undecided and len(every) * paired.p <= LEVEL
    ]
    return sorted(differing, key=lambda difference: -abs(difference[2].change))


def sentence(section: Section, row: Row, paired: Paired, count: int) -> str:
    """`**windowed** on distance: wrong on 124 items more of 500 (...)`."""
    number = len(paired.before)
    seeds = tables.replicates_text(row) if number == len(row.runs) else f"{number} seed{'s' * (number > 1)}"
    ends = tuple(100 * end for end in paired.interval_at(1 - LEVEL / count))
    items, more = round(abs(paired.change) * paired.count, 1), "more" if paired.change > 0 else "fewer"
    family = f", corrected for {count} comparisons" if count > 1 else ""
    return (
        f"**{escape(row.label)}** on {escape(section.name)}: {WRONG[paired.what]} {items:g} {more} of "
        f"{paired.count:,} items than {escape(section.baseline)} ({formats.difference(100 * paired.change, '%', ends)} of the "
        f"items: 95 % interval over items, paired{family}; {seeds}). Item sampling alone does not explain this; other seeds "
        "could still differ."
    )


BRACKETS = "In brackets: 95 % CI, Holm-corrected for the number of arms; score intervals include test-set sampling error."
MOST, FEW = 6, 2
"""Names of one list; missing tasks that are named, not counted."""


WORDS = {
    Verdict.BETTER: "**better** in",
    Verdict.WORSE: "**worse** in",
    Verdict.SAME: "equivalent in",
    Verdict.DIRECTION_BETTER: "single run, not evidence:",
    Verdict.INCONCLUSIVE: "inconclusive:",
}
ALIKE = {Verdict.EQUAL: Verdict.SAME, Verdict.DIRECTION_WORSE: Verdict.DIRECTION_BETTER}
"""Verdict -> the one that it is said with."""


@dataclass(frozen=True)
class Effect:
    """The change of an arm in one metric over `tasks`, such as `3 tasks`; `name` is the metric's in the overview."""

    metric: str
    name: str
    label: str
    change: Change
    tasks: str

    @property
    def unit(self) -> str:
        return metrics.get(self.metric).unit

    @property
    def said_with(self) -> Verdict | None:
        """The verdict whose words are used; some share them."""
        verdict = self.change.verdict
        return verdict and ALIKE.get(verdict, verdict)

    @property
    def is_below_floor(self) -> bool:
        """Whether the test over rounds shows it, although one model timed twice may differ by more."""
        change, is_shown = self.change, self.change.verdict in (Verdict.BETTER, Verdict.WORSE)
        return is_shown and change.by_round and change.percent is not None and abs(change.percent) < (change.floor or 0.0)

    def text(self) -> str:
        """`latency (+5.5 % [2.9, 8.1])`."""
        name = escape(self.name)
        return name if self.change.verdict is Verdict.EQUAL else f"{name} ({self.size()})"

    def size(self) -> str:
        """The size of the change, or the margin within which it is the same."""
        if self.change.verdict is Verdict.SAME:
            return tables.within(self.change, self.unit)
        over = f" over {self.tasks.partition(' (')[0]}" if self.metric == HEADLINE and self.tasks else ""
        return tables.size_text(self.change, self.unit) + over


def parts(comparison: Comparison) -> list[tuple[Overall, dict[str, str]]]:
    """Tasks and pretrainings with their metrics and the names of these, of those that any run has.

    Losses are by byte in place of by token where the arms have several vocabularies.
    """
    tasks, pretrainings = overall.of_tasks(comparison), overall.of_pretrainings(comparison)
    sizes = {} if tasks.sections else {"model/params_total": "parameters"}
    by_token = all(section.has_one_vocabulary for section in pretrainings.sections)
    losses = [name if by_token else PER_BYTE.get(name, name) for name in SHOWN.overview_of_pretrainings]
    of_others = {name: metrics.get(name).title for name in results_of(comparison.runs)[len(RESULTS) :]}
    both = (tasks, SHOWN.overview | of_others), (pretrainings, sizes | {name: metrics.get(name).title for name in losses})
    measured = []
    for over, names in both:
        judged = {judged_by(name, comparison.has): text for name, text in names.items()}
        names = {name: text for name, text in judged.items() if any(over.having(label, name) for label in over.labels)}
        measured += [(over, names)] if names else []
    return measured


def effects(comparison: Comparison) -> list[Effect]:
    """All changes, by metric and then by arm."""
    return [
        Effect(name, text, label, change, of_mean(over, over.shared(label, name)))
        for over, names in parts(comparison)
        for name, text in names.items()
        for label in over.labels
        if (change := over.change(label, name))
    ]


def _further(comparison: Comparison) -> list[Effect]:
    """What is better or worse in metrics that the overview does not show, and the table of a task or a pretraining does."""
    tasks, pretrainings = overall.of_tasks(comparison), overall.of_pretrainings(comparison)
    shown = {name for _, names in parts(comparison) for name in names}
    return [
        Effect(name, metrics.get(name).title.partition(",")[0], label, change, counted(over.shared(label, name)))
        for over, names in ((tasks, SHOWN.task), (pretrainings, SHOWN.pretraining))
        for name in dict.fromkeys(judged_by(name, comparison.has) for name in names)
        if name not in shown and name not in PER_BYTE.values()  # the loss says as much
        for label in over.labels
        if (change := over.change(label, name)) and change.verdict in (Verdict.BETTER, Verdict.WORSE)
    ]


def counted(sections: list[Section]) -> str:
    """`3 tasks`; empty for one."""
    return f"{len(sections)} tasks" if len(sections) > 1 else ""


def of_mean(over: Overall, sections: list[Section]) -> str:
    """What a mean over these is of: `3 tasks`, `3 tasks (without rte)`, or `3 of 6 tasks`; empty if there is one task."""
    missing, count = [section.name for section in over.sections if section not in sections], counted(sections)
    if count and len(missing) <= FEW:
        return count + f" (without {listed(missing)})" * bool(missing)
    return f"{len(sections)} of {counted([*over.sections])}" * bool(missing)


def score_head(over: Overall, of_one: str = "") -> str:
    """Head of the column of scores: over how many tasks they are a mean, or after `of_one` which score it is."""
    mean = of_mean(over, over.of_mean(HEADLINE))
    return f"score, mean of {mean}" if mean else of_one + escape(tables.score_title(over.sections[0]))


def sentences(comparison: Comparison) -> list[Bullets]:
    """A list of findings with their intervals; empty without any."""
    lines = _of_arms(comparison, [*effects(comparison), *_further(comparison)])
    return bullets(chain(lines, (sentence(*difference) for difference in by_items(comparison)[:MOST])))


def cautions(comparison: Comparison) -> list[Bullets]:
    """A list of what to be careful of; empty without any. A small study has `solved` in another place."""
    notes = (
        _of_constants(comparison),
        () if comparison.is_small else solved(comparison),
        _count_warned(comparison),
        _alike(comparison),
        _of_one_seed(overall.of_tasks(comparison)),
        without_evidence(effects(comparison)),
        _clocks(comparison),
        _on_a_busy_machine(comparison.sessions),
        _below_the_floor(effects(comparison)),
        _by_probe(comparison),
    )
    return bullets(chain(*notes, _vocabularies(comparison), unpaired(comparison), unfinished(comparison)))


def no_study(comparison: Comparison) -> list[str]:
    """A sentence if no trained arm has enough replicates for a verdict against the baseline."""
    if any(section.design is not Design.SEEDS for section in comparison.selected):
        return []
    trained = [
        [paired.replicates(values) for values in sides if paired.NO_SEED not in values]
        for section in comparison.selected_tasks or comparison.selected
        for row in section.rows
        for name in (HEADLINE, LOSS)
        if section.before not in (None, row) and all(sides := (row.values(name), section.before.values(name)))
    ]
    text = paired.no_study(max(map(min, filter(None, trained)))) if any(trained) else ""
    return [f"**{text.capitalize()}** (`seed=0,1,2`)."] if text else []


def controls(comparison: Comparison) -> list[str]:
    """For a study of pretraining: whether an arm has random weights, unswept settings that differ, tuning."""
    runs = {row.label: row.first for section in comparison.selected_tasks for row in section.rows}
    pretrained = [run for run in runs.values() if run.origin is not None]
    if not pretrained:
        return []
    no_control = "**No random-weights control**: `sweep.control=true` adds one."
    sentences = [no_control] if len(pretrained) == len(runs) else []
    texts = [
        f"{key.rpartition('.')[2]} {' and '.join(f'{typed(value)} ({listed(of, most=MOST)})' for value, of in values.items())}"
        for key, values in _unswept(comparison, runs).items()
    ]
    sentences += [f"**Arms differ in more than what is swept**: {'; '.join(texts)}."] if texts else []
    trials = grouped((len(json.loads(run.params.get("tuned.scores", "[]"))), label) for label, run in runs.items())
    each = "; ".join(f"{number or 'no'} trials: {listed(labels, most=MOST)}" for number, labels in sorted(trials.items()))
    untuned = "No hyperparameters were tuned (`search=rate` tunes the learning rate)."
    alike = f"All arms were tuned, with {max(trials)} trials each." if max(trials) else untuned
    return [" ".join([*sentences, alike if len(trials) == 1 else f"**Arms were not tuned alike** ({each})."])]


OF_TRAINING = ("pretrain.", "finetune.")
DROPOUTS = ("model.hidden_dropout_prob", "model.attention_probs_dropout_prob", "model.classifier_dropout")


def _unswept(comparison: Comparison, runs: dict[str, Run]) -> dict[str, dict[str, list[str]]]:
    """Setting of training that no command sweeps or tunes -> value -> arms; settings of pretraining cover pretrained arms."""
    swept = {key for run in comparison.runs for key in ast.literal_eval(run.params.get("swept", "[]"))}
    swept |= {key for run in runs.values() for key in json.loads(run.params.get("tuned.settings", "{}"))}
    swept |= {part for group, part in (("recipe", "pretrain."), ("finetune", "finetune.")) if group in swept}
    differing = {}
    for key in sorted({key for run in runs.values() for key in run.facts if key in DROPOUTS or arms.within(key, OF_TRAINING)}):
        own = [label for label, run in runs.items() if run.origin is not None or not key.startswith("pretrain.")]
        values = grouped((runs[label].facts.get(key, "not set"), label) for label in own)
        is_named = arms.within(key, swept) or (key not in DROPOUTS and arms.within(key, arms.OF_ARM))
        if len(values) > 1 and not is_named:
            differing[key] = values
    return differing


def opening(comparison: Comparison) -> str:
    """What was compared, how often the study could have ended, and of which conditions the numbers are."""
    looks = max((run.seed_looks for run in comparison.runs), default=1)
    ends = "until every arm was resolved or they ended (`sweep.until=resolved`)"
    often = f"Seeds were added in at most {looks} interim analyses, {ends}, which share the level of {100 * LEVEL:.0f} %."
    return " ".join([compared(comparison), *([often] if looks > 1 else []), *selected(comparison)])


def selected(comparison: Comparison) -> Iterator[str]:
    """Which conditions the numbers over tasks are of, for each task that has several."""
    for section in comparison.selected:
        same_task = [other for other in comparison.sections if other.task == section.task]
        if len(same_task) > 1:
            keys = arms.varying(other.facts for other in same_task)
            texts = (
                f"{key}={typed(value)}"
                if not key.startswith("facts.")
                else f"different {key[6:].replace('_', ' ')}"  # not its hash
                for key, value in sorted(section.facts.items())
                if key in keys
            )
            settings = listed(texts, most=MOST)
            yield (
                f"**{escape(section.task)} was run under {len(same_task)} sets of conditions**: the numbers over all tasks are "
                f"those of {escape(section.conditions)} ({settings}); the others are in tables of their own."
            )


def compared(comparison: Comparison) -> str:
    """Which arms on which tasks, by how many replicates.

    The baseline says what it has where the other arms name a swept setting: ` (mask_rate=0.3)`.
    """
    others = comparison.others
    tasks = comparison.selected_tasks
    on = f" on {listed(section.task for section in tasks)}" if tasks else ""
    rows = [row for section in tasks or comparison.selected for row in section.rows]
    alike = grouped((bool(row.first.replicate.pretrain_seed), row) for row in rows)
    each = ", or ".join(
        f"{tables.replicates_text(*of_kind)} each"
        + " (random weights)" * all(row.first.params.get("model.random_weights") == "True" for row in of_kind)
        for of_kind in alike.values()
    )
    if len(others) == len(comparison.labels):
        return f"{listed(others, most=MOST)}{on}; {each}."
    against = f"{listed(others, most=MOST)} against " if others else ""
    shared = shared_parts(comparison.labels)
    omitted = f" Names leave out what all arms share: `{shared}`." if shared else ""
    defaults = f" ({text})" if (text := unnamed(comparison)) else ""
    return f"{against}**{escape(comparison.baseline)}**{defaults}{on}; {each}.{omitted}"


def unnamed(comparison: Comparison) -> str:
    """Settings of the baseline that the names of others have and its own lacks."""
    run = next((section.before.first for section in comparison.selected if section.before), None)
    return escape(", ".join(unnamed_settings(run, comparison.others))) if run else ""


def _of_arms(comparison: Comparison, changes: list[Effect]) -> Iterator[str]:
    """What an arm's score does comes first."""
    for label in comparison.labels:
        of_arm = [effect for effect in changes if effect.label == label and effect.change.interval]  # the table has the others
        of_score = [effect.said_with for effect in of_arm if effect.metric == HEADLINE]
        clauses = []
        for verdict in sorted(WORDS, key=lambda verdict: verdict not in of_score):
            texts = [effect.text() for effect in of_arm if effect.said_with is verdict]
            clauses += [f"{WORDS[verdict]} {formats.enumerated(texts)}"] if texts else []
        if clauses:
            yield f"**{escape(label)}**: {'; '.join(clauses)}."


def is_below_constant(section: Section, row: Row) -> bool:
    """Whether the arm is not shown to be better than the answer that ignores the text."""
    return section.beats_constant(row, HEADLINE) is False


def _of_constants(comparison: Comparison) -> Iterator[str]:
    """Arms that no task shows to have learned."""
    below, none = [], []
    for section in comparison.selected:
        name = escape(section.name)
        low = [row for row in section.rows if is_below_constant(section, row)]
        below += [(section.name, row.label) for row in low]
        none += [name] if len(low) == len(section.rows) > 1 else []
    if below:
        text = f"**Not shown to beat the majority baseline**, which ignores the text: {_places(below)}."
        all_low = f" No arm beats it on {listed(none, most=MOST)}: equal scores there only mean that none has learned."
        yield text + all_low * bool(none)


def solved(comparison: Comparison) -> Iterator[str]:
    """Tasks at ceiling, which cannot distinguish the arms."""
    solved = [
        (section.name, row.label)
        for section in comparison.selected
        for row in section.rows
        if (pairing := section.against(row)) and pairing.tells(HEADLINE) is Tells.NO_EQUALITY
    ]
    if solved:
        yield f"**At ceiling, like {escape(comparison.baseline)}**: {_places(solved)}. Too easy to rank these arms."


def is_warned(run: Run) -> bool:
    """Whether training went wrong, apart from warnings of earlier versions on probes."""
    return tags.WARNING in run.tags and (tags.NOTES in run.tags or not run.metrics.get(plateau.PROBE))


def _warned(comparison: Comparison) -> list[tuple[Section, Row, Run]]:
    """Trainings that went wrong, but for what is said of the majority baseline already."""
    return [
        (section, row, run)
        for section in comparison.selected_tasks
        for row in section.rows
        for run in row.runs
        if is_warned(run) and not (run.tags.get(tags.NOTES) == BASELINE and is_below_constant(section, row))
    ]


def _count_warned(comparison: Comparison) -> Iterator[str]:
    """How many trainings went wrong, and how."""
    every = [run for section in comparison.selected_tasks for row in section.rows for run in row.runs]
    warned = [run for _, _, run in _warned(comparison)]
    counts = Counter(kind for run in warned for kind in run.tags.get(tags.NOTES, "").split(", "))
    if warned:
        kinds = [(WRONG_WITH.get(kind, "other warnings"), count) for kind, count in counts.most_common()]
        of_kind = "; ".join(f"{kind}: {count}" for kind, count in kinds) if len(kinds) > 1 else kinds[0][0]
        name = "Other warnings" if sum(map(is_warned, every)) > len(warned) else "Warnings"
        yield f"**{name} in {len(warned)} of {len(every)} training runs**: {of_kind}."


def of_trainings(comparison: Comparison) -> Iterator[str]:
    """What the runs say of trainings that went wrong."""
    warned = grouped(
        ((f"{row.label} on {section.name}", run.tags.get(tags.NOTES) or run.tags[tags.WARNING]), run)
        for section, row, run in _warned(comparison)
    )
    texts = []
    for (place, _), runs in warned.items():
        first = "the first: " if len({run.tags[tags.WARNING] for run in runs}) > 1 else ""
        seeds = listed(run.replicate.seed for run in runs)
        texts.append(f"{escape(place)}, seed{'s' * (len(runs) > 1)} {seeds} ({first}{escape(runs[0].tags[tags.WARNING])})")
    if texts:
        yield f"**Training warnings**: {_some(texts)}."


def _alike(comparison: Comparison) -> Iterator[str]:
    """Arms that are one model and recipe under two names."""
    rows = (row for section in comparison.sections for row in section.rows)
    pairs = dict.fromkeys((row.label, run.tags[tags.SAME_AS]) for row in rows for run in row.runs if tags.SAME_AS in run.tags)
    if pairs:
        each = _some([f"{escape(label)} is {escape(other)}" for label, other in pairs])
        yield f"**The same model and recipe under two names**: {each}. Any difference between them is noise."


def _of_one_seed(over: Overall) -> Iterator[str]:
    """Arms with one seed where others have more."""
    seeds = {label: [{*row.values(HEADLINE)} - {paired.NO_SEED} for row in over.rows(label, HEADLINE)] for label in over.labels}
    once = [label for label, of_tasks in seeds.items() if {*map(len, of_tasks)} == {1}]
    if 0 < len(once) < len(seeds):
        yield f"Only one seed of {listed(once, most=MOST)}: scores are not evidence; use `seed=0,1,2`."


def without_evidence(changes: list[Effect]) -> Iterator[str]:
    """Why metrics have no verdict: a noise floor that is too high, or nothing side by side."""
    timed = [effect for effect in changes if metrics.get(effect.metric).compared is not Compared.BY_SEED]
    undecided = [effect for effect in timed if effect.change.verdict is Verdict.OPEN]
    noisy = [effect for effect in undecided if effect.change.evidence and effect.change.evidence.is_too_noisy]
    why = "not timed side by side with the baseline, or no noise floor is known"
    if noisy:
        floors = {effect.change.floor or 0.0 for effect in noisy}
        why = f"noise floor {'up to ' * (len(floors) > 1)}{max(floors):,.1f} %; `sweep.retime=true` repeats the timing"
    if undecided:
        yield f"No verdict on {listed(effect.name for effect in noisy or undecided)}: {why}."


def _clocks(comparison: Comparison) -> Iterator[str]:
    """Arms that wait: whose latency differs from the baseline's otherwise by the wall clock than by that of the device."""
    over = overall.of_tasks(comparison)
    for label in over.labels:
        wall, device = (over.change(label, name) for name in ("inference/latency_ms_p50", "inference/latency_device_ms"))
        if not (wall and device and wall.interval and device.interval):
            continue
        both = (wall, device)
        ends = [[end / change.baseline_mean for end in change.interval or ()] for change in both]
        if ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]:
            as_factor = any(formats.is_large(change.percent or 0.0) for change in both)
            by_wall, by_device = (tables.size_text(change, "ms", as_factor) for change in both)
            yield (
                f"**Wall-clock and device time disagree for {escape(label)}**: latency: wall-clock {by_wall}, device "
                f"time {by_device}. Only wall-clock includes waiting (for memory, files, another device or a lock)."
            )


def _vocabularies(comparison: Comparison) -> Iterator[str]:
    """Which arms have which vocabulary where they differ, and what does not compare for that."""
    differing = [section for section in comparison.selected if not section.has_one_vocabulary]
    if not differing:
        return
    has_files = len({run.params.get("facts.tokenizer_file") for run in differing[0].runs}) > 1
    texts = [(row, dict.fromkeys(_vocabulary(run, has_files) for run in row.runs)) for row in differing[0].rows]
    arms_of = grouped((text, row.label) for row, of_row in texts for text in of_row)
    each = "; ".join(f"{text}: {listed(labels, most=MOST)}" for text, labels in arms_of.items())
    by_token = "Per-token losses and accuracies get no verdict; bits per byte do. "
    pretrained = by_token if any(section.is_pretraining for section in differing) else ""
    yield f"**Vocabularies differ** ({each}). {pretrained}`tokenizer=wordpiece` gives all arms one."


def _vocabulary(run: Run, has_files: bool) -> str:
    """Kind, case, and the hash of its file where these differ, or the largest size that it may be trained to."""
    keys = ("tokenizer.kind", "tokenizer.lowercase", "tokenizer.vocab_size", "facts.tokenizer_file")
    kind, lowercase, size, file = (run.params.get(key, "None") for key in keys)
    pieces = f"file {file[: arms.HASH_DIGITS]}" if has_files and file not in arms.NO_FILE else f"up to {size} pieces"
    return ", ".join([kind, "lower case" if lowercase == "True" else "cased", pieces])


def _on_a_busy_machine(sessions: launches.Sessions) -> Iterator[str]:
    """How many launches other processes disturbed, where it is more than half."""
    every = [shared[0].launches for name in sessions.names for shared in sessions.launched(name)]
    busy = sum(len(launches.disturbed(history)) for history in every)
    watched = sum(len(history.get(launches.FOREIGN_CPUS, ())) for history in every)
    if 2 * busy > watched:
        yield f"**Timed on a busy machine**: {busy} of {watched} launches."


def _below_the_floor(every: list[Effect]) -> Iterator[str]:
    """Differences of times that one model timed twice may have, too."""
    small = [
        f"{escape(effect.label)} in {escape(effect.name)} ({formats.percent(effect.change.percent)})"
        for effect in every
        if effect.is_below_floor
    ]
    if small:
        yield f"**Significant over rounds, but below the noise floor**: {_some(small)}. `sweep.retime=true` times again."


def _by_probe(comparison: Comparison) -> Iterator[str]:
    """Whose masked loss is of a probe, which compares with that of other probes alone."""
    rows = [row for section in overall.of_pretrainings(comparison).sections for row in section.rows]
    labels = [row.label for row in rows if comparable.have_probes(row.runs)]
    if labels:
        yield (
            "Held-out masked losses of a probe, a head trained briefly on the frozen encoder: "
            f"{listed(labels, most=MOST)}. They get no verdict against losses of an objective's own head."
        )


def unpaired(comparison: Comparison) -> Iterator[str]:
    """Which arms share no seed with the baseline, by which scores are compared."""
    over = overall.of_tasks(comparison)
    labels = [one for one in comparison.others if over.shared(one, HEADLINE) and not over.change(one, HEADLINE)]
    if labels:
        names = f"{escape(comparison.baseline)}**: {listed(labels, most=MOST)}"
        yield f"**No seed in common with {names}. No verdict on scores: use the same seeds for all."


def unfinished(comparison: Comparison) -> Iterator[str]:
    """Sentences on runs that did not finish, where no other run of that arm, task and seed counts."""

    def place(run: Run) -> tuple[str | None, ...]:
        return tuple(run.tags.get(tag) for tag in (tags.ARM, tags.TASK, tags.SEED, tags.PRETRAIN_SEED))

    finished = {place(run) for section in comparison.selected for run in section.runs}
    states = grouped(
        (f"{run.tags.get(tags.ARM, run.name)} on {run.tags.get(tags.TASK, 'an unknown task')}", run.status)
        for run in comparison.left_out
        if not run.is_aa_replicate and place(run) not in finished
    )
    if states:
        each = [f"{escape(name)} ({states_text(of_name)})" for name, of_name in states.items()]
        yield f"**Not finished, and not counted**: {_some(each)}."


def _places(pairs: list[tuple[str, str]]) -> str:
    """`a, b on bag; c on order` of tasks and arms; half as many arms of each of several tasks."""
    of_tasks = grouped(pairs)
    most = MOST // min(2, len(of_tasks))
    alike = grouped((listed(labels, most=most), escape(task)) for task, labels in of_tasks.items())
    return _some([f"{arms} on {formats.enumerated(names)}" for arms, names in alike.items()])


def _some(texts: list[str]) -> str:
    return some_of(texts, MOST, "; ")
