"""A tracking store of many runs in seconds, as a sweep of many variants over tasks and seeds would leave it.

    python tests/benchmarks/generated_study.py DIR [--arms 40] [--tasks 5] [--seeds 5]

Settings are those that the harness composes, and the first run is sent by the harness itself. The rows of all others are
written directly, as MLflow takes 0.2 s a run; the first run is also built that way, and must come out as the harness sent it.
Values are random, from a fixed seed, and mean nothing.
"""

import argparse
import functools
import random
import sqlite3
import statistics
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import metrics, paths, records, tags
from harness.config import compose
from harness.config.schema import RunConfig
from harness.plugins.trackers import pages
from harness.plugins.trackers.mlflow_store import Tracker
from harness.study.identity import Identity, Inputs
from harness.tracking import run_log

STUDY = "generated"
TASKS = ("bag", "order", "distance", "pairs", "nesting", "counting", "copying", "sorting")
START = 1_700_000_000_000
LIFTED = ["model.intermediate_size", "model_name"]
LAUNCH = {"latency_ms": 9.0, "tokens_per_s": 14_000.0, "reference_ms": 6.0, "load_average": 1.0, "cpu_mhz": 2600.0}
CHANGED_BY_MLFLOW = ("mlflow.harness_process", "mlflow.runName", "mlflow.note.content")
"""Tags that no record has."""


@dataclass(frozen=True)
class Shape:
    """How much is generated; `sessions` time the arms in turn, each with the baseline's A/A replicate."""

    arms: int = 40
    tasks: int = 5
    seeds: int = 5
    rounds: int = 10
    sessions: int = 2
    steps: int = 100
    evaluations: int = 5


@dataclass
class Generated:
    """One run: its record, points of its curves, and its results, as the harness keeps them in the run's folder."""

    record: dict[str, Any]
    points: list[dict[str, Any]]
    results: dict[str, float]
    steps: dict[str, int]

    @property
    def ended(self) -> int:
        return self.record["started"] + 60_000


@functools.cache
def composed() -> RunConfig:
    """The config of one run with the defaults of the command line."""
    found: list[RunConfig] = []
    compose.main([], lambda configs: found.extend(configs) or 0)
    return found[0]


def runs(shape: Shape) -> Iterator[Generated]:
    """All runs, oldest first; seeds of an arm share the launches of its session."""
    rng = random.Random(0)
    inputs = Inputs(data="0" * 16, content={"rows": "0" * 16})
    described = Identity(composed(), inputs).described(LIFTED)
    count = 0
    for task in TASKS[: shape.tasks]:
        for arm in range(shape.arms):
            timed = launches(rng, shape.rounds, arm)
            for seed in range(shape.seeds):
                count += 1
                yield finished(rng, shape, described, (task, arm, seed, count), timed)
        for session in range(shape.sessions):
            count += 1
            yield replicate(rng, shape, described, (task, session, count))


def launches(rng: random.Random, rounds: int, arm: int) -> dict[str, list[float]]:
    """Metric of a launch -> its value in every round."""
    slower = 1 + arm / 50
    scale = {"latency_ms": slower, "tokens_per_s": 1 / slower}
    values = {
        f"{metrics.LAUNCHES}{name}": [usual * scale.get(name, 1.0) * rng.gauss(1, 0.02) for _ in range(rounds)]
        for name, usual in LAUNCH.items()
    }
    return values | {f"{metrics.LAUNCHES}foreign_cpus": [abs(rng.gauss(0, 0.05)) for _ in range(rounds)]}


def record(described: dict[str, Any], task: str, arm: int, seed: int, count: int, session: int) -> dict[str, Any]:
    """As `harness.study.run_folder.record` makes it."""
    name = "base" if arm == 0 else f"variant{arm}"
    of_run = {tags.STUDY: STUDY, tags.ARM: name, tags.MODEL: name, tags.TASK: task, tags.SEED: str(seed)}
    of_run |= {tags.FINGERPRINT: f"{count:064x}", tags.SESSION: f"20231114-221320-{session:04x}"}
    settings = {"study": STUDY, "arm": name, "model_name": name, "task.name": task, "seed": str(seed)}
    settings |= {"model.intermediate_size": str(1024 + 16 * arm), "facts.rows": f"{TASKS.index(task):016x}"}
    return {
        "attempt": f"{count:032x}",
        "name": f"{name}, mini, {task}, seed {seed}",
        "started": START + 60_000 * count,
        "inputs": {},
        "tags": described["tags"] | of_run,
        "parameters": described["parameters"] | settings,
    }


def finished(
    rng: random.Random, shape: Shape, described: dict[str, Any], place: tuple[str, int, int, int], timed: dict[str, list[float]]
) -> Generated:
    """A run that was timed in a session, trained and evaluated."""
    task, arm, seed, count = place
    made = record(described, task, arm, seed, count, arm % shape.sessions)
    points = [*_of_launches(timed, made["started"]), *_of_training(rng, shape, arm, made["started"])]
    results = {name: rng.uniform(0.5, 1) * (1e8 if name.endswith("_bytes") else 1) for name in RESULTS} | _counted(arm)
    results |= {"eval/score": 0.8 - arm / 200 + rng.gauss(0, 0.01), "eval/majority_score": 0.51, "eval/examples": 500.0}
    results["eval/accuracy"] = results["eval/score"]
    results |= _summed_up(timed)
    results |= {key: shape.steps * cost * (1 + arm / 100) for key, cost in COSTS.items()}
    return Generated(made, points, results, dict.fromkeys(COSTS, shape.steps) if shape.evaluations else {})


def replicate(rng: random.Random, shape: Shape, described: dict[str, Any], place: tuple[str, int, int]) -> Generated:
    """A second timing of the baseline in a session."""
    task, session, count = place
    made = record(described, task, 0, 0, count, session)
    made["tags"] |= {tags.REPLICATE: "true", tags.ROLE: tags.ROLE_REPLICATE}
    timed = launches(rng, shape.rounds, 0)
    return Generated(made, _of_launches(timed, made["started"]), _summed_up(timed), {})


COSTS = {"finetune/tokens": 3000.0, "finetune/duration_s": 0.4, "finetune/flops": 4e10}
"""Cumulative curve -> what one step costs."""

RESULTS = [
    *("finetune/mfu", "finetune/padded_tokens_per_s", "finetune/padding_share", "finetune/samples_per_s"),
    *("finetune/tokens_per_s", "finetune/peak_memory_bytes", "finetune/sampled_peak_memory_bytes", "eval/loss"),
    *("hardware/peak_flops_per_s", "inference/peak_flops_per_s", "inference/mfu", "inference/padded_tokens_per_s"),
    *("inference/padding_share", "inference/peak_memory_bytes", "inference/sampled_peak_memory_bytes"),
    *("inference/samples_per_s", "setup/build_s", "setup/import_s", "inference/first_call_ms"),
]
"""Further results of a run, of any value."""


def _counted(arm: int) -> dict[str, float]:
    parts = {name: 10_000.0 * (place + 1) + 100 * arm for place, name in enumerate(metrics.PARAMETER_COMPONENTS)}
    values = {f"{phase}/params_component_{name}": count for phase in ("model", "published") for name, count in parts.items()}
    values |= {f"{phase}/params_total": sum(parts.values()) for phase in ("model", "published")}
    sizes = ("params_trainable", "params_embedding", "params_encoder", "params_head", "params_effective", "weights_bytes")
    values |= {f"model/{name}": sum(parts.values()) for name in (*sizes, "bytes_forward")}
    return values | {"model/flops_forward": 1e9 + 1e6 * arm, "model/flops_train_step": 1e11, "model/arithmetic_intensity": 15.0}


def _of_launches(timed: dict[str, list[float]], started: int) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": value, "step": step, "time": started + step}
        for key, values in timed.items()
        for step, value in enumerate(values)
    ]


def _summed_up(timed: dict[str, list[float]]) -> dict[str, float]:
    latency, rate = (statistics.median(timed[name]) for name in (metrics.LATENCY, metrics.THROUGHPUT))
    scales = {"min": 0.9, "p50": 1.0, "p50_low": 0.98, "p50_high": 1.02, "p90": 1.1, "p99": 1.2}
    return {f"inference/latency_ms_{name}": scale * latency for name, scale in scales.items()} | {
        "inference/tokens_per_s": rate
    }


def _of_training(rng: random.Random, shape: Shape, arm: int, started: int) -> list[dict[str, Any]]:
    curves = {"finetune/loss": {step: 0.7 / (1 + step / 20) + rng.gauss(0, 0.02) for step in range(1, shape.steps + 1)}}
    evaluated = [shape.steps * (index + 1) // shape.evaluations for index in range(shape.evaluations)]
    curves["tune/score"] = {step: 0.5 + 0.3 * step / shape.steps - arm / 400 + rng.gauss(0, 0.01) for step in evaluated}
    curves |= {key: {step: step * cost * (1 + arm / 100) for step in evaluated} for key, cost in COSTS.items()}
    return [
        {"key": key, "value": value, "step": step, "time": started + 1000 + step}
        for key, curve in curves.items()
        for step, value in curve.items()
    ]


def send(run: Generated, output: Path) -> str:
    """Sends the run as the harness does; returns its id."""
    tracker = Tracker(None, str(output), STUDY)
    run_id = tracker.begin(run.record)
    tracker.curves(run.record, run.points)
    with tempfile.TemporaryDirectory() as folder:
        result = {"status": "finished", "time": run.ended, "metrics": run.results, "steps": run.steps}
        records.write(Path(folder, run_log.RECORD), run.record)
        records.write(Path(folder, "result.json"), result)
        tracker.end(run.record, Path(folder), "finished")
    return run_id


Rows = dict[str, list[tuple[Any, ...]]]
"""Table -> its rows, with the columns of COLUMNS."""

COLUMNS = {
    "tags": "key, value, run_uuid",
    "params": "key, value, run_uuid",
    "metrics": "key, value, timestamp, run_uuid, step, is_nan",
    "latest_metrics": "key, value, timestamp, step, is_nan, run_uuid",
}


def rows_of(run: Generated, run_id: str) -> Rows:
    """What MLflow keeps of a run that was sent."""
    points = [(point["key"], point["value"], point["time"], point["step"]) for point in run.points]
    main, details = pages.main_and_details(run.results, run.steps, run.record["tags"]["task"])
    last = {key: value for key, value, _, _ in sorted(points, key=lambda point: point[3])}
    points += [(key, value, run.ended, run.steps.get(key, 0)) for key, value in main.items() if last.get(key) != value]
    latest: dict[str, tuple[Any, ...]] = {}
    for point in points:
        if point[0] not in latest or point[3:1:-1] >= latest[point[0]][3:1:-1]:  # by step, then by time
            latest[point[0]] = point
    known = run.record["tags"] | {"attempt": run.record["attempt"], "status": "finished"}
    known |= tags.packed(tags.PARAMETERS, run.record["parameters"]) | tags.packed(tags.METRICS, details)
    return {
        "tags": [(key, value, run_id) for key, value in tags.in_store(known).items()],
        "params": [(key, value, run_id) for key, value in pages.parameters(run.record).items()],
        "metrics": [(key, value, time, run_id, step, 0) for key, value, time, step in points],
        "latest_metrics": [(key, value, time, step, 0, run_id) for key, value, time, step in latest.values()],
    }


def check(database: sqlite3.Connection, run: Generated, run_id: str) -> None:
    """RuntimeError where the rows of a run that the harness sent are others than `rows_of` makes."""
    for table, made in rows_of(run, run_id).items():
        sent = set(database.execute(f"select {COLUMNS[table]} from {table} where run_uuid = ?", (run_id,)))
        sent = {row for row in sent if row[0] not in CHANGED_BY_MLFLOW}
        if sent != set(made):
            raise RuntimeError(f"generated rows of {table} are not those that MLflow writes: {sorted(sent ^ set(made))[:4]}")


def insert(database: sqlite3.Connection, template: dict[str, Any], run: Generated) -> None:
    """Adds the run, as a copy of the first run's row with its own id, name and times."""
    own = {"run_uuid": uuid.UUID(int=int(run.record["attempt"], 16)).hex, "name": run.record["name"]}
    row = template | own | {"start_time": run.record["started"], "end_time": run.ended}
    marks = ", ".join("?" * len(row))
    database.execute(f"insert into runs ({', '.join(row)}) values ({marks})", list(row.values()))
    for table, rows in rows_of(run, own["run_uuid"]).items():
        marks = ", ".join("?" * len(rows[0]))
        database.executemany(f"insert into {table} ({COLUMNS[table]}) values ({marks})", rows)


def generate(output: Path, shape: Shape) -> str:
    """Address of the new store in this folder; RuntimeError where MLflow's rows are no longer those written here."""
    uri = paths.database_uri(str(output))
    first, *others = runs(shape)
    run_id = send(first, output)
    with sqlite3.connect(uri.removeprefix("sqlite:///")) as database:
        check(database, first, run_id)
        cursor = database.execute("select * from runs where run_uuid = ?", (run_id,))
        template = dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))
        for run in others:
            insert(database, template, run)
    database.close()
    return uri


def main() -> None:
    """Prints the address of the store."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", metavar="DIR", type=Path)
    for name in ("arms", "tasks", "seeds"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Shape, name))
    options = parser.parse_args()
    print(generate(options.output, Shape(options.arms, options.tasks, options.seeds)))


if __name__ == "__main__":
    main()
