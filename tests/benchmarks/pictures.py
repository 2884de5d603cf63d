"""Pictures beside the table: time and memory over steps, and where the time of training goes."""

import matplotlib
import numpy as np
import results
from matplotlib import pyplot

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "benchmarks"

POINTS = 100
"""Means that a curve is drawn with."""


def flat(times: np.ndarray, tokens: np.ndarray, megabytes: np.ndarray) -> None:
    """Time per token and resident memory over the steps of a training; (steps,) ms, tokens so far, and MB."""
    size = max(1, len(times) // POINTS)
    edges = np.arange(0, len(times) - 1, size)
    per_token = 1e3 * np.diff(times[edges]) / np.diff(tokens[edges])
    figure, (upper, lower) = pyplot.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
    upper.plot(edges[1:], per_token)
    upper.set(ylabel="time per token (µs)", ylim=(0, None))
    lower.plot(edges, megabytes[edges])
    lower.set(ylabel="resident memory (MB)", xlabel="step", ylim=(0, None))
    _save(figure, "flat")


def shares(by_training: dict[str, dict[str, float]]) -> None:
    """One bar for each training, cut into the percent of each part; parts in the order of the first bar."""
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.6 * len(by_training)), layout="constrained")
    parts = list(dict.fromkeys(part for one in by_training.values() for part in one))
    left = np.zeros(len(by_training))
    colours = pyplot.get_cmap("tab20")(np.arange(len(parts)))
    for part, colour in zip(parts, colours, strict=True):
        widths = np.array([one.get(part, 0.0) for one in by_training.values()])
        axes.barh(list(by_training), widths, left=left, label=part, color=colour)
        left += widths
    axes.invert_yaxis()
    axes.set(xlabel="share of the time of a training step (%)", xlim=(0, 100))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=5, frameon=False)
    _save(figure, "profile")


def _save(figure: pyplot.Figure, name: str) -> None:
    figure.savefig(results.picture_path(name), metadata={"Date": None})
    pyplot.close(figure)
