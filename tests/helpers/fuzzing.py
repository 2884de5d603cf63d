"""What fuzz tests draw, and how often they try: a few fixed examples in the suite, all of them where they are marked slow."""

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

LONG = "x" * 300
"""No file system has a name of so many bytes."""

SPELLINGS = [*json.loads(Path(__file__).with_name("spellings.json").read_text("utf-8")), LONG, f"/tmp/{LONG}/x", "9" * 400]
"""Numbers, words of YAML, of Hydra and of shells, and texts that no terminal or file system takes."""
numbers = st.one_of(st.integers(), st.floats(), st.integers(1, 9), st.floats(0, 1)).map(str)
simple = st.one_of(st.sampled_from(SPELLINGS), numbers, st.text(max_size=6))
several = st.lists(simple, min_size=2, max_size=3)
values = st.one_of(
    simple,
    several.map(",".join),
    several.map(lambda words: f"[{','.join(words)}]"),
    several.map(lambda words: f"{{{words[0]}:{words[1]}}}"),
    simple.map(lambda word: f"'{word}'"),
)

places = st.floats(0, 1)
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.integers(-2, 70))
trees = st.recursive(
    plain, lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.text(max_size=5), below, max_size=3))
)
changes = st.lists(st.tuples(places, trees), min_size=1, max_size=2)

ALL = 2000
"""Examples of a slow test; FUZZ_EXAMPLES changes it."""


def tried(check: Callable, examples: int, *strategies: SearchStrategy, shrinks: bool = True) -> None:
    """Calls `check` with drawn values, the same in every run; a failure is made as small as possible."""
    phases = [Phase.generate, *([Phase.shrink] if shrinks else [])]
    same = {"derandomize": True, "database": None, "deadline": None, "print_blob": False, "phases": phases}
    quiet = settings(max_examples=examples, suppress_health_check=list(HealthCheck), **same)
    quiet(given(*strategies)(check))()


def changed(value: object, place: float, new: object) -> object:
    """The nested value with one of its parts replaced, chosen by `place`."""
    if isinstance(value, dict | list) and value and place < 0.95:
        names = list(value) if isinstance(value, dict) else list(range(len(value)))
        at = int(place / 0.95 * len(names))
        inner = place / 0.95 * len(names) - at
        entries = value if isinstance(value, dict) else dict(enumerate(value))
        entries = {**entries, names[at]: changed(entries[names[at]], inner, new)}
        return entries if isinstance(value, dict) else list(entries.values())
    return new
