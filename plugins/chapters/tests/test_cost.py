"""What a quality costs: interpolated between two evaluations, never beyond them, and only of costs that were logged."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.comparison.compare import compare
from harness.errors import InputError
from harness.plugins.chapters import cost
from harness.plugins.chapters.cost import Target, paid, parse, ratio, reach
from harness.reports.__main__ import main

LOSS, ACCURACY, TOKENS = "pretrain/masked_loss", "pretrain/masked_accuracy", "pretrain/tokens"
TARGET = Target(LOSS, 6.0)


def test_between_two_evaluations_quality_is_straight_in_the_logarithm_of_the_cost():
    costs = {"tokens": {10: 1e6, 20: 4e6, 30: 5e6}, "time": {10: 2.0, 20: 32.0}}
    result = reach({10: 7.0, 20: 5.0, 30: 4.0}, costs, TARGET)
    assert result.costs == pytest.approx({"steps": math.sqrt(200), "tokens": 2e6, "time": 8.0})
    assert not result.bound


def test_growing_batch_is_read_off_its_own_tokens():
    curve = {10: 7.0, 20: 6.0}
    assert reach(curve, {"tokens": {10: 1e3, 20: 5e3}}, TARGET).costs["tokens"] == pytest.approx(5e3)
    assert reach(curve, {"tokens": {10: 1e3, 20: 2e3}}, TARGET).costs["tokens"] == pytest.approx(2e3)


def test_power_law_is_read_off_closely():
    """Loss 2 + 20 C^-0.2 at five evaluations: straight in the cost itself would be off by up to 7 %."""
    curve = {step: 2 + 20 * step**-0.2 for step in (2000, 4000, 6000, 8000, 10000)}
    for true in (2500, 3000, 5000, 9000):
        assert reach(curve, {}, Target(LOSS, 2 + 20 * true**-0.2)).costs["steps"] == pytest.approx(true, rel=0.015)


def test_accuracy_rises_to_its_target():
    assert reach({10: 0.1, 40: 0.3}, {}, Target(ACCURACY, 0.2)).costs == pytest.approx({"steps": 20})
    assert reach({10: 0.1, 40: 0.3}, {}, Target(ACCURACY, 0.31)) is None


def test_first_evaluation_beyond_the_target_is_an_upper_bound():
    result = reach({10: 5.5, 20: 5.0}, {"tokens": {10: 1e3, 20: 2e3}}, TARGET)
    assert (result.bound, result.costs) == (True, {"steps": 10, "tokens": 1e3})


def test_first_of_several_passes_counts():
    assert reach({10: 7.0, 20: 6.0, 30: 6.5, 40: 5.0}, {}, TARGET).costs == pytest.approx({"steps": 20})


def test_cost_that_was_not_logged_at_the_evaluations_is_left_out():
    assert set(reach({10: 7.0, 20: 5.0}, {"tokens": {0: 5e6}, "time": {20: 3.0}}, TARGET).costs) == {"steps"}


def curves_of(*runs: tuple[list[float], list[float]]) -> dict:
    """Losses and tokens of run1, run2, ... at steps 10, 20, ..."""
    steps = {f"run{index}": [10 * (place + 1) for place in range(len(loss))] for index, (loss, _) in enumerate(runs, 1)}
    pairs = [(f"run{index}", loss, tokens) for index, (loss, tokens) in enumerate(runs, 1)]
    return {
        LOSS: {run: dict(zip(steps[run], loss, strict=True)) for run, loss, _ in pairs},
        TOKENS: {run: dict(zip(steps[run], tokens, strict=True)) for run, _, tokens in pairs},
    }


@pytest.fixture
def rows(pretrained, study_of) -> Callable[..., list[cost.Paid | None]]:
    """What each arm paid for a loss of 6, `base+mlm` first; seeds count up within an arm."""

    def make(names: list[str], curves: dict) -> list[cost.Paid | None]:
        runs = [pretrained(name, names[:place].count(name)) for place, name in enumerate(names)]
        comparison = compare("s", runs)
        return [paid(row, TARGET, study_of(comparison, curves)) for row in comparison.sections[0].rows]

    return make


def test_ratio_is_paired_by_seed(rows):
    twice = curves_of(*[([7.0, 6.0], [1.0, tokens]) for tokens in (100.0, 300.0, 200.0, 600.0)])
    # pairs 200 / 100 and 600 / 300
    before, after = rows(["base+mlm"] * 2 + ["gpt+clm"] * 2, twice)
    result = ratio(before, after, "tokens")
    assert (result.mean, *result.interval) == pytest.approx((2, 2, 2))
    assert ratio(before, after, "time") is None
    assert "<br>".join(cost.cost_cell(after, before, "tokens").lines) == "400 ± 283<br>× 2.00 [2.00, 2.00]"
    assert "<br>".join(cost.cost_cell(after, before, "energy").lines) == "not available"


def test_seed_that_did_not_reach_it_forbids_the_ratio(rows):
    curves = curves_of(([7.0, 6.0], [1.0, 100.0]), ([7.0, 6.0], [1.0, 80.0]), ([7.0, 6.71], [1.0, 100.0]))
    before, after = rows(["base+mlm", "gpt+clm", "gpt+clm"], curves)
    assert ratio(before, after, "tokens") is None
    assert "<br>".join(cost.cost_cell(after, before, "tokens").lines) == "80 (1 of 2 runs)<br>–"


AT_MOST, KNOWN = ([5.5, 5.0], [10.0, 100.0]), ([7.0, 6.0], [1.0, 100.0])


@pytest.mark.parametrize(
    ("earlier", "later", "text"),
    [(KNOWN, AT_MOST, "≤ 10<br>× ≤ 0.10"), (AT_MOST, KNOWN, "100<br>× ≥ 10.00"), (AT_MOST, AT_MOST, "≤ 10<br>–")],
    ids=["arm", "baseline", "both"],
)
def test_upper_bound_makes_the_ratio_a_limit(rows, earlier: tuple, later: tuple, text: str):
    before, after = rows(["base+mlm", "gpt+clm"], curves_of(earlier, later))
    assert "<br>".join(cost.cost_cell(after, before, "tokens").lines) == text


@pytest.fixture
def chapter(pretrained, study_of) -> Callable[..., str]:
    """The text of the chapter on these curves and targets."""

    def make(curves: dict, targets: list[str], names: tuple[str, ...] = ("base+mlm", "gpt+clm")) -> str:
        runs = [pretrained(name, names[:place].count(name)) for place, name in enumerate(names)]
        study = study_of(compare("s", runs), curves, targets=tuple(targets))
        return "\n".join(cost.chapter(study).paragraphs)

    return make


def test_best_of_those_that_did_not_reach_it_is_shown(chapter):
    curves = curves_of(*[([7.0, end], [1.0, 9.0]) for end in (6.0, 5.0, 6.71, 6.9)])
    text = chapter(curves, [f"{LOSS}=6"], ("base+mlm", "gpt+clm", "gpt+clm", "gpt+clm"))
    assert "| gpt+clm | 1 of 3<br>the other 2: best 6.710 nats | " in text


def test_table_says_who_did_not_reach_it_and_what_is_not_available(chapter):
    curves = curves_of(([7.0, 6.0], [1e6, 4e6]), ([7.0, 6.71], [1e6, 4e6]))
    text = chapter(curves, [f"{LOSS}=6"])
    assert "### pretraining: to a held-out masked loss of 6.000 nats" in text
    assert "| base+mlm | 1 of 1 | 20 | 4.00 M | not available | not available | not available |" in text
    assert "| gpt+clm | 0 of 1<br>best 6.710 nats | – | – | – | – | – |" in text
    assert "no pretrain/duration_s, pretrain/flops, pretrain/energy_j logged at" in text


def test_a_probe_is_not_held_against_the_target_of_a_trained_head(pretrained, ended, study_of):
    probe = ended(2.0, {"pretrain/probe_steps": 200.0})
    runs = [pretrained(), pretrained("gpt+clm", ends=probe), pretrained("roberta+mlm")]
    study = study_of(compare("s", runs), curves_of(*[([7.0, end], [1e6, 4e6]) for end in (6.0, 7.0, 6.5)]))
    text = "\n".join(cost.chapter(study).paragraphs)
    assert "| roberta+mlm | 0 of 1<br>best" in text
    assert "| gpt+clm |" not in text
    assert "Left out: gpt+clm. Their masked tokens are predicted by another kind of head" in text


def test_probes_are_held_against_the_target_of_a_probe(pretrained, ended, study_of):
    probe = ended(2.0, {"pretrain/probe_steps": 200.0})
    runs = [pretrained("gpt+clm", ends=probe), pretrained("gpt2+clm", ends=probe)]
    curves = curves_of(*[([7.0, end], [1e6, 4e6]) for end in (6.0, 5.0)])
    text = "\n".join(cost.chapter(study_of(compare("s", runs, baseline="gpt+clm"), curves)).paragraphs)
    assert "| gpt2+clm | 1 of 1 |" in text
    assert "Left out" not in text


def test_default_target_is_reached_by_every_seed_of_the_baseline(pretrained, study_of):
    runs = [pretrained(seed=seed) for seed in (0, 1)]
    result = compare("s", runs)
    curves = {LOSS: {"run1": {10: 7.0, 20: 6.5}, "run2": {10: 7.0, 20: 6.6}}}
    assert cost.default_target(result.sections[0], study_of(result, curves)) == Target(LOSS, 6.6)
    assert cost.default_target(result.sections[0], study_of(result, {LOSS: {"run1": {0: 7.0, 20: 6.5}}})) is None


def test_fine_tuning_without_curves_of_costs_is_shown_in_steps_alone(make_run, study_of):
    runs = [make_run("base"), make_run("small")]
    curves = {"tune/score": {"run1": {100: 0.5, 200: 0.7}, "run2": {100: 0.6, 200: 0.8}}}
    curves["finetune/tokens"] = {"run1": {0: 9e6}, "run2": {0: 8e6}}  # totals, at the end alone
    text = "\n".join(cost.chapter(study_of(compare("s", runs), curves)).paragraphs)
    assert "### sst2: to a score on tuning rows of 0.700" in text
    assert "| small | 1 of 1 | 141<br>× 0.71 | not available<br>" not in text
    assert "| small | 1 of 1 | 141<br>× 0.71 | not available | not available | not available | not available |" in text


def test_fine_tuning_is_shown_in_all_that_was_logged_at_its_evaluations(make_run, study_of):
    runs = [make_run("base"), make_run("small")]
    curves = {"tune/score": {"run1": {100: 0.5, 200: 0.7}, "run2": {100: 0.6, 200: 0.7}}}
    for name, amount in (("tokens", 1e4), ("duration_s", 0.1), ("flops", 1e9)):
        curves[f"finetune/{name}"] = {"run1": {step: amount * step for step in (100, 200)}}
        curves[f"finetune/{name}"]["run2"] = {step: amount * step / 2 for step in (100, 200)}
    curves["finetune/energy_j"] = {"run1": {0: 50.0}}  # the whole, at the end alone
    text = "\n".join(cost.chapter(study_of(compare("s", runs), curves)).paragraphs)
    assert "| base | 1 of 1 | 200 | 2.00 M | 20.0 s | 200.0 GFLOP | not available |" in text
    assert "| small | 1 of 1 | 200<br>× 1.00 | 1.00 M<br>× 0.50 | 10.0 s | 100.0 GFLOP<br>× 0.50 |" in text
    assert "no finetune/energy_j logged at" in text


def test_targets_that_were_asked_for_are_no_detail(make_run, study_of):
    comparison = compare("s", [make_run("base", task=task) for task in ("sst2", "cola")])
    curves = {"tune/score": {run.run_id: {100: 0.5, 200: 0.7} for run in comparison.runs}}
    asked = cost.chapter(study_of(comparison, curves, targets=("tune/score=0.6",)))
    by_default = cost.chapter(study_of(comparison, curves))
    assert len(asked.paragraphs) == len(by_default.paragraphs) == 2 + 2 * 3
    assert [made.sections[0].detail for made in (asked, by_default)] == [False, True]


def test_one_score_at_the_end_is_no_curve(make_run, study_of):
    study = study_of(compare("s", [make_run()]), {"eval/score": {"run1": {0: 0.8}}})
    assert cost.chapter(study).sections == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pretrain/masked_loss", "target='pretrain/masked_loss': expected METRIC=NUMBER, such as eval/score=0.8"),
        ("pretrain/mask_loss=6", "did you mean 'pretrain/masked_loss'"),
        ("pretrain/loss=6", "unknown metric 'pretrain/loss'"),
        ("tune/score=much", "'much' must be a number"),
        ("tune/score=nan", "'nan' must be a number"),
        ("tune/score=80", "tune/score must be between -1 and 1"),
    ],
)
def test_wrong_target_is_refused_in_one_line(target: str, message: str, capsys):
    assert main(["--target", target]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_target_without_a_curve_names_those_there_are(chapter):
    curves = curves_of(([7.0, 6.0], [1e6, 4e6]), ([7.0, 6.71], [1e6, 4e6]))
    with pytest.raises(InputError, match=r"target=tune/score: .* choices: pretrain/masked_loss$"):
        chapter(curves, ["tune/score=0.5"])


def test_right_targets_are_read():
    assert parse(["pretrain/masked_loss=6.5", "tune/score=-0.1"]) == [Target(LOSS, 6.5), Target("tune/score", -0.1)]


@pytest.mark.long
def test_report_of_a_real_store_shows_the_targets_of_the_command(tracking):
    tracking.log_pretraining()
    tracking.log_pretraining("albert+mlm_sop", fingerprint="f1")
    assert main(["--out", "here", "--target", f"{LOSS}=3.5", "--target", f"{ACCURACY}=0.2"]) == 0
    text = Path("here", "report.md").read_text()
    # loss 4 at step 50, 3 at 100: half way in logs is 70.7; tokens, seconds and FLOPs are proportional here
    reached = "runs that reached it 1 of 1; steps 71; tokens 70.7 k; time 17.7 s; FLOPs 70.7 GFLOP."
    assert f"Equal for all arms: {reached}" in text
    assert "to a held-out masked accuracy of 0.200" in text


@pytest.mark.long
def test_report_without_targets_takes_the_end_of_the_baseline(tracking):
    tracking.log_pretraining()
    assert main(["--out", "here"]) == 0
    text = Path("here", "report.md").read_text()
    assert "### pretraining: to a held-out masked loss of 3.000 nats" in text
    assert "| base+mlm | 1 of 1 | 100 | 100.0 k | 25.0 s | 100.0 GFLOP | not available |" in text
