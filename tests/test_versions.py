"""Results are compared by versions, so the versions must follow the code."""

import importlib
import json

import lock_versions

from harness import versions


def test_code_that_shapes_results_is_as_it_was_locked_with_its_version():
    now, before = lock_versions.locked(), json.loads(lock_versions.LOCK.read_text())
    changed = [part for part in now if now[part]["content"] != before[part]["content"]]
    assert now == before, (
        f"changed: {', '.join(changed) or 'versions alone'}. Does a run give other results? Then raise the version in "
        "harness/versions.py. In any case: make versions"
    )


def test_layout_is_no_content_and_a_formula_is():
    def content(text: str) -> str:
        return lock_versions.content({"models/low.py": text})

    before = content("def f(x):\n    return 2 * x\n")
    assert content('"""Doubles."""\n\n# a comment\ndef f(x):\n    """Twice x."""\n    return (2 * x)\n') == before
    assert content("def f(x):\n    return 3 * x\n") != before


def test_every_module_that_a_worker_computes_with_belongs_to_a_part():
    files = {path.resolve() for globs in versions.FILES.values() for glob in globs for path in lock_versions.ROOT.glob(glob)}
    for name in (
        "training.loop",
        "training.finetune",
        "training.pretrain",
        "tasks.batches",
        "measure.latency",
        "data.tokenizer",
    ):
        module = importlib.import_module(f"harness.{name}")
        assert lock_versions.Path(module.__file__).resolve() in files
