"""What a variant is: `python -m harness describe [TOPIC] model=albert scale=base [to=DIR]`.

Without a topic: its difference from base, its parameters beside base's, the shapes of all tensors of a forward pass, what a
pretraining adds (pretrain=rtd), and a picture of its architecture. `beside`, or model=base,gpt: several variants in one table.
`scales`: parameters and FLOPs at every scale. `activations`: the non-linearities that models know, and their derivatives.
`positions`: learned vectors beside sinusoids. `coordinates`: sizes of activations over widths, with and without the maximal
update parametrisation. `numpy`: a forward pass and a training, written out. No data is read.
"""

from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from harness.checkpoints import huggingface, start
from harness.commands import (
    describe_beside,
    describe_coordinates,
    describe_numpy,
    describe_picture,
    describe_positions,
    describe_shapes,
)
from harness.commands.options import Describe
from harness.commands.pictures import STYLE, save
from harness.config import compose
from harness.config.adopted import started_from
from harness.config.command_line import read
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import ModelConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.measure import flops, memory_formula, size, subject
from harness.measure import pretraining_heads as heads
from harness.paths import conf_directory, file_name
from harness.terminal import DASH, Row, table, wrapped
from models.config import Activation, EncoderConfig
from models.keys import keys_read
from models.layers import ACTIVATIONS
from models.objectives.build import refuse_misfit
from models.objectives.config import ObjectiveName

FOLLOWING = ("depth", "embedding_width", "feed_forward_width", "head_width")
"""Properties of a config that are listed where they differ, beside its keys."""

SCALE = ("scale",)
"""Group that beside weights says what they are compared with: base at this scale."""

SCALES_HEAD = ("scale", "L", "D", "parameters", "", "embeddings", "encoder", "GFLOP", "", "step MB")

REACH = 3.0
"""The picture goes from -REACH to REACH."""

POINTS = 1201
LOWEST, HIGHEST = -1.4, 3.2
"""Range of both panels; what is higher is cut."""

JUMP = 0.2
"""Difference between neighbouring points that is drawn as a gap."""

LINES = (("#000000", "-", 1.6), ("#D55E00", (0, (6, 2)), 1.4), ("#0072B2", (0, (1, 1.2)), 1.8), ("#009E73", "-.", 1.4))
LINES += (("#8A4B7F", (0, (3, 1, 1, 1, 1, 1)), 1.4), ("#7A7A7A", "-", 2.6))
"""Colour, dashes and width, which differ in grey too."""


def main(options: Describe, configs: list[RunConfig]) -> int:
    """Prints what the topic says of the variants; 0. InputError for what cannot be shown or written."""
    if options.topic == "beside" or options.is_implied_sweep:
        variants = [started_from(config, start.checkpoint_of(config, allowed=SCALE)) for config in configs]
        print(describe_beside.beside(variants, options.text, options.flops_per_second, options.to))
    elif options.topic == "activations":
        print(activations(options.to))
    elif options.topic == "positions":
        print(describe_positions.positions(configs, options.to, SCALE))
    elif options.topic == "coordinates":
        print(describe_coordinates.coordinates(configs, options.to))
    elif options.topic == "numpy":
        print(describe_numpy.numpy(configs, options.text, options.to))
    elif options.topic == "scales":
        print(scales(configs, options.overrides(), options.config_dir))
    else:
        for config in {(config.label, config.scale_name): config for config in configs}.values():
            checkpoint = start.checkpoint_of(config, allowed=SCALE)
            started, base, name = started_from(config, checkpoint), config.scale_name, "base"
            other = compose.base_model(config.scale_name, options.config_dir)
            typed = {override.partition("=")[0] for override in config.overrides}
            if config.model.init_from is not None and "scale" not in typed:
                other, base, name = replace(started.model, **vars(checkpoint.shape)), started.scale_name, "published"
            print(describe(started, other, base, options.to, name))
    return 0


def describe(config: RunConfig, base: ModelConfig, scale: str, out: Path, name: str = "base") -> str:
    """What is printed of one variant beside `base`, which is of this scale and name; writes its pictures to `out`."""
    rows = difference(base, config.model)
    differences = table(("key", name, config.label), rows, "lrr") if rows else f"no difference from {name}"
    parts = compared(counts(base, config.task), counts(config.model, config.task))
    paths = "\n".join(map(str, write_pictures(config, parts, out, name)))
    parameters = table(("parameters", name, config.label, "change"), parts, "lrrr")
    beside = "" if config.scale_name == scale else f", beside {name} at scale {scale}"
    title = f"{config.label} at scale {config.scale_name}{beside}"
    tensors = [describe_shapes.of_model(config), *added_by_objective(config)]
    heads_text = pretraining_heads(config, base, name)
    return "\n\n".join([title, differences, *weights(config), parameters, heads_text, *tensors, paths])


def weights(config: RunConfig) -> list[str]:
    """What of each component is kept from published weights, derived and random; nothing without weights."""
    if config.model.init_from is None:
        return []
    model = subject.classifier(config)
    origins = huggingface.load_weights(config, model)
    rows = [
        (
            part,
            group.text,
            str(len(group.names)),
            f"{numbers:,}",
            DASH if group.origin.error is None else f"{100 * group.origin.error:.3g} %",
        )
        for part, group, numbers in size.by_origin(model, origins)
    ]
    heading = f"weights of {huggingface.folder_of(config.model.init_from)}"
    return [f"{heading}\n\n{table(('component', 'comes from', 'tensors', 'numbers', 'largest error'), rows, 'llrrr')}"]


def added_by_objective(config: RunConfig) -> list[str]:
    """The shapes of what a named objective adds; nothing without one, and where the table of heads says why it does not fit."""
    if config.pretrain.objective is ObjectiveName.none:
        return []
    try:
        refuse_misfit(config.pretrain, config.model)
    except ValueError:
        return []
    try:
        return [describe_shapes.of_objective(config)]
    except InputError:
        raise
    except ValueError as error:  # a teacher that does not fit
        raise InputError(str(error)) from error


def difference(base: EncoderConfig, other: EncoderConfig) -> list[Row]:
    """(key, base value, its value) for every key that differs, then for what follows from the keys."""
    keys = [field.name for field in fields(EncoderConfig)]
    pairs = [(key, getattr(base, key), getattr(other, key)) for key in (*keys, *FOLLOWING)]
    marked = ((f"= {key}" if key in FOLLOWING else key, *values) for key, *values in pairs)
    return [(key, as_typed(before), as_typed(after)) for key, before, after in marked if before != after]


def as_typed(value: object) -> str:
    """The value as it is typed on the command line."""
    if isinstance(value, Enum):
        return str(value.value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def compared(before: dict[str, int | str], after: dict[str, int | str]) -> list[Row]:
    """(component, base's parameters, its own, change); a dash where there are none. A word in place of a number stays."""
    rows = []
    for name in {**before, **after}:
        pair = before.get(name, 0), after.get(name, 0)
        words = [value if isinstance(value, str) else f"{value:,}" if value else DASH for value in pair]
        counted = [0 if isinstance(value, str) else value for value in pair]  # a word counts no parameters
        rows.append((name, *words, "=" if pair[0] == pair[1] != 0 else change(*counted)))
    return rows


def pretraining_heads(run: RunConfig, base: ModelConfig, beside: str = "base") -> str:
    """The table of what the pretraining of each trains beside the encoder, or why the variant has no such pretraining."""
    try:
        ours = heads.components(heads.shapes(run.model, run.pretrain))
    except ValueError as error:
        return f"no pretraining heads: {error}"
    try:
        plain = heads.components(heads.shapes(base, run.pretrain))
    except ValueError:  # base cannot be trained by the objective of the variant
        plain = {}
    objectives = [heads.objective_of(model, run.pretrain).value for model in (base, run.model)]
    titles = ("pretraining heads", f"{beside} ({objectives[0]})", f"{run.label} ({objectives[1]})", "change")
    return table(titles, compared(plain, ours), "lrrr")


def counts(config: EncoderConfig, task: TaskConfig) -> dict[str, int]:
    """Component -> parameters, then their total, and the total with shared layers counted at each use."""
    model = subject.shapes(config, task)
    return {**size.components(model), "total": size.count(model), "effective": size.effective(model)}


def change(before: int, after: int) -> str:
    """In percent of before; "new" where there was nothing."""
    if not before:
        return "new" if after else DASH
    return f"{100 * (after - before) / before:+.1f} %"


def write_pictures(config: RunConfig, parts: list[Row], out: Path, beside: str) -> list[Path]:
    """The PNG and SVG files; InputError where `out` cannot be written."""
    total, effective = parts[-2:]
    subtitle = f"{total[2]} parameters ({total[3]} against {beside})" if total[3] != "=" else f"{total[2]} parameters"
    if effective[2] != total[2]:
        subtitle += f", {effective[2]} with every use of a shared layer"
    title = f"{config.label}, scale {config.scale_name}"
    drawn = describe_picture.architecture_of(subject.shapes(config.model, config.task), title, subtitle)
    with mpl.rc_context(STYLE):
        name = file_name(f"{config.label}-{config.scale_name}")
        return save(describe_picture.draw(drawn), out, name)


# Scales


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


def scales(configs: list[RunConfig], choices: list[str], config_dir: str | None) -> str:
    """The table; InputError for several variants."""
    if len(configs) > 1:
        raise InputError(f"describe scales shows one variant, the command line names {len(configs)}: leave -m out")
    (config,) = configs
    if config.pretrain.checkpoint is not None or config.model.init_from is not None:
        raise InputError("weights have one scale: leave model.init_from and pretrain.from out, or `scales`")
    length = config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    keys = read([choice for choice in choices if not choice.startswith(("-", "scale=", "measure."))]).overrides
    counts, refused = [], []
    for name in names(config_dir):
        try:
            model = compose.outside_of_a_command([*keys, f"scale={name}"], config_dir).model
        except InputError as error:
            refused.append(f"{name}: {error}")
            continue
        counts.append(counted(name, model, config, length))
    counts.sort(key=lambda scale: scale.total)
    (current,) = (scale for scale in counts if scale.name == config.scale_name)
    rows = [row(scale, current) for scale in counts]
    title = f"{config.label} at every scale, factors against {current.name} (*)"
    notes = [
        f"GFLOP: forward pass over one text of {length} tokens (measure.length)",
        f"step: sum of weights, gradients, AdamW and activations of {config.measure.batch_size} texts (measure.batch_size) "
        "in float32, by formula",
    ]
    if any(scale.flops is None for scale in counts):
        notes.append(f"{DASH}: models of that scale take no text of {length} tokens")
    below = [*notes, *refused]
    return "\n".join([title, "", table(SCALES_HEAD, rows, "lrrrrrrrrr"), "", *(wrapped(line, 0) for line in below)])


def names(config_dir: str | None) -> list[str]:
    """All scales, those of the user included."""
    folders = [conf_directory(), *([Path(config_dir)] if config_dir else [])]
    return sorted({path.stem for folder in folders for path in (folder / "scale").glob("*.yaml")})


def counted(name: str, model: ModelConfig, config: RunConfig, length: int) -> AtScale:
    """Counts on the meta device; AdamW's memory as of a training step of measure.batch_size texts."""
    parts = size.components(subject.shapes(model, config.task))
    total = sum(parts.values())
    embeddings = total - parts["layers"] - parts["pooler"] - parts["head"]
    forward = step_bytes = None
    if length <= model.longest_text:
        shape = replace(subject.step_shape(config, config.measure.batch_size), config=model, length=length)
        forward = flops.counted(replace(shape, batch_size=1), backward=False)
        step_bytes = memory_formula.parts(shape, config.hardware, config.finetune.activation_checkpointing).total
    return AtScale(name, model, total, embeddings, parts["layers"], forward, step_bytes)


def row(scale: AtScale, current: AtScale) -> Row:
    """A line of the table; `*` marks the current scale."""
    mark = " *" if scale.name == current.name else ""
    return (
        f"{scale.name}{mark}",
        str(scale.model.depth),
        str(scale.model.hidden_size),
        millions(scale.total),
        factor(scale.total, current.total),
        millions(scale.embeddings),
        millions(scale.encoder),
        DASH if scale.flops is None else f"{scale.flops / 1e9:,.3f}",
        factor(scale.flops, current.flops),
        DASH if scale.step_bytes is None else f"{scale.step_bytes / 1e6:,.0f}",
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


# Activations


@dataclass(frozen=True)
class Curve:
    """One non-linearity and its derivative at the same (N,) places from -REACH to REACH."""

    name: str
    values: np.ndarray
    slopes: np.ndarray


def curves() -> list[Curve]:
    """All non-linearities with their derivatives by autograd, in double precision."""
    drawn = []
    for activation in Activation:
        x = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64, requires_grad=True)
        y = ACTIVATIONS[activation](x)
        (slopes,) = torch.autograd.grad(y.sum(), x)
        drawn.append(Curve(activation.value, y.detach().numpy(), slopes.numpy()))
    return drawn


def users() -> dict[str, dict[str, list[str]]]:
    """Activation -> the models of conf/model/ that have it in a plain feed-forward, in a gated one, and in the pooler."""
    models = {activation.value: {"plain": [], "gated": [], "pooler": []} for activation in Activation}
    schema = OmegaConf.structured(ModelConfig)
    for path in sorted((conf_directory() / "model").glob("*.yaml")):
        config = OmegaConf.to_object(OmegaConf.merge(schema, OmegaConf.load(path)))
        if "gated_feed_forward" in keys_read(config):
            models[config.hidden_act.value]["gated" if config.gated_feed_forward else "plain"].append(path.stem)
        if config.pooler is not None:
            models[config.pooler.value]["pooler"].append(path.stem)
    return models


def activations(out: Path) -> str:
    """What is printed; writes the picture to `out`. InputError where that cannot be written."""
    drawn, models = curves(), users()
    rows = []
    for curve in drawn:
        slopes = f"{curve.slopes.min():.3f} to {curve.slopes.max():.3f}"
        places = [models[curve.name][place] for place in ("plain", "gated", "pooler")]
        named = [", ".join(names[:1]) + (f" +{len(names) - 1}" if len(names) > 1 else "") or DASH for names in places]
        rows.append((curve.name, f"{curve.values.min():.3f}", slopes, *named))
    head = ("activation", "least value", "derivative", "feed-forward of", "gated in", "pooler of")
    title = f"activations that models know, and their derivatives, from {-REACH:g} to {REACH:g}"
    note = "gated: the feed-forward is act(x W) * x V, so silu is SwiGLU and gelu GEGLU (arXiv:2002.05202)"
    with mpl.rc_context(STYLE):
        paths = save(draw(drawn, sorted(name for name, used in models.items() if used["gated"])), out, "activations")
    return "\n".join([title, "", table(head, rows, "lrrlll"), "", note, "", *map(str, paths)])


def draw(drawn: list[Curve], gated: list[str]) -> Figure:
    """Functions beside their derivatives, with the same axes; `gated` are those that a model uses with a gate."""
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    figure.suptitle("Activation functions and their derivatives", fontweight="bold", fontsize=12)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, title, lines in (
        (left, "function", [curve.values for curve in drawn]),
        (right, "derivative", [curve.slopes for curve in drawn]),
    ):
        axes.set(xlim=(-REACH, REACH), ylim=(LOWEST, HIGHEST))
        axes.set_title(title, loc="left", fontsize=10)
        axes.axhline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
        axes.axvline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        for (colour, dashes, width), curve, y in zip(LINES, drawn, lines, strict=True):
            broken = np.where(np.abs(np.diff(y, append=y[-1])) > JUMP, np.nan, y)
            x = np.linspace(-REACH, REACH, POINTS)
            axes.plot(x, broken, color=colour, linestyle=dashes, linewidth=width, label=curve.name)
    left.legend(loc="upper left", frameon=False, handlelength=4)
    figure.supxlabel(f"x; also with a gate, act(x W) * x V: {', '.join(gated)}", fontsize=9)
    return figure
