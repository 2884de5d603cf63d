"""Bodies without attention: two LSTM directions, or nothing. B sequences, T tokens, D hidden."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.norms import Dropout


class Direction(nn.LSTM):
    """One LSTM over the tokens in their order (doi:10.1162/neco.1997.9.8.1735)."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def states(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D / 2); step by step on the meta device, where the fused kernel would count as no FLOPs."""
        kind = x.device.type
        if kind == "meta":
            return self.step_by_step(x)
        half = kind == "cpu" and torch.is_autocast_enabled(kind)
        return self._in_half(x, torch.get_autocast_dtype(kind)) if half else self(x)[0]

    def _in_half(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Under autocast, input and weights are cast here: autocast itself would call oneDNN's kernel, which only
        processors with AVX-512 have, whereas torch chooses one that the processor has."""
        x = x.to(dtype)
        weights = [w.to(dtype) for w in (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0)]
        start = x.new_zeros(1, len(x), self.hidden_size)
        with torch.autocast(x.device.type, enabled=False):
            return torch.lstm(x, (start, start), weights, True, 1, 0.0, self.training, False, True)[0]

    def step_by_step(self, x: Tensor) -> Tensor:
        """The kernel's computation as plain products: of the inputs at once, of the state token by token."""
        inputs = F.linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0)  # (B, T, 4 * D / 2)
        state = x.new_zeros(len(x), self.hidden_size, requires_grad=x.requires_grad)  # the kernel too has its gradient
        cell = torch.zeros_like(state)
        states = []
        for step in inputs.unbind(1):
            enter, keep, new, leave = (step + F.linear(state, self.weight_hh_l0)).chunk(4, dim=-1)
            cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
            state = leave.sigmoid() * cell.tanh()
            states.append(state)
        return torch.stack(states, dim=1)

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text."""
        return 2 * length * (self.weight_ih_l0.numel() + self.weight_hh_l0.numel())


class Recurrent(nn.Module):
    """Layers of two LSTM directions, each half of the hidden size wide, in ELMo's place (arXiv:1802.05365).

    Both directions run from their first real token to their last: hidden ones come last in both orders.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.forwards = nn.ModuleList(Direction(size, size // 2, batch_first=True) for _ in range(config.depth))
        self.backwards = nn.ModuleList(Direction(size, size // 2, batch_first=True) for _ in range(config.depth))
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, batch: Batch) -> Iterator[Tensor]:
        """(B, T, D) -> the hidden states before the first and after every layer; ValueError for a mask of rows and columns."""
        onward, back = orders(batch)
        yield hidden
        for there, again in self.execution_order():
            hidden = self.dropout(torch.cat([_in_order(there, hidden, onward), _in_order(again, hidden, back)], dim=-1))
            yield hidden

    def execution_order(self) -> list[tuple[Direction, Direction]]:
        """The two directions of each layer."""
        return cast("list[tuple[Direction, Direction]]", [*zip(self.forwards, self.backwards, strict=True)])

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text."""
        return sum(direction.flops(length) for layer in self.execution_order() for direction in layer)


def orders(batch: Batch) -> tuple[Tensor, Tensor]:
    """Two (B, T) orders of the places: real tokens onward, and real tokens backward; hidden ones come last in both."""
    mask, (B, T) = batch.attention_mask, batch.input_ids.shape
    places = torch.arange(T, device=batch.input_ids.device).expand(B, T)
    if mask is None:
        return places, places.flip(1)
    if mask.dim() == 3:
        raise ValueError("model.body=lstm reads in order: attention_mask must be (B, T), not a mask of rows and columns")
    hidden_last = T * (~mask).long()
    return (hidden_last + places).argsort(dim=1), (hidden_last + T - places).argsort(dim=1)


def _in_order(direction: Direction, hidden: Tensor, order: Tensor) -> Tensor:
    """(B, T, D) -> (B, T, D / 2): read in the (B, T) order, and put back to the place of each token."""
    read = direction.states(hidden.gather(1, order[..., None].expand_as(hidden)))
    return read.gather(1, order.argsort(dim=1)[..., None].expand_as(read))


class Static(nn.Module):
    """No layers: a text is a bag of its tokens' vectors, in word2vec's place (arXiv:1301.3781)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()

    def forward(self, hidden: Tensor, batch: Batch) -> Iterator[Tensor]:
        """(B, T, D) -> the same, alone."""
        yield hidden

    def execution_order(self) -> list[tuple[nn.Module, ...]]:
        """No layer runs."""
        return []

    def flops(self, length: int) -> int:
        """Nothing is multiplied."""
        return 0
