"""Topics of `python -m harness describe` that are curves of one thing: `activations`, `positions` and `coordinates`.

`activations`: all non-linearities and their derivatives. `positions`: learned vectors of positions, of the weights that are
named or randomly initialised, next to sines and cosines as published (arXiv:1706.03762, section 3.5). `coordinates`: whether
activations have one size at all widths, with and without the maximal update parametrisation.
"""

from dataclasses import replace
from math import log2
from pathlib import Path
from statistics import fmean
from typing import cast

import numpy as np
import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

from harness.checkpoints import huggingface, native, start
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.measure import subject
from harness.models import mup
from harness.models.batch import Batch
from harness.models.config import Activation, Position
from harness.models.heads import MaskedLMHead
from harness.models.layers import ACTIVATIONS
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.config import ObjectiveName
from harness.models.positions import sinusoids
from harness.models.stack import Stack
from harness.paths import file_name
from harness.plugins.explain.pictures import fitted, save
from harness.terminal import DASH, table, wrapped
from harness.training import pretrain
from harness.training.optimiser import make_optimiser

REACH, POINTS = 3.0, 1201
"""Range of the picture of activations: -REACH to REACH."""

DISTANCES = (1, 2, 8, 32, 128)
"""Places between two vectors whose cosine is printed."""

TABLE = "encoder.embeddings.position_embedding.weight"

SHOWN = 128
"""Places of the picture of positions."""

TIMES = (1, 2, 4)
"""Widths, in hidden sizes of the variant."""

VOCABULARY, ROWS, LENGTH, STEPS = 512, 8, 32, 4
"""Tokens, sequences of a step and tokens of a sequence, and steps, of a training at each width."""


def curves() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Non-linearity -> its values and its derivative by autograd, in double precision, both (POINTS,)."""
    drawn = {}
    for activation in Activation:
        x = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64, requires_grad=True)
        y = ACTIVATIONS[activation](x)
        (slopes,) = torch.autograd.grad(y.sum(), x)
        drawn[activation.value] = y.detach().numpy(), slopes.numpy()
    return drawn


def activations(out: Path) -> str:
    """What is printed; writes the picture to `out`. InputError where that cannot be written."""
    drawn, rows = curves(), []
    figure = Figure(figsize=(11, 5.6))
    figure.suptitle("Activation functions and their derivatives")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for name, both in drawn.items():
        values, slopes = both
        rows.append((name, f"{values.min():.3f}", f"{slopes.min():.3f} to {slopes.max():.3f}"))
        for panel, y, title in zip(axes, both, ("function", "derivative"), strict=True):
            broken = np.where(np.abs(np.diff(y, append=y[-1])) > 0.2, np.nan, y)  # a jump is a gap
            panel.plot(np.linspace(-REACH, REACH, POINTS), broken, label=name)
            panel.set(title=title, ylim=(-1.4, 3.2), xlabel="x")
            panel.grid(alpha=0.3)
    axes[0].legend()
    title = f"activations that models know, and their derivatives, from {-REACH:g} to {REACH:g}"
    note = "gated: the feed-forward is act(x W) * x V, so silu is SwiGLU and gelu GEGLU (arXiv:2002.05202)"
    listed = table(("activation", "least value", "derivative"), rows)
    return "\n\n".join([title, listed, wrapped(note), save(figure, out, "activations")])


def positions(composed: RunConfig, out: Path, allowed: tuple[str, ...]) -> str:
    """What is printed; writes the picture to `out`. InputError for a variant without learned positions."""
    config, checkpoint = start.started(composed, allowed)
    if config.model.position is not Position.learned:
        raise InputError(
            f"{config.label} has position={config.model.position.value}: expected a model with learned positions, model=base"
        )
    if checkpoint is None:
        name, state = f"learned, before training (seed {config.seed})", subject.classifier(config, config.seed).state_dict()
    else:
        name, folder = f"learned, of {checkpoint.name}", Path(checkpoint.folder)
        state = native.read(folder)[0] if checkpoint.run else huggingface.encoder_of(folder, checkpoint.key)[0]
    learned = state[TABLE].float()[config.model.position_offset :]
    tables = {name: learned, "sines and cosines": sinusoids(*learned.shape)}
    figure, rows = Figure(figsize=(5.2 * len(tables), 8.2)), []
    figure.suptitle("Vectors of positions")
    for (above, below), (title, vectors) in zip(figure.subplots(2, len(tables)).T, tables.items(), strict=True):
        similar = F.normalize(vectors, dim=1) @ F.normalize(vectors, dim=1).T
        cosines = [f"{similar.diagonal(apart).mean() + 0.0:.3f}" if apart < len(vectors) else DASH for apart in DISTANCES]
        parameters = f"{state[TABLE].numel():,}" if vectors is learned else DASH
        rows.append((title, f"{len(vectors)} x {vectors.shape[1]}", parameters, f"{vectors.norm(dim=1).mean():.3f}", *cosines))
        above.set(xlabel="feature", ylabel="place", title=fitted(title, 4.2, 10)[0])
        below.set(xlabel="place", ylabel="place", title="cosine of two places")
        for axes, values in ((above, vectors[:SHOWN]), (below, similar[:SHOWN, :SHOWN])):
            end = float(np.quantile(values.abs().numpy(), 0.99))
            image = axes.imshow(values.numpy(), cmap="RdBu_r", vmin=-end, vmax=end, aspect="auto", interpolation="nearest")
            figure.colorbar(image, ax=axes, shrink=0.8)
    head = ("positions", "shape", "parameters", "mean size", *(f"{distance} apart" for distance in DISTANCES))
    note = "apart: mean cosine of the vectors of two places with this distance; sines and cosines extend to any length"
    paths = save(figure, out, file_name(f"positions-{config.label}"))
    return "\n\n".join([f"positions of {config.label}", table(head, rows), wrapped(note), paths])


def coordinates(config: RunConfig, out: Path) -> str:
    """What is printed; writes the picture to `out`. InputError for a variant that has no such check."""
    pretrain = config.pretrain
    if pretrain.objective not in (ObjectiveName.none, ObjectiveName.mlm, ObjectiveName.clm) or pretrain.phases:
        raise InputError(f"describe coordinates trains with mlm or clm: expected one of them, not pretrain={pretrain.title}")
    if pretrain.objective is ObjectiveName.none:
        pretrain = replace(pretrain, objective=ObjectiveName.mlm)
    try:
        mup.refuse_misfit(config.model)
    except ValueError as error:
        raise InputError(str(error)) from error
    widths = [str(config.model.hidden_size * times) for times in TIMES]
    parts = [f"mean absolute activations of {config.label} after {STEPS} steps at {pretrain.learning_rate:g}, by hidden size"]
    figure = Figure(figsize=(9, 3.6))
    bases = (None, pretrain.mup_base_width or config.model.hidden_size)
    for axes, base in zip(figure.subplots(1, 2, sharey=True), bases, strict=True):
        run = replace(config, pretrain=replace(pretrain, mup_base_width=base))
        by_width, rows = [sizes_of(run, times) for times in TIMES], []
        title = f"pretrain.mup_base_width={'null' if base is None else base}"
        for place in by_width[0]:
            sizes = [of_width[place] for of_width in by_width]
            growth = log2(sizes[-1] / sizes[0]) / log2(TIMES[-1] / TIMES[0])
            rows.append((place, *(f"{size:.3g}" for size in sizes), f"{growth:+.2f}"))
            axes.plot(widths, sizes, marker=".", label=place)
        parts.append(table((title, *widths, "growth"), rows))
        axes.set(title=title, xlabel="hidden size", ylabel="mean absolute activation", yscale="log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    figure.legend(handles=axes.lines, loc="outside right upper")
    note = "growth: power of the width; 0: one size at all widths. Logits begin near 0 in wide models with mup_base_width."
    return "\n\n".join([*parts, wrapped(note), save(figure, out, "coordinates")])


def sizes_of(config: RunConfig, times: int) -> dict[str, float]:
    """Place -> mean absolute activation after STEPS steps at the whole rate, of the variant that is so many times as wide.

    The coordinate check of arXiv:2203.03466, appendix D.1, with random tokens: where the rate suits all widths, what attention
    and feed-forward add, and the scores over the vocabulary, are about as large at every width. The wider variant has as many
    times the heads, and its feed-forward is as many times as wide; depth and head size stay.
    """
    sizes = {name: getattr(config.model, name) * times for name in ("hidden_size", "num_attention_heads", "intermediate_size")}
    shape = replace(config.model, **sizes, vocab_size=VOCABULARY, pad_token_id=0)
    vocabulary = Vocabulary(VOCABULARY, 0, 1, 2, 3, torch.ones(VOCABULARY, dtype=torch.bool))
    objective = pretrain.build(replace(config, model=shape), vocabulary).phases[0].train()
    optimiser = make_optimiser(objective, config.pretrain, mup.rates(objective, pretrain.times_wider(config.pretrain, shape)))
    for group in optimiser.param_groups:
        group["lr"] *= group["rate_factor"]
    ids = torch.randint(4, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))
    batch = objective.make_batch(Batch(ids), list(range(ROWS)))
    for step in range(STEPS):
        torch.manual_seed(step)
        objective(batch).backward()
        optimiser.update()
    places = {}
    for number, (attention, feed_forward) in enumerate(cast(Stack, objective.encoder.layers).execution_order(), 1):
        places[f"attention {number}"] = attention.get_submodule("attention")
        places[f"feed-forward {number}"] = feed_forward.feed_forward
    (places["logits"],) = (module for module in objective.children() if isinstance(module, MaskedLMHead))
    outputs: dict[str, list[float]] = {place: [] for place in places}
    for place, module in places.items():
        add = outputs[place].append
        module.register_forward_hook(lambda _, inputs, output, add=add: add(output.detach().abs().mean().item()))
    torch.manual_seed(STEPS)
    objective(batch)
    return {place: fmean(sizes) for place, sizes in outputs.items()}
