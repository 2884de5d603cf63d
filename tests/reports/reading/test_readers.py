"""The SQLite file read directly gives what MLflow gives."""

import contextlib
import socket
import sqlite3
import subprocess
from pathlib import Path

import pytest
from small_disk import mounted

from harness import tags
from harness.plugins.trackers.mlflow_reader import MlflowReader
from harness.reports.__main__ import main
from harness.reports.read import connect
from harness.reports.reading.sqlite_reader import SqliteReader
from harness.reports.reading.store import Reader, follow, newest_study, read_history, read_study, with_launches

pytestmark = pytest.mark.long

HISTORIES = ("finetune/loss", "eval/score", "timing/latency_ms", "scaling/latency_ms", "pretrain/masked_loss", "no/such")


@pytest.fixture
def readers(tracking) -> tuple[SqliteReader, MlflowReader]:
    """Of a store with all that may be in one: deleted and failed runs, several values of one step, nan and infinity."""
    from mlflow.entities import Metric

    tracking.log_timed("base", [10.0, 10.1, 9.9])
    tracking.log_timed("base", [10.1, 10.0, 10.0], replicate="true")
    tracking.log("albert", 1, {"eval/score": float("nan"), "eval/loss": float("inf")}, pretraining="f1")
    tracking.log("it's % _ strange", status="failed")
    tracking.client.delete_run(tracking.log("deleted"))
    several = tracking.log("small", 2, pretraining="f2")
    points = [(7.0, 3, 128), (9.0, 1, 128), (8.0, 2, 256), (6.0, 1, 128), (float("nan"), 2, 128)]
    tracking.client.log_batch(several, [Metric("scaling/latency_ms", value, time, step) for value, time, step in points])
    packed = tags.packed(tags.PARAMETERS, {"pretrain.mask_rate": "0.15"}) | tags.packed(tags.METRICS, {"setup/import_s": 2.5})
    tracking.log("packed", role="run", **packed)
    tracking.log("study", role="study")
    for fingerprint, study in (("f1", "older"), ("f1", "newer"), ("f1", "dropped"), ("f2", "older")):
        tracking.log_pretraining(fingerprint=fingerprint, study=study)
    tracking.client.delete_experiment(tracking.client.get_experiment_by_name("dropped").experiment_id)
    return SqliteReader(tracking.path), MlflowReader(tracking.uri)


def content(reader: Reader) -> dict[str, object]:
    """All that reports read, as text, in which nan equals nan."""
    studies = reader.studies()
    runs = [run for number in studies.values() for run in reader.runs(number)]
    identities = ({}, {tags.STATUS: "failed"}, {tags.FINGERPRINT: "f1", tags.STATUS: "finished"}, {tags.ARM: "no"})
    return {
        "studies": sorted(studies.items()),
        "runs": sorted(map(repr, runs)),
        "newest": [repr(reader.newest(list(studies.values()), identity)) for identity in identities],
        "histories": sorted(repr((run.run_id, key, reader.history(run.run_id, key))) for run in runs for key in HISTORIES),
    }


def test_a_store_on_a_disk_that_can_only_be_read_is_read(readers, tmp_path):
    """SQLite keeps its locks in a file beside that of the store."""
    direct, _ = readers
    with mounted(tmp_path / "disk", 16_000_000) as disk:
        stores = [contextlib.closing(sqlite3.connect(folder / "mlflow.db")) for folder in (direct.output, disk)]
        with stores[0] as store, stores[1] as copy:
            store.backup(copy)
            copy.execute("PRAGMA journal_mode=WAL")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert content(SqliteReader(disk / "mlflow.db")) == content(direct)


def test_both_readers_give_the_same(readers, monkeypatch):
    monkeypatch.setattr("harness.plugins.trackers.mlflow_reader.PAGE", 2)  # several pages
    direct, by_mlflow = map(content, readers)
    assert direct == by_mlflow
    assert [len(direct[name]) for name in ("studies", "runs", "histories")] == [3, 10, 60]
    assert "'newer'" not in direct["newest"][0]
    assert direct["newest"][3] == "None"
    assert "(128, 6.0), (128, 9.0), (128, nan), (128, 7.0), (256, 8.0)" in "".join(direct["histories"])


def test_what_tags_hold_is_read_beside_what_the_page_shows(readers):
    for reader in readers:
        runs = read_study(reader, "before_after")
        (run,) = (run for run in runs if run.tags["arm"] == "packed")
        assert (run.params["pretrain.mask_rate"], run.metrics["setup/import_s"]) == ("0.15", 2.5)
        assert run.metrics["eval/score"] == 0.8
        assert run.facts["pretrain.mask_rate"] == "0.15"
        assert not any(key.startswith("mlflow.harness.") for key in run.tags)


def test_the_run_of_the_study_is_no_run_of_a_report(readers):
    for reader in readers:
        assert "study" not in {run.tags["arm"] for run in read_study(reader, "before_after")}


def test_both_readers_give_the_same_study(readers):
    def read(reader: Reader) -> str:
        runs = read_study(reader, "before_after")
        curves = read_history(reader, runs, "finetune/loss")
        return repr((newest_study(reader), with_launches(reader, runs), follow(reader, runs), curves))

    direct, by_mlflow = map(read, readers)
    assert direct == by_mlflow
    assert "elsewhere='newer'" in direct


def test_file_with_other_tables_is_left_to_mlflow(tracking):
    assert isinstance(connect(tracking.uri), SqliteReader)
    with contextlib.closing(sqlite3.connect(tracking.path)) as database:
        database.execute("alter table latest_metrics rename column is_nan to nan")
    assert isinstance(connect(tracking.uri), MlflowReader)


def test_file_is_only_read(tracking):
    tracking.log("base")
    before = tracking.path.read_bytes()
    reader = SqliteReader(Path(tracking.path))
    assert len(read_study(reader, "before_after")) == 1
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._database.execute("delete from runs")
    assert tracking.path.read_bytes() == before


@pytest.mark.long
def test_a_server_that_never_answers_ends_as_soon_as_in_the_harness(start_process):
    """Each of two tries waits ten seconds, in place of minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start_process("-m", "reports", "--uri", f"http://127.0.0.1:{silent.getsockname()[1]}")
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert "the tracking store cannot be read" in err


def test_text_of_a_store_is_printed_on_one_line(tracking, capsys):
    """Whoever may write to the store would forge lines on the terminal of who reads it."""
    runs = [
        tracking.log("base", seed, note="\x1b[2Jall\nfine", params={"hardware.dtype": f"a\x1b]0;{seed}\x07"}) for seed in (0, 1)
    ]
    for reader in (SqliteReader(tracking.path), MlflowReader(tracking.uri)):
        (run, _) = read_study(reader, "before_after")
        assert (run.tags["note"], run.params["hardware.dtype"]) == (r"\x1b[2Jall\nfine", r"a\x1b]0;0\x07")
    assert main(["compare", *runs]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))
