"""Phases as they are typed: what the run is, what it is called, and what is refused."""

import pytest

from harness.config.resolve import Found, resolve
from harness.errors import InputError

RUN = ("task=none", "scale=tiny")


def test_a_list_of_objectives_is_phases_with_equal_shares_and_a_decay_in_the_last(compose):
    (run,) = compose(*RUN, "pretrain=[clm,mlm]")
    assert run.label == "base+clm-mlm"
    assert [one.objective.value for one in run.pretrain.of_phases] == ["clm", "mlm"]
    assert (run.pretrain.objective.value, run.pretrain.shares, run.pretrain.decay_fraction) == ("mlm", [0.5, 0.5], 0.5)


def test_a_list_of_one_is_that_objective_alone(compose):
    (listed,), (alone,) = (compose(*RUN, f"pretrain={choice}") for choice in ("[clm]", "clm"))
    assert (listed.pretrain, listed.label) == (alone.pretrain, alone.label)


def test_the_objective_of_the_paper_can_be_a_phase(compose):
    (run,) = compose(*RUN, "pretrain=[clm,own]", "model=roberta")
    assert run.pretrain.title == "clm-mlm"


def test_in_a_sweep_shares_name_the_arms_that_have_phases(compose):
    runs = compose("-m", *RUN, "pretrain=mlm,[clm,mlm]", "pretrain.shares=[0.25,0.75],[0.5,0.5]")
    labels = [resolve(run, Found()).label for run in runs]
    assert labels == ["base+mlm", "base+mlm", "base+clm-mlm shares=[0.25,0.75]", "base+clm-mlm"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain=[clm,mlm]", "pretrain.shares=[1.0]"], r"pretrain.shares=\[1.0\] must be 2 shares with a sum of 1, one for"),
        (["pretrain=[clm,mlm]", "pretrain.shares=[0.5,0.6]"], r"pretrain.shares=\[0.5, 0.6\] must be 2 shares with a sum of 1"),
        (
            ["pretrain=[clm,mlm]", "pretrain.shares=[0,1]"],
            r"pretrain.shares=\[0.0, 1.0\] must be numbers above 0 and at most 1",
        ),
        (["pretrain=[clm,none]"], r"pretrain.phases=\[clm,none\]: none is no phase; expected objectives without a teacher"),
        (["pretrain=[distillation,mlm]"], "distillation is no phase"),
        (["pretrain=mlm", "pretrain.phases=[mlm,clm]"], r"must end with pretrain=mlm: expected pretrain=\[mlm,clm\]"),
        (
            ["pretrain=[clm,mlm]", "pretrain.decay_fraction=0.6"],
            "decay_fraction=0.6 must be at most 0.5, the share of the last",
        ),
        (["pretrain=[clm,mlm]", "pretrain.steps=1"], "pretrain.steps=1 leaves no step to mlm"),
        (["pretrain=[nothing,mlm]"], "nothing"),
        (["pretrain=[clm,nothing]"], "unknown pretrain 'nothing'"),
        (["pretrain=mlm", "pretrain.shares=[0.5,0.5]"], r"no run of this command has phases: add pretrain=\[clm,mlm\]"),
    ],
)
def test_what_cannot_be_phases_is_one_line(compose, arguments, message):
    with pytest.raises(InputError, match=message) as error:
        compose(*RUN, *arguments)
    assert "\n" not in str(error.value)
