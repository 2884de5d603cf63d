"""How a running cell looks: a bar with loss, tokens/s and time left on a terminal, plain lines otherwise."""

import sys
import time
from types import TracebackType
from typing import Any, Self

from tqdm import tqdm

LINE_EVERY_S = 15.0
"""Seconds between plain lines of one stage."""


class Progress:
    """Follows the log of one run."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: tqdm | None = None
        self._stage = "starting"
        self._steps = 0
        self._began = self._spoke = time.monotonic()
        self._from: dict[str, Any] = {"time": 0, "step": 0, "tokens": 0}
        self._at = self._from

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
        told = [entry for entry in entries if "stage" in entry or entry.get("key", "").endswith("/loss")]
        for entry, following in zip(told, [*told[1:], {}], strict=False):
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
        resumed = entry["stage"] == self._stage
        self._from = (self._at if resumed else {"step": 0, "tokens": 0}) | {"time": entry["time"]}
        self._stage, self._steps = entry["stage"], entry["steps"]
        if self._bar is not None:
            self._bar.set_description(f"{self._label}: {self._stage}")
            self._bar.reset(total=self._steps or 1)

    def _advance(self, point: dict[str, Any]) -> None:
        self._at = point
        seconds = max(1e-3, (point["time"] - self._from["time"]) / 1000)
        rate = (point["tokens"] - self._from["tokens"]) / seconds
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {point['value']:.3f}, {rate:,.0f} tokens/s", refresh=False)
            self._bar.update(point["step"] - self._bar.n)
        elif time.monotonic() - self._spoke > LINE_EVERY_S:
            self._spoke = time.monotonic()
            left = self._left(point, seconds)
            print(f"{self._label}: {left[0]}, loss {point['value']:.3f}, {rate:,.0f} tokens/s{left[1]}", flush=True)

    def _left(self, point: dict[str, Any], seconds: float) -> tuple[str, str]:
        """Where the stage is, and how long it will still take where its steps are known."""
        done = f"{self._stage} step {point['step']}"
        if not self._steps:  # the clock decides
            return done, ""
        left = seconds / max(1, point["step"] - self._from["step"]) * (self._steps - point["step"])
        return f"{done}/{self._steps}", f", {left:.0f} s left"
