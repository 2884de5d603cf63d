"""Where arms disagree with the baseline: items right here and wrong there, with their text, and by length."""

import ast

import numpy as np

from reports.chapters import paired_items
from reports.chapters.paired_items import MOST_ARMS
from reports.comparison import predictions
from reports.comparison.predictions import Both, Texts
from reports.comparison.section import Section
from reports.comparison.study import Study
from reports.writing import formats, tables
from reports.writing.chapter import Chapter
from reports.writing.formats import DASH, escape, listed

INTRO = """\
Items of the validation data on which an arm and the baseline {baseline} differ: mean numbers over paired replicates (at most
five). They speak of these items, and hold no verdict: another fine-tuning of the same arm disagrees with it, too. *Short*,
*medium* and *long* are thirds of the items by tokens; below them is the change of the share of right answers. Items are shown
of the {most} arms that disagree most."""
EXAMPLES = "Right by {here}, wrong by {there}, in the most replicates; texts as their tokens read:"
MISSING = "No predictions are known of {arms}: they are read from the folders of runs, below `multirun/`."
NO_TEXTS = "Texts and lengths are not known: the cache of prepared data of these runs is gone or torn."
TORN = "Torn files of runs, which are left out: {files}. The command that ran them makes them again."
SHOWN, WIDTH = 3, 160
THIRDS = ("short", "medium", "long")


def chapter(study: Study) -> Chapter:
    """Empty where no predictions of a classification are found for two arms of a task."""
    return paired_items.on_items(study, "## Where they disagree", INTRO, _of_section)


def _of_section(study: Study, section: Section) -> list[str]:
    rows = paired_items.drawn_rows(study, section)
    found = {row.label: predictions.both(section.before, row, study.output) for row in rows}
    known = {label: both for label, both in found.items() if both}
    damaged = predictions.torn([section.before, *rows], study.output)
    names = ["/".join(path.parts[-3:]) for path in damaged]
    left_out = [TORN.format(files=listed(names, most=None))] if names else []
    if not known:
        return left_out
    count = len(next(iter(known.values())).before[0].items)
    run = next(iter(section.before.runs.values()))
    texts = predictions.texts(run, study.output, count)
    thirds = _thirds(texts)
    lines = [[escape(label), *_counts(both), *_by_length(both, thirds)] for label, both in known.items()]
    head = ["arm", "replicates", "both right", f"only {escape(section.baseline)} right", "only the arm right", "both wrong"]
    paragraphs = [f"### Disagreements: {tables.section_name(study.comparison, section)}"]
    paragraphs.append(formats.table([*head, *_length_heads(texts, thirds)], lines))
    missing = [label for label, both in found.items() if not both]
    paragraphs += left_out
    paragraphs += [MISSING.format(arms=listed(missing, most=None))] if missing else []
    if texts is None:
        return [*paragraphs, NO_TEXTS]
    labels = _labels(run.params.get("task.labels", ""))
    most = sorted(known, key=lambda label: -float(np.abs(known[label].balance).sum()))[:MOST_ARMS]
    return paragraphs + [part for label in most for part in _examples(section.baseline, label, known[label], texts, labels)]


def _counts(both: Both) -> list[str]:
    shares = both.shares()
    order = ((True, True), (True, False), (False, True), (False, False))
    return [str(len(both.before)), *(formats.plain(shares[one], 0 if len(both.before) == 1 else 1) for one in order)]


def _thirds(texts: Texts | None) -> list[np.ndarray]:
    """Indices of the shortest third of the items, the middle and the longest; none where the lengths are not known."""
    return [] if texts is None else np.array_split(np.argsort(texts.lengths, kind="stable"), len(THIRDS))


def _length_heads(texts: Texts | None, thirds: list[np.ndarray]) -> list[str]:
    heads = []
    for name, indices in zip(THIRDS, thirds, strict=False):
        lengths = texts.lengths[indices]
        heads.append(f"{name}: {lengths.min()} to {lengths.max()} tokens" if len(lengths) else name)
    return heads


def _by_length(both: Both, thirds: list[np.ndarray]) -> list[str]:
    """Change of the share of right answers in each third."""
    return [formats.difference(-float(both.balance[one].mean()), "share") if len(one) else DASH for one in thirds]


def _examples(baseline: str, label: str, both: Both, texts: Texts, labels: list[str]) -> list[str]:
    """A list for each direction; none where no item differs in more than half of the replicates."""
    paragraphs = []
    for here, there, sign in ((baseline, label, 1), (label, baseline, -1)):
        order = np.argsort(-sign * both.balance, kind="stable")[:SHOWN]
        lines = [_example(both, int(index), texts, labels) for index in order if sign * both.balance[index] > 0.5]
        if lines:
            paragraphs += [EXAMPLES.format(here=escape(here), there=escape(there)), "\n".join(lines)]
    return paragraphs


def _example(both: Both, index: int, texts: Texts, labels: list[str]) -> str:
    first = both.before[0]
    number, text = int(first.labels[index]), texts.of(index)
    name = labels[number] if number < len(labels) else str(number)
    shown = text if len(text) <= WIDTH else f"{text[:WIDTH]}…"
    return f"- {escape(first.items[index])} ({escape(name)}): {escape(shown)}"


def _labels(text: str) -> list[str]:
    """Names of classes as a parameter holds them; none where it holds no list."""
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []
