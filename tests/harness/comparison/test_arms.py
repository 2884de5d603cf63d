"""Arms and conditions: every fact belongs to one of the two, and no two different arms share a label."""

import random

import pytest

from harness import versions
from harness.comparison import arms
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

CONFIG = {"model.attention_window": "None", "model_name": "base", "scale_name": "mini", "finetune.learning_rate": "3e-4"}
CONFIG |= {"hardware.dtype": "fp32", "pretrain.mask_rate": "0.15", "facts.rows": "ab12", "seed": "1", "pretrain.seed": "2"}
CONFIG |= {"output": "multirun", "tracking.uri": "None", "task.name": "sst2"}


def test_seeds_and_settings_without_effect_are_no_facts():
    assert set(CONFIG) - set(arms.facts(CONFIG)) == {"seed", "pretrain.seed", "output", "tracking.uri"}


def test_runs_without_versions_have_the_first_ones():
    assert arms.facts(CONFIG) == arms.facts(CONFIG | versions.FIRST)
    assert arms.facts(CONFIG) != arms.facts(CONFIG | {"facts.models_version": "2"})


@pytest.mark.parametrize("lifted", [(), ("finetune.learning_rate",), ("hardware.",), ("facts.rows", "hardware.dtype")])
def test_every_fact_belongs_to_the_arm_or_to_the_conditions(lifted):
    facts = arms.facts(CONFIG)
    arm, conditions = arms.of_arm(facts, lifted), arms.conditions(facts, lifted)
    assert arm | conditions == facts
    assert not arm.keys() & conditions.keys()
    assert set(arm) >= {"model.attention_window", "model_name", "scale_name", "pretrain.mask_rate"}


def test_lifted_key_moves_from_the_conditions_to_the_arm():
    facts = arms.facts(CONFIG)
    assert "hardware.dtype" in arms.conditions(facts, ())
    assert "hardware.dtype" in arms.of_arm(facts, ["hardware.dtype"])
    assert "hardware.dtype" in arms.of_arm(facts, ["hardware."])


def test_short_hash_does_not_depend_on_the_order_of_the_facts():
    assert arms.short_hash({"a": "1", "b": "2"}) == arms.short_hash({"b": "2", "a": "1"})
    assert arms.short_hash({"a": "1"}) != arms.short_hash({"a": "2"})


def test_varying_counts_a_missing_key():
    assert arms.varying([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1", "b": "2", "c": "4"}]) == ["b", "c"]


def test_distinguish_adds_nothing_where_labels_differ_or_arms_agree():
    labels = {"r1": "base", "r2": "base", "r3": "albert"}
    facts = {"r1": {"a": "1"}, "r2": {"a": "1"}, "r3": {"a": "2"}}
    assert arms.distinguish(labels, facts) == labels


def test_whole_numbers_are_shown_without_decimals():
    facts = {"r1": {"pretrain.at": "500000.0"}, "r2": {"pretrain.at": "2000000.0"}}
    seen = arms.distinguish({"r1": "base", "r2": "base"}, facts)
    assert seen == {"r1": "base at=500000", "r2": "base at=2000000"}
    assert arms.setting_texts({"dropout": "1.0"}, ["dropout"]) == ["dropout=1.0"]


def test_of_a_path_the_last_part_is_shown_and_two_that_share_it_stay_apart():
    facts = {run: {"finetune.teacher": f"/runs/{run}/large-0-1", "facts.finetune_teacher": run} for run in ("a", "b")}
    assert arms.setting_texts(facts["a"], ["finetune.teacher"]) == ["teacher=large-0-1"]
    labels = arms.distinguish({"a": "base teacher=large-0-1", "b": "base teacher=large-0-1"}, facts)
    assert len(set(labels.values())) == 2


def test_distinguish_adds_the_scale_first():
    facts = {"r1": {"scale_name": "tiny", "model.hidden_size": "128"}, "r2": {"scale_name": "mini", "model.hidden_size": "256"}}
    assert arms.distinguish({"r1": "base", "r2": "base"}, facts) == {"r1": "base scale=tiny", "r2": "base scale=mini"}


def test_keys_of_one_short_name_are_written_whole():
    facts = {
        "r1": {"finetune.learning_rate": "1", "pretrain.learning_rate": "1"},
        "r2": {"finetune.learning_rate": "1", "pretrain.learning_rate": "2"},
        "r3": {"finetune.learning_rate": "2", "pretrain.learning_rate": "1"},
    }
    assert arms.distinguish(dict.fromkeys(facts, "base"), facts) == {
        "r1": "base finetune.learning_rate=1 pretrain.learning_rate=1",
        "r2": "base finetune.learning_rate=1 pretrain.learning_rate=2",
        "r3": "base finetune.learning_rate=2 pretrain.learning_rate=1",
    }


def test_missing_key_and_a_value_that_reads_like_it_are_told_apart():
    seen = arms.distinguish({"r1": "base", "r2": "base"}, {"r1": {"a": "-"}, "r2": {}})
    assert len(set(seen.values())) == 2


def test_label_that_a_stranger_has_already_is_told_apart():
    facts = {"r1": {"a": "1"}, "r2": {"a": "2"}, "r3": {"a": "3"}}
    seen = arms.distinguish({"r1": "base", "r2": "base", "r3": "base a=1"}, facts)
    assert len(set(seen.values())) == 3


@pytest.mark.long
def test_random_arms_share_a_label_only_if_their_facts_agree():
    """Few labels, keys and values, so that they clash in every way."""
    rng = random.Random(0)
    keys = ("a", "b.a", "scale_name", "facts.rows")
    for _ in range(2000):
        runs = [f"r{index}" for index in range(rng.randint(2, 6))]
        facts = {run: {key: rng.choice("12-") for key in keys if rng.random() < 0.7} for run in runs}
        labels = {run: rng.choice(["base", "base a=1", "base a=2", "base scale=1"]) for run in runs}
        apart = arms.distinguish(labels, facts)
        for one in runs:
            for other in runs:
                alike = (labels[one], facts[one]) == (labels[other], facts[other])
                assert apart[one] != apart[other] or facts[one] == facts[other]
                assert not alike or apart[one] == apart[other]


def test_the_objective_of_a_run_is_that_of_its_phases_as_its_config_has_it():
    phases = [ObjectiveName.clm, ObjectiveName.mlm]
    config = ObjectiveConfig(ObjectiveName.mlm, phases=phases)
    params = {"pretrain.objective": "mlm", "pretrain.phases": str([phase.name for phase in phases])}
    assert arms.objective(params) == config.title == "clm-mlm"
    assert arms.objective({"pretrain.objective": "mlm"}) == ObjectiveConfig(ObjectiveName.mlm).title == "mlm"
    assert arms.objective({}) is None
