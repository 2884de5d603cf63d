"""hardware.compile: the same numbers by compiled models, the compiler's time apart, and no silent way out of it."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from harness import paths
from harness.comparison import arms
from harness.config.choices import Dtype
from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig
from harness.hardware import facts
from harness.hardware.device import COMPILER_CACHE, Machine, empty_compiler_cache
from harness.measure import bytes_moved, timing
from harness.measure import latency as speed
from harness.measure.records import Latency, WarmUp
from harness.models.adapt import adapt, merge
from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Trains
from harness.models.heads import SequenceClassifier, build_classifier
from harness.study.identity import Identity, Inputs
from harness.tracking import run_log
from harness.tracking.run_log import Reader, RunLog
from harness.training.finetune import step_of
from harness.training.loop import Limit, Position, Training, compile_ahead, train
from harness.training.optimiser import make_optimiser

ROOT = Path(__file__).resolve().parents[3]

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile on CPU needs a C++ compiler: no g++")

SHAPE = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = ["corpus.documents=120", "tokenizer.vocab_size=300", "pretrain.length=32", "pretrain.batch_size=8"]
UNCOMPILABLE = """
import torch
from harness.config.schema import HardwareConfig
from harness.hardware.device import Machine
from harness.measure.latency import forward
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier

machine = Machine(HardwareConfig(threads=1, compile=True))
config = EncoderConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50)
forward(machine.prepare(build_classifier(config, 2, 0)), machine)(Batch(torch.ones(2, 8, dtype=torch.int64)))
"""
"""What a worker does, in short."""

LOOKS = ["pretrain.eval_sequences=16", "pretrain.evaluations=2"]


pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, when it loads its compiler


@pytest.fixture(autouse=True)
def _own_compiler(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what was compiled before this session."""
    monkeypatch.setenv(COMPILER_CACHE, str(tmp_path_factory.getbasetemp() / "compiler"))


def machine(on: bool = True) -> Machine:
    return Machine(HardwareConfig(threads=1, compile=on))


def classifier(seed: int = 0) -> SequenceClassifier:
    return build_classifier(EncoderConfig(**SHAPE), 2, seed)


def batch(rows: int, length: int, seed: int = 0, masked: bool = True) -> Batch:
    """Where it is masked, every second text is shorter than the others."""
    ids = torch.randint(1, 50, (rows, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(length) < torch.tensor([length, length - 1]).repeat(rows)[:rows, None]
    return Batch(ids, attention_mask=mask if masked else None, labels=ids[:, 1] % 2, tokens=ids.numel())


def training(model: SequenceClassifier, shapes: list[tuple[int, bool]]) -> Training:
    """A step with dropout for each length, with a mask or without."""
    given = iter([batch(4, length, seed, masked) for seed, (length, masked) in enumerate(shapes)])
    limit, config = Limit("step", len(shapes)), FinetuneConfig(batch_size=4, learning_rate=3e-3)
    loss = lambda asked: model.loss(model(asked), asked.labels)  # noqa: E731
    return Training(model, loss, lambda _: step_of(next(given), 1), limit, len(shapes), "finetune", config, 0)


def losses(folder: Path, key: str = "finetune/loss") -> list[float]:
    return [entry["value"] for entry in Reader(folder).new_entries() if entry.get("key") == key]


def trained(folder: Path, shapes: list[tuple[int, bool]], on: bool) -> tuple[SequenceClassifier, Position, Machine]:
    folder.mkdir()
    used, position, run_log = machine(on), Position(), RunLog(folder)
    model = used.prepare(classifier())
    train(training(model, shapes), make_optimiser(model, FinetuneConfig()), position, used, run_log)
    run_log.finish("finished")
    return model, position, used


def test_the_conditions_and_the_hardware_line_say_that_models_run_compiled(small_config: RunConfig):
    compiled = replace(small_config, hardware=replace(small_config.hardware, compile=True))
    plain, conditions = (arms.conditions(Identity(one, Inputs(data="d")).facts, []) for one in (small_config, compiled))
    assert arms.varying([plain, conditions]) == ["hardware.compile"]
    assert conditions["hardware.compile"] == "True"
    assert Identity(small_config, Inputs(corpus="c")).fingerprint != Identity(compiled, Inputs(corpus="c")).fingerprint
    assert facts.description(compiled.hardware).endswith("compiled")
    assert "compiled" not in facts.description(small_config.hardware)


@pytest.mark.long
def test_time_to_compile_is_told_of_compiled_models_alone():
    latency = Latency([2.0, 3.0, 4.0], [], WarmUp(0, True, []))
    assert timing.compile_s(1003.0, latency, machine()) == 1.0
    assert timing.compile_s(1003.0, latency, machine(False)) is None


def test_the_compiler_finds_an_empty_cache_and_the_old_one_afterwards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Also that of a process that was killed goes, which the folder for temporary files would keep for ever."""
    monkeypatch.setenv(COMPILER_CACHE, "of_before")
    killed = tmp_path / ".compiler.1"
    (killed / "code").mkdir(parents=True)
    with empty_compiler_cache(tmp_path):
        inside = Path(os.environ[COMPILER_CACHE])
        assert (inside.parent, killed.exists(), inside.exists()) == (tmp_path, False, False)
        inside.mkdir()
        assert paths.TEMPORARY.fullmatch(inside.name)
    assert not inside.exists()
    assert os.environ[COMPILER_CACHE] == "of_before"


def test_operators_are_counted_uncompiled():
    used, plain = machine(), classifier()
    expected = bytes_moved.moved_forward(plain, batch(2, 8), machine(False)).total
    assert bytes_moved.moved_forward(used.prepare(plain), batch(2, 8), used).total == expected
    assert used.compiling_s() == 0


@pytest.mark.slow
def test_a_worker_without_a_compiler_ends_with_one_line_that_names_the_key(tmp_path: Path):
    environment = os.environ | {"CXX": "no-such-compiler", "PYTHONPATH": str(ROOT), COMPILER_CACHE: str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", UNCOMPILABLE], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: hardware.compile=true")
    assert "set hardware.compile=false" in last
    assert "compiler" in last.partition("(")[2]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("model", ["base", "windowed"])
def test_compiled_logits_are_those_of_the_uncompiled_model(model: str, compose: Callable[..., list[RunConfig]]):
    ((config,), used) = compose(f"model={model}", "scale=tiny", "task=bag", "model.vocab_size=50"), machine()
    plain, compiled = (build_classifier(config.model, 2, 0) for _ in range(2))
    given = batch(3, 50)
    expected = speed.forward(plain, machine(False))(given)
    torch.testing.assert_close(speed.forward(used.prepare(compiled), used)(given), expected, atol=1e-5, rtol=0)
    assert used.compiling_s() > 0
    plain.load_state_dict(compiled.state_dict())


@pytest.mark.slow
@needs_compiler
def test_training_compiled_gives_the_same_losses_and_its_time_has_no_compiling_in_it(tmp_path: Path):
    shapes = [(8, True), (11, True), (9, True)]
    started = time.perf_counter()
    model, position, used = trained(tmp_path / "compiled", shapes, True)
    wall = time.perf_counter() - started
    plain, _, _ = trained(tmp_path / "plain", shapes, False)
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-3)
    assert used.compiling_s() > 0
    assert 0 < position.seconds <= wall - used.compiling_s()
    assert model.state_dict().keys() == plain.state_dict().keys()
    _ahead_leaves_no_trace(used, model)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("keys", [{"trains": Trains.lora}, {"ema_decay": 0.5}], ids=str)
def test_what_is_adapted_or_averaged_compiled_is_as_uncompiled(tmp_path: Path, keys: dict[str, object]):
    """Weights that are added beside a projection, and the average of all: the same losses and the same model in the end."""
    config, found = FinetuneConfig(batch_size=4, learning_rate=3e-2, **keys), {}
    for on in (True, False):
        folder, used, model = tmp_path / str(on), machine(on), classifier()
        folder.mkdir()
        adapt(model, config)
        optimiser, run_log = make_optimiser(used.prepare(model), config), RunLog(folder)
        steps = replace(training(model, [(8, True), (8, True), (9, True), (8, True)]), config=config)
        train(steps, optimiser, Position(), used, run_log)
        run_log.finish("finished")
        optimiser.swap_averages()
        merge(model)
        found[on] = losses(folder), model.state_dict()
        assert (used.compiling_s() > 0) is on
    (compiled, ours), (plain, theirs) = found[True], found[False]
    assert compiled == pytest.approx(plain, rel=1e-3)
    assert compiled[-1] != pytest.approx(compiled[0], rel=1e-2)
    assert ours.keys() == theirs.keys() == classifier().state_dict().keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-3, atol=1e-4)


def _ahead_leaves_no_trace(used: Machine, model: SequenceClassifier) -> None:
    """A part of the test above, which has compiled the model."""
    before, state = {name: value.clone() for name, value in model.state_dict().items()}, torch.get_rng_state()
    position, compiling = Position(), used.compiling_s()
    compile_ahead(training(model, [(5, True)]), position, used)
    assert used.compiling_s() == compiling  # a length of its own needs no graph of its own
    assert position == Position()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.slow
@needs_compiler
def test_a_compiled_run_finishes_with_the_losses_of_an_uncompiled_one(output: Path, small: list[str], run_harness: Callable):
    command = [
        "-m",
        *small,
        "measure.rounds=1",
        "hardware.compile=true,false",
        "model=windowed",
        "seed=0",
        "study=c",
        f"output={output}",
    ]
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for folder in (output / "c").glob("windowed-*"):
        environment = json.loads((folder / "environment.json").read_text())
        found[environment["compile"]] = folder, run_log.result(folder)["metrics"]
    assert losses(found[True][0]) == pytest.approx(losses(found[False][0]), rel=1e-3)
    assert found[True][1]["setup/compile_s"] > 0
    assert "setup/compile_s" not in found[False][1]
    assert found[True][1]["model/bytes_forward"] == found[False][1]["model/bytes_forward"]
    assert "up to the end of finetune" in (found[True][0] / "log.txt").read_text()


@pytest.mark.slow
@needs_compiler
def test_a_compiled_pretraining_leaves_weights_with_the_names_of_an_uncompiled_one(output: Path, run_harness: Callable):
    budget = ["pretrain=mlm", "pretrain.steps=6", "task=none", "scale=tiny", "hardware.threads=1", *TEXT, *LOOKS]
    done = run_harness("-m", *budget, "hardware.compile=true,false", "seed=0", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    one, other = (output / "pretrained").glob("base-*")
    assert losses(one, "pretrain/loss") == pytest.approx(losses(other, "pretrain/loss"), rel=1e-3)
    (weights,), (others,) = (list(folder.glob("*/model.safetensors")) for folder in (one, other))
    assert load_file(weights).keys() == load_file(others).keys()


@pytest.mark.parametrize(("threads", "said"), [(1, "1 thread"), (2, "2 threads")])
def test_the_hardware_line_counts_threads(threads, said):
    assert f", {said}, fp32" in facts.description(HardwareConfig(threads=threads, dtype=Dtype.fp32))
