"""torch.compile in this process: its limits, its time, its failures in one line."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from torch._dynamo import config as limits
from torch._dynamo.callback import on_compile_end, on_compile_start
from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException
from torch._dynamo.utils import counters
from torch._inductor import compile_fx  # noqa: F401  # so that its import counts for no model

GRAPHS = 64
"""Shapes and modes that a model is compiled for at most, more is an error; by default torch falls back to eager after 8."""


class Compiling:
    """Time that this process spends compiling."""

    def __init__(self) -> None:
        limits.recompile_limit, limits.fail_on_recompile_limit_hit = GRAPHS, True
        self.seconds, self._since = 0.0, 0.0
        on_compile_start(self._start)
        on_compile_end(self._end)

    def _start(self, *_: object) -> None:
        self._since = time.perf_counter()

    def _end(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._since

    def summary(self) -> str:
        """Graphs, graph breaks and seconds of compiling of this process."""
        graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
        return f"{graphs} graphs, {breaks} graph breaks, {self.seconds:.1f} s of compiling"

    @contextlib.contextmanager
    def failures_named(self, inside: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
        """`inside`; RuntimeError, naming the key, where the model cannot be compiled."""
        try:
            with inside:
                yield
        except (TorchDynamoException, FailOnRecompileLimitHit) as error:
            reason = " ".join(str(error).split())[:300]
            raise RuntimeError(
                f"hardware.compile=true, but torch.compile fails here; set hardware.compile=false ({reason})"
            ) from error
