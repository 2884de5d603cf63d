"""What a user sees of a study in MLflow's pages, in headless Chromium: table, charts, compare view, run, report."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import chromium
from child_processes import started, wait_for

from harness.plugins.trackers import sqlite_store
from harness.plugins.trackers.mlflow_store import MlflowClient
from harness.study import tracked_study
from harness.tracking import run_log

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def output(sweep, tmp_path_factory) -> Path:
    """A copy of the sweep with its report, as `report=true` leaves it."""
    from harness.config.resolve import load

    copy = tmp_path_factory.mktemp("shown") / "out"
    shutil.copytree(sweep.output, copy, ignore=shutil.ignore_patterns("cache", "*.lock"))
    config = load(sweep.folder("base") / "config.yaml")
    config.output = str(copy)
    assert tracked_study.write_report(config, ["base"])
    command = [sys.executable, "-m", "harness", "sync", f"output={copy}"]  # MLflow keeps places of files in this process
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # adds the report to the study's run
    return copy


@pytest.fixture(scope="module")
def address(output) -> Iterator[str]:
    """Of a UI that serves the store until the last test."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "harness", "ui", f"output={output}", f"port={port}"]
    with started(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: _listens(port), process)
        yield f"http://127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def pages(output) -> tuple[str, dict[str, str]]:
    """Number of the study, and run id by name of the run."""
    number = sqlite_store.studies(f"sqlite:///{output / 'mlflow.db'}")["sweep"]
    runs = MlflowClient(f"sqlite:///{output / 'mlflow.db'}").search_runs([number])
    return number, {run.info.run_name: run.info.run_id for run in runs}


RUNS = ("base, tiny, bag, seed 1", "enhanced, tiny, bag, seed 1")
COLUMNS = """[...document.querySelectorAll('.ag-header-cell')]
    .sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left).map(cell => cell.innerText)"""
"""Heads of the table from left to right; their order in the page is another one."""

ORDER = [f"harness.{name}" for name in ("arm", "task", "seed", "warning")]
ORDER += ["eval/score", "model/params_total", "model/flops_forward", "inference/latency_device_ms"]
REPLICATE = "base, tiny, bag, seed 1 (A/A replicate)"


@pytest.mark.slow
def test_table_charts_run_and_report_show_what_matters(sweep, output, address, pages, tmp_path):
    """One browser for all pages, for its start takes longest."""
    number, ids = pages
    values = run_log.result(sweep.folder("enhanced"))["metrics"]

    with chromium(tmp_path / "profile") as page:
        page.show(3400, 1000)  # columns that are not visible are not made, and a panel beside them takes 600
        table = f"{address}/#/experiments/{number}/runs?workflowType=machine_learning&viewStateShareKey=results"
        text = page.text_with(table, *RUNS, "eval/score", "2 matching runs", "2 runs: 2 arms", "Sort: eval/score")
        shown = [name.strip() for name in page.settled(COLUMNS)]
        assert [name for name in shown if name in ORDER] == ORDER
        assert REPLICATE not in text
        page.picture(tmp_path / "table.png")

        charts = f"{address}/#/experiments/{number}/runs?workflowType=machine_learning&compareRunsMode=CHART"
        text = page.text_with(charts, *RUNS, "study sweep", "by_task\n(", "by_task/bag_score", "eval\n(")
        assert REPLICATE not in text  # folded below the run of the study
        assert text.index("by_task\n(") < text.index("eval\n(")  # scores of one task come first

        text = page.text_with(
            f"{address}/#/experiments/{number}/runs/{ids[RUNS[1]]}",
            *("Description", "Metrics (", "Parameters (", "python -m harness", "model.num_hidden_groups"),
        )
        assert f"enhanced on bag, scale tiny, seed 1. Finished: score {values['eval/score']:.3f}" in text
        assert "No description" not in text
        assert int(text.partition("Metrics (")[2].partition(")")[0]) <= 60
        stored = MlflowClient(f"sqlite:///{output / 'mlflow.db'}").get_run(ids[RUNS[1]]).data.params
        assert int(text.partition("Parameters (")[2].partition(")")[0]) == len(stored)
        assert not any(hidden in text for hidden in ("pretrain.mask_rate", "mlflow.harness", "params_component"))
        page.picture(tmp_path / "run.png")

        both = "%5B%22" + "%22%2C%22".join(ids[name] for name in RUNS) + "%22%5D"
        compared = f"{address}/#/compare-runs?runs={both}&experiments=%5B%22{number}%22%5D"
        text = page.text_with(compared, "Comparing 2 Runs", "Run details", *RUNS, "model.num_hidden_groups", "eval/score")
        parameters = text.partition("Run details")[2].partition("Parameters")[2].partition("Metrics")[0]
        assert "finetune.learning_rate" in parameters
        assert "environment.load_average" not in parameters

        text = page.text_with(f"{address}/#/experiments/{number}/runs/{ids['study sweep']}", "2 runs: 2 arms", REPLICATE)
        report = f"{address}/#/experiments/{number}/runs/{ids['study sweep']}/artifacts/report/report.md"
        page.text_with(report, "plan.md", "summary.csv", "Report: sweep", "baseline: base")
        page.picture(tmp_path / "report.png")
        assert page.exceptions == []
    assert all((tmp_path / f"{name}.png").stat().st_size > 20_000 for name in ("table", "run", "report"))
