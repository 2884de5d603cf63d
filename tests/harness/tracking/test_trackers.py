"""Which trackers a command has: several, or none."""

import threading
import time

import pytest

from harness.tracking.trackers import ENDED_S, Trackers

SHORT = ["finetune.max_steps=4", "measure=none", "study=s"]


def chosen(configs: list) -> set[str]:
    (config,) = configs
    return {key for key in ("mlflow", "tensorboard", "wandb") if getattr(config.tracking, key)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ([], {"mlflow"}),
        (["tracking=none"], set()),
        (["tracking=tensorboard"], {"tensorboard"}),
        (["tracking=[mlflow,tensorboard]"], {"mlflow", "tensorboard"}),
        (["tracking=[wandb,mlflow,tensorboard]"], {"mlflow", "tensorboard", "wandb"}),
        (["tracking=[]"], set()),
    ],
)
def test_choices_can_be_combined(argument, expected, compose, small):
    assert chosen(compose(*small, *argument)) == expected


def test_unknown_tracker_lists_the_choices(run_harness, small):
    done = run_harness(*small, "tracking=tensorbord")
    assert done.returncode == 2
    assert "unknown tracking 'tensorbord'; did you mean 'tensorboard'? choices for `tracking`: mlflow, none," in done.stderr


@pytest.mark.long
def test_nothing_is_tracked_where_nothing_is_chosen_and_sync_sends_it_later(run_harness, small, tmp_path):
    output = tmp_path / "new"
    done = run_harness(*small, *SHORT, "tracking=none", f"output={output}")
    assert done.returncode == 0, done.stderr
    assert not (output / "mlflow.db").exists()
    assert len(list(output.glob("s/*/result.json"))) == 1


def test_trackers_of_no_kind_accept_everything(small_config):
    small_config.tracking.mlflow = False
    trackers = Trackers(small_config.tracking)
    trackers.send(small_config, lambda backend: 1 / 0)
    trackers.wait()
    assert not trackers.has_store


def test_ctrl_c_waits_once_for_all_trackers(small_config):
    small_config.tracking.tensorboard = True
    trackers, never = Trackers(small_config.tracking), threading.Event()
    for thread in trackers._threads.values():
        thread.call(never.wait)
    began = time.monotonic()
    trackers.wait(interrupted=True)
    assert ENDED_S <= time.monotonic() - began < 2 * ENDED_S
    never.set()
