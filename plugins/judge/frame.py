"""Results of any tool as one frame: one row per value, of an arm on a task with a seed, over all items or of a single one.

What reads the files of a tool gives the columns that this tool states (`COLUMNS`). Here units and directions are filled in,
the values are checked and put into base units, and the frame says how its values compare: paired by seed, of independent
runs, or by items alone. `runs` makes what every comparison, report and gate works on.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import msgspec
import numpy as np
import pandas as pd

from harness import metrics, tags
from harness.comparison.arms import HASH_DIGITS
from harness.comparison.items import MEAN, Errors
from harness.comparison.paired import STATED, Design, Numbers, grouped, rows_with
from harness.comparison.runs import Run
from harness.comparison.section import EXAMPLES, HEADLINE
from harness.errors import InputError, on_one_line, refused_errors, some_of
from harness.metrics import FEWEST_REPLICATES, Direction
from harness.records import shipped
from harness.terminal import counted


class Known(msgspec.Struct):
    """What `frame.yaml` has."""

    columns: dict[str, str]
    metrics: dict[str, tuple[str, str]]
    base: dict[str, tuple[str, float]]
    synonyms: dict[str, str]
    headlines: dict[str, str]
    designs: dict[Design, str]
    covers: dict[Design, str]


KNOWN = shipped(__file__, Known)
COLUMNS = KNOWN.columns
"""Column of a frame -> what it says."""

NAMES = ("arm", "task", "seed", "metric")
"""Columns that say what a value over all items is of."""
SCORE = "score"
SIZES = ("ms", "s", "bytes", "tokens/s", "samples/s")
"""Base units of what cannot be below 0."""
HIGHER, LOWER = "higher", "lower"
RANGES = {"value": (-1e100, 1e100), "items": (1, 1e15), "error": (0, 1e100)}
"""Column of numbers -> the smallest and the largest, whose squares are numbers, too."""
SIGNED = re.compile(r"(main_)?score|mcc|matthews.*|.*(pearson|spearman).*|kendall")
"""Known shares that may be below 0."""
AGGREGATE = re.compile(
    r"((macro|micro)[ _-])?(mean|avg|average)([\W_].*)?|std(dev)?|stderr|overall|all|total|best|median|min|max", re.IGNORECASE
)
"""Name of a row or column over several tasks or seeds."""
ROUNDING = 1e-6
"""Share above 1 that is one of floating point."""
WRITTEN = 5.1e-5
"""A score is the mean of its items where it differs from that by no more: tools write four digits."""
NAMED = 5
"""Names of one list in a line."""


def plain(metric: str) -> str:
    """`acc` of `acc,none`, `eval_acc` and `eval/acc`: the name by which a metric is known."""
    return re.sub(r"^(eval|test|validation|predict)[_/]", "", metric.partition(",")[0].strip().casefold())


def said_by_name(metric: str) -> tuple[str, str]:
    """Unit and direction; empty where the name lacks them."""
    return next((said for pattern, said in KNOWN.metrics.items() if re.fullmatch(pattern, plain(metric))), ("", ""))


@dataclass(frozen=True)
class Items:
    """Values of the items that all runs of a task have, in one order."""

    names: tuple[object, ...]  # N
    values: Mapping[tuple[str, str], Numbers]  # (arm, seed) -> (N,)


@dataclass(frozen=True)
class Frame:
    """Values over all items in base units, unique by NAMES; single items by (task, metric)."""

    rows: pd.DataFrame
    items: Mapping[tuple[str, str], Items]
    notes: tuple[str, ...] = ()

    def metrics(self, scores: bool) -> list[str]:
        """The metrics that are scores, or all others, in the order of the files."""
        return [*self.rows.loc[(self.rows["unit"] == SCORE) == scores, "metric"].unique()]

    def studies(self) -> list[list[str]]:
        """The scores of each study: all in one, whose mean over tasks is of different scores, where no task has two."""
        scores, names = self.rows[self.rows["unit"] == SCORE], self.metrics(scores=True)
        one_each = scores.groupby("task")["metric"].nunique().max() == 1
        return [names] if one_each or not names else [[name] for name in names]

    def of(self, *names: str) -> "Frame":
        """The rows of these metrics alone."""
        return Frame(self.rows[self.rows["metric"].isin(names)], self.items, self.notes)


@refused_errors("these results cannot be compared")
def checked(rows: pd.DataFrame, unit: str | None = None, direction: str | None = None) -> Frame:
    """The frame of these rows; `unit` and `direction` are for metrics whose files and names lack them.

    InputError, in one line, for a column that is missing, a value that is not a finite number, a metric with two units or two
    directions or without one, a share above 1, and a row that repeats another.
    """
    if rows.empty:
        raise InputError("these results have no rows: expected at least one")
    if not rows.columns.is_unique:
        raise InputError(f"these results have two columns {rows.columns[rows.columns.duplicated()][0]!r}: expected one")
    for name in ("arm", "task", "metric", "value"):
        if name not in rows or rows[name].isna().all():
            flag = "columns=value=COLUMN" if name == "value" else f"{name}=NAME"
            raise InputError(f"these results lack the {name} ({COLUMNS[name]}): expected a column, or {flag}")
    for name in [name for name in rows if name in ("epoch", "step")]:
        if (rows.reindex(columns=[*NAMES, name]).groupby([*NAMES], dropna=False)[name].nunique() > 1).any():
            raise InputError(f"the column {name} has several values for one run: expected one, such as the last {name}")
    rows = rows.reindex(columns=[*COLUMNS])
    are_bits = rows["value"].map(type).isin([bool, np.bool_]) & rows["item"].isna()
    rows = rows.assign(value=pd.to_numeric(rows["value"], errors="coerce").astype(float))
    for name in (*NAMES, "round", "item"):
        codes, texts = pd.factorize(rows[name])
        equal, names = pd.factorize(pd.Index([on_one_line(_text(one, name == "seed")) for one in texts], dtype="str"))
        rows[name] = pd.Categorical.from_codes(np.append(equal, -1)[codes], names)
    for name in ("arm", "task", "metric", "value"):
        wrong = ~np.isfinite(rows[name]) | are_bits if name == "value" else rows[name].isna()
        if wrong.any():
            raise InputError(
                f"{_place(rows[wrong].iloc[0])}: its {name} is {'not a finite number' if name == 'value' else 'missing'}"
            )
    for name in ("task", "seed"):
        titles = [*map(str, rows[name].cat.categories)]
        if len(titles) > 1 and (overall := [*filter(AGGREGATE.fullmatch, titles)]):
            raise InputError(f"the {name} {overall[0]!r} is an aggregate: expected single {name}s; leave it out")
    for name, (low, high) in RANGES.items():
        numbers = pd.to_numeric(rows[name], errors="coerce").astype(float)
        if (wrong := rows[name].notna() & ~numbers.between(low, high)).any():
            first = rows[wrong].iloc[0]
            said = on_one_line(str(first[name]))
            raise InputError(f"{_place(first)}: its column {name} has {said!r}; expected a number from {low:g} to {high:g}")
        rows[name] = numbers
    known = rows[rows["error"].notna()]
    if len(known) and any(np.allclose(known["value"] + known["error"], whole) for whole in (1, 100)):
        rate = "its column error has an error rate, 1 - value"
        raise InputError(f"{_place(known.iloc[0])}: {rate}; expected a standard error: leave the column out")
    rows["seed"] = rows["seed"].astype(object).fillna("").astype("category")
    of_arm = [rows[name] for name in ("arm", "task", "metric")]
    if (wrong := (rows["seed"] == "") & (rows["seed"] != "").groupby(of_arm, observed=True).transform("any")).any():
        raise InputError(f"{_place(rows[wrong].iloc[0])}: its seed is missing; expected one, as in other rows of the arm")
    if (repeated := rows.duplicated([*NAMES, "round", "item"])).any():
        raise InputError(
            f"{_place(rows[repeated].iloc[0])} is in two rows: expected one for each seed and item "
            "(columns=seed=NAME,item=NAME), without other epochs or splits"
        )
    if not rows.duplicated([*NAMES, "round"]).any():  # `id` numbers the rows, each of which is a run
        rows["item"] = None
    of_metrics = rows.groupby("metric", observed=True, sort=False)
    several = of_metrics.ngroups > 1
    rows = pd.concat([_in_base_units(str(metric), of, unit, direction, several) for metric, of in of_metrics]).sort_index()
    single, whole = rows[rows["item"].notna()], rows[rows["item"].isna()]
    values = whole.groupby([*NAMES, "unit", "direction"], observed=True, sort=False, dropna=False)
    of_runs = values.agg({"value": "median", "items": "max", "error": "max"}).reset_index()
    of_items, notes = [of_runs], list[str]()
    items: dict[tuple[str, str], Items] = {}
    for (task, metric), of in single.groupby(["task", "metric"], observed=True, sort=False):
        means, items_of, said = _over_items(of, of_runs[(of_runs["task"] == task) & (of_runs["metric"] == metric)])
        of_items.append(means)
        notes += [f"{task}: {said}"] if said else []
        items |= {(str(task), str(metric)): items_of} if items_of else {}
    joined = pd.concat(of_items, ignore_index=True).drop_duplicates([*NAMES], keep="last")
    return Frame(joined.astype(dict.fromkeys(NAMES, str)).reset_index(drop=True), items, tuple(notes))


def _text(value: object, is_number: bool) -> str:
    """A number that a program has made a float of because others are missing is written as it was, also a seed in a text."""
    whole = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return re.sub(r"(?<=\d)\.0+$", "", whole) if is_number else whole


def _place(row: pd.Series) -> str:
    said = [f"{name} {row[name]!r}" for name in (*NAMES, "round", "item") if isinstance(row[name], str) and row[name]]
    return f"the value of {', '.join(said)}"


def _in_base_units(metric: str, rows: pd.DataFrame, unit: str | None, direction: str | None, several: bool) -> pd.DataFrame:
    """The rows of one metric, of `several`, with its unit and direction."""
    by_name = said_by_name(metric)
    chosen = []
    for key, asked, named in (("unit", unit, by_name[0]), ("direction", direction, by_name[1])):
        stated = sorted({KNOWN.synonyms.get(text.casefold(), text) for text in map(str, rows[key].dropna().unique())})
        if len(stated) > 1:
            raise InputError(f"{metric} has the {key}s {some_of(stated, NAMED)}: expected one {key} for a metric")
        if not (one := (*stated, asked or named)[0]):
            choices = "share, percent, ms, bytes, 1, ..." if key == "unit" else f"{HIGHER} or {LOWER}"
            raise InputError(f"neither the files nor its name say the {key} of {metric}: expected {key}= ({choices})")
        chosen.append(KNOWN.synonyms.get(one.casefold(), one))
    if by_name[0] == "share" and chosen[0] not in ("share", "percent", SCORE):
        raise InputError(f"{metric} has the unit {chosen[0]!r}: expected share or percent")
    if several and rows["direction"].isna().all() and by_name[1] not in ("", chosen[1]):
        raise InputError(f"direction={direction} is for all metrics, but {metric} is better {by_name[1]}: expected metric=NAME")
    if chosen[1] not in (HIGHER, LOWER):
        raise InputError(f"{metric} has the direction {chosen[1]!r}: expected {HIGHER} or {LOWER}")
    if by_name[1] not in ("", chosen[1]) and plain(metric) not in ("score", "main_score"):
        raise InputError(f"{metric} has the direction {chosen[1]!r}: expected {by_name[1]}, or another name of the metric")
    base, unit_size = KNOWN.base.get(chosen[0], (chosen[0], 1.0))
    is_share = base == SCORE
    base = "share" if is_share and chosen[1] == LOWER else base
    values = rows["value"] * unit_size
    unsigned = by_name[0] == "share" and not SIGNED.fullmatch(plain(metric))
    if (wrong := values <= 0 if base in SIZES else (values < 0) & unsigned).any():
        first = rows[wrong].iloc[0]
        expected = "0 or more" if unsigned else "more than 0"
        raise InputError(f"{_place(first)} is {first['value']:g}, in a unit of {chosen[0]}: expected {expected}")
    if is_share and (values.abs() > 1 + ROUNDING).any():
        first = rows[values.abs() > 1 + ROUNDING].iloc[0]
        raise InputError(
            f"{_place(first)} is {first['value']:g}, in a unit of {chosen[0]}: "
            f"expected at most {1 / unit_size:g}, or another unit= such as percent"
        )
    if chosen[0] == "percent" and (run := _share(rows, chosen[1] == HIGHER)):
        raise InputError(
            f"{metric} of {run[0]} on {run[1]} looks like a share, and its unit is percent: expected one unit for all; "
            "where scores are truly below 1 percent, give all of them as shares"
        )
    return rows.assign(value=values, error=rows["error"] * unit_size, unit=base, direction=chosen[1])


def _share(rows: pd.DataFrame, is_score: bool) -> tuple[str, ...] | None:
    """Arm, task and seed of a run whose values are all at most 1, and which would be nearer to the other runs of its task if it
    were a share; a task without a larger value has all runs in shares, if it `is_score` and no error."""
    largest = rows.assign(value=rows["value"].abs()).groupby(["arm", "task", "seed"], observed=True)["value"].max()
    others = largest.where(largest > 1).groupby("task", observed=True).transform("median").fillna(100.0 if is_score else 0.0)
    is_share = (largest > 0) & (largest <= 1) & ((100 * largest - others).abs() < (largest - others).abs())
    return cast(tuple[str, ...], is_share.idxmax()) if is_share.any() else None


def _over_items(single: pd.DataFrame, stated: pd.DataFrame) -> tuple[pd.DataFrame, Items | None, str]:
    """One metric on one task: its values over the items, the items, and a note; `stated` are the values that files have."""
    table = single.pivot(index="item", columns=["arm", "seed"], values="value")
    own, common = table.mean(), table.dropna()
    if (stated.set_index(["arm", "seed"])["value"].reindex(own.index) - own).abs().max() > WRITTEN:
        return (
            stated.iloc[:0],
            None,
            f"{single['metric'].iloc[0]} is not the mean of the {len(table):,} items, which are ignored",
        )
    means, counts = (common.mean(), len(common)) if len(common) else (own, table.count())
    rows = pd.DataFrame({"value": means, "items": counts}).reset_index()
    rows = rows.assign(**{name: single[name].iloc[0] for name in ("task", "metric", "unit", "direction")})
    said = "" if len(common) == len(table) else f"{len(common):,} of {len(table):,} items, those common to all runs"
    said = said if len(common) else "no item is common to all runs, so scores do not pair"
    values = {(str(run[0]), str(run[1])): common[run].to_numpy() for run in common.columns}
    return rows, Items(tuple(common.index), values) if len(common) else None, said


def designs(frame: Frame, independent: bool = False) -> dict[str, Design]:
    """Task -> its unit of replication: items, else tasks, for one run per arm; else shared seeds, else runs of each arm.

    `independent`: runs with equal seeds are not paired.
    """
    found = {}
    for task, of in frame.rows.groupby("task", sort=False):
        if of.groupby("arm")["seed"].nunique().max() == 1:
            items = of.loc[of["unit"] == SCORE, "items"]  # only a score has an error over its items
            found[str(task)] = Design.ITEMS if len(items) and items.notna().all() else Design.TASKS
        else:
            shared = of.groupby("seed")["arm"].nunique().max() > 1
            found[str(task)] = Design.SEEDS if shared and not independent else Design.RUNS
    return found


def runs(frame: Frame, study: str, started: int, independent: bool = False) -> tuple[list[Run], dict[str, Errors]]:
    """Runs of a study, and the errors of single items by their ids, for a frame with at most one score on each task."""
    made, designed, errors = [], designs(frame, independent), dict[str, Errors]()
    of_runs = grouped(((row["arm"], row["task"], row["seed"]), row) for row in frame.rows.to_dict("records"))
    for (arm, task, seed), of in of_runs.items():
        params, name = {"model.arm": arm}, f"{arm} on {task}{f', seed {seed}' if seed else ''}"
        run_id, content, values = f"{study}: {name}", hashlib.sha256(), dict[str, float]()
        for row in of:
            if row["unit"] != SCORE:
                values[metrics.of_others(row["metric"], row["unit"], Direction(row["direction"]))] = row["value"]
                continue
            params["task.headline"] = KNOWN.headlines.get(plain(row["metric"]), plain(row["metric"]))
            values |= {HEADLINE: row["value"], f"eval/{params['task.headline']}": row["value"]}
            items = frame.items.get((task, row["metric"]))
            if items and (arm, seed) in items.values:
                errors[run_id] = Errors(MEAN, items.names, 1 - items.values[arm, seed])
                content.update(errors[run_id].values.tobytes())
            if row["error"] > 0:
                values[STATED] = rows_with(row["value"], row["error"], params["task.headline"])
            if (count := values.get(STATED) if math.isnan(row["items"]) else float(row["items"])) is not None:
                values[EXAMPLES] = count
        run_tags = {tags.STUDY: study, tags.STATUS: "finished", tags.ARM: arm, tags.MODEL: arm, tags.SCALE: "", tags.TASK: task}
        alone = designed[task] in (Design.ITEMS, Design.TASKS)  # of one run of each arm the seeds need not agree
        run_tags |= {tags.SEED: "" if alone else seed, tags.CONDITIONS: "", tags.LIFTED: "[]", tags.DESIGN: designed[task]}
        content.update(repr([*params.items(), *values.items()]).encode())
        run_tags[tags.FINGERPRINT] = content.hexdigest()[:HASH_DIGITS]
        made.append(Run(run_id, name, started, run_tags, params, values))
    return made, errors


def said(frame: Frame, independent: bool = False) -> list[str]:
    """The design in one line, and what it does not cover, each a sentence."""
    of_tasks, names = designs(frame, independent), {*frame.rows["metric"]}
    known = {task for task, metric in frame.items if metric in names}
    kinds = {design: [task for task, own in of_tasks.items() if own is design] for design in dict.fromkeys(of_tasks.values())}
    seeds = frame.rows.groupby(["task", "arm"], sort=False)["seed"].nunique().unstack(fill_value=0)
    if (seeds > 0).sum(axis=1).max() < 2:
        tasks, arms = seeds.shape
        return [f"{counted(arms, 'arm')}, {counted(tasks, 'task')}: no task has two arms, so there is nothing to compare."]
    columns = ["arm", "task", *(["seed"] if {Design.SEEDS, Design.RUNS} & {*kinds} else [])]
    parts = [counted(frame.rows[name].replace("", None).nunique(), name) for name in columns]
    too_few = len(kinds.get(Design.TASKS, ())) < 3
    how = KNOWN.designs | ({Design.TASKS: "one value per arm, which no test can judge"} if too_few else {})
    parts += [f"{how[design]}{f' ({some_of(tasks, NAMED)})' if len(kinds) > 1 else ''}" for design, tasks in kinds.items()]
    parts += [f"items known for {counted(len(known), 'task')}"] if known else []
    lines = [f"{', '.join(parts)}.", *(f"{note}." for note in frame.notes)]
    lines += [KNOWN.covers[design] for design in kinds if design in KNOWN.covers and not (design is Design.TASKS and too_few)]
    scores = frame.rows[frame.rows["unit"] == SCORE].drop_duplicates(["task", "metric"])
    different = [f"{metric} on {task}" for task, metric in zip(scores["task"], scores["metric"], strict=True)]
    several = scores["metric"].nunique() > 1
    lines += [f"Tasks have different scores, which a mean over tasks mixes: {some_of(different, NAMED)}."] if several else []
    every = frame.rows.groupby("task")["seed"].nunique().to_dict()
    most_of = {task: every[task] if of_tasks[str(task)] is Design.SEEDS else row.max() for task, row in seeds.iterrows()}
    cells = [(f"{arm} on {task}", number, most_of[task]) for task, row in seeds.iterrows() for arm, number in row.items()]
    named = [str(arm) for arm in seeds if re.search(r"seed[ _=-]?\d+$", str(arm), re.IGNORECASE)]
    lines += [f"Arms named by seeds are compared as arms: {some_of(named, NAMED)}; give the seeds a column."] if named else []
    missing = [place for place, number, _ in cells if not number]
    lines += [f"Missing: {some_of(missing, NAMED)}; means use the tasks that both arms have."] if missing else []
    fewer = [f"{place} ({number} of {most})" for place, number, most in cells if 0 < number < most]
    lines += [f"Fewer seeds: {some_of(fewer, NAMED)}."] if fewer else []
    counts = frame.rows[frame.rows["unit"] == SCORE].groupby("task", sort=False)["items"].agg(["min", "max"])
    unequal = [f"{task} ({low:g} to {high:g})" for task, low, high in counts.itertuples() if low < high]
    lines += [f"Scores of a task are over unequal numbers of items: {some_of(unequal, NAMED)}."] if unequal else []
    few = Design.SEEDS in kinds and (most := int(seeds.to_numpy().max())) < FEWEST_REPLICATES
    return lines + ([f"Only {most} seeds; verdicts over seeds need {FEWEST_REPLICATES}."] if few else [])
