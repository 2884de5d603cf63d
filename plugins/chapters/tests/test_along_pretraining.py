"""The score along pretraining: one line an arm, through the points that fine-tuning started from."""

import pytest

from harness.comparison import compare as comparing
from harness.plugins.chapters import along
from harness.reports import render
from harness.reports.reading.study import Study

POINTS = {"at=500000": "500000.0", "at=1e6": "1000000.0", "": "None"}
SCORES = {("base", "500000.0"): 0.5, ("base", "1000000.0"): 0.6, ("base", "None"): 0.7}


def fine_tuned(make_run, arm: str = "base+mlm", objective: str = "mlm"):
    """Two seeds from each of three points of a pretraining on 4 M tokens."""
    runs = []
    for suffix, at in POINTS.items():
        for seed in (0, 1):
            params = {"pretrain.at": at, "pretrain.tokens": "4000000.0", "pretrain.objective": objective}
            score = SCORES["base", at] + 0.02 * seed
            tags = {"task": "sst2", "lifted": '["pretrain.at"]'}
            runs.append(make_run(f"{arm} {suffix}".strip(), seed, {"eval/score": score}, params, **tags))
    return runs


def test_a_line_goes_through_the_scores_of_all_points_and_seeds(make_run):
    (section,) = comparing.compare("s", fine_tuned(make_run)).sections
    assert along.points_of(section) == {"base+mlm": {500000.0: [0.5, 0.52], 1000000.0: [0.6, 0.62], 4000000.0: [0.7, 0.72]}}


@pytest.mark.long
def test_the_chapter_has_the_picture_only_where_there_are_several_points(make_run):
    runs = fine_tuned(make_run)
    files = render.render(Study(comparing.compare("s", runs)))
    report = files["report.md"].decode()
    assert report.index("](along_pretraining.svg)") < report.index("](changes.svg)")  # the curve before the forest
    assert b"tokens pretrained on (M)" in files["along_pretraining.svg"]
    assert b"<title>base" in files["along_pretraining.svg"]
    one_point = render.render(Study(comparing.compare("s", runs[:2])))
    assert "along_pretraining.svg" not in one_point
    without = render.render(Study(comparing.compare("s", fine_tuned(make_run, "base", "none"))))
    assert "along_pretraining.svg" not in without


def test_the_point_is_taken_out_of_a_label():
    assert along.POINT.sub("", "base+mlm at=500000 dtype=bf16") == "base+mlm dtype=bf16"
    assert along.POINT.sub("", "base+mlm pretrain.at=1e6") == "base+mlm"
    assert along.POINT.sub("", "base beat=3") == "base beat=3"
