"""The whole command: made-up claims get the right verdicts, the record is written, wrong input is one line."""

import json
import re

import pytest

from harness.__main__ import main

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
      other: {measure: config, of: model=wide scale=tiny, key: attention_window, claimed: 32, relation: equal, beside: true}
  open-one:
    claim: GPT is better
    relation: better
    readings: {study: {measure: score, of: model=gpt, against: model=base, tasks: [sst2]}}
  nowhere:
    claim: it needs what is not here
    readings: {weights: {measure: not_testable, reason: published weights}}
"""

COUNTS = ("109,483,778", "109,483,779")


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
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    cells = [re.split("  +", lines[f"BERT-base with two classes has {count} parameters"]) for count in COUNTS]
    assert cells[0][1:] == ["109,483,778", "109,483,778", "confirmed"]
    assert cells[1][1:] == ["109,483,779", "109,483,778", "refuted (one too many)"]
    assert "holds only where length ≥ 32" in lines["a window of 8 saves half of the pairs"]
    assert "undecided (needs a study of 10 seeds)" in lines["GPT is better"]
    assert "not testable here (published weights)" in lines["it needs what is not here"]
    assert "python -m harness -m model=gpt,base task=sst2" in out
    assert "5 claims: 1 confirmed, 1 refuted, 1 holds only where, 1 undecided, 1 not testable here" in out
    record = json.loads((tmp_path / "multirun" / "audit" / "audit.json").read_text())
    assert [claim["verdict"] for claim in record["claims"]][:3] == ["confirmed", "refuted", "holds only where"]
    pairs = record["claims"][2]["readings"][0]["points"]
    assert [point["where"]["length"] for point in pairs] == [8, 32, 64]


def test_an_audit_of_some_claims_keeps_the_others_in_the_record(audit, tmp_path):
    for name in ("true-one", "nowhere", "true-one"):
        assert audit(f"claims={name}")[0] == 0
    record = json.loads((tmp_path / "multirun" / "audit" / "audit.json").read_text())
    assert [claim["name"] for claim in record["claims"]] == ["true-one", "nowhere"]


def test_runs_of_a_finished_sweep_are_compared(audit, sweep, tmp_path):
    path = tmp_path / "my_conf" / "claims" / "made_up.yaml"
    path.write_text(CLAIMS.replace("model=gpt,", "model=enhanced,").replace("tasks: [sst2]", "metric: eval/loss"))
    code, out, _ = audit("claims=open-one", "--uri", f"sqlite:///{sweep.output / 'mlflow.db'}")
    (line,) = [line for line in out.splitlines() if line.startswith("GPT is better")]
    assert code == 0
    assert re.search(r"\(task bag, scale tiny, max_steps 12, pairs 1\) +undecided", line), line


def test_rows_are_filtered(audit):
    code, out, _ = audit("claims=made_up", "--where", "verdict=refuted")
    assert (code, out.count("BERT-base")) == (0, 1)
    assert "1 claims: 1 refuted" in out
    assert "109,483,779" in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["claims=made_upp"], "unknown claim 'made_upp'; did you mean 'made_up'?"),
        (["claims=nowhere.yaml"], "nowhere.yaml: expected a YAML file of claims"),
        (["model=base"], "unknown key 'model'; choices for `audit`: claims, vocab_file"),
        (["--where", "verdct=refuted"], "unknown key 'verdct'; did you mean 'verdict'?"),
        (["claims=true-one", "--where", "verdict=refuted"], "no claim of 1 fits"),
        (["--measured"], "unknown option '--measured'"),
    ],
    ids=["name", "path", "key", "filter", "no row", "option"],
)
def test_wrong_input_is_one_line(audit, arguments, expected):
    code, out, err = audit(*arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1


def test_a_model_that_does_not_exist_is_named_with_its_reading(audit, tmp_path):
    path = tmp_path / "my_conf" / "claims" / "made_up.yaml"
    path.write_text(CLAIMS.replace("model=wide", "model=wid"))
    code, _, err = audit("claims=in-part")
    assert code == 2
    assert "claims.in-part.readings.other: unknown model 'wid'" in err
    assert err.count("\n") == 1
