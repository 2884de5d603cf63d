"""Pages of a tracker on runs and studies: parameters, metrics, descriptions, the table of MLflow.

Everything else is kept in packed tags (`harness/tags.py`), so that reports and audits still read all of it.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import metrics, tags
from harness.comparison import arms
from harness.config import schema
from harness.document import Document, Picture, is_detail, markdown, without
from harness.records import shipped
from harness.terminal import counted, scaled
from harness.tracking import run_log

NAMES = shipped(__file__, dict[str, tuple[str, ...]])
ALWAYS, MAIN = NAMES["always"], NAMES["main"]
"""Keys, or groups that end in a dot, that say what a run is, in the order of the page; and the metrics that come first."""

NEVER = (*arms.NAMES, "facts.", "task.", "tokenizer.trained_on", *arms.NEUTRAL_KEYS, *arms.PATH_KEYS)
"""Keys that name the run, are in its tags, or follow from the name of the task; those of ALWAYS are shown all the same."""

DETAILS = re.compile(
    r"params_(component_|head|effective|trainable)|^setup/|first_call_ms|/padded_tokens_per_s|/padding_share|/samples_per_s"
    r"|/(device|sampled|reserved|process)_peak_|/peak_flops_per_s|arithmetic_intensity|eval/examples|/gradient_\w+_p50"
)
"""In the names of results that are packed."""

DEFAULTS = {key: str(value) for key, value in schema.flatten(schema.to_dict(schema.RunConfig())).items()}

LOSS = "pretrain/masked_loss"

BY_TASK = "by_task"
"""Section of MLflow's charts with a score for each task."""


def parameters(record: Mapping[str, Any], most: int | None = None) -> dict[str, str]:
    """What a run is, what its command varies, what differs from the defaults, then the defaults; the first `most` of them.

    Without `most` all that something in the run reads, apart from NEVER.
    """
    stated, run_tags = arms.stated(record["parameters"]), record["tags"]
    unused = _unused(stated, run_tags.get(tags.TASK) == tags.PRETRAINING_TASK)
    used = {key: str(value) for key, value in stated.items() if not arms.within(key, unused)}
    own = [key for name in ALWAYS for key in used if arms.within(key, (name,)) and used[key] != "None"]
    varied = [key for key in used if f'"{key}"' in run_tags.get(tags.LIFTED, "")]  # JSON, but of anybody
    changed = sorted(
        key for key, value in used.items() if not arms.within(key, NEVER) and value not in (DEFAULTS.get(key), "{}")
    )
    defaults = [key for key in used if most is None and not arms.within(key, NEVER) and used[key] != "{}"]
    return {key: used[key] for key in [*dict.fromkeys([*own, *varied, *changed, *defaults])][:most]}


NUMBER = re.compile(r"-?\d{1,18}(\.\d+)?(e[+-]?\d+)?")


def typed(value: str) -> float | str:
    """A number of a parameter, which charts then have as an axis; other words stay unchanged."""
    if not NUMBER.fullmatch(value):
        return value
    return int(value) if value.isdecimal() else float(value)


def _unused(values: Mapping[str, Any], is_pretraining: bool) -> tuple[str, ...]:
    """Groups of keys that nothing in this run reads."""
    pretrains = str(values.get("pretrain.objective", "none")) != "none" or str(values.get("pretrain.checkpoint")) != "None"
    is_off = {name: str(values.get(f"{name}.enabled")) == "False" for name in ("finetune", "measure")}
    groups = {
        "pretrain.": not pretrains,
        "corpus.": not pretrains and str(values.get("tokenizer.trained_on")) != "corpus",
        **dict.fromkeys(("task.", "seed", "data."), is_pretraining),
        **{f"{name}.": is_pretraining or off for name, off in is_off.items()},
    }
    return tuple(name for name, is_unused in groups.items() if is_unused)


def main_and_details(
    values: Mapping[str, float], curves: Mapping[str, int], task: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Results in the order in which MLflow lists them, and details; a result that ends one of the curves is not a detail.

    The score is there under the name of its task, too, so that no chart or column mixes tasks.
    """
    details = {key for key in values if key not in curves and DETAILS.search(key)}
    main = {key: values[key] for key in dict.fromkeys([*MAIN, *sorted(values)]) if key in values and key not in details}
    if "eval/score" in values:
        name = re.sub(r"[^\w./: -]", "_", task)  # which MLflow refuses in a name
        main[f"{BY_TASK}/{name}_score"] = values["eval/score"]
    return main, {key: values[key] for key in sorted(details)}


# Descriptions

PREFIXED = {"bytes": "B", "FLOP": "FLOP", "parameters": "", "tokens": " tokens", "tokens/s": " tokens/s"}
"""Units that get a prefix -> how they are written."""

MOST_CHARACTERS = 4000
"""Maximum characters of a study's description: MLflow keeps 8,000 of a tag."""

TRAINING = "workflowType=machine_learning"
"""Query of an address: without it MLflow's pages are those for language-model apps."""

REPORT_FOLDER = "report"
"""In the files of a study's run."""


def files_page(experiment: str, run_id: str, file: str = "") -> str:
    """Address, within MLflow's pages, of the files of a run."""
    return f"#/experiments/{experiment}/runs/{run_id}/artifacts{file}?{TRAINING}"


def of_folder(folder: Path, record: run_log.Record, status: str, report: str | None = None) -> str:
    """Description of a run that has ended, with what its folder says of the end; `record` where the folder has none."""
    result, record = run_log.result(folder), run_log.record(folder) or record
    ended = {**record, "tags": record["tags"] | {tags.WARNING: run_log.said_of(result)}}
    return of_run(ended, result["metrics"] if result else {}, status, folder, report)


def of_run(record: Mapping[str, Any], values: Mapping[str, float], status: str, folder: Path, report: str | None) -> str:
    """What the run is, how it ended, its main numbers, and links to files and report."""
    run_tags, reason = record["tags"], (record.get(tags.END) or {}).get("reason")
    kind = "A second timing of " if run_tags.get(tags.REPLICATE) == "true" else ""
    place = ", ".join(f"{name} {run_tags[name]}" for name in (tags.SCALE, tags.SEED) if name in run_tags)
    what = f"{kind}{run_tags.get(tags.ARM, 'run')} on {run_tags.get(tags.TASK, 'no task')}, {place}"
    score = f": score {values['eval/score']:.3f}" if "eval/score" in values else ""
    shown = (metrics.judged_by(key, values.get) for key in MAIN)
    rows = [f"| {metrics.get(key).title} | {value_text(key, values[key])} |" for key in shown if key in values]
    said = run_tags.get(tags.WARNING)
    paragraphs = [
        f"{what}. {status.capitalize().replace('_', ' ')}{score}.",
        f"`{reason}`" if reason else "",
        "\n".join(["| | |", "| :-- | --: |", *rows]) if rows else "",
        f"**{said}**" if said and said != reason else "",
        f"Files: `{folder.parent.name}/{folder.name}` below the output folder.",
        f"[Report of the study]({report})" if report else "",
    ]
    return "\n\n".join(filter(None, paragraphs))


def value_text(key: str, value: float) -> str:
    """`12.3 ms`, `34.1 MB`, `901 k`: three or more digits and the declared unit; a score has three decimals."""
    unit = metrics.get(key).unit
    if unit in ("score", "share"):
        return f"{value:.3f}"
    if unit in PREFIXED:
        return " ".join(scaled(value, PREFIXED[unit]).split())
    return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.4g} {unit}"


def of_study(
    study: str, plan: Sequence[Mapping[str, str]], command: str, link: str | None = None, report: Document | None = None
) -> str:
    """What was found and where the rest is, what was run, the beginning of the report. `plan`: the tags of each planned run."""
    answer, *paragraphs = [*(beginning(report) if report else []), ""]
    runs = f"{_counted(plan)}."  # the list of experiments shows the first words as they are, the page the first line
    more = f" [Full report]({link})" if report and link else ""
    first = [f"{' '.join(answer.replace('**', '').split())}{more}", runs] if answer else [runs]
    if report is None:
        paragraphs = ["The report is written when a sweep ends: `python -m reports`."]
    return "\n\n".join(filter(None, [*first, f"Command: `{command}`" if command else "", *paragraphs]))


def _counted(plan: Sequence[Mapping[str, str]]) -> str:
    """`12 runs: 2 arms (base, albert), 3 tasks (bag, order, distance), 2 seeds`."""
    parts = []
    for tag in (tags.ARM, tags.TASK, tags.SEED):
        names = list(dict.fromkeys(run_tags[tag] for run_tags in plan if tag in run_tags))
        listed = f" ({', '.join(names)})" if tag != tags.SEED and len(names) <= 8 else ""
        parts.append(counted(len(names), tag) + listed)
    return f"{counted(len(plan), 'run')}: {', '.join(parts)}"


def beginning(report: Document) -> list[str]:
    """Paragraphs of the first chapters in Markdown, without pictures, which this page does not show, and without what folds."""
    paragraphs: list[str] = []
    for section in report.sections[: 1 if report.is_small else None]:
        shown = without(section, lambda block: isinstance(block, Picture) or is_detail(block))
        more = [] if section.detail else [*markdown(shown)]
        if paragraphs and sum(map(len, [*paragraphs, *more])) > MOST_CHARACTERS:
            break
        paragraphs += more
    while sum(map(len, paragraphs)) > MOST_CHARACTERS and len(paragraphs) > 1:
        paragraphs.pop()
    return paragraphs


PLANNED = (tags.ARM, tags.SCALE, tags.TASK, tags.SEED, tags.PRETRAIN_SEED, "folder", tags.STATUS)
"""Columns of the plan."""


def plan_table(plan: Sequence[Mapping[str, str]]) -> str:
    """One row per planned run, in the order of running."""
    rows = [[str(number), *(run_tags.get(key, "-") for key in PLANNED)] for number, run_tags in enumerate(plan, 1)]
    lines = [["", *PLANNED], ["--:", *[":--"] * len(PLANNED)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# The table of a study

VIEW = "results"
"""Name of the table's view, in the addresses and in the menu Views."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""Tag of an experiment in which the UI of MLflow keeps a saved view."""

ADDRESS = "http://127.0.0.1:5000"
"""Where `mlflow ui` and `python -m harness ui` listen by default."""

MOST_TASKS, MOST_VARIED = 10, 4
"""Tasks, and parameters that vary, with a column of their own."""

SAID = ("model_name", "scale_name", "task.", "seed", "enhancements.", "model.")
"""Beginnings of parameters that the arm, task and seed say already."""


def table_address(experiment: str, address: str) -> str:
    """Address of the study's table of runs."""
    return f"{address}/#/experiments/{experiment}/runs?{TRAINING}&viewStateShareKey={VIEW}"


def view(measured: set[str], varied: Iterable[str], now_ms: int) -> str:
    """Value of VIEW_TAG: columns and order of the table, for runs with these metrics, in which these parameters vary.

    Scores of several tasks have a column each; the table is sorted by the first.
    """
    of_tasks = sorted(name for name in measured if name.startswith(f"{BY_TASK}/"))
    shown = [number for name in MAIN if (number := metrics.judged_by(name, measured.__contains__)) in measured]
    if len(of_tasks) > 1:
        shown = [*of_tasks[:MOST_TASKS], *(name for name in shown if name != "eval/score")]
    columns = [f"tags.`{tags.PREFIX}{name}`" for name in (tags.ARM, tags.TASK, tags.SEED, tags.WARNING)]
    columns += [f"params.`{name}`" for name in varied if not name.startswith(SAID)][:MOST_VARIED]
    columns += [f"metrics.`{name}`" for name in shown]
    widths = {name: 8 * len(name.partition(".")[2]) + 16 for name in columns}  # pixels: MLflow cuts heads after twelve letters
    widths[columns[0]] = widths[columns[3]] = 240  # arms and warnings are longer than their heads
    state: dict[str, Any] = {"selectedColumns": columns, "columnOrder": columns, "columnWidths": widths}
    state["searchFilter"] = tags.filters({tags.ROLE: tags.ROLE_RUN})[0]
    state["runsHiddenMode"] = "SHOWALL"  # by default charts show ten runs
    if shown and (shown[0] == LOSS or "score" in shown[0]):
        state |= {"orderByKey": f"metrics.`{shown[0]}`", "orderByAsc": shown[0] == LOSS}
    return json.dumps({"name": VIEW, "createdAt": now_ms, "updatedAt": now_ms, "state": json.dumps(state)})
