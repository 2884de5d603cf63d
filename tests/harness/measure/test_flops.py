"""FLOPs: count and formula agree for every model, and a disagreement is an error."""

import math
from dataclasses import astuple, replace

import pytest
import torch
from torch import nn
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode
from variant_files import variant

from harness.config.schema import MeasureConfig, ModelConfig, RunConfig
from harness.errors import InputError
from harness.measure import flops
from harness.measure.flops import Shape
from harness.models import layers
from harness.models.config import Body, EncoderConfig
from harness.models.heads import SequenceClassifier, TokenClassifier
from harness.models.recurrent import Direction
from harness.paths import conf_directory
from harness.study import execute
from harness.tracking.run_log import Reader, RunLog

MODELS = sorted(path.stem for path in conf_directory().glob("model/*.yaml"))
ONE_LAYER = EncoderConfig(
    vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=4096
)


def test_one_layer_equals_the_hand_worked_count():
    T, D, F = 16, 8, 16
    projections = 4 * 2 * T * D * D  # query, key, value, output
    feed_forward = 2 * 2 * T * D * F
    attention = 2 * 2 * T * T * D
    pooler_and_head = 2 * D * D + 2 * D * 2
    assert flops.counted(Shape(ONE_LAYER, 2, 1, T), backward=False) == projections + feed_forward + attention + pooler_and_head


def test_a_head_on_every_token_costs_as_often_as_there_are_tokens():
    T, D, F, C = 16, 8, 16, 5
    encoder = 4 * 2 * T * D * D + 2 * 2 * T * D * F + 2 * 2 * T * T * D
    assert flops.counted(Shape(ONE_LAYER, C, 1, T, TokenClassifier), backward=False) == encoder + T * 2 * D * C


@pytest.mark.long
@pytest.mark.parametrize("head_size", [6, 40])
@pytest.mark.parametrize(
    "name", ["base", "modern", "longformer", "encoder_decoder", "t5", "deberta", "deberta_v3", "transformer_xl", "xlnet"]
)
def test_count_and_formula_agree_for_heads_of_another_size(name, head_size):
    shape = variant(name, num_attention_heads=3, head_size=head_size)
    assert shape.attention_width == 3 * head_size
    count = flops.counted(Shape(shape, 2, 1, 128), backward=False)
    assert count == flops.formula(Shape(shape, 2, 1, 128), backward=False)


@pytest.mark.parametrize("wrong", [0.95, 1.05])
def test_planted_disagreement_is_an_error_with_both_numbers(monkeypatch, wrong):
    right = flops.formula(Shape(ONE_LAYER, 2, 1, 16))
    monkeypatch.setattr(flops, "formula", lambda *_: int(right * wrong))
    with pytest.raises(RuntimeError, match=rf"counted {right} FLOPs, .* gives {int(right * wrong)}"):
        flops.counted(Shape(ONE_LAYER, 2, 1, 16), backward=False)


UNLIKE = ["base", "deberta_v3", "encoder_decoder", "longformer", "static", "transformer_xl", "xlnet"]
"""One of each way that cost depends on the length, and on what a batch shares; the others differ in sizes alone."""
GRID = [*((name, 64) for name in MODELS), *((name, length) for name in UNLIKE for length in (16, 512)), ("bilstm", 16)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "length"), GRID)
def test_count_and_formula_agree(name, length):
    """Backwards at one length of each; for the LSTM, which is counted step by step, at the short one."""
    shape = variant(name)
    for backward in (False, True) if length == (16 if name == "bilstm" else 64) else (False,):
        count = flops.counted(Shape(shape, 2, 1, length), backward)
        assert count == pytest.approx(flops.formula(Shape(shape, 2, 1, length), backward), rel=flops.TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize("name", UNLIKE)
def test_count_and_formula_agree_for_a_head_on_every_token(name):
    shape = variant(name)
    for backward in (False, True):
        count = flops.counted(Shape(shape, 13, 2, 64, TokenClassifier), backward)
        expected = flops.formula(Shape(shape, 13, 2, 64, TokenClassifier), backward)
        assert count == pytest.approx(expected, rel=flops.TOLERANCE)


WINDOWED = [name for name in MODELS if "attention_window" in (conf_directory() / "model" / f"{name}.yaml").read_text()]


@pytest.mark.long
@pytest.mark.parametrize("name", WINDOWED)
def test_count_and_formula_agree_under_and_over_the_window(name):
    shape = replace(variant(name), max_position_embeddings=4098)
    window = shape.attention_window
    under, over = window // 2, 2 * window + 40
    counts = flops.by_length(Shape(shape, 2, 1, 1), [under, over])
    for length in (under, over):
        both = [flops.formula(Shape(shape, 2, 1, length), backward) for backward in (False, True)]
        assert [*astuple(counts[length])] == pytest.approx(both, rel=flops.TOLERANCE)


@pytest.mark.long
def test_by_length_has_each_length_once_and_a_step_costs_three_passes():
    counts = flops.by_length(Shape(ONE_LAYER, 5, 1, 1, TokenClassifier), [16, 24])
    assert list(counts) == [16, 24]
    assert counts[24].forward == flops.counted(Shape(ONE_LAYER, 5, 1, 24, TokenClassifier), backward=False)
    assert counts[24].train_step == pytest.approx(3 * counts[24].forward, rel=0.02)


@pytest.mark.long
def test_a_length_that_the_model_does_not_take_is_an_error():
    with pytest.raises(ValueError, match="5000 tokens exceed"):
        flops.by_length(Shape(ONE_LAYER, 2, 1, 1), [16, 5000])


def unseen(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A product that no counter of operators takes for one."""
    return (x[..., None, :] * weight).sum(dim=-1)


LSTM = replace(ONE_LAYER, body=Body.lstm)


def test_layers_that_the_counter_does_not_see_are_an_error_though_the_formula_forgets_them_too(monkeypatch):
    def states(self: Direction, x: torch.Tensor) -> torch.Tensor:
        return unseen(x, self.weight_ih_l0)[..., : self.hidden_size]

    monkeypatch.setattr(Direction, "states", states)
    monkeypatch.setattr(Direction, "flops", lambda self, length: 0)
    with pytest.raises(RuntimeError, match="counted 0 FLOPs in layers that have 4 matrices"):
        flops.counted(Shape(LSTM, 2, 1, 16), backward=False)


def test_a_counter_that_sees_nothing_is_an_error_though_the_formula_gives_nothing(monkeypatch):
    monkeypatch.setattr(FlopCounterMode, "get_total_flops", lambda self: 0)
    monkeypatch.setattr(flops, "formula", lambda *_: 0)
    with pytest.raises(RuntimeError, match="counted 0 FLOPs, but the formula"):
        flops.counted(Shape(replace(ONE_LAYER, body=Body.static), 2, 1, 16), backward=False)


class Mixer(nn.Module):
    """Mixes tokens and features by a Fourier transform, without weights (arXiv:2105.03824)."""

    def __init__(self, config: EncoderConfig, layer: int = 0) -> None:
        super().__init__()
        self.size = config.hidden_size

    def forward(self, hidden: torch.Tensor, context: object) -> torch.Tensor:
        """(B, T, D) -> (B, T, D)."""
        return torch.fft.fft2(hidden).real

    def flops(self, length: int) -> int:
        """FLOPs of one forward pass over one text."""
        return round(5 * length * self.size * math.log2(length * self.size))

    transform_flops = flops


def fft_flops(shape, dim, *args, out_shape=None, **kwargs) -> int:
    """5 N log2 N of a complex transform; shape and dimensions are those of torch's operator."""
    return round(5 * math.prod(shape) * math.log2(math.prod(shape[place] for place in dim)))


@pytest.fixture
def mixer(monkeypatch):
    """A model whose attention is a Fourier transform."""
    monkeypatch.setattr(layers, "make_attention", Mixer)
    return replace(ONE_LAYER, hidden_size=64, intermediate_size=8)  # the transform is a good share of all FLOPs


@pytest.fixture
def stated():
    """The transform's FLOPs, as the module of such a class registers them."""
    operator = torch.ops.aten._fft_c2c
    flop_counter.register_flop_formula(operator)(fft_flops)
    yield
    del flop_counter.flop_registry[operator]


UNSTATED = r"^the FLOPs of aten\._fft_c2c are unknown: expected a formula, registered by torch.utils.flop_counter"


@pytest.mark.long
@pytest.mark.parametrize("backward", [False, True])
def test_an_operator_of_unknown_flops_is_one_line_and_no_number(mixer, monkeypatch, backward):
    with pytest.raises(InputError, match=UNSTATED):
        flops.counted(Shape(mixer, 2, 1, 16), backward)
    monkeypatch.setattr(Mixer, "flops", lambda self, length: 0)  # a formula that forgets it agrees with the count
    with pytest.raises(InputError, match=UNSTATED):
        flops.counted(Shape(mixer, 2, 1, 16), backward)


def test_no_training_counts_flops_that_are_unknown(mixer):
    with pytest.raises(InputError, match=UNSTATED):
        flops.of_training(SequenceClassifier(mixer, 2))


@pytest.mark.long
def test_flops_that_a_class_states_are_counted(mixer, stated):
    T, D, F = 16, 64, 8
    transform, rest = 5 * T * D * math.log2(T * D), 2 * 2 * T * D * F + 2 * D * D + 2 * D * 2
    assert transform > 5 * flops.TOLERANCE * rest
    assert flops.counted(Shape(mixer, 2, 1, T), backward=False) == transform + rest
    step = 2 * transform + 3 * rest  # the transform has one input, and so one gradient
    assert flops.counted(Shape(mixer, 2, 5, T), backward=True) == pytest.approx(5 * step, rel=1e-9)
    assert flops.of_training(SequenceClassifier(mixer, 2))(5, T) == 5 * step


def test_an_operator_of_another_library_needs_a_formula():
    @torch.library.custom_op("of_a_test::scan", mutates_args=())
    def scan(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    scan.register_fake(torch.empty_like)
    with pytest.raises(InputError, match=r"the FLOPs of of_a_test\.scan are unknown"), flops.counting():
        scan(torch.empty(3, device="meta"))


@pytest.mark.parametrize("product", [lambda x: x @ x[0, 0], lambda x: torch.cdist(x, x), lambda x: torch.linalg.inv(x)])
def test_a_product_that_the_counter_takes_for_nothing_needs_a_formula(product):
    with pytest.raises(InputError, match="are unknown"), flops.counting():
        product(torch.empty(2, 5, 5, device="meta"))


def test_no_layers_may_count_as_nothing():
    static = replace(ONE_LAYER, body=Body.static)
    assert flops.counted(Shape(static, 2, 1, 16), backward=False) == 2 * 8 * 8 + 2 * 8 * 2


def test_flops_of_a_training_are_those_of_its_padded_batches():
    cost = flops.of_training(SequenceClassifier(ONE_LAYER, 2))
    assert cost(5, 16) == pytest.approx(flops.counted(Shape(ONE_LAYER, 2, 5, 16), backward=True), rel=flops.TOLERANCE)
    assert cost(5, 32) > 2 * cost(5, 16)


@pytest.mark.long
def test_a_run_tells_flops_at_every_length_that_the_model_reads(tmp_path):
    shape = ModelConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=64)
    config = RunConfig(model=shape, measure=MeasureConfig(lengths=[64, 16, 128]))
    run_log = RunLog(tmp_path)
    execute._write_lengths(config, Shape(shape, 2, 1, 1), run_log)
    run_log.finish("finished")
    points = {(entry["key"], entry["step"]): entry["value"] for entry in Reader(tmp_path).new_entries()}
    assert {step for _, step in points} == {16, 64}
    for length in (16, 64):
        assert points["scaling/flops_forward", length] == flops.counted(Shape(shape, 2, 1, length), backward=False)
        assert points["scaling/flops_train_step", length] == flops.counted(Shape(shape, 2, 1, length), backward=True)


@pytest.mark.long
def test_global_queries_are_those_of_global_tokens_alone():
    """Of Longformer at base and 128 tokens, all of which its window holds: BERT's products twice over keys and values."""
    T, D, layers = 128, 768, 12
    count = flops.counted(Shape(variant("longformer", "base"), 2, 1, T), backward=False)
    base = flops.counted(Shape(variant("base", "base"), 2, 1, T), backward=False)
    assert count - base == layers * (2 * D * D + 2 * T * 2 * D * D + 2 * 2 * T * D)
    assert count == flops.formula(Shape(variant("longformer", "base"), 2, 1, T), backward=False)
    assert round(count / 1e9, 1) == 26.0
