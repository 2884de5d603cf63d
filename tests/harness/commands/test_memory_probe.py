"""Probes: where the border of what fits lies, and what a process that is refused memory means."""

import json

import pytest

from harness import records
from harness.commands.memory import LARGEST, Probe, largest, probe, result_of
from harness.measure.flops import StepFlops
from harness.measure.launch import Outcome
from harness.measure.memory_formula import Parts
from harness.measure.records import Measured, Peak, StepRequest, TrainingStepMemory, to_json

PARTS = Parts(1, 1, 2, None)


def measured(batch_size: int, peak: int | None) -> TrainingStepMemory:
    return TrainingStepMemory(StepRequest(batch_size), PARTS, PARTS, Peak(peak, peak), None, StepFlops(1, 1))


def fake_process(tried: list[int], limit: int):
    """Ten bytes a sequence; one that goes over twice the limit is killed."""

    def run(batch_size: int) -> Probe:
        tried.append(batch_size)
        held = 10 * batch_size
        return Probe(batch_size, None, "killed") if held > 2 * limit else Probe(batch_size, measured(batch_size, held))

    return run


@pytest.mark.parametrize("border", [1, 2, 3, 7, 8, 100, 4095])
def test_the_border_is_found_and_no_batch_is_tried_twice(border):
    tried: list[int] = []
    fit = largest(10 * border + 5, fake_process(tried, 10 * border + 5))
    assert (fit.fitting.batch_size, fit.failing.batch_size) == (border, border + 1)
    assert len(tried) == len(set(tried)) <= 2 * border.bit_length() + 1


def test_nothing_fits_where_one_does_not():
    fit = largest(5, fake_process([], 5))
    assert fit.fitting is None
    assert fit.failing.batch_size == 1


def test_the_search_ends_where_everything_fits():
    fit = largest(10**9, fake_process([], 10**9))
    assert fit.fitting.batch_size == LARGEST
    assert fit.failing is None


def test_a_process_without_a_mark_counts_as_not_fitting():
    assert not Probe(1, measured(1, None)).fits(10**9)
    assert not Probe(1, None, "killed").fits(10**9)


@pytest.mark.parametrize(
    ("code", "said", "stopped"),
    [(-9, "", "killed"), (1, "RuntimeError: DefaultCPUAllocator: can't allocate memory", "refused memory")],
    ids=["killed", "refused"],
)
def test_a_process_that_ran_out_of_memory_is_a_result(tmp_path, code, said, stopped):
    (tmp_path / "log.txt").write_text(said)
    assert result_of(4, Outcome(Measured(), code, tmp_path / "log.txt")) == Probe(4, None, stopped)


def test_a_process_that_failed_otherwise_is_an_error_with_its_last_line(tmp_path):
    (tmp_path / "log.txt").write_text("Traceback\nValueError: not that")
    with pytest.raises(RuntimeError, match=r"batch size 4 failed \(1\): ValueError: not that"):
        result_of(4, Outcome(Measured(), 1, tmp_path / "log.txt"))


def test_measured_survives_its_way_through_a_file():
    before = Measured(training_step=measured(3, 5))
    assert records.decoded(json.dumps(to_json(before)).encode(), Measured, "a file") == before


@pytest.mark.long
def test_a_real_process_that_asks_for_far_more_than_its_limit_is_refused(compose):
    (composed,) = compose("scale=mini_bert", "task=bag", "hardware.threads=1")
    found = probe(composed, StepRequest(4096, timed_steps=0), limit=20_000_000)  # would hold 14 GB
    assert (found.peak, found.stopped) == (None, "refused memory")
