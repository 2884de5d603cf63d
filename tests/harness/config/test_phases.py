"""Phases as they are typed: what the run is, what it is called, and what is refused."""

import pytest

from harness.config.resolve import Found, resolve

RUN = ("task=none", "scale=tiny")


@pytest.mark.long
def test_a_list_of_objectives_is_phases_with_equal_shares_and_a_decay_in_the_last(compose):
    (run,) = compose(*RUN, "pretrain=[clm,mlm]")
    assert run.label == "base+clm-mlm"
    assert [one.objective.value for one in run.pretrain.of_phases] == ["clm", "mlm"]
    assert (run.pretrain.objective.value, run.pretrain.shares, run.pretrain.decay_fraction) == ("mlm", [0.5, 0.5], 0.5)


@pytest.mark.long
def test_a_list_of_one_is_that_objective_alone(compose):
    (listed,), (alone,) = (compose(*RUN, f"pretrain={choice}") for choice in ("[clm]", "clm"))
    assert (listed.pretrain, listed.label) == (alone.pretrain, alone.label)


@pytest.mark.long
def test_the_objective_of_the_paper_can_be_a_phase(compose):
    (run,) = compose(*RUN, "pretrain=[clm,own]", "model=roberta")
    assert run.pretrain.title == "clm-mlm"


@pytest.mark.long
def test_in_a_sweep_shares_name_the_arms_that_have_phases(compose):
    runs = compose("-m", *RUN, "pretrain=mlm,[clm,mlm]", "pretrain.shares=[0.25,0.75],[0.5,0.5]")
    labels = [resolve(run, Found()).label for run in runs]
    assert labels == ["base+mlm", "base+mlm", "base+clm-mlm shares=[0.25,0.75]", "base+clm-mlm"]
