"""The non-linearities that models know as a picture, with their derivatives by autograd, and which models use them."""

import io
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from harness.commands.describe.picture import STYLE
from harness.config.schema import ModelConfig
from harness.errors import InputError
from harness.paths import conf_directory
from harness.terminal import Row, table
from models.config import Activation
from models.keys import keys_read
from models.layers import ACTIVATIONS

REACH = 3.0
"""The picture goes from -REACH to REACH."""

POINTS = 1201
LOWEST, HIGHEST = -1.4, 3.2
"""Of both panels; what is higher is cut."""

EQUAL = 0.01
"""Functions that differ by less everywhere have one label."""

JUMP = 0.2
"""Difference between neighbouring points that is drawn as a gap."""

LISTED = 1
"""Models that are named; further ones are counted."""

LINES = (("#000000", "-", 1.6), ("#D55E00", (0, (6, 2)), 1.4), ("#0072B2", (0, (1, 1.2)), 1.8), ("#009E73", "-.", 1.4))
LINES += (("#8A4B7F", (0, (3, 1, 1, 1, 1, 1)), 1.4), ("#7A7A7A", "-", 2.6))
"""Colour, dashes and width, which differ in grey too."""


@dataclass(frozen=True)
class Curve:
    """One non-linearity and its derivative at the same (N,) places."""

    name: str
    values: np.ndarray
    slopes: np.ndarray


def places() -> np.ndarray:
    """(N,) where the curves are computed, 0 among them."""
    return np.linspace(-REACH, REACH, POINTS)


def curves() -> list[Curve]:
    """Of all non-linearities, in double precision."""
    found = []
    for activation in Activation:
        x = torch.tensor(places(), requires_grad=True)
        y = ACTIVATIONS[activation](x)
        (slopes,) = torch.autograd.grad(y.sum(), x)
        found.append(Curve(activation.value, y.detach().numpy(), slopes.numpy()))
    return found


# Which models use them


def users() -> dict[str, dict[str, list[str]]]:
    """Activation -> the models of conf/model/ that have it in a plain feed-forward, in a gated one, and in the pooler."""
    found = {activation.value: {"plain": [], "gated": [], "pooler": []} for activation in Activation}
    schema = OmegaConf.structured(ModelConfig)
    for path in sorted((conf_directory() / "model").glob("*.yaml")):
        config = OmegaConf.to_object(OmegaConf.merge(schema, OmegaConf.load(path)))
        if "gated_feed_forward" in keys_read(config):
            found[config.hidden_act.value]["gated" if config.gated_feed_forward else "plain"].append(path.stem)
        if config.pooler is not None:
            found[config.pooler.value]["pooler"].append(path.stem)
    return found


def _named(models: list[str]) -> str:
    more = f" +{len(models) - LISTED}" if len(models) > LISTED else ""
    return ", ".join(models[:LISTED]) + more if models else "-"


# Text and files


def show(out: Path) -> str:
    """What is printed; writes the picture to `out`. InputError where that cannot be written."""
    drawn, used = curves(), users()
    rows = [_row(curve, used[curve.name]) for curve in drawn]
    head = ("activation", "least value", "derivative", "feed-forward of", "gated in", "pooler of")
    title = f"activations that models know, and their derivatives, from {-REACH:g} to {REACH:g}"
    note = "gated: the feed-forward is act(x W) * x V, so silu is SwiGLU and gelu GEGLU (arXiv:2002.05202)"
    return "\n".join([title, "", table(head, rows, "lrrlll"), "", note, "", *map(str, _written(drawn, out))])


def _row(curve: Curve, used: dict[str, list[str]]) -> Row:
    slopes = f"{curve.slopes.min():.3f} to {curve.slopes.max():.3f}"
    return curve.name, f"{curve.values.min():.3f}", slopes, *(_named(used[place]) for place in ("plain", "gated", "pooler"))


def _written(drawn: list[Curve], out: Path) -> list[Path]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for ending, content in files(drawn).items():
            paths.append(out / f"activations.{ending}")
            paths[-1].write_bytes(content)
    except OSError as error:
        raise InputError(f"--out {str(out)!r} cannot be written ({error.strerror}); expected a folder") from error
    return paths


def files(drawn: list[Curve]) -> dict[str, bytes]:
    """Ending -> content; the same bytes for the same curves."""
    contents = {}
    with mpl.rc_context(STYLE):
        figure = draw(drawn)
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, metadata=metadata, dpi=150)
            contents[ending] = buffer.getvalue()
    return contents


def draw(drawn: list[Curve]) -> Figure:
    """Functions beside their derivatives, with the same axes."""
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    gated = sorted(name for name, used in users().items() if used["gated"])
    figure.suptitle("Activation functions and their derivatives", fontweight="bold", fontsize=12)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _panel(left, {curve.name: curve.values for curve in drawn}, "function")
    _panel(right, {curve.name: curve.slopes for curve in drawn}, "derivative")
    figure.supxlabel(f"x; also with a gate, act(x W) * x V: {', '.join(gated)}", fontsize=9)
    return figure


def _panel(axes: Axes, lines: dict[str, np.ndarray], title: str) -> None:
    x = places()
    axes.set(xlim=(-REACH, REACH), ylim=(LOWEST, HIGHEST))
    axes.set_title(title, loc="left", fontsize=10)
    axes.axhline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
    axes.axvline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    for (colour, dashes, width), (name, y) in zip(LINES, lines.items(), strict=True):
        broken = np.where(np.abs(np.diff(y, append=y[-1])) > JUMP, np.nan, y)
        axes.plot(x, broken, color=colour, linestyle=dashes, linewidth=width, label=name, clip_on=True)
    taken: list[tuple[float, float]] = []
    for names in together(lines):
        place = label_place(lines, names, taken)
        taken.append((x[place], lines[names[0]][place]))
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        axes.text(*taken[-1], ", ".join(names), ha="center", va="center", fontsize=8.5, bbox=box, zorder=5)


def together(lines: dict[str, np.ndarray]) -> list[list[str]]:
    """Names of curves that one label is for: nobody could tell them apart."""
    groups: list[list[str]] = []
    for name, y in lines.items():
        near = next((group for group in groups if np.abs(lines[group[0]] - y).max() < EQUAL), None)
        if near is None:
            groups.append([name])
        else:
            near.append(name)
    return groups


def label_place(lines: dict[str, np.ndarray], names: list[str], taken: list[tuple[float, float]]) -> int:
    """The point of a curve that is farthest from all other curves and labels, within the panel."""
    x, y = places(), lines[names[0]]
    others = [other for name, other in lines.items() if name not in names]
    free = np.min([np.abs(other - y) for other in others], axis=0) if others else np.full_like(y, np.inf)
    for left, height in taken:
        apart = np.hypot((x - left) / 1.6, (y - height) / 0.35)
        free = np.where(apart < 1, -1.0, free)
    inside = (np.abs(x) < REACH - 0.5) & (y > LOWEST + 0.15) & (y < HIGHEST - 0.15)
    return int(np.where(inside, free, -2.0).argmax())
