"""`python -m harness describe scales`: one variant at every scale, counted and with factors."""

import re
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.measure import flops, size
from harness.models.heads import on_meta
from harness.plugins.explain import describe
from harness.terminal import WIDTH

SCALES = sorted(path.stem for path in (Path(__file__).parents[3] / "conf" / "scale").glob("*.yaml"))


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["describe", "scales", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def _few(monkeypatch):
    """Some of the scales: each takes its time."""
    monkeypatch.setattr(describe, "names", lambda config_dir: ["mini", "mini_bert", "tiny"])


def columns(out: str) -> dict[str, list[str]]:
    lines = [re.split(r"\s{2,}", line) for line in out.splitlines()[4:]]
    return {name.removesuffix(" *"): rest for name, *rest in lines[: len(SCALES)]}


@pytest.mark.long
def test_every_scale_has_its_counts_and_factors_against_the_current_one(capsys, compose):
    code, out, _ = said(capsys, "model=albert", "scale=tiny", "measure.length=32")
    assert code == 0
    assert out.splitlines()[0] == "albert at every scale, factors against tiny (*)"
    assert "GFLOP: forward pass over one text of 32 tokens (measure.length)" in out.splitlines()
    assert "-: " not in out
    assert max(map(len, out.splitlines())) <= WIDTH
    rows = columns(out)
    assert sorted(rows) == SCALES
    assert rows["tiny"][3] == rows["tiny"][7] == "1x"
    for name in ("tiny", "mini"):
        (config,) = compose("model=albert", f"scale={name}", "task=bag")
        model = on_meta(config.model, 2)
        assert rows[name][:2] == [str(config.model.depth), str(config.model.hidden_size)]
        assert rows[name][2] == f"{size.count(model) / 1e6:,.2f} M"
        assert rows[name][5] == f"{size.count(model.encoder.layers) / 1e6:,.2f} M"
        assert rows[name][6] == f"{flops.counted(flops.Shape(config.model, 2, 1, 32), backward=False) / 1e9:,.3f}"
    totals = [float(row[2].removesuffix(" M")) for row in rows.values()]
    assert totals == sorted(totals)


@pytest.mark.long
@pytest.mark.usefixtures("_few")
def test_scale_that_takes_fewer_tokens_has_a_dash(capsys):
    _, out, _ = said(capsys, "scale=tiny", "measure.length=100")
    assert columns(out)["mini_bert"][6:] == ["-", "-", "-"]
    assert "-: models of that scale take no text of 100 tokens" in out.splitlines()


@pytest.mark.long
@pytest.mark.usefixtures("_few")
def test_scale_that_does_not_fit_the_model_is_told_and_the_others_are_shown(capsys):
    code, out, _ = said(capsys, "scale=tiny", "model.num_attention_heads=128", "measure.length=16")
    assert code == 0
    assert any(line.startswith("mini_bert: ") and "must be a multiple" in line for line in out.splitlines())
    assert [line.split()[0] for line in out.splitlines()[4:6]] == ["tiny", "mini"]


def test_own_scales_are_listed(tmp_path):
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale" / "mine.yaml").write_text("# @package model\nhidden_size: 96\n")
    assert describe.names(str(tmp_path)) == sorted([*SCALES, "mine"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-m", "model=base,albert"], "describe scales shows one variant, the command line names 2"),
        (["model=albrt"], "did you mean 'albert'?"),
    ],
)
def test_wrong_input_is_one_line(capsys, arguments, expected):
    code, out, err = said(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err


def test_topic_that_does_not_exist_is_told(capsys):
    assert main(["describe", "scale", "model=base"]) == 2
    assert "did you mean 'scales'?" in capsys.readouterr().err
