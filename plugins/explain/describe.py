"""What a variant is: `python -m harness describe [TOPIC] model=albert scale=base [to=DIR]`.

Without a topic: its difference from base, its parameters beside base's, the shapes of all tensors of a forward pass, what a
pretraining adds (pretrain=rtd), and a picture of its architecture. `beside`, or model=base,gpt: several variants in one table.
`scales`: parameters and FLOPs at every scale. `activations`: the non-linearities that models know, and their derivatives.
`positions`: learned vectors beside sinusoids. `coordinates`: sizes of activations over widths, with and without the maximal
update parametrisation. `numpy`: a forward pass and a training, written out. No data is read.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from harness.checkpoints import huggingface, start
from harness.config import compose
from harness.config.adopted import started_from
from harness.config.command_line import read
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import ModelConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.measure import pretraining_heads as heads
from harness.measure import size, subject
from harness.models.config import Activation, EncoderConfig
from harness.models.keys import keys_read
from harness.models.layers import ACTIVATIONS
from harness.models.objectives.build import refuse_misfit
from harness.models.objectives.config import ObjectiveName
from harness.paths import conf_directory, file_name
from harness.plugins.explain import (
    describe_beside,
    describe_coordinates,
    describe_numpy,
    describe_picture,
    describe_positions,
    describe_shapes,
)
from harness.plugins.explain.options import Describe
from harness.plugins.explain.pictures import STYLE, save
from harness.terminal import DASH, Row, table, wrapped

ONE_VARIANT = ("scales", "positions", "coordinates", "numpy")
"""Topics that show one variant alone."""

WITHOUT_WEIGHTS = {"scales": "scale", "coordinates": "width"}
"""Topics that show a variant at several sizes -> the size, of which weights have one."""

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
    topic = "beside" if options.is_implied_sweep else options.topic
    if topic in ONE_VARIANT and len(configs) > 1:
        raise InputError(f"describe {topic} shows one variant, the command line names {len(configs)}: leave -m out")
    config, out = configs[0], options.to
    has_weights = config.pretrain.checkpoint is not None or config.model.init_from is not None
    if topic in WITHOUT_WEIGHTS and has_weights:
        of_weights = WITHOUT_WEIGHTS[topic]
        raise InputError(f"weights have one {of_weights}: leave model.init_from and pretrain.from out, or `{topic}`")
    with mpl.rc_context(STYLE):
        if topic == "beside":
            variants = [started_from(config, start.checkpoint_of(config, allowed=SCALE)) for config in configs]
            print(describe_beside.beside(variants, options.text, options.flops_per_second, out))
        elif topic == "activations":
            print(activations(out))
        elif topic == "positions":
            print(describe_positions.positions(config, out, SCALE))
        elif topic == "coordinates":
            print(describe_coordinates.coordinates(config, out))
        elif topic == "numpy":
            print(describe_numpy.numpy(config, options.text, out))
        elif topic == "scales":
            print(scales(config, options.overrides(), options.config_dir))
        else:
            for config in {(config.label, config.scale_name): config for config in configs}.values():
                checkpoint = start.checkpoint_of(config, allowed=SCALE)
                started, base, name = started_from(config, checkpoint), config.scale_name, "base"
                base = ["model=base", f"scale={config.scale_name}", "task=bag"]
                other = compose.outside_of_a_command(base, options.config_dir).model
                typed = {override.partition("=")[0] for override in config.overrides}
                if config.model.init_from is not None and "scale" not in typed:
                    other, base, name = replace(started.model, **vars(checkpoint.shape)), started.scale_name, "published"
                print(describe(started, other, base, out, name))
    return 0


def describe(config: RunConfig, base: ModelConfig, scale: str, out: Path, name: str = "base") -> str:
    """What is printed of one variant beside `base`, which is of this scale and name; writes its pictures to `out`."""
    rows = difference(base, config.model)
    differences = table(("key", name, config.label), rows) if rows else f"no difference from {name}"
    parts = compared(counts(base, config.task), counts(config.model, config.task))
    paths = write_pictures(config, parts, out, name)
    parameters = table(("parameters", name, config.label, "change"), parts)
    beside = "" if config.scale_name == scale else f", beside {name} at scale {scale}"
    title = f"{config.label} at scale {config.scale_name}{beside}"
    tensors = [describe_shapes.of_model(config), *added_by_objective(config)]
    heads_text = pretraining_heads(config, base, name)
    return "\n\n".join([title, differences, *weights(config), parameters, heads_text, *tensors, paths])


def weights(config: RunConfig) -> list[str]:
    """What of each component is kept from published weights, derived and random; nothing without weights."""
    if config.model.init_from is None:
        return []
    model, rows = subject.classifier(config), []
    for part, group, numbers in size.by_origin(model, huggingface.load_weights(config, model)):
        error = DASH if group.origin.error is None else f"{100 * group.origin.error:.3g} %"
        rows.append((part, group.text, str(len(group.names)), f"{numbers:,}", error))
    heading = f"weights of {huggingface.folder_of(config.model.init_from)}"
    heading += "".join(f"\n{note}" for note in huggingface.notes(config))
    return [f"{heading}\n\n{table(('component', 'comes from', 'tensors', 'numbers', 'largest error'), rows, 'llr')}"]


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
    value = getattr(value, "value", value)  # of an enumeration
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
    if not ours and not plain:
        return f"no pretraining heads: {run.label} learns from hidden states alone"
    objectives = [heads.objective_of(model, run.pretrain).value for model in (base, run.model)]
    titles = ("pretraining heads", f"{beside} ({objectives[0]})", f"{run.label} ({objectives[1]})", "change")
    return table(titles, compared(plain, ours))


def counts(config: EncoderConfig, task: TaskConfig) -> dict[str, int]:
    """Component -> parameters, then their total, and the total with shared layers counted at each use."""
    model = subject.shapes(config, task)
    return {**size.components(model), "total": size.count(model), "effective": size.effective(model)}


def change(before: int, after: int) -> str:
    """In percent of before; "new" where there was nothing."""
    if not before:
        return "new" if after else DASH
    return f"{100 * (after - before) / before:+.1f} %"


def write_pictures(config: RunConfig, parts: list[Row], out: Path, beside: str) -> str:
    """The paths of the PNG and SVG files; InputError where `out` cannot be written."""
    total, effective = parts[-2:]
    subtitle = f"{total[2]} parameters ({total[3]} against {beside})" if total[3] != "=" else f"{total[2]} parameters"
    if effective[2] != total[2]:
        subtitle += f", {effective[2]} with every use of a shared layer"
    title = f"{config.label}, scale {config.scale_name}"
    drawn = describe_picture.architecture_of(subject.shapes(config.model, config.task), title, subtitle)
    return save(describe_picture.draw(drawn), out, file_name(f"{config.label}-{config.scale_name}"))


# Scales


def scales(config: RunConfig, choices: list[str], config_dir: str | None) -> str:
    """The table, counted on the meta device; a dash where a model is too short for the text, or there is no formula."""
    length = config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    keys = read([choice for choice in choices if not choice.startswith(("-", "scale=", "measure."))]).overrides
    counts, refused = {}, []
    for name in names(config_dir):
        try:
            model = compose.outside_of_a_command([*keys, f"scale={name}"], config_dir).model
        except InputError as error:
            refused.append(f"{name}: {error}")
            continue
        sizes = size.sizes(subject.shapes(model, config.task))
        parameters = [sizes[f"model/params_{part}"] for part in ("total", "embedding", "encoder")]
        costs = describe_beside.costs(config, model, length) if length <= model.longest_text else (None, None)
        counts[name] = (*parameters, *costs, model)
    current, rows = config.scale_name, []
    for name, (total, embeddings, encoder, forward, step_bytes, model) in sorted(counts.items(), key=lambda pair: pair[1][0]):
        shape = f"{name} *" if name == current else name, str(model.depth), str(model.hidden_size)
        parameters = millions(total), factor(total, counts[current][0]), millions(embeddings), millions(encoder)
        gigaflops = DASH if forward is None else f"{forward / 1e9:,.3f}"
        megabytes = DASH if step_bytes is None else f"{step_bytes / 1e6:,.0f}"
        rows.append((*shape, *parameters, gigaflops, factor(forward, counts[current][3]), megabytes))
    title = f"{config.label} at every scale, factors against {current} (*)"
    notes = [
        f"GFLOP: forward pass over one text of {length} tokens (measure.length)",
        f"step: sum of weights, gradients, AdamW and activations of {config.measure.batch_size} texts (measure.batch_size) "
        "in float32, by formula",
    ]
    if any(forward is None for *_, forward, _, _ in counts.values()):
        notes.append(f"{DASH}: models of that scale take no text of {length} tokens")
    return "\n".join([title, "", table(SCALES_HEAD, rows), "", *map(wrapped, [*notes, *refused])])


def names(config_dir: str | None) -> list[str]:
    """All scales, those of the user included."""
    folders = [conf_directory(), *([Path(config_dir)] if config_dir else [])]
    return sorted({path.stem for folder in folders for path in (folder / "scale").glob("*.yaml")})


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
    paths = save(draw(drawn, sorted(name for name, used in models.items() if used["gated"])), out, "activations")
    return "\n\n".join([title, table(head, rows, "lrrl"), note, paths])


def draw(drawn: list[Curve], gated: list[str]) -> Figure:
    """Functions beside their derivatives, with the same axes; `gated` are those that a model uses with a gate."""
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    figure.suptitle("Activation functions and their derivatives", fontweight="bold", fontsize=12)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, title, of in ((left, "function", "values"), (right, "derivative", "slopes")):
        axes.set(xlim=(-REACH, REACH), ylim=(LOWEST, HIGHEST))
        axes.set_title(title, loc="left")
        axes.axhline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
        axes.axvline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
        for (colour, dashes, width), curve in zip(LINES, drawn, strict=True):
            y = getattr(curve, of)
            broken = np.where(np.abs(np.diff(y, append=y[-1])) > JUMP, np.nan, y)
            x = np.linspace(-REACH, REACH, POINTS)
            axes.plot(x, broken, color=colour, linestyle=dashes, linewidth=width, label=curve.name)
    left.legend(loc="upper left", handlelength=4)
    figure.supxlabel(f"x; also with a gate, act(x W) * x V: {', '.join(gated)}", fontsize=9)
    return figure
