"""Command lines of commands that have keys of their own beside the choices that Hydra composes."""

import argparse
import re

OF_MODEL = ("model", "scale", "enhancement")
"""Groups of choices that say which network is meant."""


def parted(arguments: list[str], keys: dict[str, str], parser: argparse.ArgumentParser) -> tuple[dict[str, str], list[str]]:
    """Values of the command's own keys, and what is left for Hydra; `keys` says of each what it means, for --help."""
    width = max(map(len, keys)) + 1
    listed = "\n".join(f"  {key + '=':{width}} {said}" for key, said in keys.items())
    parser.epilog = f"keys:\n{listed}\n\n{parser.epilog}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config-dir", "-cd", metavar="DIR", help="adds your own conf/ files")
    options, rest = parser.parse_known_args(arguments)
    own = {key: value for key, _, value in (argument.partition("=") for argument in rest) if key in keys}
    choices = [argument for argument in rest if argument.partition("=")[0] not in keys]
    return own, [*([f"--config-dir={options.config_dir}"] if options.config_dir else []), *choices]


def group_of(choice: str) -> str:
    """`model` of `model=albert`, `+model.hidden_size=8` and the like."""
    return re.split(r"[.=@]", choice.lstrip("+~"))[0]
