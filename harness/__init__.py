"""How variants are compared: composing a study, training and measuring each run, tracking the results."""


def run_study(arguments: list[str]) -> int:
    """Runs what `python -m harness` would with these arguments, such as ["-m", "model=base,albert"].

    0 when all runs finished, 1 when one did not; InputError (harness.errors) for a wrong argument.
    """
    from harness.commands import run  # Hydra

    return run.main(arguments)


def __getattr__(name: str) -> str:
    """`__version__`, from the metadata of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, which only this attribute costs

    try:
        return version("encoder-variant-harness")
    except PackageNotFoundError:
        return "0+unknown"  # a checkout that is not installed
