"""Finished runs that are timed again: nothing is trained, and what the older session measured counts no more."""

import json

import pytest

from harness import reports, tags
from harness.tracking import run_log


def recorded(folders) -> list[dict]:
    return [run_log.record(folder) for folder in folders]


@pytest.mark.long
def test_runs_have_the_timing_of_the_new_session_alone(run_harness, small, output):
    command = ["-m", *small, "finetune.max_steps=2", "model=base,albert", "seed=0", "study=s", f"output={output}"]
    first = run_harness(*command)
    assert first.returncode == 0, first.stdout + first.stderr
    folders = sorted(path.parent for path in output.glob("s/*/predictions.parquet"))
    before, results = recorded(folders), [run_log.result(folder)["metrics"] for folder in folders]

    again = run_harness(*command, "sweep.retime=true")
    assert again.returncode == 0, again.stdout + again.stderr
    assert ": started" not in again.stdout
    assert "Timing 2 models and 1 A/A replicate" in again.stdout
    after = recorded(folders)
    (old,), (new,) = ({record["tags"][tags.SESSION] for record in records} for records in (before, after))
    assert old != new
    for folder, known in zip(folders, results, strict=True):
        assert not run_log.faults(folder)
        found = run_log.result(folder)["metrics"]
        assert found.keys() == known.keys()
        assert {key for key in known if found[key] != known[key]} >= {"inference/latency_ms_p50", "inference/tokens_per_s"}
        assert found["eval/score"] == known["eval/score"]
        points = [entry["step"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == "timing/latency_ms"]
        assert points == sorted(set(points))

    runs = reports.load("s", f"sqlite:///{output / 'mlflow.db'}")
    assert sorted(runs["status"]) == ["finished"] * 2 + ["superseded"] * 2
    counted = runs[runs["counted"]]
    assert sorted(counted["inference/latency_ms_p50"]) == sorted(
        run_log.result(folder)["metrics"]["inference/latency_ms_p50"] for folder in folders
    )
    third = run_harness(*command)
    assert third.returncode == 0, third.stdout + third.stderr
    assert "Timing" not in third.stdout


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """A run that ended with one result, and the result file before more was added to it."""
    log = run_log.RunLog(tmp_path)
    log.value("eval/score", 0.5)
    log.finish("finished")
    before = json.loads((tmp_path / run_log.RESULT).read_text())
    (tmp_path / run_log.TIMING).write_bytes(b"launches")
    monkeypatch.setattr(run_log, "now_ms", lambda: before["time"] + 1000)
    log = run_log.RunLog(tmp_path)
    log.value("inference/latency_ms_p50", 3.0)
    log.sample("timing/latency_ms", 0, 3.0, before["time"] + 500)
    log.finish("finished", before["time"])
    return tmp_path, before


def test_what_was_added_later_is_dropped(timed):
    folder, before = timed
    assert set(run_log.result(folder)["metrics"]) == {"eval/score", "inference/latency_ms_p50"}
    run_log.drop_later(folder)
    assert json.loads((folder / run_log.RESULT).read_text()) == before
    assert [entry.get("result") for entry in run_log.Reader(folder).new_entries()] == ["eval/score"]
    run_log.drop_later(folder)
    assert json.loads((folder / run_log.RESULT).read_text()) == before


def test_a_kill_on_the_way_leaves_a_whole_run(timed, monkeypatch):
    folder, before = timed

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run_log.os, "truncate", killed)
        with pytest.raises(KeyboardInterrupt):
            run_log.drop_later(folder)
    assert run_log.result(folder) == before
    run_log.drop_later(folder)
    assert len(run_log.Reader(folder).new_entries()) == 1
