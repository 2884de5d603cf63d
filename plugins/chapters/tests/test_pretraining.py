"""Pretraining in the report: its section, its baseline and where it was trained."""

import json
import re
from pathlib import Path

import pytest
from texts import line, lines, md, parts

from harness import paths, records, tags
from harness.comparison import compare as comparing
from harness.comparison.section import ACCURACY
from harness.comparison.verdicts import Verdict
from harness.errors import InputError
from harness.plugins.chapters import pretraining
from harness.reports import render
from harness.reports.__main__ import main
from harness.reports.chapters import overview, tasks
from harness.reports.read import connect
from harness.reports.reading import store
from harness.reports.reading.study import Study
from harness.reports.writing import findings, section_text, tables
from harness.training import held_out


def texts(tables: str, label: str) -> dict[str, str]:
    """Metric -> text of the arm `label`, of all tables."""
    of_each = [(lines(table)[0], line(table, label)) for table in tables.split("\n\n")]
    return {name: text for head, row in of_each for name, text in zip(head, row, strict=True)}


def sentences(comparison, index: int = 0) -> str:
    section = comparison.sections[index]
    notes_of = pretraining.notes if section.is_pretraining else tasks.notes_of_task
    return "\n".join(notes_of(comparison, section))


def test_parts_of_an_objective_are_columns_with_what_to_hold_them_against(pretrained, ended):
    parts = {"pretrain/pair_accuracy": 0.52}, {"pretrain/detection_accuracy": 0.9, "pretrain/replaced_accuracy": 0.2}
    runs = [pretrained("base+mlm_sop", ends=ended(3.0, parts[0])), pretrained("base+rtd", ends=ended(3.0, parts[1]))]
    result = comparing.compare("s", [pretrained(), *runs], "base+mlm")
    table = md(tables.before_after(result.sections[0]))
    assert texts(table, "base+mlm_sop")["held-out accuracy on segment pairs"].startswith("0.520")
    assert texts(table, "base+rtd")["held-out replaced tokens that the detector finds"].startswith("0.200")
    assert texts(table, "base+mlm")["held-out accuracy on segment pairs"] == "–"
    assert "chance is 0.5" in sentences(result)
    assert "always answering 'original' scores high" in sentences(result)
    plain = comparing.compare("s", [pretrained()])
    assert "guessing" not in sentences(plain)
    assert "segment pairs" not in md(tables.before_after(plain.sections[0]))


def test_training_losses_of_objectives_are_never_compared(pretrained, ended):
    runs = [pretrained(seed=seed) for seed in (0, 1)]
    runs += [pretrained("base+rtd", seed, ended(2.0, {"pretrain/probe_steps": 200.0})) for seed in (0, 1)]
    result = comparing.compare("s", runs, "base+mlm")
    files = render.render(Study(result))
    assert "| pretraining loss |" not in md(tables.before_after(result.sections[0]))
    assert "pretrain/loss" not in files["summary.csv"].decode()
    assert "Training losses of different objectives (mlm, rtd) are not comparable" in sentences(result)


@pytest.mark.long
def test_between_probes_the_own_loss_of_the_objective_stands_beside_the_masked_one(pretrained, ended):
    """The probe may rank two causal models otherwise than what they were trained on."""
    runs = []
    for arm, masked, own, noise in (("gpt+clm", 4.4, 2.8, 1 / 1000), ("gpt2+clm", 3.1, 2.9, 1 / 900)):
        for seed in (0, 1, 2):
            more = {"pretrain/probe_steps": 200.0, "pretrain/next_token_loss": own + seed * noise}
            runs.append(pretrained(arm, seed, ended(masked + seed * noise, more)))
    report = render.render(Study(comparing.compare("s", runs, "gpt+clm")))["report.md"].decode()
    first = report.partition("## pretraining")[0]
    assert "| arm | held-out masked loss, nats | held-out loss on next tokens, nats |" in first
    assert "**better** in held-out masked loss" in first
    assert "**worse** in held-out loss on next tokens" in first
    assert "on the frozen encoder: gpt+clm, gpt2+clm." in first
    assert "perplexity is exp(loss)" in report


@pytest.mark.long
def test_the_masked_loss_of_a_probe_has_no_verdict_against_that_of_a_trained_head(pretrained, ended):
    """Nor does it say that a model has not learned: an objective without masked tokens has learned something else."""
    probe = {"pretrain/probe_steps": 200.0}
    runs = [pretrained(seed=seed, ends=ended(5.0 + seed / 100)) for seed in (0, 1, 2)]
    warned = {"warning": "still on the unigram plateau"}  # of a run by an earlier version
    runs += [pretrained("base+clm", seed, ended(7.0 + seed / 100, probe), **warned) for seed in (0, 1, 2)]
    runs += [pretrained("base+rtd", seed, ended(6.5 + seed / 90, probe)) for seed in (0, 1, 2)]
    result = comparing.compare("s", runs, "base+mlm")
    section = result.sections[0]
    assert section.change(section.row_of("base+clm"), "pretrain/masked_loss").verdict is Verdict.OPEN
    report = render.render(Study(result))["report.md"].decode()
    assert "on the frozen encoder: clm, rtd. They get no verdict" in report
    assert "plateau" not in report
    assert not re.search(r"(better|worse)\*\* in held-out masked loss", report)
    both = comparing.compare("s", runs, "base+clm").sections[0]
    assert both.change(both.row_of("base+rtd"), "pretrain/masked_loss").verdict is Verdict.BETTER
    assert both.change(both.row_of("base+mlm"), "pretrain/masked_loss").verdict is Verdict.OPEN


def test_two_trained_heads_on_the_plateau_are_not_called_probes(pretrained, ended):
    runs = [pretrained(arm, seed, ended(6.36 + seed / 100)) for arm in ("base+mlm", "windowed+mlm") for seed in (0, 1, 2)]
    result = comparing.compare("s", runs, "base+mlm")
    section = result.sections[0]
    assert section.change(section.row_of("windowed+mlm"), "pretrain/masked_loss").verdict is Verdict.OPEN
    report = render.render(Study(result))["report.md"].decode()
    assert "probe" not in report.partition("## ")[0]


@pytest.mark.long
def test_a_pretraining_on_the_plateau_is_said_at_the_head_in_its_section_and_where_it_is_used(pretrained, make_run, ended):
    runs = [pretrained(ends=ended(6.2), fingerprint="stuck"), pretrained("albert+mlm", ends=ended(5.2), fingerprint="left")]
    tuned = {"task": "sst2", "pretrain_seed": "0"}
    runs += [make_run("base+mlm", values={"eval/score": 0.6}, pretraining="stuck", **tuned)]
    runs += [make_run("albert+mlm", values={"eval/score": 0.7}, pretraining="left", **tuned)]
    result = comparing.compare("s", runs, "base+mlm")
    said = "**Still on the unigram plateau** of 6.40 nats: base+mlm (masked loss 6.20). "
    assert render.render(Study(result))["report.md"].decode().split("\n## ")[0].count(said) == 1
    assert said in sentences(result, 0)
    assert "**Pretraining still on the unigram plateau**: base+mlm." in sentences(result, 1)
    left = comparing.compare("s", [run for run in runs if run.tags["arm"] == "albert+mlm"], "albert+mlm")
    assert "plateau" not in render.render(Study(left))["report.md"].decode()


def test_each_pretraining_on_the_plateau_has_its_loss_and_those_that_left_it_are_counted(pretrained, ended):
    runs = [pretrained("base+mlm", seed, ended(6.2)) for seed in (0, 1)]
    runs += [pretrained("albert+mlm", seed, ended(loss)) for seed, loss in enumerate((6.3, 5.2))]
    said = "base+mlm (masked loss 6.20, 6.20), albert+mlm (1 of 2 pretraining runs, masked loss 6.30). "
    assert said in sentences(comparing.compare("s", runs, "base+mlm"), 0)


def test_what_was_said_of_a_run_outside_its_reference_is_at_the_head_and_in_its_section(pretrained, ended):
    said = "held-out masked loss 4.70 nats is outside the reference small"
    result = comparing.compare("s", [pretrained(ends=ended(4.7), warning=said), pretrained(seed=1, ends=ended(4.2))])
    assert f"**base+mlm, seed 0**: {said}." in render.render(Study(result))["report.md"].decode().split("\n## ")[0]
    assert sentences(result).count(said) == 1


def test_metric_that_one_pretraining_lacks_is_a_dash(pretrained, ended):
    short = ended()
    del short[ACCURACY], short["pretrain/flops"]
    result = texts(
        md(tables.before_after(comparing.compare("s", [pretrained(), pretrained("gpt+clm", ends=short)]).sections[0])),
        "gpt+clm",
    )
    assert (result["held-out masked accuracy"], result["pretraining FLOPs"]) == ("–", "–")
    assert "pretraining peak memory" not in result


def test_notes_say_budget_corpus_and_which_head_predicts(pretrained, ended):
    result = comparing.compare("s", [pretrained(), pretrained("electra+rtd", ends=ended(3.0, {"pretrain/probe_steps": 200.0}))])
    assert "Budget: 20.0 M tokens. Corpus: wikitext, 103.0 M tokens in 28,472 documents." in sentences(result)
    assert "up to 256 held-out sequences of 128 tokens (32,768 tokens), with the same 15 % replaced by [MASK]" in sentences(
        result
    )
    assert f"{held_out.RATE:.0%}" == "15%"
    assert "the objective's own head: base+mlm." in sentences(result)
    assert "a head trained for 200 steps on the frozen encoder: electra+rtd." in sentences(result)
    alike = comparing.compare("s", [pretrained(), pretrained("albert+mlm")])
    assert "predicted by the objective's own head in every arm." in sentences(alike)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"pretrain.tokens": "None", "pretrain.steps": "5000"}, "5,000 steps"),
        ({"pretrain.tokens": "None", "pretrain.flops": "1e15"}, "1.00 PFLOP"),
        ({"pretrain.tokens": "None", "pretrain.seconds": "90"}, "90.0 s"),
        ({"pretrain.tokens": "None"}, "not recorded"),
    ],
)
def test_budget_is_shown_in_its_own_unit(pretrained, params, text):
    run = pretrained()
    run.params.update(params)
    assert pretraining.budget(run) == text


def test_base_means_the_only_arm_of_that_model(make_run):
    runs = [make_run("albert+mlm_sop", model="albert"), make_run("base+mlm", model="base")]
    assert comparing.compare("s", runs).baseline == "base+mlm"
    assert comparing.compare("s", runs, "albert").baseline == "albert+mlm_sop"


def test_baseline_of_that_name_comes_before_the_same_model_pretrained(make_run):
    assert comparing.compare("s", [make_run("base+mlm", model="base"), make_run("base", model="base")]).baseline == "base"


def test_baseline_of_several_pretrainings_must_be_chosen(make_run):
    runs = [make_run("base+mlm", model="base"), make_run("base+rtd", model="base")]
    for name in (None, "base"):
        with pytest.raises(InputError, match=r"baseline 'base' could be base\+mlm or base\+rtd; choose one with baseline=NAME"):
            comparing.compare("s", runs, name)


def test_pretrainings_of_a_study_from_scratch_are_compared_with_the_same_encoder(make_run, pretrained):
    runs = [
        make_run("base", model="base"),
        pretrained("albert+mlm_sop"),
        pretrained("base+mlm"),
        make_run("base+mlm", model="base"),
    ]
    result = comparing.compare("s", runs)
    assert [(part.task, part.baseline) for part in result.sections] == [("pretraining", "base+mlm"), ("sst2", "base")]
    assert "base was not pretrained: changes are relative to base+mlm" in sentences(result)
    assert "not pretrained" not in sentences(result, 1)


def test_no_encoder_stands_in_where_two_could(make_run, pretrained):
    section = comparing.compare("s", [make_run("base", model="base"), pretrained("base+mlm"), pretrained("base+rtd")]).sections[
        0
    ]
    assert section.before is None
    assert "no change can be computed" in section_text.section_notes(section)[0]


@pytest.mark.long
def test_pretraining_of_another_study_is_followed_once(tracking):
    tracking.log_pretraining(study="older")
    newest = tracking.log_pretraining(study="newer")
    tracking.log_pretraining(study="broken", status="failed")
    tracking.log_pretraining(study="other", fingerprint="f9")
    for task in ("sst2", "cola"):
        tracking.log("base+mlm", task=task, pretraining="f0", fingerprint=task, model="base")
    reader = connect(tracking.uri)
    runs = store.read_study(reader, "before_after")
    assert [(run.run_id, run.elsewhere) for run in store.follow(reader, runs)] == [(newest, "newer")]
    assert main(["--study", "before_after", "--out", "here"]) == 0
    text = Path("here", "report.md").read_text()
    assert "Trained in study newer and reused here: base+mlm (seed 0)." in text
    assert text.count("## pretraining: measured") == 1


@pytest.mark.long
def test_a_study_whose_pretrainings_another_one_ran_has_a_report(tracking):
    tracking.log_pretraining(study="older")
    tracking.client.create_experiment("planned")
    output = connect(tracking.uri).output
    for folder in ("pretrained/x", "planned"):
        (output / folder).mkdir(parents=True)
    records.write(output / "pretrained" / "x" / "run.json", {"tags": {tags.FINGERPRINT: "f0"}})
    plan = {"time": 1, "folder": "/", "runs": [{"folder": "pretrained/x"}, {"folder": "pretrained/gone"}]}
    records.write(output / "planned" / paths.PLAN, {"harness": plan})
    assert main(["--study", "planned", "--baseline", "base+mlm", "--out", "here"]) == 0
    assert "Trained in study older and reused here: base+mlm (seed 0)." in Path("here", "report.md").read_text()


def test_pretraining_of_the_study_itself_is_not_looked_for_elsewhere(tracking):
    tracking.log_pretraining()
    tracking.log_pretraining(study="newer")
    tracking.log("base+mlm", pretraining="f0", fingerprint="t0", model="base")
    reader = connect(tracking.uri)
    assert store.follow(reader, store.read_study(reader, "before_after")) == []


def test_pretraining_that_is_gone_is_said(make_run, pretrained):
    result = comparing.compare("s", [make_run("base+mlm", model="base", pretraining="f7"), pretrained(fingerprint="f0")])
    assert "The run whose weights these start from is not in this store: base+mlm." in sentences(result, 1)


def test_pretraining_that_was_superseded_is_said(make_run, pretrained):
    runs = [pretrained(fingerprint="f0"), make_run("base+mlm", model="base", pretraining="f0"), pretrained(fingerprint="f1")]
    said = "The run whose weights these start from was superseded by a later run: base+mlm."
    assert said in sentences(comparing.compare("s", runs), 1)


def test_weights_of_a_fine_tuning_are_found(make_run):
    """An arm of rte may start from its run on mnli."""
    runs = [make_run("base", task="mnli", fingerprint="f0"), make_run("base", task="rte", pretraining="f0")]
    assert sentences(comparing.compare("s", runs), 1) == ""


def test_overlap_is_said_in_the_section_of_its_task(make_run):
    runs = [make_run("base"), make_run("base+mlm", values={"corpus/overlap": 0.0125})]
    text = "Evaluation items with a 13-gram overlap with the pretraining corpus: "
    assert sentences(comparing.compare("s", runs)) == f"{text}1.2 %."
    runs.append(make_run("gpt+clm", values={"corpus/overlap": 0.0}))
    assert sentences(comparing.compare("s", runs)) == f"{text}1.2 % (base+mlm); 0.0 % (gpt+clm)."


def test_conditions_that_differ_say_how_to_compare_along_them(make_run):
    result = comparing.compare("s", [make_run(params={"pretrain.tokens": size, "x": size}) for size in "12"])
    text = md(section_text.conditions_differences(result, result.sections[0]))
    assert "| pretrain.tokens | 1 | 2 | `along=pretrain.tokens` |" in text
    assert "| x | 1 | 2 | `along=x` |" in text


BITS, PER_TOKEN = "pretrain/heldout_bits_per_byte", "pretrain/masked_loss"
SIZE = {"tokenizer.vocab_size": "8192", "facts.tokenizer_file": "e3b0c44298fc1c14"}
OWN_VOCABULARY = SIZE | {"tokenizer.kind": "bpe", "tokenizer.lowercase": "False"}
BERTS = SIZE | {"tokenizer.kind": "wordpiece", "tokenizer.lowercase": "True"}


def of_vocabularies(pretrained, ended, other: dict[str, str]):
    """Pretrainings of base and roberta, three seeds each, of which roberta has fewer nats a token and more bits a byte."""
    runs = []
    for arm, params, nats, bits, noise in (("base+mlm", BERTS, 4.0, 1.2, 0.01), ("roberta+mlm", other, 3.5, 1.3, 0.02)):
        for seed in (0, 1, 2):
            ends = ended(nats + seed * noise, {BITS: bits + seed * noise / 10})
            runs.append(pretrained(arm, seed, ends, params, lifted=json.dumps(list(BERTS))))
    return comparing.compare("s", runs)


def test_arms_of_several_vocabularies_are_compared_by_byte_and_not_by_token(pretrained, ended):
    result = of_vocabularies(pretrained, ended, OWN_VOCABULARY)
    (section,) = result.sections
    row = section.row_of("roberta+mlm")
    assert section.change(row, PER_TOKEN).verdict is Verdict.OPEN
    assert section.change(row, "pretrain/masked_accuracy").verdict is Verdict.OPEN
    assert section.change(row, BITS).verdict is Verdict.WORSE
    head = md(overview.overview(result)).splitlines()[0]
    assert "held-out masked bits per byte, bits/byte" in head
    assert "held-out masked loss" not in head
    said = " ".join(parts(findings.sentences(result)) + parts(findings.cautions(result)))
    assert "wordpiece, lower case, up to 8192 pieces: base+mlm; bpe, cased, up to 8192 pieces: roberta+mlm" in said
    assert "**worse** in held-out masked bits per byte" in said
    assert BITS in tables.columns(section)


def test_bits_per_byte_of_pretrainings_on_the_plateau_have_no_verdict(pretrained, ended):
    stuck = {"pretrain/unigram_entropy": 3.6}
    (section,) = of_vocabularies(pretrained, lambda loss, more: ended(loss, more | stuck), OWN_VOCABULARY).sections
    assert section.change(section.row_of("roberta+mlm"), BITS).verdict not in (Verdict.WORSE, Verdict.BETTER, Verdict.SAME)


def test_arms_of_one_vocabulary_are_compared_by_token(pretrained, ended):
    result = of_vocabularies(pretrained, ended, BERTS)
    (section,) = result.sections
    assert section.change(section.row_of("roberta+mlm"), PER_TOKEN).verdict is Verdict.BETTER
    assert "held-out masked loss, nats" in md(overview.overview(result)).splitlines()[0]
    assert "Vocabularies" not in " ".join(parts(findings.cautions(result)))
    assert BITS not in tables.columns(section)
