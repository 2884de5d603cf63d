"""The code of a run counts by content: what it does, not how it is written down or where."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.study.code import modules
from harness.study.identity import CODE

ROOT = Path(__file__).resolve().parents[3]

ASK = "import sys; from harness.study.code import code_hash; print(code_hash(sys.argv[1]))"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the code, to be changed."""
    for package in ("harness", "models", "reports", "conf"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def code(tree: Path, entry: str = "models.encoder") -> str:
    done = subprocess.run([sys.executable, "-c", ASK, entry], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def write(tree: Path, **sources: str) -> None:
    for name, source in sources.items():
        path = tree / "models" / f"{name}.py"
        path.write_text(source)


def test_formula_counts_but_comment_docstring_and_report_do_not(tree: Path) -> None:
    write(tree, top="from models.low import f\n", low="def f(x):\n    return 2 * x\n")
    before = code(tree, "models.top")
    write(tree, low='"""Doubles."""\n\n# a comment\ndef f(x):\n    """Twice x."""\n    return (2 * x)\n')
    (tree / "reports" / "reading" / "store.py").unlink()
    assert code(tree, "models.top") == before
    write(tree, low="def f(x):\n    return 3 * x\n")
    assert code(tree, "models.top") != before


def test_set_has_the_same_hash_in_every_process(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python shuffles a set of strings anew in every process; a run that has finished must be found again."""
    write(tree, top='KNOWN = {"runs", "tags", "params", "metrics", "experiments"}\n')
    found = set()
    for seed in range(4):
        monkeypatch.setenv("PYTHONHASHSEED", str(seed))
        found.add(code(tree, "models.top"))
    assert len(found) == 1
    write(tree, top='KNOWN = {"runs", "tags", "params", "metrics", "studies"}\n')
    assert code(tree, "models.top") not in found


def test_moved_module_keeps_the_hash(tree: Path) -> None:
    write(tree, top="from models.low import f\n", low="def f(x):\n    return 2 * x\n")
    before = code(tree, "models.top")
    (tree / "models" / "low.py").unlink()
    write(tree, top="from models.elsewhere import f\n", elsewhere="def f(x):\n    return 2 * x\n")
    assert code(tree, "models.top") == before


def test_same_name_from_another_module_counts(tree: Path) -> None:
    modules = {"low": "def f(x):\n    return 2 * x\n", "other": "def f(x):\n    return 3 * x\n"}
    write(tree, top="from models import low, other\nfrom models.low import f\n", **modules)
    before = code(tree, "models.top")
    write(tree, top="from models import low, other\nfrom models.other import f\n")
    assert code(tree, "models.top") != before


def test_imports_inside_functions_count_and_those_for_type_checkers_do_not(tree: Path) -> None:
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from models.typed import T\n"
    write(
        tree,
        top=f"{for_types}\ndef g():\n    from models.low import f\n",
        low="def f(x):\n    return 2 * x\n",
        typed="T = int\n",
    )
    before = code(tree, "models.top")
    write(tree, typed="T = str\n")
    assert code(tree, "models.top") == before
    write(tree, low="def f(x):\n    return 3 * x\n")
    assert code(tree, "models.top") != before


def test_missing_module_is_an_error(tree: Path) -> None:
    write(tree, top="import models.nowhere\n")
    with pytest.raises(subprocess.CalledProcessError):
        code(tree, "models.top")


def test_families_of_published_checkpoints_are_part_of_the_code():
    found = modules("harness.study.task_run")
    assert {f"models.huggingface.{name}" for name in ("bert", "deberta", "t5", "xlnet")} <= set(found)


@pytest.mark.parametrize("entry", CODE.values())
def test_what_starts_tracks_and_shows_a_run_is_no_part_of_its_code(entry):
    """Another line on the screen makes no finished run run again."""
    others = ("harness.commands", "harness.study.supervisor", "harness.study.timing", "harness.terminal")
    assert [name for name in modules(entry) if name.startswith(others)] == []
