"""`python -m harness describe numpy`: every stage in NumPy, equal to torch, and a training with its curve."""

import re
from pathlib import Path

import pytest

SMALL = ["model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=32", "model.num_hidden_layers=3"]


@pytest.mark.long
@pytest.mark.parametrize("shared", [[], ["model.num_hidden_groups=1"]])
def test_numpy_and_torch_have_the_same_stages_and_the_same_training(said, shared):
    out = said("describe", "numpy", *SMALL, *shared, "text=The old man saw it.", "to=.")
    assert "one text of 8 tokens" in out
    assert re.search(r"weights, softmax of q k / √K +1 × 2 × 8 × 8 ", out)
    apart = [float(number) for number in re.findall(r"(\d+e-\d+)$", out, re.MULTILINE)]
    assert len(apart) == 1 + 3 + 1  # embeddings, layers, scores
    assert max(apart) < 1e-10
    losses = [line.split() for line in out.splitlines() if re.fullmatch(r" *\d+( +\d\.\d{3}){2}", line)]
    assert [int(step) for step, *_ in losses] == [*range(0, 101, 10)]
    assert all(ours == theirs for _, ours, theirs in losses)
    assert float(losses[-1][1]) < float(losses[0][1]) - 0.5
    assert Path("numpy.png").is_file()
