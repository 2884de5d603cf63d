"""Deletes a study or a run: its folder, its report, and what the tracking store has of it; asks first.

python -m harness delete STUDY|RUN [output=multirun] [tracking.uri=URI] [--yes]
"""

import shutil
import subprocess
import sys
from pathlib import Path

from mlflow.exceptions import MlflowException

from harness import paths, tags
from harness.checkpoints import find_run
from harness.config.command_line import refuse_output
from harness.errors import InputError, some_of
from harness.plugins.shared import status
from harness.plugins.trackers import mlflow_store
from harness.plugins.upkeep import leftovers
from harness.plugins.upkeep.clean import alone, confirmed
from harness.plugins.upkeep.options import Delete
from harness.terminal import counted, scaled
from harness.tracking import run_log
from harness.tracking.trackers import complaint

LISTED = 3
"""Names that are listed."""


def main(options: Delete) -> int:
    """0; 1 where the answer was no. InputError for an unknown name, for one of another folder, and while a command runs."""
    refuse_output(options.output)
    output = Path(options.output).absolute()
    known = status.studies(options.output)
    studies = [output / name for name in (options.name, options.name + paths.OF_TRIALS) if name in known]
    try:
        folders = studies or [find_run.folder_of(options.name, "STUDY|RUN", options.output, options.uri)]
    except InputError as error:
        raise InputError(f"{error}; studies: {some_of(sorted(known), LISTED) or 'none'}") from error
    is_run = folders[0].parent.parent == output and paths.is_record(folders[0] / run_log.RECORD)
    if not (studies or is_run) or any(paths.is_linked(folder, output) for folder in folders):
        raise InputError(f"{options.name!r} is neither a study nor a run below output={options.output!r}")
    runs = [path.parent for study in studies for path in study.glob(f"*/{run_log.RECORD}")] if studies else folders
    with alone(paths.made(output)):
        texts = {user: text for user, text in leftovers.texts_of_runs(output).items() if user not in runs}
    for run in runs:
        if users := [user.name for user, text in texts.items() if run.name in text]:
            print(f"{run.name}: needed by {counted(len(users), 'run')}: {some_of(users, LISTED)}")
    every = [*folders]
    for name in (study.name for study in studies):  # its report, the files of its store, and its curves for TensorBoard
        every += [paths.report_folder(options.output, name), paths.artifact_folder(options.output) / name]
        every.append(output / "tensorboard" / name)
    size = sum(leftovers.size_of(folder) for folder in every if folder.is_dir())
    print(f"{options.name}: {counted(len(runs), 'run')}, {scaled(size, 'B')}, with their entries in the tracking store")
    if not confirmed(options.yes, "delete"):
        return 1
    with alone(output):
        for folder in folders:
            _forget(options, folder, folder in studies)
        for folder in every:
            shutil.rmtree(folder, ignore_errors=not folder.exists())
    print(f"deleted {options.name}")
    return 0


def _forget(options: Delete, folder: Path, is_study: bool) -> None:
    """Deletes the experiment or run from MLflow, for good in a database; InputError where MLflow is unreachable."""
    try:
        if (client := mlflow_store.client_of(options.uri, options.output)) is None:
            return
        of_run = {} if is_study else (run_log.record(folder) or {})["tags"]
        experiment = client.get_experiment_by_name(folder.name if is_study else of_run[tags.STUDY])
        if experiment is None:
            return
        if is_study:
            chosen = ("--experiment-ids", experiment.experiment_id)
            if experiment.lifecycle_stage == "active":  # else it is in the trash, where a failed `mlflow gc` has left it
                client.delete_experiment(experiment.experiment_id)
        else:  # all attempts: a report would count an earlier one
            same = {tags.FINGERPRINT: of_run[tags.FINGERPRINT], tags.ROLE: tags.ROLE_RUN}
            runs = {run.info.run_id for run in mlflow_store.tagged(client, [experiment.experiment_id], same)}
            chosen = ("--run-ids", ",".join(runs))
            for run in runs:
                client.delete_run(run)
            if not runs:
                return
        uri = options.uri or paths.database_uri(options.output)
        if uri.startswith("http"):
            print(f"MLflow keeps what was deleted until `mlflow gc {' '.join(chosen)}` runs on its server")
            return
        command = [sys.executable, "-P", "-m", "mlflow", "gc", "--backend-store-uri", uri, "--tracking-uri", uri, *chosen]
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise InputError(f"MLflow deleted it, but it remains in the trash: {error.stderr.strip().splitlines()[-1:]}") from error
    except MlflowException as error:
        raise InputError(f"MLflow {complaint(error)}") from error
