"""A study whose baseline failed: its other arms are reported, without changes, and the first line says why."""

import re
from pathlib import Path

import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.errors import InputError
from harness.reports.render import render

COMMAND = "harness -m model=base,albert,new seed=0,1"


@pytest.fixture
def runs(make_run, timed, typical) -> list:
    """Two arms with two seeds that finished, and a baseline that did not."""
    failed = [make_run("base", seed, status="failed", reason="OutOfMemoryError: no room", command=COMMAND) for seed in (0, 1)]
    values = typical(2, 0.8)
    return failed + [timed(arm, [2.0, 2.1], seed, values, command=COMMAND) for arm in ("albert", "new") for seed in (0, 1)]


def text_of(comparison, study_of) -> str:
    return render(study_of(comparison), "md,html,csv")["report.md"].decode()


@pytest.mark.parametrize("name", [None, "base"])
def test_it_is_reported_without_changes(runs, study_of, name):
    result = compare("s", runs, name)
    assert (result.baseline, result.labels) == ("base", ["albert", "new"])
    text = text_of(result, study_of)
    assert not re.search("[▲▼△▽≈~] (better|worse|equivalent|inconclusive)", text.partition("## How to read")[0])
    assert "0.800" in next(line for line in text.splitlines() if line.startswith("| albert |"))
    assert "albert, new on sst2; 2 seeds each." in text


def test_the_page_explains_its_words(runs, study_of):
    page = render(study_of(compare("s", runs)), "html")["report.html"].decode().replace("\N{NO-BREAK SPACE}", " ")
    words = re.findall(r"^\| \*\*(.+)\*\*", Path(__file__).parents[2].joinpath("docs/glossary.md").read_text(), re.M)
    assert all(f'<th scope="row">{word}</th>' in page for word in words)
    assert ">All runs under one name, <code>study=NAME</code>. It has one report.</td>" in page
    assert len(words) <= 12


def test_the_first_line_names_error_command_and_other_baselines(runs, study_of):
    first = text_of(compare("s", runs), study_of).split("\n\n")[1]
    assert first == (
        "**No changes: no run of the baseline base finished** (failed: OutOfMemoryError: no room). "
        f"`python -m {COMMAND}` runs it again. `--baseline` compares with another arm: albert, new."
    )


@pytest.mark.long
def test_one_arm_beside_it_is_reported_alone(runs, study_of):
    files = render(study_of(compare("s", [run for run in runs if run.tags[tags.ARM] != "new"])), "md,html")
    assert "no run of the baseline base finished" in files["report.md"].decode()
    assert "albert is the only arm" in files["report.html"].decode()


def test_only_a_name_of_no_run_is_unknown(runs):
    with pytest.raises(InputError, match="unknown baseline 'bert'"):
        compare("s", runs, "bert")
    assert compare("s", runs, "albert").baseline == "albert"
