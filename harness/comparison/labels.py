"""Which arm a run is: labels that no two different arms of a task share, the baseline among them, and the names of seeds.

What one command sweeps is what it compares: its runs name the swept keys (tag `lifted`), which belong to the arm. Keys of
`--along` belong to it as well, so that runs of different commands are compared.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace

from harness import tags
from harness.comparison import arms
from harness.comparison.paired import Replicate, grouped
from harness.comparison.runs import Run
from harness.errors import InputError, unknown

SETTING = re.compile(r" \S+=")
"""A setting in a label, such as ` dtype=bf16`."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
"""A number in a label, by whose size labels are ordered."""
NEAREST = 5
RECIPE = "facts.recipe"
"""Fact of a run: the recipe of the pretraining that it starts from."""


def by_task(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Task -> its runs, in their order."""
    return grouped((run.task, run) for run in runs)


def along_keys(runs: list[Run], along: Iterable[str]) -> list[str]:
    """Keys of `along` as facts, a group such as `hardware` with a dot at its end; InputError for a key that is not a fact."""
    facts, names = {key for run in runs for key in run.facts}, [key.removesuffix(".") for key in along]
    groups = {key.partition(".")[0] for key in facts if "." in key}
    for name in names:
        if name not in facts | groups:
            if arms.within(name, arms.SEEDS):
                raise InputError(f"along={name}: seeds are replicates, never compared; expected another key")
            near = [key for key in sorted(facts) if key.rpartition(".")[2] == name.rpartition(".")[2]]
            near += difflib.get_close_matches(name, sorted(facts | groups), n=NEAREST, cutoff=0.4)
            raise unknown("setting of these runs", name, dict.fromkeys(near), "along", near[:1])
    return [name if name in facts else f"{name}." for name in names]


def with_newest_recipes(runs: list[Run]) -> list[Run]:
    """The runs; where pretrainings of equal settings differ in code or versions, all starts are as from the newest.

    The recipe of a pretraining is a hash of its settings, text, code and versions. If two differ only in code, runs that start
    from the newer supersede those that start from the older. `runs` are oldest first.
    """
    pretrainings = [run for run in runs if run.is_pretraining and tags.RECIPE in run.tags]
    newest = {arms.known(run.facts): run.tags[tags.RECIPE] for run in pretrainings}
    recipes = {run.tags[tags.RECIPE]: newest[arms.known(run.facts)] for run in pretrainings}
    return [
        replace(run, params=run.params | {RECIPE: recipes[run.params[RECIPE]]}) if run.params.get(RECIPE) in recipes else run
        for run in runs
    ]


def lifted_keys(runs: Iterable[Run], along: Iterable[str]) -> dict[str, list[str]]:
    """Task -> keys that belong to its arms: those that any of its commands swept, and those of `--along`."""
    extra = set(along)
    return {task: sorted(extra.union(*(run.lifted or () for run in group))) for task, group in by_task(runs).items()}


def label_runs(runs: list[Run], along: Iterable[str]) -> dict[str, str]:
    """Run id -> label of its arm. In a task, runs share a label only if the facts of their arms agree."""
    along, groups = list(along), by_task(runs)
    lifted = lifted_keys(runs, along)
    varying = {key for group in groups.values() for key in arms.varying(run.facts for run in group) if arms.within(key, along)}
    swept = {task: _values_without_name(group) for task, group in groups.items()}
    labels = {run.run_id: _with_values(run, varying, swept[run.task]) for run in runs}
    # arms are told apart in all tasks alike by settings of model and objective
    settings_of = {run.run_id: arms.of_arm(run.facts, ()) for run in runs}
    encoders = {run: {key: facts[key] for key in facts if not key.startswith("facts.")} for run, facts in settings_of.items()}
    labels = arms.distinguish(labels, encoders)
    for task, group in groups.items():
        facts = {run.run_id: arms.of_arm(run.facts, lifted[task]) for run in group}
        keys = {run.run_id: (stem(labels[run.run_id]), arms.short_hash(facts[run.run_id])) for run in group}
        same = grouped((key, labels[run_id]) for run_id, key in keys.items())
        # of names that differ in settings alone the one with the fewest, of several the newest: a command may sweep less
        fewest = {key: min(reversed(of_arm), key=settings) for key, of_arm in same.items()}
        labels |= arms.distinguish({run_id: fewest[key] for run_id, key in keys.items()}, facts)
    return labels


def _values_without_name(runs: list[Run]) -> dict[str, set[str]]:
    """Key that commands of this task swept -> its values in those of their arms that do not name it: its default.

    Keys that belong to every arm, and hashes of content, are left out: labels are told apart by these only where they must.
    """
    values: dict[str, set[str]] = {}
    for run in runs:
        for key in run.lifted or ():
            if key in run.facts and not key.startswith("facts.") and not arms.within(key, arms.OF_ARM):
                values.setdefault(key, set()).update(() if says_setting(run.tags[tags.ARM], key) else {run.facts[key]})
    return values


def says_setting(label: str, key: str) -> bool:
    """Whether the label says the value of the key."""
    return any(f" {name}=" in label for name in (key, arms.short_name(key)))


def _with_values(run: Run, along: set[str], swept: dict[str, set[str]]) -> str:
    """The run's own label, and the values of keys that it does not name: of `--along`, and of keys that others swept."""
    others = {key for key in swept if key not in (run.lifted or ()) and run.facts.get(key) not in swept[key]}
    own = run.tags[tags.ARM]
    keys = sorted(key for key in along | others if key in run.facts and not says_setting(own, key))
    return " ".join([own, *arms.setting_texts(run.facts, keys)])


def stem(label: str) -> str:
    """`albert+mlm` of `albert+mlm mask_rate=0.4`."""
    return SETTING.split(label, maxsplit=1)[0]


def unnamed_settings(run: Run, others: Iterable[str]) -> list[str]:
    """`mask_rate=0.3` for each swept setting that the labels of others name and the run's own does not: the default.

    An empty list does not describe the arm, such as the shares of phases of one without phases.
    """
    named = {found.strip(" =") for label in others for found in SETTING.findall(label)}
    own, values = run.tags[tags.ARM], run.facts
    keys = [key for key in run.lifted or () if named & {key, arms.short_name(key)} and not says_setting(own, key)]
    keys = [key for key in keys if values.get(key) != "[]"]
    return arms.setting_texts({key: typed(value) for key, value in values.items()}, keys)


def typed(value: str) -> str:
    """A recorded value as a command takes it."""
    return {"None": "null", "True": "true", "False": "false"}.get(value, value)


def settings(label: str) -> int:
    """How many settings a label names."""
    return len(SETTING.findall(label))


def in_order(labels: Iterable[str], baseline: str) -> list[str]:
    """The baseline first, the others by name with numbers by size: the order in which they ran was random."""

    def place(label: str) -> tuple[bool, list[float | str]]:
        return label != baseline, [float(part) if index % 2 else part for index, part in enumerate(NUMBER.split(label))]

    return sorted(labels, key=place)


def choose_baseline(runs: list[Run], labels: dict[str, str], name: str | None, left_out: Iterable[Run]) -> str:
    """The baseline's label: this name itself, or the one arm of that model with the fewest settings; arms of tasks first.

    Without a name it is `base`, or the only arm, or the one with the protocol `plain`. An arm of which no run finished, among
    those left out, is taken only where no other fits. InputError, listing the labels, where no arm or more than one fits.
    """
    searched = "base" if name is None else name
    for pool in ([run for run in runs if not run.is_pretraining], runs):
        named = ((labels[run.run_id], run.tags[tags.ARM], run.tags[tags.MODEL]) for run in pool)
        meant = dict.fromkeys(label for label, arm, model in named if searched in (label, stem(label), arm, model))
        fewest = min(map(settings, meant), default=0)
        fitting = [searched] if searched in meant else [label for label in meant if settings(label) == fewest]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise InputError(f"baseline {searched!r} could be {' or '.join(fitting)}; choose one with baseline=NAME")
    unfinished = [run.tags[tags.ARM] for run in left_out if searched in (run.tags.get(tags.ARM), run.tags.get(tags.MODEL))]
    if unfinished:
        return min(unfinished, key=settings)
    choices = list(dict.fromkeys(labels[run.run_id] for run in runs))
    plain = [label for label in choices if label.endswith(" protocol=plain")] if len(choices) > 1 else choices
    if name is None and len(plain) == 1:
        return plain[0]
    if name is None:
        raise InputError(f"there is no arm 'base' to compare with: choose one with baseline=NAME: {', '.join(choices)}")
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.81)  # albert is no slip for bert
    raise unknown("baseline", name, choices, "baseline", near)


def baseline_of(group: list[Run], runs: list[Run], labels: dict[str, str], chosen: str) -> str:
    """The study's baseline; for pretrainings, which may lack it, the one of the same name or else of the same encoder."""
    if not group[0].is_pretraining or any(labels[run.run_id] == chosen for run in group):
        return chosen
    encoders = {_encoder(run) for run in runs if labels[run.run_id] == chosen}
    named = [labels[run.run_id] for run in group if stem(labels[run.run_id]) == stem(chosen)]
    alike = list(dict.fromkeys(named or [labels[run.run_id] for run in group if _encoder(run) in encoders]))
    return alike[0] if len(alike) == 1 else chosen


def _encoder(run: Run) -> tuple[str, ...]:
    return run.tags[tags.MODEL], run.tags[tags.SCALE], run.tags.get(tags.ENHANCEMENTS, "")


def seed_order(seed: str) -> tuple[int, str]:
    """Sorts seeds as numbers, and anything else after them."""
    return (int(seed), "") if seed.isdecimal() else (10**12, seed)


def replicate_order(replicate: Replicate) -> tuple[tuple[int, str], ...]:
    """Sorts by the seed of the pretraining, then by that of the fine-tuning."""
    return seed_order(replicate.pretrain_seed), seed_order(replicate.seed)


def seeds_text(replicates: Iterable[Replicate]) -> str:
    """`seeds 0, 1`, or `seeds 0, 1 of pretraining 7` where there is pretraining; empty without a replicate."""
    seeds = grouped((one.pretrain_seed, one.seed) for one in dict.fromkeys(sorted(replicates, key=replicate_order)))
    found = grouped((f"seed{'s' * (len(own) > 1)} {', '.join(own)}", of) for of, own in seeds.items())
    return " and ".join(f"{text} of pretraining {', '.join(of)}" if any(of) else text for text, of in found.items())
