"""Records survive their way through JSON, whatever in them is missing."""

import json
from dataclasses import replace

import pytest

from harness import records
from harness.measure.records import Launch, Measured, MemoryPeaks, Peak, Point, Request, StepRequest, to_json
from harness.records import CorruptError


def through_a_file(record: object) -> object:
    return records.decoded(json.dumps(to_json(record)).encode(), type(record), "a file")


def test_a_launch_with_and_without_what_a_machine_may_lack(launch_of):
    point = Point(8, 64, [1.0, 2.0], 10.0, None)
    full = launch_of(3, [1.0, 2.0], joules=2.5, points=[point, replace(point, peak_memory_bytes=7)], compile_s=0.5, repeated=1)
    for launch in (full, launch_of(0, [1.0], foreign_cpus=None, peak_flops_per_s=None)):
        assert through_a_file(launch) == launch
    assert isinstance(through_a_file(full).points[1], Point)


def test_a_request_and_what_was_measured():
    request = Request(("memory", "trace"), 2, ("key", "other"), True, StepRequest(4, timed_steps=0), 10**9)
    assert through_a_file(request) == request
    measured = Measured(memory=MemoryPeaks(Peak(1, 2), Peak(None, None, 5)), sizes={"model/params_total": 3})
    assert through_a_file(measured) == measured


def test_a_launch_for_each_of_several_tasks(launch_of):
    measured = Measured(timing=[launch_of(0, [1.0]), launch_of(0, [1.0], seconds=3.0)])
    assert through_a_file(measured) == measured


def test_a_file_of_another_form_is_an_error(launch_of):
    value = to_json(launch_of(0, [1.0]))
    del value["latency"]
    with pytest.raises(CorruptError, match="latency"):
        records.decoded(json.dumps(value).encode(), Launch, "a file")
