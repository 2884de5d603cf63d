"""Trains 60 small steps for every line that it reads, and answers with their seconds.

python neighbour_child.py
"""

import sys
import time

import torch

from harness import processes
from harness.config.schema import FinetuneConfig, HardwareConfig
from harness.hardware.device import Machine
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier
from harness.training.optimiser import make_optimiser

STEPS, BATCH, LENGTH, THREADS = 60, 8, 16, 2
MINI = EncoderConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=1000)


def main() -> None:
    """Until its input ends."""
    processes.end_with_parent()
    model = Machine(HardwareConfig(threads=THREADS)).prepare(build_classifier(MINI, 2, 0).train())
    optimiser = make_optimiser(model, FinetuneConfig())
    batch, labels = Batch(torch.randint(0, MINI.vocab_size, (BATCH, LENGTH))), torch.zeros(BATCH, dtype=torch.int64)
    for _ in sys.stdin:
        started = time.perf_counter()
        for _ in range(STEPS):
            model.loss(model(batch), labels).backward()
            optimiser.update()
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main()
