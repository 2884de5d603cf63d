"""Probes: where the border of what fits lies, and what a process that is refused memory means."""

import json

import pytest

from harness import records
from harness.measure.flops import StepFlops
from harness.measure.launch import Outcome
from harness.measure.records import Measured, Parts, Peak, StepRequest, TrainingStepMemory, to_json
from harness.plugins.costs import memory
from harness.plugins.costs.memory import LARGEST, Probe, largest, probe

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


@pytest.mark.parametrize("border", [0, 1, 2, 3, 7, 8, 100, 4095, LARGEST])
def test_the_border_is_found_and_no_batch_is_tried_twice(border):
    tried: list[int] = []
    fitting, failing = largest(10 * border + 5, fake_process(tried, 10 * border + 5))
    sizes = (fitting and fitting.batch_size, failing and failing.batch_size)
    assert sizes == (border or None, border + 1 if border < LARGEST else None)
    assert len(tried) == len(set(tried)) <= 2 * border.bit_length() + 1


def test_a_process_without_a_mark_counts_as_not_fitting():
    assert not Probe(1, measured(1, None)).fits(10**9)
    assert not Probe(1, None, "killed").fits(10**9)


@pytest.mark.parametrize(
    ("code", "said", "stopped"),
    [(-9, "", "killed"), (1, "RuntimeError: DefaultCPUAllocator: can't allocate memory", "refused memory"), (1, "Error", None)],
    ids=["killed", "refused", "failed"],
)
def test_a_process_that_ran_out_of_memory_is_a_result_and_another_failure_an_error(tmp_path, monkeypatch, code, said, stopped):
    (tmp_path / "log.txt").write_text(said)
    monkeypatch.setattr(memory, "launch", lambda config, request, folder: Outcome(Measured(), code, tmp_path / "log.txt"))
    if stopped is None:
        with pytest.raises(RuntimeError, match=r"batch size 4 failed: Error"):
            probe(None, StepRequest(4))
    else:
        assert probe(None, StepRequest(4)) == Probe(4, None, stopped)


def test_measured_survives_its_way_through_a_file():
    before = Measured(training_step=measured(3, 5))
    assert records.decoded(json.dumps(to_json(before)).encode(), Measured, "a file") == before


@pytest.mark.long
def test_a_real_process_that_asks_for_far_more_than_its_limit_is_refused(compose):
    (composed,) = compose("scale=mini_bert", "task=bag", "hardware.threads=1")
    found = probe(composed, StepRequest(4096, timed_steps=0), limit=20_000_000)  # would hold 14 GB
    assert (found.peak, found.stopped) == (None, "refused memory")
