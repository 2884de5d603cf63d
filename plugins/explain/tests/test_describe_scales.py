"""`python -m harness describe scales`: one variant at every scale, counted and with factors."""

import re
from pathlib import Path

import pytest

from harness.measure import flops, size
from harness.models.heads import on_meta
from harness.plugins.explain import describe

SCALES = sorted(path.stem for path in (Path(__file__).parents[3] / "conf" / "scale").glob("*.yaml"))


def columns(out: str) -> dict[str, list[str]]:
    lines = [re.split(r"\s{2,}", line) for line in out.split("\n\n")[1].splitlines()[2:]]
    return {name.removesuffix(" *"): rest for name, *rest in lines}


@pytest.mark.long
def test_every_scale_has_its_counts_and_factors_against_the_current_one(said, compose):
    out = said("describe", "scales", "model=albert", "scale=tiny", "measure.length=32")
    assert out.splitlines()[0] == "albert at every scale, factors against tiny (*)"
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
def test_scale_that_does_not_fit_has_dashes_or_its_reason(said, monkeypatch):
    monkeypatch.setattr(describe, "names", lambda config_dir: ["mini", "mini_bert", "tiny"])
    assert columns(said("describe", "scales", "scale=tiny", "measure.length=100"))["mini_bert"][6:] == ["-", "-", "-"]
    out = said("describe", "scales", "scale=tiny", "model.num_attention_heads=128", "measure.length=16")
    assert any(line.startswith("mini_bert: ") and "must be a multiple" in line for line in out.splitlines())
    assert [*columns(out)] == ["tiny", "mini"]


def test_own_scales_are_listed():
    Path("scale").mkdir()
    Path("scale", "mine.yaml").write_text("# @package model\nhidden_size: 96\n")
    assert describe.names(".") == sorted([*SCALES, "mine"])
