"""A fine-tuning that trains a part of the parameters: what it leaves, and that its costs are of that part."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import in_process
import pytest
import torch

from harness.checkpoints.finetuned import load_finetuned
from harness.config.choices import Keep, Products
from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig
from harness.hardware.device import Machine
from harness.measure import flops, subject
from harness.models.adapt import adapt
from harness.models.config import AdaptationConfig, EncoderConfig, Trains
from harness.models.heads import build_classifier

KINDS = {"all": {}, "lora": {"lora_rank": 4}, "bitfit": {}, "head": {}, "frozen": {"trains": Trains.all, "freeze_layers": 1}}


@pytest.fixture
def done(small_config: RunConfig, tmp_path: Path) -> Callable[..., tuple[RunConfig, dict[str, float], Path]]:
    """Runs the small run with these keys of fine-tuning; its config, its results and its folder."""
    plain = {"max_steps": 3, "keep": Keep.last, "learning_rate": 1e-2}

    def train(**keys: object) -> tuple[RunConfig, dict[str, float], Path]:
        measure = replace(small_config.measure, enabled=False)
        config = replace(small_config, finetune=FinetuneConfig(**plain | keys), measure=measure)
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        return config, in_process.ran(config, folder), folder

    return train


@pytest.mark.long
def test_costs_are_of_what_is_trained_and_the_weights_load_like_any_other(done):
    found = {}
    for name, keys in KINDS.items():
        config, found[name], folder = done(**{"trains": Trains[name] if name in Trains.__members__ else Trains.all} | keys)
        model, _, _ = load_finetuned(folder / "checkpoint")
        start = subject.classifier(replace(config, model=model.encoder.config), config.seed)
        changed = {n for n, p in model.named_parameters() if not torch.equal(p, start.get_parameter(n))}
        above = {n for n, _ in model.named_parameters() if not n.startswith("encoder.")}
        expected = {
            "lora": lambda n: n.endswith("query_key_value.weight"),
            "bitfit": lambda n: n.rpartition(".")[2] == "bias",
            "head": lambda n: False,
            "frozen": lambda n: ".layers." in n and ".1." in n,
        }.get(name)
        if expected:
            assert changed == above | {n for n, _ in model.encoder.named_parameters(prefix="encoder") if expected(n)}
    size, state = "model/params_trainable", "finetune/optimizer_state_bytes"
    assert found["all"][size] == found["all"]["model/params_total"] == found["lora"]["model/params_total"]
    for name, values in found.items():
        tensors = (values[state] - 8 * values[size]) / 4
        assert tensors == int(tensors)
        assert 0 < tensors < 60, name
    order = sorted(KINDS, key=lambda name: found[name]["finetune/flops"])
    assert order == ["head", "frozen", "lora", "bitfit", "all"]  # no gradient goes below the first matrices of low rank


SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "vocab_size": 40}


@pytest.mark.long
@pytest.mark.parametrize("changes", [{}, {"attention_window": 16}], ids=["full", "windowed"])
@pytest.mark.parametrize("options", [{"trains": Trains.lora}, {"trains": Trains.head}, {"freeze_layers": 1}], ids=str)
def test_flops_between_counted_lengths_are_within_a_hundredth_of_counting(changes, options):
    shape, adaptation = EncoderConfig(**SHAPE, max_position_embeddings=100, **changes), AdaptationConfig(**options)
    model = build_classifier(shape, 2, 0)
    adapt(model, adaptation)
    cost = flops.of_training(model)
    for texts, length in ((8, 24), (5, 100)):
        assert cost(texts, length) == pytest.approx(
            flops.counted(flops.Shape(shape, 2, texts, length, adaptation=adaptation), backward=True), rel=0.01
        )


@pytest.mark.long
@pytest.mark.parametrize("trains", [Trains.lora, Trains.head], ids=lambda one: one.value)
def test_a_model_that_multiplies_through_onednn_has_the_same_flops(trains):
    counts = []
    for products in (Products.torch, Products.onednn):
        model = build_classifier(EncoderConfig(**SHAPE), 2, 0)
        Machine(HardwareConfig(threads=1, products=products)).prepare(model)
        adapt(model, AdaptationConfig(trains=trains))
        counts.append(flops.of_training(model)(32, 64))
    assert counts[0] == counts[1] > 0
