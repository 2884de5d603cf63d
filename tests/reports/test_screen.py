"""Which columns and arms a terminal shows of a report, and how their values are written."""

from pathlib import Path

import pytest

from harness import tags
from harness.comparison.compare import compare
from harness.document import first_screen
from harness.errors import InputError
from harness.reports import report
from harness.reports.options import Report
from harness.reports.screen import MOST_ARMS, screen
from harness.reports.writing import findings

VALUES = {"model/params_total": 2e6, "inference/latency_ms_p50": 4.0, "inference/peak_memory_bytes": 3e7}
VALUES |= {"model/flops_forward": 1e9}


@pytest.fixture
def study(scored):
    """Arms by name -> what they have other than VALUES, on one task with three seeds."""

    def make(**arms: dict[str, float]):
        runs = [scored(arm, {"sst2": [0.8, 0.81, 0.82]}, VALUES | values) for arm, values in arms.items()]
        return compare("s", [run for of_arm in runs for run in of_arm])

    return make


def texts(shown) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in shown.table.rows}


def test_a_column_has_its_unit_and_its_direction_in_the_head_and_one_unit(study):
    shown = screen(study(base={}, small={"model/params_total": 43_400.0, "inference/latency_ms_p50": 5.0}))
    assert shown.table.head == ["arm", "accuracy ↑", "parameters, M ↓", "latency, ms ↓"]
    assert texts(shown) == {"base": ["0.810 ± 0.010", "2.00", "4.00"], "small": ["0.810 ± 0.010", "0.0434", "5.00"]}
    assert [[cell.best for cell in row[1:]] for row in shown.table.rows] == [[False, False, True], [False, True, False]]


def test_costs_that_are_equal_leave_their_place_to_those_that_differ(study):
    shown = screen(study(base={}, small={"model/flops_forward": 5e8}))
    assert shown.table.head == ["arm", "accuracy ↑", "forward FLOPs, GFLOP ↓"]
    assert "Equal for all arms: parameters 2.00 M, latency 4.00 ms, inference memory 30.0 MB." in shown.notes


def test_of_four_costs_that_differ_the_last_is_named_and_shown_where_it_is_asked_for(study):
    comparison = study(base={}, small={name: value / 2 for name, value in VALUES.items()})
    assert screen(comparison).more == ["forward FLOPs"]
    shown = screen(comparison, ["flops", "params_total"])
    assert shown.table.head[2:] == ["forward FLOPs, GFLOP ↓", "parameters, M ↓"]
    assert (shown.as_asked, len(screen(comparison, ["all"]).table.head)) == (True, 6)
    with pytest.raises(InputError, match="unknown column"):
        screen(comparison, ["colour"])


def test_what_a_spread_is_over_is_said_of_the_columns_that_are_there(pretrained, timed):
    def over(runs):
        return next(note for note in screen(compare("s", runs, runs[0].tags["arm"])).notes if "±" in note).split("±: ")[1]

    losses = {"pretrain/masked_loss": 6.0, "pretrain/tokens_per_s": 900.0}
    seeds = [
        pretrained(arm, seed, {name: value * (1 + seed / 100) for name, value in losses.items()})
        for arm in ("base+mlm", "b+mlm")
        for seed in range(3)
    ]
    assert over(seeds).startswith("standard deviation over seeds.")  # losses and the clocks of the trainings
    rounds = [timed(arm, [time, time + 0.1, time + 0.3]) for arm, time in (("base", 4.0), ("b", 5.0))]
    assert over(rounds).startswith("standard deviation over timing rounds.")
    both = [timed(arm, [4.0, 4.1, 4.3], seed, {"eval/score": seed / 10}) for arm in ("base", "b") for seed in range(3)]
    assert over(both).startswith("standard deviation over seeds (times: over timing rounds).")


@pytest.mark.parametrize(("again", "said"), [(1.5, True), (1.001, False)])
def test_times_without_a_verdict_are_explained_once_below_the_table(timed, again, said):
    """A sweep that has timed says so above its table."""
    times = [4.0, 4.1, 3.9]
    runs = [timed("base", times), timed("base", [again * time for time in times], replicate="true"), timed("b", times[::-1])]
    shown = screen(compare("s", runs, "base"))
    reason = "No verdict on latency: noise floor 50.0 %; sweep.retime=true repeats the timing."
    alone, of_sweep, early = (
        " ".join(text.split())
        for text in (first_screen(shown), first_screen(shown, "reports study=s"), first_screen(shown, is_last=False))
    )
    assert (alone.count(reason), of_sweep.count("No verdict"), early.count("No verdict")) == (said, 0, 0)


def test_the_note_of_a_warning_names_no_chapter(make_run):
    runs = [make_run(arm, 0, {"eval/score": 0.8}, **{tags.WARNING: "it fell", tags.NOTES: "falling"}) for arm in ("base", "b")]
    (note,) = (note for note in screen(compare("s", runs)).notes if "†" in note)
    assert note == "† Training warning: see the report."


def test_a_score_with_a_warning_that_was_also_selected_has_both_signs(make_run):
    selected = {"finetune.keep_best": "validation"}
    runs = [make_run(arm, 0, {"eval/score": 0.8}, selected, **{tags.WARNING: "it fell", tags.NOTES: "falling"}) for arm in "ab"]
    shown = screen(compare("s", runs, "a"))
    assert texts(shown) == {"a": ["0.800 † §"], "b": ["0.800 † §"]}
    assert sum(note.startswith(("†", "§")) for note in shown.notes) == 2


def test_an_arm_that_lacks_tasks_has_no_mean(scored):
    runs = [*scored("base", {"sst2": [0.8], "rte": [0.6]}), *scored("b", {"sst2": [0.9]})]
    shown = screen(compare("s", runs))
    assert texts(shown) == {"base": ["0.700"], "b": ["– (1 of 2 tasks)"]}
    assert "an arm that lacks a task has no mean score." in " ".join(shown.notes)


def test_names_leave_out_what_all_arms_share(study):
    shown = screen(study(**{"base+mlm": {}, "mlm+sop": {}, "mlm+wide": {"model/params_total": 3e6}}))
    assert [*texts(shown)] == ["base", "sop", "wide"]
    *notes, last = shown.notes
    assert last == "Names leave out what all arms share: mlm."
    assert "mlm" not in " ".join([shown.answer, *notes])


def test_the_baseline_says_what_it_has_of_a_setting_that_others_name(make_run):
    rates = {"base": "0.3", "base mask_rate=0.05": "0.05", "base mask_rate=0.4": "0.4"}
    runs = [
        make_run(arm, params={"pretrain.mask_rate": rate}, values={"eval/score": 0.8}, lifted='["pretrain.mask_rate"]')
        for arm, rate in rates.items()
    ]
    assert "Baseline: base (mask_rate=0.3)." in screen(compare("s", runs, "base")).notes
    assert not any("Baseline: " in note for note in screen(compare("s", runs[1:], "base mask_rate=0.05")).notes)


def test_of_many_arms_the_baseline_and_the_best_are_shown(scored):
    runs = [scored(f"a{number}", {"sst2": [number / 100] * 3}) for number in range(30)]
    comparison = compare("s", [run for of_arm in runs for run in of_arm], "a0")
    shown = screen(comparison)
    assert [*texts(shown)] == ["a0", *(f"a{number}" for number in range(11, 30))]
    assert shown.notes[0] == f"The best {MOST_ARMS} of 30 arms; the report has all."
    assert len(texts(screen(comparison, ["all"]))) == 30


def test_an_arm_that_did_not_finish_is_named(make_run):
    runs = [make_run(values={"eval/score": 0.5}), make_run("lost", status="diverged")]
    assert "**Not finished, and not counted**: lost on sst2 (1 diverged)." in screen(compare("s", runs)).notes


def test_arms_that_share_no_seed_with_the_baseline_are_named(make_run):
    seeds = {"base": (0, 1, 2), "other": (3, 4, 5), "paired": (0, 1, 2)}
    runs = [make_run(arm, seed, {"eval/score": 0.8}) for arm, own in seeds.items() for seed in own]
    comparison = compare("s", runs, "base")
    sentence = "**No seed in common with base**: other. No verdict on scores: use the same seeds for all."
    assert sentence in screen(comparison).notes
    assert sentence in [line for bullets in findings.cautions(comparison) for line in bullets.items]


def test_a_long_name_has_several_lines(study):
    shown = screen(study(**{"base": {}, "minilm+half_depth+narrow+local_heads dtype=bf16": {}}))
    assert shown.table.rows[1][0].lines == ["minilm+half_depth+", "narrow+local_heads", "dtype=bf16"]


def test_an_inconclusive_score_says_what_would_decide_it(scored):
    arms = {"base": [0.80, 0.81, 0.82], "noisy": [0.70, 0.80, 0.88], "worse": [0.2, 0.21, 0.22]}
    runs = [run for arm, scores in arms.items() for run in scored(arm, {"sst2": scores})]
    (note,) = (note for note in screen(compare("s", runs, "base")).notes if note.startswith("Inconclusive: "))
    assert note == "Inconclusive: noisy (needs 842 seeds; 92 if the effect is as measured)."


def test_the_table_for_a_paper_is_named_before_the_report(monkeypatch, capsys):
    files = {Path("r/report.tex"): b"", Path("r/tables/overview.tex"): b""}
    monkeypatch.setattr(report, "_written", lambda options: files)
    assert report.main(Report()) == 0
    assert capsys.readouterr().out.splitlines() == ["r/tables/overview.tex: the table of all arms, for \\input", "r/report.tex"]
