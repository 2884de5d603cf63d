"""What every test runs under: no network, one thread, processes that end with the test, an empty store."""

import contextlib
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from child_processes import started
from filelock import FileLock

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["WANDB_ERROR_REPORTING"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # several test processes share the CPUs
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("HYDRA_FULL_ERROR", None)  # or errors would have tracebacks
os.environ.pop("COLUMNS", None)  # or tables would be cut to the width of the terminal that the suite runs in
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a suite in the background, whose commands would ignore Ctrl-C, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Imports all test modules without garbage collection, a third of that time; it never searches what they leave."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _close_stores() -> Iterator[None]:
    """MLflow keeps its connections to every store that a process ever opened: thousands of tests would run out of files."""
    yield
    if store := sys.modules.get("mlflow.store.tracking.sqlalchemy_store"):
        for engine in store.SqlAlchemyStore._engine_map.values():
            engine.dispose()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts `python ARGUMENT ...` in an empty working directory, with pipes; it ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, **options: object) -> subprocess.Popen:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            defaults = {"cwd": tmp_path, "env": environment(), **pipes}
            return stack.enter_context(started([sys.executable, *arguments], **defaults | options))

        yield start


@pytest.fixture
def run_python(start_process: Callable[..., subprocess.Popen]) -> Callable[..., subprocess.CompletedProcess]:
    """Runs `python ARGUMENT ...` to its end in an empty working directory."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess:
        process = start_process(*arguments, **options)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of one pytest-xdist session have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def once(shared_folder: Path) -> Callable[[str, Callable[[Path], None]], Path]:
    """A folder of this name, made by the first test process that needs it; the others wait for it."""

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder, done = shared_folder / name, shared_folder / f"{name}.done"
        with FileLock(shared_folder / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # what a failed attempt left
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def store_template(once: Callable) -> Path:
    """The file of an empty tracking store: making its schema takes seconds, a copy none."""

    def make(folder: Path) -> None:
        from harness.plugins.trackers.mlflow_store import _create_database

        _create_database(f"sqlite:///{folder / 'made.db'}")
        made, copied = (contextlib.closing(sqlite3.connect(folder / name)) for name in ("made.db", "mlflow.db"))
        with made as source, copied as target:
            source.backup(target)  # one file, with what open connections hold back

    return once("store_template", make) / "mlflow.db"


@pytest.fixture
def output(store_template: Path, tmp_path: Path) -> Path:
    """An output folder with an empty tracking store in it."""
    (tmp_path / "out").mkdir()
    shutil.copy(store_template, tmp_path / "out")
    return tmp_path / "out"
