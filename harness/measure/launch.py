"""Starts one measuring process and reads its results."""

from dataclasses import dataclass, replace
from pathlib import Path

from harness import processes, records
from harness.config.schema import RunConfig, to_dict
from harness.hardware import facts
from harness.measure.records import CONFIG, MEASURED, REQUEST, Measured, Request, to_json
from harness.processes.ending import Ending, Watch, last_lines

WORKER = "harness.training.measure_worker"

TIMING, TRAINING = ("timing",), ("training_time",)
"""The instruments of the processes that are timed."""


@dataclass(frozen=True)
class Outcome:
    """The end of a measuring process, and its results."""

    measured: Measured
    code: int
    log: Path
    oom_kills: int = 0

    @property
    def ending(self) -> Ending:
        """Its end, with the last lines of its log."""
        return Ending(self.code, tuple(last_lines(self.log)), self.oom_kills)


def prepare() -> None:
    """Starts importing what measuring processes need, in a process of its own. Again it does nothing."""
    processes.serve(WORKER, "torch._dynamo")  # which the first optimiser imports: a launch need not


def launch(config: RunConfig, request: Request, folder: Path) -> Outcome:
    """Runs the worker in the folder to its end.

    Its libraries start with the CPU threads of timing, or of training for other instruments. A timing ends with training steps.
    Where they would find a served or a compiled model in memory, they run before, in a process of their own, as a served model
    is written.
    """
    is_timing, training = request.instruments == TIMING, None
    if config.measure.is_served and {"timing", "memory"} & {*request.instruments}:
        written = launch(config, Request(("served",)), folder)
        if written.code != 0:
            return written
    if is_timing and config.measure.train_steps and not (config.measure.is_served or config.hardware.compile):
        request = replace(request, instruments=(*TIMING, *TRAINING))
    elif is_timing and config.measure.train_steps:
        trained = launch(config, Request(TRAINING), folder)
        if trained.code != 0:
            return trained
        training = trained.measured.training_time
    folder.mkdir(parents=True, exist_ok=True)
    result, log = folder / MEASURED, folder / "log.txt"
    result.unlink(missing_ok=True)
    records.write(folder / CONFIG, to_dict(config))
    records.write(folder / REQUEST, to_json(request))
    threads = config.measure.threads if request.instruments[0] in (*TIMING, *TRAINING) else facts.threads(config.hardware)
    prepare()
    watch = Watch()
    code = processes.run(WORKER, [str(folder)], threads, log)
    measured = records.read_or(result, Measured, Measured())
    if measured.timing and (training := training or measured.training_time):
        measured = replace(measured, timing=[replace(one, training=training) for one in measured.timing])
    return Outcome(measured, code, log, watch.ending(code, log).oom_kills)
