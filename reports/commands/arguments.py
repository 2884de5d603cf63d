"""Options that several commands have."""

import argparse


def parser(command: str, description: str) -> argparse.ArgumentParser:
    """With the option that says which store is read."""
    made = argparse.ArgumentParser(prog=f"python -m reports {command}", description=description)
    made.add_argument("--uri", help="tracking store (default: the SQLite file multirun/mlflow.db)")
    return made


def add_where(made: argparse.ArgumentParser) -> None:
    """Options that say which runs are compared with which, as those of the report."""
    made.add_argument("--where", metavar="FILTER", help="which runs, as MLflow filters them: \"tags.task = 'sst2'\"")
    made.add_argument(
        "--along", metavar="KEY", action="append", default=[], help="setting that runs may differ in; may be repeated"
    )
