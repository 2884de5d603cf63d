"""What a cell is: its identity, the facts that make a comparison fair, and its folder before work begins."""

import hashlib
import json
import shutil
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from harness import hardware, journal, measure, metrics, paths
from harness.config import RunConfig, flatten, save, to_dict
from harness.grammar import expected
from harness.weights import published, teachers
from models.objectives.config import ObjectiveConfig

PRETRAINING = "pretraining"
"""What stands for the task of a pretraining."""

OF_TEXT = ("pretrain.", "corpus.", "tokenizer.")
INCOMPARABLE = ("task.", "finetune.", "measure.", *OF_TEXT)
"""Groups of keys that must be equal for a fair comparison; device, threads, arithmetic and the content of data are added."""

EVERYTHING = ("harness/**/*.py", "models/**/*.py")
SHAPING_PRETRAINING = (
    "models/**/*.py",
    "harness/corpus/*.py",
    "harness/measure/*.py",
    *(f"harness/{name}.py" for name in ["data/tokenizer", "hardware", "seeds", "weights/published", "weights/teachers"]),
    *(f"harness/training/{name}.py" for name in ["loop", "masked_lm_eval", "pretrain", "resume"]),
)
"""Sources whose change makes results other ones."""

OF_VARIANT = tuple(f"pretrain.{field.name}" for field in fields(ObjectiveConfig))
"""Keys among them that say what a variant is."""

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
    "model.objective",
    "pretrain.checkpoint",
    "pretrain.seed",
    "pretrain.teacher",
)
"""Keys that change where results go or where the same content comes from, not the results."""


@dataclass(frozen=True)
class Inputs:
    """What a cell reads, by content, and where weights lie that it starts from."""

    data: str | None = None  # key of the task's prepared data; None: the cell is a pretraining
    corpus: str | None = None  # key of the prepared text
    pretraining: str | None = None  # fingerprint of the pretraining before
    pretrained: str | None = None  # that pretraining's folder
    overlap: float | None = None  # share of the evaluation items that have an n-gram of the text


def protocol_facts(config: RunConfig, inputs: Inputs) -> dict[str, Any]:
    """All that must be equal for a fair comparison: dotted key -> value."""
    groups = OF_TEXT if inputs.data is None else INCOMPARABLE
    flat = flatten(to_dict(config))
    out = (*WITHOUT_EFFECT, *OF_VARIANT, "finetune.submit")
    kept = {key: value for key, value in flat.items() if key != "finetune.keep"}
    facts = {key: value for key, value in kept.items() if key.startswith(groups) and not key.startswith(out)}
    return facts | {
        "data.key": inputs.data,
        "corpus.key": inputs.corpus,
        "hardware.device": config.hardware.device.value,
        "hardware.device_name": hardware.device_name(config.hardware),
        "hardware.dtype": config.hardware.dtype.value,
        "hardware.compile": config.hardware.compile,
        "hardware.threads": hardware.threads(config.hardware),
        "measure.version": measure.VERSION,
    }


def protocol(config: RunConfig, inputs: Inputs) -> str:
    """Hash of those facts."""
    return _hash(protocol_facts(config, inputs))[:8]


def fingerprint(config: RunConfig, inputs: Inputs) -> str:
    """Hash of all that shapes the cell's results: config, data, code and machine."""
    flat = flatten(to_dict(config))
    told = {key: value for key, value in flat.items() if not key.startswith(WITHOUT_EFFECT)}
    if inputs.data is None:
        groups = ("model.", "hardware.", *OF_TEXT)
        told = {key: value for key, value in told.items() if key.startswith(groups)} | {"seed": seed_of(config, inputs)}
    content = [published.content_hash(config.model.init_from), teachers.content_hash(config), inputs.pretraining]
    code = code_hash(SHAPING_PRETRAINING if inputs.data is None else EVERYTHING)
    return _hash([told, content, protocol_facts(config, inputs), code])


def seed_of(config: RunConfig, inputs: Inputs) -> int:
    """The seed that counts for this cell."""
    own = inputs.data is None and config.pretrain.seed is not None
    return config.pretrain.seed if own else config.seed


def task_of(config: RunConfig, inputs: Inputs) -> str:
    """Name of the task, or what stands for it."""
    return PRETRAINING if inputs.data is None else config.task.name


def code_hash(patterns: tuple[str, ...]) -> str:
    """Hash of sources that run in a worker."""
    root = Path(__file__).resolve().parent.parent
    sources = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return _hash([[str(path.relative_to(root)), path.read_text()] for path in sources])


def title(config: RunConfig, inputs: Inputs) -> str:
    """The cell as a reader names it."""
    return f"{config.variant} {config.scale_name} {task_of(config, inputs)} seed {seed_of(config, inputs)}"


def folder_of(config: RunConfig, inputs: Inputs) -> Path:
    """The cell's folder; all studies share their pretrainings."""
    told = fingerprint(config, inputs)[:8]
    if inputs.data is None:
        name = f"{config.model_name}-{config.scale_name}-{config.pretrain.objective.value}-{seed_of(config, inputs)}-{told}"
        return paths.cell_folder(config.output, paths.PRETRAINED, name)
    return paths.cell_folder(
        config.output, config.study, f"{config.variant}-{config.scale_name}-{config.task.name}-{config.seed}-{told}"
    )


def describe(config: RunConfig, inputs: Inputs) -> dict[str, Any]:
    """Content of `cell.json`: what the tracking store is told of the cell before it runs, and what it reads."""
    facts = protocol_facts(config, inputs)
    git = hardware.git_state()
    tags = {
        "study": config.study,
        "variant": config.variant,
        "model": config.model_name,
        "scale": config.scale_name,
        "enhancements": ",".join(sorted(config.enhancements)),
        "task": task_of(config, inputs),
        "seed": str(seed_of(config, inputs)),
        metrics.PROTOCOL_TAG: protocol(config, inputs),
        metrics.PROTOCOL_FACTS_TAG: json.dumps(facts),
        "fingerprint": fingerprint(config, inputs),
        **({"pretraining": inputs.pretraining} if inputs.pretraining else {}),
        **({"selected_on": config.finetune.keep_best.value} if inputs.data is not None else {}),
        **(expected.tags(config) if inputs.data is not None else {}),
        "git_commit": git["git_commit"] or "unknown",
        "git_dirty": str(git["git_dirty"]).lower(),
        "hardware": hardware.description(config.hardware),
    }
    parameters = {key: value for key, value in flatten(to_dict(config)).items() if not key.startswith("published.")}
    return {
        "attempt": uuid.uuid4().hex,
        "name": title(config, inputs),
        "started": journal.now_ms(),
        "inputs": asdict(inputs),
        "tags": tags,
        "parameters": parameters,
    }


def lay_out(folder: Path, config: RunConfig, cell: dict[str, Any]) -> None:
    """A folder with what the worker is told, empty but for that: what an earlier attempt left is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (paths.CHECKPOINTS, paths.WEIGHTS):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (*journal.ARTIFACTS, "metrics.jsonl", "cell.json"):
        (folder / name).unlink(missing_ok=True)
    save(config, folder / "config.yaml")
    journal.write_json(folder / "cell.json", cell)


def to_resume(folder: Path) -> dict[str, Any] | None:
    """The cell as it was described before, where a checkpoint lets it go on; None where it begins anew."""
    told = folder / "cell.json"
    return json.loads(told.read_text()) if told.exists() and any(folder.glob(f"{paths.CHECKPOINTS}/step-*")) else None


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
