"""Runs as the tracking store has them: SQLite and MLflow, the conditions that select them, the folders of their files.

Nothing heavy is imported here, so that --help is there at once.
"""

from pathlib import Path


def default_uri(output: str = "multirun") -> str:
    """The store that `python -m harness` writes for runs in this folder."""
    return f"sqlite:///{Path(output, 'mlflow.db').absolute()}"
