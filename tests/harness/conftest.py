"""Small real cells: configs as the command composes them, one sweep a session that many tests look at, copied stores."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from filelock import FileLock

from harness.config.schema import RunConfig

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "scale=tiny",
    "task=bag",
    "task.grammar.train_examples=100",
    "task.grammar.validation_examples=60",
    "task.max_length=32",
    "finetune.epochs=4",
    "finetune.max_steps=12",
    "hardware.threads=1",
    "measure.rounds=2",
    "measure.repeats=5",
    "measure.retries=0",
]
"""A cell that takes a worker a few seconds."""

MODELS = ("base", "enhanced")
"""Models of the session's sweep."""


@pytest.fixture(scope="session", autouse=True)
def _quiet_datasets(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Loaded data sets are cached in the session's own folder, as torch works on one thread."""
    os.environ["HF_DATASETS_CACHE"] = str(tmp_path_factory.mktemp("datasets"))
    if "datasets" in sys.modules:
        sys.modules["datasets"].config.HF_DATASETS_CACHE = os.environ["HF_DATASETS_CACHE"]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of one pytest-xdist session have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(folder: Path, make: Callable[[], None]) -> None:
    """Calls `make` in the first test process that comes here; the others wait for it."""
    done = folder.with_suffix(".done")
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            make()
            done.touch()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def start(module: str, *arguments: str, cwd: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", module, *arguments]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=environment(), text=True, **pipes)


def run(module: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    process = start(module, *arguments, cwd=cwd)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="session")
def small() -> list[str]:
    return list(SMALL)


@pytest.fixture
def start_harness(tmp_path: Path) -> Callable[..., subprocess.Popen]:
    """Starts `python -m harness` with these arguments in an empty working directory."""
    return lambda *arguments: start("harness", *arguments, cwd=tmp_path)


@pytest.fixture
def run_module(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs `python -m MODULE` to its end in an empty working directory."""
    return lambda module, *arguments: run(module, *arguments, cwd=tmp_path)


@pytest.fixture(scope="session")
def store_template(shared_folder: Path) -> Path:
    """An empty tracking store: making its schema takes seconds, a copy none."""
    folder = shared_folder / "store_template"

    def make() -> None:
        code = f"from harness.tracking.mlflow_store import Tracker; Tracker(None, {str(folder)!r}, 'template')"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=shared_folder, env=environment())

    once(folder, make)
    return folder / "mlflow.db"


def copy_store(template: Path, output: Path) -> Path:
    output.mkdir(parents=True)
    source, target = sqlite3.connect(template), sqlite3.connect(output / "mlflow.db")
    source.backup(target)
    source.close()
    target.close()
    return output


@pytest.fixture
def output(store_template: Path, tmp_path: Path) -> Path:
    """An output folder with an empty tracking store in it."""
    return copy_store(store_template, tmp_path / "out")


@dataclass(frozen=True)
class Sweep:
    """What one command left."""

    output: Path
    arguments: list[str]
    text: str

    def folder(self, model: str) -> Path:
        """The cell of this model."""
        (folder,) = (self.output / "sweep").glob(f"{model}-*")
        return folder


@pytest.fixture(scope="session")
def sweep(shared_folder: Path, store_template: Path) -> Sweep:
    """A finished sweep of several models on one task; nothing may change it."""
    output = shared_folder / "sweep"
    arguments = ["-m", *SMALL, "study=sweep", "seed=1", f"model={','.join(MODELS)}", f"output={output}"]
    log = shared_folder / "sweep.txt"

    def make() -> None:
        copy_store(store_template, output)
        done = run("harness", *arguments, cwd=shared_folder)
        assert done.returncode == 0, done.stdout + done.stderr
        log.write_text(done.stdout + done.stderr)

    once(output, make)
    return Sweep(output, arguments, log.read_text())


@pytest.fixture(scope="session")
def composed() -> dict[tuple[str, ...], list[RunConfig]]:
    """Command lines that this session has composed already."""
    return {}


@pytest.fixture
def compose(
    monkeypatch: pytest.MonkeyPatch, composed: dict[tuple[str, ...], list[RunConfig]]
) -> Callable[..., list[RunConfig]]:
    """The cells that a command line names, composed as the command does it and not run."""
    from harness.config import compose as composition

    monkeypatch.setattr(sys, "argv", ["harness"])

    def cells(*arguments: str) -> list[RunConfig]:
        if arguments not in composed:
            found: list[RunConfig] = []
            composition.main(list(arguments), lambda configs: found.extend(configs) or 0)
            composed[arguments] = found
        return deepcopy(composed[arguments])

    return cells


@pytest.fixture
def small_config(compose: Callable[..., list[RunConfig]], tmp_path: Path) -> RunConfig:
    """One cell on the task bag."""
    (config,) = compose(*SMALL)
    return replace(config, output=str(tmp_path / "out"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data sets beside the checkout, where there are any."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real data sets are not there: expected ../shared/data beside the checkout")
    return folder


@pytest.fixture
def runs_of() -> Callable[[Path, str], list]:
    """The MLflow runs of a study, oldest first."""
    from harness.tracking.mlflow_store import MlflowClient

    def runs(output: Path, study: str) -> list:
        client = MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
        experiment = client.get_experiment_by_name(study)
        return client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"]) if experiment else []

    return runs


@pytest.fixture
def curve_of() -> Callable[..., list[tuple[int, float]]]:
    """Every point of a run's curve, of its loss unless another is named: step and value."""
    from harness.tracking.mlflow_store import MlflowClient

    def curve(output: Path, run_id: str, key: str = "finetune/loss") -> list[tuple[int, float]]:
        client = MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
        return [(point.step, point.value) for point in client.get_metric_history(run_id, key)]

    return curve
