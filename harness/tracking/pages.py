"""What pages of a tracker show of runs and studies: parameters, metrics, descriptions, the table of MLflow.

Everything else is kept in packed tags (`harness/tags.py`), so that reports and audits still read all of it.
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import metrics, tags
from harness.comparison import arms
from harness.document import Block, Document, Picture, is_detail, markdown, without
from harness.terminal import PREFIXES

MOST_PARAMETERS = 40

OF_MODEL = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
OF_TRAINING = ("learning_rate", "batch_size", "epochs", "tokens", "steps", "length")
IDENTITY = (
    *("model_name", "scale_name", "enhancements.", "task.name", "seed"),
    *("pretrain.objective", "pretrain.phases", "pretrain.seed", "corpus.name"),
    *(f"{phase}.{key}" for phase in ("pretrain", "finetune") for key in OF_TRAINING),
    *(
        "hardware.dtype",
        "hardware.device",
        "hardware.devices",
        "hardware.threads",
        "task.max_length",
        *(f"model.{key}" for key in OF_MODEL),
    ),
)
"""Keys, or groups that end in a dot, that say what a run is, in the order of the page."""

NEVER = (
    *(key for key in arms.NAMES if key != "environment."),
    *("facts.", "task.fields", "task.label", "task.labels", "task.scores", "task.headline", "task.item", "task.kind"),
    *("task.source", "task.members", "task.more_validation.", "task.languages.", "task.submission", "task.more_submission."),
    *("task.test_split", "tokenizer.trained_on", *arms.NEUTRAL_KEYS),
)
"""Keys that name the run, are in its tags, or follow from the name of the task."""

DETAILS = (
    *("params_component_", "setup/", "inference/first_call_ms", "/padded_tokens_per_s"),
    *(
        "/padding_share",
        "/samples_per_s",
        "/device_peak_",
        "/sampled_peak_",
        "/reserved_peak_",
        "/process_peak_",
        "/peak_flops_per_s",
    ),
    *("model/params_head", "model/params_effective", "model/params_trainable", "model/arithmetic_intensity", "eval/examples"),
    *("/gradient_norm_p50", "/gradient_spread_p50"),
)
"""Parts of the names of results that are packed."""

ORDER = (
    *("eval/score", "eval/", "tune/", "pretrain/masked_", "model/params_total", "model/", "published/"),
    *("inference/latency", "inference/tokens", "finetune/tokens_per_s", "finetune/duration", "pretrain/tokens_per_s"),
    *("inference/peak_memory", "finetune/peak_memory", "pretrain/peak_memory"),
)
"""Beginnings of names: score, size, speed, memory; all others follow. MLflow's page lists metrics as they were sent."""


def parameters(record: Mapping[str, Any]) -> dict[str, str]:
    """At most MOST_PARAMETERS of the record: what a run is, what its command varies, and what differs from the defaults."""
    used, lifted = used_parameters(record["parameters"], record["tags"]), json.loads(record["tags"].get(tags.LIFTED, "[]"))
    defaults = _defaults()
    own = [key for name in IDENTITY for key in used if arms.within(key, (name,)) and used[key] != "None"]
    varied = [key for key in lifted if key in used]
    content = set(arms.PATH_KEYS)
    changed = sorted(key for key, value in used.items() if key not in content and value != defaults.get(key))
    keys = [*own, *varied, *changed]
    return {key: used[key] for key in list(dict.fromkeys(keys))[:MOST_PARAMETERS]}


def used_parameters(parameters: Mapping[str, Any], run_tags: Mapping[str, str]) -> dict[str, str]:
    """All that the run reads and that neither its name nor its tags say, with the defaults of keys that it may lack."""
    unused = _unused(parameters, run_tags.get(tags.TASK) == tags.PRETRAINING_TASK)
    return {key: str(value) for key, value in arms.stated(parameters).items() if not arms.within(key, (*NEVER, *unused))}


def _unused(values: Mapping[str, Any], is_pretraining: bool) -> list[str]:
    """Groups of keys that nothing in this run reads."""
    pretrains = str(values.get("pretrain.objective", "none")) != "none" or str(values.get("pretrain.checkpoint")) != "None"
    unused = [] if pretrains else ["pretrain."]
    if not pretrains and str(values.get("tokenizer.trained_on")) != "corpus":
        unused.append("corpus.")
    if is_pretraining:
        unused += ["task.", "seed", "data."]
    if is_pretraining or str(values.get("finetune.enabled", "True")) == "False":
        unused.append("finetune.")
    if is_pretraining or str(values.get("measure.enabled", "True")) == "False":
        unused.append("measure.")
    return unused


@functools.cache
def _defaults() -> dict[str, str]:
    """Defaults of the schema; keys of a generated data set have them too."""
    from harness.config import schema  # 0.1 s, which `ui` does not need

    generated = {f"task.grammar.{key}": value for key, value in schema.to_dict(schema.GrammarConfig()).items()}
    return {key: str(value) for key, value in (schema.flatten(schema.to_dict(schema.RunConfig())) | generated).items()}


def main_and_details(values: Mapping[str, float], curves: Mapping[str, int]) -> tuple[dict[str, float], dict[str, float]]:
    """Results in the order of the page, and details; a result that ends one of the curves is no detail."""
    details = {key for key in values if key not in curves and any(part in key for part in DETAILS)}
    ranked = sorted((key for key in values if key not in details), key=lambda key: (_rank(key), key))
    return {key: values[key] for key in ranked}, {key: values[key] for key in sorted(details)}


def score_of_task(run_tags: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    """The score under the name of its task, so that no chart or column mixes tasks; empty without a score."""
    task = re.sub(r"[^\w./: -]", "_", run_tags.get(tags.TASK, ""))  # which MLflow refuses in a name
    return {f"{BY_TASK}/{task}_score": values["eval/score"]} if "eval/score" in values else {}


def _rank(key: str) -> int:
    return next((place for place, start in enumerate(ORDER) if key.startswith(start)), len(ORDER))


BY_TASK = "by_task"
"""Section of MLflow's charts with a score for each task."""

OF_TASK = re.compile(rf"{BY_TASK}/.+_score")
"""Name of a score that is one task's alone: its charts are the first on MLflow's page."""

LOSS = "pretrain/masked_loss"

SHOWN = (
    *("eval/score", "eval/majority_score", LOSS, "pretrain/masked_accuracy", "pretrain/tokens"),
    *("model/params_total", "model/flops_forward", "inference/latency_device_ms", "inference/latency_ms_p50"),
    *("inference/device_tokens_per_s", "inference/tokens_per_s", "train_step/device_tokens_per_s", "train_step/tokens_per_s"),
    *("inference/peak_memory_bytes", "finetune/tokens_per_s", "finetune/duration_s", "finetune/peak_memory_bytes"),
    *("pretrain/tokens_per_s", "pretrain/duration_s", "pretrain/peak_memory_bytes"),
)
"""Metrics in the table of a run: score, size, speed, memory."""

COSTS = {
    "model/params_total": "parameters",
    "inference/latency_ms_p50": "latency",
    "inference/peak_memory_bytes": "memory",
    "finetune/duration_s": "fine-tuning took",
    "pretrain/duration_s": "pretraining took",
}
"""In the first sentence of a run, which the page shows without unfolding the rest; of each quantity its number."""

PREFIXED = {"bytes": "B", "FLOP": "FLOP", "parameters": "", "tokens": " tokens"}
"""Units that get a prefix -> how they are written."""

MOST_CHARACTERS = 4000
"""Of a study's description: MLflow keeps 8,000 of a tag."""

TRAINING = "workflowType=machine_learning"
"""Of an address: without it MLflow's pages are those for language-model apps."""

REPORT_FOLDER = "report"
"""In the files of a study's run."""


@dataclass(frozen=True)
class Links:
    """Addresses within MLflow's pages."""

    experiment: str
    study_run: str | None = None
    files: tuple[str, ...] = ()  # of the report

    @property
    def report(self) -> str | None:
        """Page of the study's run with its report, in HTML where there is one; with all its files before it is written."""
        page = f"#/experiments/{self.experiment}/runs/{self.study_run}/artifacts"
        names = [f"/{REPORT_FOLDER}/{name}" for name in ("report.html", "report.md") if name in self.files]
        return self.study_run and f"{page}{names[0] if names else ''}?{TRAINING}"


def of_run(record: Mapping[str, Any], values: Mapping[str, float], status: str, folder: Path, links: Links) -> str:
    """What the run is, how it ended, its main numbers, and links to files and report."""
    run_tags = record["tags"]
    kind = "A second timing of " if run_tags.get(tags.REPLICATE) == "true" else ""
    place = ", ".join(f"{name} {run_tags[name]}" for name in (tags.SCALE, tags.SEED) if name in run_tags)
    what = f"{kind}**{run_tags.get(tags.ARM, 'run')}** on *{run_tags.get(tags.TASK, 'no task')}*, {place}"
    judged = {metrics.judged_by(key, values.get): title for key, title in COSTS.items()}
    costs = ", ".join(f"{title} {value_text(key, values[key])}" for key, title in judged.items() if key in values)
    lines = [f"{what}. {status.capitalize().replace('_', ' ')}{_score_text(values)}{'; ' * bool(costs)}{costs}.", ""]
    lines += [f"`{end['reason']}`", ""] if (end := record.get(tags.END)) and end["reason"] else []
    rows = [
        f"| {metrics.get(key).title} | {value_text(key, values[key])}{_interval(key, values)} |"
        for key in SHOWN
        if key in values
    ]
    lines += ["| | |", "| :-- | --: |", *rows, ""] if rows else []
    lines += [f"**{said}**", ""] if (said := run_tags.get(tags.WARNING)) and said != (end or {}).get("reason") else []
    lines.append(f"Files: `{folder.parent.name}/{folder.name}` below the output folder, and under Artifacts.")
    if links.report:
        lines.append(f"[Report of the study]({links.report})")
    return "\n".join(lines)


def _score_text(values: Mapping[str, float]) -> str:
    if "eval/score" not in values:
        return f": held-out masked loss {values[LOSS]:.3f} nats" if LOSS in values else ""
    constant = f" (constant answer {values['eval/majority_score']:.3f})" if "eval/majority_score" in values else ""
    return f": score {values['eval/score']:.3f}{constant}"


def _interval(key: str, values: Mapping[str, float]) -> str:
    """` [6.5, 7.3]` where the run measured its 95 % interval."""
    ends = [values.get(f"{key}_{end}") for end in ("low", "high")]
    return "" if None in ends else f" [{ends[0]:.4g}, {ends[1]:.4g}]"


def value_text(key: str, value: float) -> str:
    """`12.3 ms`, `34.1 MB`, `900.7 k`, `59,284 tokens/s`: three or more digits and the declared unit."""
    unit = metrics.get(key).unit
    if unit in PREFIXED:
        size, prefix = next(((size, prefix) for size, prefix in PREFIXES if abs(value) >= size), (1, ""))
        return " ".join(f"{value / size:.4g} {prefix}{PREFIXED[unit]}".split())
    if unit == "tokens/s":
        return f"{value:,.0f} {unit}"
    if unit in ("score", "share"):
        return f"{value:.3f}"
    return f"{value:.4g} {unit}"


def of_study(study: str, plan: Sequence[Mapping[str, str]], command: str, links: Links, report: Document | None = None) -> str:
    """What was found and where the rest is, what was run, the beginning of the report. `plan`: the tags of each planned run."""
    link = f"[The whole report]({links.report}). " if report and links.report else ""
    answer, *paragraphs = [*(beginning(report) if report else []), ""]
    first = f"**{study}**: {link}{' '.join(answer.split())}".rstrip(": ")  # the page shows the first line unfolded
    lines = [first, "", f"{_counted(plan)}.", "", *([f"Command: `{command}`", ""] if command else [])]
    lines += ["\n\n".join(paragraphs).rstrip()] if report else ["The report is written when a sweep ends: `python -m reports`."]
    return "\n".join(lines)


def _counted(plan: Sequence[Mapping[str, str]]) -> str:
    """`12 runs: 2 arms (base, albert), 3 tasks (bag, order, distance), 2 seeds`."""
    parts = []
    for tag, noun in ((tags.ARM, "arm"), (tags.TASK, "task"), (tags.SEED, "seed")):
        names = list(dict.fromkeys(run_tags[tag] for run_tags in plan if tag in run_tags))
        listed = f" ({', '.join(names)})" if tag != tags.SEED and len(names) <= 8 else ""
        parts.append(f"{len(names)} {noun}{'s'[: len(names) != 1]}{listed}")
    return f"{len(plan)} run{'s'[: len(plan) != 1]}: {', '.join(parts)}"


def _is_left_out(block: Block) -> bool:
    return isinstance(block, Picture) or is_detail(block)


def beginning(report: Document) -> list[str]:
    """Paragraphs of the first chapters in Markdown, without pictures, which this page does not show, and without what folds."""
    paragraphs: list[str] = []
    for section in report.sections[: 1 if report.is_small else None]:
        more = [] if section.detail else [*markdown(without(section, _is_left_out))]
        if paragraphs and sum(map(len, [*paragraphs, *more])) > MOST_CHARACTERS:
            break
        paragraphs += more
    while sum(map(len, paragraphs)) > MOST_CHARACTERS and len(paragraphs) > 1:
        paragraphs.pop()
    return paragraphs


def plan_table(plan: Sequence[Mapping[str, str]]) -> str:
    """One row a planned run, in the order of running."""
    rows = [" | ".join((str(number), *(run_tags.get(key, "-") for key in PLANNED))) for number, run_tags in enumerate(plan, 1)]
    return "\n".join([f"| | {' | '.join(PLANNED)} |", f"| --: |{' :-- |' * len(PLANNED)}", *(f"| {row} |" for row in rows), ""])


PLANNED = (tags.ARM, tags.SCALE, tags.TASK, tags.SEED, tags.PRETRAIN_SEED, "folder", tags.STATUS)
"""Columns of the plan."""


VIEW = "results"
"""Name of the table's view, in the addresses and in the menu Views."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""Tag of an experiment in which the UI of MLflow keeps a saved view."""

ADDRESS = "http://127.0.0.1:5000"
"""Where `mlflow ui` and `python -m harness ui` listen by default."""

SCORES = ("eval/score", LOSS)
"""Metrics to sort by; the first one that the study has."""

COLUMNS = (
    *("eval/score", "pretrain/masked_loss", "model/params_total", "model/flops_forward", "inference/latency_ms_p50"),
    *("inference/tokens_per_s", "train_step/tokens_per_s", "inference/peak_memory_bytes"),
    *("finetune/duration_s", "finetune/peak_memory_bytes"),
)


LETTER, MARGIN = 8, 32
"""Pixels of a letter of a column's head, and beside it: MLflow cuts heads after some twelve letters."""

MOST_TASKS, MOST_VARIED = 10, 4
"""Tasks, and parameters that vary, with a column of their own."""

OF_ANY_TASK = ("eval/", "tune/", "finetune/loss")
"""Beginnings of the names of results whose unit depends on the task: a chart of several tasks compares nothing."""

MIXED = "tasks mixed: eval, tune, training loss"
"""Name of the folded section of their charts."""


def table_address(experiment: str, address: str = ADDRESS) -> str:
    """Address of the study's table of runs."""
    return f"{address}/#/experiments/{experiment}/runs?{TRAINING}&viewStateShareKey={VIEW}"


def view(names: Iterable[str], varied: Iterable[str], now_ms: int) -> str:
    """Value of VIEW_TAG: columns and order of the table, for runs with these metrics, in which these parameters vary.

    Scores of several tasks have a column and a chart each; the table is sorted by the first, and charts of them all are folded.
    """
    measured = set(names)
    of_tasks = sorted(filter(OF_TASK.fullmatch, measured))
    several = len(of_tasks) > 1
    score = of_tasks[0] if several else next((name for name in SCORES if name in measured), None)
    shown = [number for name in COLUMNS if (number := metrics.judged_by(name, measured.__contains__)) in measured]
    shown = [*of_tasks[:MOST_TASKS], *(name for name in shown if name != "eval/score")] if several else shown
    columns = [f"tags.`{name}`" for name in (tags.ARM, tags.TASK, tags.SEED)]
    columns += [*(f"params.`{name}`" for name in [*varied][:MOST_VARIED]), *(f"metrics.`{name}`" for name in shown)]
    state: dict[str, Any] = {
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {_column("metrics", name): LETTER * len(name) + MARGIN for name in shown},
        "searchFilter": f"tags.{tags.ROLE} = '{tags.ROLE_RUN}'",
        "runsHiddenMode": "SHOW_ALL",  # charts leave out all but the first ten else
    }
    if score:
        state |= {"orderByKey": _column("metrics", score), "orderByAsc": score == LOSS}
    if several:
        state |= _charts(measured)
    return json.dumps({"name": VIEW, "createdAt": now_ms, "updatedAt": now_ms, "state": json.dumps(state)})


def _charts(measured: set[str]) -> dict[str, Any]:
    """Sections of charts: scores by task first; last, and folded, what would mix tasks. MLflow adds the other charts."""
    mixed = sorted(name for name in measured if name.startswith(OF_ANY_TASK))
    names = sorted({name.rpartition("/")[0] for name in measured.difference(mixed)}, key=lambda name: (name != BY_TASK, name))
    sections = [{"uuid": name, "name": name, "display": name != MIXED, "isReordered": False} for name in (*names, MIXED)]
    charts = [{"uuid": name, "type": "BAR", "metricKey": name, "metricSectionId": MIXED, "isGenerated": True} for name in mixed]
    return {"compareRunCharts": charts, "compareRunSections": sections, "isAccordionReordered": True}


def _column(kind: str, name: str) -> str:
    return f"{kind}.`{name}`"


def varied_parameters(of_runs: Iterable[Mapping[str, str]]) -> list[str]:
    """Parameters of the runs that differ between them and that the arm, task and seed do not say already."""
    runs = list(of_runs)
    said = ("model_name", "scale_name", "task.", "seed", "enhancements.", "model.")
    keys = dict.fromkeys(key for run in runs for key in run if not key.startswith(said))
    return [key for key in keys if len({run.get(key) for run in runs}) > 1]
