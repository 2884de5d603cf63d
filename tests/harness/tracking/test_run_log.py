"""The log of a run: whole or not at all, line by line, declared names alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import records
from harness.records import CorruptError
from harness.tracking import run_log
from harness.tracking.run_log import Reader, RunLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    log = RunLog(tmp_path)
    yield log
    log.finish("finished")


def test_result_is_what_was_written(log, tmp_path):
    log.value("eval/score", 0.5)
    log.value("eval/loss", None)
    log.finish("finished")
    result = run_log.result(tmp_path)
    assert (result["status"], result["metrics"]) == ("finished", {"eval/score": 0.5})


def test_reader_returns_every_entry_once_and_in_order(log, tmp_path):
    reader = Reader(tmp_path)
    assert reader.new_entries() == []
    log.stage("finetune", 3)
    log.curve("finetune/loss", 1, 0.75, 100)
    first = reader.new_entries()
    assert [entry.get("stage", entry.get("key")) for entry in first] == ["finetune", "finetune/loss"]
    assert (first[1]["step"], first[1]["value"], first[1]["tokens"]) == (1, 0.75, 100)
    log.curve("finetune/loss", 2, 0.5, 200)
    assert [entry["step"] for entry in reader.new_entries()] == [2]
    assert reader.new_entries() == []


def test_reader_leaves_a_torn_last_line_for_later(tmp_path):
    reader = Reader(tmp_path)
    with (tmp_path / "metrics.jsonl").open("w") as file:
        file.write('{"step": 1}\n{"st')
        file.flush()
        assert reader.new_entries() == [{"step": 1}]
        assert reader.new_entries() == []
        file.write('ep": 2}\n')
    assert reader.new_entries() == [{"step": 2}]


def test_undeclared_keys_are_refused_and_not_written(log, tmp_path):
    with pytest.raises(KeyError, match="not declared"):
        log.value("eval/scoer", 0.5)
    with pytest.raises(KeyError, match="not declared"):
        log.curve("loss", 1, 0.5, 10)
    log.finish("finished")
    assert run_log.result(tmp_path)["metrics"] == {}
    assert Reader(tmp_path).new_entries() == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_what_is_no_finite_number_is_refused_and_not_written(log, tmp_path, value):
    with pytest.raises(ValueError, match="must be"):
        log.curve("finetune/loss", 1, value, 10)
    assert Reader(tmp_path).new_entries() == []


def test_a_point_keeps_the_time_of_its_step(tmp_path):
    log = RunLog(tmp_path)
    log.curve("finetune/loss", 1, 0.7, 10, time_ms=1234)
    (entry,) = Reader(tmp_path).new_entries()
    assert entry["time"] == 1234
    log.finish("finished")


def test_points_that_an_earlier_process_wrote_are_kept_and_a_torn_line_is_cut_off(tmp_path):
    first = RunLog(tmp_path)
    for step in (1, 2, 3):
        first.curve("pretrain/loss", step, step / 2, 100 * step)
    first._lines.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "key": "pretr')
    second = RunLog(tmp_path)
    for step in (2, 3, 4):
        second.curve("pretrain/loss", step, 9.0, 100 * step)
    second.value("pretrain/loss", 9.0)
    second.finish("finished")
    entries = [entry for entry in Reader(tmp_path).new_entries() if "key" in entry]
    points = [(entry["step"], entry["value"]) for entry in entries]
    assert points == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 9.0)]
    assert run_log.result(tmp_path)["steps"] == {"pretrain/loss": 4}


def test_results_of_an_earlier_process_are_those_of_the_next_and_its_own_take_their_place(tmp_path):
    first = RunLog(tmp_path)
    first.value("inference/latency_ms_p50", 2.0)
    first.value("eval/score", 0.1)
    first.close()
    second = RunLog(tmp_path)
    second.value("eval/score", 0.5)
    second.finish("finished")
    assert run_log.result(tmp_path)["metrics"] == {"inference/latency_ms_p50": 2.0, "eval/score": 0.5}


@pytest.mark.parametrize("line", ["{", "[]", '{"step": 1.5}', '{"value": true}', '{"value": 1e999}', "\x00"])
def test_a_line_that_is_no_entry_is_named_once(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1}}\n{line}\n')
    with pytest.raises(CorruptError, match=rf"^{tmp_path / 'metrics.jsonl'} is corrupt: [^\n]+$"):
        Reader(tmp_path).new_entries()
    records.write(tmp_path / "run.json", {"attempt": "a"})
    assert [*run_log.faults(tmp_path)] == ["metrics.jsonl"]
