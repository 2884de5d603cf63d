"""Sweeps that compare nothing are refused in place of ending quietly."""

import pytest

from harness.errors import InputError


def test_a_sweep_without_runs_is_refused(compose):
    with pytest.raises(InputError, match="the sweep has no runs"):
        compose("-m", "task=bag", "scale=tiny", "seed=range(1,0)")


def test_one_name_for_two_models_is_refused(compose):
    with pytest.raises(InputError, match="arm='same' names model=base and model=albert"):
        compose("-m", "task=bag", "scale=tiny", "model=base,albert", "arm=same")


def test_one_name_for_settings_of_one_model_is_no_mistake(compose):
    labels = [run.label for run in compose("-m", "task=bag", "scale=tiny", "finetune.epochs=1,3", "arm=same", "seed=1,2")]
    assert labels == ["same epochs=1"] * 2 + ["same epochs=3"] * 2


@pytest.mark.parametrize("uri", ["foo", "'foo bar'", "mlruns/x", "localhost"])
def test_an_address_without_a_scheme_is_refused(compose, uri):
    with pytest.raises(InputError, match=r"tracking\.uri=.* must be an address such as"):
        compose("task=bag", "scale=tiny", f"tracking.uri={uri}")


@pytest.mark.parametrize("uri", ["http://localhost:5000", "sqlite:////tmp/x.db", "sqlite:///x.db", "postgresql://b/c"])
def test_an_address_with_a_scheme_is_taken(compose, uri):
    (run,) = compose("task=bag", "scale=tiny", f"tracking.uri={uri}")
    assert run.tracking.uri == uri


@pytest.mark.parametrize("seeds", ["1,4294967296", "4294967296,1"])
def test_every_seed_of_a_sweep_is_in_its_range(compose, seeds):
    for key in ("seed", "pretrain.seed"):
        with pytest.raises(InputError, match=f"{key}=4294967296 must be"):
            compose("-m", "task=bag", "scale=tiny", f"{key}={seeds}")
