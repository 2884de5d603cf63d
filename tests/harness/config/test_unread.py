"""Keys of a part that no run reads are refused before anything is written."""

import pytest

from harness.config.compose import main
from harness.config.resolve import Found, resolve
from harness.config.schema import FinetuneConfig
from harness.errors import InputError


def compose(*arguments: str) -> list:
    """The runs that the command line composes."""
    found: list = []
    main(["task=bag", *arguments], lambda runs: found.extend(runs) or 0)
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-m", "pretrain.mask_rate=0.15,0.4"],
            "pretrain.mask_rate=0.15,0.4 has no effect.*no run .* pretrains: add pretrain=mlm",
        ),
        (["pretrain.tokens=1e6"], "add pretrain=mlm"),
        (["-m", "search.trials=3,4"], "no run of this command searches for settings: add search=rate"),
        (["match.to=albert"], "no run of this command is resized: add match=params"),
        (
            ["-m", "finetune.optimizer=sgd,adafactor", "finetune.adam_eps=1e-6,1e-8"],
            "finetune.adam_eps=1e-6,1e-8 has no effect, because no run of this command reads it: add finetune.optimizer=adamw",
        ),
        (["pretrain=mlm", "pretrain.optimizer=sgd", "pretrain.adam_betas=[0.9,0.98]"], "add pretrain.optimizer=adamw"),
        (["pretrain.adam_betas=[0.9,0.98]"], "no run of this command pretrains: add pretrain=mlm"),
        (
            ["finetune.seconds=9", "finetune.epochs=3"],
            "finetune.epochs=3 has no effect, because no run of this command trains by epochs: add finetune.seconds=null",
        ),
        (["pretrain.from=FOLDER", "pretrain.mask_rate=0.4"], "the pretraining is that of pretrain.from=FOLDER"),
    ],
)
def test_key_of_a_part_that_no_run_reads(arguments, message):
    with pytest.raises(InputError, match=message):
        compose(*arguments)


def test_key_that_one_run_of_a_sweep_reads_is_fine():
    runs = compose("-m", "pretrain=none,mlm", "pretrain.mask_rate=0.4")
    assert [run.pretrain.mask_rate for run in runs if run.pretrain.objective.value == "mlm"] == [0.4]
    assert len(runs) == 2


def test_weights_of_a_run_read_where_they_are_and_after_how_many_tokens():
    (run,) = compose("pretrain.from=FOLDER", "pretrain.at=1e6")
    assert (run.pretrain.checkpoint, run.pretrain.at) == ("FOLDER", 1e6)


def test_parts_of_a_command_that_reads_them():
    assert len(compose("-m", "model=base,albert", "match=params", "match.tolerance=0.5", "search=rate", "search.trials=3")) == 2


def test_epochs_of_a_recipe_are_not_read_beside_seconds_and_name_no_arm():
    (recipe,) = compose("finetune=glue_roberta", "finetune.seconds=9")
    assert recipe.finetune.epochs == 10
    assert resolve(recipe, Found()).finetune.epochs == FinetuneConfig().epochs
    assert [one.label for one in compose("-m", "finetune.seconds=9,18")] == ["base seconds=9", "base seconds=18"]
