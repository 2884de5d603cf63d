"""Keys of a part that no run reads are refused before anything is written."""

import inspect

import pytest

from harness.config.choices import Optimizer
from harness.config.compose import main
from harness.config.conditions import WITH_BETAS, WITH_EPS
from harness.config.resolve import Found, resolve
from harness.config.schema import FinetuneConfig
from harness.errors import InputError
from harness.training.optimiser import KINDS


def compose(*arguments: str) -> list:
    """The runs that the command line composes."""
    found: list = []
    task = [] if any(word.startswith("task=") for word in arguments) else ["task=bag"]
    main([*task, *arguments], lambda runs: found.extend(runs) or 0)
    return found


@pytest.mark.long
def test_key_that_one_run_of_a_sweep_reads_is_fine():
    runs = compose("-m", "pretrain=none,mlm", "pretrain.mask_rate=0.4")
    assert [run.pretrain.mask_rate for run in runs if run.pretrain.objective.value == "mlm"] == [0.4]
    assert len(runs) == 2


@pytest.mark.long
def test_weights_of_a_run_read_where_they_are_and_after_how_many_tokens():
    (run,) = compose("pretrain.from=FOLDER", "pretrain.at=1e6")
    assert (run.pretrain.checkpoint, run.pretrain.at) == ("FOLDER", 1e6)


@pytest.mark.long
def test_parts_of_a_command_that_reads_them():
    assert len(compose("-m", "model=base,albert", "match=params", "match.tolerance=0.5", "search=rate", "search.trials=3")) == 2


@pytest.mark.long
def test_epochs_of_a_recipe_are_not_read_beside_seconds_and_name_no_arm():
    (recipe,) = compose("finetune=glue_roberta", "finetune.seconds=9")
    assert recipe.finetune.epochs == 10
    assert resolve(recipe, Found()).finetune.epochs == FinetuneConfig().epochs
    assert [one.label for one in compose("-m", "finetune.seconds=9,18")] == ["base seconds=9", "base seconds=18"]


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["corpus=builtin", "data=hub", "recipe=small", "match=none", "search=none", "pretrain=none"],  # the defaults
        ["-m", "task=bag,sst2", "data=local", "data.root=/data"],
        ["-m", "pretrain=none,mlm", "corpus=wikitext", "recipe=bert", "data=local"],
        ["tokenizer.trained_on=corpus", "corpus=wikitext"],
        ["+experiment=activations", "pretrain=none"],  # which chooses data=local and a corpus
    ],
)
def test_choices_that_are_defaults_or_of_a_file_or_read_by_one_run_are_fine(words):
    assert compose(*words)


@pytest.mark.long
def test_one_arm_that_reads_a_key_is_enough_and_what_is_swept_need_be_read():
    assert len(compose("-m", "pretrain=clm,rtd", "pretrain.generator_fraction=0.5")) == 2
    assert compose("measure=none", "measure.repeats=3")  # names no arm
    with pytest.raises(InputError, match=r"^measure.repeats=3,4 has no effect, because no run of this command is timed"):
        compose("-m", "measure=none", "measure.repeats=3,4")


@pytest.mark.long
def test_what_an_experiment_sweeps_is_read_or_refused(tmp_path):
    (tmp_path / "experiment").mkdir()
    swept = "hydra:\n  mode: MULTIRUN\n  sweeper: {params: {pretrain.mask_rate: '0.1,0.3'}}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\npretrain: {{ramp_fraction: 0.2}}\n{swept}")
    given = ["--config-dir", str(tmp_path), "+experiment=mine"]
    with pytest.raises(InputError, match=r"^pretrain.mask_rate has no effect, because no run .* predicts masked tokens"):
        compose(*given, "pretrain=clm")
    assert len(compose(*given, "pretrain=mlm")) == 2


@pytest.mark.parametrize(("option", "optimizers"), [("betas", WITH_BETAS), ("eps", WITH_EPS)])
def test_options_of_an_optimizer_are_those_that_its_class_takes(option, optimizers):
    taking = {one for one in Optimizer if option in inspect.signature(KINDS[one.value]).parameters}
    assert {*optimizers} == taking - ({Optimizer.adafactor} if option == "eps" else set())  # whose eps are other bounds
