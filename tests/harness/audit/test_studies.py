"""Commands that the audit prints as settling a claim: each plans on the data that it names, and its runs settle the claim."""

import shlex
from pathlib import Path

import pytest

from harness import tags
from harness.audit import claims, run, scores
from harness.audit.claims import Claim, read_all
from harness.audit.verdicts import Measured
from harness.config import compose
from harness.study.plan import PlannedRun, plan
from harness.tracking.run_log import FinishedRun

ROOT = Path(__file__).resolve().parents[3]

LESS = {"corpus=": "corpus.train_documents=4", "task=sst2": "data.train_examples=100"}
"""What a command names -> less of it, which plans faster."""


def deciding(claim: Claim) -> claims.Reading:
    return next(reading for reading in claim.readings.values() if not reading.beside)


CLAIMS = {claim.name: claim for claim in read_all([], None) if isinstance(deciding(claim), claims.Score)}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """One for all, since most studies have the same text."""
    return tmp_path_factory.mktemp("studies")


def finished(planned: PlannedRun, reading: claims.Score) -> FinishedRun:
    """Far better where it is of the arm that the claim is of."""
    record = planned.identity.described(planned.lifted)
    params = record["parameters"]
    better = all(scores.plain(params[key]) == scores.plain(value) for key, value in scores.facts_of(reading.of).items())
    value = (2.0 if better else 4.0) if reading.metric == "pretrain/masked_loss" else (0.8 if better else 0.4)
    values = {reading.metric: value * (1 + planned.identity.seed**2 / 1000)}
    return FinishedRun(record["tags"], params, values)


@pytest.mark.long
@pytest.mark.parametrize("name", CLAIMS)
def test_a_printed_study_plans_and_settles_its_claim(name, output, shared_data, monkeypatch):
    monkeypatch.chdir(ROOT)
    claim = CLAIMS[name]
    reading, planned = deciding(claim), []
    for command in scores.study_command(reading, 3).split(" && "):
        words = shlex.split(command)
        assert words[:3] == ["python", "-m", "harness"]
        less = [limit for words_of, limit in LESS.items() if any(word.startswith(words_of) for word in words)]
        compose.main([*words[3:], *less, f"output={output}"], lambda configs: planned.extend(plan(configs)) or 0)
    runs = [finished(one, reading) for one in planned if reading.metric.startswith("pretrain") or one.inputs.data]
    assert len({one.tags[tags.SEED] for one in runs}) == 3
    row = run.settle(claim, [scores.compare(one, runs) if one is reading else Measured() for one in claim.readings.values()])
    assert row.settled.verdict.value in ("confirmed", "refuted"), row.settled
