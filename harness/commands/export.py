"""A model that was trained here as a checkpoint that transformers loads: `python -m harness export RUN [to=FOLDER]`.

RUN is the folder of a pretraining or fine-tuning, or its id in the tracking store. The checkpoint is config.json,
model.safetensors, the tokenizer and a model card; that of a fine-tuning has the head of its task. It is loaded and run once
before it gets its name: by transformers where that is installed, otherwise by our own reader. `format=onnx` writes an ONNX file
instead, and `register=NAME` adds a fine-tuning to MLflow's model registry, whose predictions are those of `predict`.
"""

from pathlib import Path

from harness import paths, records
from harness.checkpoints import card, find_run, onnx_file
from harness.checkpoints.export import Export, export
from harness.commands.options import Export as Options
from harness.config.choices import TaskKind
from harness.config.schema import HardwareConfig
from harness.errors import InputError, is_disk_full
from harness.tracking import run_log
from harness.tracking.run_log import Record
from harness.tracking.trackers import complaint


def summary(exported: Export) -> str:
    """What was written, and what was not."""
    family = exported.family
    lines = [
        f"wrote {exported.folder}: {family}, {exported.tensors} tensors",
        f"heads included: {', '.join(exported.heads) or 'none'}",
        f"left out, {family} has no place for it: {', '.join(exported.left_out) or 'none'}",
        f"transformers will initialise randomly: {', '.join(exported.initialised) or 'nothing'}",
        f"loaded and run once by {exported.checked}",
    ]
    return "\n".join(lines)


def main(options: Options) -> int:
    """0; InputError for what cannot be exported."""
    checkpoint = find_run.weights_folder(options.run, "RUN", options.output, options.uri)
    if options.register is not None:
        print(f"registered {_register(options, checkpoint)}: load it by mlflow.pyfunc.load_model")
        return 0
    if options.format == "onnx":
        print(onnx_file.export(checkpoint, options.to or checkpoint.parent / "onnx"))
        return 0
    run = checkpoint.parent
    readme = card.text(run, options.license) if (run / run_log.RESULT).is_file() else None
    exported = export(checkpoint, options.to or run / "export", options.family, readme)
    print(summary(exported))
    print(f"model card: {'README.md' if readme else 'none, as the folder of the run is not beside its weights'}")
    return 0


def _register(options: Options, checkpoint: Path) -> str:
    """The address of the new version in the registry; InputError for what cannot be registered."""
    from harness.tracking import mlflow_store  # a second, which only this needs
    from harness.training import predictor  # torch, which only this needs

    record, served = checkpoint.parent / run_log.RECORD, predictor.Predictor(checkpoint, HardwareConfig(), predictor.BATCH_SIZE)
    if not record.is_file():
        raise InputError(
            f"register={options.register}: {checkpoint} is not beside the record of a run: expected RUN, not its weights"
        )
    example, answer = served.example, served.predict(served.example)
    if served.task.kind is TaskKind.multilabel:
        answer["prediction"] = [served.task.labels]  # without a label it would have no type in the signature
    model = mlflow_store.Registered(options.register, checkpoint, predictor.__name__, example, answer)
    try:
        return mlflow_store.register(model, records.read(record, Record)["attempt"], options.uri, options.output)
    except (mlflow_store.MlflowException, ImportError, OSError) as error:  # ImportError for the driver of a database
        if is_disk_full(error):
            raise
        where = options.uri or paths.database_uri(options.output)
        raise InputError(f"register={options.register} tracking.uri={where}: MLflow {complaint(error)}") from error
