"""The tables that people read."""

import pytest
from texts import line, md

from harness.comparison.compare import compare
from harness.reports.chapters import appendix
from harness.reports.reading.study import Study
from harness.reports.writing import section_text, tables

LATENCY, SCORE, TOTAL, MEMORY = "inference/latency_ms_p50", "eval/score", "model/params_total", "inference/peak_memory_bytes"


@pytest.mark.parametrize("baseline", [-0.01, 0.0, 0.001, 0.09])
def test_a_score_near_0_has_no_percentage(make_run, baseline):
    section = compare("s", [make_run(values={SCORE: baseline}), make_run("new", values={SCORE: baseline + 0.03})]).sections[0]
    assert line(md(tables.before_after(section)), "new")[2] == f"{baseline + 0.03:.3f}<br>+3.0 points △ better?"


def test_missing_metric_is_a_dash_and_an_absent_one_has_no_column(make_run):
    section = compare("s", [make_run(values={TOTAL: 5.0, LATENCY: 2.0}), make_run("new", values={TOTAL: 5.0})]).sections[0]
    table = md(tables.before_after(section))
    assert line(table, "new") == ["new", "1 seed", "5<br>0.0 % =", "–"]
    assert "throughput" not in table


def test_fewer_seeds_in_one_metric_are_said(make_run):
    runs = [make_run(values={SCORE: 0.5, LATENCY: 2.0}), make_run(seed=1, values={SCORE: 0.5})]
    assert line(md(tables.before_after(compare("s", runs).sections[0])), "base")[2] == "2.00 ms (n 1)"


def test_one_pair_has_no_table_of_differences(make_run):
    (section,) = compare("s", [make_run(values={SCORE: 0.8}), make_run("b", values={SCORE: 0.9})]).sections
    assert tables.differences(section) == []


def test_names_cannot_break_a_table(make_run):
    section = compare("s", [make_run(), make_run("a|b\n<script>", values={TOTAL: 1.0})]).sections[0]
    row = md(tables.before_after(section)).splitlines()[-1]
    assert row.startswith(r"| a\|b &lt;script&gt; | 1 seed |")


def test_differing_conditions_are_explained_with_the_flag_that_lifts_them(make_run):
    known = [{"finetune.epochs": "1", "data.name": "builtin"}, {"finetune.epochs": "3", "data.name": "builtin", "x": "y"}]
    result = compare("s", [make_run(params=params) for params in known])
    first, second = (section.conditions for section in result.sections)
    text = md(section_text.conditions_differences(result, result.sections[1]))
    assert "sst2 was run under 2 sets of conditions, which are not compared with one another." in text
    assert f"| key | {first} | {second} (this one) | to compare along it |" in text
    assert "| finetune.epochs | 1 | 3 | `along=finetune.epochs` |" in text
    assert "| x | – | y | `along=x` |" in text
    assert "`python -m reports along=finetune.epochs along=x` compares them in one table." in text
    assert "data.name" not in text


def test_one_set_of_conditions_needs_no_explanation(make_run):
    result = compare("s", [make_run(), make_run(task="cola", params={"finetune.epochs": "9"})])
    assert [section_text.conditions_differences(result, section) for section in result.sections] == [[], []]


def test_arm_without_a_score_says_why(make_run):
    untrained = make_run("free", values={TOTAL: 5.0}, params={"finetune.enabled": "False"})
    failed = [make_run("bad", seed, status=status) for seed, status in enumerate(("diverged", "failed", "failed"))]
    elsewhere = make_run("bad", task="cola", values={SCORE: 0.1})
    runs = [make_run(values={SCORE: 0.8}), untrained, make_run("odd", values={TOTAL: 5.0}), *failed, elsewhere]
    result = compare("s", [*runs, make_run(task="cola", values={SCORE: 0.2})])
    trained, measured, cola = result.sections
    assert section_text.without_score(result, trained) == [
        "No score of odd: no run logged one.",
        "No score of bad: none of its runs finished (1 diverged, 2 failed).",
    ]
    untrained = "No score of free: measured without training (finetune.enabled=false)."
    assert section_text.without_score(result, measured) == [untrained]
    assert section_text.without_score(result, cola) == []
    assert untrained in section_text.notes(result, measured)


def test_every_difference_says_how_many_pairs_it_has(make_run):
    """Three seeds, of which two have a score and one of the baseline's a memory."""
    runs = [make_run(name, seed, {SCORE: 0.5 + seed / 9, MEMORY: 1e8 + seed}) for name in ("base", "new") for seed in range(3)]
    del runs[3].metrics[SCORE], runs[0].metrics[MEMORY], runs[1].metrics[MEMORY]
    texts = line(md(tables.differences(compare("s", runs).sections[0])), "new")
    assert [text.rpartition(", ")[2] for text in texts[1:]] == ["2 seeds"]


def test_superseded_and_unpaired_runs_are_said(make_run):
    old, new = (make_run("new", params={"data.source": source}, fingerprint=source) for source in ("hub", "local"))
    result = compare("s", [make_run(), make_run(seed=1), old, new])
    text = "\n".join(section_text.section_notes(result.sections[0]))
    assert "Older runs of the same arm and seeds, superseded by the latest: 1." in text
    assert "the fingerprints differ. They had other settings: data.source." in text
    assert "new ran seed 0, the baseline seeds 0, 1: changes use seed 0" in text
    table = appendix.left_out(Study(result)).paragraphs[1]
    assert line(table, "new-0") == ["new-0", "new", "sst2", "0", "superseded by a newer run"]


def test_runs_of_other_tools_that_do_not_pair_are_not_said_to(make_run):
    seeds = (("base", 0), ("base", 1), ("base", 2), ("new", 0), ("new", 1))
    (section,) = compare("s", [make_run(arm, seed, {SCORE: 0.7}, design="runs") for arm, seed in seeds]).sections
    assert section_text.section_notes(section) == []
    intro = tables.differences_intro(section)
    assert "arm minus base, over runs (launches" in intro
    assert "number of runs." in intro


def test_another_attempt_with_the_same_code_is_superseded_without_a_word_on_code(make_run):
    runs = [make_run(fingerprint="f") for _ in range(3)]
    assert section_text.section_notes(compare("s", runs).sections[0]) == [
        "Older runs of the same arm and seeds, superseded by the latest: 2."
    ]


def test_seeds_with_different_settings_are_told_apart_where_these_shape_results(make_run):
    """Settings without effect on results are named; the others make another arm."""
    runs = [
        make_run(seed=seed, params={"data.source": source, "environment.load_average": source})
        for seed, source in enumerate(("hub", "local"))
    ]
    assert section_text.section_notes(compare("s", runs).sections[0]) == [
        "The seeds of base differ in data.source (hub, local)."
    ]
    runs = [make_run(seed=seed, params={"model.attention_window": width}) for seed, width in enumerate(("8", "16"))]
    labels = [row.label for row in compare("s", runs, "base attention_window=8").sections[0].rows]
    assert labels == ["base attention_window=8", "base attention_window=16"]


def test_missing_baseline_is_said(make_run):
    result = compare("s", [make_run(), make_run("new", task="cola")])
    assert "no change can be computed" in section_text.section_notes(result.sections[1])[0]
