"""What one variant is: `python -m harness describe model=albert scale=base [--out DIR]`.

Prints its difference from base and its parameters beside base's, those of the heads that its pretraining trains too, and draws
its architecture; no data is touched.
"""

import argparse
import re
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.arguments import Parser, with_a_task
from harness.commands.terminal import Row, table
from harness.config.schema import ModelConfig, RunConfig, TaskConfig
from harness.errors import InputError
from models.config import EncoderConfig

if TYPE_CHECKING:
    from models.heads import Classifier

OUTPUTS = 2
"""Classes of the head where no task says it, as in the published counts."""

FOLLOWING = ("depth", "embedding_width", "feed_forward_width", "head_width")
"""Properties of a config that are listed where they differ, beside its keys."""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Own options, and what is left for Hydra."""
    parser = Parser(
        "describe",
        "Prints how a variant differs from base, counts its parameters and draws it.",
        "Everything else chooses the variant: model=albert scale=base 'enhancement=[swiglu]' model.KEY=VALUE",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("multirun", "describe"), help="folder of the pictures")
    options, _, choices = parser.parse_composed(arguments)
    return options, with_a_task(choices)


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be composed or written."""
    options, choices = parse(arguments)
    from harness.config import compose  # Hydra, which --help does not need

    def describe_each(configs: list[RunConfig]) -> int:
        variants = {(config.label, config.scale_name): config for config in configs}
        for config in variants.values():
            print(describe(config, compose.base_model(config.scale_name, options.config_dir), options.out))
        return 0

    return compose.main(choices, describe_each)


def describe(config: RunConfig, base: ModelConfig, out: Path) -> str:
    """All that is printed of one variant; its pictures are below `out` then."""
    rows = difference(base, config.model)
    differences = table(("key", "base", config.label), rows, "lrr") if rows else "no difference from base"
    parts = parameter_table(base, config.model, config.task)
    written = "\n".join(map(str, write_pictures(config, parts, out)))
    counts = table(("parameters", "base", config.label, "change"), parts, "lrrr")
    title = f"{config.label} at scale {config.scale_name}"
    return "\n\n".join([title, differences, counts, pretraining_heads(config, base), written])


def difference(base: EncoderConfig, other: EncoderConfig) -> list[Row]:
    """(key, base value, its value) for every key that differs, then for what follows from the keys."""
    keys = [field.name for field in fields(EncoderConfig)]
    pairs = [(key, getattr(base, key), getattr(other, key)) for key in (*keys, *FOLLOWING)]
    marked = ((f"= {key}" if key in FOLLOWING else key, *values) for key, *values in pairs)
    return [(key, shown(one), shown(two)) for key, one, two in marked if one != two]


def shown(value: object) -> str:
    """As it would be typed on the command line."""
    if isinstance(value, Enum):
        return str(value.value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def parameter_table(base: EncoderConfig, other: EncoderConfig, task: TaskConfig) -> list[Row]:
    """(component, base's parameters, its own, change) with the totals at the end; a dash where neither has any."""
    one, two = counts(base, task), counts(other, task)
    return [(name, number(one[name]), number(two[name]), change(one[name], two[name])) for name in one]


def pretraining_heads(run: RunConfig, base: ModelConfig) -> str:
    """The table of what the pretraining of each trains beside the encoder, or why the variant cannot be trained so."""
    from harness.commands.describe import heads

    try:
        ours = heads.components(heads.shapes(run.model, run.pretrain))
    except ValueError as error:
        return f"no pretraining heads: {error}"
    try:
        plain = heads.components(heads.shapes(base, run.pretrain))
    except ValueError:  # an objective of the variant's alone
        plain = {}
    objectives = [heads.objective_of(model, run.pretrain).value for model in (base, run.model)]
    titles = ("pretraining heads", f"base ({objectives[0]})", f"{run.variant} ({objectives[1]})", "change")
    rows = [_head_row(name, plain.get(name, 0), ours.get(name, 0)) for name in {**plain, **ours}]
    return table(titles, rows, "lrrr")


def _head_row(name: str, before: int | str, after: int | str) -> Row:
    """A word in place of a number counts no parameters."""
    words = [value if isinstance(value, str) else number(value) for value in (before, after)]
    counted = [0 if isinstance(value, str) else value for value in (before, after)]
    return name, *words, "=" if before == after else change(*counted)


def shapes(config: EncoderConfig, task: TaskConfig) -> "Classifier":
    """The model with the head of the task, without its values."""
    from harness import tasks
    from harness.measure import size

    kind = tasks.kind_of(task)
    return size.on_meta(config, kind.num_outputs(task) or OUTPUTS, kind.head())


def counts(config: EncoderConfig, task: TaskConfig) -> dict[str, int]:
    """Component -> parameters, then their total, and the total with shared layers counted at each use."""
    from harness.measure import size

    model = shapes(config, task)
    return {**size.components(model), "total": size.count(model), "effective": size.effective(model)}


def number(value: int) -> str:
    """With thousands apart; a dash for a part that is not there."""
    return f"{value:,}" if value else "-"


def change(before: int, after: int) -> str:
    """In percent of before; "new" where there was nothing."""
    if not before:
        return "new" if after else "-"
    return f"{100 * (after - before) / before:+.1f} %" if after != before else "="


def write_pictures(config: RunConfig, parts: list[Row], out: Path) -> list[Path]:
    """The PNG and SVG files; InputError where `out` cannot be written."""
    from harness.commands.describe import architecture, picture

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
