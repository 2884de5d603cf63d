"""Which arm a run is: labels that no two different arms of a task share, and the keys that `--along` compares along.

What one command sweeps is what it compares: its runs name the swept keys (tag `lifted`), which belong to the arm. Keys of
`--along` are lifted beside them, so that runs of different commands are compared.
"""

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import replace

from harness import arms, tags
from reports.errors import ReportError
from reports.reading.store import Run

SETTING = re.compile(r" \S+=")
"""A setting in a label, such as ` dtype=bf16`."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
"""A number in a label, by whose size labels are ordered."""
NEAREST = 5
RECIPE = "facts.recipe"
"""Fact of a run: the recipe of the pretraining that it starts from."""


def by_task(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Task -> its runs, in the order in which they come."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.task, []).append(run)
    return found


def along_keys(runs: list[Run], along: Iterable[str]) -> list[str]:
    """Keys of `--along` as facts, a group such as `hardware` with a dot at its end; ReportError for a key that is no fact."""
    known = {key for run in runs for key in run.facts}
    groups = {key.partition(".")[0] for key in known if "." in key}
    return [_along_key(key.removesuffix("."), known, groups) for key in along]


def _along_key(key: str, known: set[str], groups: set[str]) -> str:
    if key in known:
        return key
    if key in groups:
        return f"{key}."
    if arms.within(key, arms.SEEDS):
        raise ReportError(f"--along {key}: seeds are the replicates of every arm and are never compared; expected another key")
    last = {name.rpartition(".")[2]: name for name in sorted(known)}
    near = [last[key.rpartition(".")[2]]] if key.rpartition(".")[2] in last else []
    near += difflib.get_close_matches(key, sorted(known | groups), n=NEAREST, cutoff=0.4)
    nearest = ", ".join(dict.fromkeys(near)) or "none"
    raise ReportError(
        f"--along {key}: no run of this study has such a setting; expected a dotted key or a group, nearest: {nearest}"
    )


def with_newest_recipes(runs: list[Run]) -> list[Run]:
    """The same runs; where pretrainings of the same settings differ in code or versions, all starts are as from the newest.

    The recipe of a pretraining is a hash of its settings, text, code and versions. Of two that differ in code alone, runs that
    start from the newer supersede those that start from the older. `runs` are oldest first.
    """
    newest: dict[str, str] = {}
    settings_of: dict[str, str] = {}
    for run in runs:
        if run.is_pretraining and tags.RECIPE in run.tags:
            settings_of[run.tags[tags.RECIPE]] = json.dumps(run.facts, sort_keys=True)
            newest[settings_of[run.tags[tags.RECIPE]]] = run.tags[tags.RECIPE]
    recipes = {recipe: newest[settings] for recipe, settings in settings_of.items()}
    return [
        replace(run, params=run.params | {RECIPE: recipes[run.params[RECIPE]]}) if run.params.get(RECIPE) in recipes else run
        for run in runs
    ]


def lifted_keys(runs: Iterable[Run], along: Iterable[str]) -> dict[str, list[str]]:
    """Task -> keys that belong to its arms: those that any of its commands swept, and those of `--along`."""
    extra = list(along)
    return {
        task: sorted({*extra, *(key for run in group for key in run.lifted or ())}) for task, group in by_task(runs).items()
    }


def label_runs(runs: list[Run], along: Iterable[str] = ()) -> dict[str, str]:
    """Run id -> label of its arm. In a task, runs share a label only if the facts of their arms agree."""
    along, groups = list(along), by_task(runs)
    lifted = lifted_keys(runs, along)
    shown = _varying_along(groups.values(), along)
    swept = {task: _values_without_name(group) for task, group in groups.items()}
    labels = {run.run_id: _with_values(run, shown, swept[run.task]) for run in runs}
    labels = arms.distinguish(labels, {run.run_id: _of_encoder(run) for run in runs})
    for task, group in groups.items():
        facts = {run.run_id: arms.of_arm(run.facts, lifted[task]) for run in group}
        labels |= arms.distinguish(_one_label_an_arm(group, labels, facts), facts)
    return labels


def _varying_along(groups: Iterable[list[Run]], along: list[str]) -> list[str]:
    """Keys of `--along` that vary within a task."""
    varying = {key for group in groups for key in arms.varying(run.facts for run in group)}
    return sorted(key for key in varying if arms.within(key, along))


def _values_without_name(runs: list[Run]) -> dict[str, set[str]]:
    """Key that commands of this task swept -> its values in those of their arms that do not name it: its default.

    Keys that belong to every arm, and hashes of content, are left out: labels are told apart by these only where they must.
    """
    values: dict[str, set[str]] = {}
    for run in runs:
        for key in run.lifted or ():
            if key in run.facts and not key.startswith("facts.") and not arms.within(key, arms.OF_ARM):
                values.setdefault(key, set()).update(() if _names(run, key) else {run.facts[key]})
    return values


def _names(run: Run, key: str) -> bool:
    """Whether the run's own label says the value of the key."""
    return any(f" {name}=" in run.tags[tags.ARM] for name in (key, arms.short_name(key)))


def _with_values(run: Run, along: list[str], swept: dict[str, set[str]]) -> str:
    """The run's own label, and the values of keys that it does not name: of `--along`, and of keys that others swept."""
    others = {key for key in swept if key not in (run.lifted or ()) and run.facts.get(key) not in swept[key]}
    keys = sorted(key for key in {*along, *others} if key in run.facts and not _names(run, key))
    return " ".join([run.tags[tags.ARM], *arms.setting_texts(run.facts, keys)])


def _of_encoder(run: Run) -> arms.Facts:
    """The facts by which arms are told apart in all tasks alike: settings of model and objective."""
    return {key: value for key, value in arms.of_arm(run.facts, ()).items() if not key.startswith("facts.")}


def _one_label_an_arm(runs: list[Run], labels: dict[str, str], facts: dict[str, arms.Facts]) -> dict[str, str]:
    """One label for runs of one arm whose names differ in settings alone: of two commands, one may not have swept the key.

    The label with the fewest settings is taken, of several the newest.
    """
    chosen: dict[tuple[str, str], str] = {}
    keys = {run.run_id: (stem(labels[run.run_id]), arms.short_hash(facts[run.run_id])) for run in runs}
    for run in runs:
        label, key = labels[run.run_id], keys[run.run_id]
        if key not in chosen or settings(label) <= settings(chosen[key]):
            chosen[key] = label
    return {run_id: chosen[key] for run_id, key in keys.items()}


def stem(label: str) -> str:
    """`albert+mlm` of `albert+mlm mask_rate=0.4`."""
    return SETTING.split(label, maxsplit=1)[0]


def unnamed_settings(run: Run, others: Iterable[str]) -> list[str]:
    """`mask_rate=0.3` for each swept setting that the labels of others name and the run's own does not: the default."""
    named = {found.strip(" =") for label in others for found in SETTING.findall(label)}
    keys = [key for key in run.lifted or () if named & {key, arms.short_name(key)} and not _names(run, key)]
    return arms.setting_texts({key: "null" if value == "None" else value for key, value in run.facts.items()}, keys)


def settings(label: str) -> int:
    """How many settings a label names."""
    return len(SETTING.findall(label))


def in_order(labels: Iterable[str], baseline: str) -> list[str]:
    """The baseline first, the others by name with numbers by size: the order in which they ran was random."""
    return sorted(labels, key=lambda label: (label != baseline, [_numbered(part) for part in NUMBER.split(label)]))


def _numbered(part: str) -> tuple[float, str]:
    return (float(part), "") if NUMBER.fullmatch(part) else (0.0, part)
