"""Options that several commands have."""

import argparse


def parser(command: str, description: str) -> argparse.ArgumentParser:
    """With the option that says which store is read."""
    made = argparse.ArgumentParser(prog=f"python -m reports {command}", description=description)
    made.add_argument("--uri", help="tracking store (default: the SQLite file multirun/mlflow.db)")
    return made
