"""Optimizers with clipping. Gradients of large embeddings are those of the rows in the batch; the step itself is dense."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from harness.config.choices import Optimizer
from harness.config.schema import OptimiserConfig, PretrainConfig
from harness.models.encoder import Embeddings, Encoder
from harness.models.heads import Classifier
from harness.training.distributed import plain

LEAST_ROWS = 1024
"""Rows of a table below which its whole gradient is as fast."""

AVERAGE = "average"
"""Key of a parameter's average among what the optimizer keeps of it, so that it is counted and resumed with the rest."""


class MuonWithAdamW(torch.optim.Optimizer):
    """Muon for the groups with `muon`, which are matrices, at the rates of AdamW (arXiv:2502.16982); AdamW for the others."""

    def __init__(
        self, groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float, momentum: float = 0.95
    ) -> None:
        super().__init__(groups, {"lr": lr})
        chosen = [[group for group in self.param_groups if group["muon"] is is_muon] for is_muon in (True, False)]
        muon = torch.optim.Muon(chosen[0], lr=lr, momentum=momentum, adjust_lr_fn="match_rms_adamw")
        self._parts = (muon, torch.optim.AdamW(chosen[1], lr=lr, betas=betas, eps=eps, fused=True))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # torch's takes a closure, which nobody here passes
        """One step of both, on groups and state that a checkpoint may have replaced."""
        for part, is_muon in zip(self._parts, (True, False), strict=True):
            part.param_groups, part.state = [group for group in self.param_groups if group["muon"] is is_muon], self.state
            part.step()


class RowsInUse:
    """The rows of a table that training has looked up so far, in the order of their first use, as one parameter of AdamW.

    All other rows have no gradient yet and their moments are zero: a step would only multiply them by a factor, which is kept
    until they are looked up or written. The table itself has the values of this step's rows alone until `write`.
    """

    def __init__(self, table: nn.Embedding) -> None:
        self._weight, self._factor = table.weight, 1.0
        self._places = torch.full((len(self._weight),), -1)  # of a row of the table, among those in use
        self._rows = torch.empty(0, dtype=torch.int64)
        self._values, self.zeros, *moments = (torch.zeros_like(self._weight.detach()) for _ in range(4))
        self._moments = dict(zip(("exp_avg", "exp_avg_sq"), moments, strict=True))
        self.parameter = nn.Parameter(self._values[:0])
        self.state = {"step": torch.zeros(())}
        self._add(self._rows)
        self.hook = table.register_forward_pre_hook(self._look_up)

    @torch.no_grad()
    def _add(self, rows: Tensor) -> None:
        self._places[rows] = torch.arange(len(self._rows), len(self._rows) + len(rows))
        self._values[len(self._rows) : len(self._rows) + len(rows)] = self._weight[rows] * self._factor
        self._rows = torch.cat((self._rows, rows))
        self.parameter.data = self._values[: len(self._rows)]
        self.state |= {name: moment[: len(self._rows)] for name, moment in self._moments.items()}

    @torch.no_grad()
    def _look_up(self, table: nn.Embedding, arguments: tuple[Tensor]) -> None:
        """Before the table is read in training: the newest values of the rows that are read."""
        if table.training:
            rows = arguments[0].unique()
            self._add(rows[self._places[rows] < 0])
            self._weight[rows] = self._values[self._places[rows]]

    def take_gradient(self, rate: float, weight_decay: float) -> None:
        """Passes the table's gradient of this step on to `parameter`; the other rows decay."""
        if self._weight.grad is not None:
            gradient = self._weight.grad.coalesce()
            places, size = self._places[gradient.indices()], self.parameter.shape
            self.parameter.grad = torch.sparse_coo_tensor(places, gradient.values(), size, check_invariants=False)
            self._weight.grad = None
            self._factor *= 1 - rate * weight_decay

    @torch.no_grad()
    def write(self) -> None:
        """Brings the whole table up to date."""
        self._weight.mul_(self._factor)
        self._factor = 1.0
        self._weight[self._rows] = self.parameter


class Clipped(torch.optim.Optimizer):
    """Comes before an optimizer of torch among the bases of a class: the gradients are scaled down to a norm first.

    Gradients of tables may be sparse: the rows of the batch. They are put into a table of zeros that is kept from step to
    step, so that no pass over the vocabulary is spent on clearing it or on its norm. The step itself is the dense one.

    With `ema_decay` it keeps the exponential moving average of each trained parameter, from the first step on.
    """

    def __init__(self, groups: list[dict[str, Any]], max_norm: float, ema_decay: float | None = None, **options: Any) -> None:
        super().__init__(groups, **options)
        self._max_norm = max_norm
        self._averaging = None if ema_decay is None else get_ema_multi_avg_fn(ema_decay)
        self._zeros: dict[Tensor, Tensor] = {}
        self._tables: list[tuple[RowsInUse, dict[str, Any]]] = []

    def use_rows(self, model: nn.Module) -> None:
        """AdamW steps over the rows of large tables of tokens that were looked up so far; other optimizers are left alone.

        The tables are up to date only after `write` or `finish`. A checkpoint of the optimizer would not hold them.
        """
        if not isinstance(self, torch.optim.AdamW) or self._averaging is not None:
            return
        read = {module.token_embedding for module in model.modules() if isinstance(module, Embeddings)}
        tables = {table.weight: table for table in large_tables(model) if table in read}
        for group in self.param_groups:
            for number, p in enumerate(group["params"]):
                if p in tables:
                    rows = RowsInUse(tables[p])
                    group["params"][number] = rows.parameter
                    self.state[rows.parameter], self._zeros[rows.parameter] = rows.state, rows.zeros
                    self._tables.append((rows, group))

    def write(self) -> None:
        """Brings all tables up to date."""
        for rows, _ in self._tables:
            rows.write()

    def finish(self) -> None:
        """Brings all tables up to date after the last step."""
        self.write()
        for rows, _ in self._tables:
            rows.hook.remove()

    def update(self) -> Tensor:
        """Clips, makes one step, and removes the gradients. Returns their norm before clipping, () on their device."""
        for rows, group in self._tables:
            rows.take_gradient(group["lr"], group["weight_decay"])
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        sparse = {p: p.grad.coalesce() for p in parameters if p.grad.is_sparse}
        gradients = [sparse[p].values() if p in sparse else p.grad for p in parameters]
        norm = nn.utils.get_total_norm(gradients)
        coefficient = self._max_norm / (norm + 1e-6)
        if coefficient.is_cuda or coefficient < 1:  # as torch's own, but a CPU multiplies only where the norm is too large
            torch._foreach_mul_(gradients, coefficient.clamp(max=1))
        for p, gradient in sparse.items():
            if p not in self._zeros:
                self._zeros[p] = torch.zeros_like(p)
            p.grad = self._zeros[p][: len(p)].index_copy_(0, gradient.indices()[0], gradient.values())
        self.step()
        for p, gradient in sparse.items():
            self._zeros[p].index_fill_(0, gradient.indices()[0], 0.0)
        if self._averaging is not None:
            for p in parameters:
                if AVERAGE not in self.state[p]:
                    self.state[p][AVERAGE] = p.detach().clone()
            self._averaging([*self.averages.values()], [*self.averages], None)
        self.zero_grad(set_to_none=True)
        return plain(norm)

    @property
    def averages(self) -> dict[Tensor, Tensor]:
        """Parameter -> its moving average; empty without `ema_decay`."""
        return {p: values[AVERAGE] for p, values in self.state.items() if AVERAGE in values}

    @torch.no_grad()
    def swap_averages(self) -> None:
        """Exchanges the parameters and their averages."""
        for p, average in self.averages.items():
            kept = p.clone()
            p.copy_(average)
            average.copy_(kept)

    @property
    def state_bytes(self) -> int:
        """What the optimizer keeps from step to step: moments, counts of steps, averages; nothing before the first one."""
        return held(value for values in self.state.values() for value in values.values())


KINDS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)
} | {"muon": MuonWithAdamW}
"""Value of an Optimizer -> its class."""


def make_optimiser(model: nn.Module, config: OptimiserConfig, rates: Mapping[str, float] | None = None) -> Clipped:
    """An optimizer with clipping, whose weight decay leaves out biases and norms.

    `rates`: name of a parameter -> factor of its rate, 1 by default. In a pretraining, where it follows from the width, the
    share that decays in a step is the same for all.
    """
    tensors: dict[tuple[bool, float, bool], list[Tensor]] = {}
    is_muon = config.optimizer is Optimizer.muon
    encoders = [module for module in model.modules() if isinstance(module, Encoder)] if is_muon else []
    layers = [module for encoder in encoders for module in encoder.layers.modules() if not isinstance(module, nn.Embedding)]
    named = [pair for module in layers for pair in module.named_parameters(recurse=False)]
    matrices = {parameter for name, parameter in named if parameter.dim() == 2 and not name.endswith("embedding")}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            decays = parameter.dim() >= 2 and not name.endswith("bias")  # XLNet's of transformers has a row for each head
            key = (decays, (rates or {}).get(name, 1.0), parameter in matrices)
            tensors.setdefault(key, []).append(parameter)
    weight_decay, by_width = config.weight_decay, isinstance(config, PretrainConfig)
    groups = [
        {"params": members, "weight_decay": decays * weight_decay / (factor if by_width else 1), "rate_factor": factor}
        | ({"muon": with_muon} if is_muon else {})
        for (decays, factor, with_muon), members in sorted(tensors.items(), key=lambda item: item[0], reverse=True)
    ]
    kind = KINDS[config.optimizer.value]
    options = {"betas": (config.adam_betas[0], config.adam_betas[1]), "eps": config.adam_eps, "momentum": config.momentum}
    if config.optimizer is Optimizer.adafactor:  # its eps are other bounds
        del options["eps"]
    taken = {name: value for name, value in options.items() if name in inspect.signature(kind).parameters and value is not None}
    if config.optimizer is Optimizer.adamw:
        taken["fused"] = True
    clipped = type(f"Clipped{kind.__name__}", (Clipped, kind), {})
    return clipped(groups, config.max_grad_norm, config.ema_decay, lr=config.learning_rate, **taken)


def rates_by_layer(model: Classifier, decay: float) -> dict[str, float]:
    """Name of a parameter -> factor of its rate: `decay` in the last layer, its square in the one below, and so on to the
    embeddings (arXiv:2003.10555); 1 above the layers, and for positions that all of them read. A layer that is used several
    times has the highest one."""
    order, names = model.encoder.layers.execution_order(), {p: name for name, p in model.named_parameters()}
    rates = {names[parameter]: decay ** (len(order) + 1) for parameter in model.encoder.embeddings.parameters()}
    for place, blocks in enumerate(order):
        for parameter in (parameter for block in blocks for parameter in block.parameters()):
            rates[names[parameter]] = decay ** (len(order) - place)
    return rates


def held(tensors: Iterable[Tensor | None]) -> int:
    """Bytes of all storages, each once; for a sharded tensor, those of this process."""
    own = (tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors if isinstance(tensor, Tensor))
    return sum({(storage := tensor.untyped_storage()).data_ptr(): storage.nbytes() for tensor in own}.values())


def use_sparse_gradients(model: nn.Module) -> None:
    """Large tables that only look up rows get sparse gradients; not those that are tied to another layer's weights."""
    for table in large_tables(model):
        table.sparse = True


def large_tables(model: nn.Module) -> Iterator[nn.Embedding]:
    """Tables with many rows whose weights no other layer has."""
    uses: dict[Tensor, int] = {}
    for _, parameter in model.named_parameters(remove_duplicate=False):
        uses[parameter] = uses.get(parameter, 0) + 1
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings >= LEAST_ROWS and uses[module.weight] == 1:
            yield module
