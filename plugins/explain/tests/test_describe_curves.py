"""`python -m harness describe activations`, `positions` and `coordinates`: tables and pictures."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from torch.nn import functional as F

from harness.models.config import Activation
from harness.models.layers import ACTIVATIONS
from harness.plugins.explain.describe_curves import POINTS, REACH, curves

SMALL = ["model.hidden_size=32", "model.num_attention_heads=2", "model.intermediate_size=64", "model.num_hidden_layers=1"]


def test_curves_are_those_of_the_models_and_their_slopes():
    x, step, drawn = np.linspace(-REACH, REACH, POINTS), 2 * REACH / (POINTS - 1), curves()
    assert list(drawn) == [activation.value for activation in Activation]
    for activation in Activation:
        values, slopes = drawn[activation.value]
        np.testing.assert_allclose(values, ACTIVATIONS[activation](torch.tensor(x)).numpy(), atol=1e-12)
        smooth = np.abs(x) > 2 * step
        assert np.abs(np.gradient(values, step) - slopes)[smooth][1:-1].max() < 1e-2
    assert drawn["relu"][1][x > 0].min() == 1


@pytest.mark.long
def test_activations_are_a_table_and_the_same_picture_again(said):
    written = []
    for folder in ("one", "two"):
        lines = said("describe", "activations", f"to={folder}").splitlines()
        assert lines[-2:] == [f"{folder}/activations.{ending}" for ending in ("png", "svg")]
        written.append([Path(line).read_bytes() for line in lines[-2:]])
    assert written[0] == written[1]
    assert [line.split()[0] for line in lines[4 : 4 + len(Activation)]] == [activation.value for activation in Activation]
    assert "silu" in Path("two/activations.svg").read_text()


def positions(out: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in out.split("\n\n")[1].splitlines()[2:]]


@pytest.mark.long
def test_learned_positions_are_those_of_the_weights(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 5}
    model = transformers.BertModel(transformers.BertConfig(max_position_embeddings=20, **shape))
    table = torch.randn(20, 16, generator=torch.Generator().manual_seed(0)).cumsum(dim=0)  # neighbours are alike
    model.embeddings.position_embeddings.weight.data.copy_(table)
    model.save_pretrained("bert")
    Path("bert", "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    out = said("describe", "positions", "model.init_from=bert", "to=.")
    learned, sinusoids = positions(out)
    assert learned[:3] == ["learned, of bert", "20 x 16", "320"]
    assert learned[4] == f"{F.cosine_similarity(table[1:], table[:-1]).mean():.3f}"
    assert learned[-2:] == ["-", "-"]  # 32 and 128 places apart
    assert sinusoids[:3] == ["sines and cosines", "20 x 16", "-"]
    assert sinusoids[3] == f"{8**0.5:.3f}"  # sin² + cos² = 1, for each of 8 frequencies
    assert Path(out.splitlines()[-1]).read_text().startswith("<?xml")


@pytest.mark.long
def test_random_positions_know_no_distance_and_sinusoids_do(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    learned, sinusoids = positions(said("describe", "positions", "model=base", "scale=tiny", "to=."))
    assert learned[0] == "learned, before training (seed 0)"
    assert all(abs(float(cosine)) < 0.05 for cosine in learned[4:])
    cosines = [float(cosine) for cosine in sinusoids[4:]]
    assert cosines == sorted(cosines, reverse=True)
    assert cosines[0] > 0.9


@pytest.mark.long
def test_coordinates_have_a_table_a_width_and_a_picture(said):
    out = said("describe", "coordinates", "recipe=mup", "pretrain=clm", "pretrain.mup_base_width=32", *SMALL, "to=.")
    assert out.startswith("mean absolute activations of base")
    for width in ("null", "32"):
        (head,) = (line for line in out.splitlines() if line.startswith(f"pretrain.mup_base_width={width} "))
        assert head.split()[1:] == ["32", "64", "128", "growth"]
    assert [line.split("  ")[0] for line in out.splitlines() if line.startswith("attention")] == ["attention 1"] * 2
    assert Path("coordinates.png").is_file()
