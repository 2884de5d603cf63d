"""A command that leaves the timing to a later one, which trains nothing."""

import pytest

from harness import tags
from harness.tracking import run_log

pytestmark = pytest.mark.long


def test_the_same_command_without_it_times_all_finished_runs_and_trains_none(run_harness, small, output, runs_of):
    command = ["-m", *small, "finetune.max_steps=2", "model=base,albert", "seed=0", "study=s", f"output={output}"]
    first = run_harness(*command, "sweep.timing=false")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "Timing" not in first.stdout
    assert run_harness("status", "s", f"output={output}").stdout.startswith("s: 2 runs: 2 finished")
    folders = sorted(path.parent for path in output.glob("s/*/result.json"))
    scores = [run_log.result(folder)["metrics"]["eval/score"] for folder in folders]
    assert all("inference/peak_memory_bytes" in run_log.result(folder)["metrics"] for folder in folders)

    second = run_harness(*command, "tracking=none")
    assert second.returncode == 0, second.stdout + second.stderr
    assert second.stdout.count("finished already, skipped") == 2
    assert ": started" not in second.stdout
    assert "Timing 2 models and 1 A/A replicate" in second.stdout
    runs = sorted(path.parent for path in output.glob("s/*/result.json") if "replicate" not in path.parent.name)
    assert runs == folders
    assert [run_log.result(folder)["metrics"]["eval/score"] for folder in folders] == scores
    assert len({run_log.record(folder)["tags"][tags.SESSION] for folder in folders}) == 1
    assert all("inference/latency_ms_p50" in run_log.result(folder)["metrics"] for folder in folders)

    third = run_harness(*command)  # the store gets what it lacks: the noise floors of the report come from the replicate
    assert third.returncode == 0, third.stdout + third.stderr
    roles = [run.data.tags[tags.ROLE] for run in runs_of(output, "s") if run.info.status == "FINISHED"]
    assert sorted(roles) == [tags.ROLE_REPLICATE, tags.ROLE_RUN, tags.ROLE_RUN]
