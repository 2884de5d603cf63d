"""A fine-tuning in MLflow's model registry: `python -m harness export RUN register=NAME`."""

import contextlib
import tempfile
import uuid
from pathlib import Path
from typing import Any

from mlflow import models, pyfunc
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from harness import paths, records
from harness.config.choices import TaskKind
from harness.config.schema import HardwareConfig
from harness.errors import InputError, is_disk_full, present
from harness.plugins.export.options import Export
from harness.plugins.shared import predictor
from harness.plugins.trackers import mlflow_store
from harness.plugins.trackers.mlflow_store import MlflowException
from harness.tracking import run_log
from harness.tracking.run_log import Record
from harness.tracking.trackers import complaint


def register(options: Export, checkpoint: Path) -> str:
    """Adds a checkpoint to the files of its tracked run, and a version to the registry: its address, `models:/NAME/VERSION`.

    InputError for a run that is not tracked, for a name that none can have, and where MLflow is unreachable. Files that no
    version names are removed where MLflow still answers.
    """
    record, served = checkpoint.parent / run_log.RECORD, predictor.Predictor(checkpoint, HardwareConfig(), predictor.BATCH_SIZE)
    if not record.is_file():
        raise InputError(
            f"register={options.register}: {checkpoint} is not in the folder of a run: expected RUN, not its weights"
        )
    try:
        return _registered(options, checkpoint, served, records.read(record, Record)["attempt"])
    except (MlflowException, ImportError, OSError) as error:  # ImportError for the driver of a database
        if is_disk_full(error):
            raise
        where = options.uri or paths.database_uri(options.output)
        raise InputError(f"register={options.register} tracking.uri={where}: MLflow {complaint(error)}") from error


def _registered(options: Export, checkpoint: Path, served: predictor.Predictor, attempt: str) -> str:
    client = mlflow_store.client_of(options.uri, options.output)
    tracked = None if client is None else mlflow_store.run_of(attempt, client, mlflow_store.studies(client))
    if client is None or tracked is None:
        raise InputError(f"register={options.register}: the run is not in the tracking store: python -m harness sync sends it")
    example, answer = served.example, served.predict(served.example)
    if served.task.kind is TaskKind.multilabel:
        answer["prediction"] = [served.task.labels]  # without a label it would have no type in the signature
    described = {"signature": models.infer_signature(example, answer), "input_example": example}
    run, name = tracked.info, present(options.register)
    if name not in (model.name for model in client.search_registered_models(f"name = '{name}'")):
        client.create_registered_model(name)
    store: Any = get_artifact_repository(run.artifact_uri, tracking_uri=options.uri or paths.database_uri(options.output))
    place = f"model/{uuid.uuid4().hex}"  # of this version alone: another one stays as it is, whatever happens
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder) / "model"
            needed = ["encoder-variant-harness"]
            pyfunc.save_model(files, predictor.__name__, str(checkpoint), pip_requirements=needed, **described)
            store.log_artifacts(str(files), place)
        summary = tracked.data.tags.get(mlflow_store.NOTE, "").partition("\n")[0]
        version = client.create_model_version(name, f"{run.artifact_uri}/{place}", run.run_id, description=summary)
    except BaseException:
        with contextlib.suppress(MlflowException, OSError):
            store.delete_artifacts(place)
        raise
    return f"models:/{name}/{version.version}"
