"""The worker: the story of one cell, in a process of its own. It knows torch and the journal, neither Hydra nor MLflow.

python -m harness.run FOLDER     reads config.yaml and cell.json there, leaves result.json
"""

import json
import shutil
import sys
from pathlib import Path

from filelock import FileLock

from harness import measure, paths, processes, tasks
from harness.checkpoints import huggingface, pretrained
from harness.config import resolve
from harness.config.choices import KeepBest
from harness.config.schema import RunConfig
from harness.hardware import energy, facts
from harness.hardware.device import Machine
from harness.measure import bytes_moved, flops, latency, peak_flops, size
from harness.measure.memory import Baseline, peak_memory, refuse_less_than
from harness.measure.records import Peak
from harness.measure.subject import Subject, classifier
from harness.study.identity import Inputs
from harness.tasks import prepared as cache
from harness.tasks import scores
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import Journal, now_ms, write_json
from harness.training.finetune import (
    answer,
    costs,
    evaluate,
    evaluate_beside,
    finetune,
    headline,
    rates,
    submit,
    training_of,
    write_predictions,
)
from harness.training.loop import DivergedError, Position, compile_ahead
from models.heads import Classifier


def main(folder: Path) -> None:
    """Runs one cell; an exception leaves no result."""
    config = resolve.load(folder / "config.yaml")
    cell = json.loads((folder / "cell.json").read_text())
    journal = Journal(folder)
    write_json(folder / "environment.json", facts.environment(config.hardware) | {"measure_version": measure.VERSION})
    try:
        inputs, machine = Inputs(**cell["inputs"]), Machine(config.hardware)
        if inputs.data is None:
            pretrain(config, inputs, cell["tags"]["fingerprint"], machine, journal)
        else:
            measure_and_finetune(config, inputs, machine, journal)
        journal.finish("finished")
        shutil.rmtree(folder / paths.CHECKPOINTS, ignore_errors=True)  # nothing is left to go on with
    except DivergedError as error:
        print(f"diverged: {error}")
        journal.finish("diverged")


def pretrain(config: RunConfig, inputs: Inputs, identity: str, machine: Machine, journal: Journal) -> None:
    """Trains on the text from the newest checkpoint or the beginning, and leaves weights."""
    from harness.corpus import sequences
    from harness.training.pretrain import Pretraining

    corpus = sequences.read(config.output, inputs.corpus)
    journal.value("corpus/tokens", corpus.tokens("train"))
    journal.value("corpus/documents", corpus.documents("train"))
    Pretraining(config, corpus, machine, journal, identity).run()


def measure_and_finetune(config: RunConfig, inputs: Inputs, machine: Machine, journal: Journal) -> None:
    """Measures, trains and evaluates on one task."""
    prepared = cache.read(config, inputs.data)
    config = cache.shaped(config, prepared)
    if config.finetune.enabled:
        scores.load_library(config.task.kind)
    baseline = Baseline(machine)
    model = measure_inference(config, inputs, prepared, machine, baseline, journal)
    journal.value("corpus/overlap", inputs.overlap)
    if config.finetune.enabled:
        train_and_evaluate(config, model, prepared, machine, baseline, journal)


def measure_inference(
    config: RunConfig, inputs: Inputs, prepared: Prepared, machine: Machine, baseline: Baseline, journal: Journal
) -> Classifier:
    """Counts the untrained model and measures its memory, each instrument in a pass of its own; returns that model."""
    outputs, head, settings = tasks.num_outputs(config.task), tasks.kind_of(config.task).head(), config.measure
    journal.stage("measure")
    measured = Subject(config, machine, prepared)
    if machine.compiles:
        model = machine.compiled(_build(config, inputs).to(machine.device))
        with baseline.leave_out():
            _infer(model, measured)
    with peak_memory(machine, baseline) as peak:
        if not machine.compiles:
            model = _build(config, inputs).to(machine.device)
        _infer(model, measured)
    write_json(journal.folder / "parameters.json", size.per_layer(model))
    for key, value in (size.sizes(model) | size.published_sizes(config.published, outputs, head)).items():
        journal.value(key, value)
    if settings.enabled:
        _write_memory("inference", peak, model, journal)
        forward = flops.counted(config.model, outputs, 1, settings.length, False, head)
        journal.value("model/flops_forward", forward)
        _write_intensity(forward, bytes_moved.bytes_forward(model, measured.text(settings.length), machine), journal)
        step = flops.counted(config.model, outputs, config.finetune.batch_size, settings.length, True, head)
        journal.value("model/flops_train_step", step)
        _write_lengths(config, outputs, head, journal)
    return model


def _infer(model: Classifier, measured: Subject) -> None:
    """The batches of throughput once, where anything is measured."""
    if measured.config.measure.enabled:
        call = latency.forward(model, measured.machine)
        for batch in measured.batches():
            call(batch)


def _write_memory(phase: str, peak: Peak, model: Classifier, journal: Journal) -> None:
    """By each instrument that this device has; RuntimeError where the weights alone are more."""
    refuse_less_than(size.sizes(model)["model/weights_bytes"], peak)
    journal.value(f"{phase}/peak_memory_bytes", peak.kernel)
    journal.value(f"{phase}/sampled_peak_memory_bytes", peak.sampled)
    journal.value(f"{phase}/reserved_peak_memory_bytes", peak.reserved)
    journal.value(f"{phase}/process_peak_memory_bytes", peak.process)


def _write_intensity(forward_flops: int, moved_bytes: int, journal: Journal) -> None:
    journal.value("model/bytes_forward", moved_bytes)
    journal.value("model/arithmetic_intensity", forward_flops / moved_bytes)


def _build(config: RunConfig, inputs: Inputs) -> Classifier:
    """The classifier, randomly initialised or with the weights of a pretraining or published ones, on CPU."""
    model = classifier(config, config.seed)
    fresh: list[str] | None = None
    if inputs.pretrained is not None:
        fresh = pretrained.load_weights(inputs.pretrained, model)
    elif config.model.init_from is not None:
        fresh = huggingface.load_weights(config, model)
    if fresh is not None:
        print("fresh values:", ", ".join(fresh) or "none")
    return model


def _write_lengths(config: RunConfig, outputs: int, head: type[Classifier], journal: Journal) -> None:
    lengths = sorted(length for length in config.measure.lengths if length <= config.model.longest_text)
    for length, counts in flops.by_length(config.model, outputs, lengths, head).items():
        journal.sample("scaling/flops_forward", length, counts.forward, now_ms())
        journal.sample("scaling/flops_train_step", length, counts.train_step, now_ms())


def train_and_evaluate(
    config: RunConfig, model: Classifier, prepared: Prepared, machine: Machine, baseline: Baseline, journal: Journal
) -> None:
    """Fine-tunes, then answers and scores every item that is not trained on; DivergedError when training does."""
    if machine.compiles:
        with baseline.leave_out():
            compile_ahead(training_of(config, model, prepared), Position(), machine)
    meter = energy.EnergyMeter(energy.counters(machine))
    with peak_memory(machine, baseline) as peak, meter:
        done = finetune(config, model, prepared, machine, journal, meter)
    _write_memory("finetune", peak, model, journal)
    journal.value("finetune/energy_j", meter.counted)
    for key, value in (costs(done) | rates(done)).items():
        journal.value(key, value)
    if config.measure.enabled:
        _write_utilisation(config, done, machine, journal)
    journal.stage("evaluate")
    answers = answer(config, model, prepared.validation, prepared, machine)
    evaluate(config.task, answers, journal)
    write_predictions(answers, journal.folder / "predictions.parquet")
    _evaluate_more(config, model, prepared, machine, journal)


def _write_utilisation(config: RunConfig, done: Position, machine: Machine, journal: Journal) -> None:
    """The peak is that of training: on its threads and in its arithmetic."""
    with FileLock(paths.timing_lock(config.output)):
        fastest, share = peak_flops.utilisation(done.flops, done.seconds, lambda: peak_flops.peak_flops_per_s(machine))
    journal.value("hardware/peak_flops_per_s", fastest)
    journal.value("finetune/mfu", share)


def _evaluate_more(config: RunConfig, model: Classifier, prepared: Prepared, machine: Machine, journal: Journal) -> None:
    """Scores the splits beside the validation and the tuning rows, and leaves answers for the benchmark."""
    for name in config.task.more_validation:
        answers = answer(config, model, prepared.more[name], prepared, machine)
        evaluate_beside(config.task, f"_{name}", answers, journal)
        write_predictions(answers, journal.folder / f"predictions_{name}.parquet")
    if prepared.tune is not None and config.finetune.keep_best is not KeepBest.tune:
        answers = answer(config, model, prepared.tune, prepared, machine)
        journal.value("tune/score", headline(config.task, answers))
    if config.finetune.submit:
        submit(config, model, prepared, machine, journal.folder)


if __name__ == "__main__":
    processes.end_with_parent()
    main(Path(sys.argv[1]))
