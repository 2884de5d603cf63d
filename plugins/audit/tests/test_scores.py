"""Arms are compared over finished runs: paired by seed, under equal conditions, as good in its metric's direction."""

import math
from dataclasses import replace
from statistics import stdev

import pytest

from harness import tags
from harness.comparison.runs import Run
from harness.errors import InputError
from harness.plugins.audit import claims, scores
from harness.plugins.audit.claims import Relation
from harness.plugins.audit.verdicts import Verdict, of_reading


def run(
    model: str, seed: int, score: float, task: str = "sst2", metric: str = "eval/score", arm: str = "", **params: str
) -> Run:
    known = {"model_name": model, "scale_name": "tiny", "finetune.learning_rate": "0.001", "task.name": task, "seed": str(seed)}
    known["model.hidden_act"] = "gelu"
    tags = {"task": task, "seed": str(seed), "scale": "tiny", "arm": arm or model}
    return Run("", "", 0, tags, known | {key.replace("__", "."): value for key, value in params.items()}, {metric: score})


def reading(**more) -> claims.Score:
    known = {"measure": "score", "of": "model=gpt", "against": "model=base", "relation": Relation.better, "margin": 0.01}
    return claims.Score(**known | more)


RUNS = [run(model, seed, score + seed / 100) for model, score in (("base", 0.7), ("gpt", 0.8)) for seed in (1, 2, 3)]
RUNS[-1] = run("gpt", 3, 0.831)


def test_differences_are_paired_by_seed():
    (point,) = scores.compare(reading(), RUNS).points
    assert point.value == pytest.approx(0.1 + 0.001 / 3)
    assert 0.095 < point.low < point.value < point.high < 0.106
    assert point.where == {"task": "sst2", "scale": "tiny", "pairs": 3}
    (one,) = scores.compare(reading(), RUNS[:4]).points
    assert one.interval == (-float("inf"), float("inf"))


def test_a_lower_loss_is_better():
    runs = [run(model, seed, loss, metric="eval/loss") for model, loss in (("base", 0.7), ("gpt", 0.8)) for seed in (1, 2)]
    (point,) = scores.compare(reading(metric="eval/loss"), runs).points
    assert point.value == pytest.approx(-0.1)


def test_only_runs_under_equal_conditions_meet():
    other = [run("gpt", seed, 0.9, finetune__learning_rate="0.002") for seed in (1, 2, 3)]
    (point,) = scores.compare(reading(), RUNS + other).points
    assert point.value == pytest.approx(0.1 + 0.001 / 3)
    assert scores.compare(reading(), RUNS[:3] + other).points == ()
    follows = [run("gpt", seed, 0.9, model__causal="True") for seed in (1, 2, 3)]
    assert len(scores.compare(reading(), RUNS[:3] + follows).points) == 1


def test_arms_that_read_other_vocabulary_files_meet_only_where_the_claim_names_the_cause():
    runs = [run("base", seed, 0.7, facts__tokenizer_file="a1") for seed in (1, 2, 3)]
    runs += [run("base", seed, 0.8, facts__tokenizer_file="b2", model__hidden_act="relu") for seed in (1, 2, 3)]
    assert scores.compare(reading(of="model.hidden_act=relu", against="model.hidden_act=gelu"), runs).points == ()
    other = [run("gpt", seed, 0.9, facts__tokenizer_file="b2") for seed in (1, 2, 3)]
    assert len(scores.compare(reading(), runs[:3] + other).points) == 1


def test_an_objective_after_another_one_is_not_that_objective_alone():
    phases = {"pretrain__objective": "mlm", "pretrain__phases": "['clm', 'mlm']"}
    plain = [run(model, seed, 0.7, pretrain__objective="mlm") for model in ("base", "gpt") for seed in (1, 2, 3)]
    others = [run("gpt", seed, 0.9, arm="gpt+clm-mlm", **phases) for seed in (1, 2, 3)]
    asked = reading(of="model=gpt pretrain=mlm", against="model=base pretrain=mlm")
    assert scores.compare(asked, plain[:3] + others).points == ()
    assert len(scores.compare(asked, plain + others).points) == 1


def test_other_settings_of_the_model_are_another_arm():
    other = [run("gpt", seed, 0.5, arm="gpt hidden_act=relu", model__hidden_act="relu") for seed in (1, 2, 3)]
    (point,) = scores.compare(reading(), RUNS + other).points
    assert point.value == pytest.approx(0.1 + 0.001 / 3)
    (point,) = scores.compare(reading(of="model=gpt model.hidden_act=relu"), RUNS + other).points
    assert point.value == pytest.approx(-0.22, abs=0.01)
    plain, both = scores.compare(
        reading(),
        RUNS
        + [
            run(model, seed, score, arm=f"{model} hidden_act=relu", model__hidden_act="relu")
            for model, score in (("base", 0.4), ("gpt", 0.5))
            for seed in (1, 2)
        ],
    ).points
    assert (plain.value, plain.where["model.hidden_act"]) == (pytest.approx(0.1, abs=0.001), "gelu")
    assert (both.value, both.where["model.hidden_act"]) == (pytest.approx(0.1), "relu")
    swept = [run(model, seed, 0.9, arm=f"{model} learning_rate=1e-3") for model in ("base", "gpt") for seed in (1, 2, 3)]
    (point,) = scores.compare(reading(), swept).points
    assert point.value == 0


def test_a_setting_is_compared_by_its_value_whichever_study_left_it_out_of_the_label():
    def sized(model: str, tokens: str, score: float, arm: str = "") -> list[Run]:
        return [run(model, seed, score, arm=arm, model__max_position_embeddings=tokens) for seed in (1, 2, 3)]

    base = sized("base", "128", 0.7, "base scale=tiny")
    (point,) = scores.compare(reading(), base + sized("gpt", "128", 0.8, "gpt max_position_embeddings=128")).points
    assert point.value == pytest.approx(0.1)
    assert point.where["model.max_position_embeddings"] == "128"
    assert scores.compare(reading(), base + sized("gpt", "64", 0.8, "gpt max_position_embeddings=64")).points == ()


def test_keys_are_matched_as_they_are_typed():
    runs = [run("base", 1, 0.7, model__norm_bias="True", pretrain__tokens="None", pretrain__mask_rate="0.15")]
    runs += [run("base", 1, 0.6, model__norm_bias="False", pretrain__tokens="None", pretrain__mask_rate="0.15")]
    more = {"of": "model.norm_bias=true", "against": "model.norm_bias=false", "needs": "pretrain.mask_rate=1.5e-1"}
    (point,) = scores.compare(reading(**more), runs).points
    assert point.value == pytest.approx(0.1)
    assert scores.compare(reading(**more | {"needs": "pretrain.tokens=5"}), runs).points == ()
    with pytest.raises(InputError, match=r"unknown key 'model\.norm_bais'"):
        scores.compare(reading(of="model.norm_bais=true"), runs)
    with pytest.raises(InputError, match=r"has no better direction"):
        scores.compare(reading(metric="eval/examples"), runs)
    with pytest.raises(InputError, match="did you mean 'finetune/gradient_norm'"):
        scores.compare(reading(metric="finetune/gradent_norm"), runs)


def test_the_newest_run_of_a_seed_counts_and_missing_tasks_are_named():
    found = scores.compare(reading(tasks=["sst2", "cola"]), [*RUNS, *(run("gpt", seed, 0.7) for seed in (1, 2, 3))])
    assert found.points[0].value == pytest.approx(-0.02)
    assert found.incomplete == "task cola"
    assert scores.compare(reading(tasks=["cola"]), RUNS).points == ()


@pytest.mark.parametrize(("probes", "points"), [((0.0, 0.0), 1), ((200.0, 200.0), 1), ((0.0, 200.0), 0)])
def test_a_probe_is_not_held_against_a_trained_head(probes, points):
    values = {"base": (4.1, 4.2), "gpt": (5.1, 5.3)}
    runs = [run(arm, seed, 0.7) for arm in values for seed in (1, 2)]
    for one, loss, probe in zip(runs, [*values["base"], *values["gpt"]], [probes[0]] * 2 + [probes[1]] * 2, strict=True):
        one.metrics.update({"pretrain/masked_loss": loss, "pretrain/probe_steps": probe})
    found = scores.compare(reading(metric="pretrain/masked_loss"), runs)
    assert len(found.points) == points
    assert ("predicted by a probe" in found.missing) == (not points)


def test_arms_that_have_learned_nothing_say_nothing():
    def found(constant: float) -> object:
        runs = [run(*given) for given in (("base", 1, 0.7), ("gpt", 1, 0.7), ("base", 2, 0.72), ("gpt", 2, 0.72))]
        for one in runs:
            one.metrics["eval/majority_score"] = constant
        return scores.compare(reading(), runs)

    assert len(found(0.6).points) == 1
    assert found(0.705).points == ()
    assert found(0.705).missing == (
        "another study, as these support no verdict: task sst2 (neither arm is shown to beat the majority baseline)"
    )
    assert found(0.705).command == ""


@pytest.mark.parametrize(("learned", "tells"), [(6.5, False), (6.0, True)])
def test_two_arms_on_the_plateau_of_word_frequencies_say_nothing(learned: float, tells: bool):
    """Both may be far from the unigram entropy by the seeds, and know no context."""
    losses = {"base": 6.55, "gpt": learned}
    runs = [run(m, s, losses[m] + s**2 / 1000, metric="pretrain/masked_loss") for m in losses for s in (1, 2, 3)]
    for one in runs:
        one.metrics["pretrain/unigram_entropy"] = 6.7
    found = scores.compare(reading(metric="pretrain/masked_loss"), runs)
    assert len(found.points) == tells
    assert ("both arms are on the unigram plateau" in found.missing) != tells


def test_the_study_that_is_missing_is_named():
    nothing = scores.compare(reading(tasks=["sst2"]), [])
    assert nothing.missing == "a study of 10 seeds"
    assert nothing.command == "python -m harness -m model=gpt,base task=sst2 'seed=range(1,11)'"
    two = scores.compare(reading(of="model=base pretrain=mlm", against="model=gpt pretrain=clm"), []).command
    assert two == (
        "python -m harness -m model=base pretrain=mlm 'seed=range(1,11)' && "
        "python -m harness -m model=gpt pretrain=clm 'seed=range(1,11)'"
    )
    noisy = [run("base", 1, 0.7), run("base", 2, 0.8), run("gpt", 1, 0.8), run("gpt", 2, 0.75)]
    needed = scores.seeds_needed(0.025 / stdev([0.1, -0.05]))
    assert 50 < needed < 300
    assert scores.compare(reading(margin=0.02), noisy).missing == f"a study of {needed} seeds"


def test_a_study_of_several_arms_is_one_sweep_with_the_data_and_budget_of_its_reading():
    several = reading(
        of="pretrain.mask_rate=0.15",
        against=["pretrain.mask_rate=0.05", "pretrain.mask_rate=0.3"],
        needs="pretrain=mlm",
        study="scale=tiny corpus=wikitext; id",
    )
    assert scores.compare(several, []).command == (
        "python -m harness -m pretrain.mask_rate=0.15,0.05,0.3 pretrain=mlm scale=tiny 'corpus=wikitext;' id 'seed=range(1,11)'"
    )


def test_no_number_of_seeds_is_named_where_the_items_hide_the_difference():
    """Twenty items and a difference of two points: the interval over the items alone is wider, whatever the seeds."""
    for items, command in ((20, False), (1e6, True)):
        runs = [run(m, seed, score + seed / 1000) for m, score in (("base", 0.7), ("gpt", 0.72)) for seed in (1, 2, 3)]
        runs[-1] = run("gpt", 3, 0.730)
        for one in runs:
            one.metrics["eval/examples"] = items
        found = scores.compare(reading(), runs)
        assert bool(found.command) == command
        assert ("more items" in found.missing) != command


def test_items_are_a_part_of_the_interval():
    def width(items: float | None) -> float:
        runs = [replace(one, metrics=one.metrics | ({"eval/examples": items} if items else {})) for one in RUNS]
        (point,) = scores.compare(reading(), runs).points
        return point.high - point.low

    assert width(500) > 5 * width(None)
    assert width(1e9) == pytest.approx(width(None), rel=0.01)


def test_two_replicates_carry_no_verdict():
    """Whose differences are nearly equal by chance; three do."""
    for seeds, settles in (((1, 2), False), ((1, 2, 3), True)):
        runs = [one for one in RUNS if one.tags["seed"] in map(str, seeds)]
        (point,) = scores.compare(reading(), runs).points
        assert math.isfinite(point.low) == settles
        assert point.is_test == settles


def test_every_arm_that_a_claim_is_against_is_a_point_and_a_missing_one_is_named():
    def rate(share: str, loss: float) -> list[Run]:
        return [run("base", s, loss + s**2 / 100, metric="eval/loss", pretrain__mask_rate=share) for s in (1, 2, 3)]

    several = reading(
        of="pretrain.mask_rate=0.15", against=["pretrain.mask_rate=0.05", "pretrain.mask_rate=0.3"], metric="eval/loss"
    )
    runs = [*rate("0.15", 0.5), *rate("0.05", 0.7)]
    found = scores.compare(several, runs)
    assert [point.where["against"] for point in found.points] == ["pretrain.mask_rate=0.05"]
    assert found.incomplete == "against pretrain.mask_rate=0.3"
    both = scores.compare(several, [*runs, *rate("0.3", 0.4)])
    assert [point.value for point in both.points] == [pytest.approx(0.2), pytest.approx(-0.1)]
    assert both.incomplete == ""


def test_settings_of_an_objective_that_another_study_sweeps_are_not_mixed():
    """A sweep of mask rates beside a study of objectives: 15 % of one objective is not held against 30 % of the other."""

    def objective(name: str, rate: str, score: float, arm: str = "") -> list[Run]:
        settings = {"pretrain__objective": name, "pretrain__mask_rate": rate}
        return [run("base", s, score + s**2 / 100, arm=arm, **settings) for s in (1, 2, 3)]

    swept = objective("mlm", "0.15", 0.5, "base+mlm mask_rate=0.15")
    plain, other = objective("mlm", "0.3", 0.6), objective("mlm_nsp", "0.3", 0.67)
    found = scores.compare(reading(of="pretrain=mlm", against="pretrain=mlm_nsp"), swept + plain + other)
    assert [point.value for point in found.points] == [pytest.approx(-0.07)]


def test_fine_tunings_of_one_pretraining_are_planned_as_one():
    """Two pretrainings whose differences are 0.10 and 0.14, with three fine-tunings each that do not differ."""
    runs = []
    for pretraining, difference in (("1", 0.10), ("2", 0.14)):
        for seed in range(3):
            both = [run("base", 3 * int(pretraining) + seed, 0.5), run("gpt", 3 * int(pretraining) + seed, 0.5 + difference)]
            runs += [replace(one, tags=one.tags | {tags.PRETRAIN_SEED: pretraining}) for one in both]
    found = scores.compare(reading(margin=0.05), runs)
    assert found.points[0].where["pairs"] == 6
    assert found.missing == f"a study of {scores.seeds_needed(0.12 / stdev([0.10, 0.14]))} seeds"


def test_seeds_needed_are_those_of_a_paired_t_test():
    """Tables of the paired t test, two-sided 5 %, power 80 %: 34 pairs for half a standard deviation, 10 for a whole one."""
    assert [scores.seeds_needed(effect) for effect in (0.5, 1.0, 2.0)] == [34, 10, 5]


def test_arms_that_both_solve_a_task_say_nothing_of_each_other():
    def solved(of: float, against: float):
        runs = [run(m, seed, score) for m, score in (("gpt", of), ("base", against)) for seed in (1, 2, 3)]
        return scores.compare(reading(), runs)

    assert solved(1.0, 0.995).points == ()
    assert "no verdict: task sst2 (both arms are at ceiling)" in solved(1.0, 0.995).missing
    assert len(solved(1.0, 0.98).points) == 1


@pytest.mark.parametrize("relation", [Relation.better, Relation.no_difference])
@pytest.mark.parametrize(
    ("score", "silent"), [(0.8, False), (0.998, True), (0.5, True)], ids=["between", "at the ceiling", "at the floor"]
)
def test_a_score_at_an_end_of_its_range_settles_nothing(score, silent, relation):
    """Scores that hardly differ or scatter: between the ends `better` is refuted by them, and `no difference` confirmed."""
    runs = [run(m, seed, score + 1e-4 * seed * (m == "gpt")) for m in ("gpt", "base") for seed in (1, 2, 3, 4, 5)]
    runs = [replace(one, metrics=one.metrics | {"eval/majority_score": 0.51}) for one in runs]
    claimed = reading(relation=relation)
    settled = of_reading(claimed, scores.compare(claimed, runs)).verdict
    sure = Verdict.REFUTED if relation is Relation.better else Verdict.CONFIRMED
    assert settled is (Verdict.UNDECIDED if silent else sure)


def test_a_metric_without_a_better_side_may_be_claimed_to_make_no_difference():
    runs = [run(m, seed, norm, metric="finetune/gradient_norm_p50") for m, norm in (("gpt", 3), ("base", 1)) for seed in (1, 2)]
    (point,) = scores.compare(reading(metric="finetune/gradient_norm_p50", relation=Relation.no_difference), runs).points
    assert point.value == 2


def test_differences_that_are_all_equal_have_no_scatter_to_judge_by():
    runs = [run(m, seed, score) for m in ("gpt", "base") for seed, score in ((1, 0.936), (2, 0.936), (3, 0.97))]
    (point,) = scores.compare(reading(), runs).points
    assert (point.value, *point.interval) == (0, -math.inf, math.inf)
    assert not point.is_test


@pytest.mark.parametrize("turned", [False, True])
def test_two_arms_of_one_side_never_share_a_section(turned):
    """As published and resized: the same model, with other widths, and no setting in the name of the arm."""
    matched = [run("gpt", seed, 0.5 + seed / 100, arm="gpt (params as base)", model__hidden_size="194") for seed in (1, 2, 3)]
    published = [replace(one, params=one.params | {"model.hidden_size": "128"}) for one in RUNS]
    runs = [*published, *matched]
    found = scores.compare(reading(), runs[::-1] if turned else runs).points
    values = {point.where["model.hidden_size"]: point.value for point in found}
    assert values == {"128": pytest.approx(0.1 + 0.001 / 3), "194 and 128": pytest.approx(-0.2)}


def test_sections_that_differ_in_a_condition_name_it():
    runs = [replace(one, params=one.params | {"finetune.learning_rate": rate}) for one in RUNS for rate in ("1e-3", "1e-4")]
    assert [point.where["finetune.learning_rate"] for point in scores.compare(reading(), runs).points] == ["0.001", "0.0001"]


def test_settings_are_written_as_on_the_command_line():
    runs = [
        replace(one, params=one.params | {"pretrain.static_masks": str(static), "finetune.epochs": "16.0"})
        for one in RUNS
        for static in (True, False)
    ]
    points = scores.compare(reading(), runs).points
    assert [(one.where["pretrain.static_masks"], one.where["epochs"]) for one in points] == [("true", "16"), ("false", "16")]
    shared = [replace(one, params=one.params | {"pretrain.masked_share": share}) for one in RUNS for share in ("None", "0.5")]
    assert [one.where["pretrain.masked_share"] for one in scores.compare(reading(), shared).points] == ["null", "0.5"]
