"""One variant at every scale: parameters, FLOPs and memory, with factors against the scale of the command line."""

from dataclasses import dataclass
from pathlib import Path

from harness import tasks
from harness.config import compose
from harness.config.command_line import for_hydra
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import ModelConfig, RunConfig
from harness.errors import InputError
from harness.measure import flops, memory_formula, size, subject
from harness.measure.memory_formula import Shape
from harness.paths import conf_directory
from harness.terminal import Row, table, wrapped
from models.heads import on_meta

HEAD = ("scale", "L", "D", "parameters", "", "embeddings", "encoder", "GFLOP", "", "step MB")

DASH = "-"


@dataclass(frozen=True)
class AtScale:
    """Counts of one scale; FLOPs and bytes are None where the model is too short for the text, or there is no formula."""

    name: str
    model: ModelConfig
    total: int
    embeddings: int
    encoder: int
    flops: int | None
    step_bytes: int | None


def show(configs: list[RunConfig], choices: list[str], config_dir: str | None) -> str:
    """The table; InputError for several variants."""
    if len(configs) > 1:
        raise InputError(f"describe scales shows one variant, the command line names {len(configs)}: leave -m out")
    (config,) = configs
    if config.pretrain.checkpoint is not None or config.model.init_from is not None:
        raise InputError("weights have one scale: leave model.init_from and pretrain.from out, or `scales`")
    length = config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    found, refused = [], []
    for name in names(config_dir):
        try:
            model = _at(name, choices, config_dir)
        except InputError as error:
            refused.append(f"{name}: {error}")
            continue
        found.append(counted(name, model, config, length))
    found.sort(key=lambda one: one.total)
    (current,) = (one for one in found if one.name == config.scale_name)
    rows = [row(one, current) for one in found]
    title = f"{config.label} at every scale, factors against {current.name} (*)"
    notes = [
        f"GFLOP: forward pass over one text of {length} tokens (measure.length)",
        f"step: sum of weights, gradients, AdamW and activations of {config.measure.batch_size} texts (measure.batch_size) "
        "in float32, by formula",
    ]
    if any(one.flops is None for one in found):
        notes.append(f"{DASH}: models of that scale take no text of {length} tokens")
    below = [*notes, *refused]
    return "\n".join([title, "", table(HEAD, rows, "lrrrrrrrrr"), "", *(wrapped(line, 0) for line in below)])


def names(config_dir: str | None) -> list[str]:
    """All scales, those of the user included."""
    folders = [conf_directory(), *([Path(config_dir)] if config_dir else [])]
    return sorted({path.stem for folder in folders for path in (folder / "scale").glob("*.yaml")})


def _at(scale: str, choices: list[str], config_dir: str | None) -> ModelConfig:
    keys = [choice for choice in choices if not choice.startswith(("-", "scale=", "measure."))]
    return compose.outside_of_a_command([*for_hydra(keys), f"scale={scale}"], config_dir).model


def counted(name: str, model: ModelConfig, config: RunConfig, length: int) -> AtScale:
    """On the meta device; AdamW's memory as of a training step of measure.batch_size texts."""
    outputs, head = subject.outputs_of(config.task), tasks.kind_of(config.task).head()
    parts = size.components(on_meta(model, outputs, head))
    total, fits = sum(parts.values()), length <= model.longest_text
    embeddings = total - parts["layers"] - parts["pooler"] - parts["head"]
    step = memory_formula.parts(
        Shape(model, outputs, config.measure.batch_size, length, head),
        config.hardware,
        config.finetune.activation_checkpointing,
    )
    return AtScale(
        name,
        model,
        total,
        embeddings,
        parts["layers"],
        flops.counted(model, outputs, 1, length, False, head) if fits else None,
        step.total if fits else None,
    )


def row(one: AtScale, current: AtScale) -> Row:
    """A line of the table; `*` marks the current scale."""
    mark = " *" if one.name == current.name else ""
    return (
        f"{one.name}{mark}",
        str(one.model.depth),
        str(one.model.hidden_size),
        millions(one.total),
        factor(one.total, current.total),
        millions(one.embeddings),
        millions(one.encoder),
        DASH if one.flops is None else f"{one.flops / 1e9:,.3f}",
        factor(one.flops, current.flops),
        DASH if one.step_bytes is None else f"{one.step_bytes / 1e6:,.0f}",
    )


def millions(count: int) -> str:
    """Parameters in 10^6."""
    return f"{count / 1e6:,.2f} M" if count else DASH


def factor(value: int | None, against: int | None) -> str:
    """How many times as much, with three digits."""
    if value is None or not against:
        return DASH
    times = value / against
    return f"{times:.3g}x" if times < 1000 else f"{times:,.0f}x"
