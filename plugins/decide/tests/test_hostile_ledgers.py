"""Ledgers of strangers: lines of a gate, or refused in one line; nothing in them acts, and none is changed then."""

import json
import math
import os
import random
from pathlib import Path

import pytest
from fuzzing import changed
from watched import outside, watched

from harness.errors import InputError
from harness.plugins.decide.ledger import Ledger
from harness.reports.__main__ import main

LIMITS = ("gate", "--study", "new", "--max-drop", "2points")
SCORES = [0.80, 0.81, 0.79, 0.805]
ODD = [
    None,
    True,
    -1,
    0,
    2,
    2.5,
    10**400,
    1e308,
    math.nan,
    math.inf,
    "",
    "x",
    "\x1b[2J\x1b[32mpassed: 9 tests",
    "a\nb",
    "\u202e",
    "../x",
    [],
    {},
]
ODD += [[[]], {"name": 1, "runs": [1]}, [{"task": "x"}], "y" * 2_000_000, [None] * 50_000]
OWN = [Path("loop.jsonl")]
EACH = 8
"""Ledgers of a family."""


@pytest.fixture(scope="module")
def line() -> dict:
    """A line of a gate, as the test below gets it."""
    test = {
        "task": "sst2",
        "metric": "eval/score",
        "title": "accuracy",
        "unit": "score",
        "direction": "higher",
        "allowed": "2points",
    }
    test |= {"outcome": "passed", "reason": "", "before": 0.8, "difference": 0.1, "replicates": 4, "margin": 0.02, "gain": True}
    test |= {"pairs": "seeds", "interval": [0.09, 0.11], "confidence": 0.9, "noise_floor": None, "needed": None, "hours": None}
    candidate = {
        "time": "2026-11-01T00:00:00+00:00",
        "look": 1,
        "looks": None,
        "study": "new",
        "arm": "good",
        "verdict": "better",
    }
    return candidate | {
        "level": 0.015,
        "tests": [test],
        "baseline": {"name": "new/base", "runs": ["f"]},
        "key": "0",
        "runs": ["g"],
    }


def values(line: dict, draw: random.Random) -> str:
    for _ in range(draw.randint(1, 3)):
        line = changed(line, draw.random() * 0.94, draw.choice(ODD))
    return json.dumps(line) + "\n"


def of_tests(line: dict, draw: random.Random) -> str:
    key = draw.choice([*line["tests"][0]])
    test = {name: value for name, value in line["tests"][0].items() if name != key or draw.random() < 0.8}
    return json.dumps(line | {"tests": [test | {key: draw.choice(ODD)} if key in test else test]}) + "\n"


def keys(line: dict, draw: random.Random) -> str:
    gone = draw.choice([*line])
    return json.dumps({key: value for key, value in line.items() if key != gone} | {"version": draw.choice(ODD)}) + "\n"


def looks(line: dict, draw: random.Random) -> str:
    """As many as there can be, of one candidate or of none."""
    lines = [
        line | {"look": draw.choice([1, 2, None, 10**6, 10**7, -1, 1.0]), "looks": draw.choice([None, 1, 10**30])}
        for _ in range(1200)
    ]
    return "".join(json.dumps(one) + "\n" for one in lines[: draw.choice([1, 1200])])


def texts(line: dict, draw: random.Random) -> str:
    odd = draw.choice([one for one in ODD if isinstance(one, str)])
    key = draw.choice(["arm", "study", "verdict", "key", "time"])
    return (
        json.dumps(line | {key: odd, "runs": [odd], "baseline": {"name": odd, "runs": ["f"]}}, ensure_ascii=draw.random() < 0.5)
        + "\n"
    )


def same_runs(line: dict, draw: random.Random) -> str:
    """Those that the gate is about to judge."""
    runs = [f"good{seed}" for seed in range(4)]
    return "".join(
        json.dumps(line | {"runs": runs, "baseline": {"name": "b", "runs": ["base0"]}, "look": 1}) + "\n"
        for _ in range(draw.choice([1, 2000]))
    )


def damaged(line: dict, draw: random.Random) -> str:
    content = json.dumps(line)
    at = draw.randrange(len(content))
    return draw.choice(
        [
            content[:at],
            content[:at] + draw.choice(["\x00", "\n", "\r", "\xff", '"', "{" * 9000]) + content[at:],
            content * 2,
            "\n\n",
        ]
    )


def nested(line: dict, draw: random.Random) -> str:
    deep = draw.choice(["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "]" * 900])
    return draw.choice([deep, json.dumps(line)[:-1] + f', "more": {deep}}}\n'])


FAMILIES = {one.__name__: one for one in (values, of_tests, keys, looks, texts, same_runs, damaged, nested)}


@pytest.fixture
def study(tracking, typical):
    """A baseline and an arm that is better."""
    for arm, gain in {"base": 0.0, "good": 0.1}.items():
        for seed, score in enumerate(SCORES):
            measured = typical(score=score + gain) | {"eval/examples": 1e6}
            tracking.log(arm, seed, measured, study="new", fingerprint=f"{arm}{seed}")
    return tracking


def answer(words: list[str], capsys: pytest.CaptureFixture, *own: Path) -> int:
    """Exit code of a command, whose output is safe to print."""
    capsys.readouterr()
    with watched() as seen:
        code = main(words)
    out, err = capsys.readouterr()
    assert outside(seen, *own) == [], words
    assert code in (0, 1, 2), (code, out, err)
    assert (err.count("\n"), out) == (1, "") if code == 2 else err == "", (words, code, out, err)
    assert all(text.isprintable() for text in (out + err).split("\n")), (words, out, err)
    return code


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_ledgers_are_data(study, line, capsys, family):
    assert len(FAMILIES) * EACH >= 60
    ledger = Path("loop.jsonl")
    for number in range(EACH):
        content = FAMILIES[family](dict(line), random.Random(f"{family} {number}")).encode("utf-8", "replace")
        ledger.write_bytes(content)
        answer(["gate", "--ledger", "loop.jsonl"], capsys)
        answer([*LIMITS, "--ledger", "loop.jsonl", *(["--move-baseline"] if number % 2 else [])], capsys, *OWN)
        assert ledger.read_bytes().startswith(content)
        assert {path.name for path in Path().iterdir()} == {"loop.jsonl", "multirun"}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["FIFO", "device", "folder", "link", "dangling link", "large"])
def test_a_ledger_is_a_regular_file_of_a_limited_size(study, capsys, kind):
    ledger, other = Path("loop.jsonl"), Path("other")
    other.write_text("mine")
    match kind:
        case "FIFO":
            os.mkfifo(ledger)
        case "folder":
            ledger.mkdir()
        case "large":
            with ledger.open("wb") as file:
                file.truncate(1 << 40)
        case _:
            ledger.symlink_to({"device": "/dev/zero", "link": "other", "dangling link": "nowhere"}[kind])
    assert answer(["gate", "--ledger", "loop.jsonl"], capsys) == 2
    assert answer([*LIMITS, "--ledger", "loop.jsonl"], capsys, *OWN) == 2
    assert other.read_text() == "mine"
    assert {path.name for path in Path().iterdir()} == {"loop.jsonl", "other", "multirun"}


def test_lines_stay_byte_for_byte(line, tmp_path):
    path = tmp_path / "loop.jsonl"
    content = json.dumps(line | {"more": [1.50, "é"]}, indent=None, ensure_ascii=False, separators=(", ", " : "))
    path.write_text(content)
    with Ledger.locked(path, None) as ledger:
        ledger.add({key: value for key, value in line.items() if key not in ("time", "look", "looks")}, 2)
    assert path.read_text().splitlines()[0] == content
    assert [one["look"] for one in Ledger.read(path).lines] == [1, 2]


def test_a_line_without_the_limit_of_the_first_is_refused(line, tmp_path):
    path = tmp_path / "loop.jsonl"
    path.write_text("".join(json.dumps(line | {"looks": looks}) + "\n" for looks in (2, None)))
    with pytest.raises(InputError, match="line 2 is not a candidate: looks= of line 1 is another"):
        Ledger.read(path)
