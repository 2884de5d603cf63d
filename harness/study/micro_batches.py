"""Smaller micro-batches for a run that ran out of memory: an optimizer step has the same batch, whose parts are added up."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from harness import tags, tasks
from harness.config.schema import RunConfig, to_dict
from harness.tracking import run_log
from harness.tracking.run_log import Record

if TYPE_CHECKING:  # workers, which apply micro-batches, plan nothing
    from harness.study.plan import PlannedRun

MicroBatches = dict[str, int]
"""Phase, `pretrain` or `finetune` -> micro-batches that its batch is cut into; `pieces` in what is printed and kept."""


class FittingMicroBatches:
    """The micro-batches in which runs of this command fitted; the next run of the same shape begins with them."""

    def __init__(self) -> None:
        self._of_shape: dict[str, int] = {}

    def learn(self, run: "PlannedRun", record: Record) -> None:
        """Takes over what an earlier attempt at this run, or an earlier command, found."""
        pieces = record.get(tags.PIECES, {}).get(_phase(run))
        if pieces is not None:
            self._of_shape[_shape(run)] = pieces

    def first(self, run: "PlannedRun") -> MicroBatches:
        """What the run begins with; empty where nothing but its config says it."""
        count = self._of_shape.get(_shape(run))
        return {} if count is None else {_phase(run): count}

    def smaller(self, run: "PlannedRun", record: Record) -> MicroBatches | None:
        """About twice as many; None where single rows are processed already, where no training ran out of memory, and for
        in-batch negatives, which are others in a smaller batch."""
        phase = _phase(run)
        stages = [entry["stage"] for entry in run_log.Reader(run.folder).new_entries() if "stage" in entry]
        if stages[-1:] != [phase] or (phase == "finetune" and run.config.finetune.in_batch_negatives):
            return None
        options = getattr(run.config, phase)
        rows, pieces = options.batch_size, record.get(tags.PIECES, {}).get(phase, options.accumulation)
        counts = range(2 * pieces, rows // run.config.hardware.devices + 1)
        return next(({phase: count} for count in counts if rows % count == 0), None)


def applied(config: RunConfig, record: Record) -> RunConfig:
    """The config with the micro-batches of the record in place of `accumulation`."""
    for phase, count in record.get(tags.PIECES, {}).items():
        config = replace(config, **{phase: replace(getattr(config, phase), accumulation=count)})
    return config


def text(pieces: MicroBatches) -> str:
    """`finetune in 4 pieces`."""
    return ", ".join(f"{phase} in {count} pieces" for phase, count in pieces.items())


def _phase(run: "PlannedRun") -> str:
    return "pretrain" if run.inputs.is_pretraining else "finetune"


def _shape(run: "PlannedRun") -> str:
    """What decides the memory of a training step: the model, the batch, the length of its texts, the hardware."""
    config, phase = run.config, _phase(run)
    options = getattr(config, phase)
    step = [phase, options.batch_size, options.accumulation, options.activation_checkpointing, to_dict(config.hardware)]
    if phase == "pretrain":
        step += [options.length, options.title]
    else:
        step += [config.task.max_length, config.task.kind.name, tasks.num_outputs(config.task)]
    return json.dumps([step, to_dict(config.model)])
