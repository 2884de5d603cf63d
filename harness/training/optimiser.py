"""AdamW with clipping. Gradients of large embeddings are those of the rows in the batch; the step itself is dense."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from harness.config.schema import OptimiserConfig

LEAST_ROWS = 1024
"""Rows of a table below which its whole gradient is as fast."""


class ClippedAdamW(torch.optim.AdamW):
    """AdamW (arXiv:1711.05101) after the gradients are scaled down to a norm.

    Gradients of tables may be sparse: the rows of the batch. They are put into a table of zeros that is kept from step to
    step, so that no pass over the vocabulary is spent on clearing it or on its norm. The step itself is the dense one.
    """

    def __init__(self, groups: list[dict], max_norm: float, **options: object) -> None:
        super().__init__(groups, fused=True, **options)
        self._max_norm = max_norm
        self._zeros: dict[Tensor, Tensor] = {}

    def update(self) -> Tensor:
        """Clips, makes one step, and removes the gradients. Returns their norm before clipping, () on their device."""
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        sparse = {p: p.grad.coalesce() for p in parameters if p.grad.is_sparse}
        norm = self._clip([sparse[p].values() if p in sparse else p.grad for p in parameters])
        for p, gradient in sparse.items():
            p.grad = self._table(p).index_copy_(0, gradient.indices()[0], gradient.values())
        self.step()
        for p, gradient in sparse.items():
            self._zeros[p].index_fill_(0, gradient.indices()[0], 0.0)
        self.zero_grad(set_to_none=True)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # of a sharded model

    def _clip(self, gradients: list[Tensor]) -> Tensor:
        """As torch's own clipping, but a CPU multiplies only where the norm is too large; the norm before."""
        norm = nn.utils.get_total_norm(gradients)
        coefficient = self._max_norm / (norm + 1e-6)
        if coefficient.is_cuda or coefficient < 1:
            torch._foreach_mul_(gradients, coefficient.clamp(max=1))
        return norm

    def _table(self, parameter: Tensor) -> Tensor:
        if parameter not in self._zeros:
            self._zeros[parameter] = torch.zeros_like(parameter)
        return self._zeros[parameter]


def make_optimiser(model: nn.Module, config: OptimiserConfig, rates: Mapping[str, float] | None = None) -> ClippedAdamW:
    """Matrices decay, biases and norms do not.

    `rates`: name of a parameter -> factor of its rate, 1 by default. The share that decays in a step is the same for all.
    """
    tensors: dict[tuple[bool, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            tensors.setdefault((parameter.dim() >= 2, (rates or {}).get(name, 1.0)), []).append(parameter)
    groups = [
        {"params": tensors[key], "weight_decay": config.weight_decay / key[1] if key[0] else 0.0, "rate_factor": key[1]}
        for key in sorted(tensors, reverse=True)
    ]
    betas = (config.adam_betas[0], config.adam_betas[1])
    return ClippedAdamW(groups, config.max_grad_norm, lr=config.learning_rate, betas=betas, eps=config.adam_eps)


def use_sparse_gradients(model: nn.Module) -> None:
    """Large tables that only look up rows get sparse gradients; not those that are tied to another layer's weights."""
    uses: dict[Tensor, int] = {}
    for _, parameter in model.named_parameters(remove_duplicate=False):
        uses[parameter] = uses.get(parameter, 0) + 1
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings >= LEAST_ROWS and uses[module.weight] == 1:
            module.sparse = True
