"""Many processes that track runs into one fresh output at once: nothing is lost, and nothing is there twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import tags
from harness.plugins.trackers.mlflow_store import MlflowClient, Tracker
from harness.tracking import run_log

PROCESSES = 16
FORKED = """
import json, os, sys, time
from pathlib import Path
from harness.tracking import run_log
from harness.plugins.trackers.mlflow_store import Tracker

output, folder, begin, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
start, go = os.pipe()
children = []
for number in range(begin, begin + count):
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(start, 1)  # all begin at once
        record = run_log.record(folder) | {"attempt": f"attempt{number}", "name": f"run {number}"}
        record["tags"] |= {"study": "many"}
        Tracker(None, output, "many").send(record, folder)
        os._exit(0)
    children.append(child)
began = time.monotonic()
os.close(go)
codes = [os.waitpid(child, 0)[1] for child in children]
print(json.dumps({"seconds": time.monotonic() - began, "codes": codes}))
"""

SLOW_TO_LOOK = """
find = Tracker.find
Tracker.find = lambda self, attempt: (find(self, attempt), time.sleep(0.5))[0]
"""


def tracked_at_once(output: Path, folder: Path, begin: int, count: int, script: str = FORKED) -> float:
    """Seconds that so many processes took to track a run each."""
    command = [sys.executable, "-c", script, str(output), str(folder), str(begin), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["codes"] == [0] * count, done.stderr
    return answer["seconds"]


@pytest.mark.slow
def test_sixteen_processes_lose_nothing_in_a_fresh_store(sweep, tmp_path):
    output, folder = tmp_path / "fresh", sweep.folder("base")
    fresh = tracked_at_once(output, folder, 0, PROCESSES)
    warm = tracked_at_once(output, folder, PROCESSES, PROCESSES)
    one = tracked_at_once(output, folder, 2 * PROCESSES, 1)
    print(f"{PROCESSES} runs at once: fresh store {fresh:.1f} s, warm {warm:.1f} s; one run {one:.1f} s")
    client = MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
    (study,) = client.search_experiments()
    runs = client.search_runs([study.experiment_id], max_results=1000)
    assert sorted(run.info.run_name for run in runs) == sorted(f"run {number}" for number in range(2 * PROCESSES + 1))
    results = run_log.result(folder)["metrics"]
    points = sum(entry.get("key") == "finetune/loss" for entry in run_log.Reader(folder).new_entries())
    for run in runs:
        assert run.info.status == "FINISHED"
        assert all(results[key] == value for key, value in run.data.metrics.items() if key in results)
        assert run.data.metrics["eval/score"] == results["eval/score"]
        assert len(client.get_metric_history(run.info.run_id, "finetune/loss")) == points
    assert [path.name for path in output.glob(".mlflow.db.making*")] == []


@pytest.mark.long
def test_a_run_that_several_processes_send_at_once_is_one(output, sweep, runs_of):
    """As where commands share a sweep, and each finds a run that was never sent."""
    Tracker(None, str(output), "many")
    script = FORKED.replace("attempt{number}", "attempt").replace("\noutput, folder", f"{SLOW_TO_LOOK}\noutput, folder", 1)
    tracked_at_once(output, sweep.folder("base"), 0, 4, script)
    assert [run.info.status for run in runs_of(output, "many")] == ["FINISHED"]


OPENED = """
import os, sys, time
from harness.plugins.trackers import mlflow_store
from harness.plugins.trackers.mlflow_store import Tracker

search = mlflow_store.every_run
mlflow_store.every_run = lambda *words: (search(*words), time.sleep(0.2))[0]  # so that all look before one has created
start, go = os.pipe()
children = []
for number in range(8):
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(start, 1)  # all begin at once
        study = Tracker(None, sys.argv[1], f"s{number % 2}")
        study.open_study([], {})
        study.close_study([], {}, "finished", None)
        os._exit(0)
    children.append(child)
os.close(go)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def own_runs(output: Path, study: str) -> list:
    """The runs that hold the plan and report of a study."""
    client = MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name(study).experiment_id])
    return [run for run in found if run.data.tags.get(tags.PREFIX + tags.ROLE) == tags.ROLE_STUDY]


@pytest.mark.long
def test_two_studies_of_eight_commands_at_once_have_one_run_each(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "out")], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    for study in ("s0", "s1"):
        assert [run.info.status for run in own_runs(tmp_path / "out", study)] == ["FINISHED"]
