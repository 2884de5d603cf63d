"""`python -m harness describe positions [model=minilm]`: learned vectors of positions beside sines and cosines.

The learned ones are of the weights that are named, or randomly initialised. Sinusoids are as published (arXiv:1706.03762,
section 3.5), of the same shape.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from harness.checkpoints import huggingface, native, start
from harness.config.adopted import started_from
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.measure import subject
from harness.models.config import Position
from harness.models.positions import sinusoids
from harness.paths import file_name
from harness.plugins.explain.pictures import fitted, save
from harness.terminal import DASH, table, wrapped

DISTANCES = (1, 2, 8, 32, 128)
"""Places between two vectors whose cosine is printed."""

TABLE = "encoder.embeddings.position_embedding.weight"

SHOWN = 128
"""Places of the picture."""


def positions(composed: RunConfig, out: Path, allowed: tuple[str, ...]) -> str:
    """What is printed; writes the picture to `out`. InputError for a variant without learned positions."""
    checkpoint = start.checkpoint_of(composed, allowed=allowed)
    config = started_from(composed, checkpoint)
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
    rows = []
    for title, vectors in tables.items():
        parameters = f"{state[TABLE].numel():,}" if vectors is learned else DASH
        cosines = [
            f"{F.cosine_similarity(vectors[apart:], vectors[:-apart]).mean().item() + 0.0:.3f}"
            if apart < len(vectors)
            else DASH
            for apart in DISTANCES
        ]
        norm = f"{vectors.norm(dim=1).mean():.3f}"
        rows.append((title, f"{len(vectors)} x {vectors.shape[1]}", parameters, norm, *cosines))
    head = ("positions", "shape", "parameters", "mean size", *(f"{distance} apart" for distance in DISTANCES))
    note = "apart: mean cosine of the vectors of two places with this distance; sines and cosines go on to any length"
    paths = save(draw(tables), out, file_name(f"positions-{config.label}"))
    return "\n\n".join([f"positions of {config.label}", table(head, rows), wrapped(note), paths])


def draw(tables: dict[str, Tensor]) -> Figure:
    """The vectors above the cosines of every two of the first places."""
    figure = Figure(figsize=(5.2 * len(tables), 8.2), layout="constrained")
    figure.suptitle("Vectors of positions", fontweight="bold", fontsize=12)
    for (above, below), (title, vectors) in zip(figure.subplots(2, len(tables)).T, tables.items(), strict=True):
        first = vectors[:SHOWN]
        normed = F.normalize(first, dim=1)
        above.set(xlabel="feature", ylabel="place", title=fitted(title, 4.2, 10)[0])
        below.set(xlabel="place", ylabel="place", title="cosine of two places")
        largest = float(np.quantile(first.abs().numpy(), 0.99))
        for axes, values, end, aspect in ((above, first, largest, "auto"), (below, normed @ normed.T, 1, "equal")):
            image = axes.imshow(values.numpy(), cmap="RdBu_r", vmin=-end, vmax=end, aspect=aspect, interpolation="nearest")
            axes.spines[:].set_visible(True)
            figure.colorbar(image, ax=axes, shrink=0.8)
    return figure
