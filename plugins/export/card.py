"""The model card of an export: README.md with the metadata that the hub reads, use, limits, scores, training and cost.

What the folder of the run does not say is left out.
"""

import math
import re
from pathlib import Path
from typing import Any

import jinja2
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import metrics, records
from harness.comparison.paired import item_error, score_interval, t_quantile
from harness.config import own_files
from harness.errors import InputError, on_one_line
from harness.tracking import run_log
from harness.tracking.run_log import Record, Result

DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

TEMPLATES = jinja2.Environment(
    trim_blocks=True, keep_trailing_newline=True, autoescape=jinja2.select_autoescape(default_for_string=False)
)
TEMPLATES.filters["line"] = lambda value: on_one_line(str(value))
CARD = TEMPLATES.from_string(Path(__file__).with_suffix(".md.jinja").read_text("utf-8"))

HUB = re.compile(r"([\w.-]+/[\w.-]+)(@\w+)?")
"""A name on the hub, and its revision."""


def text(run: Path, licence: str, has_head: bool = True) -> str:
    """The card of a finished run, exported with its head or without; InputError where config or results cannot be read."""
    try:
        config: Any = OmegaConf.to_container(own_files.load(run / "config.yaml"), resolve=True)
        result, record = records.read(run / run_log.RESULT, Result), records.read(run / run_log.RECORD, Record)
        return _card(config, result["metrics"], record["tags"], licence, has_head)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OmegaConfBaseException) as error:  # of other shapes
        raise InputError(f"{run} has no readable config.yaml, result.json or run.json, which its card needs") from error


def _card(config: dict[str, Any], measured: dict[str, float], tags: dict[str, str], licence: str, has_head: bool) -> str:
    is_finetuned = "eval/score" in measured
    source = config["task" if is_finetuned else "corpus"]
    kinds = DATA["kinds"]
    kind = kinds.get(config["task"]["kind"], kinds["classification"]) if is_finetuned else kinds["pretraining"]
    if is_finetuned and not has_head:
        kind = kinds["encoder"]
    data, hub = on_one_line(source["name"]), source.get("hub")
    weights = HUB.fullmatch(str(config.get("model", {}).get("init_from")))
    base = weights and weights[1]
    found = [
        {"type": DATA["metrics"].get(name, name), "name": title, "value": measured[f"eval/{name}"]}
        for name, title in metrics.SCORE_TITLES.items()
        if f"eval/{name}" in measured and name != "score"
    ]
    dataset = {"type": hub or data, "name": data, "config": source.get("subset"), "split": source.get("validation_split")}
    results = {"task": {"type": kind["pipeline"]}, "dataset": _stated(dataset), "metrics": found}
    head = {
        "license": licence,
        "library_name": "transformers",
        "pipeline_tag": kind["pipeline"],
        "tags": ["encoder-variant-harness"],
        "base_model": base,
        "datasets": hub and [hub],
        "model-index": found and [{"name": on_one_line(tags.get("arm", "-")), "results": [results]}],
    }
    return CARD.render(
        head=yaml.safe_dump(_stated(head), sort_keys=False),
        data=data,
        base=base,
        kind=kind,
        source=source,
        config=config,
        settings=config["finetune"] | {"seed": config["seed"]} if is_finetuned else config["pretrain"],
        measured=measured,
        tags=tags,
        known=metrics,
        interval=_interval,
        **DATA,
    )


def _stated(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _interval(measured: dict[str, float], name: str) -> str:
    """As measured with the score; for accuracy, from the number of correct answers."""
    items, score = measured.get("eval/examples"), measured[f"eval/{name}"]
    if not items:
        return ""
    half = t_quantile(math.inf) * item_error(score, items, name)
    low, high = score_interval(score, half, name, items)
    low, high = measured.get(f"eval/{name}_low", low), measured.get(f"eval/{name}_high", high)
    return f" [{low:.4f}, {high:.4f}], {items:,.0f} items"
