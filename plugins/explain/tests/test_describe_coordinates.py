"""`python -m harness describe coordinates`: activations over widths as a table and a picture, and what has no such check."""

import pytest

from harness.__main__ import main

SMALL = ["model.hidden_size=32", "model.num_attention_heads=2", "model.intermediate_size=64", "model.num_hidden_layers=1"]


@pytest.mark.long
def test_both_tables_and_the_picture_are_there(capsys, tmp_path):
    assert (
        main(["describe", "coordinates", "recipe=mup", "pretrain=clm", "pretrain.mup_base_width=32", *SMALL, f"to={tmp_path}"])
        == 0
    )
    out = capsys.readouterr().out
    assert out.startswith("mean absolute activations of base")
    for width in ("null", "32"):
        (head,) = (line for line in out.splitlines() if line.startswith(f"pretrain.mup_base_width={width} "))
        assert head.split()[1:] == ["32", "64", "128", "growth"]
    assert [line.split("  ")[0] for line in out.splitlines() if line.startswith("attention")] == ["attention 1"] * 2
    assert (tmp_path / "coordinates.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=deberta"], "pretrain.mup_base_width cannot be combined with model.position=disentangled"),
        (["-m", "model=base,albert"], "describe coordinates shows one variant, the command line names 2: leave -m out"),
        (["pretrain=rtd"], "expected one of them, not pretrain=rtd"),
        (["pretrain=[clm,mlm]"], "expected one of them, not pretrain=clm-mlm"),
    ],
)
def test_what_has_no_such_check_is_one_line(capsys, arguments, message):
    assert main(["describe", "coordinates", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
