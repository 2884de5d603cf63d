"""Runs of sessions: what is compared with what, what the A/A replicate is for, and what has no verdict."""

import statistics

import pytest
from texts import md, parts

from harness.comparison import overall
from harness.comparison.compare import Comparison, compare
from harness.comparison.paired import Replicate
from harness.comparison.verdicts import Verdict
from harness.reports.chapters import appendix, overview, timing
from harness.reports.reading.study import Study
from harness.reports.render import render
from harness.reports.writing import section_text, tables
from harness.reports.writing.tables import summary

FIRST = Replicate("", "0")
LAUNCH = "timing/latency_ms"
LATENCY, SPEED, TRAINING = "inference/latency_ms_p50", "inference/tokens_per_s", "finetune/duration_s"
BASE, AGAIN = [10.0, 10.1, 9.9, 10.0, 10.05], [10.1, 10.0, 10.0, 9.9, 10.1]
SLOW = [time * 1.2 for time in (10.0, 10.0, 10.1, 9.9, 10.0)]


def verdict(comparison: Comparison, label: str, metric: str = LATENCY) -> Verdict | None:
    section = comparison.sections[0]
    result = section.change(next(row for row in section.rows if row.label == label), metric)
    return result.verdict if result else None


def notes_of(comparison: Comparison) -> str:
    return "\n".join(timing.notes(comparison.sections[0]))


def pair(timed, **tags: str):
    return [timed("base", BASE, **tags), timed("base", AGAIN, replicate="true", **tags)]


def test_a_change_beyond_the_scatter_of_rounds_has_a_verdict_and_one_within_is_the_same(timed):
    result = compare("s", [*pair(timed), timed("slow", SLOW), timed("same", [10.1, 9.9, 10.0, 10.1, 10.0])])
    assert verdict(result, "slow") is Verdict.WORSE
    assert verdict(result, "slow", SPEED) is Verdict.WORSE
    assert verdict(result, "same") is Verdict.SAME
    assert "≈ equivalent within 5 %" in md(tables.before_after(result.sections[0]))
    assert notes_of(result) == ""


def test_a_baseline_that_scatters_when_timed_again_widens_the_interval(timed):
    """Against its first series alone the arm would be slower by 3 % in every round."""
    wide = timed("base", [9.0, 11.0, 10.0, 9.0, 11.5], replicate="true")
    result = compare("s", [timed("base", BASE), wide, timed("new", [time * 1.03 for time in BASE])])
    change = result.sections[0].change(result.sections[0].rows[1], LATENCY)
    assert change.interval[0] < 0 < change.interval[1]
    assert change.verdict is Verdict.INCONCLUSIVE


def test_slow_machine_is_no_slow_arm(timed):
    drifted = [1.0, 1.3, 1.6, 1.3, 1.0]
    times = [time * factor for time, factor in zip(BASE, drifted, strict=True)]
    slower = [1.4, 1.0, 1.2, 1.0, 1.5]  # while the A/A replicate was launched
    again = timed(
        "base",
        [time * factor for time, factor in zip(AGAIN, slower, strict=True)],
        replicate="true",
        reference=[2 * factor for factor in slower],
    )
    result = compare("s", [timed("base", BASE), again, timed("new", times, reference=[2 * factor for factor in drifted])])
    assert verdict(result, "new") is Verdict.SAME
    section = result.sections[0]
    assert section.change(section.rows[1], LATENCY).percent == pytest.approx(0, abs=0.1)
    assert section.rows[0].mean(LATENCY) == pytest.approx(section.rows[1].mean(LATENCY), rel=0.001)
    text = "\n".join(timing.chapter(Study(result)).paragraphs)
    assert text.count("% | yes | 0 of 15 |") == 2  # latency and throughput


def test_reference_that_only_adds_scatter_is_not_used_and_values_agree_with_their_change(timed):
    """The reference of one arm was slow by chance: 10.0 ms beside 10.0 ms is no gain of 6 %."""
    noisy = [2.0, 2.2, 1.9, 2.1, 2.0]
    again = timed("base", AGAIN, replicate="true", reference=[2.1, 1.9, 2.2, 2.0, 1.9])
    runs = [timed("base", BASE, reference=noisy), again, timed("new", BASE, reference=[2.2, 2.3, 2.0, 2.2, 2.1])]
    result = compare("s", runs)
    section = result.sections[0]
    assert section.change(section.rows[1], LATENCY).percent == pytest.approx(0, abs=0.1)
    text = "\n".join(timing.chapter(Study(result)).paragraphs)
    assert text.count("% | no | 0 of 10 |") == 2


@pytest.mark.parametrize("metric", [LATENCY, SPEED])
def test_change_is_the_ratio_of_the_values_shown(timed, metric: str):
    """With and without the reference, which here takes a slow machine out of the A/A replicate."""
    slower = [1.4, 1.0, 1.2, 1.0, 1.5]
    for drift in ([1.0] * 5, slower):
        again = [time * factor for time, factor in zip(AGAIN, drift, strict=True)]
        more = {"replicate": "true", "reference": [2 * factor for factor in drift]}
        section = compare("s", [timed("base", BASE), timed("base", again, **more), timed("slow", SLOW)]).sections[0]
        before, after = (row.mean(metric) for row in section.rows)
        assert section.change(section.rows[1], metric).percent == pytest.approx(100 * (after / before - 1))


def test_a_noise_floor_above_a_quarter_supports_no_verdict(timed):
    wild = timed("base", [6.0, 14.0, 10.0, 8.0, 15.0], replicate="true")
    runs = [
        timed("base", BASE, values={TRAINING: 100.0}),
        wild,
        timed("slow", [3 * time for time in BASE], values={TRAINING: 300.0}),
    ]
    result = compare("s", runs)
    assert [verdict(result, "slow", metric) for metric in (LATENCY, SPEED)] == [Verdict.OPEN] * 2
    assert md(tables.before_after(result.sections[0])).count("no verdict: noise floor") == 2
    assert "the noise floor is unknown or above 25 %" in "\n".join(appendix.legend(Study(result)).paragraphs)


def test_what_the_clock_of_each_training_says_is_shown_and_never_compared(timed):
    """However quiet the session and however many seeds: trainings were not interleaved."""
    runs = [*pair(timed), *(timed(arm, times, seed) for arm, times in (("base", BASE), ("slow", SLOW)) for seed in (1, 2, 3))]
    for run in runs:
        slower = 2.0 if run.tags["arm"] == "slow" else 1.0
        run.metrics.update({TRAINING: slower * (100.0 + int(run.tags["seed"])), "finetune/tokens_per_s": 1000 / slower})
    result = compare("s", runs)
    (section,) = result.sections
    for name in (TRAINING, "finetune/tokens_per_s"):
        assert section.change(section.rows[1], name) is None
        assert overall.of_tasks(result).change("slow", name) is None
        (line,) = (line for line in summary(result) if (line["arm"], line["metric"]) == ("slow", name))
        assert not {"change", "change_percent", "verdict"} & line.keys()
    details = parts(section_text.part(section))[2]
    assert {"training time, own clock", "throughput of the whole training, own clock"} <= {*map(str.strip, details.split("|"))}
    assert not any(sign in details for sign in "%△▽▲▼~")
    table = md(overview.overview(result))
    assert "training throughput, tokens/s, timed during training" in table
    assert " | 1,000.0 |" in table
    assert " | 500.0 |" in table


@pytest.mark.parametrize(("size", "expected"), [(1.0006, Verdict.INCONCLUSIVE), (0.9, Verdict.DIRECTION_BETTER)])
def test_memory_must_differ_by_more_than_that_of_an_aa_replicate(timed, size: float, expected: Verdict):
    memory, of_launches = "inference/peak_memory_bytes", "scaling/peak_memory_bytes"
    runs = [*pair(timed), timed("new", BASE)]
    for run, peak in zip(runs, (1e8, 1.011e8, 1e8), strict=True):
        run.metrics[of_launches] = peak
    runs[0].metrics[memory], runs[2].metrics[memory] = 5e7, 5e7 * size
    result = compare("s", runs)
    assert verdict(result, "new", memory) is expected
    assert result.sections[0].change(result.sections[0].rows[1], memory).floor == pytest.approx(1.1)


def test_aa_replicate_is_no_row_no_seed_and_supersedes_nothing(timed):
    result = compare("s", [*pair(timed), timed("base", AGAIN, replicate="true", seed=7), timed("slow", SLOW)])
    section = result.sections[0]
    assert [(row.label, list(row.by_replicate)) for row in section.rows] == [("base", [FIRST]), ("slow", [FIRST])]
    assert (section.superseded, result.left_out, len(result.runs)) == ([], (), 2)
    assert section.rows[0].mean(LATENCY) == pytest.approx(statistics.geometric_mean([*BASE, *AGAIN]), rel=1e-6)


def test_aa_replicate_needs_no_seed(timed):
    base, again = pair(timed)
    del again.tags["seed"]
    assert compare("s", [base, again]).left_out == ()
    assert verdict(compare("s", [base, again, timed("slow", SLOW)]), "slow") is Verdict.WORSE


def test_failed_aa_replicate_is_left_out(timed):
    again = timed("base", AGAIN, replicate="true", status="failed")
    result = compare("s", [timed("base", BASE), again, timed("slow", SLOW)])
    assert (result.left_out, verdict(result, "slow")) == ((again,), Verdict.OPEN)


def test_arm_of_another_session_has_a_number_and_no_verdict(timed):
    result = compare("s", [*pair(timed), timed("slow", SLOW, session="s2")])
    text = md(tables.before_after(result.sections[0])).splitlines()[-1]
    assert "+19.8 % –" in text
    assert "Not timed side by side with base: slow." in notes_of(result)
    assert tables.differences(result.sections[0]) == []


def test_aa_replicate_is_taken_for_a_baseline_of_another_session(timed):
    later = [timed("base", [20.0] * 4 + [20.1], replicate="true", session="s2"), timed("slow", [24.0] * 5, session="s2")]
    result = compare("s", [*pair(timed), *later])
    change = result.sections[0].change(result.sections[0].rows[1], LATENCY)
    assert change.percent == pytest.approx(20, abs=0.2)
    assert (change.baseline_mean, change.verdict) == (pytest.approx(20.02, abs=1e-3), Verdict.OPEN)
    assert "Session s2 has no noise floor" in notes_of(result)
    assert "Latency and throughput of slow are compared with the A/A replicate of base in session s2." in notes_of(result)


def test_two_aa_replicates_of_a_later_session_are_a_pair(timed):
    later = [timed("base", times, replicate="true", session="s2") for times in (BASE, AGAIN)]
    result = compare("s", [*pair(timed), *later, timed("slow", SLOW, session="s2")])
    assert verdict(result, "slow") is Verdict.WORSE


def test_floor_of_a_superseded_baseline_still_counts_for_its_session(timed):
    first = [*pair(timed), timed("slow", SLOW)]
    result = compare("s", [*first, timed("base", BASE, session="s2")])
    assert verdict(result, "slow") is Verdict.WORSE
    assert len(result.sections[0].superseded) == 1


def test_without_an_aa_replicate_there_is_an_interval_and_no_verdict(timed):
    result = compare("s", [timed("base", BASE), timed("slow", SLOW)])
    assert verdict(result, "slow") is Verdict.OPEN
    assert "no verdict, 5 rounds" in md(tables.differences(result.sections[0]))
    assert "| s1 | 5 | – | latency | – | – |" in "\n".join(timing.chapter(Study(result)).paragraphs)


def test_runs_without_any_session_keep_their_numbers(make_run):
    result = compare("s", [make_run(values={LATENCY: 10.0}), make_run("new", values={LATENCY: 5.0})])
    assert verdict(result, "new") is Verdict.OPEN
    assert md(tables.before_after(result.sections[0])).splitlines()[-1] == "| new | 1 seed | 5.00 ms<br>−50.0 % – |"
    assert "Not timed side by side with base: new." in notes_of(result)
    assert timing.chapter(Study(result)).paragraphs == []


def test_one_round_is_a_direction_at_most(timed):
    result = compare("s", [*pair(timed), timed("slow", SLOW[:1]), timed("same", BASE[:1])])
    assert verdict(result, "slow") is Verdict.DIRECTION_WORSE
    assert verdict(result, "same") is Verdict.INCONCLUSIVE


def test_seeds_share_launches_and_do_not_multiply_them(timed):
    runs = [*pair(timed), timed("base", BASE, seed=1), timed("slow", SLOW), timed("slow", SLOW, seed=1)]
    result = compare("s", runs)
    row = result.sections[0].rows[1]
    assert result.sections[0].change(row, LATENCY).n == 5
    assert (row.spread(LATENCY).n, row.spread(LATENCY).sd) == (5, pytest.approx(0.0849, rel=0.01))
    assert row.spread("inference/latency_ms_p90").sd is None
    assert len(result.sessions.of("s1")) == 3
    assert "(n " not in md(tables.before_after(result.sections[0]))


def test_what_every_seed_has_of_its_own_is_averaged_in_a_timed_study_too(timed):
    scores = [{"eval/f1": score, "eval/f1_low": score - 0.1} for score in (0.5, 0.7, 0.9)]
    row = compare("s", [timed("base", [10.0, 11.0], seed, found) for seed, found in enumerate(scores)]).sections[0].rows[0]
    assert row.mean("eval/f1") - row.mean("eval/f1_low") == pytest.approx(0.1)
    assert row.spread("eval/f1_low").n == 3


def test_other_percentiles_have_no_verdict(timed):
    result = compare("s", [*pair(timed), timed("slow", SLOW)])
    assert verdict(result, "slow", "inference/latency_ms_p90") is Verdict.OPEN


NOISY = [8.0, 12.0, 10.0, 9.0, 11.0]


def two_sessions(timed, order: tuple[str, str]) -> list:
    """An A/A replicate that agrees in session `quiet`, and one that does not in session `noisy`; seed 0 ran in the first."""
    runs = []
    for seed, session in enumerate(order):
        again = AGAIN if session == "quiet" else NOISY
        slower = 1.2 if session == "quiet" else 0.8
        runs += [timed("base", BASE, seed, {TRAINING: 100.0 + seed}, session=session)]
        runs += [timed("base", again, seed, session=session, replicate="true")]
        times = [time * slower for time in BASE]
        runs += [timed("slow", times, seed, {TRAINING: 110.0 + seed}, session=session)]
    return runs


@pytest.mark.parametrize(("order", "percent"), [(("quiet", "noisy"), -20), (("noisy", "quiet"), 20)])
def test_latest_of_two_sessions_with_opposite_changes_is_used(timed, order, percent):
    section = compare("s", two_sessions(timed, order)).sections[0]
    assert section.change(section.rows[1], LATENCY).percent == pytest.approx(percent, abs=2)


def test_peak_memory_is_paired_by_seed_as_ever(timed):
    memory = "inference/peak_memory_bytes"
    runs = [*pair(timed), timed("slow", SLOW)]
    for run, size in zip(runs, (100.0, 1.0, 90.0), strict=True):
        run.metrics[memory] = size
    assert verdict(compare("s", runs), "slow", memory) is Verdict.DIRECTION_BETTER


def test_tasks_that_share_launches_count_them_once(timed):
    """One launch a round and arm for both tasks: half as many launches, and latency is said to be one measurement."""
    shared = [run for task in ("bag", "order") for run in (*pair(timed, task=task), timed("slow", SLOW, cpus=0.9, task=task))]
    result = compare("s", shared)
    text = "\n".join(timing.chapter(Study(result)).paragraphs)
    assert "| 5 of 15 |" in text
    assert "slow on bag, order in every round." in text
    assert text.count("| s1 | 5 | base on bag, order | latency |") == 1
    for section in result.sections:
        assert section.change(section.rows[1], LATENCY).n == 5
    apart = [
        *pair(timed, task="bag"),
        timed("base", SLOW, task="order"),
        timed("base", BASE[::-1], task="order", replicate="true"),
    ]
    assert "base on bag, order" not in "\n".join(timing.chapter(Study(compare("s", apart))).paragraphs)


def test_session_is_shown_with_its_aa_replicate_floor_load_and_drift(timed):
    runs = [*pair(timed), timed("slow", SLOW, cpus=0.9, reference=[2.0, 2.0, 2.0, 2.0, 2.5])]
    text = "\n".join(timing.chapter(Study(compare("s", runs))).paragraphs)
    texts = [text.strip() for text in next(row for row in text.splitlines() if row.startswith("| s1")).split("|")[1:-1]]
    assert texts[:4] == ["s1", "5", "base", "latency"]
    assert texts[4] == "+0.10 [−1.17, +1.38] %"
    assert texts[5] == "1.38 %"
    assert texts[-3:] == ["no", "5 of 15", "+25.0 %"]
    assert "Timed on a busy machine (>0.5 CPUs used by others), session s1: slow in every round." in text


def test_launches_of_a_run_are_no_rows_of_the_summary(timed):
    lines = summary(compare("s", [*pair(timed), timed("slow", SLOW)]))
    assert not any(line["metric"].startswith("timing/") for line in lines)
    latency = next(line for line in lines if (line["arm"], line["metric"]) == ("slow", LATENCY))
    assert latency["verdict"] == "worse"


@pytest.mark.long
def test_report_of_a_session_is_the_same_again(timed):
    result = compare("s", [*pair(timed), timed("slow", SLOW)])
    assert timing.HEADING in render(Study(result))["report.md"].decode()
    assert render(Study(result)) == render(Study(result))


def test_task_without_a_pair_takes_the_noisiest_floor_of_its_session(timed):
    noisy = timed("base", [8.0, 12.0, 10.0, 8.0, 12.0], replicate="true", task="cola")
    first = [*pair(timed), timed("base", BASE, task="cola"), noisy]
    result = compare("s", [*first, timed("base", BASE, task="rte"), timed("slow", SLOW, task="rte"), timed("slow", SLOW)])
    judged = [section for section in result.sections if section.task != "cola"]
    by_task = {section.task: section.change(section.rows[-1], LATENCY).verdict for section in judged}
    assert by_task == {"sst2": Verdict.WORSE, "rte": Verdict.OPEN}
