"""How far information travels through layers."""

import math

import pytest

from harness.models import config as model_config
from harness.models import reach
from harness.models.config import Body, EncoderConfig
from harness.models.reach import EVERYWHERE, NOWHERE, Reach, depends_on_order, receptive_field

SMALL = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}


def field(**changes) -> Reach:
    return receptive_field(EncoderConfig(**{**SMALL, **changes}))


def test_layers_add_up_and_one_hub_alone_carries_nothing_on():
    assert Reach(4, 0).then(Reach(4, 0)) == Reach(8, 0)
    assert Reach(4, 4, hub=True).then(Reach(1, 2)) == Reach(5, 6, hub=True)
    assert Reach(4, 4, hub=True).then(Reach(4, 4, hub=True)) == Reach(math.inf, math.inf, hub=True)
    assert NOWHERE.then(Reach(1, 2)) == Reach(1, 2)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, EVERYWHERE),
        ({"causal": True}, Reach(math.inf, 0)),
        ({"attention_window": 8}, Reach(12, 12)),
        ({"attention_window": 8, "causal": True}, Reach(12, 0)),
        ({"attention_window": 8, "global_tokens": 1}, Reach(math.inf, math.inf, hub=True)),
        ({"attention_window": 8, "global_tokens": 1, "num_hidden_layers": 1}, Reach(4, 4, hub=True)),
        ({"attention_window": 8, "global_layer_every": 3}, EVERYWHERE),
        ({"body": Body.encoder_decoder}, EVERYWHERE),
        ({"body": Body.static}, NOWHERE),
    ],
)
def test_bodies_state_their_receptive_field(changes, expected):
    assert field(**changes) == expected


class Neighbours:
    """What a package adds: one layer of it reads a token on either side."""

    receptive_field, depends_on_order = Reach(1, 1), False


def test_an_attention_of_a_package_states_its_own_and_reads_everywhere_where_it_does_not(monkeypatch):
    config = EncoderConfig(**SMALL)
    config.attention = "neighbours"
    for module in (model_config, reach):
        monkeypatch.setattr(module, "class_of", lambda key, name: Neighbours)
    assert (receptive_field(config), depends_on_order(config)) == (Reach(3, 3), False)
    for module in (model_config, reach):
        monkeypatch.setattr(module, "class_of", lambda key, name: object)
    assert (receptive_field(config), depends_on_order(config)) == (EVERYWHERE, True)
