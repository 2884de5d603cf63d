"""Small real runs: configs as the command composes them, one sweep a session that many tests look at, copied stores."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hostile import copied, obey_nothing, private  # noqa: F401 - fixtures
from refusals import Printed

from harness import redact, tags
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
    "measure.rounds=1",
    "measure.repeats=5",
    "measure.retries=0",
    "report=false",
]
"""A run that takes a worker a few seconds."""

MODELS = ("base", "enhanced")
"""Models of the session's sweep."""


@pytest.fixture(scope="session", autouse=True)
def _quiet_datasets(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Loaded data sets are cached in the session's own folder, as torch works on one thread."""
    os.environ["HF_DATASETS_CACHE"] = str(tmp_path_factory.mktemp("datasets"))
    if "datasets" in sys.modules:
        sys.modules["datasets"].config.HF_DATASETS_CACHE = os.environ["HF_DATASETS_CACHE"]


@pytest.fixture(autouse=True)
def _secrets_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command learns secrets for as long as its process lives; here many commands run in one process."""
    monkeypatch.setattr(redact, "_secrets", set())


@pytest.fixture(scope="session")
def small() -> list[str]:
    return list(SMALL)


@pytest.fixture
def start_harness(start_process: Callable[..., subprocess.Popen]) -> Callable[..., subprocess.Popen]:
    """Starts `python -m harness` with these arguments in an empty working directory."""
    return lambda *arguments: start_process("-m", "harness", *arguments)


@pytest.fixture
def run_module(run_python: Callable[..., subprocess.CompletedProcess]) -> Callable[..., subprocess.CompletedProcess]:
    """Runs `python -m MODULE` to its end in an empty working directory."""
    return lambda module, *arguments: run_python("-m", module, *arguments)


@pytest.fixture
def run_harness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess]:
    """Runs the command in this process, in an empty working directory; it trains and measures in others as ever.

    It spares the imports of a new process, which take longer than most runs.
    """
    from harness.__main__ import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        monkeypatch.setattr(sys, "argv", ["harness"])
        capsys.readouterr()
        return subprocess.CompletedProcess(arguments, main(list(arguments)), *capsys.readouterr())

    return run


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path) -> Callable[..., Printed]:
    """Runs a command that is to be refused in this process, in an empty folder; no run may begin."""
    from harness.__main__ import main
    from harness.study import runner as process

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process, "_start_workers", lambda run, command: pytest.fail(f"{run.label} was run"))

    def command(*arguments: str) -> Printed:
        monkeypatch.setattr(sys, "argv", ["harness"])
        capsys.readouterr()  # what fixtures have printed
        code = main([*arguments, f"output={tmp_path / 'out'}"])
        out, err = capsys.readouterr()
        files = [path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file()]
        return Printed(code, out, err, [str(path) for path in files if path.suffix != ".lock" and path.parts[0] != ".hydra"])

    return command


@dataclass(frozen=True)
class Sweep:
    """What one command left."""

    output: Path
    arguments: list[str]
    text: str

    def folder(self, model: str) -> Path:
        """The run of this model."""
        (folder,) = (self.output / "sweep").glob(f"{model}-*")
        return folder


@pytest.fixture(scope="session")
def sweep(once: Callable, store_template: Path) -> Sweep:
    """A finished sweep of several models on one task; nothing may change it."""
    common = ["-m", *SMALL, "measure.rounds=2", "study=sweep", "seed=1", f"model={','.join(MODELS)}"]

    def make(folder: Path) -> None:
        from harness.__main__ import main

        (folder / "out").mkdir()
        shutil.copy(store_template, folder / "out")
        text = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            patch.chdir(folder)
            patch.setattr(sys, "argv", ["harness"])
            code = main([*common, f"output={folder / 'out'}"])
        assert code == 0, text.getvalue()
        (folder / "printed.txt").write_text(text.getvalue())

    folder = once("sweep", make)
    output = folder / "out"
    return Sweep(output, [*common, f"output={output}"], (folder / "printed.txt").read_text())


@pytest.fixture(scope="session")
def composed() -> dict[tuple[str, ...], list[RunConfig]]:
    """Command lines that this session has composed already."""
    return {}


@pytest.fixture
def compose(
    monkeypatch: pytest.MonkeyPatch, composed: dict[tuple[str, ...], list[RunConfig]]
) -> Callable[..., list[RunConfig]]:
    """The runs that a command line names, composed as the command does it and not run."""
    from harness.config import compose as composition

    monkeypatch.setattr(sys, "argv", ["harness"])

    def named(*arguments: str) -> list[RunConfig]:
        outputs = [argument for argument in arguments if argument.startswith("output=")]  # new in every test
        others = tuple(argument for argument in arguments if argument not in outputs)
        if others not in composed:
            found: list[RunConfig] = []
            composition.main(list(others), lambda configs: found.extend(configs) or 0)
            composed[others] = found
        changes = {"output": outputs[-1].partition("=")[2]} if outputs else {}
        return [replace(config, **changes) for config in deepcopy(composed[others])]

    return named


@pytest.fixture(scope="session")
def launch_of() -> Callable:
    """The record of a launch with these milliseconds, of a round, in which everything else has a fixed value."""
    from harness.measure.records import Latency, Launch, Throughput, WarmUp

    def launch(number: int, raw_ms: list[float], seconds: float = 2.0, joules: float | None = None, **changes) -> Launch:
        made = Launch(
            time=1000 + number,
            import_s=1.0,
            build_s=0.1 * (number + 1),
            compile_s=None,
            first_call_ms=9.0,
            latency=Latency(raw_ms, [4.0, 5.0, 6.0], WarmUp(20, True, [2.0] * 20)),
            throughput=Throughput(seconds, 300, 400, 10, joules, [4.0, 6.0]),
            points=[],
            foreign_cpus=0.25,
            load_average=1.5,
            cpu_mhz=None,
            gpu_processes=None,
            peak_flops_per_s=1e9 if number == 0 else None,
            round=number,
        )
        return replace(made, **changes)

    return launch


@pytest.fixture
def small_config(compose: Callable[..., list[RunConfig]], tmp_path: Path) -> RunConfig:
    """One run on the task bag."""
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
    """The MLflow runs of a study, oldest first, without the one that holds its plan and report."""
    from harness.plugins.trackers.mlflow_store import MlflowClient

    def runs(output: Path, study: str) -> list:
        client = MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
        experiment = client.get_experiment_by_name(study)
        if experiment is None:
            return []
        found = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
        for run in found:
            run.data.tags.update(tags.plain(run.data.tags))
        return [run for run in found if run.data.tags.get(tags.ROLE) != tags.ROLE_STUDY]

    return runs


@pytest.fixture
def curve_of() -> Callable[..., list[tuple[int, float]]]:
    """Every point of a run's curve, of its loss unless another is named: step and value."""
    from harness.plugins.trackers.mlflow_store import MlflowClient

    def curve(output: Path, run_id: str, key: str = "finetune/loss") -> list[tuple[int, float]]:
        client = MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
        return [(point.step, point.value) for point in client.get_metric_history(run_id, key)]

    return curve
