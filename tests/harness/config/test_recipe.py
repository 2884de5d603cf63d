"""Where `recipe=small` is refused, and what is said of models that it was not seen at."""

import pytest

from harness.config.recipe import note_on_scale
from harness.errors import InputError

GOES_ON = ("task=none", "scale=tiny", "pretrain=mlm", "model.init_from=published")


def test_published_weights_are_not_trained_on_at_the_rate_for_random_ones(compose):
    with pytest.raises(InputError, match=r"recipe=small is for .*model\.init_from=published: add recipe=bert, or set"):
        compose(*GOES_ON)


@pytest.mark.parametrize("more", ["recipe=bert", "pretrain.learning_rate=5e-5", "pretrain.learning_rate=2e-3"])
def test_published_weights_are_trained_on_where_the_user_chooses_how(compose, more):
    (run,) = compose(*GOES_ON, more)
    assert run.model.init_from == "published"


def test_the_recipe_is_no_matter_where_nothing_is_pretrained(compose):
    (run,) = compose("task=bag", "scale=tiny", "model.init_from=published")
    assert run.model.init_from == "published"


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        (["scale=tiny"], False),
        (["scale=mini_bert"], False),
        (["scale=mini"], True),
        (["scale=tiny", "model.num_hidden_layers=4"], True),
        (["scale=tiny", "model.hidden_size=256"], True),
        (["scale=mini", "recipe=bert"], False),
        (["scale=mini", "pretrain.learning_rate=1e-3"], False),
        (["scale=mini", "model.init_from=published", "pretrain.learning_rate=2e-3"], False),
    ],
)
def test_models_that_the_recipe_was_not_seen_at_are_named(compose, given, is_said):
    (run,) = compose("task=none", "pretrain=mlm", *given)
    said = note_on_scale(run)
    assert (said is not None) == is_said
    if is_said:
        assert f"here L{run.model.depth} H{run.model.hidden_size}" in said


def test_nothing_is_said_where_nothing_is_pretrained(compose):
    (run,) = compose("task=bag", "scale=base")
    assert note_on_scale(run) is None
