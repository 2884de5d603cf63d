"""A command that compares arms and names no seed runs three of each arm, and says so first; a single run stays single."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config import compose as composition
from harness.config.schema import RunConfig
from harness.study import plan_file
from harness.terminal import console

THREE = "3 seeds per arm (seed=0,1,2), as a verdict needs three; seed=0 runs one\n"
SMALL = ("scale=tiny", "task=bag")
OWN = "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {model: 'base,albert'}}}\n"


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., tuple[list[RunConfig], str]]:
    """The runs of a command that trains, and what it prints before."""
    monkeypatch.setattr(sys, "argv", ["harness"])

    def command(*arguments: str) -> tuple[list[RunConfig], str]:
        found: list[RunConfig] = []
        assert (
            composition.main(list(arguments), lambda runs: found.extend(runs) or console.plain("begins") or 0, replicates=True)
            == 0
        )
        return found, capsys.readouterr().out.removesuffix("begins\n")

    return command


@pytest.mark.long
def test_arms_have_three_seeds_in_rounds_over_all_of_them(composed):
    runs, said = composed("-m", "model=base,albert", *SMALL)
    assert [(run.label, run.seed) for run in runs] == [(arm, seed) for seed in range(3) for arm in ("base", "albert")]
    assert [run.pretrain.seed for run in runs] == [run.seed for run in runs]
    assert said == THREE


@pytest.mark.long
def test_the_recorded_command_names_the_seeds_and_runs_the_same(composed):
    runs, _ = composed("-m", "model=base,albert", *SMALL)
    assert plan_file.command() == "python -m harness -m seed=0,1,2 model=base,albert scale=tiny task=bag"
    again, said = composed(*sys.argv[1:])
    assert [(run.label, run.seed, run.overrides) for run in again] == [(run.label, run.seed, run.overrides) for run in runs]
    assert said == ""


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "arms"),
    [
        ("-m task=bag model.hidden_dropout_prob=0.1,0.2", 2),
        ("-m task=bag task.grammar.train_examples=100,200", 2),
        ("-m task=bag,order scale=tiny,mini", 2),
        ("-m task=none pretrain=mlm,clm", 2),
        ("-m task=minimal_pairs model=base,gpt", 2),  # random weights
        ("-m task=bag model=base,albert study=s${seed}", 2),
        ("-m task=bag finetune=none,standard", 2),
        ("task=bag model=minilm sweep.control=true", 2),
    ],
)
def test_every_key_but_the_task_makes_arms(composed, words, arms):
    runs, said = composed(*words.split())
    assert said == THREE
    assert len({run.label for run in runs}) == arms
    for arm in {(run.label, run.task.name) for run in runs}:
        assert [run.seed for run in runs if (run.label, run.task.name) == arm] == [0, 1, 2]


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("task=bag", 1),
        ("-m task=bag,order model=albert", 2),
        ("-m task=builtin", 3),
        ("-m task=bag model=base,albert seed=5", 2),
        ("-m task=bag model=base,albert seed=5,6", 4),
        ("-m task=bag model=base,albert pretrain=mlm pretrain.seed=1", 2),
        ("-m task=bag model=base,albert sweep.until=resolved sweep.most_seeds=4", 8),  # which adds them itself
        ("-m task=bag model=base,albert finetune=none", 2),  # measured alone
        ("-m task=stsb model.init_from=a,b finetune=none task.kind=similarity", 2),  # published weights, scored as they are
        ("-m task=bag pretrain.from=s/base-tiny-bag-1-01234567,s/base-tiny-bag-2-89abcdef finetune.trains=all,head", 4),
    ],
)
def test_a_single_arm_named_seeds_and_what_no_seed_changes_stay_as_typed(composed, words, number):
    runs, said = composed(*words.split())
    assert (len(runs), said) == (number, "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "text", "seeds"),
    [
        ("experiment/mine", OWN, [0, 0, 1, 1, 2, 2]),
        ("experiment/mine", f"{OWN}seed: 7\n", [7, 7]),
        ("experiment/mine", f"{OWN}defaults: [override /pretrain: mlm]\npretrain: {{seed: 7}}\n", [0, 0]),
        ("experiment/mine", OWN.replace("params: {", "params: {seed: '3,4', "), [3, 3, 4, 4]),
        ("recipe/mine", "# @package _global_\nseed: 7\n", [7, 7]),
    ],
)
def test_a_seed_of_a_file_is_named(composed, tmp_path, file, text, seeds):
    path = Path(tmp_path, f"{file}.yaml")
    path.parent.mkdir()
    path.write_text(text)
    group = file.partition("/")[0]
    chosen = ["+experiment=mine"] if group == "experiment" else ["-m", "model=base,albert", f"{group}=mine"]
    runs, said = composed("--config-dir", str(tmp_path), *chosen, *SMALL)
    assert [run.seed for run in runs] == seeds
    assert bool(said) == (seeds == [0, 0, 1, 1, 2, 2])


@pytest.mark.long
def test_named_studies_without_seeds_have_three_where_they_train(composed):
    assert composed("+experiment=diagnostics", "task=bag", "model=base,static")[1] == THREE
    assert composed("+experiment=length_scaling")[1] == ""
    fixed = [f"pretrain.{pair}" for pair in ("neighbour_heads=true", "initializer_range=0.07", "mask_rate=0.3")]
    assert composed("+experiment=recipe_screen", *fixed, "data.root=nowhere")[1] == ""  # a factorial design replicates itself


@pytest.mark.long
@pytest.mark.parametrize("command", [[], ["plan"]])
def test_what_is_refused_later_prints_no_seeds(command, tell):
    refused = tell(*command, "-m", "hardware.workers=1,2", *SMALL)
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.long
def test_a_study_of_one_seed_gets_the_two_that_it_lacks(run_harness, small, output):
    command = ["-m", *small, "model=base,static", "finetune.max_steps=2", "measure=none", "tracking=none", "study=s"]
    one = run_harness(*command, "seed=0", f"output={output}")
    assert "only 1 seed; verdicts need 3" in one.stdout
    three = run_harness(*command, f"output={output}")
    assert (three.returncode, three.stdout.startswith(THREE), "only 1 seed" in three.stdout) == (0, True, False)
    assert (three.stdout.count("finished already, skipped"), three.stdout.count(": finished in ")) == (2, 4)


def test_quiet_commands_do_not_say_it(capsys):
    with console.quiet(True), console.headed(THREE):
        console.result("results")
    console.plain("later")
    assert capsys.readouterr().out == "results\nlater\n"
