"""Gated convolutions (arXiv:1612.08083) over the tokens of a text. B texts, T tokens, D width."""

import torch
from torch import Tensor, nn


class GatedConvolution(nn.Module):
    """Embeddings, and layers that each add a gated convolution to what they read."""

    def __init__(self, vocab_size: int, pad_token_id: int, width: int = 32, depth: int = 2, kernel: int = 5) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, width, padding_idx=pad_token_id)
        self.layers = nn.ModuleList(nn.Conv1d(width, 2 * width, kernel, padding=kernel // 2) for _ in range(depth))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, T) -> (B, T, D). Padding is zero for every convolution, as the ends of a text are."""
        hidden = self.table(input_ids)
        for layer in self.layers:
            value, gate = layer((hidden * attention_mask[..., None]).transpose(1, 2)).transpose(1, 2).chunk(2, dim=-1)
            hidden = hidden + value * torch.sigmoid(gate)
        return hidden


class Mean(GatedConvolution):
    """One vector per text: no encoder of tokens."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, T) -> (B, D)."""
        return super().forward(input_ids, attention_mask).mean(1)


class Flat(nn.Module):
    """Cannot be made from `vocab_size` and `pad_token_id`."""
