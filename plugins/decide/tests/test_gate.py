"""`python -m reports gate`: exit codes, both ways to name the sides, and what is printed."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import reports
from harness.comparison.compare import compare
from harness.comparison.paired import of_differences
from harness.comparison.verdicts import Evidence, Verdict
from harness.metrics import Direction
from harness.plugins.decide import gate as gates
from harness.reports.__main__ import main
from harness.reports.read import read
from harness.reports.reading.predictions import errors_in
from harness.terminal import WIDTH

BEFORE = [0.80, 0.81, 0.79, 0.805]


@pytest.fixture
def log(tracking, typical):
    """Logs one run a score, of so many items that these leave nothing open."""

    def logged(arm: str, scores: list[float], study: str = "new", items: float = 1e6, **more: object) -> None:
        for seed, score in enumerate(scores):
            tracking.log(arm, seed, typical(score=score) | {"eval/examples": items}, study=study, **more)

    return logged


def gate(capsys, *arguments: str) -> tuple[int, str]:
    code = main(["gate", *arguments])
    out, err = capsys.readouterr()
    assert err == "" if code < 2 else (out, err.count("\n")) == ("", 1)
    return code, out + err


@pytest.mark.long
def test_equal_arm_passes_and_a_worse_one_fails(log, capsys):
    log("base", BEFORE, "old")
    log("base", [score + 0.001 * (-1) ** at for at, score in enumerate(BEFORE)])
    assert gate(capsys, "--study", "new", "--against", "old", "--max-drop", "0.5%")[0] == 0
    log("base", [score - 0.05 - 0.001 * at for at, score in enumerate(BEFORE)])
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "0.5points")
    assert code == 1
    assert "inferior" in text
    assert "worse by more than 0.5 points: base in accuracy on sst2" in " ".join(text.split())
    assert text.endswith("failed: 1 inferior of 1 test\n")
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.long
def test_items_that_leave_the_limit_open_pass_nobody(log, capsys):
    log("base", BEFORE, "old", items=872.0)
    log("base", BEFORE, items=872.0)
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "0.5points")
    assert code == 1
    assert "an equal arm needs over 1,000 seeds" in " ".join(text.split())


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (BEFORE[:2], BEFORE[:2], "only 2 pairs; verdicts need 3"),
        ([0.51, 0.512, 0.508], [0.50, 0.511, 0.509], "neither arm is shown to beat the majority baseline"),
        ([0.999, 0.998, 1.0], [1.0, 0.999, 0.998], "both arms are at ceiling"),
    ],
)
def test_what_no_task_can_tell_passes_nobody(log, capsys, before, after, reason):
    log("base", before, "old")
    log("base", after)
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "2points")
    assert (code, reason in " ".join(text.split())) == (1, True)
    assert "not judged" in text


@pytest.mark.long
def test_a_loss_from_a_ceiling_is_still_one(log, capsys):
    log("base", [0.999, 0.998, 1.0], "old")
    log("base", [0.95, 0.951, 0.949])
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "2points")
    assert (code, "inferior" in text) == (1, True)


@pytest.mark.long
def test_runs_of_the_old_study_are_not_superseded_by_the_new(log, capsys):
    """Both have the same arm, seeds and conditions: in one report, the newer would count alone."""
    log("base", BEFORE)
    log("base", [score + 0.1 + 0.001 * at for at, score in enumerate(BEFORE)], "old")
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "1%")
    assert code == 1
    assert "inferior" in text


@pytest.mark.long
def test_an_arm_is_held_against_another_of_the_same_study(log, capsys):
    log("base", BEFORE)
    log("albert", [score - 0.001 * at for at, score in enumerate(BEFORE)])
    log("tiny", [score - 0.1 - 0.001 * at for at, score in enumerate(BEFORE)])
    assert gate(capsys, "--study", "new", "--max-drop", "1%", "--arm", "albert")[0] == 0
    code, text = gate(capsys, "--study", "new", "--max-drop", "1%")
    assert (code, re.search("failed: 1 [a-z ]+ of 2 tests", text) is not None) == (1, True)
    assert gate(capsys, "--study", "new", "--max-drop", "1%", "--baseline", "tiny", "--arm", "base")[0] == 0
    log("base", BEFORE, "old")
    assert (
        gate(capsys, "--study", "new", "--against", "old", "--arm", "albert", "--baseline", "base", "--max-drop", "1%")[0] == 0
    )


@pytest.mark.long
def test_arms_without_a_counterpart_are_named_and_not_judged(log, capsys):
    log("base", BEFORE, "old")
    log("base", BEFORE)
    log("extra", BEFORE)
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "1%")
    assert (code, "Not judged, as 'old' does not have it: extra." in text) == (0, True)
    code, text = gate(capsys, "--study", "old", "--against", "new", "--baseline", "extra", "--max-drop", "1%")
    assert code == 0
    log("other", BEFORE, "third")
    code, text = gate(
        capsys, "--study", "third", "--against", "old", "--baseline", "base", "--max-drop", "1%", "--arm", "other"
    )
    assert code == 0


@pytest.mark.long
def test_a_lost_arm_fails(log, capsys):
    for arm in ("base", "albert"):
        log(arm, BEFORE, "old")
    log("base", BEFORE)
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "1%")
    assert (code, re.search("failed: 1 [a-z ]+ of 2 tests", text) is not None) == (1, True)
    assert "albert has no finished run of this task: albert in accuracy on sst2" in text
    assert gate(capsys, "--study", "new", "--against", "old", "--max-drop", "1%", "--arm", "base")[0] == 0


@pytest.mark.long
def test_an_archive_is_judged_by_its_predictions_as_its_report_is(capsys):
    """Its runs err on the same items: without their predictions, the items alone would leave 3.5 points open."""
    uri, study = str(Path(reports.__file__).parent / "examples" / "before_after"), "before_after"
    code, text = gate(capsys, "--uri", uri, "--study", study, "--max-drop", "2points", "--arm", "factorized+mlm", "--json")
    (test,) = json.loads(text)["candidates"][0]["tests"]
    found = read(uri, [study])
    (section,) = compare(study, found.runs, None, (), errors_in(found.reader.output)).tasks
    change = section.single_change(section.row_of("factorized+mlm"), "eval/score")
    assert (code, tuple(test["interval"])) == (0, change.evidence.found.interval_at(test["confidence"]))
    assert section.errors_of_both("factorized+mlm").share_apart < 0.1


@pytest.mark.long
def test_a_variant_may_be_named_new(log, capsys):
    """Its arms with a setting were taken for arms of the study that is judged, and not judged."""
    for study, loss in (("old", 0.0), ("new", 0.1)):
        for arm, dtype in (("new", "fp32"), ("new dtype=bf16", "bf16")):
            scores = [score - loss * (1 + 0.01 * at) * (dtype == "bf16") for at, score in enumerate(BEFORE)]
            log(arm, scores, study, params={"hardware.dtype": dtype}, lifted='["hardware.dtype"]')
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "2points")
    assert (code, "worse: new dtype=bf16" in text, re.search("failed: 1 [a-z ]+ of 2 tests", text) is not None) == (
        1,
        True,
        True,
    )


@pytest.mark.long
@pytest.mark.parametrize(("task", "metric"), [("sst2", "eval/score"), ("pretraining", "pretrain/masked_accuracy")])
def test_an_arm_that_diverged_with_some_seeds_is_not_judged_by_the_others(tracking, capsys, task, metric):
    def log(arm: str, scores: list[float]) -> None:
        for seed, score in enumerate(scores):
            tracking.log(arm, seed, {metric: score, "eval/examples": 1e6}, study="new", task=task)

    log("base", BEFORE)
    log("shaky", BEFORE[:3])
    tracking.log("shaky", 3, {}, study="new", task=task, status="diverged")
    limits = ("--study", "new", "--max-drop", "2points")
    code, text = gate(capsys, *limits)
    assert code == 1
    assert "diverged with seed 3" in text
    assert "unlike the baseline: shaky in" in " ".join(text.split())
    log("shaky", [score + 0.001 * (-1) ** at for at, score in enumerate(BEFORE)])
    assert gate(capsys, *limits)[0] == 0


@pytest.mark.long
def test_an_arm_of_which_no_run_finished_fails(log, tracking, capsys):
    for arm in ("base", "good"):
        log(arm, BEFORE)
    for seed in range(3):
        tracking.log("lost", seed, {}, study="new", status="out of memory")
    code, text = gate(capsys, "--study", "new", "--max-drop", "2points")
    assert (code, "lost has no finished run of this task: lost in accuracy on sst2" in text) == (1, True)
    assert gate(capsys, "--study", "new", "--max-drop", "2points", "--arm", "good")[0] == 0
    assert gate(capsys, "--study", "new", "--max-drop", "2points", "--arm", "lost")[0] == 1


@pytest.mark.long
def test_masked_accuracies_over_two_vocabularies_are_not_compared(tracking, capsys):
    for arm, kind in (("base", "wordpiece"), ("other", "bpe")):
        for seed in range(3):
            values, params = {"pretrain/masked_accuracy": 0.3 + 0.01 * seed}, {"tokenizer.kind": kind}
            more = {"task": "pretraining", "lifted": '["tokenizer.kind"]', "params": params}
            tracking.log(arm, seed, values, study="new", **more)
    code, text = gate(capsys, "--study", "new", "--max-drop", "2points")
    reason = "cannot be compared across vocabularies: tokenizer=wordpiece gives both the same one: other in"
    assert (code, reason in " ".join(text.split())) == (1, True)


def test_one_arm_alone_has_nothing_to_be_judged_against(log, capsys):
    log("base", BEFORE)
    code, text = gate(capsys, "--study", "new", "--max-drop", "1%")
    assert (code, text) == (1, "Gate failed: nothing to judge: the study has no other arm\n")


@pytest.mark.long
def test_the_margin_of_a_rate_is_that_of_its_test(tracking, capsys):
    """5 % slower is a rate of 1/1.05: 4.8 % lower."""
    tracking.log_timed("base", [10.0, 10.1, 9.9, 10.0])
    tracking.log_timed("base", [10.1, 10.0, 10.0, 9.9], replicate="true")
    tracking.log_timed("slow", [10.4, 10.5, 10.3, 10.4])
    limits = ("--study", "before_after", "--max-slowdown", "5%", "--json", "--timing")
    for timing in ("inference/tokens_per_s", "inference/latency_ms_p50"):
        (test,) = json.loads(gate(capsys, *limits, timing)[1])["candidates"][0]["tests"]
        sign = 1 if test["direction"] == "higher" else -1
        loss = max(-sign * end for end in test["interval"])
        assert (loss <= test["margin"]) == (test["outcome"] == "passed")
        assert test["margin"] == pytest.approx(test["before"] * (0.05 if sign < 0 else 1 - 1 / 1.05))


@pytest.mark.long
def test_two_studies_without_a_common_arm_fail(log, capsys):
    log("base", BEFORE, "old")
    log("other", BEFORE)
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "1%")
    assert (code, "Not judged, as 'old' does not have it: other." in text) == (1, True)
    assert re.search("failed: 1 [a-z ]+ of 1 test$", text.rstrip())


@pytest.mark.long
def test_a_lost_task_fails(log, capsys):
    for task in ("sst2", "rte"):
        log("base", BEFORE, "old", task=task)
    log("base", BEFORE, task="rte")
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-drop", "1%")
    assert code == 1
    assert "base has no finished run of this task: base in accuracy on sst2" in text


@pytest.mark.long
def test_timings_of_two_sessions_are_not_judged(tracking, typical, capsys):
    for study, session in (("old", "s1"), ("new", "s2")):
        for replicate in ({}, {"replicate": "true"}):
            tracking.log_timed("base", [10.0, 10.1, 9.9], values=typical(), study=study, session=session, **replicate)
    code, text = gate(capsys, "--study", "new", "--against", "old", "--max-slowdown", "5%")
    assert code == 1
    assert "not launched side by side in one session; run both arms in one command" in " ".join(text.split())


@pytest.mark.long
def test_timings_of_one_session_are_judged_by_round(tracking, capsys):
    tracking.log_timed("base", [10.0, 10.1, 9.9, 10.0])
    tracking.log_timed("base", [10.1, 10.0, 10.0, 9.9], replicate="true")
    tracking.log_timed("same", [10.0, 10.0, 10.1, 9.9])
    tracking.log_timed("slow", [15.0, 15.1, 14.9, 15.0])
    code, text = gate(capsys, "--study", "before_after", "--arm", "same", "--max-slowdown", "5%")
    assert (code, "\nwithin the limits: same\n" in text) == (0, True)
    code, text = gate(capsys, "--study", "before_after", "--max-slowdown", "5%", "--timing", "inference/tokens_per_s")
    assert (code, "failed: 1 inferior of 2 tests" in text) == (1, True)


def test_the_clock_of_the_device_decides_where_there_is_one(tracking, capsys):
    """By the wall clock, which holds what neighbours do, the arm is 30 % slower; by the device 10 %."""
    device = [5.0, 5.05, 4.95, 5.0]
    tracking.log_timed("base", [10.0, 10.1, 9.9, 10.0], device=device)
    tracking.log_timed("base", [10.1, 10.0, 10.0, 9.9], device=device[::-1], replicate="true")
    tracking.log_timed("new", [13.0, 13.1, 12.9, 13.0], device=[1.1 * value for value in device])
    limit = ("--study", "before_after", "--max-slowdown", "20%")
    assert gate(capsys, *limit)[0] == 0
    assert gate(capsys, *limit, "--timing", "inference/latency_ms_p50")[0] == 1


@pytest.mark.long
def test_memory_is_judged_by_seed(tracking, typical, capsys):
    for seed, noise in enumerate((1.0, 1.001, 0.999)):
        for arm, more in (("base", 1.0), ("lean", 0.5), ("fat", 1.2)):
            tracking.log(
                arm, seed, {"inference/peak_memory_bytes": 5e7 * more * noise, "finetune/peak_memory_bytes": 9e7 * more}
            )
    code, text = gate(capsys, "--study", "before_after", "--max-memory", "5%", "--arm", "lean")
    assert (code, text.splitlines()[-1]) == (0, "Gate passed: 2 tests")
    assert gate(capsys, "--study", "before_after", "--max-memory", "5%", "--arm", "fat")[0] == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "gate needs a limit: expected at least one of max_drop=, max_slowdown=, max_memory="),
        (["--max-drop", "0.5"], "max_drop='0.5' has no unit: write 0.5% or 0.5points"),
        (["--max-slowdown", "5"], "max_slowdown='5' has no unit: write 5%\n"),
        (["--max-slowdown", f"{'9' * 400}%"], "expected a size above 0"),
        (["--max-slowdown", "5points"], "max_slowdown='5points': expected a size above 0, such as 0.5%\n"),
        (["--max-drop", "1%", "--arm", "albrt"], "unknown arm 'albrt'; did you mean 'albert'?"),
        (["--max-drop", "1%", "--baseline", "x"], "unknown baseline 'x'"),
        (["--max-drop", "1%", "--against", "old", "--baseline", "x"], "unknown arm of 'old' 'x'"),
        (["--max-drop", "1%", "--against", "empty"], "study 'empty' has no finished run"),
        (["--max-slowdown", "5%", "--timing", "inference/latency"], "unknown metric 'inference/latency'"),
    ],
)
def test_wrong_input_is_one_line(log, capsys, arguments, message):
    log("base", [0.8])
    log("albert", [0.8])
    log("base", [0.8], "old")
    log("base", [0.8], "empty", status="failed")
    code, text = gate(capsys, "--study", "new", *arguments)
    assert code == 2
    assert message in text


@pytest.mark.parametrize(("floor", "is_gain"), [(0.01, True), (0.03, False)])
def test_a_gain_is_beyond_the_noise_floor(floor, is_gain):
    """What equal arms may differ by is none, however often it is repeated."""
    faster = of_differences([-0.020, -0.021, -0.019, -0.020])
    evidence = Evidence(Direction.LOWER, faster, 0.001, floor, ratio=True, timing=True, by_round=True)
    assert evidence.verdict() is Verdict.BETTER
    limit = gates.Limit("inference/latency_ms_p50", None, "")
    tested = gates.Test(None, "albert", limit, SimpleNamespace(evidence=evidence))
    assert tested.is_gain(1) is is_gain
