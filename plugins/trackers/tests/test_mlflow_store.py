"""What a finished sweep tells MLflow, and what becomes of runs whose process is gone."""

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from statistics import median

import psutil
import pytest
from child_processes import wait_for
from pyarrow import parquet

from harness import metrics, tags
from harness.plugins.trackers.mlflow_store import MlflowClient, MlflowException, Tracker
from harness.study import timing_session as timing
from harness.tracking import run_log

MODELS = ("base", "enhanced")
TAGS = {"study", "arm", "model", "scale", "enhancements", "task", "seed", "conditions", "lifted", "fingerprint"}
TAGS |= {"status", "git_commit", "git_dirty", "hardware", "role", "command", "mlflow.user", "mlflow.source.name"}
CURVES = {"finetune/loss", "finetune/gradient_norm", "finetune/gradient_spread", "finetune/learning_rate"}
CURVES |= {name for name in metrics.METRICS if name.startswith(metrics.LAUNCHES)}
FILES = {
    "config.yaml",
    "environment.json",
    "predictions.parquet",
    "result.json",
    "timing.json.gz",
    "log.txt",
    "parameters.json",
}


@pytest.fixture
def runs(sweep, runs_of) -> dict:
    """Variant -> its run in the sweep's store."""
    return {run.data.tags["arm"]: run for run in runs_of(sweep.output, "sweep") if "replicate" not in run.data.tags}


def test_every_run_is_one_finished_flat_one_and_so_is_the_replicate(sweep, runs, runs_of):
    found = runs_of(sweep.output, "sweep")
    assert len(runs) == len(MODELS)
    assert [run.data.tags["arm"] for run in found if "replicate" in run.data.tags] == ["base"]
    assert len(found) == len(MODELS) + 1
    for run in found:
        assert run.info.status == "FINISHED"
        assert run.info.end_time >= run.info.start_time
        assert ("mlflow.parentRunId" in run.data.tags) == ("replicate" in run.data.tags)  # nested runs leave charts empty


@pytest.mark.parametrize("model", MODELS)
def test_tags_say_what_the_run_was(runs, model):
    found = runs[model].data.tags
    assert set(found) >= TAGS
    identity = {key: found[key] for key in ("study", "model", "scale", "task", "seed", "status", "enhancements")}
    assert identity == {
        "study": "sweep",
        "model": model,
        "scale": "tiny",
        "task": "bag",
        "seed": "1",
        "status": "finished",
        "enhancements": "",
    }


@pytest.mark.parametrize("model", MODELS)
def test_a_page_shows_few_numbers_and_all_parameters_but_none_of_what_does_not_apply(runs, model):
    data = runs[model].data
    assert len(data.metrics) <= 60
    assert (data.params["finetune.adam_eps"], data.params["model.rotary_theta"]) == ("1e-08", "10000.0")  # defaults, too
    unread = ("pretrain.", "corpus.", "environment.", "facts.", "tracking.", "published.", "task.hub", "output", "study")
    assert [key for key in data.params if key.startswith(unread)] == []
    named = {"model_name", "scale_name", "task.name", "seed", "finetune.learning_rate", "finetune.batch_size", "hardware.dtype"}
    assert data.params.keys() > named


@pytest.mark.parametrize("model", MODELS)
def test_the_whole_config_is_kept_beside_what_is_shown(sweep, runs, model):
    record = json.loads((sweep.folder(model) / "run.json").read_text())
    data = runs[model].data
    kept = tags.unpacked(tags.PARAMETERS, data.tags)
    assert kept == record["parameters"]
    assert len(kept) > 200
    assert data.params.items() <= kept.items()


@pytest.mark.parametrize("model", MODELS)
def test_numbers_of_score_size_speed_and_memory_are_sent_in_that_order(sweep, runs, model):
    """The page lists metrics in the order in which they came; curves come while a run trains."""
    with contextlib.closing(sqlite3.connect(sweep.output / "mlflow.db")) as database:
        query = "select key from latest_metrics where run_uuid = ? order by rowid"
        keys = [key for (key,) in database.execute(query, (runs[model].info.run_id,)) if key not in CURVES]
    first = ["eval/score", "model/params_total", "inference/latency_ms_p50", "inference/peak_memory_bytes"]
    trained = [key for key in first if key != "inference/latency_ms_p50"]  # timed later than the rest was sent
    assert [key for key in keys if key in trained] == trained
    assert keys[0] == "eval/score"


@pytest.mark.parametrize("model", MODELS)
def test_a_run_has_a_description(sweep, runs, model):
    note, values = runs[model].data.tags["mlflow.note.content"], run_log.result(sweep.folder(model))["metrics"]
    assert f"{model} on bag, scale tiny, seed 1. Finished: score {values['eval/score']:.3f}" in note
    assert f"| latency, device time | {values['inference/latency_device_ms']:.4g} ms |" in note


def test_one_run_holds_plan_and_links_of_the_study_and_the_replicate(sweep, runs_of):
    client = MlflowClient(f"sqlite:///{sweep.output / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("sweep")
    (study,) = client.search_runs([experiment.experiment_id], "tags.harness.role = 'study'")
    (replicate,) = (run for run in runs_of(sweep.output, "sweep") if "replicate" in run.data.tags)
    assert replicate.data.tags["mlflow.parentRunId"] == study.info.run_id
    assert (study.info.status, study.data.tags["harness.status"], study.info.run_name) == (
        "FINISHED",
        "finished",
        "study sweep",
    )
    assert "2 runs: 2 arms (" in study.data.tags["mlflow.note.content"]
    assert experiment.tags["mlflow.note.content"] == study.data.tags["mlflow.note.content"]
    plan = Path(study.info.artifact_uri.removeprefix("file://"), "plan.md").read_text()
    assert all(sweep.folder(model).name in plan for model in MODELS)
    assert study.data.tags["harness.command"].startswith("harness -m scale=tiny task=bag")


def test_only_studies_are_listed(sweep):
    listed = [experiment.name for experiment in MlflowClient(f"sqlite:///{sweep.output / 'mlflow.db'}").search_experiments()]
    assert "Default" not in listed
    assert "sweep" in listed


def test_runs_of_a_sweep_share_conditions_and_no_fingerprint(runs):
    assert len({run.data.tags["conditions"] for run in runs.values()}) == 1
    assert len({run.data.tags["fingerprint"] for run in runs.values()}) == len(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_loss_curve_has_every_step_with_the_values_of_the_log(sweep, runs, curve_of, model):
    points = [entry for entry in run_log.Reader(sweep.folder(model)).new_entries() if entry.get("key") == "finetune/loss"]
    curve = curve_of(sweep.output, runs[model].info.run_id)
    assert sorted(curve) == [(point["step"], point["value"]) for point in points]
    assert [step for step, _ in sorted(curve)] == list(range(1, 13))


@pytest.mark.parametrize("model", MODELS)
def test_numbers_are_those_of_the_result_file(sweep, runs, model):
    values = run_log.result(sweep.folder(model))["metrics"]
    shown = {key: value for key, value in runs[model].data.metrics.items() if key not in CURVES}
    details = tags.unpacked(tags.METRICS, runs[model].data.tags)
    assert shown | details == values | {"by_task/bag_score": values["eval/score"]}
    assert not shown.keys() & details
    assert {"eval/score", "inference/latency_ms_p50", "inference/peak_memory_bytes", "model/flops_forward"} <= set(values)


@pytest.mark.parametrize("model", MODELS)
def test_files_are_tracked_as_they_are(sweep, runs, model):
    tracked = Path(runs[model].info.artifact_uri.removeprefix("file://"))
    assert {path.name for path in tracked.iterdir()} == FILES
    for name in FILES:
        assert (tracked / name).read_bytes() == (sweep.folder(model) / name).read_bytes()


@pytest.mark.parametrize("model", MODELS)
def test_predictions_give_the_score_that_was_told(sweep, model):
    table = parquet.read_table(sweep.folder(model) / "predictions.parquet").to_pydict()
    values = run_log.result(sweep.folder(model))["metrics"]
    right = [label == prediction for label, prediction in zip(table["label"], table["prediction"], strict=True)]
    assert sorted(table["item"]) == list(range(60))
    assert values["eval/accuracy"] == values["eval/score"] == pytest.approx(sum(right) / 60)
    logits = zip(table["logit_0"], table["logit_1"], strict=True)
    assert table["prediction"] == [int(one > zero) for zero, one in logits]


@pytest.mark.parametrize("model", MODELS)
def test_raw_latencies_give_the_quantiles_that_were_told(sweep, model):
    launches, values = timing.read_timing(sweep.folder(model)).launches, run_log.result(sweep.folder(model))["metrics"]
    raw = [value for launch in launches for value in launch.latency.raw_ms]
    assert len(raw) == 2 * 5
    assert min(raw) == values["inference/latency_ms_min"] <= median(raw)
    assert median(raw) <= values["inference/latency_ms_p90"] <= values["inference/latency_ms_p99"] <= max(raw)


@pytest.mark.parametrize("model", MODELS)
def test_every_launch_is_a_point_of_a_curve_beside_its_reference(sweep, runs, model, curve_of):
    launches = timing.read_timing(sweep.folder(model)).launches
    for key, seen in (("latency_ms", lambda launch: median(launch.latency.raw_ms)), ("foreign_cpus", None)):
        curve = curve_of(sweep.output, runs[model].info.run_id, f"timing/{key}")
        assert sorted(curve) == [(n, seen(launch) if seen else getattr(launch, key)) for n, launch in enumerate(launches)]
    assert all(value > 0 for _, value in curve_of(sweep.output, runs[model].info.run_id, "timing/reference_ms"))


def test_variants_and_replicate_were_timed_in_one_session_by_launches_of_their_own(sweep, runs_of):
    found = runs_of(sweep.output, "sweep")
    assert len({run.data.tags["session"] for run in found}) == 1
    first_calls = [tags.unpacked(tags.METRICS, run.data.tags)["inference/first_call_ms"] for run in found]
    assert len(set(first_calls)) == len(found)
    (replicate,) = (run.data.metrics for run in found if "replicate" in run.data.tags)
    assert not any(key.startswith(("eval/", "finetune/")) for key in replicate)


@pytest.mark.parametrize("model", MODELS)
def test_measured_numbers_fit_together(sweep, model):
    values = run_log.result(sweep.folder(model))["metrics"]
    assert values["finetune/tokens_per_s"] * values["finetune/duration_s"] == pytest.approx(values["finetune/tokens"])
    assert values["finetune/peak_memory_bytes"] >= values["inference/peak_memory_bytes"] >= 0.9 * values["model/weights_bytes"]
    parts = [value for key, value in values.items() if key.startswith("model/params_component_")]
    assert sum(parts) == values["model/params_total"]


@pytest.mark.parametrize("model", MODELS)
def test_rows_of_the_parameter_table_add_up_to_the_totals(sweep, model):
    rows = json.loads((sweep.folder(model) / "parameters.json").read_text())
    values = run_log.result(sweep.folder(model))["metrics"]
    keys = {"parameters": "params_total", "parameters_as_used": "params_effective", "bytes": "weights_bytes"}
    assert {key: sum(row[key] for row in rows) for key in keys} == {key: values[f"model/{name}"] for key, name in keys.items()}


@pytest.mark.parametrize("model", MODELS)
def test_arithmetic_fits_the_machine_and_the_bytes(sweep, model):
    values = run_log.result(sweep.folder(model))["metrics"]
    assert values["model/arithmetic_intensity"] * values["model/bytes_forward"] == pytest.approx(values["model/flops_forward"])
    assert values["model/bytes_forward"] > values["model/params_encoder"] * 4
    assert 0 < values["finetune/mfu"] < 1
    per_token = values["finetune/mfu"] * values["hardware/peak_flops_per_s"] / values["finetune/tokens_per_s"]
    assert per_token > 3 * 2 * values["model/params_encoder"]  # more for attention and for padding


def a_run(attempt: str = "a1") -> dict:
    return {"attempt": attempt, "name": "base tiny", "started": 1, "tags": {"study": "s"}, "parameters": {"seed": "0"}}


@pytest.fixture
def tracker(output) -> Tracker:
    return Tracker(None, str(output), "s")


def status_of(tracker: Tracker, run_id: str) -> tuple[str, str]:
    run = tracker._client.get_run(run_id)
    return run.info.status, run.data.tags["harness.status"]


def test_opening_one_attempt_twice_is_one_run(tracker):
    assert tracker.begin(a_run()) == tracker.begin(a_run())
    assert tracker.begin(a_run("a2")) != tracker.begin(a_run())


@pytest.mark.long
def test_logging_one_curve_twice_is_one_curve(tracker, output, curve_of):
    run_id = tracker.begin(a_run())
    points = [{"key": "finetune/loss", "value": 1 / step, "time": step, "step": step, "tokens": 1} for step in range(1, 2501)]
    for _ in range(2):
        tracker.curves(a_run(), [{"stage": "finetune", "steps": 2500, "time": 0}, *points])
    assert curve_of(output, run_id) == [(step, 1 / step) for step in range(1, 2501)]


@pytest.mark.parametrize("process", ["the same", "another"])
def test_points_of_a_worker_that_was_killed_are_not_sent_again_with_those_of_the_next(tracker, output, curve_of, process):
    def points(began: int, steps: int) -> list[dict]:
        return [
            {"key": "finetune/loss", "value": 1 / n, "time": began + n, "step": n, "tokens": 1} for n in range(1, steps + 1)
        ]

    run_id = tracker.begin(a_run())
    tracker.curves(a_run(), points(100, 3))
    after = tracker if process == "the same" else Tracker(None, str(output), "s")
    assert after.begin(a_run()) == run_id
    after.curves(a_run(), points(200, 5))
    assert curve_of(output, run_id) == [(step, 1 / step) for step in range(1, 6)]


@pytest.mark.parametrize(
    ("status", "state"), [("finished", "FINISHED"), ("diverged", "FAILED"), ("failed", "FAILED"), ("killed", "KILLED")]
)
def test_every_end_has_its_state(tracker, tmp_path, status, state):
    run_id = tracker.begin(a_run())
    tracker.end(a_run(), tmp_path, status)
    assert status_of(tracker, run_id) == (state, status)


def test_a_run_that_goes_on_under_another_load_ends_with_its_last_environment(tracker, tmp_path):
    for status, load in (("killed", 0.5), ("finished", 7.25)):
        (tmp_path / "environment.json").write_text(json.dumps({"load_average": load, "threads": 1}))
        run_id = tracker.begin(a_run())
        tracker.end(a_run(), tmp_path, status)
    assert status_of(tracker, run_id) == ("FINISHED", "finished")
    found = tracker._client.get_run(run_id).data
    read = tags.without_packed(found.tags)
    assert (read["environment.load_average"], read["environment.threads"]) == ("7.25", "1")
    assert not any(key.startswith("environment.") for key in found.params)


@pytest.mark.long
def test_system_metrics_are_sampled_while_a_run_goes_on_where_they_are_asked_for(tracker, tmp_path, monkeypatch, capsys):
    def sampled(run_id: str) -> set[str]:
        return {name for name in tracker._client.get_run(run_id).data.metrics if name.startswith("system/")}

    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    asked = a_run() | {"parameters": {"tracking.system_metrics": "True"}}
    run_ids = [tracker.begin(record, tmp_path) for record in (asked, a_run("a2"))]
    wait_for(lambda: "system/cpu_utilization_percentage" in sampled(run_ids[0]))
    tracker.end(asked, tmp_path, "finished")
    assert not tracker._monitors
    assert not sampled(run_ids[1])
    assert "monitor" not in capsys.readouterr().err


@pytest.mark.long
def test_runs_of_processes_that_are_gone_are_ended_and_no_others(tracker):
    host = os.uname().nodename
    me = psutil.Process()
    others = {
        "gone": f"{host}:{2**22 + 1}:1",
        "number used again": f"{host}:{me.pid}:{me.create_time() - 1000:.0f}",
        "alive": f"{host}:{me.pid}:{me.create_time():.0f}",
        "another machine": f"not-{host}:{2**22 + 1}:1",
    }
    run_ids = {name: tracker.begin(a_run(name)) for name in others}
    for name, process in others.items():
        tracker._client.set_tag(run_ids[name], "mlflow.harness_process", process)
    assert tracker.reap() == 2
    states = {name: status_of(tracker, run_id) for name, run_id in run_ids.items()}
    assert states["gone"] == states["number used again"] == ("KILLED", "killed")
    assert states["alive"] == states["another machine"] == ("RUNNING", "running")
    assert tracker.reap() == 0


def test_deleted_study_comes_back(tracker, output):
    tracker._client.delete_experiment(tracker.experiment)
    assert Tracker(None, str(output), "s").begin(a_run())


def test_store_that_is_away_is_told_by_its_own_error(tmp_path):
    with pytest.raises(MlflowException):
        Tracker("http://127.0.0.1:9", str(tmp_path), "s")


@pytest.mark.long
def test_files_of_runs_in_a_database_of_the_user_are_in_the_output(run_harness, small, output, tmp_path):
    output.joinpath("mlflow.db").rename(tmp_path / "mine.db")
    more = ["finetune.max_steps=2", "measure=none", "study=mine", "output=out"]
    done = run_harness(*small, *more, f"tracking.uri=sqlite:///{tmp_path / 'mine.db'}")
    assert done.returncode == 0, done.stderr
    assert list(output.glob("artifacts/mine/*/artifacts/result.json"))
    assert not (tmp_path / "mlruns").exists()


def test_a_tag_that_two_processes_set_at_once_is_set(output, monkeypatch):
    """MLflow refuses the slower one, where both found that there is none yet."""
    tracker, refused = Tracker(None, str(output), "s"), []
    at_once = tracker._client.set_experiment_tag

    def slower(*arguments: object) -> None:
        if not refused:
            refused.append(arguments)
            raise MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed: experiment_tags.key")
        at_once(*arguments)

    monkeypatch.setattr(tracker._client, "set_experiment_tag", slower)
    tracker.open_study([], {})
    assert refused
    assert "s" in tracker._client.get_experiment_by_name("s").tags["mlflow.note.content"]


def test_a_study_has_its_table_from_the_beginning(output):
    """Without the view, its address opens MLflow's page for language-model apps."""
    tracker = Tracker(None, str(output), "s")
    tracker.open_study([], {})
    view = tracker._client.get_experiment_by_name("s").tags["mlflow.sharedViewState.results"]
    state = json.loads(json.loads(view)["state"])
    assert {"tags.`harness.arm`", "metrics.`eval/score`"} <= set(state["selectedColumns"])
    assert state["runsHiddenMode"] == "SHOWALL"
