"""What each choice of our training brings, alone and together: fine-tuning on SST-2 at scale mini, batch 32, real tokens/s.

A side without a choice has what torch or a plain loop does in its place, so that "none" is such a loop with our model.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import ours
import rounds
from ours import Finetuning
from torch.nn import functional as F

from harness.config.choices import Dtype, Products
from harness.config.schema import HardwareConfig, OptimiserConfig, RunConfig
from harness.hardware.device import Machine
from harness.models import norms as dropout
from harness.models.attention import products
from harness.models.batch import Batch
from harness.models.heads import build_classifier
from harness.tasks import batches
from harness.tasks.prepared import Prepared
from harness.training import finetune, loop
from harness.training.optimiser import Clipped, make_optimiser

ROWS, LENGTHS, TABLE, FUSED = "grouped by length", "lengths rounded to 4", "gradients of the table by rows", "fused AdamW"
DROPOUT, UNMASKED, ONEDNN, HALF = "four dropouts a draw", "no mask where nothing is padded", "products by oneDNN", "bf16"

FIRST = 2
"""Steps before the clock starts, on every side."""


def _torch_dropout(x: Any, probability: float) -> Any:
    return F.dropout(x, probability)


def _looped(model: Any, config: OptimiserConfig) -> Clipped:
    optimiser = make_optimiser(model, config)
    for group in optimiser.param_groups:
        group["fused"] = False
    return optimiser


_collate = batches.collate


def _masked(*given: Any) -> Batch:
    batch = _collate(*given)
    return replace(batch, attention_mask=batch.input_ids == batch.input_ids) if batch.attention_mask is None else batch


WITHOUT: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    ROWS: ((batches, "POOL_BATCHES", 1),),
    LENGTHS: ((batches, "STEPS", dict.fromkeys(batches.STEPS, 1)),),
    TABLE: ((loop, "use_sparse_gradients", lambda model: None), (Clipped, "use_rows", lambda self, model: None)),
    FUSED: ((finetune, "make_optimiser", _looped),),
    DROPOUT: ((dropout, "dropout", _torch_dropout), (products, "drop", _torch_dropout)),
    UNMASKED: ((batches, "collate", _masked),),
    ONEDNN: (),
    HALF: (),
}
"""Choice -> what stands in its place without it: module, name, value. The last two are settings of the machine."""

FLOAT = tuple(choice for choice in WITHOUT if choice != HALF)

SIDES = {"none": (), **{f"{choice} alone": (choice,) for choice in WITHOUT}, "all but bf16": FLOAT, "all": tuple(WITHOUT)}
"""Name of a side -> its choices."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """How many times as fast as without any choice, and the throughput of each side; the first round is for warm-up."""
    steps = FIRST + (8 if quick else 60)
    with tempfile.TemporaryDirectory() as folder:
        output = ours.prepared_folder(Path(folder) / "output")
        config, data = ours.on_task("task=sst2", f"data.train_examples={ours.ROWS}", output=output)
        sides = {
            name: _side(config, data, choices, Path(folder) / str(number), steps)
            for number, (name, choices) in enumerate(SIDES.items())
        }
        values = {name: rates[1:] for name, rates in rounds.interleaved(sides, 3 if quick else 8).items()}
    ratios = [rounds.times_as_fast(values[name], values["none"], f"{name} / none") for name in SIDES if name != "none"]
    return ratios + rounds.rates(values, "tokens/s")


def _side(config: RunConfig, data: Prepared, choices: Iterable[str], folder: Path, steps: int) -> Callable[[int], float]:
    training = Finetuning(config, build_classifier(config.model, 2, 0), data, folder, machine(choices))

    def run(number: int) -> float:
        with only(choices):
            return training.run(steps, FIRST, number).tokens_per_s

    return run


def machine(choices: Iterable[str]) -> Machine:
    """The CPU with the arithmetic of these choices."""
    dtype = Dtype.bf16 if HALF in choices else Dtype.fp32
    return Machine(
        HardwareConfig(dtype=dtype, threads=ours.THREADS, products=Products.onednn if ONEDNN in choices else Products.torch)
    )


@contextlib.contextmanager
def only(choices: Iterable[str]):
    """Inside, training does without all others."""
    with contextlib.ExitStack() as stack:
        for choice in set(WITHOUT) - set(choices):
            for module, name, value in WITHOUT[choice]:
                stack.enter_context(mock.patch.object(module, name, value))
        yield
