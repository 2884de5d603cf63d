"""What an objective trains beside masked tokens, on held-out text: segment pairs, the detector of replaced tokens, next tokens.

Inputs are made as in training, masks included, from fixed seeds: the same for all runs with the same settings of masking.
Replaced tokens are sampled from each run's own generator.
"""

import numpy as np
import torch

from harness.config.schema import PretrainConfig
from harness.corpus.sequences import Corpus, Sequences
from harness.data.seeds import derive
from harness.errors import InputError, present
from harness.hardware.device import Machine
from harness.models.objectives.base import Objective
from harness.models.objectives.build import OBJECTIVES

SEED = 0
"""Fixed: the seed of a run does not change what is measured."""


class PartsEval:
    """Evaluates the parts of objectives on the same held-out sequences, `eval_sequences` at most."""

    def __init__(self, config: PretrainConfig, corpus: Corpus, machine: Machine) -> None:
        self._config, self._corpus, self._machine = config, corpus, machine
        self._held_out = _sequences(corpus, config) if OBJECTIVES[config.objective].has_parts else None

    def measure(self, objective: Objective) -> dict[str, float]:
        """Metric name -> loss in nats and accuracy of each part; empty for an objective without parts."""
        if self._held_out is None:
            return {}
        objective.eval()
        sums: dict[str, np.ndarray] = {}
        on_device = [self._machine.device] if self._machine.is_cuda else []
        with torch.inference_mode(), torch.random.fork_rng(on_device):
            torch.manual_seed(SEED)  # a generator samples from torch's global stream
            for ids in self._held_out.first(self._config.eval_sequences, self._config.batch_size):
                seeds = [derive(SEED, "parts", number) for number in ids.tolist()]
                batch = objective.make_batch(self._held_out.batch(ids, np.zeros_like(ids)), seeds)
                with self._machine.autocast():
                    parts = objective.evaluate_parts(batch.to(self._machine.device))
                for name, result in parts.items():
                    sums[name] = sums.get(name, 0) + np.array(result, dtype=float)
        scores: dict[str, float] = {}
        for name, (loss, correct, predictions) in sums.items():
            if predictions:
                scores |= {f"pretrain/{name}_loss": loss / predictions, f"pretrain/{name}_accuracy": correct / predictions}
        if "pretrain/next_token_loss" in scores:  # of a text from left to right, as compression is measured
            scores["pretrain/next_token_bits_per_byte"] = self._corpus.bits_per_byte(scores["pretrain/next_token_loss"])
        return scores


def _sequences(corpus: Corpus, config: PretrainConfig) -> Sequences | None:
    """Held-out sequences as the objective reads them; None, said in the log, where the text is too short for pairs."""
    try:
        return Sequences(corpus, "validation", present(config.length), OBJECTIVES[config.objective].segment_pairs, SEED)
    except InputError as error:
        print(f"pairs are trained on, but not evaluated on held-out text: {error}")
        return None
