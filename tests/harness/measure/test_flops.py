"""FLOPs: count and formula agree for every model, and a disagreement is an error."""

from dataclasses import replace

import pytest

from harness.measure import flops
from harness.paths import conf_directory
from models.config import EncoderConfig
from models.heads import TokenClassifier

MODELS = sorted(path.stem for path in conf_directory().glob("model/*.yaml"))
ONE_LAYER = EncoderConfig(
    vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=4096
)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [16, 128, 512])
def test_count_and_formula_agree(compose, name, length):
    (config,) = compose("task=bag", "scale=tiny", f"model={name}")
    for backward in (False, True) if length == 128 else (False,):
        count = flops.counted(config.model, 2, 1, length, backward)
        assert count == pytest.approx(flops.formula(config.model, 2, 1, length, backward), rel=flops.TOLERANCE)


def test_one_layer_equals_the_hand_worked_count():
    T, D, F = 16, 8, 16
    projections = 4 * 2 * T * D * D  # query, key, value, output
    feed_forward = 2 * 2 * T * D * F
    attention = 2 * 2 * T * T * D
    pooler_and_head = 2 * D * D + 2 * D * 2
    assert flops.counted(ONE_LAYER, 2, 1, T, backward=False) == projections + feed_forward + attention + pooler_and_head


def test_a_head_on_every_token_costs_as_often_as_there_are_tokens():
    T, D, F, C = 16, 8, 16, 5
    encoder = 4 * 2 * T * D * D + 2 * 2 * T * D * F + 2 * 2 * T * T * D
    assert flops.counted(ONE_LAYER, C, 1, T, backward=False, head=TokenClassifier) == encoder + T * 2 * D * C


@pytest.mark.parametrize("name", MODELS)
def test_count_and_formula_agree_for_a_head_on_every_token(compose, name):
    (config,) = compose("task=bag", "scale=tiny", f"model={name}")
    for backward in (False, True):
        count = flops.counted(config.model, 13, 2, 64, backward, TokenClassifier)
        expected = flops.formula(config.model, 13, 2, 64, backward, TokenClassifier)
        assert count == pytest.approx(expected, rel=flops.TOLERANCE)


def test_a_batch_costs_its_texts():
    one, many = (flops.counted(ONE_LAYER, 2, size, 16, backward=False) for size in (1, 5))
    assert many == 5 * one


@pytest.mark.parametrize("wrong", [0.95, 1.05])
def test_planted_disagreement_is_an_error_with_both_numbers(monkeypatch, wrong):
    right = flops.formula(ONE_LAYER, 2, 1, 16)
    monkeypatch.setattr(flops, "formula", lambda *_: int(right * wrong))
    with pytest.raises(RuntimeError, match=rf"counted {right} FLOPs, .* gives {int(right * wrong)}"):
        flops.counted(ONE_LAYER, 2, 1, 16, backward=False)


def test_windowed_attention_grows_with_length_and_full_attention_with_its_square():
    def attention(config: EncoderConfig, length: int) -> int:
        rest = flops.counted(replace(config, attention_window=2), 2, 1, 16, backward=False)
        assert rest > 0
        without = 2 * length * 8 * (4 * 8 + 2 * 16) + 2 * 8 * 8 + 2 * 8 * 2
        return flops.counted(config, 2, 1, length, backward=False) - without

    windowed = replace(ONE_LAYER, attention_window=8)
    assert attention(windowed, 2048) == 4 * attention(windowed, 512) == 16 * attention(windowed, 128)
    assert attention(ONE_LAYER, 2048) == 16 * attention(ONE_LAYER, 512)
    assert attention(windowed, 2048) < attention(ONE_LAYER, 2048) / 50


def test_sharing_saves_no_flops():
    deep = replace(ONE_LAYER, num_hidden_layers=4)
    shared = replace(deep, num_hidden_groups=1)
    assert flops.counted(shared, 2, 1, 16, backward=False) == flops.counted(deep, 2, 1, 16, backward=False)
