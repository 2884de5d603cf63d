"""The table of what was measured in detail: values as they are, and sentences that hold nothing but what the runs say."""

import re

import msgspec
import pytest
from texts import lines, parts

from harness import metrics
from harness.comparison.compare import compare
from harness.comparison.section import Section
from harness.reports.reading.study import Study
from harness.reports.render import LEFT_OUT, render
from harness.reports.writing import section_text
from harness.reports.writing.shown import SHOWN

WALL, DEVICE = "inference/latency_ms_p50", "inference/latency_device_ms"
MEASURED = {WALL: 12.34, DEVICE: 12.0, "inference/latency_ms_min": 11.0, "inference/latency_ms_p90": 14.0}
MEASURED |= {"inference/latency_ms_p99": 20.0, "inference/first_call_ms": 31.0, "setup/build_s": 0.5, "setup/import_s": 4.0}
MEASURED |= {"inference/padded_tokens_per_s": 12_000.0, "inference/samples_per_s": 250.0, "inference/padding_share": 0.06}
MEASURED |= {"model/arithmetic_intensity": 21.5, "model/bytes_forward": 40e6}
MEASURED |= {"inference/mfu": 0.41, "inference/peak_flops_per_s": 70e9, "finetune/mfu": 0.35}
MEASURED |= {"hardware/peak_flops_per_s": 140e9}
MEASURED |= {"finetune/padded_tokens_per_s": 7_000.0, "finetune/samples_per_s": 90.0, "finetune/padding_share": 0.1}
MEASURED |= {"inference/peak_memory_bytes": 54e6, "inference/sampled_peak_memory_bytes": 53e6}
MEASURED |= {"finetune/peak_memory_bytes": 195e6, "finetune/sampled_peak_memory_bytes": 190e6}
MEASURED |= {"inference/energy_j_per_token": 0.00123, "finetune/energy_j": 321.0}


def table(section: Section) -> dict[str, dict[str, str]]:
    """Arm -> metric -> text, of all tables."""
    found: dict[str, dict[str, str]] = {}
    for text in parts(section_text.part(section))[2:]:
        head, _, *rows = lines(text)
        for row in rows:
            found.setdefault(row[0], {}).update(zip(head, row, strict=True))
    return found


def test_energy_stands_with_its_unit_and_shares_with_what_they_are_of(make_run):
    """All other figures stand in the golden reports."""
    found = table(compare("s", [make_run(values=MEASURED), make_run("small", values=MEASURED)]).sections[0])["base"]
    assert (found["inference energy per million tokens"], found["training energy"]) == ("1,230 J", "321.0 J")
    assert found["model FLOPs utilisation of inference"] == "0.410 of 70.0 GFLOP/s"
    assert found["model FLOPs utilisation of training, own clock"] == "0.350 of 140.0 GFLOP/s"
    assert len(found) == 24


@pytest.mark.parametrize("name", sorted(set(MEASURED) - {DEVICE, "inference/peak_flops_per_s", "hardware/peak_flops_per_s"}))
def test_a_figure_that_no_run_has_is_no_column_and_one_that_some_lack_is_a_dash(make_run, name):
    without = {key: value for key, value in MEASURED.items() if key != name}
    head = metrics.get(name).title + " per million tokens" * (name == section_text.ENERGY)
    assert head not in table(compare("s", [make_run(values=without)]).sections[0])["base"]
    mixed = table(compare("s", [make_run(values=MEASURED), make_run("b", values=without)]).sections[0])
    assert mixed["b"][head] == "–"


def test_a_share_without_its_peak_stands_alone(make_run):
    result = table(compare("s", [make_run(values={WALL: 12.34, "inference/mfu": 0.41})]).sections[0])["base"]
    assert result == {"arm": "base", "model FLOPs utilisation of inference": "0.410"}  # the first table has the latency


def test_seeds_show_their_spread_and_how_many_there_are(make_run):
    runs = [make_run(seed=seed, values={"finetune/mfu": share}) for seed, share in enumerate((0.3, 0.4))]
    result = table(compare("s", [*runs, make_run(seed=2)]).sections[0])["base"]
    assert result["model FLOPs utilisation of training, own clock"] == "0.350 ± 0.071 (n 2)"


def test_seeds_that_share_their_launches_are_no_spread(timed):
    runs = [timed("base", [1.0, 2.0, 3.0], seed, MEASURED) for seed in (0, 1)]
    result = table(compare("s", runs).sections[0])["base"]
    of_launches = [text for head, text in result.items() if "inference" in head and "memory" not in head]
    assert len(of_launches) == 5
    assert not any("±" in text for text in of_launches)


def test_the_settings_that_the_runs_recorded_are_named(timed):
    run = timed("base", [1.0, 2.0, 3.0], values=MEASURED)
    run.params.update({"measure.length": "64", "measure.repeats": "30", "measure.threads": "None", "environment.threads": "2"})
    text = parts(section_text.part(compare("s", [run]).sections[0]))[1]
    assert text.endswith("Settings: launches 3, measure.repeats 30, measure.length 64, environment.threads 2.")


def test_sentences_on_figures_that_are_not_there_are_left_out(make_run):
    text = parts(section_text.part(compare("s", [make_run(values={"finetune/mfu": 0.3})]).sections[0]))[1]
    assert "fastest matrix product" in text
    assert not any(word in text for word in ("Latency", "interval", "First call", "Bytes", "sampled", "Energy", "batches"))


def test_a_section_without_such_figures_has_no_table(make_run):
    assert parts(section_text.part(compare("s", [make_run(values={"eval/score": 0.5})]).sections[0])) == []


def test_report_holds_the_table_of_every_section(make_run):
    result = compare("s", [make_run(values=MEASURED), make_run(task="cola", values=MEASURED), make_run(task="rte")])
    files = render(Study(result))
    page, brief = files["report.html"].decode(), files["report.md"].decode()
    assert len(re.findall(r"<h3[^>]*>Measured in detail", page)) == 2
    assert page.index(": measured") < page.index("Measured in detail")
    assert "Measured in detail" not in brief
    assert brief.endswith(f"{LEFT_OUT}\n")


def test_what_is_shown_is_declared_and_said_of_what_is_shown():
    lists = {name: [*each] for name, each in msgspec.structs.asdict(SHOWN).items() if name not in ("said", "marks")}
    assert {name for names in lists.values() for name in names} <= metrics.METRICS.keys()
    assert {*lists["parts"], *lists["own"]} <= {*lists["pretraining"]}
    assert {name for said in SHOWN.said for name in said.of} <= {*lists["detail"], *lists["task"]}
