"""Arms of a report: what a command swept and what `--along` adds is compared, and nothing else is ever mixed up."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from harness.comparison import labels
from harness.comparison.compare import Comparison, compare
from harness.comparison.runs import Run
from harness.errors import InputError
from harness.plugins.chapters import pretraining
from harness.reports.__main__ import main

DTYPE, RATE = "hardware.dtype", "finetune.learning_rate"


def rows(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """(task, labels) of every section."""
    return [(section.task, [row.label for row in section.rows]) for section in comparison.sections]


def swept(*keys: str) -> str:
    return json.dumps(list(keys))


def test_what_one_command_sweeps_is_compared(make_run):
    runs = [make_run("base dtype=fp32", params={DTYPE: "fp32"}, lifted=swept(DTYPE))]
    runs.append(make_run("base dtype=bf16", params={DTYPE: "bf16"}, lifted=swept(DTYPE)))
    assert rows(compare("s", runs, "base dtype=fp32")) == [("sst2", ["base dtype=fp32", "base dtype=bf16"])]


def test_swept_objective_keeps_both_arms(make_run):
    """They had the same name once, and the older arm was called superseded."""
    runs = [make_run("base+mlm", params={"pretrain.mask_rate": rate}) for rate in ("0.15", "0.4")]
    result = compare("s", runs, "base+mlm mask_rate=0.15")
    assert rows(result) == [("sst2", ["base+mlm mask_rate=0.15", "base+mlm mask_rate=0.4"])]
    assert result.superseded == []


def test_key_swept_by_one_command_is_lifted_for_all_of_the_task(make_run):
    runs = [make_run("albert", params={RATE: "5e-4"})]
    runs += [make_run(f"base learning_rate={rate}", params={RATE: rate}, lifted=swept(RATE)) for rate in ("1e-4", "3e-4")]
    runs += [make_run("base", params={RATE: "3e-4"}, task="cola")]
    assert rows(compare("s", runs)) == [
        ("sst2", ["albert learning_rate=5e-4", "base learning_rate=1e-4", "base learning_rate=3e-4"]),
        ("cola", ["base"]),
    ]


def test_one_arm_of_two_commands_is_one_row(make_run):
    """One of the commands did not sweep the key, so that its name lacks it."""
    runs = [make_run("base learning_rate=3e-4", 1, params={RATE: "3e-4"}, lifted=swept(RATE))]
    runs += [make_run("base learning_rate=1e-4", 1, params={RATE: "1e-4"}, lifted=swept(RATE))]
    runs += [make_run("base", 2, params={RATE: "3e-4"})]
    section = compare("s", runs, "base learning_rate=3e-4").sections[0]
    assert {row.label: [one.seed for one in row.by_replicate] for row in section.rows} == {
        "base learning_rate=3e-4": ["1", "2"],
        "base learning_rate=1e-4": ["1"],
    }


def test_arms_of_two_tasks_are_told_apart_by_their_model(make_run):
    """No average over tasks may mix two shapes."""
    runs = [make_run(task=task, params={"model.attention_window": width}) for task, width in (("sst2", "8"), ("cola", "16"))]
    result = compare("s", runs, "base attention_window=8")
    assert rows(result) == [("sst2", ["base attention_window=8"]), ("cola", ["base attention_window=16"])]


def test_facts_that_depend_on_the_task_do_not_part_an_arm(make_run):
    runs = [
        make_run(task=task, params={"facts.weights": task, "task.max_length": length})
        for task, length in (("sst2", "8"), ("cola", "9"))
    ]
    assert rows(compare("s", runs)) == [("sst2", ["base"]), ("cola", ["base"])]


def start(make_run, recipe: str, **more: str) -> Run:
    """A fine-tuning that starts from the pretraining of this recipe."""
    return make_run("base+mlm", params={"facts.recipe": recipe * 16}, fingerprint=recipe, pretrain_seed="0", **more)


def test_code_of_the_pretraining_that_changed_supersedes_as_any_other_code(make_run, pretrained):
    """Both pretrainings have the same settings; the runs that start from the newer one count."""
    old, new = (pretrained(recipe=recipe * 16, fingerprint=recipe) for recipe in "ab")
    starts = [start(make_run, recipe) for recipe in "ab"]
    result = compare("s", [old, new, *starts])
    assert rows(result) == [("pretraining", ["base+mlm"]), ("sst2", ["base+mlm"])]
    assert [run.run_id for run in result.superseded] == [old.run_id, starts[0].run_id]


def test_recipes_of_other_settings_are_other_arms(make_run, pretrained):
    """Of pretrainings that `pretrain.from` names, the recipe alone says what they were."""
    runs = [pretrained(recipe=recipe * 16, params={"pretrain.tokens": budget}) for recipe, budget in (("a", "1"), ("b", "2"))]
    runs += [start(make_run, recipe) for recipe in "abc"]
    result = compare("s", runs, "base+mlm recipe=aaaaaaaa")
    assert rows(result)[-1] == ("sst2", [f"base+mlm recipe={recipe * 8}" for recipe in "abc"])
    assert result.superseded == []


def test_arm_of_a_command_that_did_not_sweep_says_its_value_unless_it_is_the_default(make_run):
    """`base` without a setting is the fp32 of the sweep; an albert of another command may be of either."""
    runs = [make_run(params={DTYPE: "fp32"}, lifted=swept(DTYPE))]
    runs += [make_run("base dtype=bf16", params={DTYPE: "bf16"}, lifted=swept(DTYPE))]
    runs += [make_run("albert", params={DTYPE: "fp32"}), make_run("gpt", params={DTYPE: "bf16"})]
    assert rows(compare("s", runs)) == [("sst2", ["base", "albert", "base dtype=bf16", "gpt dtype=bf16"])]


def test_names_that_the_user_chose_stay_apart(make_run):
    """Of the same settings, before and after a change of the code."""
    runs = [make_run(name, model="base") for name in ("before", "after")]
    assert rows(compare("s", runs, "before")) == [("sst2", ["before", "after"])]


def test_commands_of_different_conditions_meet_along_the_key(make_run):
    runs = [make_run(name, params={DTYPE: dtype}) for dtype in ("fp32", "bf16") for name in ("base", "albert")]
    assert len(compare("s", runs).sections) == 2
    along = compare("s", runs, "base dtype=fp32", [DTYPE])
    assert rows(along) == [("sst2", ["base dtype=fp32", "albert dtype=bf16", "albert dtype=fp32", "base dtype=bf16"])]


def test_group_is_lifted_whole_and_names_what_varies(make_run):
    known = {DTYPE: "fp32", "hardware.threads": "1", "hardware.compile": "False"}
    runs = [make_run(params=known | more) for more in ({}, {DTYPE: "bf16"}, {DTYPE: "bf16", "hardware.threads": "2"})]
    result = compare("s", runs, "base dtype=fp32 threads=1", ["hardware"])
    names = ["base dtype=fp32 threads=1", "base dtype=bf16 threads=1", "base dtype=bf16 threads=2"]
    assert rows(result) == [("sst2", names)]
    assert rows(compare("s", runs, "base dtype=fp32 threads=1", ["hardware."])) == rows(result)


def test_value_that_a_label_names_already_is_not_repeated(make_run):
    runs = [make_run("base dtype=bf16", params={DTYPE: "bf16"}, lifted=swept(DTYPE)), make_run(params={DTYPE: "fp32"})]
    assert rows(compare("s", runs, "base dtype=fp32", [DTYPE])) == [("sst2", ["base dtype=fp32", "base dtype=bf16"])]


def test_key_of_along_that_does_not_vary_is_not_named(make_run):
    runs = [make_run(name, params={DTYPE: "fp32", RATE: "1"}) for name in ("base", "albert")]
    assert rows(compare("s", runs, along=[DTYPE, RATE])) == [("sst2", ["base", "albert"])]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("hardware.dtyp", "did you mean 'hardware.dtype'?"),
        ("dtype", "did you mean 'hardware.dtype'?"),
        ("hardwar", "choices for `along`: hardware"),
        ("seed", "seeds are replicates, never compared"),
        ("output", "unknown setting of these runs 'output'"),
    ],
)
def test_unknown_key_of_along_is_one_clear_error(make_run, key: str, message: str):
    run = make_run(params={DTYPE: "fp32", "hardware.threads": "1", "output": "multirun"})
    with pytest.raises(InputError, match=message):
        compare("s", [run], along=[key])


@pytest.mark.long
def test_along_in_a_real_store(tracking, capsys):
    for dtype in ("fp32", "bf16"):
        for arm in ("base", "albert"):
            tracking.log(arm, params={DTYPE: dtype})
    assert main(["--out", "here"]) == 0
    apart = Path("here/report.md").read_text()
    assert "| hardware.dtype | fp32 | bf16 | `along=hardware.dtype` |" in apart
    assert "`python -m reports along=hardware.dtype` compares them in one table." in apart
    assert main(["--out", "here", "--along", DTYPE, "--baseline", "base dtype=fp32"]) == 0
    together = Path("here/report.md").read_text()
    assert together.count(": before and after") == 1
    rows = [line.partition(" |")[0] for line in together.splitlines() if " dtype=" in line and line.startswith("| ")]
    assert rows[:4] == ["| base dtype=fp32", "| albert dtype=bf16", "| albert dtype=fp32", "| base dtype=bf16"]
    assert "sets of conditions" not in together
    capsys.readouterr()
    assert main(["--along", "hardwar.dtype"]) == 2
    assert "did you mean 'hardware.dtype'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arms", "name", "baseline"),
    [
        (["base", "base dtype=bf16"], "base", "base"),
        (["base dtype=bf16", "albert"], "base", "base dtype=bf16"),
        (["base dtype=bf16 threads=2", "base dtype=bf16"], "base", "base dtype=bf16"),
        (["base+mlm", "base+mlm mask_rate=0.4"], "base", "base+mlm"),
        (["albert", "base"], "albert", "albert"),
    ],
)
def test_baseline_is_the_label_or_the_arm_of_that_model_with_the_fewest_settings(make_run, arms, name, baseline):
    runs = [make_run(arm, params={"model.number": str(index)}) for index, arm in enumerate(arms)]
    assert compare("s", runs, name).baseline == baseline


def test_baseline_that_fits_two_arms_lists_them(make_run):
    runs = [make_run(f"base dtype={dtype}", params={DTYPE: dtype}, lifted=swept(DTYPE)) for dtype in ("fp32", "bf16")]
    with pytest.raises(InputError, match="could be base dtype=fp32 or base dtype=bf16; choose one with baseline=NAME"):
        compare("s", runs)


def test_baseline_with_settings_is_compared_with_the_pretraining_that_has_none(make_run, pretrained):
    """A key of fine-tuning is swept: it is in the names of the tasks' arms alone."""
    runs = [pretrained(arm) for arm in ("base+mlm", "base+rtd")]
    runs += [make_run("base+mlm learning_rate=1", params={RATE: "1"}, lifted=swept(RATE))]
    runs += [make_run("base+rtd learning_rate=1 dtype=bf16", params={RATE: "1"}, lifted=swept(RATE))]
    for name in (None, "base+mlm", "base+mlm learning_rate=1"):
        result = compare("s", runs, name)
        assert [section.baseline for section in result.sections] == ["base+mlm", "base+mlm learning_rate=1"]
        assert "was not pretrained" not in "".join(pretraining.notes(result, result.sections[0]))


def test_key_of_along_that_a_run_lacks_is_not_named(make_run, pretrained):
    runs = [pretrained("base+mlm"), *(make_run("base+mlm", params={DTYPE: dtype}) for dtype in ("fp32", "bf16"))]
    result = compare("s", runs, "base+mlm dtype=fp32", [DTYPE])
    assert rows(result) == [("pretraining", ["base+mlm"]), ("sst2", ["base+mlm dtype=fp32", "base+mlm dtype=bf16"])]


def test_settings_and_stem_of_a_label():
    assert (labels.settings("albert+mlm mask_rate=0.4 dtype=bf16"), labels.settings("base")) == (2, 0)
    assert labels.stem("albert+mlm mask_rate=0.4 dtype=bf16") == "albert+mlm"


KEYS = ("model.window", "scale_name", "pretrain.mask_rate", DTYPE, RATE, "facts.rows", "task.max_length")


def random_run(rng: random.Random, make_run) -> Run:
    """Of few names, values, seeds and swept keys, so that runs clash in every way."""
    params = {key: rng.choice("12") for key in KEYS if rng.random() < 0.9}
    more = {"task": rng.choice(["sst2", "cola"]), "lifted": swept(*rng.sample(KEYS, rng.randint(0, 2)))}
    more |= {"pretrain_seed": rng.choice("12")} if rng.random() < 0.5 else {}
    name = rng.choice(["base", "base dtype=1", "base dtype=2", "base window=1", "albert"])
    return make_run(name, rng.choice((0, 1)), params=params, fingerprint=rng.choice("ab"), **more)


def places(runs: list[Run], make_run, along: list[str]) -> dict[str, tuple]:
    """Run id -> section, label and seeds, of superseded runs too."""
    bystander = make_run("bystander", task="rte")  # the baseline, which no random name fits
    result, found = compare("s", [*runs, bystander], "bystander", along), {}
    for number, section in enumerate(result.sections):
        for row in section.rows:
            for run in [*row.runs, *row.superseded]:
                found[run.run_id] = number, section.task, row.label, run.replicate
    return found


def random_along(rng: random.Random, runs: list[Run]) -> list[str]:
    known = sorted({key for run in runs for key in run.facts if key in KEYS})
    return rng.sample(known, min(len(known), rng.choice((0, 0, 1, 2))))


@pytest.mark.long
def test_two_random_runs_share_arm_task_seeds_and_conditions_only_if_their_facts_agree(make_run):
    """Of half of the pairs one is the other with at most one setting changed, or hardly any two would agree."""
    rng = random.Random(1)
    shared = apart = 0
    for _ in range(1000):
        one = random_run(rng, make_run)
        other = random_run(rng, make_run)
        if rng.random() < 0.5:
            changed = {rng.choice(KEYS): rng.choice("123")} if rng.random() < 0.7 else {}
            other = replace(one, run_id=other.run_id, started=other.started, params=one.params | changed)
        found = places([one, other], make_run, random_along(rng, [one, other]))
        alike = found[one.run_id] == found[other.run_id]
        assert not alike or (one.facts, one.replicate, one.task) == (other.facts, other.replicate, other.task)
        shared, apart = shared + alike, apart + (not alike)
    assert min(shared, apart) > 100


@pytest.mark.long
def test_random_runs_are_kept_and_superseded_only_by_their_like(make_run):
    """Many runs at once, where names, swept keys and values of some change the labels of others."""
    rng = random.Random(2)
    superseded = 0
    for _ in range(100):
        runs = [random_run(rng, make_run) for _ in range(10)]
        runs += [replace(run, run_id=f"{run.run_id}b", started=10**9) for run in runs[:3]]
        found = places(runs, make_run, random_along(rng, runs))
        assert {run.run_id for run in runs} <= set(found)
        by_place: dict[tuple, list[Run]] = {}
        for run in runs:
            by_place.setdefault(found[run.run_id], []).append(run)
        assert all(len({json.dumps(run.facts, sort_keys=True) for run in group}) == 1 for group in by_place.values())
        superseded += len(runs) - len(by_place)
    assert superseded >= 300


@pytest.mark.parametrize(
    ("arm", "others", "expected"),
    [
        (
            "base+mlm",
            ["base+mlm mask_rate=0.4", "base+mlm mask_rate=0.4 masked_share=1.0"],
            ["mask_rate=0.3", "masked_share=null"],
        ),
        ("base+mlm", ["base+mlm pretrain.mask_rate=0.4"], ["mask_rate=0.3"]),
        ("base+mlm mask_rate=0.3", ["base+mlm mask_rate=0.4"], []),
        ("base+mlm", ["albert+mlm"], []),
        ("base+mlm", ["base+mlm learning_rate=1e-3"], []),
    ],
    ids=str,
)
def test_the_settings_that_only_other_labels_name_are_those_of_swept_keys(make_run, arm, others, expected):
    params = {"pretrain.mask_rate": "0.3", "pretrain.masked_share": "None", RATE: "3e-4"}
    run = make_run(arm, params=params, lifted=swept("pretrain.mask_rate", "pretrain.masked_share"))
    assert labels.unnamed_settings(run, others) == expected


def test_a_default_that_runs_do_not_record_is_said(make_run):
    run = make_run("base", params={RATE: "3e-4"}, lifted=swept("finetune.trains", "finetune.freeze_layers"))
    assert labels.unnamed_settings(run, ["base trains=lora", "base freeze_layers=3"]) == ["trains=all", "freeze_layers=null"]


def test_a_default_is_said_as_a_command_takes_it(make_run):
    run = make_run("base", params={"task.shuffled_words": "False"}, lifted=swept("task.shuffled_words"))
    assert labels.unnamed_settings(run, ["base shuffled_words=true"]) == ["shuffled_words=false"]
