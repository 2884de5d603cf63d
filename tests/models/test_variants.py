"""Properties that hold for every variant under conf/model, built from its file at a small scale. B sequences, T tokens."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from variant_files import merged
from variants import VARIANTS

from harness.models.batch import Batch
from harness.models.config import EncoderConfig, Pooling, Position
from harness.models.heads import SequenceClassifier, build_classifier

ROOT = Path(__file__).parents[2]
SMALL = {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 60}
LENGTHS = (40, 27, 9, 1)  # longer than what one block of the narrowest window covers


def small(variant: str, **changes) -> EncoderConfig:
    """The variant's own difference from BERT over small dimensions; its file wins over them, as over a scale."""
    difference = OmegaConf.load(ROOT / "conf" / "model" / f"{variant}.yaml")
    config = merged(SMALL, difference)
    return replace(config, vocab_size=60, pad_token_id=0, **changes)


def batch(lengths: tuple[int, ...] = LENGTHS) -> Batch:
    """Padded texts of one drawn id sequence each, with two token types and two classes."""
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)), generator=generator)[: len(lengths), : max(lengths)]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    types = (torch.arange(max(lengths)) > 5).long().expand(len(lengths), -1)
    return Batch(ids.masked_fill(~mask, 0), types, mask, labels=torch.arange(len(lengths)) % 2)


def built(config: EncoderConfig) -> SequenceClassifier:
    """Weights large enough for every token to matter, outside training."""
    config = replace(config, initializer_range=0.1)
    return build_classifier(config, num_outputs=2, seed=0).eval()


def hidden_of(model: SequenceClassifier, given: Batch) -> torch.Tensor:
    """(B, T, D)."""
    with torch.no_grad():
        return model.encoder(given)


UNREACHED = {
    # It stands in for the hidden tokens of permutation training alone.
    "xlnet": ["encoder.embeddings.mask_embedding"],
    # The classifier reads the first token, and in the last layer that one uses the global projections.
    "longformer": [f"encoder.layers.attentions.3.attention.query_key_value.{kind}" for kind in ("bias", "weight")],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_forward_and_backward_reach_every_parameter(variant):
    model = build_classifier(small(variant), num_outputs=2, seed=0)
    given = batch()
    torch.manual_seed(0)
    loss = model.loss(model(given), given.labels)
    loss.backward()
    assert loss.isfinite()
    unreached = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    allowed = UNREACHED.get(variant, [])
    softmax_ignores = [name for name in unreached if name.endswith("key.bias")]  # a constant for all keys changes no weight
    assert sorted(set(unreached) - set(softmax_ignores)) == allowed
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_is_not_trained_and_its_piece_is_where_a_text_has_it(variant):
    """GPT-2 has no padding piece: what fills up short texts there also ends them."""
    model, given = build_classifier(small(variant), num_outputs=2, seed=0).eval(), batch()
    table = model.encoder.embeddings.token_embedding.weight
    model.loss(model(given), given.labels).backward()
    assert not table.grad[0].any()
    given.input_ids[:, 0] = 0
    model.loss(model(given), given.labels).backward()
    assert table.grad[0].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_output_does_not_depend_on_padding(variant):
    model = built(small(variant))
    together = batch()
    hidden, logits = hidden_of(model, together), model(together)
    for row, length in enumerate(LENGTHS):
        alone = Batch(together.input_ids[row : row + 1, :length], together.token_type_ids[row : row + 1, :length])
        torch.testing.assert_close(hidden[row, :length], hidden_of(model, alone)[0], rtol=0, atol=2e-5)
        torch.testing.assert_close(logits[row], model(alone)[0], rtol=0, atol=2e-5)


CAUSAL = [variant for variant in VARIANTS if small(variant).causal]


@pytest.mark.parametrize("variant", CAUSAL)
def test_causal_ignores_the_future(variant):
    model, given = built(small(variant)), batch((40,))
    changed = replace(given, input_ids=given.input_ids.clone())
    changed.input_ids[:, 20:] = 59 - changed.input_ids[:, 20:] + 5
    torch.testing.assert_close(hidden_of(model, given)[:, :20], hidden_of(model, changed)[:, :20], rtol=0, atol=1e-6)
    assert not torch.allclose(hidden_of(model, given)[:, 20:], hidden_of(model, changed)[:, 20:], atol=1e-3)


WINDOWED = [variant for variant in VARIANTS if small(variant).attention_window and not small(variant).global_tokens]


@pytest.mark.parametrize("variant", WINDOWED)
def test_a_window_as_long_as_the_text_is_full_attention(variant):
    wide = built(small(variant, attention_window=2 * max(LENGTHS)))
    full = built(small(variant, attention_window=None, global_layer_every=None))
    if small(variant).rotary_global_theta is not None:  # a layer without a window would turn by the other angle
        full = built(small(variant, attention_window=4 * max(LENGTHS)))
    torch.testing.assert_close(hidden_of(wide, batch()), hidden_of(full, batch()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_half_precision_stays_near_single_precision(variant):
    """Root mean square difference of the hidden states at an initialisation as trained models start from."""
    model, given = build_classifier(small(variant), num_outputs=2, seed=0).eval(), batch()
    exact = hidden_of(model, given)[given.attention_mask]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = hidden_of(model, given)[given.attention_mask].float()
    assert (half - exact).norm() <= 1e-2 * exact.norm()


@pytest.mark.parametrize("position", list(Position))
def test_every_position_works_with_every_pooling(position):
    models = {pooling: built(small("base", position=position, pooling=pooling)) for pooling in Pooling}
    assert [pooling for pooling, model in models.items() if not model(batch()).isfinite().all()] == []
