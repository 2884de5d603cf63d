"""What a study found, in words: nothing that the tests of its overall changes, or of single items, do not carry."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from harness import arms, metrics, tags
from harness.metrics import PER_BYTE, Compared, has_one_vocabulary
from harness.paired import LEVEL, Tells, grouped
from reports.comparison import overall
from reports.comparison.compare import Comparison
from reports.comparison.items import CLASSES, SPANS, TAGS, Paired
from reports.comparison.labels import unnamed_settings
from reports.comparison.launches import judged_by
from reports.comparison.overall import Overall
from reports.comparison.section import HEADLINE, LOSS, Row, Section, have_probes
from reports.comparison.statistics import Change, Verdict
from reports.reading.store import Run
from reports.writing import formats, tables
from reports.writing.formats import escape, listed

WRONG = {CLASSES: "wrong on", SPANS: "wrong on", TAGS: "wrong, as a share of the words, on"}
"""What the error of an item is -> how it is said; of the others an error is no count."""


def losers(comparison: Comparison) -> set[str]:
    """Arms that are worse in score over all tasks or on one of them, by replicates or by items."""
    over = overall.of_tasks(comparison)
    changes = [(row.label, section.change(row, HEADLINE)) for section in over.sections for row in section.rows]
    changes += [(label, over.change(label, HEADLINE)) for label in over.labels]
    by_replicates = {label for label, one in changes if one and one.verdict is Verdict.WORSE}
    return by_replicates | {row.label for _, row, paired, _ in by_items(comparison) if paired.change > 0}


def by_items(comparison: Comparison) -> list[tuple[Section, Row, Paired, int]]:
    """Differences of single items that no other sample of them explains, where too few replicates decide on the score.

    With the number of comparisons that they are corrected for; the largest ones first.
    """
    every = [
        (section, row, paired)
        for section in overall.of_tasks(comparison).sections
        for row in section.rows
        if (paired := section.errors_of_both(row.label)) and paired.what in WRONG
    ]
    undecided = (Verdict.DIRECTION_BETTER, Verdict.DIRECTION_WORSE, Verdict.NOT_RESOLVED)
    found = [
        (section, row, paired, len(every))
        for section, row, paired in every
        if (change := section.change(row, HEADLINE)) and change.verdict in undecided and len(every) * paired.p <= LEVEL
    ]
    return sorted(found, key=lambda one: -abs(one[2].change))


def sentence(comparison: Comparison, section: Section, row: Row, paired: Paired, count: int) -> str:
    """`**windowed** on distance: wrong on 124 items more of 500 (...)`."""
    seeds = tables.replicates_text(row) if len(paired.before) == len(row.runs) else f"{len(paired.before)} seeds"
    ends = tuple(100 * end for end in paired.interval_at(1 - LEVEL / count))
    number, more = round(abs(paired.change) * paired.count, 1), "more" if paired.change > 0 else "fewer"
    family = f", corrected for {count} comparisons" if count > 1 else ""
    return (
        f"**{escape(row.label)}** on {tables.section_name(comparison, section)}: {WRONG[paired.what]} {number:g} {more} of "
        f"{paired.count:,} items than {escape(section.baseline)} ({formats.difference(100 * paired.change, '%', ends)} of the "
        f"items: 95 % interval over items, paired{family}; {seeds}). Another sample of items does not explain this; how other "
        "seeds would turn out it does not say."
    )


OF_TASKS = {
    HEADLINE: "score",
    "model/params_total": "parameters",
    "model/flops_forward": "forward FLOPs",
    "inference/latency_ms_p50": "latency",
    "inference/peak_memory_bytes": "inference memory",
    "finetune/tokens_per_s": "training throughput",
}
"""Metric over all tasks -> its name in the overview."""
OF_PRETRAININGS = ("pretrain/flops", LOSS, *tables.OWN)
BRACKETS = " In brackets: 95 % intervals, corrected for the number of arms (Holm); those of scores hold the share of the items."
MOST = 6
"""Arms beyond which a sentence is said of a metric, not of an arm; names of one list."""


WORDS = {
    Verdict.BETTER: "**better** in",
    Verdict.WORSE: "**worse** in",
    Verdict.SAME: "the same in",
    Verdict.DIRECTION_BETTER: "measured once, which is no evidence:",
    Verdict.NOT_RESOLVED: "not resolved:",
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
        """Its verdict; some share their words."""
        return ALIKE.get(self.change.verdict, self.change.verdict)

    def text(self) -> str:
        """`latency (+5.5 % [2.9, 8.1])`."""
        return self.name if self.change.verdict is Verdict.EQUAL else f"{self.name} ({self.size()})"

    def size(self) -> str:
        """How large, or within which margin the same."""
        if self.change.verdict is Verdict.SAME:
            return tables.within(self.change, self.unit)
        over = f" over {self.tasks}" if self.metric == HEADLINE and self.tasks else ""
        return tables.size_text(self.change, self.unit) + over


def parts(comparison: Comparison) -> list[tuple[Overall, dict[str, str]]]:
    """Tasks and pretrainings with their metrics, of those that any run has."""
    tasks, pretrainings = overall.of_tasks(comparison), overall.of_pretrainings(comparison)
    sizes = {} if tasks.sections else {"model/params_total": "parameters"}
    found = []
    for over, names in ((tasks, OF_TASKS), (pretrainings, sizes | _of_pretrainings(pretrainings))):
        judged = {judged_by(name, comparison.has): text for name, text in names.items()}
        known = {name: text for name, text in judged.items() if any(over.having(label, name) for label in over.labels)}
        found += [(over, known)] if known else []
    return found


def _of_pretrainings(over: Overall) -> dict[str, str]:
    """Metric -> its name; losses by byte in place of those by token where the arms have several vocabularies."""
    one = all(has_one_vocabulary(run.params for run in section.runs) for section in over.sections)
    names = OF_PRETRAININGS if one else (PER_BYTE.get(name, name) for name in OF_PRETRAININGS)
    return {name: metrics.get(name).title for name in names}


def effects(comparison: Comparison) -> list[Effect]:
    """All that are known, by metric and then by arm."""
    return [
        Effect(name, text, label, change, counted(over.shared(label, name)))
        for over, names in parts(comparison)
        for name, text in names.items()
        for label in over.labels
        if (change := over.change(label, name))
    ]


def counted(sections: list[Section]) -> str:
    """`3 tasks`; empty for one."""
    return f"{len(sections)} tasks" if len(sections) > 1 else ""


def paragraphs(comparison: Comparison) -> list[str]:
    """Markdown: what was compared, a list of findings, and a list of what to be careful of."""
    found = effects(comparison)
    sentences = _of_arms(comparison, found) if len(comparison.labels) <= MOST + 1 else _of_metrics(found)
    sentences += [sentence(comparison, *one) for one in by_items(comparison)[:MOST]]
    cautions = [
        *_below_constant(comparison),
        *_solved(comparison),
        *_without_evidence(found),
        *_clocks(comparison),
        *_by_probe(comparison, found),
        *_vocabularies(comparison),
        *_unfinished(comparison),
    ]
    lists = ["\n".join(f"- {line}" for line in lines) for lines in (sentences, cautions) if lines]
    return [" ".join([compared(comparison), *map(_selected, _several_conditions(comparison))]), *lists]


def _several_conditions(comparison: Comparison) -> list[list[Section]]:
    """Sections of each task that has several, the selected one first."""
    alike = [[other for other in comparison.sections if other.task == one.task] for one in comparison.selected]
    both = zip(comparison.selected, alike, strict=True)
    return [[one, *(other for other in found if other is not one)] for one, found in both if len(found) > 1]


def _selected(sections: list[Section]) -> str:
    """Which conditions the numbers over tasks are of."""
    first, keys = sections[0], arms.varying(section.facts for section in sections)
    texts = arms.setting_texts({key: value for key, value in first.facts.items() if key in keys}, sorted(keys))
    shown = escape(", ".join(texts[:MOST])) + (f" and {len(texts) - MOST} more" if len(texts) > MOST else "")
    return (
        f"**{escape(first.task)} was run under {len(sections)} sets of conditions**: the numbers over all tasks are those of "
        f"{escape(first.conditions)} ({shown}); the others are in tables of their own."
    )


def compared(comparison: Comparison) -> str:
    """Which arms on which tasks, by how many replicates, and what the brackets are."""
    others = [label for label in comparison.labels if label != comparison.baseline]
    tasks = [section.task for section in comparison.selected if not section.is_pretraining]
    on = f" on {listed(tasks, most=None)}" if tasks else ""
    rows = [row for section in comparison.selected for row in section.rows if not section.is_pretraining or not tasks]
    texts = dict.fromkeys(map(tables.replicates_text, sorted(rows, key=lambda row: len(row.runs))))
    each = (" or " if len({"pretraining" in text for text in texts}) > 1 else " to ").join(texts)
    if len(others) == len(comparison.labels):
        return f"{listed(others, most=MOST)}{on}; {each} each."
    against = f"{listed(others, most=MOST)} against " if others else ""
    what = f"{against}**{escape(comparison.baseline)}**{_defaults(comparison, others)}{on}; {each} each."
    return what + (BRACKETS if others else "")


def _defaults(comparison: Comparison, others: list[str]) -> str:
    """What the baseline has where the other arms name a swept setting: ` (mask_rate=0.3)`."""
    run = next((run for section in comparison.selected if section.before for run in section.before.runs.values()), None)
    found = unnamed_settings(run, others) if run else []
    return f" ({escape(', '.join(found))})" if found else ""


def _of_arms(comparison: Comparison, found: list[Effect]) -> list[str]:
    """What an arm's score does comes first; what is better in cost alone is no headline where the arm loses score."""
    sentences, losing = [], losers(comparison)
    for label in comparison.labels:
        here = [one for one in found if one.label == label]
        of_score = [one.said_with for one in here if one.metric == HEADLINE]
        clauses = []
        for verdict in sorted(WORDS, key=lambda verdict: verdict not in of_score):
            texts = [one.text() for one in here if one.said_with is verdict]
            words = WORDS[verdict].replace("**better**", "better" if label in losing else "**better**")
            clauses += [f"{words} {' and '.join(filter(None, [', '.join(texts[:-1]), texts[-1]]))}"] if texts else []
        sentences += [f"**{escape(label)}**: {'; '.join(clauses)}."] if clauses else []
    return sentences


def _of_metrics(found: list[Effect]) -> list[str]:
    """Which arms are better and which worse, metric by metric, the largest changes first; the others are counted."""
    sentences = []
    for name in dict.fromkeys(one.name for one in found):
        here = sorted((one for one in found if one.name == name), key=lambda one: -abs(one.change.absolute))
        clauses = []
        for verdict, words in WORDS.items():
            arms = [one for one in here if one.said_with is verdict]
            if verdict in (Verdict.BETTER, Verdict.WORSE):
                named = _first([f"{escape(one.label)} ({one.size()})" for one in arms])
                clauses += [f"{words.removesuffix(' in')} {named}"] if arms else []
            else:
                clauses += [f"{words.removesuffix(' in').removesuffix(':')} {len(arms)}"] if arms else []
        sentences += [f"**{name}**: {'; '.join(clauses)}."] if clauses else []
    return sentences


def is_below_constant(section: Section, row: Row) -> bool:
    """Whether the arm is not shown to be better than the answer that ignores the text."""
    return section.beats_constant(row, HEADLINE) is False


def _below_constant(comparison: Comparison) -> list[str]:
    def name(section: Section, row: Row) -> str:
        return f"{escape(row.label)} on {tables.section_name(comparison, section)}"

    low = [name(section, row) for section in comparison.selected for row in section.rows if is_below_constant(section, row)]
    none = [one for one in comparison.selected if len(one.rows) > 1 and all(is_below_constant(one, row) for row in one.rows)]
    said = f"**Not shown to be better than the constant answer**, which ignores the text: {_first(low)}."
    if none:
        tasks = _first(tables.section_name(comparison, section) for section in none)
        said += f" No arm is better on {tasks}: equal scores there say that none has learned, not that all are as good."
    return [said] if low else []


def _solved(comparison: Comparison) -> list[str]:
    """Tasks that cannot tell arms apart since these solve them."""
    names = [
        f"{escape(row.label)} on {tables.section_name(comparison, section)}"
        for section in comparison.selected
        for row in section.rows
        if row is not section.before and section.tells(row, HEADLINE) is Tells.NO_EQUALITY
    ]
    said = f"**Solved by the baseline, too**: {_first(names)}. Equal scores there say that the task is too easy."
    return [said] if names else []


def _without_evidence(found: list[Effect]) -> list[str]:
    """Why metrics have no verdict: one seed, a noise floor that is too high, or nothing side by side."""
    sentences = []
    scores = [one for one in found if one.metric == HEADLINE]
    once = [one.label for one in scores if one.said_with is Verdict.DIRECTION_BETTER]
    if once:
        of = f" of {listed(once, most=MOST)}" if len(once) < len(scores) else ""
        sentences.append(f"Scores{of} are of one seed each and therefore no evidence; `seed=0,1,2` gives some.")
    open_ = [
        one for one in found if one.change.verdict is Verdict.OPEN and metrics.get(one.metric).compared is not Compared.BY_SEED
    ]
    floors = [one.change.floor for one in open_ if one.change.evidence and one.change.evidence.is_too_noisy]
    if floors:
        sentences.append(
            f"The noise floor is up to {max(floors):,.0f} %, which two timings of the same arm may differ by: "
            "too much for a verdict on times. "
            "Time them again while nothing else runs: `sweep.retime=true` trains nothing again."
        )
    elif open_:
        names = listed(dict.fromkeys(one.name for one in open_), most=None)
        sentences.append(f"No verdict on {names}: not timed side by side with the baseline, or no noise floor is known.")
    return sentences


def _clocks(comparison: Comparison) -> list[str]:
    """Arms that wait: whose latency differs from the baseline's otherwise by the wall clock than by that of the device."""
    over, sentences = overall.of_tasks(comparison), []
    for label in over.labels:
        wall, device = (over.change(label, name) for name in ("inference/latency_ms_p50", "inference/latency_device_ms"))
        if not (wall and device and wall.interval and device.interval):
            continue
        ends = [[end / change.baseline_mean for end in change.interval] for change in (wall, device)]
        if ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]:
            by_wall, by_device = (tables.size_text(change, "ms") for change in (wall, device))
            sentences.append(
                f"**The two clocks disagree on {escape(label)}**: its latency is {by_wall} by the wall clock and {by_device} "
                "by that of the device. What waits (for memory, files, another device or a lock) is in the first alone."
            )
    return sentences


def _vocabularies(comparison: Comparison) -> list[str]:
    """Which arms have which vocabulary where they differ, and what does not compare for that."""
    several = [one for one in comparison.selected if not has_one_vocabulary(run.params for run in one.runs)]
    if not several:
        return []
    has_files = len({run.params.get("facts.tokenizer_file") for run in several[0].runs}) > 1
    texts = [(row, dict.fromkeys(_vocabulary(run, has_files) for run in row.runs.values())) for row in several[0].rows]
    arms_of = grouped((text, escape(row.label)) for row, of_row in texts for text in of_row)
    each = "; ".join(f"{text}: {listed(labels, most=MOST)}" for text, labels in arms_of.items())
    by_token = "Losses and accuracies by token have no verdict between them, bits per byte have. "
    pretrained = by_token if any(section.is_pretraining for section in several) else ""
    return [f"**Vocabularies differ** ({each}). {pretrained}`tokenizer=wordpiece` gives all arms one."]


def _vocabulary(run: Run, has_files: bool) -> str:
    """Kind, case, largest size, and the hash of its file where these differ."""
    keys = ("tokenizer.kind", "tokenizer.lowercase", "tokenizer.vocab_size", "facts.tokenizer_file")
    kind, lowercase, size, file = (run.params.get(key, "None") for key in keys)
    kinds = {"bpe": "byte-level BPE", "unigram": "unigram", "wordpiece": "WordPiece"}
    texts = [kinds.get(kind, kind), "lower case" if lowercase == "True" else "cased", f"up to {size} pieces"]
    return ", ".join([*texts, *([f"file {file[: arms.HASH_DIGITS]}"] if has_files else [])])


def _by_probe(comparison: Comparison, found: list[Effect]) -> list[str]:
    """Whose masked loss is not compared, and why; whose is of a probe on both sides."""
    losses = [one for one in found if one.metric in (LOSS, PER_BYTE[LOSS])]
    by_probe = _probed(comparison)
    unlike = [one.label for one in losses if (one.label in by_probe) != (comparison.baseline in by_probe)]
    no_verdict = [escape(one.label) for one in losses if one.change.verdict is Verdict.OPEN and one.label in unlike]
    probed = [escape(one.label) for one in losses if one.change.verdict is not Verdict.OPEN and one.label in by_probe]
    sentences = []
    if no_verdict:
        sentences.append(
            f"No verdict on the held-out masked loss of {listed(no_verdict, most=MOST)}: one side's is of the objective's own "
            "head, the other's of a probe, a head trained for some steps on the frozen encoder."
        )
    if probed:
        sentences.append(
            f"The held-out masked loss of {listed(probed, most=MOST)} and of the baseline is of probes, heads trained for some "
            "steps on frozen encoders: how well an encoder serves such a head, not how well it learned its own objective."
        )
    return sentences


def _probed(comparison: Comparison) -> set[str]:
    """Arms with a pretraining that a probe answers for."""
    rows = [row for section in comparison.selected if section.is_pretraining for row in section.rows]
    return {row.label for row in rows if have_probes(row.runs.values())}


def _unfinished(comparison: Comparison) -> list[str]:
    """Sentences on runs that did not finish, where no other run of that arm, task and seed counts."""
    states: dict[str, Counter[str]] = {}
    finished = {_place(run) for section in comparison.selected for run in section.runs}
    for run in comparison.left_out:
        if not run.is_aa_replicate and _place(run) not in finished:
            name = f"{run.tags.get(tags.ARM, run.name)} on {run.tags.get(tags.TASK, 'an unknown task')}"
            states.setdefault(name, Counter())[run.status] += 1
    each = [
        f"{escape(name)} ({', '.join(f'{count} {state}' for state, count in sorted(counted.items()))})"
        for name, counted in states.items()
    ]
    return [f"**Not finished, and not counted**: {_first(each)}."] if each else []


def _place(run: Run) -> tuple[str | None, ...]:
    return tuple(run.tags.get(tag) for tag in (tags.ARM, tags.TASK, tags.SEED, tags.PRETRAIN_SEED))


def _first(texts: Iterable[str]) -> str:
    known = list(texts)
    return "; ".join(known[:MOST]) + (f" and {len(known) - MOST} more" if len(known) > MOST else "")
