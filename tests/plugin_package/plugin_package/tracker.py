"""A tracker that adds a line to a file where a run begins and ends."""

from pathlib import Path

from harness.tracking.run_log import Entry, Record
from harness.tracking.trackers import Backend


class Lines(Backend):
    """`lines.txt` in the folder of the runs."""

    def __init__(self, uri: str | None, output: str, study: str) -> None:
        self._file = Path(output, "lines.txt")

    def _add(self, text: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{text}\n")

    def begin(self, record: Record, folder: Path) -> None:
        self._add(f"began {record['name']}")

    def curves(self, record: Record, entries: list[Entry]) -> None:
        """Nothing."""

    def end(self, record: Record, folder: Path, status: str) -> None:
        self._add(f"{status} {record['name']}")

    def sync_if_stale(self, record: Record, folder: Path) -> None:
        """Nothing."""
