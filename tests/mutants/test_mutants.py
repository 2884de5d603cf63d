"""The runner of wrong changes says which are caught, which survive and which are stale, and leaves the tree alone."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

CODE = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TEST = "from code_of_mine import double\n\n\ndef test_double():\n    assert double(3) == 6\n"
ENTRY = "- {{name: {name}, file: {file}, old: {old}, new: {new}, tests: [tests/test_mine.py]}}\n"


def entry(name: str, old: str, new: str, file: str = "code_of_mine.py") -> str:
    return ENTRY.format(name=name, file=file, old=old, new=new)


NOTICED, UNNOTICED = entry("noticed", "2 * x", "3 * x"), entry("unnoticed", "x / 2", "x / 3")
GONE, MOVED = entry("gone", "4 * x", "5 * x"), entry("moved", "2 * x", "3 * x", "elsewhere.py")
UNREADABLE = entry("unreadable", "2 * x", "'2 *'")


@pytest.fixture
def mutants(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs the runner on a small tree with these entries; exit code and output."""
    tree = tmp_path / "tree"
    (tree / "tests" / "mutants").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("run.py"), tree / "tests" / "mutants")
    (tree / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    (tree / "code_of_mine.py").write_text(CODE)
    (tree / "tests" / "test_mine.py").write_text(TEST)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)

    def run(entries: str, *arguments: str) -> tuple[int, str]:
        (tree / "tests" / "mutants" / "mine.yaml").write_text(entries)
        command = [sys.executable, "tests/mutants/run.py", *arguments]
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins take longer to import than all else
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
        assert (tree / "code_of_mine.py").read_text() == CODE
        return done.returncode, done.stdout + done.stderr

    return run


def outcomes(output: str) -> dict[str, str]:
    """Name -> outcome, of the lines of mutants."""
    lines = [line for line in output.splitlines() if ".py: " in line and not line.startswith(" ")]
    return {line.rpartition(": ")[2]: line.split()[0] for line in lines}


def test_every_entry_has_its_outcome_and_the_score_is_that_of_the_changes_that_could_be_tried(mutants):
    code, output = mutants(NOTICED + UNNOTICED + UNREADABLE + GONE)
    found = {"noticed": "caught", "unnoticed": "SURVIVED", "unreadable": "BROKEN", "gone": "STALE"}
    assert (code, outcomes(output)) == (1, found)
    assert "1 of 2 caught (50.0 %" in output
    assert "SyntaxError" in output


def test_stale_entries_are_named_with_their_reason(mutants):
    code, output = mutants(NOTICED + GONE + MOVED, "--check-stale")
    assert (code, outcomes(output)) == (1, {"gone": "STALE", "moved": "STALE"})
    assert "`old` occurs 0 times in code_of_mine.py:\n    4 * x\n" in output
    assert "elsewhere.py does not exist" in output
    assert mutants(NOTICED, "--check-stale")[0] == 0


def test_an_entry_whose_test_is_gone_is_stale_and_one_with_parameters_is_not(mutants):
    code, output = mutants(NOTICED.replace("test_mine.py", "test_mine.py::test_half"), "--check-stale")
    assert (code, outcomes(output)) == (1, {"noticed": "STALE"})
    assert "test tests/test_mine.py::test_half does not exist" in output
    for found in ("tests/test_mine.py::test_double", "'tests/test_mine.py::test_double[3]'"):
        assert mutants(NOTICED.replace("tests/test_mine.py", found), "--check-stale")[0] == 0


def test_only_the_chosen_ones_run(mutants):
    code, output = mutants(NOTICED + GONE, "--only", "noticed")
    assert (code, outcomes(output)) == (0, {"noticed": "caught"})
    assert "1 of 1 caught (100.0 %" in output
    code, output = mutants(NOTICED, "--only", "no such name")
    assert code == 2
    assert output.strip() == "--only 'no such name' is in the name or file of no mutant"


def test_tests_that_fail_without_any_change_are_an_error(mutants):
    code, output = mutants(NOTICED.replace("tests/test_mine.py", "'tests/test_mine.py::test_double[no such]'"))
    assert code == 1
    assert "the named tests do not pass without any change" in output
