"""`python -m harness profile` as it is typed: real processes, a tiny model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.config import compose
from harness.config.schema import Device
from harness.plugins.costs import profile

TINY = ("scale=tiny", "model.vocab_size=300", "measure.length=16", "measure.batch_size=2", "finetune.batch_size=2")


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    code = main(["profile", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.long
def test_profile_prints_a_table_and_writes_values_and_a_trace(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("rounds=1", "--json", "--trace", "to=out", "model=windowed", *TINY, "hardware.threads=1")
    code, out, _ = said(capsys, *asked)
    assert code == 0
    titles = {line.strip().split("  ")[0].split(", ")[0] for line in out.splitlines()}
    assert titles >= {"parameters", "weights", "forward FLOPs", "latency p99", "first call", "inference peak memory"}
    assert "length 16" in out
    assert "not measured" not in out
    one = next(iter(json.loads(Path("out/profile.json").read_text())["variants"].values()))
    assert one["missing"] == {}
    latency = one["records"]["timing"]["0"]["latency"]
    assert len(latency["raw_ms"]) == 20
    assert one["metrics"]["timing"]["0"]["inference/latency_ms_min"] == min(latency["raw_ms"])
    assert len(latency["warm_up"]["raw_ms"]) == latency["warm_up"]["calls"] >= 5
    assert one["metrics"]["memory"]["0"]["train_step/peak_memory_bytes"] > 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["profile.json", "windowed_vocab_size_300.trace.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.long
def test_what_a_process_says_at_last_is_why_a_value_is_missing(compose, monkeypatch):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("the missing device is there")
    (config,) = compose("scale=tiny", "task=bag", "hardware.threads=1")
    config.hardware.device = Device.cuda
    monkeypatch.setattr(profile, "FIRST_ROUND", ("sizes",))
    measured = profile.measure({"base": config}, 1, {})["base"]
    assert "timing" not in measured.records
    assert "torch sees no CUDA device" in measured.missing["timing"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure.length=100000"], "measure.length=100000 must be at most"),
        (["hardware=gpu", "--trace"], "--trace times the CPU only"),
        (["hardware.compile=true", "--trace"], "expected hardware.compile=false"),
        (["task=minimal_pairs"], "scores a model without a head on the encoder: choose another task"),
        (["scale=tiny", "--json", "to=/dev/null/no"], "to='/dev/null/no' cannot be written"),
        (["model=albert", "match=params"], "match=params needs the baseline in the same command: expected model=base"),
        (["model=base,albert", "match=latency"], "match=latency times the texts of a task: expected match=params, flops or"),
    ],
    ids=["length", "gpu", "compiled", "no head", "folder", "no baseline", "match=latency"],
)
def test_wrong_input_is_one_line_and_exit_code_two(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = said(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.long
def test_an_absent_gpu_is_refused_before_anything_is_measured_or_written(capsys, tmp_path, monkeypatch):
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("the missing device is there")
    monkeypatch.chdir(tmp_path)
    code, out, err = said(capsys, "-m", "hardware=cpu,gpu", "scale=tiny", "--json", "to=out")
    assert (code, out) == (2, "")
    assert err == "harness profile: hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_matched_variant_is_profiled_in_its_new_shape_beside_the_published_one(capsys, tmp_path, monkeypatch, compose):
    monkeypatch.chdir(tmp_path)
    measured = []
    monkeypatch.setattr(profile, "TIMING", ("flops",))
    monkeypatch.setattr(profile, "FIRST_ROUND", ("sizes",))
    monkeypatch.setattr(profile, "render", lambda columns: measured.append(columns) or "")
    code, out, err = said(capsys, "rounds=1", "model=base,albert", "match=none,params", *TINY, "hardware.threads=1")
    assert (code, err) == (0, "")
    columns = {label: one for label, one in measured[0].items() if label != profile.AGAIN}
    parameters = {label: one.history("sizes")["model/params_total"][0] for label, one in columns.items()}
    assert [label.partition(" vocab")[0] for label in parameters] == ["base", "albert", "albert (params as base)"]
    base, published, resized = parameters.values()
    assert abs(resized / base - 1) < 0.05 < abs(published / base - 1)
    assert "- albert (params as base) " in out
    assert "of base; as published 238 k parameters" in " ".join(out.split())
    assert not (tmp_path / "multirun").exists()


@pytest.mark.long
def test_columns_are_named_by_what_differs(compose):
    (config,) = compose("scale=tiny", "task=bag", "hardware.threads=1")
    longer = replace(config, measure=replace(config.measure, length=32))
    assert list(profile.labelled([config, longer])) == ["base measure.length=128", "base measure.length=32"]
    assert list(profile.labelled([config, replace(config, scale_name="mini")])) == ["base tiny", "base mini"]
    assert list(profile.labelled([config, replace(config, arm="windowed")])) == ["base", "windowed"]
    assert list(profile.labelled([config, replace(config, seed=2)])) == ["base"]


def test_each_arm_is_composed_once(monkeypatch):
    """Three seeds are of what trains."""
    calls = []
    monkeypatch.setattr(compose, "main", lambda *_, **options: calls.append(options["replicates"]) or 0)
    assert main(["profile", "-m", "model=base,albert", "scale=tiny"]) == 0
    assert calls == [False]
