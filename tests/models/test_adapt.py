"""What each kind of fine-tuning trains, and that merged matrices of low rank give what they gave beside the weights."""

import copy

import pytest
import torch

from harness.models.adapt import LowRank, adapt, merge
from harness.models.batch import as_batch
from harness.models.config import AdaptationConfig, Body, EncoderConfig, Position, Trains
from harness.models.heads import SequenceClassifier, build_classifier

D, LAYERS, RANK = 16, 3, 4
SHAPE = {"hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 30}
SHAPE |= {"max_position_embeddings": 16, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
IDS = torch.randint(1, 30, (4, 9), generator=torch.Generator().manual_seed(0))


def model(**changes) -> SequenceClassifier:
    return build_classifier(EncoderConfig(**SHAPE | changes), 2, seed=0)


def changed(one: SequenceClassifier, steps: int = 2) -> set[str]:
    """Names of the parameters that training steps change."""
    before = {name: parameter.detach().clone() for name, parameter in one.named_parameters()}
    optimiser = torch.optim.AdamW([p for p in one.parameters() if p.requires_grad], lr=0.1)
    for _ in range(steps):  # the gradient of `down` is 0 in the first one
        one.loss(one(IDS), torch.tensor([0, 1, 1, 0])).backward()
        optimiser.step()
        optimiser.zero_grad()
    return {name for name, parameter in one.named_parameters() if not torch.equal(parameter, before[name])}


ABOVE = {"pooler.dense.weight", "pooler.dense.bias", "head.weight", "head.bias"}


def test_a_probe_changes_what_is_above_the_encoder_alone():
    one = model()
    adapt(one, AdaptationConfig(trains=Trains.head))
    assert changed(one) == ABOVE


def test_bitfit_changes_biases_alone():
    one = model()
    adapt(one, AdaptationConfig(trains=Trains.bitfit))
    names = changed(one)
    assert names >= ABOVE
    assert {name.rpartition(".")[2] for name in names - ABOVE} == {"bias"}
    assert {name for name, _ in one.encoder.named_parameters() if name.endswith(".bias")} == {
        name.removeprefix("encoder.") for name in names - ABOVE
    }


def test_matrices_of_low_rank_are_beside_queries_and_values_and_nothing_else_changes():
    one = model()
    adapt(one, AdaptationConfig(trains=Trains.lora, lora_rank=RANK))
    names = changed(one) - ABOVE
    assert len(names) == 2 * LAYERS
    assert all(".query_key_value.low_rank." in name for name in names)
    assert sum(parameter.numel() for name, parameter in one.named_parameters() if name in names) == LAYERS * 2 * RANK * 2 * D


BODIES = {
    "base": {},
    "disentangled": {"position": Position.disentangled},
    "relative": {"position": Position.relative},
    "encoder and decoder": {"body": Body.encoder_decoder},
    "shared layers": {"num_hidden_groups": 1},
    "global tokens": {"attention_window": 4, "global_tokens": 1},
}


@pytest.mark.parametrize("name", BODIES)
def test_merged_matrices_of_low_rank_give_what_they_gave_beside_the_weights(name):
    one = model(**BODIES[name]).double()
    names, start = list(one.state_dict()), one(IDS).detach()
    adapt(one, AdaptationConfig(trains=Trains.lora, lora_rank=RANK))
    added = [module for module in one.modules() if isinstance(module, LowRank)]
    assert [module.up.count_nonzero().item() for module in added] == [0] * len(added) != []
    torch.testing.assert_close(one(IDS), start, rtol=0, atol=1e-12)  # the last bits follow the processor and the memory
    assert changed(one)
    trained = one(IDS).detach()
    assert not torch.allclose(trained, start, atol=1e-3)
    merge(one)
    torch.testing.assert_close(one(IDS), trained, rtol=1e-6, atol=1e-6)
    assert list(one.state_dict()) == names
    assert not any(isinstance(module, LowRank) or module._forward_hooks for module in one.modules())
    assert all(parameter.requires_grad for parameter in one.parameters())


def test_keys_stay_as_they_are():
    one = model()
    start = one.encoder.layers.attentions[0].attention.query_key_value.weight.detach().clone()
    adapt(one, AdaptationConfig(trains=Trains.lora, lora_rank=RANK))
    changed(one)
    merge(one)
    end = one.encoder.layers.attentions[0].attention.query_key_value.weight
    assert [torch.equal(*pair) for pair in zip(start.chunk(3), end.chunk(3), strict=True)] == [False, True, False]


def test_a_copy_is_independent_of_its_original():
    one = model()
    adapt(one, AdaptationConfig(trains=Trains.lora))
    other = copy.deepcopy(one)
    changed(other)
    assert not torch.equal(other(IDS), one(IDS))
    merge(other)
    assert torch.equal(one(IDS), model()(IDS))


def test_adapting_twice_is_adapting_once():
    one = model()
    for _ in range(2):
        adapt(one, AdaptationConfig(trains=Trains.lora))
    assert sum(isinstance(module, LowRank) for module in one.modules()) == LAYERS
    assert len(changed(one) - ABOVE) == 2 * LAYERS


@pytest.mark.parametrize("layers", range(LAYERS + 1))
@pytest.mark.parametrize("trains", [Trains.all, Trains.bitfit, Trains.lora])
def test_frozen_layers_and_embeddings_are_bit_equal_and_all_others_change(trains, layers):
    one, options = model(), AdaptationConfig(trains=trains, freeze_layers=layers)
    if layers == LAYERS and trains is not Trains.all:
        with pytest.raises(ValueError, match=f"finetune.trains={trains.value}: no .* of the encoder are left to train"):
            adapt(one, options)
        return
    adapt(one, options)
    found = {name for name in changed(one) if name.startswith("encoder.")}
    assert {name.split(".")[3] for name in found} == {str(layer) for layer in range(layers, LAYERS)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position": Position.bucketed},
        {"position": Position.bucketed, "body": Body.encoder_decoder},
        {"position": Position.disentangled},
    ],
    ids=str,
)
def test_frozen_layers_give_what_they_gave_although_all_read_one_table_of_positions(changes):
    one, batch = model(**changes), as_batch(IDS)
    adapt(one, AdaptationConfig(freeze_layers=2))
    before = [hidden.detach().clone() for hidden in one.encoder.hidden_states(batch)]
    changed(one)
    same = [torch.equal(*pair) for pair in zip(before, one.encoder.hidden_states(batch), strict=True)]
    assert same == [True] * 3 + [False] * (len(before) - 3)


def test_a_decoder_trains_its_table_of_positions_above_frozen_layers_of_the_encoder():
    one = model(position=Position.bucketed, body=Body.encoder_decoder)
    adapt(one, AdaptationConfig(freeze_layers=2))
    assert {name for name in changed(one) if ".bias.bias." in name} == {"encoder.layers.decoder.stack.bias.bias.weight"}


def test_the_same_seed_gives_the_same_matrices():
    ones = [model() for _ in range(3)]
    for one, seed in zip(ones, (1, 1, 2), strict=True):
        adapt(one, AdaptationConfig(trains=Trains.lora), seed)
    downs = [one.encoder.layers.attentions[1].attention.query_key_value.low_rank.down for one in ones]
    assert torch.equal(downs[0], downs[1])
    assert not torch.equal(downs[0], downs[2])
    assert 0 < float(downs[0].detach().abs().max()) <= D**-0.5


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"freeze_layers": 4}, "finetune.freeze_layers=4 is more than the 3 layers of the model"),
        ({"num_hidden_groups": 1}, {"freeze_layers": 1}, "layers above share the weights of the frozen ones"),
        ({"body": Body.lstm}, {"trains": Trains.lora}, "no queries and values"),
    ],
)
def test_what_cannot_be_trained_so_is_refused(changes, options, message):
    with pytest.raises(ValueError, match=message):
        adapt(model(**changes), AdaptationConfig(**options))


@pytest.mark.parametrize("rank", [2, 4, 16])
def test_what_is_added_is_scaled_by_8_over_the_rank(rank):
    """arXiv:2106.09685, section 4.1."""
    linear = torch.nn.Linear(D, 3 * D)
    added = LowRank(linear, (2,), 3, rank)
    inputs, plain = torch.randn(5, D), linear.bias + 0.0
    with torch.no_grad():
        added.down.normal_()
        added.up.normal_()
        plain = torch.nn.functional.linear(inputs, linear.weight, linear.bias)
        difference = linear(inputs) - plain
    torch.testing.assert_close(difference[:, 2 * D :], 8 / rank * inputs @ (added.up[0] @ added.down[0]).T)
    assert not difference[:, : 2 * D].any()


def test_bitfit_trains_the_bias_vectors_of_relative_attention():
    one = model(position=Position.relative, type_vocab_size=0)
    adapt(one, AdaptationConfig(trains=Trains.bitfit))
    vectors = {name for name, _ in one.encoder.named_parameters() if name.endswith("_bias")}
    assert vectors
    assert vectors <= {name for name, parameter in one.encoder.named_parameters() if parameter.requires_grad}
