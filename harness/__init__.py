"""How variants are compared: composing a study, training and measuring each run, tracking the results."""


def __getattr__(name: str) -> str:
    """`__version__`, from the metadata of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, which only this attribute costs

    try:
        return version("encoder-variant-harness")
    except PackageNotFoundError:
        return "0+unknown"  # a checkout that is not installed
