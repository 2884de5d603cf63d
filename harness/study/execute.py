"""A run in its worker: a pretraining, or a task that is measured, trained and evaluated; alone, or as one of its ranks."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from filelock import FileLock
from torch import nn

from harness import paths, records, tags, tasks
from harness.checkpoints import finetuned, huggingface, native, pretrained
from harness.config.choices import Keep, KeepBest
from harness.config.conditions import is_only_scored, starts_from_weights
from harness.config.schema import RunConfig
from harness.corpus import sequences
from harness.errors import InputError, present
from harness.hardware import energy, facts, peak_flops
from harness.hardware.device import Machine
from harness.measure import bytes_moved, flops, latency, serving, size
from harness.measure.memory import Baseline, peak_memory, refuse_less_than
from harness.measure.records import Peak
from harness.measure.subject import Subject, classifier, load_code, step_shape
from harness.models.adapt import adapt, merge
from harness.models.derive import RANDOM
from harness.models.heads import Classifier
from harness.processes.ending import INVALID
from harness.study import micro_batches, outcome, run_folder
from harness.study.identity import Inputs
from harness.tasks import prepared as cache
from harness.tasks import scores
from harness.tasks.batches import padded_shapes, step_of_lengths
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog, State, now_ms
from harness.training import untrained
from harness.training.distributed import ALONE, Ranks
from harness.training.evaluation import (
    evaluate_split,
    headline,
    predict,
    submit,
    write_more_scores,
    write_predictions,
    write_scores,
)
from harness.training.finetune import costs, finetune, rates, training_of
from harness.training.loop import DivergedError, Position, compile_ahead, write_medians
from harness.training.pretrain import pretrain
from harness.training.weights import write_origins


def execute(folder: Path, config: RunConfig, ranks: Ranks = ALONE) -> None:
    """Executes the run of the folder, which has this config, as this one of its ranks, of which the first writes."""
    record = run_folder.read(folder)
    config = micro_batches.applied(config, record)
    run_log = RunLog(folder, writes=ranks.first)
    if ranks.first:
        records.write(folder / "environment.json", facts.environment(config.hardware))
    try:
        inputs, machine = Inputs(**record["inputs"]), Machine(config.hardware, int(os.environ.get("LOCAL_RANK", "0")))
        load_code(config)
        if inputs.is_pretraining:
            corpus = sequences.read(config.output, inputs.text)
            run_log.values({"corpus/tokens": corpus.tokens["train"], "corpus/documents": corpus.documents["train"]})
            objective = pretrain(config, corpus, machine, run_log, record["training"], Baseline(machine), ranks)
            run_log.values(size.of_objective(objective))
        else:
            run_task(config, inputs, machine, run_log, ranks, record.get(tags.PEAK))
        found = outcome.notes(config, run_log, record["parameters"]) if ranks.first else []
    except DivergedError as error:  # on all ranks at once: they share the loss
        found = [outcome.not_finite(config, error)]
    except InputError as error:  # of this machine, or of files that have changed since the command read them
        print(error, file=sys.stderr, flush=True)  # of any rank
        sys.exit(INVALID)
    if ranks.first:
        status = outcome.state_of(found)
        print(*(note.text for note in found), sep="\n", flush=True)
        run_log.finish(status, notes=[note._asdict() for note in found])
        if status is State.finished:
            shutil.rmtree(folder / paths.CHECKPOINTS, ignore_errors=True)  # a finished run is not resumed


def run_task(
    config: RunConfig,
    inputs: Inputs,
    machine: Machine,
    run_log: RunLog,
    ranks: Ranks = ALONE,
    peak_known: float | None = None,
) -> None:
    """Measures, trains and evaluates on one task; with several ranks, all train, and the first one measures and evaluates."""
    prepared = cache.read(config, inputs.rows)
    run_log.value("corpus/overlap", inputs.overlap)
    if is_only_scored(config):
        if ranks.first:
            untrained.evaluate(config, prepared, inputs.corpus, _pretrained(config, inputs), machine, run_log)
        return
    if config.finetune.enabled and config.task.kind in scores.LIBRARIES:
        scores.load_library(config.task.kind)
    baseline = Baseline(machine)
    if ranks.first:
        model = measure_inference(config, inputs, prepared, machine, baseline, run_log)
    else:
        model = machine.prepare(_build(config, inputs).to(machine.device))
    if config.finetune.enabled:
        train_and_evaluate(config, model, prepared, machine, baseline, run_log, ranks, peak_known)


def measure_inference(
    config: RunConfig, inputs: Inputs, prepared: Prepared, machine: Machine, baseline: Baseline, run_log: RunLog
) -> Classifier:
    """Counts the untrained model and measures its memory, each instrument in its own pass; returns that model."""
    outputs, head, settings = tasks.num_outputs(config.task), tasks.kind_of(config.task).head(), config.measure
    run_log.stage("measure")
    measured = Subject(config, machine, prepared)
    path = run_log.folder / serving.FILE
    if machine.compiles:
        model = machine.prepare(classifier(config, config.seed).to(machine.device))
        with baseline.leave_out():
            _infer(model, measured)
    with peak_memory(machine, baseline) as peak:
        if not machine.compiles:
            model = machine.prepare(classifier(config, config.seed).to(machine.device))
        _infer(model, measured)
    file_bytes, products = None, {}
    if serving.is_from_file(config):
        with baseline.leave_out():
            file_bytes = serving.write(model, settings, path)
            products = {f"model/products_{kind}": count for kind, count in serving.products(path, settings).items()}
            peak = _peak_of_served(config, measured, path)
    path.unlink(missing_ok=True)
    _load(config, inputs, model, run_log)  # after the peak, to which reading and changing weights would add
    records.write(run_log.folder / "parameters.json", size.per_layer(model))
    sizes = size.sizes(model) | size.published_sizes(config.published, outputs, head)
    run_log.values(sizes | products | {"model/file_bytes": file_bytes})
    if settings.enabled:
        _write_memory("inference", peak, present(file_bytes) if settings.is_served else size.weights_bytes(model), run_log)
        shape = step_shape(config, config.finetune.batch_size)
        forward = flops.counted_or_none(replace(shape, batch_size=1), backward=False)
        run_log.value("model/flops_forward", forward)
        if not settings.is_served:
            moved = bytes_moved.moved_forward(model, measured.text(present(settings.length)), machine)
            run_log.values({"model/bytes_forward": moved.total, "model/operators_forward": moved.operators})
            run_log.value("model/arithmetic_intensity", forward and forward / moved.total)
        run_log.value("model/flops_train_step", forward and flops.counted_or_none(shape, backward=True))
        _write_lengths(config, shape, run_log)
    return model


def _peak_of_served(config: RunConfig, measured: Subject, path: Path) -> Peak:
    """The peak of reading and running the served model above the process as it is now; none of compiling."""
    measured = replace(measured, machine=serving.machine(config))
    if measured.machine.compiles:
        return Peak()
    _infer(serving.load(path, config.measure, measured.machine), measured)  # loads its libraries, which are none of its memory
    with peak_memory(measured.machine) as peak:
        _infer(serving.load(path, config.measure, measured.machine), measured)
    return peak


def _infer(model: nn.Module, measured: Subject) -> None:
    """Runs the throughput batches once, if measuring is enabled."""
    if measured.config.measure.enabled:
        call = latency.forward(model, measured.machine)
        for batch in measured.batches():
            call(batch)


def _write_memory(phase: str, peak: Peak, weights: int, run_log: RunLog) -> None:
    """Writes the peak of each instrument that the device has; RuntimeError if one is below the size of the weights."""
    refuse_less_than(weights, peak)
    peaks = {"": peak.kernel, "sampled_": peak.sampled, "reserved_": peak.reserved, "process_": peak.process}
    run_log.values({f"{phase}/{instrument}peak_memory_bytes": value for instrument, value in peaks.items()})


def _build(config: RunConfig, inputs: Inputs) -> Classifier:
    """The classifier on the CPU with the weights that it starts from."""
    model = classifier(config, config.seed)
    _load(config, inputs, model)
    return model


def _load(config: RunConfig, inputs: Inputs, model: Classifier, run_log: RunLog | None = None) -> None:
    """Loads published weights, a pretraining, or the one after the other; without either, values stay those of the seed.

    A pretraining without a pooler leaves that of the published weights. What became of weights that the command names is
    written to the log.
    """
    origins = {}
    if config.model.init_from is not None:
        origins = huggingface.load_weights(config, model)
    if (weights := _pretrained(config, inputs)) is not None:
        pretrained_ones = pretrained.load_weights(weights, model, config.model.keep_layers, config.task)
        origins = {name: origins.get(name, origin) if origin == RANDOM else origin for name, origin in pretrained_ones.items()}
    if origins and starts_from_weights(config):
        write_origins(config, model, origins, run_log)


def _pretrained(config: RunConfig, inputs: Inputs) -> Path | None:
    """The weights of the pretraining that the run starts from; None for none, and for the control of an earlier one."""
    if inputs.pretrained is None or (config.model.random_weights and config.pretrain.checkpoint is not None):
        return None
    return paths.pretrained_weights(Path(inputs.pretrained), None if config.protocol.starts_from else config.pretrain.at)


def _write_lengths(config: RunConfig, shape: flops.Shape, run_log: RunLog) -> None:
    lengths = sorted(length for length in config.measure.lengths if length <= config.model.longest_text)
    for length, counts in flops.by_length(shape, lengths).items():
        for name, count in {"flops_forward": counts.forward, "flops_train_step": counts.train_step}.items():
            if count is not None:
                run_log.sample(f"scaling/{name}", length, count, now_ms())


def train_and_evaluate(
    config: RunConfig,
    model: Classifier,
    prepared: Prepared,
    machine: Machine,
    baseline: Baseline,
    run_log: RunLog,
    ranks: Ranks,
    peak_known: float | None,
) -> None:
    """Fine-tunes, then evaluates every split that is not trained on; DivergedError if training diverges.

    `peak_known`: FLOP/s of the fastest matrix product, which an earlier run of the command has measured.
    """
    adapt(model, config.finetune, config.seed)
    run_log.value("model/params_trainable", size.trainable(model))
    teacher = None
    if config.finetune.teacher is not None:  # whose answers are learned beside the labels
        teacher = finetuned.load_finetuned(Path(config.finetune.teacher))[0].requires_grad_(False).to(machine.device)
    cost = flops.of_training(model, teacher if config.finetune.hidden_weight else None)  # answers are computed once
    if machine.compiles:
        with baseline.leave_out():
            compile_ahead(training_of(config, model, prepared, cost, teacher=teacher), Position(), machine)
    budget, train = config.finetune, present(prepared.train)
    steps, step = budget.planned_steps(len(train)), step_of_lengths(config.hardware)
    for shape in {*padded_shapes(train, budget.batch_size, config.seed, steps, step)}:
        cost(*shape)  # what has to be counted is counted before the clock starts
    meter = energy.EnergyMeter(energy.counters(cuda=machine.is_cuda) if ranks.count == 1 else [])  # counters of one device
    with peak_memory(machine, baseline) as peak, meter:
        done = finetune(config, model, prepared, machine, run_log, cost, meter, ranks, teacher, baseline.paused)
    merge(model)
    largest = _gather(peak, ranks)
    if not ranks.first:
        return
    _write_memory("finetune", peak, size.weights_bytes(model), run_log)
    run_log.values({"finetune/device_peak_memory_bytes": largest, "finetune/energy_j": meter.counted})
    run_log.values(costs(done) | rates(done))
    write_medians(run_log, "finetune")
    if config.measure.enabled:  # the peak of one device is measured with its threads and dtype
        with FileLock(paths.timing_lock(config.output)):
            fastest, share = peak_flops.utilisation(
                done.flops / ranks.count, done.seconds, lambda: peak_flops.peak_flops_per_s(machine), peak_known
            )
        run_log.values({"hardware/peak_flops_per_s": fastest, "finetune/mfu": share})
    run_log.stage("evaluate")
    served, on = (model, machine) if not config.measure.is_served else _serve(config, model, prepared, machine, run_log)
    answers = evaluate_split(config, served, prepared.validation, prepared, on)
    write_scores(config.task, answers, run_log)
    write_predictions(answers, run_log.folder / "predictions.parquet")
    _evaluate_more(config, served, prepared, on, run_log)
    if config.finetune.keep in (Keep.last, Keep.best):
        tokenizer = paths.data_folder(config.output, prepared.key) / native.TOKENIZER
        finetuned.save(run_log.folder / paths.WEIGHTS, model, config.task, tokenizer)


def _serve(
    config: RunConfig, model: Classifier, prepared: Prepared, machine: Machine, run_log: RunLog
) -> tuple[nn.Module, Machine]:
    """The trained model as it is served, and the device; writes how far its logits on the validation rows are from torch's."""
    path, on = run_log.folder / serving.FILE, serving.machine(config)
    serving.write(model, config.measure, path)
    served = serving.load(path, config.measure, on)
    path.unlink()
    batch_size, pad = config.finetune.eval_batch_size, prepared.pad_token_id
    plain, of_served = (predict(one, prepared.validation, batch_size, pad, at) for one, at in ((model, machine), (served, on)))
    run_log.value("eval/logits_difference_max", float(abs(plain - of_served).max()))
    return served, on


def _gather(peak: Peak, ranks: Ranks) -> int | None:
    """Makes the peak of this rank that of all together, and returns that of the largest; None for one rank."""
    if ranks.count == 1:
        return None
    peaks = None
    for name in ("sampled", "reserved", "process", "kernel"):
        peaks = ranks.gathered(getattr(peak, name))
        setattr(peak, name, None if peaks is None else int(sum(peaks)))
    return None if peaks is None else int(max(peaks))


def _evaluate_more(config: RunConfig, model: nn.Module, prepared: Prepared, machine: Machine, run_log: RunLog) -> None:
    """Evaluates the additional validation splits and the tuning split, and writes the benchmark's submission."""
    for name in config.task.more_validation:
        answers = evaluate_split(config, model, prepared.more[name], prepared, machine)
        write_more_scores(config.task, f"_{name}", answers, run_log)
        write_predictions(answers, run_log.folder / f"predictions_{name}.parquet")
    if prepared.tune is not None and config.finetune.keep_best is not KeepBest.tune:
        answers = evaluate_split(config, model, prepared.tune, prepared, machine)
        run_log.value("tune/score", headline(config.task, answers))
    if config.finetune.submit:
        submit(config, model, prepared, machine, run_log.folder)
