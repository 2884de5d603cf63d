"""The bodies that are no plain stack. B sequences, T tokens, D hidden."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn
from variant_files import merged

from harness.models.batch import Batch
from harness.models.config import EncoderConfig, NormPlace, Position
from harness.models.encoder import initialise
from harness.models.heads import Pooler, SequenceClassifier, build_classifier
from harness.models.recurrent import Direction

CONF = Path(__file__).parents[2] / "conf" / "model"
MODELS = ["bilstm", "static", "encoder_decoder"]
SMALL = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}


def published(name: str, **changes) -> EncoderConfig:
    """The model of conf/model at small dimensions, a bilstm with its own depth."""
    file = OmegaConf.load(CONF / f"{name}.yaml")
    return merged(SMALL, file, changes)


def classifier(config: EncoderConfig) -> SequenceClassifier:
    """Large weights, biases and norms included, so that every token matters; outside training."""
    model = build_classifier(config, num_outputs=2, seed=0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def padded_batch(*lengths: int) -> Batch:
    """Texts of these lengths, padded on the right."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, 50, mask.shape, generator=torch.Generator().manual_seed(2))
    return Batch(ids.masked_fill(~mask, 0), attention_mask=mask, labels=torch.arange(len(lengths)) % 2)


def assert_close(one, other, bound=1e-5):
    torch.testing.assert_close(one, other, rtol=0, atol=bound)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("side", ["right", "left", "both"])
def test_padding_changes_nothing_at_real_tokens(name, side):
    """Each text alone, without a mask, against the same text between any number of padded tokens."""
    config = published(name, position=Position.none) if side != "right" else published(name)
    model, batch = classifier(config), padded_batch(11, 7, 1)
    shift = {"right": 0, "left": 5, "both": 3}[side]
    ids, mask = (nn.functional.pad(x, (shift, 5 - shift)) for x in (batch.input_ids, batch.attention_mask))
    ids = torch.where(mask, ids, 17)
    padded = Batch(ids, attention_mask=mask)
    states, logits = model.encoder.hidden_states(padded), model(padded)
    for row, length in enumerate((11, 7, 1)):
        alone = Batch(batch.input_ids[row : row + 1, :length])
        for state, expected in zip(states, model.encoder.hidden_states(alone), strict=True):
            assert_close(state[row, shift : shift + length], expected[0])
        assert_close(logits[row], model(alone)[0])


# Two LSTM directions


def test_unpadded_rows_equal_a_bidirectional_lstm_of_torch():
    model, batch = classifier(published("bilstm")), padded_batch(12, 12)
    body = model.encoder.layers
    reference = nn.LSTM(32, 16, num_layers=2, bidirectional=True, batch_first=True)
    for layer, directions in enumerate(body.execution_order()):
        for direction, suffix in zip(directions, ("", "_reverse"), strict=True):
            for name, value in direction.named_parameters():
                reference.get_parameter(name.replace("_l0", f"_l{layer}") + suffix).data.copy_(value)
    hidden = model.encoder.embeddings(batch)
    assert_close(model.encoder(Batch(batch.input_ids)), reference(hidden)[0])
    assert_close(model.encoder(batch), reference(hidden)[0])


def test_padded_rows_equal_a_loop_over_the_real_tokens():
    model, batch = classifier(published("bilstm", num_hidden_layers=1)), padded_batch(10, 6, 2)
    embedded, (directions,) = model.encoder.embeddings(batch), model.encoder.layers.execution_order()
    output = model.encoder(batch)
    for row, length in enumerate((10, 6, 2)):
        for half, (direction, order) in enumerate(zip(directions, (range(length), reversed(range(length))), strict=True)):
            cell = nn.LSTMCell(32, 16)
            cell.load_state_dict({name.removesuffix("_l0"): value for name, value in direction.state_dict().items()})
            state = None
            for place in order:
                state = cell(embedded[row, place], state)
                assert_close(output[row, place, 16 * half : 16 * (half + 1)], state[0])


def test_counted_loop_computes_what_the_kernel_computes():
    direction, x = Direction(32, 16, batch_first=True), torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(3))
    for parameter in direction.parameters():
        nn.init.normal_(parameter, std=0.5)
    assert_close(direction.step_by_step(x), direction.states(x))
    assert direction.states(x).std() > 0.1


def test_biases_of_an_lstm_start_at_zero():
    model = SequenceClassifier(published("bilstm"), 2)
    initialise(model, 0.02, 0)
    biases = {name: value for name, value in model.named_parameters() if "bias" in name}
    assert len(biases) == 9
    assert not any(value.any() for value in biases.values())


def test_mask_of_rows_and_columns_is_refused_by_an_lstm():
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"model\.body=lstm .* attention_mask must be \(B, T\)"):
        classifier(published("bilstm")).encoder(Batch(torch.ones(1, 4, dtype=torch.int64), attention_mask=mask))


# Nothing


def test_static_vector_is_the_mean_of_its_tokens():
    config = published("static")
    model, ids = classifier(config), torch.tensor([[3, 4, 4, 0]])
    pooled = Pooler(config)(model.encoder(Batch(ids)), ids != 0)
    vectors = model.encoder.embeddings.token_embedding.weight
    assert_close(pooled[0], (vectors[3] + 2 * vectors[4]) / 3)


# Encoder and decoder


def test_decoder_ignores_later_tokens_given_what_the_encoder_says():
    model, batch = classifier(published("encoder_decoder")), padded_batch(9)
    body, hidden = model.encoder.layers, model.encoder.embeddings(batch)
    *_, encoded = body.encoder(hidden, batch)
    changed = hidden.clone()
    changed[:, 5] += 1
    (*_, one), (*_, other) = (body.decoder(own, batch, encoded, batch.attention_mask) for own in (hidden, changed))
    assert torch.equal(one[:, :5], other[:, :5])
    assert ((one - other)[:, 5:].abs().amax(-1) > 1e-3).all()
    *_, through_encoder = body(changed, batch)
    assert ((one - through_encoder)[:, :5].abs().amax(-1) > 1e-4).all()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("place", list(NormPlace))
def test_encoder_and_decoder_equal_torch_transformer_of_the_same_weights(place):
    config = replace(published("encoder_decoder"), norm_place=place, layer_norm_eps=1e-5)
    model, batch = classifier(config), padded_batch(11, 7, 2)
    reference = nn.Transformer(32, 4, 3, 3, 48, 0.0, batch_first=True, norm_first=place is NormPlace.pre)
    if place is NormPlace.post:
        reference.encoder.norm = reference.decoder.norm = None
    reference.load_state_dict(torch_names(model.encoder.layers.state_dict()))
    reference.train()  # its fast path is for evaluation
    hidden, hidden_tokens = model.encoder.embeddings(batch), ~batch.attention_mask
    later = torch.ones(11, 11, dtype=torch.bool).triu(1)
    paddings = dict.fromkeys(("src", "tgt", "memory"), hidden_tokens)
    paddings = {f"{name}_key_padding_mask": value for name, value in paddings.items()}
    expected = reference(hidden, hidden, tgt_mask=later, **paddings)
    assert_close(model.encoder(batch)[batch.attention_mask], expected[batch.attention_mask])


def torch_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Names of EncoderDecoder -> names of nn.Transformer."""
    renamed: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        parts = name.replace("decoder.stack.", "decoder.").split(".")
        side, kind = parts[0], parts[1]
        if kind == "norm":
            renamed[f"{side}.norm.{parts[2]}"] = value
            continue
        prefix, suffix = f"{side}.layers.{parts[2]}", parts[-1]
        attention = "multihead_attn" if kind == "crosses" else "self_attn"
        last = {"attentions": 1, "crosses": 2, "feed_forwards": 3 if side == "decoder" else 2}[kind]
        own = ".".join(parts[3:-1])
        if own == "norm":
            renamed[f"{prefix}.norm{last}.{suffix}"] = value
        elif own.startswith("feed_forward."):
            renamed[f"{prefix}.{'linear1' if own.endswith('input') else 'linear2'}.{suffix}"] = value
        elif own.endswith("output"):
            renamed[f"{prefix}.{attention}.out_proj.{suffix}"] = value
        else:
            key = f"{prefix}.{attention}.in_proj_{suffix}"
            earlier = [renamed[key]] if key in renamed else []
            renamed[key] = torch.cat([*earlier, value])  # the query's rows come before those of keys and values
    return renamed
