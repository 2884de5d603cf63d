"""The README.md of an export, with the head that the hub reads: scores, data, recipe, cost, licence, how to load.

What the folder of the run does not say is left out.
"""

from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from scipy.special import ndtri

from harness import metrics, records
from harness.comparison.paired import CONFIDENCE, item_error, score_interval
from harness.config import own_files
from harness.errors import InputError, on_one_line
from harness.tracking import run_log
from harness.tracking.run_log import Record, Result

DATA = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


def text(run: Path, licence: str) -> str:
    """The card of a finished run; InputError where its config or its results cannot be read."""
    try:
        config: Any = OmegaConf.to_container(own_files.load(run / "config.yaml"), resolve=True)
        result, record = records.read(run / run_log.RESULT, Result), records.read(run / run_log.RECORD, Record)
        return _card(config, result["metrics"], record["tags"], licence)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OmegaConfBaseException) as error:  # of other shapes
        raise InputError(f"{run} has no readable config.yaml, result.json or run.json, of which its card is made") from error


def _card(config: dict[str, Any], measured: dict[str, float], tags: dict[str, str], licence: str) -> str:
    tags = {key: on_one_line(value) for key, value in tags.items()}
    arm, task, trained = tags.get("arm", "-"), config["task"], "finetune" if "eval/score" in measured else "pretrain"
    is_finetuned = trained == "finetune"
    pipeline, loader = DATA["pipelines"].get(task["kind"], ("text-classification", "AutoModelForSequenceClassification"))
    pipeline, loader = (pipeline, loader) if is_finetuned else ("fill-mask", "AutoModel")
    data = on_one_line(task["name"] if is_finetuned else config["corpus"]["name"])
    scores = {name: measured[f"eval/{name}"] for name in metrics.SCORE_TITLES if f"eval/{name}" in measured and name != "score"}
    losses = [name for name in ("pretrain/masked_loss", "pretrain/next_token_loss") if name in measured]
    results = {
        "task": {"type": pipeline},
        "dataset": {"type": data, "name": data},
        "metrics": [{"type": name, "value": value} for name, value in scores.items()],
    }
    head: dict[str, Any] = {
        "license": licence,
        "library_name": "transformers",
        "pipeline_tag": pipeline,
        "tags": ["encoder-variant-harness"],
    }
    head |= {"model-index": [{"name": arm, "results": [results]}]} if scores else {}
    lines = [
        *(f"- {metrics.SCORE_TITLES[name]}: {value:.4f}{_interval(measured, name)}" for name, value in scores.items()),
        *(f"- {metrics.get(name).title}: {measured[name]:.4f} {metrics.get(name).unit}" for name in losses),
    ]
    settings = config[trained] | ({"seed": config["seed"]} if is_finetuned else {})
    recipe = [f"- {key}: {on_one_line(str(settings[key]))}" for key in DATA["recipe"] if settings.get(key) is not None]
    costs = [
        f"| {metrics.get(name).title} | {measured[name]:,.6g} | {metrics.get(name).unit} |"
        for name in DATA["costs"]
        if name in measured
    ]
    return "\n".join(
        [
            f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n# {arm}, {data}\n",
            "## Scores\n\nOne run, on validation data; intervals of 95 % are over its items, not over seeds.\n",
            *lines,
            f"\n## Data\n\n{data}, version {task['version'] if is_finetuned else config['corpus'].get('version', '-')}",
            "\n## Recipe\n",
            *recipe,
            f"\n`{tags.get('command', '-')}`, commit {tags.get('git_commit', '-')}",
            f"\n## Cost\n\nOn {tags.get('hardware', '-')}.\n\n| | | |\n| :-- | --: | :-- |",
            *costs,
            "\n## Load\n\n```python\nfrom transformers import AutoTokenizer, " + loader,
            f'\nmodel, tokenizer = {loader}.from_pretrained("."), AutoTokenizer.from_pretrained(".")\n```\n',
        ]
    )


def _interval(measured: dict[str, float], name: str) -> str:
    """As measured with the score; for accuracy, from the number of correct answers."""
    items, score = measured.get("eval/examples"), measured[f"eval/{name}"]
    if not items:
        return ""
    half = float(ndtri((1 + CONFIDENCE) / 2)) * item_error(score, items, name)
    low, high = score_interval(score, half, name, items)
    low, high = measured.get(f"eval/{name}_low", low), measured.get(f"eval/{name}_high", high)
    return f" [{low:.4f}, {high:.4f}], {items:,.0f} items"
