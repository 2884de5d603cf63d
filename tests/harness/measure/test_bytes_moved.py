"""Bytes that operators move: one linear layer worked by hand, and what is not moved; how many operators there are."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from harness.config.schema import Dtype, HardwareConfig
from harness.hardware.device import Machine
from harness.measure.bytes_moved import MovedBytes, moved_forward
from harness.measure.subject import texts
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier

ROWS, IN, OUT = 6, 16, 10
SMALL = EncoderConfig(vocab_size=5000, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


def bytes_of(call: Callable[[], object]) -> int:
    with torch.no_grad(), MovedBytes() as counter:
        call()
    return counter.total


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("dtype", "width"), [(torch.float32, 4), (torch.bfloat16, 2)], ids=["float32", "bfloat16"])
def test_a_linear_layer_reads_input_weight_and_bias_and_writes_its_output(device, dtype, width):
    layer, given = nn.Linear(IN, OUT, device=device, dtype=dtype), torch.ones(ROWS, IN, device=device, dtype=dtype)
    assert bytes_of(lambda: layer(given)) == width * (ROWS * IN + IN * OUT + OUT + ROWS * OUT)


def test_a_second_operator_reads_again_what_the_first_wrote():
    x = torch.ones(100)
    assert bytes_of(lambda: x + 1.0) == 2 * 400
    assert bytes_of(lambda: (x + 1.0) * 2.0) == 4 * 400


VIEWS = {
    "reshape": lambda x: x.view(10, 10).t()[2:],
    "expand": lambda x: x.expand(50, 100),
    "empty": lambda x: torch.empty_like(x),
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_found_memory_move_nothing(name):
    assert bytes_of(lambda: VIEWS[name](torch.ones(100))) == bytes_of(lambda: torch.ones(100))


def test_an_expanded_tensor_is_read_once():
    x = torch.ones(1, 100)
    assert bytes_of(lambda: x.expand(5, 100) + torch.ones(())) == 400 + 2 * 4 + 5 * 400


def test_a_look_up_reads_the_rows_that_it_takes():
    table, ids = nn.Embedding(1000, 8), torch.zeros(3, dtype=torch.int64)
    assert bytes_of(lambda: table(ids)) == 3 * 8 + 2 * 3 * 8 * 4


def test_an_overwritten_tensor_is_not_read():
    x, y = torch.ones(100), torch.zeros(100)
    assert bytes_of(lambda: x.copy_(y)) == 800
    assert bytes_of(lambda: x.add_(y)) == 1200


def moved(dtype: Dtype, length: int) -> int:
    machine = Machine(HardwareConfig(threads=1, dtype=dtype))
    model = build_classifier(SMALL, 2, seed=0)
    return moved_forward(model, texts(SMALL.vocab_size, length, machine), machine).total


def test_a_forward_pass_reads_every_weight_of_the_layers_and_more_for_more_tokens():
    model = build_classifier(SMALL, 2, seed=0)
    weights = 4 * sum(parameter.numel() for parameter in model.encoder.layers.parameters())
    assert weights < moved(Dtype.fp32, 8) < moved(Dtype.fp32, 64)


def test_bytes_are_those_of_the_arithmetic_of_the_run():
    assert moved(Dtype.bf16, 8) != moved(Dtype.fp32, 8)
    assert moved(Dtype.bf16, 8) == moved(Dtype.bf16, 8)


def test_one_more_operator_is_counted():
    machine = Machine(HardwareConfig(threads=1))
    model, batch = build_classifier(SMALL, 2, seed=0), texts(SMALL.vocab_size, 8, machine)
    before = moved_forward(model, batch, machine).operators
    model.encoder.register_forward_hook(lambda _, __, out: out * 1.0)
    assert moved_forward(model, batch, machine).operators == before + 1
