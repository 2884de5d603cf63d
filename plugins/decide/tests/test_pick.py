"""`python -m reports pick`: arms that fit, do not fit, or are not known well enough."""

import pytest

from harness.reports.__main__ import main


def pick(capsys, *arguments: str) -> tuple[int, str]:
    code = main(["pick", *arguments])
    out, err = capsys.readouterr()
    assert err == "" if code < 2 else (out, err.count("\n")) == ("", 1)
    return code, out + err


def groups(text: str) -> dict[str, list[str]]:
    """First word of a heading -> arms below it, in order."""
    found: dict[str, list[str]] = {}
    for part in text.split("\n\n"):
        if part.startswith(("Fits", "Unsure", "Does not fit")):
            arms = found.setdefault(part.split(":")[0], [])
        elif part.startswith("arm"):
            arms += [line.split()[0] for line in part.splitlines()[2:]]
    return found


@pytest.fixture
def log(tracking, typical):
    """Logs an arm with scores around a mean, one a seed."""

    def logged(arm: str, score: float, shrink: float = 1.0, spread: float = 0.002, seeds: int = 3, **more: object) -> None:
        for seed in range(seeds):
            off = spread * (seed - (seeds - 1) / 2)
            tracking.log(arm, seed, typical(shrink, score + off), **more)

    return logged


@pytest.mark.long
def test_arms_are_sorted_into_three_kinds_by_score(log, capsys):
    log("big", 0.9)
    log("small", 0.82, 2.0)
    log("smaller", 0.85, 4.0)
    log("noisy", 0.81, 2.0, 0.05)
    log("weak", 0.7, 2.0)
    code, text = pick(capsys, "--max-params", "1e6", "--at-least", "eval/score=0.8")
    assert code == 0
    assert groups(text) == {"Fits": ["smaller", "small"], "Unsure": ["noisy"], "Does not fit": ["big", "weak"]}
    assert "- big: parameters: 43.4 % above the limit (sst2)" in text
    assert "- weak: score: 10.0 points below the limit (sst2)" in text
    assert "- noisy: score: CI crosses the limit (sst2)" in text


def test_one_value_that_is_trained_or_timed_is_unsure_and_a_count_is_exact(log, capsys):
    log("base", 0.9, seeds=1)
    code, text = pick(capsys, "--at-least", "eval/score=0.5")
    assert (code, groups(text)) == (1, {"Unsure": ["base"]})
    assert "No arm fits." in text
    assert "single value, no interval" in text
    assert groups(pick(capsys, "--max-params", "2e6")[1]) == {"Fits": ["base"]}
    assert "- base: parameters: 14,337 times the limit (sst2)" in pick(capsys, "--max-params", "100")[1]


@pytest.mark.long
def test_a_limit_of_nothing_is_missed_by_the_value_itself(log, capsys):
    log("base", 0.9)
    code, text = pick(capsys, "--max-params", "0", "--at-most", "finetune/duration_s=0")
    assert (code, groups(text)) == (1, {"Does not fit": ["base"]})
    assert "parameters: 1.43 M above the limit (sst2)" in text


@pytest.mark.long
def test_the_worst_task_counts_and_missing_ones_are_said(log, capsys):
    log("base", 0.9)
    log("base", 0.6, task="rte")
    log("other", 0.95)
    _, text = pick(capsys, "--at-least", "eval/score=0.8")
    assert groups(text) == {"Fits": ["other"], "Does not fit": ["base"]}
    assert "0.950 (1 of 2 tasks)" in text
    assert "score: 20.0 points below the limit (rte)" in text
    assert groups(pick(capsys, "--at-least", "eval/score=0.8", "--where", "task = 'sst2'")[1]) == {"Fits": ["other", "base"]}


def test_what_was_not_measured_is_unsure(log, tracking, capsys):
    tracking.log("base", values={"eval/score": 0.8})
    code, text = pick(capsys, "--max-latency-ms", "10")
    assert (code, groups(text)) == (1, {"Unsure": ["base"]})
    assert "latency, wall clock: not measured (sst2)" in text


@pytest.mark.long
def test_latency_is_judged_by_its_launches(tracking, capsys):
    tracking.log_timed("fast", [9.0, 9.1, 9.05, 9.02])
    tracking.log_timed("fast", [9.1, 9.0, 9.02, 9.05], replicate="true")
    tracking.log_timed("edge", [9.9, 10.1, 10.2, 9.8])
    tracking.log_timed("slow", [11.0, 11.1, 11.05, 11.02])
    text = pick(capsys, "--max-latency-ms", "10")[1]
    assert groups(text) == {"Fits": ["fast"], "Unsure": ["edge"], "Does not fit": ["slow"]}
    assert "9.04 [8.91, 9.18] ms" in text


@pytest.mark.long
def test_scores_of_one_study_meet_times_of_another_under_other_conditions(tracking, typical, capsys):
    scores = {name: value for name, value in typical(1.0, 0.9).items() if name.startswith("eval/")}
    for arm in ("fast", "slow", "untimed"):
        for seed in range(3):
            tracking.log(
                arm, seed, scores | {"eval/score": 0.9 + seed / 1000}, study="scores", params={"hardware.dtype": "bf16"}
            )
    for arm, times in (("fast", [9.0, 9.1, 9.05, 9.02]), ("slow", [11.0, 11.1, 11.05, 11.02])):
        for replicate in ("false", "true"):
            more = {"replicate": replicate} if replicate == "true" else {}
            tracking.log_timed(arm, times, study="times", params={"hardware.dtype": "fp32"}, **more)
    both = ("--study", "scores", "--study", "times")
    code, text = pick(capsys, *both, "--max-latency-ms", "10", "--at-least", "eval/score=0.8")
    assert (code, groups(text)) == (0, {"Fits": ["fast"], "Unsure": ["untimed"], "Does not fit": ["slow"]})
    assert "0.901" in text


def test_a_time_fits_for_certain_only_beside_a_noise_floor_that_supports_it(tracking, capsys):
    tracking.log_timed("fast", [9.0, 9.1, 9.05, 9.02])
    code, text = pick(capsys, "--max-latency-ms", "10")
    assert (code, groups(text)) == (1, {"Unsure": ["fast"]})
    assert "unknown noise floor" in text
    tracking.log_timed("fast", [30.0, 9.0, 40.0, 8.0], replicate="true")
    code, text = pick(capsys, "--max-latency-ms", "10000")
    assert (code, groups(text)) == (1, {"Unsure": ["fast"]})
    assert "supports no verdict on times" in text
    assert "noise floor" in text


@pytest.mark.long
def test_two_seeds_and_a_constant_answer_fit_no_limit_for_certain(log, capsys):
    log("two", 0.9, seeds=2)
    log("constant", 0.512, seeds=3)
    code, text = pick(capsys, "--at-least", "eval/score=0.4")
    assert (code, groups(text)) == (1, {"Unsure": ["two", "constant"]})
    assert "2 replicates carry no verdict; expected 3 or more" in text
    assert "not shown to beat the majority baseline" in text
    assert groups(pick(capsys, "--at-least", "eval/score=0.8")[1])["Does not fit"] == ["constant"]


@pytest.mark.long
def test_the_headline_score_by_its_own_name_fits_no_more_than_as_the_score(tracking, typical, capsys):
    for seed in range(3):
        score = 0.51 + 0.001 * seed
        tracking.log("constant", seed, typical(score=score) | {"eval/accuracy": score})
    for name in ("eval/score", "eval/accuracy"):
        code, text = pick(capsys, "--at-least", f"{name}=0.4")
        assert (code, groups(text)) == (1, {"Unsure": ["constant"]})
        assert "not shown to beat the majority baseline" in text


def test_a_limit_on_the_wall_clock_stays_one_beside_that_of_the_device(tracking, typical, capsys):
    device = typical() | {"inference/latency_device_ms": 5.0}
    tracking.log_timed("base", [9.0, 9.1, 9.05, 9.02], values=device)
    text = pick(capsys, "--max-latency-ms", "10", "--at-most", "inference/latency_ms_p50=8")[1]
    head = next(line for line in text.splitlines() if line.startswith("arm"))
    assert (head.count("latency"), head.count("device time")) == (2, 1)


@pytest.mark.long
def test_an_arm_that_diverged_with_a_seed_fits_no_score_for_certain(log, tracking, capsys):
    log("shaky", 0.9)
    limits = ("--at-least", "eval/score=0.8", "--max-params", "5e6")
    assert groups(pick(capsys, *limits)[1]) == {"Fits": ["shaky"]}
    tracking.log("shaky", 3, {}, status="diverged")
    code, text = pick(capsys, *limits)
    assert (code, groups(text)) == (1, {"Unsure": ["shaky"]})
    assert "- shaky: score: diverged with seed 3 (sst2)" in text
    assert groups(pick(capsys, "--max-params", "5e6")[1]) == {"Fits": ["shaky"]}


@pytest.mark.long
def test_memory_is_in_mb_and_studies_are_joined(log, capsys):
    log("base", 0.9, study="A")
    log("small", 0.9, 2.0, study="B")
    text = pick(
        capsys, "--study", "A", "--study", "B", "--max-memory-mb", "30", "--at-most", "inference/peak_memory_bytes=30e6"
    )[1]
    assert groups(text) == {"Fits": ["small"], "Does not fit": ["base"]}
    assert text.startswith("A + B:")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pick needs a limit: expected at least one of max_latency_ms="),
        (["--max-params", "many"], "max_params='many' must be a finite number at least 0"),
        (["--at-most", "model/params_total=nan"], "'nan' must be a number in base units, such as 0.8 or 20e6"),
        (["--at-least", "eval/score=50"], "at_least='eval/score=50': eval/score must be between -1 and 1"),
        (["--at-least", "eval/score"], "at_least='eval/score': expected METRIC=NUMBER"),
        (["--at-least", "eval/scor=1"], "unknown metric 'eval/scor'; did you mean 'eval/score'? choices for `at_least`: "),
        (
            ["--at-least", "eval/scor=0.8"],
            "eval/score, eval/score_high, eval/score_low, eval/spearman, eval/unigram_score and 90 more\n",
        ),
        (["--at-most", "sst2=1"], "unknown metric 'sst2'; choices for `at_most`: eval/score, inference/latency_ms_p50, "),
        (["--max-params", "1", "--study", "empty"], "study 'empty' has no finished run (1 failed)"),
    ],
)
def test_wrong_input_is_one_line(log, capsys, arguments, message):
    log("base", 0.9, seeds=1)
    log("base", 0.9, seeds=1, study="empty", status="failed")
    code, text = pick(capsys, "--study", "before_after", *arguments) if "--study" not in arguments else pick(capsys, *arguments)
    assert code == 2
    assert message in text
