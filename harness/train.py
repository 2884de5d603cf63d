"""The one loop for everything that trains: AdamW, linear warm-up and decay, clipping, accumulation."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.batches import pieces
from harness.config import FinetuneConfig
from harness.hardware import Machine
from harness.journal import Journal, now_ms
from harness.seeds import derive
from models.batch import Batch

LOG_EVERY = 10
"""Steps between looks at the losses: each look waits for the device."""


class DivergedError(Exception):
    """The loss is no longer a finite number: a state of the run, not a result."""


@dataclass(frozen=True)
class Training:
    """What is trained how: `loss(batch)` is a mean over the batch's examples."""

    model: nn.Module
    loss: Callable[[Batch], Tensor]
    batches: Iterator[Batch]
    steps: int
    phase: str  # first part of the curve's name
    config: FinetuneConfig
    seed: int


@dataclass(frozen=True)
class Trained:
    """Real tokens, padding not counted, and synchronised seconds of the whole loop."""

    tokens: int
    seconds: float


def train(training: Training, machine: Machine, journal: Journal) -> Trained:
    """Runs all steps and writes the loss curve; DivergedError at the first look that finds a loss not finite."""
    optimiser = make_optimiser(training.model, training.config)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: learning_rate_factor(step, training.steps, training.config.warmup_fraction)
    )
    training.model.train()
    journal.stage(training.phase, training.steps)
    seen: list[tuple[int, Tensor, int, int]] = []
    tokens, started = 0, _clock(machine)
    for step in range(1, training.steps + 1):
        batch = next(training.batches)
        torch.manual_seed(derive(training.seed, "dropout", step))
        loss = _backward(training, batch, machine)
        nn.utils.clip_grad_norm_(training.model.parameters(), training.config.max_grad_norm)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad(set_to_none=True)
        tokens += batch.tokens
        seen.append((step, loss, tokens, now_ms()))
        if step % LOG_EVERY == 0 or step == training.steps:
            _write_losses(seen, training.phase, journal)
    return Trained(tokens, _clock(machine) - started)


def make_optimiser(model: nn.Module, config: FinetuneConfig) -> torch.optim.AdamW:
    """AdamW (arXiv:1711.05101) that decays matrices, not biases and norms."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (config.adam_betas[0], config.adam_betas[1])
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.adam_eps, fused=True)


def learning_rate_factor(step: int, steps: int, warmup_fraction: float) -> float:
    """Share of the learning rate at a step counted from 0: up over the warm-up, then down towards 0 at the end."""
    warmup = math.ceil(steps * warmup_fraction)
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (steps - step) / max(1, steps - warmup))


def _backward(training: Training, batch: Batch, machine: Machine) -> Tensor:
    """Gradients of the mean loss over the batch, piece by piece; the loss is detached and stays on the device."""
    total = torch.zeros((), device=machine.device)
    for piece in pieces(batch, training.config.accumulation):
        share = len(piece.input_ids) / len(batch.input_ids)
        with machine.autocast():
            loss = training.loss(piece.to(machine.device)) * share
        loss.backward()
        total += loss.detach()
    return total


def _write_losses(seen: list[tuple[int, Tensor, int, int]], phase: str, journal: Journal) -> None:
    for step, loss, tokens, time_ms in seen:
        value = loss.item()
        if not math.isfinite(value):
            raise DivergedError(f"the loss of step {step} is {value}")
        journal.curve(f"{phase}/loss", step, value, tokens, time_ms)
    seen.clear()


def _clock(machine: Machine) -> float:
    machine.synchronise()
    return time.perf_counter()
