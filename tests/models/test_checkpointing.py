"""Activation checkpointing: the same gradients, with the same dropout, for less that is kept."""

import pytest
import torch

from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, NormPlace, Position
from harness.models.encoder import set_activation_checkpointing
from harness.models.heads import build_classifier

SMALL = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
SMALL |= {"max_position_embeddings": 32, "hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}
VARIANTS = {
    "bert": {},
    "without dropout": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "one shared layer": {"num_hidden_groups": 1},
    "pre-norm, rotary, windowed": {"norm_place": NormPlace.pre, "position": Position.rotary, "attention_window": 4},
    "learned bias": {"position": Position.bucketed},
    "disentangled": {"position": Position.disentangled},
    "relative": {"position": Position.relative},
    "encoder and decoder": {"body": Body.encoder_decoder},
}


def batch() -> Batch:
    mask = torch.arange(20)[None] < torch.tensor([[20], [13]])
    return Batch(input_ids=torch.arange(40).view(2, 20), attention_mask=mask)


def gradients(changes: dict, wanted: bool) -> dict[str, torch.Tensor]:
    model = build_classifier(EncoderConfig(**{**SMALL, **changes}), 2, seed=0).train()
    set_activation_checkpointing(model, wanted)
    torch.manual_seed(7)
    model.loss(model(batch()), torch.tensor([0, 1])).backward()
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_are_the_same(name):
    plain, again = (gradients(VARIANTS[name], wanted) for wanted in (False, True))
    assert plain.keys() == again.keys()
    for key, value in plain.items():
        assert torch.equal(value, again[key]), key


def runs(wanted: bool, work: str, body: Body = Body.transformer) -> int:
    """How often a layer's feed-forward runs."""
    model = build_classifier(EncoderConfig(**SMALL, body=body), 2, seed=0).train()
    set_activation_checkpointing(model, wanted)
    seen = []
    for block in [block for blocks in model.encoder.layers.execution_order() for block in blocks]:
        block.register_forward_pre_hook(lambda *_: seen.append(1))
    if work == "train":
        model(batch()).sum().backward()
    else:
        with torch.no_grad():
            model(batch())
    return len(seen)


def test_every_layer_is_computed_a_second_time_where_it_is_wanted():
    assert runs(False, "train") == 2 * 3
    assert runs(True, "train") == 2 * runs(False, "train")
    assert runs(True, "train", Body.encoder_decoder) == 2 * runs(False, "train", Body.encoder_decoder)


def test_nothing_is_computed_twice_without_gradients():
    assert runs(True, "answer") == runs(False, "answer") == 2 * 3


@pytest.mark.parametrize("body", [Body.lstm, Body.static])
def test_a_model_without_such_layers_is_refused(body):
    model = build_classifier(EncoderConfig(**SMALL, body=body, position=Position.none), 2, seed=0)
    set_activation_checkpointing(model, False)
    with pytest.raises(ValueError, match="activation_checkpointing=true"):
        set_activation_checkpointing(model, True)
