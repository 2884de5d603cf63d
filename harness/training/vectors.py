"""Texts as vectors of an encoder as it is, and the scores of their cosines."""

from pathlib import Path

from harness.checkpoints import huggingface, pretrained
from harness.config.schema import RunConfig
from harness.hardware.device import Machine
from harness.models.derive import RANDOM
from harness.models.heads import TextVectors, build_classifier
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog
from harness.training.evaluation import evaluate_split, write_predictions, write_scores
from harness.training.weights import write_start


def evaluate(config: RunConfig, data: Prepared, weights: Path | None, machine: Machine, run_log: RunLog) -> None:
    """Scores the validation split and writes scores and predictions; `weights` is the folder of a pretraining."""
    model = build_classifier(config.model, 0, config.seed, TextVectors)
    origins = dict.fromkeys(model.state_dict(), RANDOM)
    if config.model.init_from is not None and not config.model.random_weights:
        origins = huggingface.load_encoder(config, model.encoder)
    if weights is not None:
        origins = pretrained.load_weights(weights, model, config.model.keep_layers)
    model = write_start(config, model, origins, machine, run_log)
    answers = evaluate_split(config, model, data.validation, data, machine)
    write_scores(config.task, answers, run_log)
    write_predictions(answers, run_log.folder / "predictions.parquet")
