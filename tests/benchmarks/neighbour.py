"""60 small training steps alone and beside one spinning process, for several settings of OpenMP.

A child for every setting, with the environment of that setting, trains whenever it is asked to, so that alone and beside are
measured in turns. The value is the time beside the spinning process over the time alone.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rounds

HERE = Path(__file__).resolve().parent
THREADS = 2
OPENMP = ("OMP_", "GOMP_", "KMP_", "MKL_")
"""Beginnings of the names of variables that OpenMP and MKL read."""

AS_LONG = "x as long"
SPIN = "from harness import processes; processes.end_with_parent()\nwhile True: pass"


def measure(quick: bool) -> list[dict[str, Any]]:
    """For every setting: time beside a spinning process over time alone, and both times over those of the default."""
    children = {name: _start(environment) for name, environment in settings().items()}
    try:
        for child in children.values():
            _seconds(child)
        values = rounds.interleaved(_sides(children), 3 if quick else 15)
    finally:
        for child in children.values():
            child.kill()
            child.wait()
    rows = []
    for name in children:
        alone, beside = values[f"{name}, alone"], values[f"{name}, beside"]
        rows.append(_longer(f"{name}: beside a spinning process / alone", beside, alone))
        if name != "default":
            for place in ("alone", "beside"):
                pair = values[f"{name}, {place}"], values[f"default, {place}"]
                rows.append(_longer(f"{name} / default, {place}", *pair))
    project = values["passive, beside"], values["default, alone"]  # as `harness.study.supervisor` starts the workers of runs
    rows.append(_longer("project: beside a spinning process / alone", *project))
    return rows + [rounds.row(name, one, "s") for name, one in values.items()]


def settings() -> dict[str, dict[str, str]]:
    """Name -> environment of a child."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(OPENMP)}
    threads = {"OMP_NUM_THREADS": str(THREADS)}
    return {"default": plain | threads, "passive": plain | threads | {"OMP_WAIT_POLICY": "PASSIVE"}}


def _start(environment: dict[str, str]) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(HERE / "neighbour_child.py")],
        env=environment | {"PYTHONPATH": _path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _path() -> str:
    return os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])


def _seconds(child: subprocess.Popen) -> float:
    print("go", file=child.stdin, flush=True)
    return float(child.stdout.readline())


def _sides(children: dict[str, subprocess.Popen]) -> dict[str, rounds.Side]:
    def beside(child: subprocess.Popen) -> float:
        with spinning():
            return _seconds(child)

    sides: dict[str, rounds.Side] = {}
    for name, child in children.items():
        sides[f"{name}, alone"] = lambda number, child=child: _seconds(child)
        sides[f"{name}, beside"] = lambda number, child=child: beside(child)
    return sides


@contextmanager
def spinning() -> Iterator[None]:
    """One process that computes without a pause."""
    process = subprocess.Popen([sys.executable, "-c", SPIN], env=os.environ | {"PYTHONPATH": _path()})
    time.sleep(0.3)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _longer(name: str, one: list[float], other: list[float]) -> dict[str, Any]:
    return rounds.times_as_fast(one, other, name) | {"unit": AS_LONG}
