"""The GPU benchmark with tiny shapes on the CPU."""

import gpu
import pytest
import torch

from harness.config.choices import Dtype
from harness.config.schema import HardwareConfig

MACHINE = HardwareConfig(dtype=Dtype.bf16, threads=1)


def test_attention_runs_on_the_cpu_and_has_no_memory_of_a_gpu():
    rows = gpu.attention_figures(gpu.Machine(MACHINE), gpu.TINY, gpu.TINY.lengths[0])
    assert [row["unit"] for row in rows] == ["x", "ms", "ms"]


@pytest.mark.long
@pytest.mark.parametrize("phase", ["fine-tuning", "pretraining"])
def test_our_side_trains(phase):
    side = gpu.Ours(gpu.Machine(MACHINE), gpu.TINY, phase, 16, 2, compiled=False)
    side.warm_up()
    assert side.tokens_per_s() > 0
    assert side.flops_per_token > 6 * gpu.TINY.shape.hidden_size**2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's compiler itself
def test_everything_runs_with_tiny_shapes():
    rows, problems = gpu.measure("cpu", gpu.TINY, 600)
    assert problems == []
    names = [row["name"] for part in rows.values() for row in part]
    assert "fine-tuning, 16 tokens: ours, compiled / Trainer, compiled" in names


def test_parts_that_no_time_is_left_for_are_named():
    rows, problems = gpu.measure("cpu", gpu.TINY, -1)
    assert rows == {}
    assert all(problem["why"].startswith("left out") for problem in problems)
    assert len(problems) == len(gpu.ARITHMETIC) + 2 * len(gpu.TINY.batches) + len(gpu.TINY.lengths)


def test_parts_are_chosen_by_a_text_in_their_name():
    _, problems = gpu.measure("cpu", gpu.TINY, -1, ["changes, bf16", "16 tokens"])
    assert [problem["part"] for problem in problems] == [
        *("changes, bf16", "changes, bf16 weights", "fine-tuning, 16 tokens", "pretraining, 16 tokens")
    ]


@pytest.mark.long
def test_changed_encoders_are_those_of_the_experiment():
    shapes = gpu.changed()
    assert shapes[gpu.NONE].num_hidden_layers == 6
    assert shapes["half_depth"].depth == 3
    assert shapes["window_64"].attention_window == 64
    assert len(shapes) == 11


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert gpu.main() == 2
    assert capsys.readouterr().err.count("\n") == 1
