"""Runs that are read as a whole, in place of a tracking store."""

from collections.abc import Mapping

from harness.comparison.runs import Run
from harness.reports.reading.store import Reader


class MemoryReader(Reader):
    """Runs by study, and curves by run and metric; among runs that began at the same time, the first counts as the newest."""

    _runs: dict[str, list[Run]]
    _history: Mapping[tuple[str, str], list[tuple[int, float]]] = {}

    def studies(self) -> dict[str, str]:
        return {study: study for study in self._runs}

    def runs(self, study: str) -> list[Run]:
        return self._runs[study]

    def newest(self, studies: list[str], identity: Mapping[str, str]) -> tuple[str, Run] | None:
        fitting = [(study, run) for study in studies for run in self._runs[study] if identity.items() <= run.tags.items()]
        return max(fitting, key=lambda one: one[1].started, default=None)

    def history(self, run_id: str, key: str) -> list[tuple[int, float]]:
        return self._history.get((run_id, key), [])
