"""Runs and studies in memory, and small real tracking stores: a `conftest.py` imports the fixtures."""

import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import tags
from harness.comparison.compare import Comparison
from harness.comparison.runs import History, Run
from harness.reports.reading.study import Options, Study

PARTS = {"token_embedding": 1_000_000, "position_embedding": 16_384, "type_embedding": 256, "embedding_norm": 256}
PARTS |= {"layers": 400_000, "pooler": 16_512, "head": 258}
PRETRAINING = {
    "pretrain.tokens": "20000000.0",
    "pretrain.steps": "None",
    "pretrain.length": "128",
    "pretrain.eval_sequences": "256",
}
PRETRAINING |= {"corpus.name": "wikitext"}


def identity(arm: str, seed: int, more: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Tags and parameters of an arm named `model+objective setting=value`, with the tags in `more`."""
    model, _, objective = arm.partition(" ")[0].partition("+")
    found = {tags.ARM: arm, tags.MODEL: model, tags.SCALE: "tiny", tags.TASK: "sst2", tags.SEED: str(seed)}
    found |= {tags.CONDITIONS: "c1", tags.LIFTED: "[]", tags.STATUS: "finished"} | more
    params = {"task.headline": "accuracy", "seed": found.get(tags.SEED, "None"), "model_name": found[tags.MODEL]}
    params |= {"scale_name": found[tags.SCALE]} | ({"pretrain.objective": objective} if objective else {})
    return found, params


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """Builds one finished run in memory; later ones are newer."""
    made = []

    def make(
        arm: str = "base", seed: int = 0, values: dict | None = None, params: dict[str, str] | None = None, **more: str
    ) -> Run:
        made.append(arm)
        found, known = identity(arm, seed, {"git_commit": "abc", "git_dirty": "false", "hardware": "1 CPU"} | more)
        return Run(f"run{len(made)}", f"{arm}-{seed}", 1000 * len(made), found, known | (params or {}), values or {})

    return make


@pytest.fixture
def scored(make_run: Callable[..., Run]) -> Callable[..., list[Run]]:
    """Builds the finished runs of an arm: task -> score of each seed, on so many items that these leave nothing open."""

    def make(arm: str, scores: dict[str, list[float]], values: dict[str, float] | None = None, **more: str) -> list[Run]:
        beside = {"eval/examples": 1e7} | (values or {})
        of_seeds = [(task, seed, score) for task, found in scores.items() for seed, score in enumerate(found)]
        return [make_run(arm, seed, {"eval/score": score} | beside, task=task, **more) for task, seed, score in of_seeds]

    return make


@pytest.fixture
def study_of() -> Callable[..., Study]:
    """Makes a study of a comparison in memory: metric -> run id -> {step: value} or {step: values}."""

    def make(comparison: Comparison, histories: dict | None = None, **options: object) -> Study:
        def read(metric: str, runs: list[Run]) -> History:
            known = {run.run_id for run in runs}
            return {
                run: {step: value if isinstance(value, list) else [value] for step, value in steps.items()}
                for run, steps in (histories or {}).get(metric, {}).items()
                if run in known
            }

        return Study(comparison, read, Options(**options))

    return make


def launches_of(
    times: list[float],
    reference: list[float] | None = None,
    cpus: float = 0.0,
    device: list[float] | None = None,
    memory: list[float] | None = None,
    seconds: float | None = None,
) -> dict[str, dict[int, float]]:
    """Rounds of one session: latencies in ms, 128 tokens a call, beside a reference workload of 2 ms; device times, bytes."""
    beside = [2.0] * len(times) if reference is None else reference
    rates = [128_000 / time for time in times]
    measured = {"latency_ms": times, "tokens_per_s": rates, "reference_ms": beside, "load_average": [1.0] * len(times)}
    measured |= {"foreign_cpus": [cpus] * len(times)}
    if device:
        measured |= {"latency_device_ms": device, "reference_device_ms": [2.0] * len(times)}
        measured |= {"device_tokens_per_s": [128_000 / time for time in device]}
        measured |= {"throughput_reference_device_ms": [2.0] * len(times)}
    measured |= {"peak_memory_bytes": memory} if memory else {}
    measured |= {"launch_s": [seconds] * len(times)} if seconds else {}
    return {f"timing/{name}": dict(enumerate(values)) for name, values in measured.items()}


def summed_up(launches: dict[str, dict[int, float]]) -> dict[str, float]:
    """The metrics of a run that sum up its launches."""
    latency, rate = (statistics.median(launches[f"timing/{name}"].values()) for name in ("latency_ms", "tokens_per_s"))
    ends = {name: list(values.values())[-1] for name, values in launches.items()}
    device = {"latency_device_ms": "inference/latency_device_ms", "device_tokens_per_s": "inference/device_tokens_per_s"}
    ends |= {name: ends[f"timing/{launch}"] for launch, name in device.items() if f"timing/{launch}" in ends}
    return ends | {"inference/latency_ms_p50": latency, "inference/tokens_per_s": rate, "inference/latency_ms_p90": latency}


@pytest.fixture
def timed(make_run: Callable[..., Run]) -> Callable[..., Run]:
    """Builds one finished run with the launches of session s1; with replicate="true" an A/A replicate of an arm."""

    def make(arm: str, times: list[float], seed: int = 0, values: dict | None = None, **more: object) -> Run:
        given = {name: more.pop(name) for name in ("reference", "cpus", "device", "memory", "seconds") if name in more}
        launches = launches_of(times, **given)
        run = make_run(arm, seed, summed_up(launches) | (values or {}), **{"session": "s1"} | more)
        return replace(run, launches=launches)

    return make


@pytest.fixture
def pretrained(make_run: Callable[..., Run]) -> Callable[..., Run]:
    """Builds one finished pretraining in memory, named `model+objective`."""

    def make(
        arm: str = "base+mlm", seed: int = 0, ends: dict | None = None, params: dict[str, str] | None = None, **more: str
    ) -> Run:
        values = pretraining_values() if ends is None else ends
        kind = {tags.TASK: tags.PRETRAINING_TASK, tags.PRETRAIN_SEED: str(seed)}
        return make_run(arm, seed, values, PRETRAINING | (params or {}), **kind | more)

    return make


class Store:
    """A real SQLite tracking store; tests log runs to it."""

    def __init__(self, folder: Path, template: Path):
        from mlflow import MlflowClient

        self.path = folder / "multirun" / "mlflow.db"
        self.path.parent.mkdir()
        shutil.copy(template, self.path)
        self.uri = f"sqlite:///{self.path}"
        self.client = MlflowClient(self.uri)
        self.logged = 0

    def log(
        self,
        arm: str,
        seed: int = 0,
        values: dict | None = None,
        *,
        study: str = "before_after",
        params: dict[str, str] | None = None,
        **more: str,
    ) -> str:
        """One run with its tags, parameters, metrics and a short loss curve; returns the run's id."""
        from mlflow.entities import Metric, Param

        self.logged += 1
        known = self.client.get_experiment_by_name(study)
        number = known.experiment_id if known else self.client.create_experiment(study, (self.path.parent / "art").as_uri())
        machine = {"git_commit": "0123456789abcdef", "git_dirty": "false", "hardware": "AMD EPYC, 2 threads"}
        found, known_params = identity(arm, seed, {tags.STUDY: study, tags.ENHANCEMENTS: ""} | machine | more)
        run = self.client.create_run(number, start_time=1_700_000_000_000 + self.logged * 60_000, tags=tags.in_store(found))
        settings = known_params | {"environment.torch": "2.13.0", "environment.python": "3.11"} | (params or {})
        curve = [Metric("finetune/loss", 0.7 / (1 + step / 20), 0, step) for step in range(40)]
        measured = [Metric(name, value, 0, 0) for name, value in (values if values is not None else typical_values()).items()]
        entries = [Param(key, value) for key, value in settings.items()]
        self.client.log_batch(run.info.run_id, metrics=curve + measured, params=entries)
        return run.info.run_id

    def log_timed(
        self,
        arm: str,
        times: list[float],
        seed: int = 0,
        values: dict | None = None,
        device: list[float] | None = None,
        **more: str,
    ) -> str:
        """One finished run of session s1 with a history of its launches; returns the run's id."""
        from mlflow.entities import Metric

        launches = launches_of(times, device=device)
        number = self.log(arm, seed, summed_up(launches) | (values or {}), **{"session": "s1"} | more)
        points = [Metric(name, value, 1, step) for name, rounds in launches.items() for step, value in rounds.items()]
        self.client.log_batch(number, metrics=points)
        return number

    def log_pretraining(
        self, arm: str = "base+mlm", seed: int = 0, fingerprint: str = "f0", study: str = "before_after", **more: str
    ) -> str:
        """One finished pretraining in the store, with its curves; returns the run's id."""
        from mlflow.entities import Metric

        kind = {tags.TASK: tags.PRETRAINING_TASK, tags.PRETRAIN_SEED: str(seed), tags.FINGERPRINT: fingerprint} | more
        number = self.log(arm, seed, pretraining_values(), study=study, params=PRETRAINING, **kind)
        points = [Metric("pretrain/loss", 5 - step / 100, 0, step) for step in range(1, 101)]
        for step in (50, 100):
            reached = {"pretrain/tokens": 1000.0 * step, "pretrain/duration_s": step / 4, "pretrain/flops": 1e9 * step}
            reached |= {"pretrain/masked_loss": 5 - step / 50, "pretrain/masked_accuracy": step / 400}
            points += [Metric(name, value, 0, step) for name, value in reached.items()]
        self.client.log_batch(number, metrics=points)
        return number


def typical_values(shrink: float = 1.0, score: float = 0.8) -> dict[str, float]:
    """The metrics of a finished run of the harness; `shrink` divides sizes and times."""
    values = {f"model/params_component_{part}": count // shrink for part, count in PARTS.items()}
    values |= {f"published/params_component_{part}": 30 * count // shrink for part, count in PARTS.items()}
    values |= {"model/params_total": sum(PARTS.values()) // shrink, "model/params_effective": sum(PARTS.values()) // shrink}
    values |= {"published/params_total": 30 * sum(PARTS.values()) // shrink, "model/flops_forward": 1.2e9 / shrink}
    values |= {"inference/latency_ms_p50": 12.3 / shrink, "inference/tokens_per_s": 5000 * shrink}
    values |= {"inference/peak_memory_bytes": 45.6e6 / shrink, "finetune/tokens_per_s": 2000 * shrink}
    return values | {"eval/score": score, "eval/accuracy": score, "eval/majority_score": 0.51}


def pretraining_values(loss: float = 3.0, changed: dict | None = None) -> dict[str, float]:
    """What a finished pretraining holds at its end."""
    values = {
        "pretrain/masked_loss": loss,
        "pretrain/masked_accuracy": 0.4,
        "pretrain/unigram_entropy": 6.4,
        "pretrain/probe_steps": 0.0,
        "pretrain/loss": 9 * loss,
    }
    values |= {"model/params_total": 4.4e6, "pretrain/tokens": 20e6, "pretrain/flops": 6e14, "pretrain/duration_s": 600.0}
    values |= {"corpus/tokens": 103e6, "corpus/documents": 28472.0}
    return values | (changed or {})


@pytest.fixture
def ended() -> Callable[..., dict[str, float]]:
    """Makes the metrics of a finished pretraining."""
    return pretraining_values


@pytest.fixture
def typical() -> Callable[..., dict[str, float]]:
    """Makes the metrics of a finished run."""
    return typical_values


@pytest.fixture
def tracking(tmp_path: Path, store_template: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A new store in a new working directory, where `python -m reports` reads it."""
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path, store_template)
