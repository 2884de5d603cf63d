"""What one variant is: `python -m harness.describe model=albert scale=base [--out DIR]`.

Prints its difference from base and its parameters beside base's, and draws its architecture; no data is touched.
"""

import argparse
import re
import sys
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.terminal import Row, table
from harness.config.schema import RunConfig, TaskConfig
from harness.errors import InputError
from models.config import EncoderConfig

if TYPE_CHECKING:
    from models.heads import Classifier

OUTPUTS = 2
"""Classes of the head where no task says it, as in the published counts."""

FOLLOWING = ("depth", "embedding_width", "feed_forward_width", "head_size")
"""Properties of a config that are told where they differ, beside its keys."""


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Own options, and what is left for Hydra."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.describe",
        description="Prints how a variant differs from base, counts its parameters and draws it.",
        epilog="Everything else chooses the variant: model=albert scale=base 'enhancement=[swiglu]' model.KEY=VALUE",
        allow_abbrev=False,
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("multirun", "describe"), help="folder of the pictures")
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="adds your own conf/ files")
    return parser.parse_known_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 and one line on stderr for what cannot be composed or written."""
    from harness.config import compose  # heavy imports stay out of --help

    options, choices = parse(sys.argv[1:] if arguments is None else arguments)
    own = [f"--config-dir={options.config_dir}"] if options.config_dir else []
    if not any(choice.startswith("task=") for choice in choices):
        choices.append("task=bag")  # the default is a set of tasks, which would compose the same model for each of them

    def describe_each(cells: list[RunConfig]) -> int:
        variants = {(cell.label, cell.scale_name): cell for cell in cells}
        for cell in variants.values():
            print(describe(cell, compose.base_model(cell.scale_name, options.config_dir), options.out))
        return 0

    try:
        return compose.main([*own, *choices], describe_each)
    except InputError as error:
        print(f"harness.describe: {error}", file=sys.stderr)
        return 2


def describe(cell: RunConfig, base: EncoderConfig, out: Path) -> str:
    """All that is printed of one variant; its pictures lie below `out` then."""
    rows = difference(base, cell.model)
    told = table(("key", "base", cell.label), rows, "lrr") if rows else "no difference from base"
    parts = parameter_table(base, cell.model, cell.task)
    written = write_pictures(cell, parts, out)
    counts = table(("parameters", "base", cell.label, "change"), parts, "lrrr")
    return "\n\n".join([f"{cell.label} at scale {cell.scale_name}", told, counts, "\n".join(map(str, written))])


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


def write_pictures(cell: RunConfig, parts: list[Row], out: Path) -> list[Path]:
    """The PNG and SVG files; InputError where `out` cannot be written."""
    from harness.commands.describe import architecture, picture

    total, effective = parts[-2:]
    subtitle = f"{total[2]} parameters ({total[3]} against base)" if total[3] != "=" else f"{total[2]} parameters"
    if effective[2] != total[2]:
        subtitle += f", {effective[2]} with every use of a shared layer"
    drawn = architecture.of(shapes(cell.model, cell.task), f"{cell.label}, scale {cell.scale_name}", subtitle)
    name = re.sub(r"[^A-Za-z0-9_.+@-]+", "_", f"{cell.label}-{cell.scale_name}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for ending, content in picture.files(drawn).items():
            paths.append(out / f"{name}.{ending}")
            paths[-1].write_bytes(content)
    except OSError as error:
        raise InputError(f"--out {str(out)!r} cannot be written ({error.strerror}); expected a folder") from error
    return paths
