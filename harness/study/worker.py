"""The worker: the story of one cell, in a process of its own. It knows torch and the journal, neither Hydra nor MLflow.

python -m harness.study.worker FOLDER     reads config.yaml and run.json there, leaves result.json
"""

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
from harness.measure.memory import Peak, PeakMemory, refuse_less_than
from harness.study import run_folder
from harness.study.identity import Inputs
from harness.study.timing import summary
from harness.tasks import prepared as cache
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
from models.heads import Classifier, build_classifier


def main(folder: Path) -> None:
    """Runs one cell; an exception leaves no result."""
    config = resolve.load(folder / "config.yaml")
    run = run_folder.read(folder)
    journal = Journal(folder)
    write_json(folder / "environment.json", facts.environment(config.hardware) | {"measure_version": measure.VERSION})
    try:
        inputs, machine = Inputs(**run["inputs"]), Machine(config.hardware)
        if inputs.data is None:
            pretrain(config, inputs, run["tags"]["fingerprint"], machine, journal)
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
    memory = PeakMemory(machine)
    model = measure_inference(config, inputs, prepared, machine, memory, journal)
    journal.value("corpus/overlap", inputs.overlap)
    if config.finetune.enabled:
        train_and_evaluate(config, model, prepared, machine, memory, journal)


def measure_inference(
    config: RunConfig, inputs: Inputs, prepared: Prepared, machine: Machine, memory: PeakMemory, journal: Journal
) -> Classifier:
    """Counts and times the untrained model, each instrument in a pass of its own; returns that model."""
    outputs, head, told = tasks.num_outputs(config.task), tasks.kind_of(config.task).head(), config.measure
    journal.stage("measure")
    built: list[Classifier] = []

    def build() -> None:
        built.append(machine.compiled(_build(config, inputs).to(machine.device)))

    def run() -> None:
        if told.enabled:
            call = latency.forward(built[0], machine)
            for batch in latency.sample_batches(prepared, told.batch_size, told.throughput_batches, machine):
                call(batch)

    if machine.compiles:
        build()
        memory.leave_out(run)
    held = memory.both(run if built else lambda: (build(), run()))
    model = built[0]
    write_json(journal.folder / "parameters.json", size.per_layer(model))
    for key, value in (size.sizes(model) | size.published_sizes(config.published, outputs, head)).items():
        journal.value(key, value)
    if told.enabled:
        _write_memory("inference", held, model, journal)
        forward = flops.counted(config.model, outputs, 1, told.length, False, head)
        text = latency.text_of(told.length, prepared.vocab_size, machine)
        journal.value("model/flops_forward", forward)
        _write_intensity(forward, bytes_moved.bytes_forward(model, text, machine), journal)
        step = flops.counted(config.model, outputs, config.finetune.batch_size, told.length, True, head)
        journal.value("model/flops_train_step", step)
        summary.tell(summary.read(journal.folder), forward, journal)
        _write_lengths(config, outputs, head, journal)
    return model


def _write_memory(phase: str, held: Peak, model: Classifier, journal: Journal) -> None:
    """By each instrument that this device has; RuntimeError where the weights alone are more."""
    refuse_less_than(size.sizes(model)["model/weights_bytes"], held)
    journal.value(f"{phase}/peak_memory_bytes", held.kernel)
    journal.value(f"{phase}/sampled_peak_memory_bytes", held.sampled)
    journal.value(f"{phase}/reserved_peak_memory_bytes", held.reserved)
    journal.value(f"{phase}/process_peak_memory_bytes", held.process)


def _write_intensity(forward_flops: int, moved_bytes: int, journal: Journal) -> None:
    journal.value("model/bytes_forward", moved_bytes)
    journal.value("model/arithmetic_intensity", forward_flops / moved_bytes)


def _build(config: RunConfig, inputs: Inputs) -> Classifier:
    """The classifier with random weights, or with those of a pretraining or of published weights."""
    kind = tasks.kind_of(config.task)
    model = build_classifier(config.model, kind.num_outputs(config.task), config.seed, kind.head())
    fresh: list[str] | None = None
    if inputs.pretrained is not None:
        fresh = pretrained.load_weights(inputs.pretrained, model)
    elif config.model.init_from is not None:
        fresh = huggingface.load_weights(config, model)
    if fresh is not None:
        print("randomly initialised:", ", ".join(fresh) or "none")
    return model


def _write_lengths(config: RunConfig, outputs: int, head: type[Classifier], journal: Journal) -> None:
    lengths = sorted(length for length in config.measure.lengths if length <= config.model.longest_text)
    for length, counts in flops.by_length(config.model, outputs, lengths, head).items():
        journal.sample("scaling/flops_forward", length, counts.forward, now_ms())
        journal.sample("scaling/flops_train_step", length, counts.train_step, now_ms())


def train_and_evaluate(
    config: RunConfig, model: Classifier, prepared: Prepared, machine: Machine, memory: PeakMemory, journal: Journal
) -> None:
    """Fine-tunes, then answers and scores every item that is not trained on; DivergedError when training does."""
    done: list[Position] = []
    spent: list[float | None] = []
    meter = energy.EnergyMeter(energy.counters(machine))

    def train() -> None:
        done.append(finetune(config, model, prepared, machine, journal, meter))

    if machine.compiles:
        memory.leave_out(lambda: compile_ahead(training_of(config, model, prepared), Position(), machine))
    held = memory.both(lambda: spent.append(meter.of(train)))
    _write_memory("finetune", held, model, journal)
    journal.value("finetune/energy_j", spent[0])
    for key, value in (costs(done[0]) | rates(done[0])).items():
        journal.value(key, value)
    if config.measure.enabled:
        _write_utilisation(config, done[0], machine, journal)
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
