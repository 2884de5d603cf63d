"""The input of a model. B sequences, T tokens."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass
class Batch:
    """Token ids with their segments, mask, positions and labels; `attention_mask` is None without padding."""

    input_ids: Tensor  # (B, T) int64
    token_type_ids: Tensor | None = None  # (B, T) int64
    attention_mask: Tensor | None = None  # (B, T) bool, True for real tokens, or (B, T, T), True where row may see column
    position_ids: Tensor | None = None  # (B, T) int64; None: 0 to T - 1
    labels: Tensor | None = None  # (B,) int64 classes or float32 scores, (B, T) classes of tokens, (B, 2) start and end
    tokens: int = 0  # real tokens, padding not counted
    position_limit: int | None = None  # all position_ids are below it; None: unknown, computed where it is needed
    answers: Tensor | None = None  # (B, C) or (B, T, C) logits of a teacher
    queries: Tensor | None = None  # (B, T) bool, True where the learned query vector replaces the token
    second: "Batch | None" = None  # the other text of each pair
    group: int = 1  # texts of an item, one after the other, of which its label, in (B / group,), chooses one

    @property
    def items(self) -> int:
        """Number of items; each has a label."""
        return len(self.input_ids) // self.group

    @property
    def sides(self) -> "list[Batch]":
        """The batch, and the batch of the second texts of its pairs."""
        return [self] if self.second is None else [self, self.second]

    def to(self, device: torch.device | str) -> "Batch":
        """A copy of the batch with every tensor on `device`."""
        return replace(self, **{name: value.to(device) for name, value in self._tensors()})

    def part(self, rows: slice) -> "Batch":
        """A subset of the items with unchanged padding; `tokens` stays that of all."""
        texts = rows if self.group == 1 else slice(rows.start * self.group, rows.stop * self.group)
        of_items = ("labels", "answers")
        return replace(
            self,
            **{
                name: value.part(rows) if name == "second" else value[rows if name in of_items else texts]
                for name, value in self._tensors()
            },
        )

    def _tensors(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Tensor | Batch)]


def as_batch(inputs: Batch | Tensor) -> Batch:
    """A batch unchanged, or a (B, T) tensor of ids as a batch of real tokens; TypeError for anything else."""
    if isinstance(inputs, Batch):
        return inputs
    if isinstance(inputs, Tensor) and inputs.dim() == 2 and inputs.dtype in (torch.int64, torch.int32):
        return Batch(inputs)
    given = type(inputs).__name__
    if isinstance(inputs, Tensor):
        given = f"a tensor of shape {tuple(inputs.shape)} and {inputs.dtype}"
    raise TypeError(f"expected a models.batch.Batch or a (B, T) tensor of integer ids, got {given}")
