"""Forward and backward of one attention layer with a window of 128 over a long text, against full attention and Longformer's.

All layers have projections of queries, keys, values and output; Longformer's, `LongformerSelfAttention`, gets an output product
of the same size. It has no global tokens and the weights of ours, and the outputs must be equal. The bound of
a ratio is what it would be if our products ran at the machine's peak and nothing else took time.
"""

import time
from collections.abc import Callable
from typing import Any

import ours
import rounds
import torch
import transformers
from torch import Tensor, nn
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from harness.hardware.device import Machine
from harness.hardware.peak_flops import peak_flops_per_s
from harness.models.attention.full import SelfAttention
from harness.models.attention.products import Context
from harness.models.config import EncoderConfig

TOKENS, WINDOW = 4096, 128

SHAPES = ((256, 4), (768, 12))
"""Hidden size and heads."""

SECONDS = 0.3
"""Each value is the mean of as many calls as this takes, at least one."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """Milliseconds of a call, and how many times as fast the windowed layer is."""
    rows: list[dict[str, Any]] = []
    for hidden, heads in SHAPES:
        for dropout in (0.0,) if quick else (0.0, 0.1):
            for dtype in ("fp32", "bf16"):
                rows += _measured(hidden, heads, dropout, dtype, 3 if quick else 15)
    return rows


def _measured(hidden: int, heads: int, dropout: float, dtype: str, count: int, tokens: int = TOKENS) -> list[dict[str, Any]]:
    machine, inputs = ours.machine(dtype), torch.randn(1, tokens, hidden, requires_grad=True)
    layers = layers_of(hidden, heads, dropout, tokens, machine)
    if not dropout:
        refuse_different(layers["ours"](inputs), layers["Longformer's"](inputs))

    def call(layer: Callable[[Tensor], Tensor]) -> None:
        with machine.autocast():
            output = layer(inputs)
        output.float().sum().backward()
        inputs.grad = None

    timed = {name: _timed(lambda layer=layer: call(layer)) for name, layer in layers.items()}
    for layer in layers.values():
        call(layer)
    timed["at the peak"] = lambda number: flops_of_ours(hidden, heads, tokens) / peak_flops_per_s(machine) * 1e3
    values = rounds.interleaved(timed, count)
    setting = f"H{hidden} A{heads}, {dtype}" + (f", dropout {dropout}" if dropout else "")
    theirs = values["Longformer's"]
    ratios = [
        rounds.times_as_fast(values["full"], values["ours"], f"windowed / full, {setting}"),
        rounds.times_as_fast(theirs, values["ours"], f"windowed / Longformer's, {setting}"),
        rounds.times_as_fast(theirs, values["at the peak"], f"bound of windowed / Longformer's, {setting}"),
    ]
    return ratios + [rounds.row(f"{name}, {setting}", one, "ms") for name, one in values.items()]


def flops_of_ours(hidden: int, heads: int, tokens: int) -> int:
    """Of forward and backward of the windowed layer; the backward pass has twice the products of the forward pass."""
    with torch.device("meta"):
        layer = SelfAttention(EncoderConfig(hidden_size=hidden, num_attention_heads=heads, attention_window=WINDOW))
    return 3 * layer.flops(tokens)


def layers_of(hidden: int, heads: int, dropout: float, tokens: int, machine: Machine) -> dict[str, Callable[[Tensor], Tensor]]:
    """The layers as functions of (B, T, D)."""
    shape = {"hidden_size": hidden, "num_attention_heads": heads, "attention_probs_dropout_prob": dropout}
    windowed = machine.prepare(SelfAttention(EncoderConfig(**shape, attention_window=WINDOW)).train())
    full = machine.prepare(SelfAttention(EncoderConfig(**shape)).train())
    theirs = LongformerSelfAttention(transformers.LongformerConfig(**shape, attention_window=[WINDOW]), 0).train()
    output = nn.Linear(hidden, hidden)
    for part, name in enumerate(("query", "key", "value")):
        rows = slice(part * hidden, (part + 1) * hidden)
        getattr(theirs, name).load_state_dict(
            {key: value[rows] for key, value in windowed.query_key_value.state_dict().items()}
        )
    output.load_state_dict(windowed.output.state_dict())
    nothing, nowhere = torch.zeros(1, tokens), torch.zeros(1, tokens, dtype=torch.bool)
    return {
        "ours": lambda inputs: windowed(inputs, Context()),
        "full": lambda inputs: full(inputs, Context()),
        "Longformer's": lambda inputs: output(theirs(inputs, nothing, nowhere, nowhere, False)[0]),
    }


def refuse_different(one: Tensor, other: Tensor) -> None:
    """RuntimeError unless both layers compute the same."""
    difference = (one - other).abs().max().item()
    if difference > 1e-4:
        raise RuntimeError(f"the outputs of our layer and Longformer's differ by {difference:.2g}")


def _timed(call: Callable[[], None]) -> rounds.Side:
    def milliseconds(number: int) -> float:
        calls, started = 0, time.perf_counter()
        while not calls or time.perf_counter() - started < SECONDS:
            call()
            calls += 1
        return (time.perf_counter() - started) / calls * 1e3

    return milliseconds
