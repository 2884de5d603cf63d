"""TensorBoard and Weights & Biases have what the folder of a run has; a missing package and a missing login are one line."""

import json
import sys
import time

import pytest
from child_processes import wait_for

from harness.tracking import run_log

SHORT = ["finetune.max_steps=4", "measure=none", "study=s"]


@pytest.mark.long
@pytest.mark.parametrize(("key", "library"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_missing_package_is_named_before_anything_runs(key, library, run_harness, small, output, monkeypatch):
    monkeypatch.delitem(sys.modules, f"harness.plugins.trackers.{key}_log", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    done = run_harness(*small, *SHORT, f"tracking=[mlflow,{key}]", f"output={output}")
    assert done.returncode == 2
    assert done.stderr.startswith(f"harness: tracking={key}: ")
    assert done.stderr.endswith(f": pip install 'encoder-variant-harness[{key}]'\n")
    assert not list(output.glob("s/*/run.json"))


def the_run(output) -> tuple[dict[str, float], list[dict]]:
    """Results and points of curves, as the folder has them."""
    (folder,) = (output / "s").glob("base-*")
    points = [entry for entry in run_log.Reader(folder).new_entries() if "key" in entry]
    return run_log.result(folder)["metrics"], points


@pytest.mark.long
def test_tensorboard_has_every_point_and_result(run_harness, small, output):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    command = [*small, *SHORT, "tracking=[mlflow,tensorboard]", f"output={output}"]
    assert run_harness(*command).returncode == 0
    (folder,) = (output / "tensorboard" / "s").iterdir()
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    values, points = the_run(output)
    for key in ("finetune/loss", "finetune/learning_rate", "finetune/gradient_norm"):
        expected = [(point["step"], pytest.approx(point["value"])) for point in points if point["key"] == key]
        assert [(event.step, event.value) for event in events.Scalars(key)] == expected
        assert expected
    assert events.Scalars("eval/score")[-1].value == pytest.approx(values["eval/score"])
    row = plugin_data_pb2.HParamsPluginData.FromString(
        events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    )
    assert row.session_start_info.hparams["arm"].string_value == "base"
    assert len(list(folder.iterdir())) == 1  # TensorBoard leaves a file for good once there is a newer one
    assert "Finished: score" in events.Tensors("run/text_summary")[-1].tensor_proto.string_val[0].decode()
    before = {path.name for path in folder.iterdir()}
    assert run_harness(*command).returncode == 0
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.long
def test_tensorboard_sees_points_that_are_added_while_it_watches(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from harness.plugins.trackers.tensorboard_log import TensorBoard

    tracker, record = TensorBoard(None, str(tmp_path), "s"), {"name": "run", "attempt": "one", "parameters": {}, "tags": {}}
    tracker.begin(record, tmp_path)
    (folder,) = (tmp_path / "tensorboard" / "s").iterdir()
    events = EventAccumulator(str(folder))
    for step in (1, 2, 3):
        tracker.curves(record, [{"key": "finetune/loss", "value": 0.5, "step": step, "time": 1000 * step}])
        events.Reload()
    assert [event.step for event in events.Scalars("finetune/loss")] == [1, 2, 3]
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(("status", "ends"), [("finished", True), ("failed", False)])
def test_tensorboard_has_one_row_and_one_scalar_per_result(status, ends, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2

    from harness.plugins.trackers.tensorboard_log import TensorBoard

    record = {"name": "run", "attempt": "one", "parameters": {"seed": "1"}, "tags": {"arm": "base"}}
    tracker, log = TensorBoard(None, str(tmp_path), "s"), run_log.RunLog(tmp_path)
    tracker.begin(record, tmp_path)
    if ends:
        log.values({"eval/score": 0.5, "published/params_total": 1e8})
        log.finish(status)
    log.close()
    tracker.end(record, tmp_path, status)
    if ends:  # timing comes later
        log = run_log.RunLog(tmp_path)
        log.value("inference/latency_ms_p50", 2.0)
        log.finish(status)
        tracker.add(record, tmp_path, [])
    (folder,) = (tmp_path / "tensorboard" / "s").iterdir()
    events = EventAccumulator(str(folder))
    events.Reload()

    def read(tag):
        return plugin_data_pb2.HParamsPluginData.FromString(events.SummaryMetadata(tag).plugin_data.content)

    experiment = read(metadata.EXPERIMENT_TAG).experiment
    columns = {info.name.tag for info in experiment.metric_infos}
    scalars = {tag: len(events.Scalars(tag)) for tag in events.Tags()["scalars"]}
    assert scalars == dict.fromkeys(columns, 1)
    assert "published/params_total" not in columns  # a constant: its card would stand among the curves
    assert {"eval/score", "inference/latency_ms_p50"} <= columns if ends else not columns
    assert read(metadata.SESSION_START_INFO_TAG).session_start_info.hparams["status"].string_value == status
    assert (metadata.SESSION_END_INFO_TAG in events.summary_metadata) == ends
    assert {info.name for info in experiment.hparam_infos if info.differs} == {"arm", "seed"}  # of the five columns shown


def wandb_records(file) -> list:
    """What the file of an offline run holds; the service of wandb writes the last ones a moment after `Run.finish`."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    def whole() -> list | None:
        store, found = DataStore(), []
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            found.append(wandb_internal_pb2.Record.FromString(data))
        store.close()
        return found if any(one.HasField("exit") for one in found) else None

    return wait_for(whole)


def test_wandb_has_one_level_per_dot():
    from harness.plugins.trackers.wandb_log import nested

    assert nested({"seed": "1", "task.grammar.rule": "bag", "task.name": "a"}) == {
        "seed": 1,
        "task": {"grammar": {"rule": "bag"}, "name": "a"},
    }


@pytest.mark.long
def test_wandb_numbers_the_points_of_both_parts_of_an_offline_run(tmp_path, monkeypatch):
    from harness.plugins.trackers.wandb_log import WeightsAndBiases

    monkeypatch.setenv("WANDB_MODE", "offline")
    record = {"name": "run", "attempt": "one", "parameters": {}, "tags": {}}
    tracker, reader = WeightsAndBiases(None, str(tmp_path), "s"), run_log.Reader(tmp_path)
    for key, points, send in (("finetune/loss", 3, tracker.curves), ("timing/latency_ms", 2, None)):
        log = run_log.RunLog(tmp_path)
        for step in range(points):
            log.curve(key, step, 0.5, 0)
        log.finish("finished")
        if send:
            tracker.begin(record, tmp_path)
            tracker.curves(record, reader.new_entries())
            tracker.end(record, tmp_path, "finished")
            (first,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
            before = wandb_records(first)
            time.sleep(1)  # the folder of a part is named by the second
        else:
            tracker.add(record, tmp_path, reader.new_entries())
    (second,) = {*tmp_path.glob("wandb/offline-run-*/*.wandb")} - {first}
    rows = [of.history for of in [*before, *wandb_records(second)] if of.HasField("history")]
    assert [row.step.num for row in rows] == [0, 1, 2, 3, 4]


@pytest.mark.long
def test_wandb_offline_has_every_point_and_result(run_harness, small, output, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    done = run_harness(*small, *SHORT, "tracking=wandb", f"output={output}")
    said = done.stdout + done.stderr
    assert (done.returncode, "wandb is" in said, "ignored" in said) == (0, False, False), said
    (file,) = (output / "wandb").glob("offline-run-*/run-*.wandb")

    records = wandb_records(file)
    values, points = the_run(output)
    rows = [{item.key or item.nested_key[0]: item.value_json for item in one.history.item} for one in records]
    logged = [(float(row["step"]), float(row["finetune/loss"])) for row in rows if "finetune/loss" in row]
    assert logged == [(point["step"], point["value"]) for point in points if point["key"] == "finetune/loss"]
    assert len(logged) == 4
    config, *_ = (
        {item.key: json.loads(item.value_json) for item in of.run.config.update} for of in records if of.HasField("run")
    )
    assert (config["finetune"]["max_steps"], config["task"]["name"], config["tags"]["arm"]) == (4, "bag", "base")
    assert (config["task"]["scores"], config["model"]["layers_kept"]) == (["accuracy"], [])
    assert "Finished: score" in [one.run.notes for one in records if one.HasField("run")][-1]
    assert not any(one.HasField("stats") for one in records)  # tracking.system_metrics=false
    assert (type(config["seed"]), config["rerun"], config["finetune"]["early_stopping"]) == (int, False, None)
    summary = {item.key: item.value_json for one in records for item in one.summary.update}
    assert float(summary["eval/score"]) == values["eval/score"]


@pytest.mark.long
def test_wandb_without_a_login_is_unreachable_and_stops_nothing(run_harness, small, output, monkeypatch, tmp_path):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    done = run_harness(*small, *SHORT, "tracking=wandb", f"output={output}")
    assert done.returncode == 0
    assert done.stdout.count("wandb failed (not logged in: call `wandb login`, or set ") == 1
