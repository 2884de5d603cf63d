"""What pretraining does between steps: evaluation on held-out text, curves of cost, checkpoints, weights kept on the way."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.measure.memory import Baseline
from harness.tracking.run_log import RunLog
from harness.training.distributed import ALONE, Ranks
from harness.training.loop import LOG_EVERY, Limit, Position


class Evaluation:
    """Evaluates on held-out text at even intervals of the budget. Its memory is not part of training's peak."""

    def __init__(
        self,
        measure: Callable[[], dict[str, float]],
        evaluations: int,
        limit: Limit,
        position: Position,
        memory: Baseline,
        run_log: RunLog,
    ) -> None:
        self._measure, self._evaluations, self._limit = measure, evaluations, limit
        self._memory, self._run_log = memory, run_log
        self._done = self._number(position)
        self.scores: dict[str, float] = {}  # of the last evaluation in this process
        self.peak_bytes = 0  # of training, before the last evaluation

    def _number(self, position: Position) -> int:
        """Evaluations up to this position."""
        return int(min(1.0, self._limit.done(position) / self._limit.total) * self._evaluations)

    def should_run(self, position: Position) -> bool:
        """Whether one more evaluation is due."""
        return self._number(position) > self._done

    def run(self, position: Position) -> None:
        """Evaluates and writes the scores."""
        started = time.perf_counter()
        self._done = self._number(position)
        self.peak_bytes = max(self.peak_bytes, self._memory.peak() or 0)
        self.scores = self._measure()
        for key, value in self.scores.items():
            self._run_log.curve(key, position.step, value, position.tokens)
        self._memory.start()
        position.paused_seconds += time.perf_counter() - started


class CostCurves:
    """Writes the cost of training so far, every LOG_EVERY steps and before each evaluation."""

    def __init__(self, evaluation: Evaluation, run_log: RunLog) -> None:
        self._evaluation, self._run_log = evaluation, run_log

    def should_run(self, position: Position) -> bool:
        """Whether the curves get a point."""
        return position.step % LOG_EVERY == 0 or self._evaluation.should_run(position)

    def run(self, position: Position) -> None:
        """Writes one point of each curve."""
        points = {"tokens": position.tokens, "flops": position.flops, "duration_s": position.seconds}
        for name, value in points.items():
            self._run_log.curve(f"pretrain/{name}", position.step, value, position.tokens)


class Saving:
    """Saves a checkpoint every `every_s` seconds, and at the end."""

    def __init__(self, save: Callable[[Position], object], every_s: float, limit: Limit, ranks: Ranks = ALONE) -> None:
        self._save, self._every_s, self._limit, self._ranks = save, every_s, limit, ranks
        self._saved = time.monotonic()

    def should_run(self, position: Position) -> bool:
        """Whether a checkpoint is due."""
        due = time.monotonic() - self._saved >= self._every_s or self._limit.reached(position)
        return bool(self._ranks.agreed(due))

    def run(self, position: Position) -> None:
        """Saves a checkpoint."""
        self._save(position)
        self._saved = time.monotonic()


class Keeping:
    """Keeps weights after given numbers of tokens; fine-tuning can start from them, training is not resumed from them."""

    def __init__(self, save: Callable[[Path], None], keep: list[float], folder: Path, ranks: Ranks = ALONE) -> None:
        targets = {tokens: paths.pretrained_weights(folder, tokens) for tokens in sorted(keep)}
        self._save, self._ranks, self._due = (
            save,
            ranks,
            [(tokens, path) for tokens, path in targets.items() if not path.is_dir()],
        )

    def should_run(self, position: Position) -> bool:
        """Whether the next number of tokens is reached."""
        return bool(self._due) and position.tokens >= self._due[0][0]

    def run(self, position: Position) -> None:
        """Saves the weights on the first rank, whole or not at all."""
        while self.should_run(position):
            _, path = self._due.pop(0)
            if not self._ranks.first:
                continue
            building = path.with_name(f".{path.name}.{os.getpid()}")
            building.parent.mkdir(exist_ok=True)
            try:
                self._save(building)
                shutil.rmtree(path, ignore_errors=True)
                building.rename(path)
            finally:
                shutil.rmtree(building, ignore_errors=True)  # what is left where the disk is full
