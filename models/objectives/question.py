"""What an objective asks of a batch. B sequences, T tokens, K predicted places, V vocabulary."""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from models.batch import Batch
from models.config import EncoderConfig
from models.encoder import Encoder
from models.heads import MaskedLMHead, Pooler
from models.objectives.config import ObjectiveConfig, ObjectiveName

IGNORED = -100
"""Target of a slot that holds no prediction."""


@dataclass(frozen=True)
class Vocabulary:
    """What objectives must know of a tokenizer."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    word_start: Tensor  # (V,) bool, True for a piece that begins a word, as punctuation does too

    @property
    def special(self) -> tuple[int, ...]:
        """Pieces that are never predicted."""
        return (self.pad, self.cls, self.sep, self.mask)


@dataclass
class Question:
    """What a model is given and must answer. Drawn for a whole batch, so that pieces of it ask the same."""

    batch: Batch  # as the model sees it; `batch.labels` (B,) are those of pairs: 0 for in order, 1 for not
    places: Tensor  # (B, K) int64
    targets: Tensor  # (B, K) int64, IGNORED in unused slots
    total: int  # predictions of the whole batch
    rows: int  # sequences of the whole batch

    def __len__(self) -> int:
        return len(self.targets)

    def cut(self, rows: slice) -> "Question":
        """Some of its sequences; `total` and `rows` stay those of the whole, so that the pieces' losses add up."""
        parts = {name: value[rows] for name, value in vars(self.batch).items() if isinstance(value, Tensor)}
        return replace(self, batch=replace(self.batch, **parts), places=self.places[rows], targets=self.targets[rows])

    def to(self, device: object) -> "Question":
        """The same question with every tensor on `device`."""
        return replace(self, batch=self.batch.to(device), places=self.places.to(device), targets=self.targets.to(device))


class Objective(nn.Module):
    """An encoder and all that is trained with it. Subclasses are final."""

    encoder: Encoder

    def __init__(self) -> None:
        super().__init__()
        self.masked_head: MaskedLMHead | None = None  # where the objective answers for [MASK] itself
        self.pooler: Pooler | None = None  # where the objective trains the vector of a text

    @classmethod
    def refuse(cls, config: ObjectiveConfig, shape: EncoderConfig) -> None:
        """ValueError, naming the keys, for an architecture that cannot be trained so; by default none is refused."""

    def ask(self, batch: Batch, seeds: list[int]) -> Question:
        """A clean CPU batch without padding, (B, T), and one seed a sequence -> the question; no parameter has a say in it."""
        raise NotImplementedError

    def forward(self, question: Question) -> Tensor:
        """() loss in nats. The losses of a question's pieces add up to the loss of the whole."""
        raise NotImplementedError

    def flops(self, length: int) -> int:
        """Of one forward pass over one sequence, by the shapes of all matrix products."""
        raise NotImplementedError


def refuse_pairs(objective: ObjectiveName, pairs: dict[str, bool]) -> None:
    """ValueError for the first `KEY=VALUE` of `model` that is said to be impossible with the objective."""
    for pair, impossible in pairs.items():
        if impossible:
            raise ValueError(f"pretrain.objective={objective.value} cannot be combined with model.{pair}")
