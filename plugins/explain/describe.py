"""Description of a variant: `python -m harness describe [TOPIC] model=albert scale=base [to=DIR]`.

Without a topic: its difference from base, its parameters next to base's, the shapes of all tensors of a forward pass, what a
pretraining adds (pretrain=rtd), and a picture of its architecture. `beside`, or model=base,gpt: several variants in one table.
`scales`: parameters and FLOPs at every scale. `activations`: the non-linearities that models know, and their derivatives.
`positions`: learned vectors next to sinusoids. `coordinates`: sizes of activations over widths, with and without the maximal
update parametrisation. `numpy`: a forward pass and a training, written out. No data is read.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import matplotlib as mpl

from harness.checkpoints import huggingface, start
from harness.config import compose
from harness.config.command_line import read
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import ModelConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.measure import size, subject
from harness.models.config import LARGEST_TABLE, EncoderConfig
from harness.models.keys import typed
from harness.models.objectives.build import refuse_misfit
from harness.paths import conf_directory, file_name
from harness.plugins.explain import describe_beside, describe_curves, describe_numpy, describe_picture, describe_shapes
from harness.plugins.explain.options import Describe
from harness.plugins.explain.pictures import STYLE, save
from harness.plugins.shared import pretraining_heads as heads
from harness.plugins.shared import structure
from harness.terminal import DASH, Row, table, wrapped

ONE_VARIANT = ("scales", "positions", "coordinates", "numpy")
"""Topics that show a single variant."""

WITHOUT_WEIGHTS = {"scales": "scale", "coordinates": "width"}
"""Topics that show a variant at several sizes -> the size, of which weights have one."""

FOLLOWING = ("depth", "embedding_width", "feed_forward_width", "head_width")
"""Properties of a config that are listed with its keys if they differ."""

COUNTED = "Counted with {} vocabulary pieces; built-in tasks train a smaller one: python -m harness plan shows those counts."

SCALE = ("scale",)
"""Group that with weights chooses what they are compared with: base at this scale."""


def main(options: Describe, configs: list[RunConfig]) -> int:
    """Prints what the topic says of the variants; 0. InputError for what cannot be shown or written."""
    topic = "beside" if options.is_implied_sweep else options.topic
    config, out = configs[0], options.to
    if topic in ONE_VARIANT and len(configs) > 1:
        raise InputError(f"describe {topic} shows one variant, but the command line names {len(configs)}: leave -m out")
    if topic in WITHOUT_WEIGHTS and (config.pretrain.checkpoint is not None or config.model.init_from is not None):
        of_weights = WITHOUT_WEIGHTS[topic]
        raise InputError(
            f"pretrained weights have only one {of_weights}: leave model.init_from and pretrain.from out, or `{topic}`"
        )
    with mpl.rc_context(fname=STYLE):
        if topic == "beside":
            variants = [start.started(config, SCALE)[0] for config in configs]
            print(describe_beside.beside(variants, options.text, options.flops_per_second, out))
        elif topic == "activations":
            print(describe_curves.activations(out))
        elif topic == "positions":
            print(describe_curves.positions(config, out, SCALE))
        elif topic == "coordinates":
            print(describe_curves.coordinates(config, out))
        elif topic == "numpy":
            print(describe_numpy.numpy(config, options.text, out))
        elif topic == "scales":
            print(scales(config, options.overrides(), options.config_dir))
        else:
            for config in {(config.label, config.scale_name): config for config in configs}.values():
                (started, checkpoint), base, name = start.started(config, SCALE), config.scale_name, "base"
                words = ["model=base", f"scale={config.scale_name}", "task=bag"]
                other = compose.outside_of_a_command(words, options.config_dir).model
                is_scale_typed = any(override.startswith("scale=") for override in config.overrides)
                if checkpoint is not None and not is_scale_typed:
                    other, base, name = replace(started.model, **vars(checkpoint.shape)), started.scale_name, "published"
                print(describe(started, other, base, out, name))
    return 0


def describe(config: RunConfig, base: ModelConfig, scale: str, out: Path, name: str = "base") -> str:
    """Text on one variant compared with `base`, of this scale and name; writes its pictures to `out`."""
    model = config.model
    following = [] if model.encoder else FOLLOWING  # of keys that an encoder of another package does not read
    keys = [*(field.name for field in fields(EncoderConfig)), *following]
    differing = [key for key in keys if getattr(base, key) != getattr(model, key)]
    rows = [
        (f"{key} (computed)" if key in FOLLOWING else key, *(as_typed(getattr(of, key)) for of in (base, model)))
        for key in differing
    ]
    parts = compared(counts(base, config.task), counts(model, config.task))
    total, effective = parts[-2:]
    is_shared = total[1:] != effective[1:]
    parts = parts if is_shared else parts[:-1]
    said = [(structure.TITLE, *(structure.of_model(of) or DASH for of in (base, model)), "")] if model.encoder else []
    beside = "" if config.scale_name == scale else f", compared with {name} at scale {scale}"
    same = "" if config.label == name else f"Its encoder has the settings of {name}."
    pieces = " and ".join(f"{size:,}" for size in dict.fromkeys((base.vocab_size, model.vocab_size)))
    is_trained = not (model.init_from or config.pretrain.checkpoint or config.tokenizer.file or config.tokenizer.vocab_file)
    text = [
        f"{config.label} at scale {config.scale_name}{beside}",
        table(("setting", name, config.label), rows).replace(str(LARGEST_TABLE), "no limit") if rows else same,
        *weights(config),
        side_by_side(("parameters", name, config.label, "change"), [*parts, *said]),
        "effective: shared layers counted at each use" if is_shared else "",
        wrapped(COUNTED.format(pieces)) if is_trained else "",
        pretraining_heads(config, base, name),
        describe_shapes.of_model(config),
        *added_by_objective(config),
    ]
    subtitle = f"{total[2]} parameters ({total[3]} against {name})" if total[3] != "=" else f"{total[2]} parameters"
    if effective[2] != total[2]:
        subtitle += f", {effective[2]} with every use of a shared layer"
    title = f"{config.label}, scale {config.scale_name}"
    drawn = describe_picture.architecture_of(subject.shapes(model, config.task), title, subtitle)
    return "\n\n".join(
        [*filter(None, text), save(describe_picture.draw(drawn), out, file_name(f"{config.label}-{config.scale_name}"))]
    )


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
    if not config.pretrains:
        return []
    try:
        refuse_misfit(config.pretrain, config.model)
    except ValueError:
        return []
    try:
        return [describe_shapes.of_objective(config)]
    except ValueError as error:  # a teacher that does not fit
        raise InputError(str(error)) from error


def as_typed(value: object) -> str:
    """The value as it is typed on the command line."""
    return f"{value:.4g}" if isinstance(value, float) else typed(getattr(value, "value", value))  # of an enumeration


def compared(before: dict[str, int | str], after: dict[str, int | str]) -> list[Row]:
    """(component, base's parameters, its own, change); a dash where there are none. A word in place of a number stays."""
    rows = []
    for name in {**before, **after}:
        values = before.get(name, 0), after.get(name, 0)
        cells = [value if isinstance(value, str) else f"{value:,}" if value else DASH for value in values]
        first, second = (0 if isinstance(value, str) else value for value in values)  # a word counts no parameters
        change = f"{100 * (second - first) / first:+.1f} %".replace("-", "−") if first else "new" if second else DASH
        if any(values):
            rows.append((name, *cells, "=" if values[0] == values[1] else change))
    return rows


def pretraining_heads(run: RunConfig, base: ModelConfig, beside: str = "base") -> str:
    """The table of pretraining heads of each, or why the variant has no such pretraining."""
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
    return side_by_side(titles, compared(plain, ours))


def side_by_side(head: Row, rows: Sequence[Row]) -> str:
    """The table (what, of base, its own, change), with one column where both are equal."""
    if all(change == "=" for *_, change in rows):
        return table((head[0], head[2]), [(what, own) for what, _, own, _ in rows])
    return table(head, rows)


def counts(config: EncoderConfig, task: TaskConfig) -> dict[str, int | str]:
    """Component -> parameters, then their total, and the total with shared layers counted at each use."""
    model = subject.shapes(config, task)
    return {**size.components(model), "total": size.count(model), "effective": size.effective(model)}


# Scales


def scales(config: RunConfig, choices: list[str], config_dir: str | None) -> str:
    """The table, counted on the meta device; a dash where a model is too short for the text, or there is no formula."""
    length = config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    keys = read([choice for choice in choices if not choice.startswith(("-", "scale=", "measure."))]).overrides
    counted, notes = {}, []
    for name in names(config_dir):
        try:
            model = compose.outside_of_a_command([*keys, f"scale={name}"], config_dir).model
        except InputError as error:
            notes.append(f"{name}: {error}")
            continue
        sizes = size.sizes(subject.shapes(model, config.task))
        costs = describe_beside.costs(config, model, length) if length <= model.longest_text else (None, None)
        counted[name] = (sizes, model, *costs)
    current, rows = counted[config.scale_name], []
    for name, (sizes, model, forward, step_bytes) in sorted(counted.items(), key=lambda pair: pair[1][0]["model/params_total"]):
        total, embedding, encoder = (sizes[f"model/params_{part}"] for part in ("total", "embedding", "encoder"))
        cells = [f"{name} *" if name == config.scale_name else name, str(model.depth), str(model.hidden_size)]
        cells += [millions(total), factor(total, current[0]["model/params_total"]), millions(embedding), millions(encoder)]
        cells += [DASH if forward is None else f"{forward / 1e9:,.3f}", factor(forward, current[2])]
        rows.append((*cells, DASH if step_bytes is None else f"{step_bytes / 1e6:,.0f}"))
    head = ("scale", "L", "D", "parameters", "", "embeddings", "encoder", "GFLOP", "", "step MB")
    notes = [
        f"GFLOP: forward pass over one text of {length} tokens (measure.length); {DASH}: longer than the model's maximum",
        f"step: sum of weights, gradients, AdamW and activations of {config.measure.batch_size} texts (measure.batch_size) "
        "in float32, by formula",
        *notes,
    ]
    title = f"{config.label} at every scale, factors against {config.scale_name} (*)"
    return "\n".join([title, "", table(head, rows), "", *map(wrapped, notes)])


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
