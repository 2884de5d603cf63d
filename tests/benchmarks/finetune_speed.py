"""Fine-tuning speed on real SST-2 against transformers' BERT of the same shape, both sides interleaved in one process.

    python tests/benchmarks/finetune_speed.py --root ../shared/data [--rounds 5] [--steps 20]

Three sides train the mini shape (L4 H256) with batch 32 and the same optimiser and loop:
  ours          our model, bf16 autocast, batches grouped by length
  same batches  transformers' BERT, bf16 autocast, the very same batches
  padded        transformers' BERT, fp32, random batches padded to 128
Prints real tokens per second of each round, the medians, and the ratios of each round. Nothing here is asserted: the machine
decides the absolute numbers, the ratios are what is claimed.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import transformers
from torch import nn

from harness.config.choices import DataSource, Dtype
from harness.config.schema import DataConfig, HardwareConfig, RunConfig, TaskConfig
from harness.hardware.device import Machine
from harness.tasks import prepared as cache
from harness.tasks.batches import collate, training_order
from harness.tasks.prepared import Prepared
from harness.training.loop import make_optimiser
from models.batch import Batch
from models.config import EncoderConfig
from models.heads import build_classifier

MINI = EncoderConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
SST2 = TaskConfig(
    name="sst2", hub="nyu-mll/glue", folder="glue", subset="sst2", fields=["sentence"], labels=["negative", "positive"],
    scores=["accuracy"], headline="accuracy",
)  # fmt: skip


@dataclass
class Side:
    """One model with its own batches and optimiser."""

    model: nn.Module
    loss: Callable[[Batch], torch.Tensor]
    batches: Iterator[Batch]
    machine: Machine
    optimiser: torch.optim.Optimizer

    def step(self) -> int:
        """One optimiser step; returns its real tokens."""
        batch = next(self.batches)
        with self.machine.autocast():
            loss = self.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return batch.tokens


def reference(config: EncoderConfig, num_labels: int) -> nn.Module:
    """transformers' BERT classifier of the same shape, from scratch."""
    shape = transformers.BertConfig(
        vocab_size=config.vocab_size, hidden_size=config.hidden_size, num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads, intermediate_size=config.intermediate_size, num_labels=num_labels,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(shape)


def grouped(prepared: Prepared, batch_size: int) -> Iterator[Batch]:
    """Batches grouped by length, without end."""
    epoch = 0
    while True:
        for chosen in training_order(prepared.train, batch_size, 0, epoch):
            yield collate(prepared.train, chosen, prepared.pad_token_id)
        epoch += 1


def padded(prepared: Prepared, batch_size: int, length: int) -> Iterator[Batch]:
    """Random batches, all padded to one length, as a plain fine-tuning script makes them."""
    stream = np.random.default_rng(0)
    while True:
        batch = collate(prepared.train, stream.choice(len(prepared.train), batch_size, replace=False), prepared.pad_token_id)
        missing = length - batch.input_ids.shape[1]
        mask = torch.ones_like(batch.input_ids, dtype=torch.bool) if batch.attention_mask is None else batch.attention_mask
        pad = nn.functional.pad
        yield replace(
            batch,
            input_ids=pad(batch.input_ids, (0, missing), value=prepared.pad_token_id),
            token_type_ids=pad(batch.token_type_ids, (0, missing)),
            attention_mask=pad(mask, (0, missing)),
        )


def side(model: nn.Module, ours: bool, batches: Iterator[Batch], machine: Machine, config: RunConfig) -> Side:
    """A side ready to train."""

    def our_loss(batch: Batch) -> torch.Tensor:
        return model.loss(model(batch), batch.labels)

    def their_loss(batch: Batch) -> torch.Tensor:
        mask = None if batch.attention_mask is None else batch.attention_mask.long()
        return model(batch.input_ids, mask, batch.token_type_ids, labels=batch.labels).loss

    return Side(model.train(), our_loss if ours else their_loss, batches, machine, make_optimiser(model, config.finetune))


def rate(side: Side, steps: int) -> float:
    """Real tokens per second over some steps."""
    started = time.perf_counter()
    tokens = sum(side.step() for _ in range(steps))
    return tokens / (time.perf_counter() - started)


def main() -> None:
    """Prints one line a round and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default="../shared/data")
    parser.add_argument("--output", default="multirun")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=100)
    options = parser.parse_args()
    source = DataConfig(source=DataSource.local, root=options.root)
    config = RunConfig(task=SST2, data=source, output=options.output)
    prepared = cache.read(config, cache.prepare(config))
    shape = replace(MINI, vocab_size=prepared.vocab_size)
    half, full = Machine(HardwareConfig(dtype=Dtype.bf16)), Machine(HardwareConfig())
    sides = {
        "ours": side(build_classifier(shape, 2, 0), True, grouped(prepared, 32), half, config),
        "same batches": side(reference(shape, 2), False, grouped(prepared, 32), half, config),
        "padded": side(reference(shape, 2), False, padded(prepared, 32, 128), full, config),
    }
    for name, one in sides.items():
        rate(one, options.warmup if name != "padded" else 3)
    rounds = []
    for number in range(options.rounds):
        rates = {
            name: rate(one, options.steps if name != "padded" else max(2, options.steps // 10)) for name, one in sides.items()
        }
        rounds.append(rates)
        print(f"round {number + 1}: " + ", ".join(f"{name} {value:,.0f} tokens/s" for name, value in rates.items()), flush=True)
    for name in sides:
        print(f"median {name}: {statistics.median(row[name] for row in rounds):,.0f} tokens/s")
    for other in ("same batches", "padded"):
        ratios = [row["ours"] / row[other] for row in rounds]
        print(f"ours / {other}: median {statistics.median(ratios):.2f}, range {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
