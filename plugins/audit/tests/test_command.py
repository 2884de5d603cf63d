"""The whole command: made-up claims get the right verdicts, the record is written, wrong input is one line."""

import json
import re
import sys

import pytest

from harness.__main__ import main
from harness.plugins.audit import command
from harness.plugins.audit.command import finished_runs_of

pytestmark = pytest.mark.long

MODELS = ("base", "enhanced")

CLAIMS = """
source: made up
claims:
  true-one:
    claim: BERT-base with two classes has 109,483,778 parameters
    claimed: 109483778
    readings: {counted: {measure: parameters, of: model=base scale=base}}
  false-one:
    claim: BERT-base with two classes has 109,483,779 parameters
    claimed: 109483779
    note: one too many
    readings: {counted: {measure: parameters, of: model=base scale=base}}
  in-part:
    claim: a window of 8 saves half of the pairs
    claimed: -0.5
    relation: at_most
    readings:
      pairs:
        measure: flops
        of: model=windowed scale=tiny
        against: model=base scale=tiny
        part: visible_pairs
        lengths: [8, 32, 64]
      other: {measure: config, of: model=wide scale=tiny, keys: [attention_window], claimed: 32, relation: equal, beside: true}
  open-one:
    claim: GPT is better
    relation: better
    readings: {study: {measure: score, of: model=gpt, against: model=base, tasks: [sst2]}}
  nowhere:
    claim: it needs what is not here
    readings: {weights: {measure: not_testable, reason: published weights}}
"""

BLOCKS = """\
confirmed          BERT-base with two classes has 109,483,778 parameters
                     109,483,778; claimed 109,483,778
refuted            BERT-base with two classes has 109,483,779 parameters · one too many
                     109,483,778; claimed 109,483,779
holds only where   a window of 8 saves half of the pairs · length ≥ 32
                     pairs: -18.8 % (length 8), -73.8 % (32), -86.4 % (64); claimed ≤ -50.0 % →
                     holds only where length ≥ 32
                     [other: 32; claimed 32]
undecided          GPT is better · needs a study of 10 seeds
                     claimed better
not testable here  it needs what is not here · published weights

Commands that would settle undecided claims:
open-one
  python -m harness -m model=gpt,base task=sst2 'seed=range(1,11)'

5 claims: 1 confirmed, 1 refuted, 1 holds only where, 1 undecided, 1 not testable here
"""
"""What the command prints of the claims above."""


@pytest.fixture
def audit(tmp_path, monkeypatch, capsys):
    """Runs the command with the claims and a model of the user, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for folder in ("claims", "model"):
        (tmp_path / "my_conf" / folder).mkdir(parents=True)
    (tmp_path / "my_conf" / "claims" / "made_up.yaml").write_text(CLAIMS)
    (tmp_path / "my_conf" / "model" / "wide.yaml").write_text("attention_window: 32\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["audit", "--config-dir", "my_conf", *arguments])
        return code, *capsys.readouterr()

    return run


def test_true_and_false_claims_get_their_verdicts(audit, tmp_path):
    code, out, _ = audit("claims=made_up")
    assert code == 0
    assert BLOCKS in out
    assert max(map(len, out.splitlines()[:-1])) <= 100
    record = json.loads((tmp_path / "multirun" / "audit" / "audit.json").read_text())
    assert [claim["verdict"] for claim in record["claims"]][:3] == ["confirmed", "refuted", "holds only where"]
    pairs = record["claims"][2]["readings"][0]["points"]
    assert [point["where"]["length"] for point in pairs] == [8, 32, 64]
    code, out, _ = audit("claims=made_up", "where=verdict=refuted")
    assert (code, out.count("BERT-base")) == (0, 1)
    assert "1 claim: 1 refuted" in out
    assert "109,483,779" in out


CARRIED = """
claims:
  wide-reaches-further:
    claim: it sees 32 tokens
    claimed: 32
    readings: {window: {measure: config, keys: [attention_window]}}
  wide-is-smaller:
    claim: it has fewer parameters than BERT
    claimed: -0.1
    relation: at_most
    readings: {counted: {measure: parameters, of: model=wide scale=tiny, against: model=base scale=tiny}}
"""


def test_a_variant_carries_claims_of_its_own(audit, tmp_path):
    """In a file of its name beside it; `of` is the variant itself unless a reading says otherwise."""
    (tmp_path / "my_conf" / "model" / "claims").mkdir()
    (tmp_path / "my_conf" / "model" / "claims" / "wide.yaml").write_text(CARRIED)
    code, out, _ = audit("claims=wide")
    assert code == 0
    assert out.splitlines()[:4] == [
        "confirmed          it sees 32 tokens",
        "                     32; claimed 32",
        "refuted            it has fewer parameters than BERT",
        "                     +0.0 %; claimed ≤ -10.0 %",
    ]
    record = json.loads((tmp_path / "multirun" / "audit" / "audit.json").read_text())
    assert {claim["source"] for claim in record["claims"]} == {"the variant wide"}


def test_a_file_from_anywhere_is_read_by_one_key(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(CLAIMS[: CLAIMS.index("  in-part:")])
    assert main(["audit", "claims=mine.yaml"]) == 0
    assert capsys.readouterr().out.startswith(BLOCKS[: BLOCKS.index("holds only where")])


def test_ids_in_a_vocabulary_are_in_the_record(audit, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nbank\nwas\nrobbed\n")
    code, out, _ = audit("claims=tokens-the-bank-was-robbed", "vocab_file=vocab.txt")
    assert (code, "2 5 6 7 8 3" in out) == (0, True)
    readings = json.loads((tmp_path / "multirun" / "audit" / "audit.json").read_text())["claims"][0]["readings"]
    assert [reading["points"][0]["value"] for reading in readings] == [6, "2 5 6 7 8 3"]


def test_an_audit_of_some_claims_keeps_the_others_in_the_record(audit, tmp_path):
    for name in ("true-one", "nowhere", "true-one"):
        assert audit(f"claims={name}")[0] == 0
    record = json.loads((tmp_path / "multirun" / "audit" / "audit.json").read_text())
    assert [claim["name"] for claim in record["claims"]] == ["true-one", "nowhere"]


def test_finished_runs_are_read_with_all_that_is_known_of_them(sweep, tmp_path):
    found = finished_runs_of(None, str(sweep.output))
    swept = [run for run in found if run.tags["study"] == "sweep" and "replicate" not in run.tags]
    assert sorted(run.tags["arm"] for run in swept) == sorted(MODELS)
    assert all(run.params["task.name"] == "bag" and 0 <= run.metrics["eval/score"] <= 1 for run in swept)
    assert all(run.params["pretrain.mask_rate"] == "0.15" and run.metrics["setup/import_s"] > 0 for run in swept)
    assert not any(run.tags["role"] == "study" for run in found)
    assert finished_runs_of(None, str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_runs_of_a_finished_sweep_are_compared(audit, sweep, tmp_path):
    path = tmp_path / "my_conf" / "claims" / "made_up.yaml"
    path.write_text(CLAIMS.replace("model=gpt,", "model=enhanced,").replace("tasks: [sst2]", "metric: eval/loss"))
    code, out, _ = audit("claims=open-one", f"tracking.uri=sqlite:///{sweep.output / 'mlflow.db'}")
    assert code == 0
    assert re.search(r"undecided +GPT is better · needs", out), out
    assert re.search(r"\(task bag, scale tiny, max_steps 12, pairs 1\); claimed better", " ".join(out.split())), out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["claims=made_upp"], "unknown claim 'made_upp'; did you mean 'made_up'?"),
        (["claims=nowhere.yaml"], "nowhere.yaml: expected a YAML file of claims"),
        (["model=base"], "unknown key 'model'; choices for `python -m harness audit`: claims, "),
        (["where=verdct=refuted"], "unknown key 'verdct'; did you mean 'verdict'?"),
        (["claims=true-one", "where=verdict=refuted"], "no claim matches"),
        (["output=nowhere"], "harness audit: output='nowhere' is not a folder: expected the folder of the runs\n"),
        (
            ["tracking.uri=foo"],
            "harness audit: tracking.uri='foo' must be an address such as http://HOST:5000 or sqlite:////FOLDER/mlflow.db",
        ),
    ],
)
def test_wrong_input_is_one_line(audit, tmp_path, arguments, expected):
    code, out, err = audit(*arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_a_value_that_no_row_can_have_is_refused_before_anything_is_measured(audit, monkeypatch):
    monkeypatch.setattr(command, "measured", lambda *_: pytest.fail("it was measured"))
    for condition, message in {
        "verdict=maybe": "unknown verdict 'maybe'; choices for `where`: confirmed, holds only where, not comparable, ",
        "measure=flopps": "did you mean 'flops'?",
        "source=made_upp": "unknown source 'made_upp'; did you mean 'made_up'?",
    }.items():
        code, _, err = audit(f"where={condition}")
        assert (code, message in err) == (2, True), err


def test_a_model_that_does_not_exist_is_named_with_its_reading(audit, tmp_path):
    path = tmp_path / "my_conf" / "claims" / "made_up.yaml"
    path.write_text(CLAIMS.replace("model=wide", "model=wid"))
    code, _, err = audit("claims=in-part")
    assert code == 2
    assert "claims.in-part.readings.other: unknown model 'wid'" in err
    assert err.count("\n") == 1


CALL = "{_target_: os.system, command: touch executed}"


@pytest.mark.parametrize(
    "content", ["source: !!python/object/apply:os.system ['touch executed']\n", f"claims: {{x: {CALL}}}\n"]
)
def test_code_that_a_file_of_claims_names_is_refused(content, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(content)
    assert main(["audit", "claims=mine.yaml"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), "mine.yaml, line 1" in err) == (1, True), err
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("word", ["hydra.searchpath=['pkg://antigravity']", "hydra.job_logging.root={}", "arm=${oc.env:HOME}"])
def test_models_of_a_file_of_claims_set_nothing_of_hydra(capsys, word, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    reading = {"measure": "config", "of": f"model=base scale=tiny {word}", "keys": ["num_hidden_layers"]}
    claim = {"claim": "it has a layer", "claimed": [1], "readings": {"here": reading}}
    (tmp_path / "out").mkdir()
    (tmp_path / "mine.yaml").write_text(json.dumps({"source": "a paper", "claims": {"x": claim}}))
    assert main(["audit", "claims=mine.yaml", "output=out"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), "a claim: " in err) == (1, True), err
    assert "antigravity" not in sys.modules
