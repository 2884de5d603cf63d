"""`python -m harness plan`: what is done, what is left, and what it takes."""

import re
from types import SimpleNamespace

import pytest

from harness.__main__ import main
from harness.config import resolve
from harness.plugins.costs import plan
from harness.plugins.costs.expected import Group, Timing, Work
from harness.plugins.costs.options import Plan
from harness.study import forecast
from harness.study.forecast import Pace

SMALL = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=20"]
SMALL += ["finetune.max_steps=2", "hardware.threads=1"]


@pytest.mark.long
def test_done_and_open_runs_are_told_apart_and_nothing_runs(run_harness, output):
    done = run_harness(*SMALL, "measure=none", f"output={output}", "report=false")
    assert done.returncode == 0
    assert re.search(r"^Results: .*/base-tiny-bag-0-\w+\. Report: python -m reports study=default output=", done.stdout, re.M)
    before = sorted(output.glob("default/*/*"))
    shown = run_harness("plan", "-m", *SMALL, "measure=none", "model=shared,base,albert", "seed=0,1", f"output={output}")
    assert shown.returncode == 0, shown.stderr
    assert [line.split(",")[0] for line in shown.stdout.splitlines() if ", tiny, " in line] == ["shared", "base", "albert"]
    lines = {line.split("  ")[0]: line for line in shown.stdout.splitlines()}
    assert "1 of 2" in lines["base, tiny, bag"]
    assert "2 of 2" in lines["albert, tiny, bag"]
    assert lines["albert, tiny, bag"].split()[-2:] == ["-", "-"]  # neither probed nor known
    assert "6 runs: 1 done, 5 to do" in shown.stdout
    assert "\nBaseline: base\n" in shown.stdout
    assert "(without 4 of unknown duration)" in shown.stdout
    assert sorted(output.glob("default/*/*")) == before != []


def test_the_command_for_a_comparison_ends_with_the_smallest_difference(output, capsys):
    assert main(["plan", "-m", "model=base,albert", "task=order", "seed=0,1,2", f"output={output}"]) == 0
    printed = capsys.readouterr().out
    assert "Smallest difference detected with 80 % power; " in printed
    assert re.search(r"^order +\d+\.\d points$", printed.splitlines()[-1])


@pytest.mark.parametrize(("size", "text"), [(0.03, "3.0 points"), (0.052, "5.2 points"), (0.23, "23.0 points")])
def test_sizes_in_points_have_one_digit_after_the_point(size, text):
    assert plan._size(size, "score") == text


def test_wrong_input_is_one_line(capsys):
    assert main(["plan", "model=bse"]) == 2
    assert main(["plan", "--probes", "model=base"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("harness plan: ") for line in lines)


class Run:
    """What the summary reads of a planned run."""

    config = SimpleNamespace(search=SimpleNamespace(space=[]))

    def __init__(self, title: str) -> None:
        self.title = title


def group(title: str, runs: int, done: int, pace: Pace | None, monkeypatch: pytest.MonkeyPatch) -> Group:
    made = Group([Run(f"{title}, seed {seed}") for seed in range(runs)], Work(1_000_000, 10, 2e9), pace)
    monkeypatch.setattr(Group, "open", property(lambda self: self.runs[OPEN[self.runs[0].title] :]))
    OPEN[made.runs[0].title] = done
    return made


OPEN: dict[str, int] = {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Plan(), []),
        (Plan(price=36.0), ["Extrapolated: about 3 min 40 s of one device, 2.20 at 36 an hour (by the times above)"]),
        (
            Plan(flops_per_second=1e6, price=36.0),
            ["Extrapolated: about 2 h 46 min of one device, 100.00 at 36 an hour (training alone, at 1 MFLOP/s"],
        ),
        (
            Plan(flops_per_second=1e6),
            ["Extrapolated: about 2 h 46 min of one device (training alone, at 1 MFLOP/s: FLOPs are counted, the rate"],
        ),
    ],
)
def test_what_is_to_do_is_extrapolated_to_another_device(options, expected, monkeypatch):
    """Five runs of 2 GFLOP; two of them take 100 s here, three 10 s."""
    groups = [
        group("base, mini, bag", 3, 1, Pace(95.0, 2e6, "2 earlier runs"), monkeypatch),
        group("albert, mini, bag", 3, 0, Pace(10.0, None, "a probe of 6 steps"), monkeypatch),
    ]
    printed = " ".join(plan.extrapolated(groups, options)).replace("\n", " ")
    assert printed.startswith("".join(expected))
    assert bool(printed) == bool(expected)


def test_what_is_not_known_is_not_extrapolated(monkeypatch):
    groups = [group("base, mini, bag", 2, 0, None, monkeypatch)]
    (line,) = plan.extrapolated(groups, Plan(price=1.0))
    assert line.startswith("Extrapolated: -")


def test_a_rate_and_a_price_are_positive_numbers(capsys):
    for key in ("flops_per_second", "price"):
        for value in ("0", "-1", "inf", "nan", "much"):
            assert main(["plan", f"{key}={value}"]) == 2
            assert f"{key}='{value}' must be " in capsys.readouterr().err


def test_times_add_up(monkeypatch):
    groups = [
        group("base, mini, bag", 3, 1, Pace(100.0, 2e6, "2 earlier runs"), monkeypatch),
        group("albert, mini, bag", 3, 0, Pace(10.0, None, "a probe of 6 steps"), monkeypatch),
    ]
    assert plan.summary(groups, Timing(2, 1, (4, 5), 2.0)) == [
        "6 runs: 1 done, 5 to do",
        "Training and evaluation: about 3 min 50 s, one after the other",
        "Timing: 2 models and 1 A/A replicate, 4 to 5 rounds: about 24 s to 30 s (measure=none skips it)",
        "In all about 4 min 14 s to 4 min 20 s",
    ]
    table = plan.rows(groups).splitlines()
    assert table[2].split("  ")[0] == "base, mini, bag"
    assert [cell.strip() for cell in table[3].split("  ") if cell.strip()] == [
        *("albert, mini, bag", "3 of 3", "1 M", "2 GFLOP", "-", "about 10 s", "a probe of 6 steps")
    ]


def test_the_trials_of_a_search_are_counted_with_their_epochs_and_without_the_rows_that_score_them(compose, monkeypatch):
    (run,) = compose("task=bag", "search=grid", "search.space=['finetune.epochs=choice(1,3)']", "finetune.epochs=2", "seed=0")
    made = group("base, tiny, bag", 1, 0, Pace(100.0, None, "a probe"), monkeypatch)
    made.runs[0].config = run
    text = group("base, tiny, mlm", 1, 0, Pace(1000.0, None, "a probe"), monkeypatch)
    text.runs[0].config = resolve.pretraining_of(run)  # which the trials share
    lines = plan.summary([text, made], Timing(1, 0, (1, 1), 20.0))
    assert "Search trials, before these runs: 3.6 GFLOP of training, about 3 min" in lines
    assert lines[-1] == "In all about 21 min 40 s to 21 min 40 s"
    (line,) = plan.extrapolated([text, made], Plan(price=36.0))
    assert line.startswith("Extrapolated: about 21 min 20 s of one device, 12.80 at 36 an hour")


@pytest.mark.long
def test_resized_shapes_are_shown_beside_those_as_published(run_harness, output):
    sweep = ["-m", *SMALL, "measure=none", "model=base,albert", "seed=0", "match=none,params", f"output={output}"]
    shown = run_harness("plan", *sweep)
    assert shown.returncode == 0, shown.stderr
    rows = [line.split("  ")[0] for line in shown.stdout.splitlines()]
    assert {"base, tiny, bag, seed 0", "albert, tiny, bag, seed 0", "albert (params as base), tiny, bag, seed 0"} < {*rows}
    assert " ".join(shown.stdout.split()).count("albert (params as base): hidden_size=") == 1
    assert "3 runs: 0 done, 3 to do" in shown.stdout
    refused = run_harness("plan", *sweep, "match.by=num_hidden_layers")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "the nearest is model.num_hidden_layers=" in refused.stderr


@pytest.mark.long
def test_plan_says_what_is_no_study_and_the_smallest_difference(run_harness, output):
    plain = ["-m", *SMALL, "measure=none", "model=base,albert", f"output={output}", "report=false"]
    shown = run_harness("plan", *plain, "sweep.until=resolved", "sweep.most_seeds=5")
    assert shown.returncode == 0, shown.stderr
    assert "smallest difference 3 seeds 5 seeds -" in " ".join(shown.stdout.split())
    announced = "Adding seeds until every arm has a verdict (sweep.until): interim analyses after 3, 5 seeds"
    assert announced in shown.stdout.replace("\n", " ")
    assert "Estimated from sampling error alone, at a score of 0.8" in " ".join(shown.stdout.split())
    assert "verdicts need" not in shown.stdout
    two = run_harness("plan", *plain, "seed=0,1")
    assert "only 2 seeds; verdicts need 3" in two.stdout
    assert "Adding seeds" not in two.stdout
    assert run_harness(*plain, "seed=0,1,2", "tracking=none").returncode == 0
    known = run_harness("plan", *plain, "seed=3,4,5,6")
    assert "4 seeds" in known.stdout
    assert "Estimated from the spread of 3 earlier seeds" in " ".join(known.stdout.split())
    assert len(list(forecast.finished([str(output)]))) == 6


@pytest.mark.long
def test_timing_that_is_left_to_later_is_left_out(run_harness, output):
    given = ["plan", *SMALL, f"output={output}"]
    assert "Timing:" not in run_harness(*given, "sweep.timing=false").stdout
    assert "Timing:" in run_harness(*given).stdout


def test_timing_of_unknown_time_says_how_to_know_it():
    assert "A/A replicate, 4 to 9 rounds; time unknown, --probe times a launch" in "\n".join(
        plan.summary([], Timing(2, 1, (4, 9), None))
    )
