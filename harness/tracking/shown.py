"""What the page of a run shows: the parameters that say what it is, and the metrics that a reader looks for first.

Everything else is kept in packed tags (`harness/tags.py`), so that reports and audits still read all of it.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

from harness import arms, tags
from harness.config.schema import RunConfig, flatten, to_dict
from harness.config.texts import GrammarConfig

MOST_PARAMETERS = 40

OF_MODEL = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
OF_TRAINING = ("learning_rate", "batch_size", "epochs", "tokens", "steps", "length")
IDENTITY = (
    *("model_name", "scale_name", "enhancements.", "task.name", "seed", "pretrain.objective", "pretrain.seed", "corpus.name"),
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
    *("task.test_split", "tokenizer.trained_on", *arms.WITHOUT_EFFECT),
)
"""Keys that name the run, are in its tags, or follow from the name of the task."""

DETAILS = (
    *("params_component_", "setup/", "inference/first_call_ms", "inference/latency_ms_p50_", "/padded_tokens_per_s"),
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
    known, lifted = record["parameters"], json.loads(record["tags"].get(tags.LIFTED, "[]"))
    unused = _unused(known, record["tags"].get(tags.TASK) == tags.PRETRAINING_TASK)
    used = {key: str(value) for key, value in known.items() if not arms.within(key, (*NEVER, *unused))}
    defaults = _defaults()
    own = [key for name in IDENTITY for key in used if arms.within(key, (name,)) and used[key] != "None"]
    varied = [key for key in lifted if key in used]
    content = set(arms.BY_CONTENT)
    changed = sorted(key for key, value in used.items() if key not in content and value != defaults.get(key))
    chosen = [*own, *varied, *changed]
    return {key: used[key] for key in list(dict.fromkeys(chosen))[:MOST_PARAMETERS]}


def _unused(known: Mapping[str, Any], is_pretraining: bool) -> list[str]:
    """Groups of keys that nothing in this run reads."""
    pretrains = str(known.get("pretrain.objective", "none")) != "none" or str(known.get("pretrain.checkpoint")) != "None"
    unused = [] if pretrains else ["pretrain."]
    if not pretrains and str(known.get("tokenizer.trained_on")) != "corpus":
        unused.append("corpus.")
    if is_pretraining:
        unused += ["task.", "seed", "data."]
    if is_pretraining or str(known.get("finetune.enabled", "True")) == "False":
        unused.append("finetune.")
    if is_pretraining or str(known.get("measure.enabled", "True")) == "False":
        unused.append("measure.")
    return unused


@functools.cache
def _defaults() -> dict[str, str]:
    """Those of the schema; keys of a generated data set have them too."""
    generated = {f"task.grammar.{key}": value for key, value in to_dict(GrammarConfig()).items()}
    return {key: str(value) for key, value in (flatten(to_dict(RunConfig())) | generated).items()}


def split(values: Mapping[str, float], curves: Mapping[str, int]) -> tuple[dict[str, float], dict[str, float]]:
    """Results in the order of the page, and details; a result that ends one of the curves is no detail."""
    details = {key for key in values if key not in curves and any(part in key for part in DETAILS)}
    ranked = sorted((key for key in values if key not in details), key=lambda key: (_rank(key), key))
    return {key: values[key] for key in ranked}, {key: values[key] for key in sorted(details)}


def _rank(key: str) -> int:
    return next((place for place, start in enumerate(ORDER) if key.startswith(start)), len(ORDER))
