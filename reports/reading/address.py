"""Where the store is that a command reads. Nothing heavy is imported, so that --help is there at once."""

from pathlib import Path


def default_uri(output: str = "multirun") -> str:
    """The store that `python -m harness` writes for runs in this folder."""
    return f"sqlite:///{Path(output, 'mlflow.db').absolute()}"
