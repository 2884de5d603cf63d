"""Writes results as their tools write them: `python plugins/results/tests/make_fixtures.py FOLDER TOOL ...`.

The folders of `fixtures/` are from transformers 5.23.0 (trainer), wandb 0.28.2, MLflow 3.17.2, pytest-benchmark 5.3.1 with
pytest 9.2.0, and asv 0.6.6; of a Trainer's folders the weights were removed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SORTING = """
import random

import pytest


@pytest.mark.parametrize("size", [100, 1000])
@pytest.mark.parametrize("way", ["sorted", "sort"])
def test_sort(benchmark, way, size):
    values = random.Random(0).sample(range(size), size)
    benchmark.pedantic((lambda: sorted(values)) if way == "sorted" else (lambda: [*values].sort()), rounds=5, iterations=10)


def test_sum(benchmark):
    benchmark.pedantic(sum, args=([1] * 100,), rounds=5, iterations=10)
"""

SUITE = """
import random


class Sorting:
    params = [[100, 1000], ["sorted", "sort"]]
    param_names = ["size", "way"]
    number, repeat, warmup_time = 10, 4, 0

    def setup(self, size, way):
        if way == "sort" and size == 1000:
            raise NotImplementedError
        self.values = random.Random(0).sample(range(size), size)

    def time_sort(self, size, way):
        sorted(self.values) if way == "sorted" else [*self.values].sort()


def peakmem_list():
    return [0] * 1000


def track_length():
    return 3.0


track_length.unit = "steps"


def time_broken():
    raise ValueError
"""


def trainer(to: Path) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

    generator = torch.Generator().manual_seed(0)
    rows = [{"input_ids": torch.randint(5, 50, (8,), generator=generator), "labels": number % 2} for number in range(16)]
    sizes = {"vocab_size": 50, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16}
    for arm, hidden in {"narrow": 16, "wide": 32}.items():
        config = BertConfig(hidden_size=hidden, intermediate_size=hidden, **sizes)
        for seed in range(3):
            set_seed(seed)
            folder = to / arm / f"seed{seed}"
            each = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1, "save_steps": 1, "learning_rate": 1e-2}
            arguments = TrainingArguments(str(folder), seed=seed, report_to=[], use_cpu=True, **each)
            run = Trainer(
                BertForSequenceClassification(config),
                arguments,
                train_dataset=rows,
                eval_dataset=rows,
                compute_metrics=lambda of: {"accuracy": float((of.predictions.argmax(-1) == of.label_ids).mean())},
            )
            run.train()
            if arm == "narrow":  # as the example scripts do; of the others, checkpoints alone
                run.save_metrics("eval", run.evaluate() | {"eval_samples": len(rows)})
                run.save_state()
    for path in to.rglob("checkpoint-*/*"):
        if path.name != "trainer_state.json":
            path.unlink()


def wandb(to: Path) -> None:
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    import wandb

    to.mkdir(parents=True)
    settings = wandb.Settings(x_disable_meta=True, x_disable_stats=True, console="off")
    for model, score in {"base": 0.8, "wide": 0.85, "failed": 0.1}.items():
        for seed in range(2):
            config = {"model": model, "seed": seed, "data": {"task": "rte"}}
            with wandb.init(project="p", dir=to, config=config, settings=settings) as run:
                run.log({"eval/accuracy": 0.5})
                run.log({"eval/accuracy": score + seed / 100, "eval/f1": float("nan"), "nested": {"loss": 1.5}, "note": "text"})
                run.finish(exit_code=int(model == "failed"))
    (to / "wandb" / "latest-run").unlink(missing_ok=True)
    for path in [*to.rglob("*")]:
        if path.is_file() and path.suffix != ".wandb":
            path.unlink()


def mlflow(to: Path) -> None:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow import MlflowClient

    to.mkdir(parents=True)
    log_runs(MlflowClient(f"file:{to}/mlruns"))


def log_runs(client) -> None:
    """Two runs of an experiment, one that is deleted and one that goes on, and a run of another experiment."""
    runs = [
        ("glue", "base", 0.8),
        ("glue", "wide", 0.85),
        ("glue", "gone", 0.1),
        ("glue", "begun", 0.3),
        ("other", "base", 0.2),
    ]
    for experiment, model, score in runs:
        known = client.get_experiment_by_name(experiment)
        number = known.experiment_id if known else client.create_experiment(experiment)
        run = client.create_run(number, run_name=model).info.run_id
        client.log_param(run, "model", model)
        client.log_param(run, "seed", 1)
        client.set_tag(run, "task", "rte")
        client.log_metric(run, "eval/accuracy", score, step=2)
        client.log_metric(run, "eval/accuracy", 0.5, step=1)
        if model == "wide":
            client.log_metric(run, "f1", float("nan"))
        if model != "begun":
            client.set_terminated(run)
        if model == "gone":
            client.delete_run(run)


def pytest_benchmark(to: Path) -> None:
    to.mkdir(parents=True)
    (to / "test_sorting.py").write_text(SORTING)
    for session in ("one", "two", "three"):
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--benchmark-json={session}.json", "test_sorting.py"]
        subprocess.run([sys.executable, *command], cwd=to, check=True)
    shutil.rmtree(to / ".benchmarks", ignore_errors=True)


def asv(to: Path) -> None:
    (to / "benchmarks").mkdir(parents=True)
    (to / "benchmarks" / "__init__.py").touch()
    (to / "benchmarks" / "sorting.py").write_text(SUITE)
    config = '{"version": 1, "project": "sorting", "repo": ".", "branches": ["HEAD"], "environment_type": "existing"}'
    (to / "asv.conf.json").write_text(config)
    machine = ["--machine", "box", "--os", "linux", "--arch", "x86_64", "--cpu", "cpu", "--num_cpu", "2", "--ram", "8"]
    for command in (["git", "init", "-q"], ["git", "add", "-A"], [sys.executable, "-m", "asv", "machine", *machine]):
        subprocess.run(command, cwd=to, check=True)
    for number in range(2):
        subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", f"{number}"], cwd=to, check=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=to, check=True, capture_output=True, text=True).stdout.strip()
        run = ["run", "--python=same", f"--set-commit-hash={commit}", "--machine=box", "--record-samples"]
        subprocess.run([sys.executable, "-m", "asv", *run], cwd=to, check=False)  # 2 where a benchmark fails


if __name__ == "__main__":
    for tool in sys.argv[2:]:
        globals()[tool](Path(sys.argv[1]).absolute() / tool)
