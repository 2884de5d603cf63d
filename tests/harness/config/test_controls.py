"""`sweep.control=true`: the first arm with random weights joins a study of pretraining, on its tasks and with its seeds."""

import pytest

from harness.models.objectives.config import ObjectiveName

BAG = ("-m", "model=albert,base", "task=bag,order", "seed=1,2")


def of_arm(runs: list, label: str) -> list[tuple[str, int]]:
    return sorted((run.task.name, run.seed) for run in runs if run.label == label)


@pytest.mark.long
@pytest.mark.parametrize("more", [["pretrain=mlm"], ["pretrain=mlm,rtd", "pretrain.tokens=1e5", "pretrain.mask_rate=0.2,0.3"]])
def test_one_command_contains_the_first_arm_with_random_weights(compose, more):
    runs, plain = compose(*BAG, *more, "sweep.control=true"), compose(*BAG, *more)
    controls = [run for run in runs if run.model.random_weights]
    assert of_arm(runs, "albert random_weights=true") == [("bag", 1), ("bag", 2), ("order", 1), ("order", 2)]
    assert (len(runs), len(controls)) == (len(plain) + 4, 4)
    assert {run.pretrain.objective for run in controls} == {ObjectiveName.none}
    assert [run.label for run in runs[: len(plain)]] == [run.label for run in plain]  # the first arm stays the first


@pytest.mark.long
def test_it_has_the_shape_of_the_arm_and_is_composed_again_by_what_it_says(compose):
    *_, control = compose(*BAG, "pretrain=mlm", "model.hidden_size=64", "model.num_attention_heads=4", "sweep.control=true")
    (again,) = compose(*control.overrides, "seed=2")
    assert (again.label, again.model, again.pretrain, again.seed) == (control.label, control.model, control.pretrain, 2)
    assert control.model.hidden_size == 64


@pytest.mark.long
def test_of_weights_it_keeps_their_tokenizer(compose):
    given = ["-m", "model=minilm", "task=bag", "model.num_hidden_layers=1,2", "finetune.learning_rate=1e-4"]
    first, *_, control = compose(*given, "sweep.control=true")
    assert (control.label, control.model.num_hidden_layers) == ("minilm num_hidden_layers=1 random_weights=true", 1)
    assert (control.tokenizer, control.model.init_from) == (first.tokenizer, first.model.init_from)


@pytest.mark.long
def test_seeds_that_are_added_are_added_to_it(compose):
    runs = compose(*BAG, "pretrain=mlm", "sweep.control=true", "sweep.until=resolved", "sweep.most_seeds=4")
    assert of_arm(runs, "albert random_weights=true") == [(task, seed) for task in ("bag", "order") for seed in (1, 2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("before_after", "base random_weights=true"),
        ("along_pretraining", "base random_weights=true"),
        ("objectives", "base random_weights=true"),
        ("context", "base random_weights=true"),
        ("compress", "minilm random_weights=true"),
        ("from_scratch", "base"),
    ],
)
def test_a_named_study_of_pretraining_has_its_control(compose, name, control):
    runs = compose(f"+experiment={name}", "data.root=data")
    tasks = {run.task.name for run in runs}
    assert of_arm(runs, control) == sorted((task, seed) for task in tasks for seed in {run.seed for run in runs})
    assert {run.pretrain.objective for run in runs if run.label == control} == {ObjectiveName.none}
