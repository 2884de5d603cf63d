"""A study of one arm alone: sizes, speed and scores with their spread, and nothing that compares."""

import re

import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.reports.render import Files, render


@pytest.fixture
def files(make_run, study_of, typical) -> Files:
    """The report of albert on two tasks with three seeds."""
    runs = [
        make_run("albert", seed, typical(1 + seed / 100, 0.80 + seed / 100), **{tags.TASK: task})
        for task in ("sst2", "cola")
        for seed in range(3)
    ]
    return render(study_of(compare("s", runs, "albert")), "html,md")


@pytest.fixture
def text(files) -> str:
    return files["report.md"].decode()


@pytest.mark.long
def test_sizes_speed_and_scores_have_their_spread(text, files):
    first, *_ = [line for line in text.splitlines() if line.startswith("| albert |")]
    assert "0.810 ± 0.010" in first
    assert "| 1.42 M |" in first
    assert re.search(r"\| 12\.\d+ ± 0\.\d+ \|", first)
    assert "sst2: measured" in files["report.html"].decode()


def test_nothing_compares(text, files):
    assert not any(mark in text for mark in "▲▼△▽≈~")
    for word in ("before and after", "worst task", "against **", "Differences", "baseline's"):
        assert word not in text, word
    assert "albert is the only arm" in files["report.html"].decode()


@pytest.mark.long
def test_the_only_arm_needs_no_name_and_the_first_sentence_says_what_it_reached(make_run, study_of, typical):
    unscored = make_run("albert", task="mrpc", values={"model/params_total": 1e6})  # its task is not that of the score
    runs = [unscored, make_run("albert", values=typical(1, 0.80))]
    text = render(study_of(compare("s", runs)), "md")["report.md"].decode()
    first = text.split("\n\n")[1]
    assert first.startswith(
        "**albert**: score 0.800 (accuracy on sst2); only one arm, nothing to compare. **Cost**: parameters"
    )
