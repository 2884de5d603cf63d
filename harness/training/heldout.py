"""The measure that is pinned for all objectives: held-out text, 15 % of its tokens masked, the same masks for everybody.

Every drawn token becomes [MASK], so nothing of an answer is left in the text. An objective that answers for masked tokens
itself is asked directly; for another one a probe, a head of its own, is trained on the frozen encoder over the training text.
"""

from collections.abc import Iterator

import numpy as np
import torch

from harness.config.schema import PretrainConfig
from harness.corpus.sequences import Corpus, Sequences
from harness.hardware.device import Machine
from harness.seeds import derive
from models.config import EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.objectives.masked import answer
from models.objectives.probe import Probe, pinned_question
from models.objectives.question import Objective, Question

RATE = 0.15
SEED = 0
PROBE_LEARNING_RATE = 1e-3
"""Pinned: a run's own seed has no say in what is measured."""


class HeldOut:
    """The held-out questions, and the training text of probes."""

    def __init__(self, told: PretrainConfig, shape: EncoderConfig, corpus: Corpus, machine: Machine) -> None:
        self._told, self._shape, self._machine = told, shape, machine
        self._vocabulary, self._unigram_entropy = corpus.vocabulary(), corpus.unigram_entropy
        self._held_out = Sequences(corpus, "validation", told.length, None, SEED)
        self._train = Sequences(corpus, "train", told.length, None, SEED)

    def measure(self, objective: Objective) -> dict[str, float]:
        """Metric name -> value: loss in nats and accuracy over all masked tokens, and what context-free guessing loses."""
        objective.eval()
        head = objective.masked_head or self._trained_probe(objective.encoder)
        loss, hits, count = 0.0, 0, 0
        with torch.inference_mode():
            for question in self._questions():
                with self._machine.autocast():
                    more = answer(objective.encoder, head, question.to(self._machine.device))
                loss, hits, count = loss + more[0], hits + more[1], count + more[2]
        return {
            "pretrain/masked_loss": loss / count,
            "pretrain/masked_accuracy": hits / count,
            "pretrain/unigram_entropy": self._unigram_entropy,
            "pretrain/probe_steps": 0 if objective.masked_head else self._told.probe_steps,
        }

    def _questions(self) -> Iterator[Question]:
        count = min(self._told.eval_sequences, len(self._held_out))
        for start in range(0, count, self._told.batch_size):
            yield self._pinned(self._held_out, np.arange(start, min(count, start + self._told.batch_size)), "pinned")

    def _pinned(self, sequences: Sequences, ids: np.ndarray, stream: str) -> Question:
        seeds = [derive(SEED, stream, number) for number in ids.tolist()]
        return pinned_question(sequences.batch(ids, np.zeros_like(ids)), seeds, self._vocabulary, RATE)

    def _trained_probe(self, encoder: Encoder) -> MaskedLMHead:
        """Trained from the same beginning on the same questions, whatever the encoder is."""
        probe = Probe(self._shape, encoder, SEED).to(self._machine.device).train()
        optimiser = torch.optim.AdamW(probe.parameters(), lr=PROBE_LEARNING_RATE, fused=True)
        for step in range(self._told.probe_steps):
            ids, _ = self._train.chosen(step * self._told.batch_size, self._told.batch_size)
            question = self._pinned(self._train, ids, "probe").to(self._machine.device)
            with self._machine.autocast():
                loss = probe.loss(encoder, question)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return probe.head.eval()
