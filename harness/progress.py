"""How a running cell looks: a bar with loss, tokens/s and time left on a terminal, plain lines otherwise."""

import sys
import time
from types import TracebackType
from typing import Any, Self

from tqdm import tqdm

LINE_EVERY_S = 15.0
"""Seconds between plain lines of one stage."""


class Progress:
    """Follows the journal entries of one cell."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: tqdm | None = None
        self._stage = "starting"
        self._steps = 0
        self._began = self._spoke = time.monotonic()
        self._stage_ms = 0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = tqdm(total=1, desc=f"{self._label}: {self._stage}", leave=False, dynamic_ncols=True)
        else:
            print(f"{self._label}: started", flush=True)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, entries: list[dict[str, Any]]) -> None:
        """Takes new entries in."""
        for entry, following in zip(entries, [*entries[1:], {}], strict=False):
            if "stage" in entry:
                self._begin(entry)
            elif "key" not in following:  # of points in a row the last says it all
                self._advance(entry)

    def end(self, status: str, metrics: dict[str, float], last_line: str) -> None:
        """One closing line: the headline score, or why it failed."""
        seconds = f"{time.monotonic() - self._began:.0f} s"
        score = f", score {metrics['eval/score']:.4f}" if "eval/score" in metrics else ""
        told = (
            f"{self._label}: {status} in {seconds}{score}" if status == "finished" else f"{self._label}: {status}: {last_line}"
        )
        if self._bar is not None:
            self._bar.write(told)
        else:
            print(told, flush=True)

    def _begin(self, entry: dict[str, Any]) -> None:
        self._stage, self._steps, self._stage_ms = entry["stage"], entry["steps"], entry["time"]
        if self._bar is not None:
            self._bar.set_description(f"{self._label}: {self._stage}")
            self._bar.reset(total=self._steps or 1)

    def _advance(self, point: dict[str, Any]) -> None:
        seconds = max(1e-3, (point["time"] - self._stage_ms) / 1000)
        rate = point["tokens"] / seconds
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {point['value']:.3f}, {rate:,.0f} tokens/s", refresh=False)
            self._bar.update(point["step"] - self._bar.n)
        elif time.monotonic() - self._spoke > LINE_EVERY_S:
            self._spoke = time.monotonic()
            left = seconds / point["step"] * (self._steps - point["step"])
            done = f"{self._stage} step {point['step']}/{self._steps}"
            print(f"{self._label}: {done}, loss {point['value']:.3f}, {rate:,.0f} tokens/s, {left:.0f} s left", flush=True)
