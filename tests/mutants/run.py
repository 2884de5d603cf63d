"""Small wrong changes to the code, each of which the named tests must notice: `make mutants`.

The lists are the YAML files beside this one. An entry has a `name`, a `file`, the `old` text, which must occur in it exactly
once, the `new` text, and the `tests` of which at least one must fail. Every change is made in a copy of the tree. Exit code 1
when fewer than 97 % are caught, when an entry is stale (its text or its tests are no longer there) or breaks the collection of
tests, or when a test fails without any change.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
REQUIRED_SCORE = 0.97
TIMEOUT_S = 600
"""A change that makes a loop endless is caught too."""

CAUGHT, SURVIVED, STALE, BROKEN = "caught", "SURVIVED", "STALE", "BROKEN"
OUTCOMES = {0: SURVIVED, 1: CAUGHT, 2: BROKEN, 3: BROKEN, 4: STALE, 5: STALE}
"""Exit code of pytest -> outcome: 2 is an error of collection, 4 and 5 say that the named tests do not exist."""


@dataclass(frozen=True)
class Mutant:
    """One wrong change."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]

    def stale(self, tree: Path) -> str | None:
        """Why the entry no longer fits the tree; None where it does."""
        path = tree / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        count = path.read_text().count(self.old)
        if count != 1:
            return f"`old` occurs {count} times in {self.file}:\n{self.old}"
        gone = [test for test in self.tests if not _exists(tree, test)]
        return f"test {gone[0]} does not exist" if gone else None


def _exists(tree: Path, test: str) -> bool:
    """Whether the file is there, and in it the function of `file::function[parameters]`."""
    file, _, function = test.partition("::")
    path = tree / file
    return path.exists() and (not function or f"def {function.partition('[')[0]}(" in path.read_text())


def read_lists(folder: Path) -> list[Mutant]:
    """The entries of all lists; ValueError for two of one name, or for one that changes nothing or names no test."""
    mutants = [Mutant(**entry) for path in sorted(folder.glob("*.yaml")) for entry in yaml.safe_load(path.read_text())]
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        if names.count(mutant.name) > 1 or mutant.old == mutant.new or not mutant.tests:
            raise ValueError(f"mutant {mutant.name!r} needs a name of its own, a `new` that differs from `old`, and `tests`")
    return mutants


def copy_tree(target: Path) -> None:
    """Everything that git tracks or would track, as it is now, with the real data beside it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():  # harness/models and harness/reports are links to folders: of the copy
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    if (ROOT.parent / "shared").is_dir():
        (target.parent / "shared").symlink_to(ROOT.parent / "shared")


def run_tests(tree: Path, tests: list[str]) -> tuple[str, str]:
    """Outcome and last lines of pytest, up to the first test that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    # No bytecode: a changed file of the same size and second would be read from its old one.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return CAUGHT, f"no end within {TIMEOUT_S} s"
    return OUTCOMES[done.returncode], (done.stdout + done.stderr)[-2000:]


def try_mutant(tree: Path, mutant: Mutant) -> tuple[str, str]:
    """Outcome of the mutant's tests under its change, and what explains it; the tree is put back."""
    reason = mutant.stale(tree)
    if reason:
        return STALE, reason
    path = tree / mutant.file
    original = path.read_text()
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        outcome, output = run_tests(tree, mutant.tests)
    finally:
        path.write_text(original)
    return outcome, output if outcome in (BROKEN, STALE) else ""


def report(outcome: str, mutant: Mutant, seconds: float, reason: str) -> None:
    """One line, and below it the reason where there is one."""
    print(f"{outcome:<9} {seconds:5.1f} s  {mutant.file}: {mutant.name}", flush=True)
    if reason:
        print("    " + reason.strip().replace("\n", "\n    "), flush=True)


def conclude(outcomes: list[str]) -> int:
    """Prints the score; the exit code."""
    counts = {name: outcomes.count(name) for name in (CAUGHT, SURVIVED, STALE, BROKEN)}
    tried = counts[CAUGHT] + counts[SURVIVED]
    score = counts[CAUGHT] / tried if tried else 0.0
    others = ", ".join(f"{count} {name.lower()}" for name, count in counts.items() if name != CAUGHT)
    print(f"{counts[CAUGHT]} of {tried} caught ({100 * score:.1f} %, required {100 * REQUIRED_SCORE:.0f} %): {others}")
    return int(score < REQUIRED_SCORE or counts[STALE] + counts[BROKEN] > 0)


def check_stale(mutants: list[Mutant]) -> int:
    """Names the entries that no longer fit the working tree, without running anything; the exit code."""
    found = [(mutant, reason) for mutant in mutants if (reason := mutant.stale(ROOT))]
    for mutant, reason in found:
        report(STALE, mutant, 0.0, reason)
    print(f"{len(found)} of {len(mutants)} entries are stale")
    return int(bool(found))


def run(mutants: list[Mutant]) -> int:
    """Tries every mutant in one copy of the tree, after its tests passed there unchanged; the exit code."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        copy_tree(tree)
        named = sorted({test for mutant in mutants if not mutant.stale(tree) for test in mutant.tests})
        outcome, output = run_tests(tree, named) if named else (SURVIVED, "")
        if outcome != SURVIVED:
            print(f"the named tests do not pass without any change:\n{output}")
            return 1
        outcomes = []
        for mutant in mutants:
            started = time.perf_counter()
            outcome, reason = try_mutant(tree, mutant)
            report(outcome, mutant, time.perf_counter() - started, reason)
            outcomes.append(outcome)
    return conclude(outcomes)


def main() -> int:
    """The exit code; 2 where --only chooses nothing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="SUBSTRING", default="", help="of the name or the file of a mutant")
    parser.add_argument("--check-stale", action="store_true", help="name the entries that no longer fit, and run nothing")
    arguments = parser.parse_args()
    mutants = [m for m in read_lists(Path(__file__).parent) if arguments.only in f"{m.file}: {m.name}"]
    if not mutants:
        print(f"--only {arguments.only!r} is in the name or file of no mutant", file=sys.stderr)
        return 2
    return check_stale(mutants) if arguments.check_stale else run(mutants)


if __name__ == "__main__":
    sys.exit(main())
