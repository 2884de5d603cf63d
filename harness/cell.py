"""What a cell is: its identity, the facts that make a comparison fair, and its folder before work begins."""

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from harness import checkpoint, hardware, journal, measure, metrics, paths
from harness.config import RunConfig, flatten, save, to_dict

INCOMPARABLE = ("task.", "finetune.", "measure.", "tokenizer.")
"""Groups of keys that must be equal for a fair comparison; device, threads, arithmetic and the data's content are added."""

WITHOUT_EFFECT = (
    "study",
    "output",
    "rerun",
    "tracking.",
    "data.root",
    "tokenizer.vocab_file",
    "tokenizer.file",
    "published.",
    "model.init_from",
)
"""Keys that change where results go or where the same content comes from, not the results."""


def protocol_facts(config: RunConfig, data_key: str) -> dict[str, Any]:
    """All that must be equal for a fair comparison: dotted key -> value."""
    flat = flatten(to_dict(config))
    facts = {key: value for key, value in flat.items() if key.startswith(INCOMPARABLE) and not key.startswith(WITHOUT_EFFECT)}
    return facts | {
        "data.key": data_key,
        "hardware.device": config.hardware.device.value,
        "hardware.device_name": hardware.device_name(config.hardware),
        "hardware.dtype": config.hardware.dtype.value,
        "hardware.threads": hardware.threads(config.hardware),
        "measure.version": measure.VERSION,
    }


def fingerprint(config: RunConfig, data_key: str) -> str:
    """Hash of all that shapes the cell's results: config, data, code and machine."""
    flat = flatten(to_dict(config))
    told = {key: value for key, value in flat.items() if not key.startswith(WITHOUT_EFFECT)}
    return _hash([told, checkpoint.content_hash(config.model.init_from), protocol_facts(config, data_key), code_hash()])


def code_hash() -> str:
    """Hash of the sources that run in a worker."""
    root = Path(__file__).resolve().parent.parent
    sources = sorted([*root.glob("harness/**/*.py"), *root.glob("models/**/*.py")])
    return _hash([[str(path.relative_to(root)), path.read_text()] for path in sources])


def title(config: RunConfig) -> str:
    """The cell as a reader names it."""
    return f"{config.variant} {config.scale_name} {config.task.name} seed {config.seed}"


def folder_of(config: RunConfig, print_of_cell: str) -> Path:
    """The cell's folder."""
    name = f"{config.variant}-{config.scale_name}-{config.task.name}-{config.seed}-{print_of_cell[:8]}"
    return paths.cell_folder(config.output, config.study, name)


def describe(config: RunConfig, data_key: str) -> dict[str, Any]:
    """Content of `cell.json`: what the tracking store is told of the cell before it runs, and which data it reads."""
    facts = protocol_facts(config, data_key)
    git = hardware.git_state()
    tags = {
        "study": config.study,
        "variant": config.variant,
        "model": config.model_name,
        "scale": config.scale_name,
        "enhancements": ",".join(sorted(config.enhancements)),
        "task": config.task.name,
        "seed": str(config.seed),
        metrics.PROTOCOL_TAG: _hash(facts)[:8],
        metrics.PROTOCOL_FACTS_TAG: json.dumps(facts),
        "fingerprint": fingerprint(config, data_key),
        "git_commit": git["git_commit"] or "unknown",
        "git_dirty": str(git["git_dirty"]).lower(),
        "hardware": hardware.description(config.hardware),
    }
    parameters = {key: value for key, value in flatten(to_dict(config)).items() if not key.startswith("published.")}
    return {
        "attempt": uuid.uuid4().hex,
        "name": title(config),
        "started": journal.now_ms(),
        "data_key": data_key,
        "tags": tags,
        "parameters": parameters,
    }


def lay_out(folder: Path, config: RunConfig, cell: dict[str, Any]) -> None:
    """An empty folder with what the worker is told; leftovers of an attempt that did not end well are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*journal.ARTIFACTS, "metrics.jsonl", "cell.json"):
        (folder / name).unlink(missing_ok=True)
    save(config, folder / "config.yaml")
    journal.write_json(folder / "cell.json", cell)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
