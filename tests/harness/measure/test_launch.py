"""The measuring process: what it was asked comes back as records, also what came before a failure."""

import json
import shutil
from dataclasses import replace

import pytest

from harness import processes
from harness.config.choices import Device, Precision
from harness.measure import latency
from harness.measure.launch import TIMING, launch
from harness.measure.memory import SLACK
from harness.measure.records import REQUEST, Request

pytestmark = pytest.mark.long


@pytest.fixture
def config(compose):
    (config,) = compose("scale=tiny", "task=bag", "hardware.threads=1", "model.vocab_size=300", "measure.length=16")
    return config


@pytest.fixture(params=["1", "0"], ids=["forked", "new"])
def _fork(request, monkeypatch):
    monkeypatch.setenv(processes.FORK, request.param)


@pytest.mark.usefixtures("_fork")
def test_an_instrument_that_fails_loses_none_before_it(config, tmp_path):
    outcome = launch(config, Request(("sizes", "flops", "math:sqrt", "memory")), tmp_path)  # which takes one number
    measured = outcome.measured
    assert outcome.code == 1
    assert "Error" in outcome.ending.reason
    assert measured.sizes["model/params_total"] == sum(
        value for name, value in measured.sizes.items() if name.startswith("model/params_component_")
    )
    assert 2 * config.finetune.batch_size * measured.flops.forward < measured.flops.train_step
    assert measured.memory is measured.timing is None


@pytest.mark.usefixtures("_fork")
def test_results_of_an_earlier_process_in_the_folder_are_not_those_of_one_that_fails(config, tmp_path):
    (tmp_path / "measured.json").write_text('{"sizes": {"model/params_total": 1}}')
    config.hardware.device = Device.cuda
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("the missing device is there")
    outcome = launch(config, Request(("sizes",)), tmp_path)
    assert (outcome.code, outcome.measured.sizes) == (1, None)
    assert "torch sees no CUDA device" in outcome.ending.reason


def test_forked_process_measures_the_memory_of_a_new_one(config, tmp_path, monkeypatch):
    """What the process that forked it holds is shared, and in no peak: its libraries alone are 80 MB.

    Peaks of equal processes scatter by a tenth.
    """
    config.model.vocab_size, config.measure.length = 8000, 64
    found = {}
    for fork in ("1", "0"):
        monkeypatch.setenv(processes.FORK, fork)
        found[fork] = launch(config, Request(("memory", "sizes")), tmp_path / fork).measured
    weights = found["0"].sizes["model/weights_bytes"]
    assert weights > 4_000_000
    for phase in ("inference", "training_step"):
        forked, new = (getattr(found[fork].memory, phase) for fork in ("1", "0"))
        assert forked.kernel == pytest.approx(new.kernel, rel=0.2, abs=8_000_000)
        assert forked.sampled <= forked.kernel + SLACK
        assert forked.kernel + SLACK > weights


def test_the_reference_workload_is_in_no_memory_of_a_length_or_batch_size(config, tmp_path):
    config.measure.repeats, config.measure.lengths, config.measure.batch_sizes = 3, [8, 16], [1, 2]
    (timed,) = launch(config, Request(("timing",)), tmp_path).measured.timing
    held = 2 * 4 * latency.ELEMENTS
    assert [(point.batch_size, point.length) for point in timed.points] == [(1, 8), (1, 16), (1, 16), (2, 16)]
    assert [point.of_sizes for point in timed.points] == [False, False, True, True]
    assert all(0 < point.peak_memory_bytes < held for point in timed.points), timed.points


def test_import_is_timed_once_in_the_process_that_imports(config, tmp_path, monkeypatch):
    """A forked process has imported everything before it starts."""
    monkeypatch.setenv(processes.FORK, "1")
    config.measure.repeats = 3
    (first,), (second,) = (launch(config, Request(("timing",)), tmp_path / name).measured.timing for name in "ab")
    assert first.import_s == second.import_s > 0.1  # torch alone takes longer
    assert first.build_s != second.build_s


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_a_later_launch_of_a_compiled_model_compiles_nothing(config, tmp_path):
    config.hardware.compile, config.measure.train_steps, config.measure.repeats = True, 0, 3
    request = Request(TIMING, compiled=str(tmp_path / "compiled"))
    (first,), (second,) = (launch(config, request, tmp_path / name).measured.timing for name in "ab")
    assert first.compile_s > 0
    assert second.compile_s is None
    assert second.first_call_ms < first.first_call_ms / 2


def test_training_steps_are_timed_after_a_plain_model_and_apart_from_a_served_one(config, tmp_path, monkeypatch):
    """A served model leaves other memory behind than a plain one, and its training is the same."""
    requests, run = [], processes.run

    def recorded(worker, arguments, *rest):
        requests.append(json.loads((tmp_path / REQUEST).read_text())["instruments"])
        return run(worker, arguments, *rest)

    monkeypatch.setattr(processes, "run", recorded)
    served = replace(config, measure=replace(config.measure, precision=Precision.int8_dynamic))
    outcome = launch(served, Request(TIMING), tmp_path)
    assert requests == [["served"], ["training_time"], ["timing"]]
    (timed,) = outcome.measured.timing
    assert len(timed.training.raw_ms) == config.measure.train_steps > 0
    launch(replace(config, measure=replace(config.measure, train_steps=0)), Request(TIMING), tmp_path)
    assert requests[3:] == [["timing"]]
    (timed,) = launch(config, Request(TIMING), tmp_path).measured.timing
    assert requests[4:] == [["timing", "training_time"]]
    assert len(timed.training.raw_ms) == config.measure.train_steps


def test_a_served_model_is_written_for_whatever_reads_it(config, tmp_path):
    served = replace(config, measure=replace(config.measure, precision=Precision.int8_dynamic))
    measured = launch(served, Request(("memory", "sizes")), tmp_path).measured
    assert measured.memory.inference.kernel > 0
    assert measured.sizes
