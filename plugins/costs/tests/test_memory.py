"""The command: the planner's tables from fresh processes, and wrong input in one line."""

from dataclasses import replace

import pytest

from harness import hardware
from harness.__main__ import main
from harness.commands import Command
from harness.config.choices import Dtype
from harness.hardware import facts
from harness.measure.flops import StepFlops
from harness.measure.records import Parts, Peak, StepRequest, TrainingStepMemory
from harness.plugins.costs import memory
from harness.plugins.costs.memory import Probe
from harness.plugins.costs.options import Memory, bytes_of


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["memory", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.long
def test_tables_of_real_processes_with_and_without_checkpointing(capsys):
    hardware = ["hardware.threads=1", "hardware.products=torch"]  # oneDNN keeps some MB for its kernels
    command = ["scale=mini_bert", "model=base", *hardware, "batch_sizes=[8]", "activation_checkpointing=both"]
    code, out, _ = said(capsys, *command)
    assert code == 0
    assert all(fact in out for fact in ("base at scale mini_bert", "64 tokens", "fp32", "1 thread,", "AdamW"))
    rows = [line.split() for line in out.splitlines()]
    parts = {(row[0], row[2]): row[3:] for row in rows if row[:1] in (["measured"], ["formula"])}
    assert len(parts) == 4
    for which in ("no", "yes"):
        assert parts["measured", which][:5] == parts["formula", which][:5]
        weights, gradients, optimiser, activations, total, kernel, sampled = map(float, parts["measured", which])
        assert weights + optimiser + max(gradients, activations) - 1.1 <= kernel <= 1.1 * total + 16
        assert sampled <= kernel + 1.1
    assert float(parts["measured", "yes"][3]) < 0.5 * float(parts["measured", "no"][3])
    price = {row[1]: row[2:] for row in rows if row[:1] == ["8"]}
    assert price["no"][1:4] == ["-", "-", "-"]
    assert price["yes"][-3] == "1.33x"  # of forward and twice as much backward, the forward once more
    for which, more in (("no", 1.0), ("yes", 4 / 3)):
        mfu, hfu = map(float, price[which][-2:])
        assert 0 < mfu < 1
        assert hfu / mfu == pytest.approx(more, rel=0.05)


@pytest.mark.long
def test_what_is_measured_is_the_config_of_a_run(capsys, monkeypatch):
    """With the arithmetic that `auto` stands for, so that no row decides anew."""
    seen = []
    monkeypatch.setattr(facts, "chosen_dtype", lambda hardware: Dtype.bf16)
    monkeypatch.setattr(memory, "measured", lambda request, config: seen.append(config) or ["measured"])
    assert said(capsys, "scale=tiny", "hardware.dtype=auto")[:2] == (0, "measured\n")
    assert [config.hardware.dtype for config in seen] == [Dtype.bf16]


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["activation_checkpointing=maybe"], "choices for `activation_checkpointing`: both, false, true"),
        (["fits=2"], "fits='2' must be a size above 0 with its unit, such as 800MB, 2GB or 1.5GiB\n"),
        (["fits=0GB"], "fits='0GB' must be a size above 0 with its unit"),
        (["fits=900000GB"], "is more than the"),
        (["length=500", "scale=mini_bert"], "measure.length=500 must be at most the 64"),
        (["model=bilstm", "activation_checkpointing=both"], "finetune.activation_checkpointing=true needs layers"),
        (["hardware.compile=true"], "set hardware.compile=false"),
        (["task=minimal_pairs"], "scores a model without a head on the encoder: choose another task"),
    ],
    ids=["mode", "no unit", "nothing", "too much", "too long", "no layers", "compiled", "no head"],
)
def test_wrong_input_is_one_line_and_exit_code_two(capsys, arguments, message):
    code, out, err = said(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_an_absent_gpu_is_refused(capsys):
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("the missing device is there")
    assert main(["memory", "hardware=gpu"]) == 2
    message = "harness memory: hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu\n"
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize("command", ["memory", "profile"])
def test_a_gpu_without_a_driver_is_refused_before_torch_is_loaded(capsys, monkeypatch, command):
    monkeypatch.setattr(hardware, "NODES", ())
    monkeypatch.setattr(Command, "function", lambda _: pytest.fail("the command was imported"))
    assert main([command, "hardware=gpu"]) == 2
    message = f"harness {command}: hardware.device=cuda, but torch sees no CUDA device; choose hardware=cpu\n"
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2_000_000_000), ("1.5GiB", 3 << 29), ("800 MB", 800_000_000), ("4096B", 4096), ("3kb", 3000)],
)
def test_sizes_are_read_with_their_units(text, size):
    assert bytes_of("fits", text) == size


def row(checkpointing: bool, activations: int | None, step_s: float, hardware: int) -> TrainingStepMemory:
    parts = Parts(1_000_000, 1_000_000, 2_000_000, activations)
    peak = Peak(4_000_000 + (activations or 0), None)
    return TrainingStepMemory(
        StepRequest(4, checkpointing),
        parts,
        parts,
        peak,
        step_s,
        StepFlops(3 * 10**9, hardware),
        0.1 if checkpointing else None,
    )


def test_the_price_is_told_against_the_same_batch_without():
    rows = [row(False, 6_000_000, 0.5, 3 * 10**9), row(True, 1_000_000, 0.13, 4 * 10**9)]
    last = memory.price_table(rows).splitlines()[-1].split()
    assert last == ["4", "yes", "130.0", "1.30x", "0.50x", "0.17x", "3.000", "4.000", "1.33x", "-", "-"]


def test_utilisation_of_the_model_and_of_the_device_are_held_against_the_measured_peak():
    """4 GFLOP were done in 0.1 s where a product does 100 GFLOP/s, of which the model needs 3."""
    priced = replace(row(True, 1_000_000, 0.1, 4 * 10**9), peak_flops_per_s=100e9)
    assert memory.price_table([priced]).splitlines()[-1].split()[-2:] == ["0.300", "0.400"]
    too_slow = replace(priced, peak_flops_per_s=35e9)
    assert memory.price_table([too_slow]).splitlines()[-1].split()[-2:] == ["0.857", "-"]


def test_a_missing_number_is_a_dash():
    line = memory.parts_table([row(False, None, 0.1, 1)]).splitlines()[2].split()
    assert line == ["measured", "4", "no", "1.0", "1.0", "2.0", "-", "-", "4.0", "-"]


@pytest.mark.long
def test_both_sides_of_the_border_are_named(compose, monkeypatch):
    (config,) = compose("scale=tiny", "task=bag", "hardware.threads=1")

    def probe(config, step, limit=None):
        return Probe(step.batch_size, replace(row(False, 0, 0.1, 1), peak=Peak(10**6 * step.batch_size)))

    monkeypatch.setattr(memory, "probe", probe)
    *_, last = memory.measured(Memory(batch_sizes=(1,), fits=5_500_000), config)
    assert last == "within 5.5 MB, checkpointing no: batch 5 (peak 5.0 MB) fits, batch 6 (peak 6.0 MB) does not"
