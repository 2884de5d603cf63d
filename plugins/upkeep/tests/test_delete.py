"""`python -m harness delete`: a study or a run goes from the folder and the store; what other runs need is named first."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow.tracking import MlflowClient

from harness import paths, records
from harness.errors import InputError
from harness.plugins.upkeep import delete
from harness.tracking.run_log import Record

pytestmark = pytest.mark.long


@pytest.fixture
def results(sweep, tmp_path) -> Path:
    """A copy of a finished sweep with its store, and the report of it."""
    shutil.copytree(sweep.output, tmp_path / "out")
    paths.report_folder(str(tmp_path / "out"), "sweep").mkdir(parents=True, exist_ok=True)
    return paths.made(tmp_path / "out")


def stored(output: Path) -> dict[str, int]:
    """Experiment -> how many runs the store has of it, deleted ones included."""
    client = MlflowClient(paths.database_uri(str(output)))
    return {each.name: len(client.search_runs([each.experiment_id], run_view_type=3)) for each in client.search_experiments(3)}


def test_a_study_goes_with_its_report_and_from_the_store_for_good(results, run_harness):
    assert stored(results)["sweep"] > 1
    done = run_harness("delete", "sweep", f"output={results}", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sweep: 3 runs, ")
    assert done.stdout.endswith("deleted sweep\n")
    assert "sweep" not in stored(results)
    assert [*results.glob("sweep")] == [*results.glob("reports/*")] == [*results.glob("artifacts/*")] == []


def test_a_run_goes_alone_after_who_needs_it_is_named(results, run_harness):
    run, user = sorted(path.parent for path in results.glob("sweep/base-*/run.json"))[0], results / "other" / "user"
    user.mkdir(parents=True)
    (user / "config.yaml").write_text(f"pretrain: {{checkpoint: {run}}}\n")
    others, before = {*results.glob("sweep/*")} - {run}, stored(results)["sweep"]
    done = run_harness("delete", run.name, f"output={results}", "--yes")
    assert done.stdout.startswith(f"{run.name}: needed by 1 run: user\n{run.name}: 1 run, ")
    assert {*results.glob("sweep/*")} == others
    assert stored(results)["sweep"] == before - 1


def test_every_attempt_at_a_run_goes_from_the_study_that_tracks_it(tracking):
    for fingerprint in ("f0", "f0", "f1"):
        tracking.log_pretraining(study="mine", fingerprint=fingerprint, role="run")
    output = tracking.path.parent
    (output / "pretrained/run").mkdir(parents=True)
    records.write(output / "pretrained/run/run.json", Record(tags={"study": "mine", "fingerprint": "f0"}))
    options = SimpleNamespace(uri=tracking.uri, output=str(output))
    delete._forget(options, output / "pretrained/run", is_study=False)
    assert stored(output)["mine"] == 1
    client = MlflowClient(tracking.uri)
    client.delete_experiment(client.get_experiment_by_name("mine").experiment_id)  # as `mlflow gc` leaves it where it fails
    delete._forget(options, output / "mine", is_study=True)
    assert "mine" not in stored(output)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweep"], "harness delete: delete asks for confirmation, but stdin is not a terminal: add --yes\n"),
        (["nosuch", "--yes"], "harness delete: STUDY|RUN='nosuch' is neither a folder"),
        (["{tmp_path}", "--yes"], "is neither a study nor a run below output="),
    ],
)
def test_nothing_goes_without_a_yes_or_a_study_or_run_of_this_name(words, said, results, run_harness, tmp_path):
    done = run_harness("delete", *(word.format(tmp_path=tmp_path) for word in words), f"output={results}")
    assert done.returncode == 2
    assert said in done.stderr
    assert (results / "sweep" / paths.PLAN).exists()


def test_nothing_goes_while_a_command_runs(results, run_harness):
    with paths.in_use(results):
        done = run_harness("delete", "sweep", f"output={results}", "--yes")
    assert done.returncode == 2
    assert "is in use by a running command: wait until it ends" in done.stderr
    assert (results / "sweep" / paths.PLAN).exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"must be a writable folder: .* is not writable$"):
        delete.main(SimpleNamespace(name="sweep", output=str(tmp_path), uri=None, yes=True))
