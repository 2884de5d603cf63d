"""Where `recipe=small` is refused, what is said of models that it was not seen at, and rates that follow from the start."""

from pathlib import Path

import pytest
import yaml

from harness.config.resolve import note_on_scale
from harness.paths import conf_directory

GOES_ON = ("task=none", "scale=tiny", "pretrain=mlm", "model.init_from=published")


@pytest.mark.long
@pytest.mark.parametrize("more", ["recipe=bert", "pretrain.learning_rate=5e-5", "pretrain.learning_rate=2e-3"])
def test_published_weights_are_trained_on_where_the_user_chooses_how(compose, more):
    (run,) = compose(*GOES_ON, more)
    assert run.model.init_from == "published"


@pytest.mark.long
def test_the_recipe_is_no_matter_where_nothing_is_pretrained(compose):
    (run,) = compose("task=bag", "scale=tiny", "model.init_from=published")
    assert run.model.init_from == "published"


POSITIONS = ("-m", "task=none", "scale=tiny", "pretrain=mlm", "model.position=learned,sinusoidal")


@pytest.mark.long
@pytest.mark.parametrize("more", ["pretrain.neighbour_heads=false", "pretrain.neighbour_heads=true", "recipe=bert"])
def test_positions_are_compared_where_the_start_is_chosen(compose, more):
    learned, sinusoidal = compose(*POSITIONS, more)
    assert learned.pretrain.neighbour_heads == sinusoidal.pretrain.neighbour_heads == ("true" in more)


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        (["scale=tiny"], False),
        (["scale=mini_bert"], False),
        (["scale=mini"], False),
        (["scale=small"], True),
        (["scale=mini", "model.num_hidden_layers=6"], True),
        (["scale=tiny", "model.num_hidden_layers=4"], True),
        (["scale=tiny", "model.hidden_size=256"], True),
        (["scale=small", "recipe=bert"], False),
        (["scale=small", "pretrain.learning_rate=1e-3"], False),
        (["scale=small", "model.init_from=published", "pretrain.learning_rate=5e-4"], False),
    ],
)
def test_models_that_the_recipe_was_not_seen_at_are_named(compose, given, is_said):
    (run,) = compose("task=none", "pretrain=mlm", *given)
    said = note_on_scale(run)
    assert (said is not None) == is_said
    if is_said:
        assert f"here L{run.model.depth} H{run.model.hidden_size}" in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "rate"),
    [
        (["model.init_from=published"], 5e-5),
        (["model=minilm"], 5e-5),
        (["model=minilm", "finetune=smoke"], 5e-5),
        (["model.init_from=published", "model.finetune_rate=2e-5"], 2e-5),
        (["model.init_from=published", "finetune.learning_rate=3e-4"], 3e-4),  # what is said wins
        (["model=minilm", "finetune=glue_bert"], 2e-5),
        (["model.init_from=published", "model.random_weights=true"], 3e-4),
        (["model.init_from=published", "finetune.trains=lora"], 3e-4),
        ([], 1e-3),  # that of the scale, for random weights
        (["scale=mini"], 3e-4),
        (["model.scratch_rate=2e-3"], 2e-3),
        (["pretrain=mlm"], 3e-4),
    ],
)
def test_what_a_training_starts_from_brings_its_rate_of_fine_tuning(compose, given, rate):
    (run,) = compose("task=bag", *given)
    assert run.finetune.learning_rate == rate
    assert "finetune.learning_rate" not in run.settings


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "rate", "initial"),
    [
        (["scale=mini_bert"], 2e-3, 0.07),
        (["scale=mini"], 2e-3, 0.03),
        (["scale=mini_bert", "model.hidden_size=256", "model.num_hidden_layers=6"], 2e-3, 0.07),  # arms of a scale are equal
        (["scale=mini", "pretrain.learning_rate=3e-3"], 3e-3, 0.03),
        (["scale=mini", "recipe=bert"], 3e-4, None),
    ],
)
def test_the_scale_states_its_rate_and_initial_values(compose, given, rate, initial):
    (run,) = compose("task=none", "pretrain=mlm", *given)
    assert (run.pretrain.learning_rate, run.pretrain.initializer_range) == (rate, initial)


@pytest.mark.long
def test_what_a_scale_states_is_no_setting_of_the_arm(compose):
    stated, other = compose("-m", "task=none", "pretrain=mlm", "scale=mini", "pretrain.learning_rate=2e-3,3e-3")
    assert (stated.settings, other.settings) == ({}, {"pretrain.learning_rate": "0.003"})


@pytest.mark.parametrize(
    ("name", "rates", "batches", "epochs", "decays"),
    [
        ("bert", (5e-5, 3e-5, 2e-5), (16, 32), (2, 4), (0.01,)),
        ("roberta", (1e-5, 2e-5, 3e-5), (16, 32), (1, 10), (0.1,)),
        ("modernbert", (1e-5, 3e-5, 5e-5, 8e-5), (32,), (1, 10), (1e-6, 5e-6, 8e-6, 1e-5)),
        ("minilm", (2e-5, 3e-5, 4e-5, 5e-5), (32,), (3, 5), (0.01,)),
    ],
)
def test_published_fine_tunings_are_within_what_their_papers_tried(compose, name, rates, batches, epochs, decays):
    (run,) = compose("task=bag", f"finetune=glue_{name}")
    assert run.finetune.learning_rate in rates
    assert run.finetune.batch_size in batches
    assert epochs[0] <= run.finetune.epochs <= epochs[1]
    assert run.finetune.weight_decay in decays


PUBLISHED = yaml.safe_load(Path(__file__).with_name("recipe.yaml").read_text())["published"]
"""Recipe of a published name -> section, and what its source has."""


@pytest.mark.long
@pytest.mark.parametrize("file", PUBLISHED)
def test_a_recipe_of_a_published_name_has_its_values_or_states_them_in_brackets(compose, file):
    (section, published), (group, name) = PUBLISHED[file], file.split("/")
    (run,) = compose("task=bag", "scale=tiny", f"{group}={name}", *(["pretrain=mlm"] if section == "pretrain" else []))
    said = (conf_directory() / f"{file}.yaml").read_text()
    values = {key: getattr(getattr(run, section), key) for key in published}
    unlike = {key: value for key, value in published.items() if values[key] != value}
    unstated = {
        key: (values[key], value) for key, value in unlike.items() if f"({value:g})" not in said.replace("1e-4", "0.0001")
    }
    assert not unstated
    assert set(unlike) == ({"learning_rate", "batch_size"} if name == "bert" else set())
