"""Times of benchmarks: sessions of pytest-benchmark, and results of asv (airspeed velocity), by the median of their rounds.

pytest-benchmark: a test is an arm, its module the task, and a session, which is a file, a seed. asv: a commit is an arm, a
benchmark the task. Where flags say what an arm is, such as `columns=arm=params.NAME` or `arm=commit`, the task is a test or
benchmark with its other parameters.
"""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from harness import paths, records
from harness.plugins.judge.results import Asked, Results
from harness.plugins.results import folders
from harness.plugins.results.columns import METRIC, PREFIX, Row, of_runs, stated

COMMIT = 8
"""Digits of a commit that name it."""

UNITS = {"seconds": "s"}
"""Unit of asv -> ours, where that is another."""


class Stats(msgspec.Struct):
    """Statistics of a test, in seconds. Its rounds may be millions, and are not read."""

    median: float


class Test(msgspec.Struct):
    """A test of a session."""

    fullname: str
    stats: Stats
    params: dict[str, Any] | None = None


class Session(msgspec.Struct):
    """A file of pytest-benchmark."""

    benchmarks: list[Test]
    commit_info: dict[str, Any]


def of_sessions(path: Path, asked: Asked) -> pd.DataFrame | None:
    """One row per test and session; None where no file is of pytest-benchmark."""
    rows = []
    for file, _ in folders.found(path, r".*\.json", r'\s*\{\s*"machine_info"'):
        session = records.decoded(paths.read(file, paths.LARGEST_LOG), Session, file)
        of_file = {"seed": file.stem, "commit": str(session.commit_info["id"])[:COMMIT], "unit": "s", "direction": "lower"}
        for test in session.benchmarks:
            module, _, name = test.fullname.partition("::")
            case = _case(name.partition("[")[0], test.params or {}, {"arm": name, "task": module}, file, asked)
            rows.append({**of_file, METRIC + "time": test.stats.median, **case})
    return of_runs(rows, asked, path, every=True)


def of_asv(path: Path, asked: Asked) -> pd.DataFrame | None:
    """One row per benchmark, choice of its parameters, and commit; None where no file is of asv.

    What failed (null) and what was skipped (NaN) has no row.
    """
    rows = []
    for file, _ in folders.found(path, r".*/[0-9a-f]{8}-[^/]+\.json", r'\s*\{\s*"commit_hash"'):
        measured, declared = (paths.read_object(one) for one in (file, file.parents[1] / "benchmarks.json"))
        commit = measured["commit_hash"][:COMMIT]
        of_file = {"commit": commit, "environment": measured["env_name"], "machine": file.parent.name}
        for name, values in measured["results"].items():
            of, benchmark = dict(zip(measured["result_columns"], values, strict=False)), declared[name]
            kind, unit = benchmark["type"], UNITS.get(benchmark["unit"], benchmark["unit"])
            said, metric = ({"unit": unit}, name) if kind == "track" else ({"unit": unit, "direction": "lower"}, kind)
            for value, choice in zip(of["result"] or (), itertools.product(*of["params"]), strict=False):
                if value is not None and math.isfinite(value):
                    case = _case(name, dict(zip(benchmark["param_names"], choice, strict=True)), {"arm": commit}, file, asked)
                    rows.append({**of_file, **said, METRIC + metric: float(value), **case})
    return of_runs(rows, asked, path, every=True)


def _case(name: str, params: Mapping[str, Any], default: Row, file: Path, asked: Asked) -> Row:
    """What a measurement is of: the `default` where no flag says the arm. The task has the parameters that no flag names."""
    texts = {f"params.{key}": str(value).strip("'") for key, value in params.items()}
    others = [f"{PREFIX.sub('', key)}={text}" for key, text in texts.items() if key not in asked.columns.values()]
    row, known = {"task": f"{name}({', '.join(others)})" if others else name, **texts}, stated(file, asked)
    return row | ({} if "arm" in {*known, *asked.columns} else default) | known


PYTEST_BENCHMARK, ASV = Results("pytest-benchmark", of_sessions), Results("asv", of_asv)
