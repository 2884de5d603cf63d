"""How a variant differs from base, and its parameters beside base's, as text; and the files of its picture."""

import re
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path

from harness import tasks
from harness.checkpoints import start
from harness.commands.describe import architecture, picture, shape_table
from harness.config import compose
from harness.config.adopted import started_from
from harness.config.schema import ModelConfig, RunConfig
from harness.config.texts import TaskConfig
from harness.errors import InputError
from harness.measure import pretraining_heads as heads
from harness.measure import size
from harness.terminal import Row, table
from models.config import EncoderConfig
from models.heads import Classifier, on_meta
from models.objectives.build import refuse_misfit

OUTPUTS = 2
"""Classes of the head where no task names them, as in the published counts."""

FOLLOWING = ("depth", "embedding_width", "feed_forward_width", "head_width")
"""Properties of a config that are listed where they differ, beside its keys."""

SCALE = ("scale",)
"""Group that beside weights says what they are compared with: base at this scale."""


def describe_all(configs: list[RunConfig], config_dir: str | None, out: Path) -> Iterator[str]:
    """The description of each variant, once, with the shape of the weights it starts from; `config_dir` is the user's."""
    for config in {(config.label, config.scale_name): config for config in configs}.values():
        base = compose.base_model(config.scale_name, config_dir)
        yield describe(started_from(config, start.checkpoint_of(config, allowed=SCALE)), base, config.scale_name, out)


def describe(config: RunConfig, base: ModelConfig, scale: str, out: Path) -> str:
    """What is printed of one variant beside base at this scale; writes its pictures to `out`."""
    rows = difference(base, config.model)
    differences = table(("key", "base", config.label), rows, "lrr") if rows else "no difference from base"
    parts = parameter_table(base, config.model, config.task)
    written = "\n".join(map(str, write_pictures(config, parts, out)))
    counts = table(("parameters", "base", config.label, "change"), parts, "lrrr")
    beside = "" if config.scale_name == scale else f", beside base at scale {scale}"
    title = f"{config.label} at scale {config.scale_name}{beside}"
    shapes_of_all = [shape_table.of_model(config), *added_by_objective(config)]
    return "\n\n".join([title, differences, counts, pretraining_heads(config, base), *shapes_of_all, written])


def added_by_objective(config: RunConfig) -> list[str]:
    """The shapes of what a named objective adds; nothing without one, and where the table of heads says why it does not fit."""
    if not shape_table.is_added(config.pretrain):
        return []
    try:
        refuse_misfit(config.pretrain, config.model)
    except ValueError:
        return []
    try:
        return [shape_table.of_objective(config)]
    except InputError:
        raise
    except ValueError as error:  # a teacher that does not fit
        raise InputError(str(error)) from error


def difference(base: EncoderConfig, other: EncoderConfig) -> list[Row]:
    """(key, base value, its value) for every key that differs, then for what follows from the keys."""
    keys = [field.name for field in fields(EncoderConfig)]
    pairs = [(key, getattr(base, key), getattr(other, key)) for key in (*keys, *FOLLOWING)]
    marked = ((f"= {key}" if key in FOLLOWING else key, *values) for key, *values in pairs)
    return [(key, shown(one), shown(two)) for key, one, two in marked if one != two]


def shown(value: object) -> str:
    """As typed on the command line."""
    if isinstance(value, Enum):
        return str(value.value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def parameter_table(base: EncoderConfig, other: EncoderConfig, task: TaskConfig) -> list[Row]:
    """(component, base's parameters, its own, change) and the totals; a dash where neither has any."""
    one, two = counts(base, task), counts(other, task)
    return [(name, number(one[name]), number(two[name]), change(one[name], two[name])) for name in one]


def pretraining_heads(run: RunConfig, base: ModelConfig) -> str:
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
    titles = ("pretraining heads", f"base ({objectives[0]})", f"{run.label} ({objectives[1]})", "change")
    rows = [_head_row(name, plain.get(name, 0), ours.get(name, 0)) for name in {**plain, **ours}]
    return table(titles, rows, "lrrr")


def _head_row(name: str, before: int | str, after: int | str) -> Row:
    """A word in place of a number counts no parameters."""
    words = [value if isinstance(value, str) else number(value) for value in (before, after)]
    counted = [0 if isinstance(value, str) else value for value in (before, after)]
    return name, *words, "=" if before == after else change(*counted)


def shapes(config: EncoderConfig, task: TaskConfig) -> Classifier:
    """The model with the head of the task, without values."""
    kind = tasks.kind_of(task)
    return on_meta(config, kind.num_outputs(task) or OUTPUTS, kind.head())


def counts(config: EncoderConfig, task: TaskConfig) -> dict[str, int]:
    """Component -> parameters, then their total, and the total with shared layers counted at each use."""
    model = shapes(config, task)
    return {**size.components(model), "total": size.count(model), "effective": size.effective(model)}


def number(value: int) -> str:
    """With thousands separators; a dash for 0."""
    return f"{value:,}" if value else "-"


def change(before: int, after: int) -> str:
    """In percent of before; "new" where there was nothing."""
    if not before:
        return "new" if after else "-"
    return f"{100 * (after - before) / before:+.1f} %" if after != before else "="


def write_pictures(config: RunConfig, parts: list[Row], out: Path) -> list[Path]:
    """The PNG and SVG files; InputError where `out` cannot be written."""
    total, effective = parts[-2:]
    subtitle = f"{total[2]} parameters ({total[3]} against base)" if total[3] != "=" else f"{total[2]} parameters"
    if effective[2] != total[2]:
        subtitle += f", {effective[2]} with every use of a shared layer"
    described = architecture.of(shapes(config.model, config.task), f"{config.label}, scale {config.scale_name}", subtitle)
    name = re.sub(r"[^A-Za-z0-9_.+@-]+", "_", f"{config.label}-{config.scale_name}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for ending, content in picture.files(described).items():
            paths.append(out / f"{name}.{ending}")
            paths[-1].write_bytes(content)
    except OSError as error:
        raise InputError(f"--out {str(out)!r} cannot be written ({error.strerror}); expected a folder") from error
    return paths
