"""Evaluation of a pretraining on held-out text, from fixed seeds: masked tokens, and what else an objective trains.

Masked tokens are the same for all objectives: 15 %, replaced by [MASK], at fixed places. An objective with a masked-LM head is
evaluated with it. For any other one a probe, a new head, is trained on the frozen encoder over the training text.

Other parts: segment pairs, the detector of replaced tokens, next tokens. Inputs are made as in training, masks included: the
same for all runs with the same settings of masking. Replaced tokens are sampled from each run's own generator.

Losses per token compare within one vocabulary alone. Bits per byte (`Corpus.bits_per_byte`) compare several: the loss in nats
times the masked tokens, over ln 2 times the bytes that so many tokens stand for. Masks are of tokens, so that the context is
not quite the same: in words cut into more pieces, a masked piece has the rest of its word in sight.
"""

from collections.abc import Callable

import numpy as np
import torch

from harness.config.schema import PretrainConfig
from harness.corpus.sequences import Corpus, Sequences
from harness.data.seeds import derive
from harness.errors import InputError, present
from harness.hardware.device import Machine
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead
from harness.models.objectives.base import Evaluation, Objective, PretrainBatch
from harness.models.objectives.build import kind_of
from harness.models.objectives.config import ObjectiveConfig
from harness.models.objectives.masked_lm import Probe, evaluate
from harness.models.objectives.masking import sample_positions, with_targets

RATE = 0.15
SEED = 0
PROBE_LEARNING_RATE = 1e-3
"""Fixed: the seed of a run does not change what is measured."""


class HeldOut:
    """The held-out sequences, `eval_sequences` at most, as masked tokens and as the objective of each phase reads them."""

    def __init__(self, config: PretrainConfig, shape: EncoderConfig, corpus: Corpus, machine: Machine) -> None:
        self._config, self._shape, self._machine = config, shape, machine
        self._corpus, self._vocabulary, length = corpus, corpus.vocabulary(), present(config.length)
        self._texts, self._train = (Sequences(corpus, part, length, None, SEED) for part in ("validation", "train"))
        self._of_phases: list[Sequences | None] = []
        for kind in map(kind_of, config.of_phases):
            self._of_phases.append(None)
            try:
                if kind.evaluate_parts is not Objective.evaluate_parts:  # it trains something beside masked tokens
                    self._of_phases[-1] = Sequences(corpus, "validation", length, kind.segment_pairs, SEED)
            except InputError as error:
                print(f"pairs are trained on, but not evaluated on held-out text: {error}")

    def masked(self, objective: Objective) -> dict[str, float]:
        """Metric name -> loss in nats, accuracy and bits per byte over all masked tokens, and the loss of a unigram model."""
        objective.eval()
        head = objective.masked_head or self._trained_probe(objective.encoder)
        read = lambda ids: {"masked": evaluate(objective.encoder, head, self._masked(self._texts, ids, "pinned"))}  # noqa: E731
        loss, correct, predictions = self._summed(self._texts, read)["masked"]
        return {
            "pretrain/masked_loss": loss / predictions,
            "pretrain/masked_accuracy": correct / predictions,
            "pretrain/heldout_bits_per_byte": self._corpus.bits_per_byte(loss / predictions),
            "pretrain/unigram_entropy": self._corpus.unigram_entropy,
            "pretrain/probe_steps": 0 if objective.masked_head else self._config.probe_steps,
        }

    def parts(self, objective: Objective, phase: int = 0) -> dict[str, float]:
        """Metric name -> loss in nats and accuracy of each part; empty for an objective without parts."""
        sequences = self._of_phases[phase]
        if sequences is None:
            return {}
        objective.eval()

        def read(ids: np.ndarray) -> dict[str, Evaluation]:
            seeds = [derive(SEED, "parts", number) for number in ids.tolist()]
            batch = objective.make_batch(sequences.batch(ids, np.zeros_like(ids)), seeds)
            return objective.evaluate_parts(batch.to(self._machine.device))

        scores: dict[str, float] = {}
        for name, (loss, correct, predictions) in self._summed(sequences, read).items():
            if predictions:
                scores |= {f"pretrain/{name}_loss": loss / predictions, f"pretrain/{name}_accuracy": correct / predictions}
        if "pretrain/next_token_loss" in scores:  # of a text from left to right, as compression is measured
            scores["pretrain/next_token_bits_per_byte"] = self._corpus.bits_per_byte(scores["pretrain/next_token_loss"])
        return scores

    def _summed(self, sequences: Sequences, read: Callable[[np.ndarray], dict[str, Evaluation]]) -> dict[str, np.ndarray]:
        """Name -> loss, correct and predictions over all sequences."""
        sums: dict[str, np.ndarray] = {}
        with torch.inference_mode(), torch.random.fork_rng([self._machine.device] if self._machine.is_cuda else []):
            torch.manual_seed(SEED)  # a generator samples from torch's global stream
            for ids in sequences.first(self._config.eval_sequences, self._config.batch_size):
                with self._machine.autocast():
                    results = read(ids)
                for name, result in results.items():
                    sums[name] = sums.get(name, 0) + np.array(result, dtype=float)
        return sums

    def _masked(self, sequences: Sequences, ids: np.ndarray, stream: str) -> PretrainBatch:
        seeds = [derive(SEED, stream, number) for number in ids.tolist()]
        batch, generators = sequences.batch(ids, np.zeros_like(ids)), [torch.Generator().manual_seed(seed) for seed in seeds]
        positions = sample_positions(batch, generators, ObjectiveConfig(mask_rate=RATE), self._vocabulary)
        masks = torch.full_like(positions, self._vocabulary.mask)  # no target is left in the inputs
        return with_targets(batch, positions, masks).to(self._machine.device)

    def _trained_probe(self, encoder: Encoder) -> MaskedLMHead:
        """Trained from the same initial values on the same batches for every encoder."""
        probe = Probe(self._shape, encoder, SEED).to(self._machine.device).train()
        optimiser = torch.optim.AdamW(probe.parameters(), lr=PROBE_LEARNING_RATE, fused=True)
        for step in range(self._config.probe_steps):
            ids, _ = self._train.chosen(step * self._config.batch_size, self._config.batch_size)
            batch = self._masked(self._train, ids, "probe")
            with self._machine.autocast():
                loss = probe.loss(encoder, batch)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return probe.head.eval()
