"""The page of `--help`; the meaning of each choice is the first comment of its file in `conf/`."""

import re
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
    "recipe": "how pretraining trains: rate, batches, masks, initial values",
    "finetune": "training budget",
    "measure": "what is measured beside training",
    "match": "variants resized to the cost of the baseline, beside those as published: match=none,params",
    "search": "settings that are tuned for each arm, with equal trials: search=none,rate_and_batch",
    "hardware": "device, arithmetic and threads",
    "tracking": "where results are browsed",
    "experiment": "named sweeps: +experiment=NAME",
}

DERIVED = (
    "enhancements",
    "matched",
    "model_keys",
    "model_name",
    "overrides",
    "published",
    "scale_name",
    "settings",
    "swept",
    "tuned",
)
"""Keys of a run that are set by composition and not by the user."""

HEAD = """\
harness: trains and measures variants of BERT-like encoders under equal conditions, and tracks every number in MLflow.

  python -m harness [COMMAND] [-m] [-q] [group=choice ...] [key=value ...]

Commands (each has a --help)"""

EXAMPLES = """
Examples
  python -m harness                                       the default model on the built-in tasks
  python -m harness -m model=base,albert,windowed seed=1,2,3
                                                          a sweep: every combination, one run after the other
  python -m harness 'enhancement=[swiglu,windowed]' task=sst2 data=local data.root=FOLDER
                                                          two changes stacked on the default model, on real data
  python -m harness -m model=base,albert pretrain=mlm pretrain.tokens=20e6
                                                          pretrain each on the same text, fine-tune from there
  python -m harness describe model=albert scale=base      how a variant differs from BERT

Then read:    python -m reports --baseline base
and browse:   python -m harness ui

Groups and choices (* is the default); --help GROUP lists the keys of a group, --help KEY explains one"""

TAIL = """
Any key can be set: model.attention_window=32 finetune.learning_rate=1e-4 seed=7 study=NAME. `--cfg job` prints them all.
-q (--quiet) shows only problems and where the results are; every line is in sweep.log of the study.
A run that is finished already is skipped; rerun=true runs it again. --config-dir FOLDER adds your own conf/ files.
HYDRA_FULL_ERROR=1 or hydra.verbose=true adds the traceback to an error. --version prints the version.
Tab completion, after installation: eval "$(harness -sc install=bash)"
"""


def page(commands: dict[str, str]) -> str:
    """The whole help page; `commands` is name -> description."""
    lines = [HEAD, *(f"   {'*' if name == 'run' else ' '} {name:<12} {line}" for name, line in commands.items()), EXAMPLES]
    for group, meaning in GROUPS.items():
        lines += [f"\n  {group}: {meaning}", *choices_of(group)]
    return "\n".join([*lines, TAIL])


def choices_of(group: str) -> list[str]:
    """A line for each choice, the default one marked."""
    default = default_choices().get(group, [])
    paths = sorted((conf_directory() / group).glob("*.yaml"))
    return [f"   {'*' if path.stem in default else ' '} {path.stem:<17} {_first_comment(path)}" for path in paths]


def default_choices() -> dict[str, list[str]]:
    """Group -> default choices, of most groups one: `model: base`, `enhancement: []`, `tracking: [mlflow]`."""
    lines = (conf_directory() / "config.yaml").read_text().splitlines()
    pairs = (line.strip("- ").split(": ", 1) for line in lines if line.startswith("  - ") and ": " in line)
    return {group: re.findall(r"[\w-]+", choices) for group, choices in pairs}


def _first_comment(path: Path) -> str:
    comments = (line[2:] for line in path.read_text().splitlines() if line.startswith("# ") and "@package" not in line)
    return next(comments, "")
