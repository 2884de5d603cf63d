"""Our side: configs as the command line composes them, and the project's own training, timed by the log of the run."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import hydra
import results
from hydra.core.config_store import ConfigStore

from harness import paths
from harness.checkpoints import finetuned, native
from harness.config.choices import Dtype
from harness.config.resolve import Found, from_node, resolve, with_vocabulary
from harness.config.schema import HardwareConfig, RunConfig
from harness.corpus import prepare as corpora
from harness.corpus import sequences
from harness.hardware.device import Machine
from harness.measure import flops
from harness.measure.memory import Baseline
from harness.models.heads import Classifier
from harness.paths import conf_directory
from harness.plugins.export.checkpoint import export
from harness.tasks import prepared as cache
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog
from harness.training.finetune import finetune
from harness.training.pretrain import pretrain

HERE = Path(__file__).resolve().parent
THREADS = results.THREADS
PIECES = 30_522
"""Pieces of BERT's uncased vocabulary, which both sides use."""

ROWS = 12_800
"""Rows of SST-2 that trainings read: two pools of batches that are grouped by length."""


def data_root() -> Path:
    """Folder of the real data: ../shared/data beside the checkout, or BENCHMARK_DATA."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("BENCHMARK_DATA", beside))


def prepared_folder(folder: Path) -> str:
    """The output folder for prepared data: of all benchmarks of one command, or this one."""
    return os.environ.get(results.CACHE, str(folder))


def vocabulary_file() -> Path:
    """BERT's uncased vocabulary."""
    return data_root() / "vocab" / "bert-base-uncased" / "vocab.txt"


def composed(*overrides: str, output: str) -> RunConfig:
    """The config of `python -m harness` with these overrides, model base at scale mini with BERT's vocabulary."""
    ConfigStore.instance().store(name="run_config", node=RunConfig)
    always = ("data=local", f"data.root={data_root()}", f"tokenizer.vocab_file={vocabulary_file()}", f"output={output}")
    with hydra.initialize_config_dir(str(conf_directory()), version_base="1.3"):
        return from_node(hydra.compose("config", [*always, f"hardware.threads={THREADS}", *overrides]))


def on_task(*overrides: str, output: str) -> tuple[RunConfig, Prepared]:
    """A resolved config and its prepared data."""
    config = composed(*overrides, output=output)
    data = cache.read(config, cache.prepare(config))
    return _with_vocabulary(config, data.vocab_size, data.pad_token_id), data


def on_text(*overrides: str, output: str) -> tuple[RunConfig, sequences.Corpus]:
    """The same of a pretraining."""
    config = composed("task=none", *overrides, output=output)
    corpus = sequences.read(output, corpora.prepare(config))
    return _with_vocabulary(config, corpus.vocab_size, corpus.pad), corpus


def _with_vocabulary(config: RunConfig, size: int, pad: int) -> RunConfig:
    if size != PIECES:
        raise RuntimeError(f"our vocabulary has {size:,} pieces, expected {PIECES:,}")
    return with_vocabulary(resolve(config, Found(threads=THREADS)), size, pad)


def machine(dtype: str) -> Machine:
    """The CPU with the threads of the benchmark, in fp32 or bf16."""
    return Machine(HardwareConfig(dtype=Dtype[dtype], threads=THREADS))


@dataclass(frozen=True)
class Trained:
    """What a training did between two of its steps, as its own log says."""

    tokens: int  # without padding
    seconds: float
    flops_per_s: float  # padding counts

    @property
    def tokens_per_s(self) -> float:
        """Throughput of training."""
        return self.tokens / self.seconds


class Finetuning:
    """`harness.training.finetune.finetune`, again and again; the model goes on learning."""

    def __init__(self, config: RunConfig, model: Classifier, data: Prepared, folder: Path, on: Machine | None = None) -> None:
        self._config, self._data, self._folder = config, data, folder
        self._machine, self._cost = on or machine(config.hardware.dtype.name), flops.of_training(model)
        self._model = self._machine.prepare(model)
        self._numbers = itertools.count()
        self._last: Path | None = None

    def points(self) -> list[dict]:
        """The loss curve of the last training, an entry for each step, with its time in ms and the tokens so far."""
        return [entry for entry in _entries(self._last) if entry.get("key") == "finetune/loss"]

    def run(self, steps: int, first: int, seed: int, log_of: Callable[[Path], RunLog] = RunLog) -> Trained:
        """Trains so many steps; what it did after step `first`."""
        config = replace(self._config, seed=seed, finetune=replace(self._config.finetune, max_steps=steps))
        self._last = _fresh(self._folder, next(self._numbers))
        log = log_of(self._last)
        self._machine.use_threads()
        spent = finetune(config, self._model, self._data, self._machine, log, self._cost)
        log.close()
        return _between(log.folder, "finetune", first, steps, spent.flops / spent.seconds)


class Pretraining:
    """`harness.training.pretrain.pretrain`, again and again, each time from the start."""

    def __init__(self, config: RunConfig, corpus: sequences.Corpus, folder: Path) -> None:
        self._config, self._corpus, self._folder = config, corpus, folder
        self._machine, self._numbers = machine(config.hardware.dtype.name), itertools.count()

    def run(self, steps: int, first: int, seed: int, log_of: Callable[[Path], RunLog] = RunLog) -> Trained:
        """Trains so many steps; what it did after step `first`."""
        config = replace(self._config, pretrain=replace(self._config.pretrain, steps=steps, tokens=None, seed=seed))
        log = log_of(_fresh(self._folder, next(self._numbers)))
        self._machine.use_threads()
        pretrain(config, self._corpus, self._machine, log, "benchmark", Baseline(self._machine))
        log.close()
        results = {entry["result"]: entry["value"] for entry in _entries(log.folder) if "result" in entry}
        return _between(log.folder, "pretrain", first, steps, results["pretrain/flops"] / results["pretrain/duration_s"])


def _fresh(folder: Path, number: int) -> Path:
    path = folder / f"run-{number}"
    path.mkdir(parents=True)
    return path


def _between(folder: Path, phase: str, first: int, last: int, flops_per_s: float) -> Trained:
    """What the log says of the steps after `first`."""
    points = {entry["step"]: entry for entry in _entries(folder) if entry.get("key") == f"{phase}/loss"}
    begin, end = points[first], points[last]
    return Trained(end["tokens"] - begin["tokens"], (end["time"] - begin["time"]) / 1e3, flops_per_s)


def _entries(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def run_python(*arguments: str) -> str:
    """Output of a Python process; RuntimeError with its last lines if it fails."""
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(THREADS)}
    ended = subprocess.run([sys.executable, *arguments], cwd=HERE.parents[1], env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed: {ended.stderr[-2000:] or ended.stdout[-2000:]}")
    return ended.stdout


def exported(model: Classifier, config: RunConfig, data: Prepared, folder: Path) -> tuple[Path, Path]:
    """The folders of a checkpoint of ours, and of the same weights for transformers."""
    checkpoint, published = folder / "checkpoint", folder / "published"
    finetuned.save(checkpoint, model, config.task, paths.data_folder(config.output, data.key) / native.TOKENIZER)
    export(checkpoint, published)
    return checkpoint, published
