"""One quantity, one number: of a real study, `compare`, `pick` and `gate` show what its runs and its session recorded."""

import csv
import io
import json

import pytest

from harness import metrics
from harness.metrics import Compared
from harness.reports.__main__ import main
from harness.tracking import run_log

pytestmark = pytest.mark.long

ARMS = ("base", "enhanced")
DEVICE = "inference/latency_device_ms"


@pytest.fixture
def said(sweep, capsys):
    def run(*arguments: str) -> str:
        assert main([*arguments, "--uri", f"sqlite:///{sweep.output / 'mlflow.db'}"]) in (0, 1)  # a busy machine is no fault
        return capsys.readouterr().out

    return run


@pytest.fixture
def recorded(sweep) -> dict[str, dict[str, float]]:
    return {arm: run_log.result(sweep.folder(arm))["metrics"] for arm in ARMS}


def test_compare_has_the_numbers_of_both_runs_and_no_change_of_their_own_clocks(said, sweep, recorded, runs_of):
    ids = {run.data.tags["arm"]: run.info.run_id for run in runs_of(sweep.output, "sweep") if "replicate" not in run.data.tags}
    lines = [*csv.DictReader(io.StringIO(said("compare", *(ids[arm] for arm in ARMS), "--format", "csv", "--all")))]
    shown = [line for line in lines if all(line["name"] in recorded[arm] for arm in ARMS)]
    numbers = {line["name"]: (float(line["a"]), float(line["b"])) for line in shown if line["a"] and line["b"]}
    assert {DEVICE, "inference/peak_memory_bytes", "model/params_total", "train_step/device_tokens_per_s"} <= {*numbers}
    for name, both in numbers.items():
        assert both == pytest.approx([recorded[arm][name] for arm in ARMS], rel=6e-3), name
    own = [
        line for line in lines if line["name"] in metrics.METRICS and metrics.get(line["name"]).compared is Compared.OWN_CLOCK
    ]
    assert own
    assert {line[column] for line in own for column in ("change", "change_percent")} == {""}


def test_pick_and_gate_judge_the_latency_of_the_session(said, recorded):
    shown = said("pick", "--study", "sweep", "--max-latency-ms", "1000")
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown.splitlines() if line.startswith(ARMS)]
    latencies = {row[0]: float(row[2].split()[0].replace(",", "")) for row in rows}
    assert latencies == {arm: pytest.approx(recorded[arm][DEVICE], rel=6e-3) for arm in ARMS}
    (test,) = json.loads(said("gate", "--study", "sweep", "--max-slowdown", "900%", "--json"))["candidates"][0]["tests"]
    found = (test["before"], test["before"] + test["difference"])
    assert found == pytest.approx([recorded[arm][DEVICE] for arm in ARMS], rel=6e-3)
