"""Parameters: components add up, sharing is seen once and used often."""

import pytest
import torch
from variant_files import variant

from harness import metrics
from harness.measure import size
from harness.measure.size import components, effective, per_layer, sizes, weights_bytes
from harness.models.config import EncoderConfig
from harness.models.heads import TokenClassifier, build_classifier, on_meta
from harness.paths import conf_directory

MODELS = sorted(path.stem for path in conf_directory().glob("model/*.yaml"))


@pytest.mark.parametrize(
    ("name", "scale"), [*((name, "tiny") for name in MODELS), ("base", "base"), ("albert", "base"), ("modern", "base")]
)
def test_components_add_up_to_the_total(name, scale):
    model = on_meta(variant(name, scale), 2)
    total = sum(parameter.numel() for parameter in model.parameters())
    values = sizes(model)
    assert sum(components(model).values()) == total == values["model/params_total"]
    summands = ("model/params_embedding", "model/params_encoder", "model/params_head")
    assert sum(values[key] for key in summands) == total
    assert set(components(model)) == set(metrics.PARAMETER_COMPONENTS)
    assert set(values) <= set(metrics.METRICS)


@pytest.mark.parametrize("name", MODELS)
def test_components_add_up_with_a_head_on_every_token(name):
    model = on_meta(variant(name), 13, TokenClassifier)
    values = sizes(model)
    assert sum(components(model).values()) == values["model/params_total"] == sum(p.numel() for p in model.parameters())
    assert components(model)["pooler"] == 0
    assert values["model/params_head"] == model.head.weight.numel() + (0 if model.head.bias is None else 13)


def test_components_that_do_not_add_up_are_an_error():
    model = on_meta(EncoderConfig(hidden_size=24), 2)
    model.extra = on_meta(EncoderConfig(hidden_size=24), 2).head
    with pytest.raises(RuntimeError, match="components add up to"):
        sizes(model)


def test_a_shared_layer_counts_once_and_effectively_at_each_use():
    once, apart = (on_meta(EncoderConfig(num_hidden_groups=groups), 2) for groups in (1, None))
    assert components(apart)["layers"] == 12 * components(once)["layers"]
    assert effective(once) == effective(apart) == sizes(apart)["model/params_total"]


def test_bytes_are_those_of_each_dtype():
    model = build_classifier(EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1), 2, seed=0)
    total = 4 * sum(parameter.numel() for parameter in model.parameters())
    assert weights_bytes(model) == total
    head = sum(parameter.numel() for parameter in model.head.parameters())
    model.head.to(torch.bfloat16)
    assert weights_bytes(model) == total - 2 * head
    assert sizes(model)["model/weights_bytes"] == total - 2 * head


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_has_a_row_and_rows_add_up(name):
    model = on_meta(variant(name), 2)
    rows, values = per_layer(model), sizes(model)
    assert [(row["name"], tuple(row["shape"])) for row in rows] == [(n, tuple(p.shape)) for n, p in model.named_parameters()]
    assert sum(row["parameters"] for row in rows) == values["model/params_total"]
    assert sum(row["parameters_as_used"] for row in rows) == values["model/params_effective"]
    assert sum(row["bytes"] for row in rows) == values["model/weights_bytes"]


@pytest.mark.parametrize(("groups", "uses"), [(1, [6, 0]), (2, [3, 3]), (6, [1, 1])])
def test_a_row_says_how_many_layers_use_its_tensor(groups, uses):
    config = EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=6, num_hidden_groups=groups)
    rows = {row["name"]: row for row in per_layer(on_meta(config, 2))}
    names = [f"encoder.layers.feed_forwards.{layer}.feed_forward.input.weight" for layer in range(2)]
    assert [rows[name]["uses"] if name in rows else 0 for name in names] == uses
    assert rows[names[0]]["parameters"] == 24 * 3072
    assert rows[names[0]]["parameters_as_used"] == uses[0] * 24 * 3072
    assert rows["encoder.embeddings.token_embedding.weight"]["uses"] == 1


def test_rows_that_do_not_add_up_are_an_error(monkeypatch):
    model = on_meta(EncoderConfig(hidden_size=24, num_hidden_groups=1), 2)
    monkeypatch.setattr(size, "Counter", lambda used: {})
    with pytest.raises(RuntimeError, match="tensors add up to"):
        per_layer(model)
