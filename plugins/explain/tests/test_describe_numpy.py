"""`python -m harness describe numpy`: every stage in NumPy, equal to torch, and a training with its curve."""

import re

import pytest

from harness.__main__ import main

SMALL = ["model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=32", "model.num_hidden_layers=3"]


@pytest.mark.long
@pytest.mark.parametrize("shared", [[], ["model.num_hidden_groups=1"]])
def test_numpy_and_torch_have_the_same_stages_and_the_same_training(capsys, tmp_path, shared):
    assert main(["describe", "numpy", *SMALL, *shared, "text=The old man saw it.", f"to={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "one text of 8 tokens" in out
    assert re.search(r"weights, softmax of q k / √K +1 × 2 × 8 × 8 ", out)
    apart = [float(found) for found in re.findall(r"(\d+e-\d+)$", out, re.MULTILINE)]
    assert len(apart) == 1 + 3 + 1  # embeddings, layers, scores
    assert max(apart) < 1e-10
    losses = [line.split() for line in out.splitlines() if re.fullmatch(r" *\d+( +\d\.\d{3}){2}", line)]
    assert [int(step) for step, *_ in losses] == [*range(0, 101, 10)]
    assert all(ours == theirs for _, ours, theirs in losses)
    assert float(losses[-1][1]) < float(losses[0][1]) - 0.5
    assert (tmp_path / "numpy.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["model=windowed"],
            "describe numpy is written out for BERT: model.attention_window has another value; expected model=base",
        ),
        (["model=modern"], "expected model=base"),
        (["-m", "model=base,shared"], "describe numpy shows one variant, the command line names 2: leave -m out"),
        (["text= "], "text= has no words"),
        (
            ["text=a b c d", "model.max_position_embeddings=8", "task.max_length=8"],
            "tokens, model.max_position_embeddings holds 8",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_line(capsys, arguments, message):
    assert main(["describe", "numpy", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
