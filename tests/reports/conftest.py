"""Small real tracking stores: one empty template a session, copied for every test that logs runs."""

import json
import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reports.store import Run

PARTS = {"token_embedding": 1_000_000, "position_embedding": 16_384, "type_embedding": 256, "embedding_norm": 256}
PARTS |= {"layers": 400_000, "pooler": 16_512, "head": 258}
PRETRAINING = {
    "pretrain.tokens": "20000000.0",
    "pretrain.steps": "None",
    "pretrain.length": "128",
    "pretrain.eval_sequences": "256",
}
PRETRAINING |= {"corpus.name": "wikitext"}
THIRD_PARTY = "ignore:The ``noload`` loader strategy"  # SQLAlchemy's, about MLflow's own code


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(THIRD_PARTY))


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """Builds one finished run in memory; later ones are newer."""
    made = []

    def make(variant: str = "base", seed: int = 0, values: dict | None = None, **tags: str) -> Run:
        made.append(variant)
        identity = {"variant": variant, "scale": "tiny", "task": "sst2", "seed": str(seed), "protocol": "p1"}
        tags = identity | {"status": "finished", "git_commit": "abc", "git_dirty": "false", "hardware": "1 CPU"} | tags
        params = {"task.headline": "accuracy", "seed": str(seed)}
        return Run(f"run{len(made)}", f"{variant}-{seed}", 1000 * len(made), tags, params, values or {})

    return make


def launches_of(times: list[float], reference: list[float] | None = None, cpus: float = 0.0) -> dict[str, dict[int, float]]:
    """Rounds of one session: latencies in ms, 128 tokens a call, beside a reference workload of 2 ms."""
    beside = [2.0] * len(times) if reference is None else reference
    rates = [128_000 / time for time in times]
    seen = {"latency_ms": times, "tokens_per_s": rates, "reference_ms": beside, "load_average": [1.0] * len(times)}
    seen |= {"foreign_cpus": [cpus] * len(times)}
    return {f"timing/{name}": dict(enumerate(values)) for name, values in seen.items()}


def summed_up(launches: dict[str, dict[int, float]]) -> dict[str, float]:
    """What a run keeps of its launches."""
    latency, rate = (statistics.median(launches[f"timing/{name}"].values()) for name in ("latency_ms", "tokens_per_s"))
    ends = {name: list(values.values())[-1] for name, values in launches.items()}
    return ends | {"inference/latency_ms_p50": latency, "inference/tokens_per_s": rate, "inference/latency_ms_p90": latency}


@pytest.fixture
def timed(make_run: Callable[..., Run]) -> Callable[..., Run]:
    """Builds one finished run with the launches of session s1; with twin="true" one that repeats a variant."""

    def make(variant: str, times: list[float], seed: int = 0, values: dict | None = None, **more: object) -> Run:
        launches = launches_of(times, more.pop("reference", None), more.pop("cpus", 0.0))
        run = make_run(variant, seed, summed_up(launches) | (values or {}), **{"session": "s1"} | more)
        return replace(run, launches=launches)

    return make


@pytest.fixture
def pretrained(make_run: Callable[..., Run]) -> Callable[..., Run]:
    """Builds one finished pretraining in memory, named `model+objective`."""

    def make(variant: str = "base+mlm", seed: int = 0, seen: dict | None = None, **tags: str) -> Run:
        model, _, objective = variant.partition("+")
        run = make_run(
            variant, seed, pretraining_values() if seen is None else seen, **{"task": "pretraining", "model": model} | tags
        )
        run.params.update(PRETRAINING | {"pretrain.objective": objective})
        return run

    return make


class Store:
    """A real SQLite tracking store that tests log runs into."""

    def __init__(self, folder: Path, template: Path):
        from mlflow import MlflowClient

        self.path = folder / "multirun" / "mlflow.db"
        self.path.parent.mkdir()
        shutil.copy(template, self.path)
        self.uri = f"sqlite:///{self.path}"
        self.client = MlflowClient(self.uri)
        self.logged = 0

    def log(self, variant: str, seed: int = 0, values: dict | None = None, *, study: str = "before_after", **tags: str) -> str:
        """One run with its tags, parameters, metrics and a short loss curve; gives the run's id."""
        from mlflow.entities import Metric, Param

        self.logged += 1
        known = self.client.get_experiment_by_name(study)
        number = known.experiment_id if known else self.client.create_experiment(study, (self.path.parent / "art").as_uri())
        identity = {"study": study, "variant": variant, "model": variant, "scale": "tiny", "enhancements": "", "task": "sst2"}
        identity |= {"seed": str(seed), "protocol": "p1", "protocol_facts": json.dumps({"finetune.epochs": 1})}
        identity |= {
            "status": "finished",
            "git_commit": "0123456789abcdef",
            "git_dirty": "false",
            "hardware": "AMD EPYC, 2 threads",
        }
        run = self.client.create_run(number, start_time=1_700_000_000_000 + self.logged * 60_000, tags=identity | tags)
        params = {"task.headline": "accuracy", "seed": seed, "environment.torch": "2.13.0", "environment.python": "3.11"}
        curve = [Metric("finetune/loss", 0.7 / (1 + step / 20), 0, step) for step in range(40)]
        measured = [Metric(name, value, 0, 0) for name, value in (values if values is not None else typical_values()).items()]
        entries = [Param(key, str(value)) for key, value in params.items()]
        self.client.log_batch(run.info.run_id, metrics=curve + measured, params=entries)
        return run.info.run_id

    def log_timed(self, variant: str, times: list[float], seed: int = 0, values: dict | None = None, **tags: str) -> str:
        """One finished run of session s1 with a history of its launches; gives the run's id."""
        from mlflow.entities import Metric

        launches = launches_of(times)
        number = self.log(variant, seed, summed_up(launches) | (values or {}), **{"session": "s1"} | tags)
        points = [Metric(name, value, 1, step) for name, seen in launches.items() for step, value in seen.items()]
        self.client.log_batch(number, metrics=points)
        return number

    def log_pretraining(self, variant: str = "base+mlm", seed: int = 0, fingerprint: str = "f0", **tags: str) -> str:
        """One finished pretraining in the store, with its curves; gives the run's id."""
        from mlflow.entities import Metric, Param

        model, _, objective = variant.partition("+")
        study = tags.pop("study", "before_after")
        kind = {"task": "pretraining", "model": model, "fingerprint": fingerprint, "protocol": "q1"} | tags
        number = self.log(variant, seed, pretraining_values(), study=study, **kind)
        points = [Metric("pretrain/loss", 5 - step / 100, 0, step) for step in range(1, 101)]
        for step in (50, 100):
            reached = {"pretrain/tokens": 1000.0 * step, "pretrain/duration_s": step / 4, "pretrain/flops": 1e9 * step}
            reached |= {"pretrain/masked_loss": 5 - step / 50, "pretrain/masked_accuracy": step / 400}
            points += [Metric(name, value, 0, step) for name, value in reached.items()]
        settings = [Param(key, value) for key, value in (PRETRAINING | {"pretrain.objective": objective}).items()]
        self.client.log_batch(number, metrics=points, params=settings)
        return number


def typical_values(shrink: float = 1.0, score: float = 0.8) -> dict[str, float]:
    """What a finished run of the harness holds; `shrink` divides sizes and times."""
    values = {f"model/params_component_{part}": count // shrink for part, count in PARTS.items()}
    values |= {f"published/params_component_{part}": 30 * count // shrink for part, count in PARTS.items()}
    values |= {"model/params_total": sum(PARTS.values()) // shrink, "model/params_effective": sum(PARTS.values()) // shrink}
    values |= {"published/params_total": 30 * sum(PARTS.values()) // shrink, "model/flops_forward": 1.2e9 / shrink}
    values |= {"inference/latency_ms_p50": 12.3 / shrink, "inference/tokens_per_s": 5000 * shrink}
    values |= {"inference/peak_memory_bytes": 45.6e6 / shrink, "finetune/tokens_per_s": 2000 * shrink}
    return values | {"eval/score": score, "eval/accuracy": score, "eval/majority_score": 0.51}


def pretraining_values(loss: float = 3.0, changed: dict | None = None) -> dict[str, float]:
    """What a finished pretraining holds at its end."""
    seen = {
        "pretrain/masked_loss": loss,
        "pretrain/masked_accuracy": 0.4,
        "pretrain/unigram_entropy": 6.4,
        "pretrain/probe_steps": 0.0,
        "pretrain/loss": 9 * loss,
    }
    seen |= {"model/params_total": 4.4e6, "pretrain/tokens": 20e6, "pretrain/flops": 6e14, "pretrain/duration_s": 600.0}
    seen |= {"corpus/tokens": 103e6, "corpus/documents": 28472.0}
    return seen | (changed or {})


@pytest.fixture
def ended() -> Callable[..., dict[str, float]]:
    """Makes the metrics of a finished pretraining."""
    return pretraining_values


@pytest.fixture
def typical() -> Callable[..., dict[str, float]]:
    """Makes the metrics of a finished run."""
    return typical_values


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store with MLflow's tables, whose making costs seconds."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def tracking(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A fresh store in a fresh working directory, where `python -m reports` looks for it."""
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path, template)
