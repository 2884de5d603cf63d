"""`python -m reports gate --ledger FILE`: a loop of generated candidates, what is remembered, and what is refused."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from small_disk import fill, mounted

from harness.comparison.compare import compare
from harness.grammar import parse
from harness.plugins.decide import gate as command
from harness.plugins.decide.gate import COSTS
from harness.plugins.decide.ledger import Ledger, overview
from harness.plugins.decide.options import Gate
from harness.reports.__main__ import main

SEEDS = 5
LIMITS = ("--study", "new", "--max-drop", "2points", "--max-cost", "1%")
LEDGER = ("--ledger", "loop.jsonl")


@pytest.fixture
def log(tracking, typical):
    """Logs an arm with these scores, one a seed, of so many items that these leave nothing open."""

    def logged(arm: str, scores: list[float], cost: float = 1e9, study: str = "new", first: int = 0) -> None:
        counted = dict.fromkeys(COSTS, cost) | {"eval/examples": 1e6}
        for seed, score in enumerate(scores, first):
            tracking.log(arm, seed, typical(score=score) | counted, study=study, fingerprint=f"{arm}{seed}")

    return logged


def gate(capsys, *more: str, limits: tuple[str, ...] = LIMITS) -> tuple[int, dict | str]:
    code = main(["gate", *limits, *more])
    out, err = capsys.readouterr()
    assert (err == "") == (code < 2)
    return code, json.loads(out) if "--json" in more and code < 2 else out + err


def lines() -> list[dict]:
    return [json.loads(line) for line in Path("loop.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_a_loop_of_50_candidates_keeps_the_three_that_are_better(make_run, tmp_path):
    """Scores of one seed scatter by half a point: 3 are better by 6, 11 worse by 10, 5 cost 2 % more, 2 have two seeds."""
    rng = np.random.default_rng(0)
    luck, gains = rng.normal(0.8, 0.02, SEEDS), np.zeros(50)
    gains[[0, 10, 20]], gains[[1, 3, 6, 11, 13, 16, 21, 23, 26, 31, 33]] = 0.06, -0.1
    arms = {"base": (luck, 1e9)}
    for at, gain in enumerate(gains):
        scores = luck + gain + rng.normal(0, 0.005, SEEDS)
        arms[f"c{at:02}"] = (scores[:2] if at in (4, 44) else scores, 1.02e9 if at % 10 == 5 else 1e9)
    runs = [
        make_run(arm, seed, {"eval/score": float(score), "eval/examples": 1e6} | dict.fromkeys(COSTS, cost))
        for arm, (scores, cost) in arms.items()
        for seed, score in enumerate(scores)
    ]
    comparison, path = compare("new", runs), tmp_path / "loop.jsonl"
    options = parse([*LIMITS, "--ledger", str(path), "--looks", "50"], Gate, "gate")
    limits, verdicts = command.limits_of(options), Counter()
    for arm in [*arms][1:]:
        pair = command.Pair(arm, arm, "base")
        with Ledger.locked(path, 50) as ledger:
            found = command._recorded(ledger, comparison, pair, command.tests(comparison, [pair], limits), options)
        verdicts[found["verdict"]] += 1
    ledger = Ledger.read(path)
    assert [line["arm"] for line in ledger.lines if line["verdict"] == "better"] == ["c00", "c10", "c20"]
    assert all(line["level"] == pytest.approx(0.0005) for line in ledger.lines)
    assert (ledger.spent, len(ledger.lines), verdicts["worse"]) == (50, 50, 16)
    assert {line["arm"] for line in ledger.frontier()} <= {"c00", "c10", "c20"}
    assert "candidates: 3 better, 16 worse, " in overview(path)
    assert "none remains" in overview(path)
    print(overview(path))


BASE = [0.80, 0.81, 0.79, 0.805]


@pytest.fixture
def two(log):
    """A baseline and an arm that is 10 points better, of half of the cost."""
    log("base", BASE)
    log("good", [score + 0.1 + 0.001 * at for at, score in enumerate(BASE)], 0.5e9)


def test_json_says_what_was_found_and_at_which_level(two, capsys):
    code, told = gate(capsys, "--json")
    (candidate,) = told["candidates"]
    score, *costs = candidate["tests"]
    assert (code, told["passed"], candidate["verdict"], candidate["level"]) == (0, True, "better", pytest.approx(0.05))
    assert (score["metric"], score["unit"], score["outcome"], score["gain"]) == ("eval/score", "score", "passed", True)
    assert (score["replicates"], score["pairs"], score["confidence"]) == (4, "seeds", pytest.approx(0.9))
    assert score["difference"] == pytest.approx(0.1015)
    assert score["interval"][0] < score["difference"] < score["interval"][1]
    assert (score["margin"], score["noise_floor"]) == (0.02, pytest.approx(1e-6))
    assert [(cost["metric"], cost["outcome"], cost["difference"], cost["margin"]) for cost in costs] == [
        (name, "passed", -0.5e9, 1e7) for name in COSTS
    ]


@pytest.mark.long
def test_what_is_not_shown_says_how_many_seeds_and_hours_would_settle_it(log, tracking, typical, capsys):
    for arm, scores in {"base": [0.8, 0.8, 0.8], "new": [0.81, 0.78, 0.8]}.items():
        for seed, score in enumerate(scores):
            known = {"eval/examples": 1e6, "finetune/duration_s": 1800.0}
            tracking.log(arm, seed, typical(score=score) | known, study="new")
    limits = ("--study", "new", "--max-drop", "2points")
    code, told = gate(capsys, "--json", limits=limits)
    (test,) = told["candidates"][0]["tests"]
    assert (code, told["candidates"][0]["verdict"], test["outcome"]) == (1, "inconclusive", "not shown")
    assert (test["needed"], test["hours"]) == (6, pytest.approx(3.0))
    _, told = gate(capsys, *LEDGER, "--looks", "100", "--json", limits=limits)
    (stricter,) = told["candidates"][0]["tests"]
    assert stricter["needed"] > 6
    assert stricter["interval"][0] < test["interval"][0]
    Path(LEDGER[1]).write_text(Path(LEDGER[1]).read_text().replace('"inconclusive"', '"not resolved"'))
    assert "candidates: 1 inconclusive; " in gate(capsys, *LEDGER, limits=())[1]


def test_a_cost_that_is_one_percent_higher_is_seen_in_one_run(log, capsys):
    log("base", [0.8])
    for arm, cost in {"dear": 1.011e9, "equal": 1.009e9, "cheap": 0.98e9}.items():
        log(arm, [0.8], cost)
    limits = ("--study", "new", "--max-cost", "1%")
    code, told = gate(capsys, "--json", limits=limits)
    assert code == 1
    assert {one["arm"]: one["verdict"] for one in told["candidates"]} == {"dear": "worse", "equal": "same", "cheap": "better"}
    _, told = gate(capsys, *LEDGER, "--json", limits=limits)
    assert [one["look"] for one in told["candidates"]] == [None] * 3
    code, text = gate(capsys, "--arm", "dear", limits=limits)
    assert (code, "exact count, worse by more than 1 %: dear in forward FLOPs on sst2" in text) == (1, True)


@pytest.mark.long
def test_one_task_under_two_conditions_is_two_tasks_of_the_frontier(tracking, typical, capsys):
    """`low` is better under the second of them alone, `high` by as much under both."""
    for arm, gains in {"base": (0.0, 0.0), "low": (0.0, 0.05), "high": (0.05, 0.05)}.items():
        for condition, gain in enumerate(gains):
            for seed, score in enumerate(BASE):
                values = typical(score=score + gain + 0.0001 * (seed % 2)) | {"eval/examples": 1e6}
                more = {"params": {"finetune.max_steps": str(condition)}, "fingerprint": f"{arm}{seed}{condition}"}
                tracking.log(arm, seed, values, study="new", **more)
    code, told = gate(capsys, *LEDGER, "--json", limits=LIMITS[:4])
    assert code == 0
    assert all(len({test["task"] for test in one["tests"]}) == 2 for one in told["candidates"])
    assert gate(capsys, *LEDGER, limits=())[1].endswith("Pareto-optimal by measured means: new/high\n")


def test_the_baseline_moves_when_the_user_says_so(two, log, capsys):
    limits = LIMITS[:4]
    assert gate(capsys, *LEDGER, limits=limits)[0] == 0
    code, text = gate(capsys, *LEDGER, "--baseline", "good", "--arm", "base", limits=limits)
    assert (code, "baseline 'new/good' shares no run with the ledger's baseline 'new/base'" in text) == (2, True)
    assert len(lines()) == 1
    code, text = gate(capsys, *LEDGER, "--baseline", "good", "--arm", "base", "--move-baseline", limits=limits)
    assert (code, "candidate 2, level 0.0038" in text) == (1, True)
    assert lines()[-1]["baseline"]["name"] == "new/good"
    assert gate(capsys, *LEDGER, limits=())[1].endswith("Pareto-optimal by measured means: only the baseline\n")


@pytest.mark.long
def test_a_run_that_another_study_repeats_is_the_same_candidate(log, capsys):
    for study in ("new", "again"):
        for arm in ("base", "arm"):
            log(arm, BASE, study=study)
    gate(capsys, *LEDGER, "--json")
    _, told = gate(capsys, *LEDGER, "--json", limits=("--study", "again", *LIMITS[2:]))
    assert [(one["seen"], one["study"]) for one in told["candidates"]] == [(True, "new")]
    for arm in ("base", "arm"):
        log(arm, [0.8], study="again", first=9)
    _, told = gate(capsys, *LEDGER, "--json", limits=("--study", "again", *LIMITS[2:]))
    assert [(one["seen"], one["look"]) for one in told["candidates"]] == [(False, 1)]
    assert lines()[1]["level"] == pytest.approx(lines()[0]["level"] / 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "content", "message"),
    [
        (["--looks", "3"], None, "looks= and --move-baseline need ledger=FILE"),
        ([*LEDGER, "--looks", "0"], None, "looks='0' must be a whole number of at least 1"),
        (["--ledger", "no/loop.jsonl"], None, "cannot be written (No such file or directory); expected a file"),
        (
            [*LEDGER],
            '{"look": 1}\n',
            "line 1 is not a candidate at looks (Field required); expected lines written by gate",
        ),
        ([*LEDGER], '{"look": 1', "line 1 is not a candidate"),
        ([*LEDGER], "\xff", "line 1 is not a candidate"),
        ([*LEDGER, "--looks", "3"], "of 2", "looks=3: 'loop.jsonl' was started with 2; expected a new ledger"),
        ([*LEDGER, "--arm", "good"], "of 2", "'loop.jsonl' has used all of looks=2 candidates: expected fewer arms (--arm) or"),
        ([*LEDGER], "bad look", "line 1 is not a candidate"),
        ([*LEDGER], "bad baseline", "line 1 is not a candidate"),
    ],
)
def test_wrong_input_is_one_line_and_changes_no_ledger(two, capsys, arguments, content, message):
    if content == "of 2":
        gate(capsys, *LEDGER, "--looks", "2")
        line = lines()[0] | {"key": "", "look": 2, "runs": []}
        content = f"{json.dumps(line)}\n{json.dumps(line)}\n"
    if content and content.startswith("bad"):
        gate(capsys, *LEDGER)
        content = json.dumps(lines()[0] | ({"look": "1"} if content == "bad look" else {"baseline": {}})) + "\n"
    if content:
        Path("loop.jsonl").write_text(content, encoding="latin-1")
    code, text = gate(capsys, *arguments)
    assert (code, text.count("\n")) == (2, 1)
    assert message in text
    assert not content or Path("loop.jsonl").read_text(encoding="latin-1") == content


@pytest.mark.long
def test_arms_that_are_more_than_the_looks_left_spend_none(two, log, capsys):
    log("other", [score + 0.2 for score in BASE], 0.5e9)
    code, text = gate(capsys, *LEDGER, "--looks", "1")
    assert (code, "has used all of looks=1 candidates: expected fewer arms (--arm)" in text) == (2, True)
    assert Path("loop.jsonl").read_bytes() == b""
    assert gate(capsys, *LEDGER, "--looks", "1", "--arm", "other")[0] == 0


@pytest.mark.long
@pytest.mark.parametrize("more", [("--max-drop", "1%"), ("--against", "old"), ("--json",), ("--looks", "3")])
def test_a_ledger_is_shown_alone(two, capsys, more):
    """A gate whose --study was forgotten showed it and passed."""
    gate(capsys, *LEDGER)
    code, text = gate(capsys, *LEDGER, *more, limits=())
    assert (code, "expected study=NEW or a file of results; ledger=FILE alone prints the ledger" in text) == (2, True)


@pytest.mark.long
def test_a_full_disk_leaves_the_ledger_whole_and_nothing_beside_it(two, log, capsys, tmp_path):
    with mounted(tmp_path / "disk", 1 << 16) as disk:
        ledger = ("--ledger", str(disk / "loop.jsonl"))
        assert gate(capsys, *ledger)[0] == 0
        before = (disk / "loop.jsonl").read_bytes().rstrip().ljust((1 << 13) - 1) + b"\n"  # whole pages
        (disk / "loop.jsonl").write_bytes(before)
        log("other", [score + 0.2 for score in BASE], 0.5e9)
        filler = fill(disk, 0)
        assert main(["gate", *LIMITS, *ledger]) == 1
        err = capsys.readouterr().err
        assert err.endswith("No space left on device: free some, and the same command continues\n")
        assert err.count("\n") == 1
        assert (disk / "loop.jsonl").read_bytes() == before
        assert {path.name for path in disk.iterdir()} == {"loop.jsonl", filler.name}
        filler.unlink()
        assert gate(capsys, *ledger)[0] == 0
        assert [json.loads(line)["arm"] for line in (disk / "loop.jsonl").read_text().splitlines()] == ["good", "other"]


@pytest.mark.long
def test_a_ledger_that_cannot_be_changed_is_one_line_and_can_be_shown(two, log, capsys, tmp_path):
    with mounted(tmp_path / "disk", 1 << 20) as disk:
        ledger = ("--ledger", str(disk / "loop.jsonl"))
        assert gate(capsys, *ledger)[0] == 0
        log("other", [score + 0.2 for score in BASE], 0.5e9)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, text = gate(capsys, *ledger)
        assert (code, text.count("\n")) == (2, 1)
        assert "loop.jsonl' cannot be written (Read-only file system); expected a file" in text
        assert "candidates: 1 better" in gate(capsys, *ledger, limits=())[1]


ADDING = """
from pathlib import Path
from sys import argv
from harness.plugins.decide.ledger import Ledger

line = {"arm": argv[1], "study": "s", "verdict": "worse", "level": 0.01, "tests": [], "baseline": {"name": "b", "runs": []}}
for number in range(60):
    with Ledger.locked(Path("loop.jsonl"), None) as ledger:
        look, _ = ledger.place([f"{argv[1]}{number}"])
        ledger.add(line | {"key": f"{argv[1]}{number}", "runs": [f"{argv[1]}{number}"]}, look)
"""


@pytest.mark.long
def test_two_processes_at_once_lose_no_candidate_and_give_each_a_look_of_its_own(start_process, tmp_path):
    for process in [start_process("-c", ADDING, name) for name in ("a", "b")]:
        assert process.wait() == 0, process.stderr.read()
    ledger = Ledger.read(tmp_path / "loop.jsonl")
    assert sorted(line["key"] for line in ledger.lines) == sorted(f"{name}{number}" for name in "ab" for number in range(60))
    assert [line["look"] for line in ledger.lines] == [*range(1, 121)]


@pytest.mark.long
def test_two_gates_at_once_on_one_ledger_keep_both_candidates(two, log, start_process):
    log("other", [score + 0.2 for score in BASE], 0.5e9)
    commands = [["gate", *LIMITS, *LEDGER, "--arm", arm] for arm in ("good", "other")]
    for process in [start_process("-m", "reports", *arguments) for arguments in commands]:
        assert process.wait() == 0, process.stderr.read()
    assert sorted((line["arm"], line["look"]) for line in lines()) in (
        [("good", 1), ("other", 2)],
        [("good", 2), ("other", 1)],
    )
