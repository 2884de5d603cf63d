"""Short fine-tuning on SST-2 in fp32, batch 32, each in a fresh process: ours against `Trainer` grouped by length.

    python tests/benchmarks/short_speed.py [--steps 60 120 300 3000] [--rounds 2] [--threads 1] [--scale mini] [--cpu]

Real tokens per second after the first step; the time that the first steps take for new shapes counts. `--cpu` takes the CPU
time of the process instead, for a machine that others use.
"""

import argparse
import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import finetune_speed  # noqa: E402
import ours  # noqa: E402
import peers  # noqa: E402
import rounds  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from harness.models.heads import build_classifier  # noqa: E402
from harness.training import loop  # noqa: E402

OURS, GROUPED = "ours, fp32", "Trainer, grouped by length, fp32"

STEPS = (60, 120, 300)


def measure(quick: bool) -> list[dict[str, Any]]:
    """Throughput of both sides and their ratio, for each number of steps."""
    return trainings(STEPS if quick else (*STEPS, 3000), 2 if quick else 5)


def trainings(steps: tuple[int, ...], count: int, scale: str = "mini", threads: int = ours.THREADS, cpu: bool = False) -> list:
    """The same for these numbers of steps, in so many rounds."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for number in steps:

            def side(name: str, number: int = number) -> rounds.Side:
                return lambda seed: in_fresh_process(train, name, number, seed, folder, scale, threads, cpu)

            values = rounds.interleaved({name: side(name) for name in (OURS, GROUPED)}, count)
            named = {f"{name}, {number} steps": figure for name, figure in values.items()}
            figures += [rounds.times_as_fast(*values.values(), " / ".join(named)), *rounds.rates(named, "tokens/s")]
    return figures


def in_fresh_process(function: Any, *arguments: Any) -> Any:
    """What the function returns, called in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def train(name: str, steps: int, seed: int, folder: str, scale: str, threads: int, cpu: bool) -> float:
    """Real tokens per second of one training after its first step."""
    torch.set_num_threads(threads)
    output = ours.prepared_folder(Path(folder) / "output")
    overrides = ("task=sst2", f"scale={scale}", f"data.train_examples={ours.ROWS}", "hardware.dtype=fp32")
    config, data = ours.on_task(*overrides, f"hardware.threads={threads}", output=output)
    with tempfile.TemporaryDirectory(dir=folder) as own, _clock(cpu):
        if name == OURS:
            machine = ours.Machine(config.hardware)
            training = ours.Finetuning(config, build_classifier(config.model, 2, 0), data, Path(own), machine)
            return training.run(steps, 1, seed).tokens_per_s
        rows = finetune_speed.tokenised(peers.tokenizer(), data)
        model = transformers.BertForSequenceClassification(peers.bert(config.model, num_labels=2))
        collator, grouped = (
            transformers.DataCollatorWithPadding(peers.tokenizer()),
            {"train_sampling_strategy": "group_by_length"},
        )
        return peers.Training(model, rows, collator, config.finetune, Path(own), **grouped).run(steps, 1, seed)


@contextlib.contextmanager
def _clock(cpu: bool) -> Iterator[None]:
    """Inside, both sides read the CPU time of the process as the time, or the clock."""
    now = time.process_time if cpu else time.perf_counter
    with mock.patch.object(loop, "now_ms", side_effect=lambda: now() * 1e3), mock.patch.object(peers.time, "perf_counter", now):
        yield


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=ours.THREADS)
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--cpu", action="store_true", help="CPU time of the process instead of the clock")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": str(options.threads), "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    for row in trainings(options.steps, options.rounds, options.scale, options.threads, options.cpu):
        print(f"{row['name']}: {row['value']:,.4g} {row['unit']} ({row['low']:,.4g} to {row['high']:,.4g})")
