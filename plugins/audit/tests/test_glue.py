"""`python -m harness audit --glue`: what the paper on BERT states, beside finished runs."""

import re
from statistics import fmean

import pytest

from harness import tags
from harness.__main__ import main
from harness.comparison.runs import Run
from harness.metrics import METRICS
from harness.plugins.audit.glue import ROWS, TABLE, best, compared

PRINTED_MEAN = {"before GPT": 74.0, "ELMo": 71.0, "GPT": 75.1, "BERT-base": 79.6, "BERT-large": 82.1}
"""The last column of the same table of the paper."""


def finished(arm: str, value: float, task: str = "mrpc", metric: str = "eval/f1", **more: str) -> Run:
    return Run("", "", 0, {tags.TASK: task, tags.ARM: arm, tags.SCALE: "mini", **more}, {}, {metric: value})


def test_rows_have_the_mean_that_the_paper_prints():
    for place, system in enumerate(TABLE["systems"]):
        assert fmean(row["stated"][place] for row in ROWS) == pytest.approx(PRINTED_MEAN[system], abs=0.06)
    assert all(f"eval/{row['metric']}" in METRICS for row in ROWS)


def test_best_arm_is_by_the_mean_of_its_runs():
    runs = [finished("base", 0.9), finished("base", 0.7), finished("albert", 0.85), finished("other", 0.99, task="rte")]
    runs += [finished("base", 1.0, **{tags.REPLICATE: "true"}), finished("no_f1", 1.0, metric="eval/accuracy")]
    assert best(runs, "mrpc", "eval/f1") == ("85.0", "albert, mini, 1 run")
    assert best(runs[:2], "mrpc", "eval/f1") == ("80.0", "base, mini, 2 runs")
    assert best(runs, "cola", "eval/matthews") == ("-", "-")


def test_table_has_stated_and_measured_points_side_by_side(tmp_path, capsys):
    line = next(line for line in compared([finished("base", 0.8)]).splitlines() if line.startswith("MRPC"))
    assert re.split(r"\s{2,}", line) == ["MRPC (F1)", "86.0", "84.9", "82.3", "88.9", "89.3", "80.0", "base, mini, 1 run"]
    assert main(["audit", "--glue", f"output={tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "93.5" in next(line for line in out.splitlines() if line.startswith("SST-2"))
    assert "arXiv:1810.04805, table 1, page 6" in out
    assert main(["audit", "--glue", "claims=bert_lesson"]) == 2
    assert "--glue shows no claims" in capsys.readouterr().err
