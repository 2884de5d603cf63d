"""Objectives with an order, the architectures that they can train, and a batch to ask them about."""

from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, NormPlace, Position
from harness.models.encoder import initialise
from harness.models.objectives.base import Objective, PretrainBatch, Vocabulary
from harness.models.objectives.causal import BidirectionalLM, CausalLM
from harness.models.objectives.cbow import ContinuousBagOfWords
from harness.models.objectives.config import ObjectiveConfig
from harness.models.objectives.permutation import PermutationLM

LENGTH, VOCABULARY, CLS, SEP, MASK, FIRST_WORD = 24, 40, 1, 2, 3, 4
SEEDS = [11, 12, 13]


@dataclass
class Case:
    """An objective with an architecture that it can train."""

    objective: type[Objective]
    shape: dict = field(default_factory=dict)

    def __str__(self) -> str:
        said = [str(getattr(value, "value", value)) for value in self.shape.values()]
        return "-".join([self.objective.__name__, *said])

    def build(self, **changes) -> Objective:
        """In evaluation mode, with weights large enough for every dependence to show."""
        shape = small_shape(**self.shape, **changes)
        assert not any(self.objective.misfits(shape).values())
        objective = self.objective(ObjectiveConfig(), shape, vocabulary())
        initialise(objective, 0.3, seed=0)
        return objective.eval()


STATIC = {"body": Body.static, "position": Position.none}
LSTM = {"body": Body.lstm, "position": Position.none, "num_hidden_layers": 3}
RELATIVE, WINDOW = {"position": Position.relative}, {"attention_window": 4}
CAUSAL = [
    Case(CausalLM, shape)
    for shape in (
        {},
        {"causal": True},
        {"causal": True, "norm_place": NormPlace.pre},
        {"causal": True, **WINDOW},
        WINDOW,
        RELATIVE,
        {"position": Position.alibi},
        {"position": Position.bucketed},
        {"position": Position.disentangled},
    )
]
BIDIRECTIONAL = [Case(BidirectionalLM, shape) for shape in (LSTM, {}, RELATIVE, WINDOW, {"position": Position.alibi})]
POSITIONS = (Position.learned, Position.relative, Position.sinusoidal, Position.rotary)
PERMUTATION = [Case(PermutationLM, {"position": position}) for position in POSITIONS]
STATICS = [Case(ContinuousBagOfWords, STATIC), Case(ContinuousBagOfWords, {**STATIC, "embedding_size": 8})]
MAIN = [CAUSAL[0], CAUSAL[1], Case(CausalLM, STATIC), *BIDIRECTIONAL[:2], *PERMUTATION[:3], *STATICS]


def small_shape(**changes) -> EncoderConfig:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return EncoderConfig(**{**sizes, "intermediate_size": 24, "max_position_embeddings": LENGTH, **changes})


def vocabulary() -> Vocabulary:
    return Vocabulary(VOCABULARY, 0, CLS, SEP, MASK, torch.ones(VOCABULARY, dtype=torch.bool))


def packed() -> Batch:
    """Two types of token, and a [SEP] or two inside."""
    ids = torch.randint(FIRST_WORD, VOCABULARY, (len(SEEDS), LENGTH), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1], ids[0, 9], ids[1, 5], ids[1, 13] = CLS, SEP, SEP, SEP, SEP
    return Batch(ids, (torch.arange(LENGTH) > 11).long().expand(len(SEEDS), -1))


def changed(data: PretrainBatch, row: int, place: int) -> PretrainBatch:
    """The same with another ordinary token at one position."""
    ids = data.inputs.input_ids.clone()
    ids[row, place] = FIRST_WORD + (ids[row, place] - FIRST_WORD + 7) % (VOCABULARY - FIRST_WORD)
    return replace(data, inputs=replace(data.inputs, input_ids=ids))


def same(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=0, atol=2e-5)


def each(cases: list[Case]):
    return pytest.mark.parametrize("case", cases, ids=str)
