"""What `--help` says, read from the first comment of every file under `conf/`, so that it cannot drift from what is there."""

from pathlib import Path

from harness.paths import conf_directory

GROUPS = {
    "model": "what is compared, as its difference from BERT",
    "scale": "dimensions, for any model",
    "enhancement": "single changes stacked on any model: enhancement=[swiglu,windowed]",
    "task": "what it is trained and scored on",
    "data": "where a task's rows come from",
    "corpus": "running text for pretraining",
    "tokenizer": "how text becomes ids",
    "pretrain": "what is learned from the corpus before the task, and for how long",
    "finetune": "training budget",
    "measure": "what is measured beside training",
    "hardware": "device, arithmetic and threads",
    "tracking": "where results are browsed",
    "experiment": "named sweeps: +experiment=NAME",
}

HEAD = """\
harness: trains and measures variants of BERT-like encoders under equal conditions, and tracks every number in MLflow.

  python -m harness [-m] [group=choice ...] [key=value ...]

Examples
  python -m harness                                       the default model on the built-in tasks
  python -m harness -m model=base,albert,windowed seed=1,2,3
                                                          a sweep: every combination, one cell after the other
  python -m harness 'enhancement=[swiglu,windowed]' task=sst2 data=local data.root=FOLDER
                                                          two changes stacked on the default model, on real data
  python -m harness -m model=base,albert pretrain=mlm pretrain.tokens=20e6
                                                          pretrain each on the same text, fine-tune from there

Then read:    python -m reports --baseline base
and browse:   mlflow ui --backend-store-uri sqlite:///multirun/mlflow.db

Groups and choices (* is the default)"""

TAIL = """
Any key can be set: model.attention_window=32 finetune.learning_rate=1e-4 seed=7 study=NAME. `--cfg job` prints them all.
A cell that is finished already is skipped; rerun=true runs it again. --config-dir FOLDER adds your own conf/ files.
Tab completion, after installation: eval "$(harness -sc install=bash)"
"""


def help_text() -> str:
    """The whole help page."""
    root = conf_directory()
    defaults = _defaults((root / "config.yaml").read_text())
    lines = [HEAD]
    for group, meaning in GROUPS.items():
        lines.append(f"\n  {group}: {meaning}")
        for path in sorted((root / group).glob("*.yaml")):
            mark = "*" if defaults.get(group) == path.stem else " "
            lines.append(f"   {mark} {path.stem:<17} {_first_comment(path)}")
    return "\n".join([*lines, TAIL])


def _defaults(text: str) -> dict[str, str]:
    pairs = (line.strip("- ").split(": ", 1) for line in text.splitlines() if line.startswith("  - ") and ": " in line)
    return dict(pairs)


def _first_comment(path: Path) -> str:
    comments = (line[2:] for line in path.read_text().splitlines() if line.startswith("# ") and "@package" not in line)
    return next(comments, "")
