"""The choices of all groups where a command says nothing: the defaults list of `conf/config.yaml`."""

from functools import cache

from omegaconf import OmegaConf

from harness.paths import conf_directory


@cache
def choices() -> dict[str, str | list[str]]:
    """Group -> its choice, a list for a group that takes several."""
    listed = OmegaConf.to_container(OmegaConf.load(conf_directory() / "config.yaml").defaults)
    pairs = [pair for entry in listed if isinstance(entry, dict) for pair in entry.items()]
    return {group: choice for group, choice in pairs if not group.startswith("override ")}
