"""`python -m reports archive STUDY to=FOLDER`: a study as `reader` reads it, and the report made from it."""

import functools
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from harness import document, metrics, paths
from harness.comparison import items
from harness.comparison.runs import Run
from harness.errors import InputError, unknown
from harness.plugins.archive.options import Archive
from harness.plugins.archive.reader import (
    AUDIT,
    COLUMNS,
    CURVE,
    CURVES,
    MANIFEST,
    PREDICTIONS,
    RUNS,
    SWITCHES,
    TEXTS,
    ArchiveReader,
    Manifest,
    hashes,
    manifest,
)
from harness.plugins.shared import item_texts
from harness.reports.options import Report
from harness.reports.read import StudyRuns
from harness.reports.read import read as read_store
from harness.reports.reading import folders, predictions
from harness.reports.reading.store import Output, Reader
from harness.reports.reading.study import CURVE_POINTS
from harness.reports.reading.untrusted import LARGEST_TABLES, table_of
from harness.reports.render import Files
from harness.reports.report import audit_of, read, rendered, write
from harness.terminal import still_line

LEFT_OUT = "weights, checkpoints, logs, prepared data except texts; names of machine and user; paths of run and data folders"
SHORT = 20
"""Most points of a curve that a lean archive keeps whole."""
THINNED = f"of curves above {CURVE_POINTS} points, every n-th, the last, and those at steps of shorter curves"
THINNED_LEAN = f"of curves above {SHORT} points, the last and those at steps of shorter curves"


def main(options: Archive) -> int:
    """0, and the folder on stdout; InputError, with nothing written, where the store cannot be read."""
    before = replaced(options.to)
    with still_line("packing the study and writing its report: some seconds, minutes for many predictions"):
        files = archive(options)
        write(files, options.to)
    for name in before - files.keys():
        (options.to / name).unlink(missing_ok=True)
    print(f"{options.to}: {len(files)} files, {sum(map(len, files.values())) / 1e6:.2f} MB")
    return 0


def replaced(folder: Path) -> set[str]:
    """Files of the archive in this folder, none in an empty one; InputError for a folder of anything else.

    Temporary files of a killed process, which `write` removes, do not count.
    """
    if not folder.exists() or (folder.is_dir() and all(path.name.startswith(".writing.") for path in folder.iterdir())):
        return set()
    if not (folder / MANIFEST).is_file():
        raise InputError(f"to={str(folder)!r} has other files; expected a new folder, or an archive to replace")
    content = manifest(folder)
    return {*content.data, *content.report}


def archive(options: Archive) -> Files:
    """Content of all files of an archive."""
    runs = read_store(options.address, [options.study])
    lean, pictures = options.lean, options.pictures
    if isinstance(runs.reader, ArchiveReader):
        lean, pictures = runs.reader.manifest.lean, runs.reader.manifest.pictures
        if options.lean > lean or options.pictures not in (None, pictures):
            raise InputError("lean and pictures= need a study in a store: tracking.uri is an archive, which cannot change")
        data, thinned = runs.reader.packed
    else:
        data, thinned = pack(runs, lean)
    data |= {AUDIT: audit} if (audit := audit_of(options, runs)) else {}
    content: dict[str, Any] = {"study": options.study, "options": words_of(options), "lean": lean, "pictures": pictures}
    content |= {"left_out": LEFT_OUT, "thinned": thinned, "data": hashes(data), "report": {}}
    report = report_of(ArchiveReader(str(options.to), Manifest(**content), data))
    return {MANIFEST: json.dumps(content | {"report": hashes(report)}, indent=1).encode()} | data | report


def words_of(options: Archive) -> list[str]:
    """The options of the report, which `audit.json` and the data do not hold."""
    lists = {name: getattr(options, name) for name in ("baseline", "along", "target")}
    words = [f"--{name}={value}" for name, values in lists.items() for value in values]
    words += [switch for switch, name in SWITCHES.items() if getattr(options, name)]
    return words + ([f"--where={options.where}"] if options.where else [])


def report_of(reader: ArchiveReader) -> Files:
    """The report of an archive, made from its data alone; InputError for a picture that it has not."""
    content = reader.manifest
    options = Report(study=(content.study,), format="md" if content.lean else "md,csv", **content.choices)
    runs, pictures = read(options, reader), {*content.pictures.split(",")} if content.pictures else None
    files = rendered(options, runs, pictures)
    del files[document.FILE]  # report.md has all of it
    if wrong := (pictures or set()) - files.keys():
        raise unknown("picture", min(wrong), [name for name in rendered(options, runs) if name.endswith(".svg")], "pictures")
    return files


def pack(runs: StudyRuns, lean: bool) -> tuple[Files, dict[str, Any]]:
    """The data of an archive; and how curves were thinned: metric -> points of its longest thinned curve."""
    rows, curves = [], []
    predictions: dict[str, list[pyarrow.Table]] = {}
    texts: dict[str, pyarrow.Table] = {}
    thinned: dict[str, int] = {}
    for run in [*runs.runs, *runs.trials]:
        rows.append(_row(run, runs.study, runs.reader.output))
        for metric, points, count in curves_of(runs.reader, run, lean) if run not in runs.trials else ():
            curves += [{"run_id": run.run_id, "metric": metric, "step": step, "value": value} for step, value in points]
            if count > len(points):
                thinned[metric] = max(count, thinned.get(metric, 0))
        for name, table in _predictions(run, runs.reader.output):
            table = table.drop_columns(
                [name for name in table.column_names if lean and name.startswith(("logit_", "sentence_"))]
            )
            predictions.setdefault(name, []).append(table)
        texts |= {} if run in runs.trials else _texts(run, runs.reader.output)
    tables = {RUNS: pyarrow.Table.from_pylist(rows, pyarrow.schema(COLUMNS))}
    tables[CURVES] = pyarrow.Table.from_pylist(curves, pyarrow.schema(CURVE))
    tables |= {name: pyarrow.concat_tables(each, promote_options="permissive") for name, each in predictions.items()}
    tables |= {TEXTS: pyarrow.concat_tables(texts.values())} if texts else {}
    files = {name: _parquet(table) for name, table in tables.items()}
    if missing := folders.not_run(runs.study, runs.reader.output):
        plan = [{"title": title, "folder": f"{runs.study}/{number}"} for number, title in enumerate(missing)]
        files[paths.PLAN] = json.dumps({"": {"time": 0, "runs": plan}}).encode()
    return files, {THINNED_LEAN if lean else THINNED: thinned}


def _row(run: Run, study: str, output: Output) -> dict[str, Any]:
    """A row of COLUMNS, without names of machine, user and folder of the run."""
    folder = folders.folder_of(run, output)
    record = folders.record_of(folder) if folder else {}
    recorded = [path for key in ("output", "data.root") if (path := Path(run.params.get(key, ""))).is_absolute()]
    places = [f"{path.absolute().parent}/" for path in (*([output] if isinstance(output, Path) else []), *recorded)]

    def shortened(text: str) -> str:
        """What is below these folders keeps the rest of its path."""
        return functools.reduce(lambda shorter, place: shorter.replace(place, ""), places, text)

    kept = {key: value for key, value in record.items() if key not in ("tags", "parameters", "files")}
    kept["inputs"] = {key: value for key, value in record.get("inputs", {}).items() if key != "pretrained"}  # a folder
    paths_of = {"config": folder / "config.yaml", "result": folder / folders.RESULT} if folder else {}
    return {
        "run_id": run.run_id,
        "name": run.name,
        "study": run.elsewhere or study,
        "started": run.started,
        "tags": {
            key: shortened(value) for key, value in run.tags.items() if key != "process" and not key.startswith("mlflow.")
        },
        "params": {key: shortened(value) for key, value in run.params.items() if key != "output"},
        "metrics": run.metrics,
        "record": json.dumps(kept) if folder else None,
    } | {name: shortened(paths.read(path, paths.LARGEST_RECORD).decode()) for name, path in paths_of.items() if path.is_file()}


def curves_of(reader: Reader, run: Run, lean: bool) -> Iterator[tuple[str, list[tuple[int, float]], int]]:
    """Metric, the kept points of its history, and their number before; launches and repeated steps are kept whole."""
    histories = {metric: reader.history(run.run_id, metric) for metric in run.metrics}
    long = {
        metric
        for metric, points in histories.items()
        if len(points) > (SHORT if lean else CURVE_POINTS)
        and not metric.startswith(metrics.LAUNCHES)
        and len({step for step, _ in points}) >= len(points) - 1  # the end may be told twice
    }
    others = (metric for metric in histories.keys() - long if not metric.startswith(metrics.LAUNCHES))
    shared = {step for metric in others for step, _ in histories[metric]}
    for metric, points in histories.items():
        last = len(points) - 1
        every = 1 if metric not in long else last if lean else -(-len(points) // CURVE_POINTS)
        kept = [one for place, one in enumerate(points) if place % every == 0 or place == last or one[0] in shared]
        yield metric, kept, len(points)


def _predictions(run: Run, output: Output) -> Iterator[tuple[str, pyarrow.Table]]:
    """Name in the archive and rows of each file of predictions that can be read."""
    folder = folders.folder_of(run, output)
    for path in sorted(folder.glob(f"{PREDICTIONS}*.parquet")) if folder else ():
        try:
            table = table_of(paths.read(path, LARGEST_TABLES), str(path)).replace_schema_metadata()
        except InputError:
            continue
        ids = pyarrow.array([run.run_id] * len(table))
        yield paths.file_name(f"{path.stem}-{run.task}.parquet"), table.add_column(0, "run_id", ids)


def _texts(run: Run, output: Output) -> dict[str, pyarrow.Table]:
    """Key of the prepared data -> tokens and text of its items; empty where they or the predictions are gone."""
    folder, errors = folders.folder_of(run, output), items.errors(run, predictions.predictions(run, output))
    texts = item_texts.texts(run, output, len(errors.items)) if errors else None
    if folder is None or texts is None:
        return {}
    key, count = folders.record_of(folder)["inputs"]["data"], len(texts.lengths)
    return {key: pyarrow.table({"data": [key] * count, "tokens": texts.lengths, "text": list(map(texts.of, range(count)))})}


def _parquet(table: pyarrow.Table) -> bytes:
    content, numbers = io.BytesIO(), [field.name for field in table.schema if pyarrow.types.is_floating(field.type)]
    other = [name for name in table.column_names if name not in numbers]
    split = {"use_byte_stream_split": numbers, "use_dictionary": other} if numbers else {}  # logits take a quarter less
    parquet.write_table(table, content, compression="zstd", compression_level=19, **split)
    return content.getvalue()
