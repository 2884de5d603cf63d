"""Masked-LM evaluation that is the same for all objectives: held-out text, 15 % of its tokens replaced by [MASK], fixed masks.

An objective with a masked-LM head is evaluated with it. For any other one a probe, a new head, is trained on the frozen encoder
over the training text.

Losses per token compare within one vocabulary alone. Bits per byte (`Corpus.bits_per_byte`) compare several: the loss in nats
times the masked tokens, over ln 2 times the bytes that so many tokens stand for. Masks are of tokens, so that the context is
not quite the same: in words cut into more pieces, a masked piece has the rest of its word in sight.
"""

import numpy as np
import torch

from harness.config.schema import PretrainConfig
from harness.corpus.sequences import Corpus, Sequences
from harness.data.seeds import derive
from harness.errors import present
from harness.hardware.device import Machine
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Objective, PretrainBatch
from harness.models.objectives.masked_lm import Probe, evaluate, fully_masked_batch

RATE = 0.15
SEED = 0
PROBE_LEARNING_RATE = 1e-3
"""Fixed: the seed of a run does not change what is measured."""


class MaskedLMEval:
    """Evaluates objectives on the same held-out batches; trains a probe where one has no masked-LM head."""

    def __init__(self, config: PretrainConfig, shape: EncoderConfig, corpus: Corpus, machine: Machine) -> None:
        self._config, self._shape, self._machine = config, shape, machine
        self._corpus, self._vocabulary = corpus, corpus.vocabulary()
        self._held_out = Sequences(corpus, "validation", present(config.length), None, SEED)
        self._train = Sequences(corpus, "train", present(config.length), None, SEED)

    def measure(self, objective: Objective) -> dict[str, float]:
        """Metric name -> loss in nats, accuracy and bits per byte over all masked tokens, and the loss of a unigram model."""
        objective.eval()
        head = objective.masked_head or self._trained_probe(objective.encoder)
        sums = np.zeros(3)
        with torch.inference_mode():
            for ids in self._held_out.first(self._config.eval_sequences, self._config.batch_size):
                batch = self._masked(self._held_out, ids, "pinned").to(self._machine.device)
                with self._machine.autocast():
                    sums += evaluate(objective.encoder, head, batch)
        loss, correct, predictions = sums.tolist()
        return {
            "pretrain/masked_loss": loss / predictions,
            "pretrain/masked_accuracy": correct / predictions,
            "pretrain/heldout_bits_per_byte": self._corpus.bits_per_byte(loss / predictions),
            "pretrain/unigram_entropy": self._corpus.unigram_entropy,
            "pretrain/probe_steps": 0 if objective.masked_head else self._config.probe_steps,
        }

    def _masked(self, sequences: Sequences, ids: np.ndarray, stream: str) -> PretrainBatch:
        seeds = [derive(SEED, stream, number) for number in ids.tolist()]
        return fully_masked_batch(sequences.batch(ids, np.zeros_like(ids)), seeds, self._vocabulary, RATE)

    def _trained_probe(self, encoder: Encoder) -> MaskedLMHead:
        """Trained from the same initial values on the same batches for every encoder."""
        probe = Probe(self._shape, encoder, SEED).to(self._machine.device).train()
        optimiser = torch.optim.AdamW(probe.parameters(), lr=PROBE_LEARNING_RATE, fused=True)
        for step in range(self._config.probe_steps):
            ids, _ = self._train.chosen(step * self._config.batch_size, self._config.batch_size)
            batch = self._masked(self._train, ids, "probe").to(self._machine.device)
            with self._machine.autocast():
                loss = probe.loss(encoder, batch)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return probe.head.eval()
