"""Which packages are checked by mypy without exception."""

import tomllib
from pathlib import Path

TYPED = ("checkpoints", "corpus", "data", "hardware", "measure", "models", "tasks", "training")


def test_packages_that_are_typed_stay_typed():
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    untyped = {name for override in settings if override.get("ignore_errors") for name in override["module"]}
    assert not [name for name in untyped for package in TYPED if f"{name}.".startswith(f"harness.{package}.")]
