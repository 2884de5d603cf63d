"""Versions of the code that shapes results. Runs carry them as facts, and meet in a comparison where they agree.

Whoever changes what a part computes raises its version. Whoever moves or rewrites code without a change of results keeps it,
and runs `make versions`: a test compares the code with the locked hashes, so that neither is forgotten.
"""

VERSIONS = {"models": 3, "tasks": 4, "training": 8, "measure": 11}

FILES = {
    "models": ("models/**/*.py", "models/huggingface/*.toml"),
    "tasks": (
        *("harness/tasks/**/*.py", "harness/data/**/*.py", "harness/corpus/**/*.py"),
        *("harness/tasks/**/*.yaml", "harness/data/*.yaml"),
    ),
    "training": (
        *("harness/training/**/*.py", "harness/checkpoints/**/*.py"),
        "harness/study/execute.py",
    ),
    "measure": ("harness/measure/**/*.py", "harness/hardware/**/*.py"),
}
"""Part -> the files that shape its results. What the config resolves to needs no version: every key is a fact."""

FIRST = {"facts.models_version": "1", "facts.tasks_version": "1", "facts.training_version": "1"}
"""The versions that runs have which were recorded before there were versions of these parts."""


def facts() -> dict[str, str]:
    """The versions of today, as parameters of a run."""
    return {f"facts.{part}_version": str(version) for part, version in VERSIONS.items()}
