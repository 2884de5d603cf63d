"""Runs for TensorBoard, below `output`/tensorboard: a folder a run with its curves, results, and a row of the table HPARAMS."""

import re
import shutil
from pathlib import Path

from harness import metrics, paths, tags
from harness.errors import InputError
from harness.plugins.trackers import pages
from harness.tracking import run_log
from harness.tracking.run_log import Entry, Record
from harness.tracking.trackers import Backend

try:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams
except ImportError as error:
    raise InputError(f"tracking=tensorboard: {error}: pip install 'encoder-variant-harness[tensorboard]'") from error

FOLDER = "tensorboard"

MOST_PARAMETERS = 40
"""Columns of the table HPARAMS, of which it shows five at first: those that differ, then the others, each by name."""

FIRST = (tags.ARM, tags.SEED, "task.name")


class TensorBoard(Backend):
    """A study as a folder. A run that is resumed is written anew: its log has all points from the first."""

    def __init__(self, uri: str | None, output: str, study: str) -> None:
        self._study = paths.named(Path(output, FOLDER), study)
        self._writers: dict[str, SummaryWriter] = {}  # by attempt

    def _folder(self, record: Record) -> Path:
        return paths.named(self._study, f"{re.sub(r'[^A-Za-z0-9_.+-]+', '_', record['name'])}-{record['attempt'][:8]}")

    def begin(self, record: Record, folder: Path) -> None:
        shutil.rmtree(self._folder(record), ignore_errors=True)
        self._open(record)

    def _open(self, record: Record) -> SummaryWriter:
        if record["attempt"] not in self._writers:  # each writer begins a file, and TensorBoard reads the newest one alone
            self._writers[record["attempt"]] = SummaryWriter(str(self._folder(record)), flush_secs=10)
        return self._writers[record["attempt"]]

    def curves(self, record: Record, entries: list[Entry]) -> None:
        writer = self._open(record)
        for entry in entries:
            if "key" in entry:
                writer.add_scalar(entry["key"], entry["value"], entry["step"], walltime=entry["time"] / 1000)
        writer.flush()

    def end(self, record: Record, folder: Path, status: str) -> None:
        writer, result = self._open(record), run_log.result(folder)
        values, steps = (result["metrics"], result.get("steps", {})) if result else ({}, {})
        main, _ = pages.main_and_details(values, steps, record["tags"].get(tags.TASK, ""))
        shown = tuple(metrics.judged_by(key, values.get) for key in pages.MAIN)  # constants would hide the curves
        main = {key: value for key, value in main.items() if key.startswith((*shown, "eval/", pages.BY_TASK)) or key in steps}
        stated = pages.parameters(record, MOST_PARAMETERS)
        parameters = {key: pages.typed(value) for key, value in stated.items()} | {"status": status}
        parameters[tags.ARM] = record["tags"].get(tags.ARM, "")
        *row, succeeded = hparams(parameters, main)
        stored = row[0].value[0].metadata.plugin_data
        columns = HParamsPluginData.FromString(stored.content)
        for column in columns.experiment.hparam_infos:
            column.differs = column.name in FIRST
        stored.content = columns.SerializeToString()
        for summary in [*row, succeeded] if status == "finished" else row:  # `add_hparams` would begin another file
            writer.file_writer.add_summary(summary)  # type: ignore[attr-defined]  # its constructor makes it
        for key, value in main.items():
            writer.add_scalar(key, value, steps.get(key, 0), walltime=result["time"] / 1000 if result else None)
        writer.add_text("run", pages.of_folder(folder, record, status))
        self._writers.pop(record["attempt"]).close()

    def add(self, record: Record, folder: Path, entries: list[Entry]) -> None:
        self.send(record, folder)  # anew, for TensorBoard keeps the first columns of HPARAMS that it reads

    def sync_if_stale(self, record: Record, folder: Path) -> None:
        if not self._folder(record).is_dir():
            self.send(record, folder)
