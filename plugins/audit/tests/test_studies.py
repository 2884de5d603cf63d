"""Commands that the audit prints as settling a claim: each can be composed on the data that it names, and settles the claim."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness import grammar, tags
from harness.__main__ import main
from harness.comparison.runs import Run
from harness.comparison.section import CONSTANTS
from harness.config import compose
from harness.plugins.audit import claims, record, scores
from harness.plugins.audit import command as audit
from harness.plugins.audit.claims import Claim, read_all
from harness.plugins.audit.measures import Instruments
from harness.plugins.audit.options import Audit
from harness.plugins.audit.verdicts import SETTLED, Measured
from harness.study.plan import PlannedRun, plan

ROOT = Path(__file__).resolve().parents[3]

LESS = {"corpus=": "corpus.train_documents=4", "task=sst2": "data.train_examples=100"}
"""What a command names -> less of it, which plans faster."""


CONSTANT = {"eval/score": 0.5, "pretrain/masked_loss": 6.7}
"""Metric -> what is reached without reading the text."""

FAR = {"eval/score": (0.8, 0.4), "pretrain/masked_loss": (2.0, 4.0)}
SILENT = {"eval/score": 0.999, "pretrain/masked_loss": 6.6}
"""Values of both arms that settle a claim, and at which the task cannot tell them apart: its ceiling, the plateau."""


def deciding(claim: Claim) -> claims.Reading:
    return next(reading for reading in claim.readings.values() if not reading.beside)


def named(*kinds: type) -> dict[str, Claim]:
    """Shipped claims that a reading of this kind decides."""
    return {claim.name: claim for claim in read_all([], None) if isinstance(deciding(claim), kinds)}


TRAINED, OTHERS = named(claims.Score), named(claims.Speed, claims.Encoded)


def commands_in(text: str) -> dict[str, str]:
    """Claim -> the command below it, its lines joined as a shell does."""
    listed = text.partition(f"{record.COMMANDS}\n")[2].partition("\n\n")[0]
    return {name: lines.replace("\\\n", "") for name, lines in re.findall(r"^(\S+)\n((?: .*(?:\n|$))+)", listed, re.MULTILINE)}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """One for all, since most studies have the same text."""
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def printed(output) -> dict[str, str]:
    """Of all shipped claims, before anything is trained or timed."""
    every = (*TRAINED.values(), *OTHERS.values())
    selected = [msgspec.structs.replace(claim, readings={"it": deciding(claim)}) for claim in every]
    tools = Instruments()
    settled = [audit.settle(claim, audit.measured(claim, tools)) for claim in selected]
    assert {claim.verdict for claim in settled} == {"undecided"}
    return commands_in(audit.text(settled))


def finished(planned: PlannedRun, reading: claims.Score, values: Callable[[bool, int], float]) -> Run:
    """A run as planned, whose metric is that of whether it is of the claim's arm, and of its seed."""
    record = planned.identity.described(planned.lifted)
    params = record["parameters"]
    ours = all(scores.plain(params[key]) == scores.plain(value) for key, value in scores.facts_of(reading.of).items())
    value = values(ours, planned.identity.seed)
    return Run("", "", 0, record["tags"], params, {reading.metric: value, CONSTANTS[reading.metric]: CONSTANT[reading.metric]})


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINED)
def test_a_printed_study_plans_and_settles_its_claim(name, printed, output, shared_data, monkeypatch):
    monkeypatch.chdir(ROOT)
    claim = TRAINED[name]
    reading, planned = deciding(claim), []
    for command in printed[name].split(" && "):
        words = shlex.split(command)
        assert words[:3] == ["python", "-m", "harness"]
        less = [limit for words_of, limit in LESS.items() if any(word.startswith(words_of) for word in words)]
        compose.main([*words[3:], *less, f"output={output}"], lambda configs: planned.extend(plan(configs)) or 0)
    trained = [one for one in planned if reading.metric.startswith("pretrain") or one.inputs.data]

    def settled(values: Callable[[bool, int], float]) -> record.Claim:
        runs = [finished(one, reading, values) for one in trained]
        assert len({one.tags[tags.SEED] for one in runs}) == scores.seeds_needed(1.0)
        found = [scores.compare(one, runs) if one is reading else Measured() for one in claim.readings.values()]
        return audit.settle(claim, found)

    far = settled(lambda ours, seed: FAR[reading.metric][not ours] * (1 + seed**2 / 1000))
    assert far.verdict in {verdict.value for verdict in SETTLED}
    silent = settled(lambda ours, seed: SILENT[reading.metric])
    assert silent.verdict == "undecided"
    assert not any(each.command for each in silent.readings)  # that very study cannot tell


@pytest.mark.long
@pytest.mark.parametrize("name", OTHERS)
def test_a_printed_audit_names_its_claim_and_what_it_lacked(name, printed, monkeypatch, shared_data):
    monkeypatch.chdir(ROOT)
    words = shlex.split(printed[name])
    assert words[:4] == ["python", "-m", "harness", "audit"]
    parsed = grammar.parse(words[4:], Audit, "audit")
    assert [claim.name for claim in read_all(list(parsed.claims), parsed.config_dir)] == [name]
    assert parsed.measure or Path(parsed.vocab_file).is_file()


MINE = """
source: a test
claims:
  one-layer-is-faster:
    claim: one layer is faster than six
    relation: better
    margin: 0.05
    readings:
      timed:
        measure: speed
        rate: true
        of: model=base scale=tiny model.num_hidden_layers=1
        against: model=base scale=tiny model.num_hidden_layers=6
        lengths: [64]
  order-is-needed:
    claim: an encoder that knows the order of its tokens is better
    relation: better
    margin: 0.01
    readings:
      trained:
        measure: score
        of: model=base
        against: model=static
        metric: eval/loss
        tasks: [bag]
        needs: pretrain=none
        study: scale=tiny finetune=smoke measure=none hardware.threads=1 report=false
"""


def run_as_printed(name: str, folder: Path, capsys, monkeypatch) -> str:
    """What the audit says of a claim after its printed command was run by a shell in this folder."""
    (folder / "my claims.yaml").write_text(MINE)
    monkeypatch.chdir(folder)
    arguments = ["audit", "claims=my claims.yaml"]
    assert main(arguments) == 0
    command = commands_in(capsys.readouterr().out)[name]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    if " audit " in command:
        return done.stdout
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.long
def test_a_printed_timing_runs_as_it_is_printed(tmp_path, capsys, monkeypatch):
    assert "confirmed          one layer is faster than six" in run_as_printed(
        "one-layer-is-faster", tmp_path, capsys, monkeypatch
    )


@pytest.mark.slow
def test_a_printed_study_runs_as_it_is_printed(tmp_path, capsys, monkeypatch):
    said = run_as_printed("order-is-needed", tmp_path, capsys, monkeypatch)
    assert re.search(r"\(task bag, scale tiny, [^()]*pairs 10\)", " ".join(said.split()))
    assert list(commands_in(said)) == ["one-layer-is-faster"]
