"""Single items of the validation data: where an arm is right and the baseline is not, and where their errors differ."""

import ast
from collections.abc import Callable, Iterator

import numpy as np

from reports.comparison import items
from reports.comparison.compare import Study
from reports.comparison.items import CLASSES, NO_ERROR, Paired, Texts
from reports.comparison.section import Row, Section
from reports.writing import formats, plots, tables
from reports.writing.formats import DASH, Chapter, escape, listed

MOST_ARMS = 3
"""Arms of which items are shown."""


def on_items(study: Study, title: str, intro: str, of_section: Callable[[Study, Section], list[str]]) -> Chapter:
    """The paragraphs of every comparison on a task, after an introduction that names the baseline; empty if there are none."""
    sections = [one for one in study.comparison.sections if one.before is not None and not one.is_pretraining]
    paragraphs = [part for section in sections for part in of_section(study, section)]
    intro = intro.format(baseline=escape(study.comparison.baseline), most=MOST_ARMS)
    return Chapter([title, intro, *paragraphs] if paragraphs else [])


def drawn_rows(study: Study, section: Section) -> list[Row]:
    """The arms that the pictures show, without the baseline."""
    chosen = plots.drawn_arms(study.comparison)
    return [row for row in section.rows if row is not section.before and row.label in chosen]


DISAGREE = """\
Items of the validation data on which an arm and the baseline {baseline} differ: mean numbers over paired replicates (at most
five). They speak of these items, and hold no verdict: another fine-tuning of the same arm disagrees with it, too. *Short*,
*medium* and *long* are thirds of the items by tokens; below them is the change of the share of right answers. Items are shown
of the {most} arms that disagree most."""
RIGHT_HERE = "Right by {right}, wrong by {errs}, in the most replicates; texts as their tokens read:"
MISSING = "No predictions are known of {arms}: they are read from the folders of runs, below `multirun/`."
NO_TEXTS = "Texts and lengths are not known: the cache of prepared data of these runs is gone or torn."
TORN = "Torn files of runs, which are left out: {files}. The command that ran them makes them again."
SHOWN, WIDTH = 3, 160
THIRDS = ("short", "medium", "long")


def disagreements(study: Study) -> Chapter:
    """Empty where no predictions of a classification are found for two arms of a task."""
    return on_items(study, "## Where they disagree", DISAGREE, _disagreements)


def _disagreements(study: Study, section: Section) -> list[str]:
    rows = drawn_rows(study, section)
    found = {row.label: section.errors_of_both(row.label) for row in rows}
    known = {label: both for label, both in found.items() if both and both.what == CLASSES}
    damaged = items.torn((run for row in (section.before, *rows) for run in row.runs.values()), study.output)
    names = ["/".join(path.parts[-3:]) for path in damaged]
    left_out = [TORN.format(files=listed(names, most=None))] if names else []
    if not known:
        return left_out
    count = next(iter(known.values())).count
    run = next(iter(section.before.runs.values()))
    texts = items.texts(run, study.output, count)
    thirds = _thirds(texts)
    lines = [[escape(label), *_counts(both), *_by_length(both, thirds)] for label, both in known.items()]
    head = ["arm", "replicates", "both right", f"only {escape(section.baseline)} right", "only the arm right", "both wrong"]
    paragraphs = [f"### Disagreements: {tables.section_name(study.comparison, section)}"]
    paragraphs.append(formats.table([*head, *_length_heads(texts, thirds)], lines))
    missing = [label for label in found if label not in known]
    paragraphs += left_out
    paragraphs += [MISSING.format(arms=listed(missing, most=None))] if missing else []
    if texts is None:
        return [*paragraphs, NO_TEXTS]
    labels = _labels(run.params.get("task.labels", ""))
    most = sorted(known, key=lambda label: -float(np.abs(known[label].balance).sum()))[:MOST_ARMS]
    for label in most:
        both = known[label]
        for sentence, indices in _examples(
            RIGHT_HERE, (section.baseline, label), both.balance, 0.5
        ):  # of half of the replicates
            paragraphs += [sentence, "\n".join(_line(both, index, texts, _class_of(both, index, labels)) for index in indices)]
    return paragraphs


def _counts(both: Paired) -> list[str]:
    errs = ((False, False), (False, True), (True, False), (True, True))
    return [str(len(both.before)), *(formats.plain(both.both(*one), 0 if len(both.before) == 1 else 1) for one in errs)]


def _thirds(texts: Texts | None) -> list[np.ndarray]:
    """Indices of the shortest third of the items, the middle and the longest; none where the lengths are not known."""
    return [] if texts is None else np.array_split(np.argsort(texts.lengths, kind="stable"), len(THIRDS))


def _length_heads(texts: Texts | None, thirds: list[np.ndarray]) -> list[str]:
    heads = []
    for name, indices in zip(THIRDS, thirds, strict=False):
        lengths = texts.lengths[indices]
        heads.append(f"{name}: {lengths.min()} to {lengths.max()} tokens" if len(lengths) else name)
    return heads


def _by_length(both: Paired, thirds: list[np.ndarray]) -> list[str]:
    """Change of the share of right answers in each third."""
    return [formats.difference(-float(both.balance[one].mean()), "share") if len(one) else DASH for one in thirds]


def _labels(text: str) -> list[str]:
    """Names of classes as a parameter holds them; none where it holds no list."""
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


ERR = """\
Items of the validation data by how wrong an arm and the baseline {baseline} are on them: means over paired replicates (at most
five). They speak of these items, and hold no verdict. Items are shown of the {most} arms whose errors differ most."""
ERRS_MORE = "Where {errs} errs more than {right}, the largest differences first:"
SHOWN, WIDTH = 3, 160


def errors(study: Study) -> Chapter:
    """Empty where no such predictions are found for two arms of a task."""
    return on_items(study, "## Where their errors differ", ERR, _errors)


def _errors(study: Study, section: Section) -> list[str]:
    found = {row.label: section.errors_of_both(row.label) for row in drawn_rows(study, section)}
    known = {label: both for label, both in found.items() if both and both.what != CLASSES}
    if not known:
        return []
    one = next(iter(known.values()))
    head = ["arm", "replicates", f"{escape(section.baseline)}: {one.what}", "the arm", "errs less on", "as much on", "more on"]
    title = f"### Errors: {tables.section_name(study.comparison, section)}"
    paragraphs = [title, formats.table(head, [_cells(label, both) for label, both in known.items()])]
    texts = items.texts(next(iter(section.before.runs.values())), study.output, len(one.items))
    most = sorted(known, key=lambda label: -float(np.abs(known[label].change_of_items).sum()))[:MOST_ARMS]
    for label in most:
        both = known[label]
        for sentence, indices in _examples(ERRS_MORE, (section.baseline, label), both.change_of_items, NO_ERROR):
            paragraphs += [sentence, "\n".join(_line(both, index, texts, _errors_of(both, index)) for index in indices)]
    return paragraphs


def _cells(label: str, both: Paired) -> list[str]:
    means = [formats.plain(float(values.mean()), 3) for values in (both.before, both.after)]
    return [escape(label), str(len(both.before)), *means, *(f"{count:,}" for count in both.counts())]


def _line(both: Paired, index: int, texts: Texts | None, facts: str) -> str:
    text = texts.of(index) if texts else DASH
    return f"- {escape(both.items[index])} ({facts}): {escape(text if len(text) <= WIDTH else f'{text[:WIDTH]}…')}"


def _class_of(both: Paired, index: int, labels: list[str]) -> str:
    number = both.labels[index]
    return escape(labels[number] if number < len(labels) else str(number))


def _errors_of(both: Paired, index: int) -> str:
    before, after = (formats.plain(float(values[:, index].mean()), 2) for values in (both.before, both.after))
    return f"baseline {before}, arm {after}"


def _examples(sentence: str, arms: tuple[str, str], change: np.ndarray, least: float) -> Iterator[tuple[str, list[int]]]:
    """For each direction a sentence, and the items of the largest changes (N,) above `least`; `arms`: baseline and arm."""
    for errs, right, sign in ((*arms[::-1], 1), (*arms, -1)):
        order = np.argsort(-sign * change, kind="stable")[:SHOWN]
        if found := [int(index) for index in order if sign * change[index] > least]:
            yield sentence.format(errs=escape(errs), right=escape(right)), found
