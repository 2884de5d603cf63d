"""How variants are compared: composing a study, training and measuring each run, tracking the results."""

import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from harness.models.heads import Classifier


def run_study(arguments: list[str]) -> int:
    """Runs a study, as `python -m harness` would with these arguments, such as ["-m", "model=base,albert"].

    Returns 0 if all runs finished, else 1. Raises InputError (harness.errors) for a wrong argument.
    """
    from harness.commands import run  # Hydra

    return run.main(arguments)


def load(run: str, output: str = "multirun", uri: str | None = None) -> "tuple[Classifier, Tokenizer, list[str]]":
    """Loads the fine-tuned model of a run on the CPU, its tokenizer, and the names of its classes.

    The tokenizer truncates as in training. `run` is a folder, the beginning of the name of one below `output`, or a run id.
    Raises InputError for a run without weights (finetune.keep=last keeps them).
    """
    from harness.checkpoints import find_run, finetuned  # torch: seconds, which the command line does without

    model, facts, path = finetuned.load_finetuned(find_run.weights_folder(str(run), "run", output, uri))
    return model, finetuned.cut(finetuned.tokenizer_of(path, model.encoder.config), facts), facts.labels


def __getattr__(name: str) -> str:
    """`__version__`, from the metadata of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.metadata.version("encoder-variant-harness")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"  # a checkout that is not installed
