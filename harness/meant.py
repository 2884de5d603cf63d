"""Words that are typed in place of a command, and the commands that they stand for."""

import difflib
from collections.abc import Iterable

MEANT = {
    "harness model=base": "train fit finetune evaluate eval test start launch go",
    "harness -m model=base,albert seed=1,2,3": "sweep multirun experiment study",
    "harness model=base pretrain=mlm": "pretrain pretraining",
    "harness ui": "mlflow browse show view dashboard tensorboard",
    "harness status": "list ls ps progress",
    "harness plan": "estimate dryrun dry-run preview",
    "harness profile": "bench benchmark time params speed latency",
    "harness memory": "ram batch",
    "harness predict": "infer inference classify",
    "harness features": "embed embeddings encode vectors extract",
    "harness inspect": "attention look debug",
    "harness export": "convert save onnx",
    "harness describe": "info explain draw summary",
    "harness tokenizer": "tokenize tokenise tokenization vocab",
    "harness clean": "prune purge remove delete",
    "harness --help": "help usage commands",
    "harness --version": "version",
    "reports": "report reports table results result summarize summarise plot plots chart charts",
} | {f"reports {name}": name for name in ("archive", "compare", "gate", "pick", "verify")}
MEANT["reports compare"] += " diff difference"
"""What is typed in place of `python -m ...` -> words that stand for it."""


def meant(word: str, commands: Iterable[str] = ()) -> list[str]:
    """What a word that is no command stands for, by its meaning or nearly by its spelling; empty where nothing is near.

    `commands` of the harness are near by their spelling, beside those of MEANT.
    """
    words = {alias: command for command, aliases in MEANT.items() for alias in aliases.split()}
    words |= {name: f"harness {name}" for name in commands} | {command.split()[-1]: command for command in MEANT}
    near = [word.lower()] if word.lower() in words else difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.8)
    return [f"python -m {words[name]}" for name in near]
