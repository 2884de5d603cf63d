"""Machines that share a tracking server and no folder: each run of a sweep runs on one of them."""

import re

import pytest
from child_processes import wait_for
from tracking_server import serving

from harness import tags
from harness.errors import InputError
from harness.study import leased
from harness.study.plan import plan
from harness.tracking.mlflow_store import MlflowClient

LEASED = ("sweep.lease=tracking", "tracking.uri=http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["sweep.lease=tracking"], "needs a store that all machines reach: expected tracking.uri=http://HOST:PORT"),
        ([*LEASED, "tracking.mlflow=false"], "needs a store that all machines reach"),
        ([*LEASED, "rerun=true"], "runs nothing again that has finished: leave out rerun=true"),
        ([*LEASED, "sweep.budget_minutes=5"], "has no budget of time: leave it out, or sweep.budget_minutes"),
        ([*LEASED, "-m", "study=s,t"], "has one study: expected one value of `study`"),
    ],
)
def test_what_cannot_be_leased_is_refused(overrides, said, compose, small, output):
    configs = compose(*small, "measure=none", f"output={output}", *overrides)
    with pytest.raises(InputError, match=f"^sweep.lease=tracking {said}"):
        leased.refuse_impossible(configs)


def test_a_pretraining_is_refused(compose, small, output):
    with pytest.raises(InputError, match="has no pretraining, whose weights stay on one machine"):
        leased.refuse_impossible(compose(*small, "measure=none", f"output={output}", *LEASED, "pretrain=mlm"))


def test_a_search_is_refused(compose, small, output):
    with pytest.raises(InputError, match=r"^sweep\.lease=tracking has no search"):
        leased.refuse_impossible(compose(*small, f"output={output}", *LEASED, "search=rate_and_batch"))


def test_a_store_that_does_not_answer_is_named_before_anything_runs(run_harness, small, output):
    done = run_harness(*small, "measure=none", f"output={output}", *LEASED)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("harness: sweep.lease=tracking needs the store http://127.0.0.1:9, which does not answer: ")
    assert not list(output.glob("*/*/run.json"))


def test_an_unknown_lease_is_refused(compose, small, output):
    with pytest.raises(InputError, match=r"unknown value 'store'; choices for `sweep.lease`: folder, tracking"):
        plan(compose(*small, f"output={output}", "sweep.lease=store"))


@pytest.mark.long
def test_two_machines_run_each_run_once_and_take_over_that_of_one_that_dies(start_harness, small, output, tmp_path):
    with serving(output / "mlflow.db", lambda path: None) as uri:
        sweep = ["-m", *small, "finetune.epochs=50", "finetune.max_steps=100", "measure=none", "study=s", "seed=1,2,3"]
        sweep += ["report=false", "sweep.lease=tracking", f"tracking.uri={uri}"]
        dying = start_harness(*sweep, f"output={tmp_path}/dying")
        wait_for(lambda: list(tmp_path.glob("dying/s/*/metrics.jsonl")), dying)
        dying.kill()
        dying.communicate()
        client = MlflowClient(tracking_uri=uri)
        assert len(client.search_registered_models()) == 1
        commands = [start_harness(*sweep, f"output={tmp_path}/{name}") for name in ("one", "other")]
        ended = [command.communicate() for command in commands]
        assert [command.returncode for command in commands] == [0, 0], ended
        ran = [re.findall(r"seed (\d+): finished in", out) for out, _ in ended]
        assert sorted(ran[0] + ran[1]) == list("123")
        skipped = [re.findall(r"seed (\d+): finished on \S+, skipped", out) for out, _ in ended]
        assert [sorted(some + others) for some, others in zip(ran, skipped, strict=True)] == [list("123")] * 2
        experiment = client.get_experiment_by_name("s")
        condition = f"tags.{tags.ROLE} = '{tags.ROLE_RUN}' and tags.{tags.STATUS} = 'finished'"
        found = client.search_runs([experiment.experiment_id], condition)
        assert sorted(run.data.tags["seed"] for run in found) == list("123")
        assert client.search_registered_models() == []
