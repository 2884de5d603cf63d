"""The command that tells a store what it has missed; that it does is shown beside the run that missed it."""

import contextlib
import json
import shutil
import sqlite3

import pytest
from filelock import FileLock

from harness import paths, tags
from harness.comparison.compare import compare as reports_compare
from harness.plugins.trackers.mlflow_reader import MlflowReader
from harness.plugins.trackers.mlflow_store import MlflowClient
from harness.plugins.upkeep.sync import sync
from harness.reports.read import read
from harness.reports.reading.sqlite_reader import SqliteReader

pytestmark = pytest.mark.long


def test_store_that_is_away_is_one_line(run_harness, sweep):
    done = run_harness("sync", f"output={sweep.output}", "tracking.uri=http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("harness sync: tracking.uri=http://127.0.0.1:9: MLflow failed (")
    assert "Connection refused" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_without_runs_is_refused(run_harness, output):
    done = run_harness("sync", f"output={output}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"harness sync: output={str(output)!r} has no run: expected the `output` of one\n"


def test_sweep_told_to_another_store_is_the_same_there(sweep, output, runs_of, curve_of):
    shutil.copytree(sweep.output / "sweep", output / "sweep")
    assert sync(str(output), None) == 3  # the A/A replicate is one of them
    sent, known = ({run.info.run_name: run for run in runs_of(folder, "sweep")} for folder in (output, sweep.output))
    assert sent.keys() == known.keys()
    for name, run in sent.items():
        assert run.data.metrics == known[name].data.metrics
        assert run.data.params == known[name].data.params
        assert run.data.tags["fingerprint"] == known[name].data.tags["fingerprint"]
        for key in ("finetune/loss", "timing/latency_ms"):
            curves = (curve_of(output, run.info.run_id, key), curve_of(sweep.output, known[name].info.run_id, key))
            assert sorted(curves[0]) == sorted(curves[1])


def test_sweep_told_to_its_own_store_changes_nothing(sweep, runs_of):
    before = [(run.info.run_id, run.data.metrics, run.info.end_time) for run in runs_of(sweep.output, "sweep")]
    assert sync(str(sweep.output), None) == 3
    assert [(run.info.run_id, run.data.metrics, run.info.end_time) for run in runs_of(sweep.output, "sweep")] == before


def test_a_store_whose_tags_have_bare_names_is_read_and_goes_on(sweep, output, runs_of):
    """Versions before 0.6 wrote them; `sync` finds the runs and the study's own, and adds no second one."""
    shutil.copytree(sweep.output, output, ignore=shutil.ignore_patterns("cache", "*.lock"), dirs_exist_ok=True)
    with contextlib.closing(sqlite3.connect(output / "mlflow.db")) as database, database:
        database.execute("update tags set key = substr(key, 9) where key like 'harness.%'")
        count = "select count(*) from runs"
        (before,) = database.execute(count)
    bare, today = (read(paths.database_uri(str(folder)), ["sweep"]).runs for folder in (output, sweep.output))
    assert [(run.tags, run.params, run.metrics) for run in bare] == [(run.tags, run.params, run.metrics) for run in today]
    client = MlflowClient(paths.database_uri(str(output)))
    reader, number = MlflowReader(paths.database_uri(str(output))), client.get_experiment_by_name("sweep").experiment_id
    wanted = {tags.FINGERPRINT: bare[-1].tags[tags.FINGERPRINT]}
    found = [one.newest([number], wanted)[1].run_id for one in (reader, SqliteReader(output / "mlflow.db"))]
    assert found == [bare[-1].run_id] * 2
    assert sync(str(output), None) == 3
    with contextlib.closing(sqlite3.connect(output / "mlflow.db")) as database:
        assert [*database.execute(count)] == [before]


def test_runs_without_a_result_are_not_sent(sweep, output, runs_of):
    """One is running, one has failed: the store has neither, and the study has not finished before they have."""
    shutil.copytree(sweep.output / "sweep", output / "sweep")
    running, failed = (next((output / "sweep").glob(f"{model}-*-bag-*")) for model in ("base", "enhanced"))
    for folder in (running, failed):
        (folder / "result.json").rename(folder / "kept")
    with FileLock(running / paths.LOCK):
        assert sync(str(output), None) == 1
        assert state_of_study(output) == "RUNNING"
    assert [run.data.tags[tags.REPLICATE] for run in runs_of(output, "sweep")] == ["true"]
    assert sync(str(output), None) == 1
    assert state_of_study(output) == "KILLED"
    for folder in (running, failed):
        (folder / "kept").rename(folder / "result.json")
    assert sync(str(output), None) == 3
    assert [run.info.status for run in runs_of(output, "sweep")] == ["FINISHED"] * 3
    assert state_of_study(output) == "FINISHED"


def state_of_study(output) -> str:
    """State of the run that holds the plan and the report."""
    from harness.plugins.trackers.mlflow_store import MlflowClient

    client = MlflowClient(tracking_uri=paths.database_uri(str(output)))
    (study,) = client.search_experiments(filter_string="name = 'sweep'")
    (run,) = client.search_runs([study.experiment_id], f"tags.{tags.PREFIX}{tags.ROLE} = '{tags.ROLE_STUDY}'")
    return run.info.status


def test_runs_of_a_colleague_are_added_once_and_other_hardware_is_kept_apart(sweep, output, runs_of, tmp_path):
    """Their folder has our study, run by the same commands on another machine; both stores stay theirs and ours."""
    ours, theirs = paths.database_uri(str(output)), tmp_path / "theirs"
    shutil.copytree(sweep.output / "sweep", output / "sweep")
    assert sync(str(output), None) == 3
    shutil.copytree(sweep.output / "sweep", theirs / "sweep")
    for path in theirs.glob("sweep/*/run.json"):
        record = json.loads(path.read_text())
        record["attempt"] = f"their-{record['attempt']}"
        record["parameters"]["facts.device_name"] = record["tags"]["hardware"] = "another CPU"
        record["tags"] |= {"session": "theirs", "fingerprint": f"their-{record['tags']['fingerprint']}"}
        path.write_text(json.dumps(record))
    for _ in range(2):
        assert sync(str(theirs), ours) == 3
        assert len(runs_of(output, "sweep")) == 6
    comparison = reports_compare("sweep", read(ours, ["sweep"]).runs, "base")
    assert len(comparison.sections) == 2
    for section in comparison.sections:
        assert [row.label for row in section.rows] == ["base", "enhanced"]
        assert len({run.tags["hardware"] for run in section.runs}) == 1
    assert comparison.superseded == []


def changed(path, **tags_of_run):
    """The record with other tags, as a copy from anywhere may have them."""
    record = json.loads(path.read_text())
    attempt = tags_of_run.pop("attempt", record["attempt"])
    record |= {"tags": record["tags"] | tags_of_run, "attempt": attempt}
    path.write_text(json.dumps(record))


HOSTILE = {
    "above": {"study": "../../x"},
    "elsewhere": {"study": "/tmp/harness-elsewhere"},
    "of our own folders": {"study": "cache"},
    "on two lines": {"study": "a\nb"},
    "attempt": {"attempt": "../../x"},
}


@pytest.fixture
def copied(sweep, output):
    """A sweep that was copied here with its plan, below a folder that no command may leave."""
    shutil.copytree(sweep.output / "sweep", output / "sweep")
    return output


def outside(output) -> set[str]:
    return {str(path.relative_to(output.parent)) for path in output.parent.rglob("*") if not path.is_relative_to(output)}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_run_whose_record_leads_elsewhere_is_left_out(run_harness, copied, name):
    path = next((copied / "sweep").glob("base-*-bag-*/run.json"))
    changed(path, **HOSTILE[name])
    before = outside(copied)
    done = run_harness("sync", f"output={copied}")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (line for line in done.stdout.splitlines() if "left out" in line)
    assert line.startswith(f"{path}: ")
    assert outside(copied) == before


DAMAGED = {
    "no tags": ("run.json", lambda record: record.pop("tags"), "run.json has no tags"),
    "no study": ("run.json", lambda record: record["tags"].pop("study"), "run.json has no study"),
    "no start": ("run.json", lambda record: record.update(started=[1]), "corrupt: Expected `int`, got `array`"),
    "status": ("result.json", lambda result: result.update(status="well"), "result.json is corrupt: "),
    "infinite": (
        "result.json",
        lambda result: result["metrics"].update({"eval/score": float("inf")}),
        "result.json is corrupt: ",
    ),
    "folder": ("run.json", None, "not a regular file"),
}
"""A file of a run, what is done to it, and the line that says so."""


@pytest.mark.parametrize("name", DAMAGED)
def test_one_damaged_run_is_left_out_with_a_line_and_the_others_are_sent(run_harness, copied, name):
    file, damage, said = DAMAGED[name]
    path = next((copied / "sweep").glob("base-*-bag-*")) / file
    content = json.loads(path.read_text())
    if damage is None:
        path.unlink()
        path.mkdir()
    else:
        damage(content)
        path.write_text(json.dumps(content))
    done = run_harness("sync", f"output={copied}")
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert str(path) in first
    assert said in first
    assert "left out" in first
    assert last.startswith("synced ")
    status = run_harness("status", "sweep", f"output={copied}")
    assert (status.returncode, status.stderr) in ((0, ""), (1, ""))


@pytest.mark.parametrize(
    "name", ["log.txt", "config.yaml", "result.json", "run.json", "environment.json", "predictions.parquet"]
)
def test_the_content_of_a_link_gets_into_no_store(run_harness, copied, name):
    secret = copied.parent / "private.key"
    folder = next((copied / "sweep").glob("base-*-bag-*"))
    secret.write_bytes((folder / name).read_bytes() if name.endswith("json") else b"-----BEGIN PRIVATE KEY-----")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(secret)
    done = run_harness("sync", f"output={copied}")
    assert done.returncode == 0, done.stderr
    assert f"{folder / name} is a link, which is not followed: this run is left out" in done.stdout or name == "run.json"
    assert "synced 2 runs" in done.stdout
    assert not [path for path in (copied / "artifacts").rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]


@pytest.mark.parametrize("place", ["run", "study"])
def test_a_folder_behind_a_link_is_not_sent(run_harness, sweep, output, place):
    """It is the folder of another output: what is there belongs to its own store."""
    if place == "study":
        (output / "sweep").symlink_to(sweep.output / "sweep")
    else:
        (output / "sweep").mkdir()
        for folder in (sweep.output / "sweep").iterdir():
            (output / "sweep" / folder.name).symlink_to(folder)
    done = run_harness("sync", f"output={output}")
    assert (done.returncode, "has no run" in done.stderr) == (2, True), done.stderr
    assert "is reached by a link, which is not followed: this run is left out" in done.stdout


def test_files_of_a_report_that_are_links_get_into_no_store(run_harness, copied):
    (copied / "reports" / "sweep").mkdir(parents=True)
    (copied.parent / "private.key").write_text("PRIVATE KEY")
    for name in ("report.md", "report.html"):
        (copied / "reports" / "sweep" / name).symlink_to(copied.parent / "private.key")
    assert run_harness("sync", f"output={copied}").returncode == 0
    assert not [path for path in (copied / "artifacts").rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    for path in copied.glob("mlflow.db*"):
        assert b"PRIVATE KEY" not in path.read_bytes()
