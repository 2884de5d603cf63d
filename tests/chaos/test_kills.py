"""Sweeps whose workers, commands and reports are killed at random until they are complete; a tracking server comes and goes.

What is left equals, number by number, what an undisturbed sweep leaves. `make chaos` runs it, for some ten minutes each; the
seed of the kills is printed, and CHAOS_SEED repeats it. CHAOS_KILLS is the number of kills in chains of short sweeps.
"""

import contextlib
import csv
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlflow
import psutil
import pytest
from child_processes import PATIENCE_S, started, wait_for, workers

from harness import metrics, paths, tags
from harness.tracking import run_log

FEWEST_KILLS = 30
SWEEP = ["-m", "model=base,albert", "seed=range(0,12)", "scale=tiny", "task=bag", "task.grammar.train_examples=64"]
SWEEP += ["task.grammar.validation_examples=40", "finetune.max_steps=4", "hardware.threads=1", "measure=none", "study=chaos"]
RUNS = 24
TEMPORARY = re.compile(r"\..+\.\d+$|.*\.tmp$|\.probe-.*")
"""Names of files that are renamed once they are whole, and of folders that are removed."""


@dataclass
class Server:
    """MLflow on loopback, which can be switched off."""

    folder: Path
    port: int
    process: contextlib.ExitStack | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def on(self) -> None:
        if self.process is None:
            self.process = contextlib.ExitStack()
            database, files = f"sqlite:///{self.folder / 'store.db'}", str(self.folder)
            store = ["--backend-store-uri", database, "--artifacts-destination", files]
            command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), *store]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.process.enter_context(started([*command, "--workers", "1"], **quiet))
            wait_for(self._answers)

    def off(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Server(tmp_path / "server", port)
    made.on()
    yield made
    made.off()


def command(output: Path, uri: str) -> list[str]:
    return [sys.executable, "-m", "harness", *SWEEP, f"output={output}", f"tracking.uri={uri}", "report=false"]


def numbers(output: Path) -> dict[str, object]:
    """Name of a run -> its results that do not depend on the clock, and its losses."""
    found = {}
    for path in output.glob("chaos/*/result.json"):
        result = run_log.result(path.parent)
        assert result["status"] == "finished"
        fixed = {key: value for key, value in result["metrics"].items() if key.startswith(("eval/", "model/"))}
        losses = [entry["value"] for entry in run_log.Reader(path.parent).new_entries() if entry.get("key") == "finetune/loss"]
        found[path.parent.name] = (fixed, losses)
    return found


def table(output: Path, uri: str, folder: Path) -> list[tuple[str, ...]]:
    """Rows of the report's summary whose numbers do not depend on the clock."""
    made = [sys.executable, "-m", "reports", "--uri", uri, "--study", "chaos", "--format", "csv", "--out", str(folder)]
    done = subprocess.run(made, capture_output=True, text=True, cwd=output)
    assert done.returncode == 0, done.stdout + done.stderr
    return fixed_rows(folder / "summary.csv")


def fixed_rows(summary: Path) -> list[tuple[str, ...]]:
    with summary.open() as file:
        rows = list(csv.DictReader(file))
    fixed = [row for row in rows if metrics.get(row["metric"]).deterministic or row["metric"].startswith("eval/")]
    assert len({row["arm"] for row in fixed}) == 2
    return sorted(tuple(row[key] for key in ("arm", "metric", "n", "mean", "sd", "change", "verdict")) for row in fixed)


def kill(supervisor: subprocess.Popen, whom: str) -> None:
    """At this moment; who has ended already is left alone."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        for worker in workers(supervisor.pid) if whom in ("worker", "both") else []:
            worker.kill()
        if whom != "worker":
            supervisor.send_signal(signal.SIGTERM if whom == "politely" else signal.SIGKILL)


def kill_somewhere(supervisor: subprocess.Popen, log: Path, chance: random.Random, run_s: float) -> int:
    """Ends the command while it imports, composes and opens the trackers, or at a moment of its first run; how many kills."""
    said, killed = len(log.read_bytes()), 0
    if chance.random() < 1 / 3:
        ends = time.monotonic() + chance.uniform(0, 20 * run_s)
        wait_for(lambda: time.monotonic() > ends or b": started" in log.read_bytes()[said:] or supervisor.poll() is not None)
    else:
        wait_for(lambda: b": started" in log.read_bytes()[said:] or supervisor.poll() is not None)
        time.sleep(chance.uniform(0, run_s))
        if chance.random() < 1 / 3:
            killed += supervisor.poll() is None
            kill(supervisor, "worker")
            time.sleep(chance.uniform(0, run_s))
    killed += supervisor.poll() is None
    kill(supervisor, chance.choice(["supervisor", "both", "politely"]))
    return killed


def of_this_output(output: Path) -> list[str]:
    """Command lines of processes that work below the output folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(output) in line and process.pid != os.getpid():
            found.append(line)
    return found


@pytest.mark.slow
def test_a_sweep_that_is_killed_again_and_again_is_what_an_undisturbed_one_is(server: Server, tmp_path: Path):
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10**6)))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    calm, output = tmp_path / "calm", tmp_path / "out"
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}

    began, first = time.monotonic(), None
    with started(command(calm, "sqlite:///" + str(tmp_path / "calm.db")), **options) as process:
        for line in process.stdout:
            if first is None and "finished in" in line:
                first = time.monotonic() - began
        assert process.wait() == 0
    each = (time.monotonic() - began - first) / RUNS
    expected = numbers(calm)
    assert len(expected) == RUNS

    codes, killed = [], 0  # a command that finds nothing left to do ends by itself, before it is killed
    while not codes or codes[-1] != 0:
        server.off() if chance.random() < 0.2 else server.on()
        with (tmp_path / "log").open("a") as log, started(command(output, server.uri), **options | {"stdout": log}) as process:
            killed += kill_somewhere(process, tmp_path / "log", chance, each)
            codes.append(process.wait(PATIENCE_S))
        assert killed < 20 * FEWEST_KILLS, "nothing is ever finished"
    print(f"{killed} kills of {len(codes)} commands")
    assert killed >= FEWEST_KILLS
    assert 2 not in codes, (tmp_path / "log").read_text()[-3000:]

    server.on()
    sync = [sys.executable, "-m", "harness", "sync", f"output={output}", f"tracking.uri={server.uri}"]
    synced = subprocess.run(sync, capture_output=True, text=True, cwd=tmp_path)
    assert synced.returncode == 0, synced.stdout + synced.stderr
    assert numbers(output) == expected
    assert table(output, server.uri, tmp_path / "a") == table(calm, "sqlite:///" + str(tmp_path / "calm.db"), tmp_path / "b")
    _tracker_agrees(server.uri, output)
    assert [path for path in output.rglob("*") if TEMPORARY.fullmatch(path.name)] == []
    wait_for(lambda: of_this_output(output) == [])


def _tracker_agrees(uri: str, output: Path) -> None:
    """One finished run for each folder, by attempt; and none that is said to be running."""
    client = mlflow.MlflowClient(uri)
    (study,) = (one for one in client.search_experiments() if one.name == "chaos")
    runs = client.search_runs([study.experiment_id], max_results=1000)
    assert [run.info.run_name for run in runs if run.info.status == "RUNNING"] == []
    finished = [
        run for run in runs if run.data.tags.get(tags.PREFIX + tags.ROLE) == tags.ROLE_RUN and run.info.status == "FINISHED"
    ]
    records = run_log.all_records(str(output))
    assert sorted(run.data.tags["harness.attempt"] for run in finished) == sorted(one["attempt"] for one in records.values())
    assert len(records) == len(list(output.glob(f"chaos/*/{paths.LOCK}"))) == RUNS
    for run in finished:
        (folder,) = (path for path, one in records.items() if one["attempt"] == run.data.tags["harness.attempt"])
        results = run_log.result(folder)["metrics"]
        assert all(run.data.metrics[key] == value for key, value in results.items() if key in run.data.metrics)
        assert run.data.metrics["eval/score"] == results["eval/score"]


CHAIN = ["-m", "model=base,albert", "seed=1", "scale=tiny", "task=bag", "task.grammar.train_examples=64", "study=chaos"]
CHAIN += ["task.grammar.validation_examples=40", "finetune.max_steps=4", "hardware.threads=1", "measure.rounds=1"]
CHAIN += ["measure.repeats=3", "measure.retries=0"]
MARK = "CHAOS_COMMANDS"
"""Environment variable by which the processes of a chain are recognised, those that have lost their parent among them."""

PHASES = {"start": 2, "run": 3, "timing": 3, "report": 3, "files": 2, "end": 1}
"""Phases of a command in their order, with their shares of the kills."""

RUNS_OF_A_CHAIN, KILLS_OF_A_CHAIN = 2, 14


@dataclass
class Chain:
    """Commands for one sweep, one after the other, all but the last ended at random."""

    folder: Path
    chance: random.Random

    def __post_init__(self) -> None:
        self.output, self.temporary = self.folder / "out", self.folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.report = self.output / "reports" / "chaos"
        self.environment = os.environ | {"TMPDIR": str(self.temporary), MARK: str(self.folder)}

    @contextlib.contextmanager
    def command(self, forks: bool = True) -> Iterator[subprocess.Popen]:
        command = [sys.executable, "-m", "harness", *CHAIN, f"output={self.output}"]
        environment = self.environment if forks else self.environment | {"HARNESS_FORK": "0"}
        options = {"cwd": self.folder, "env": environment, "stderr": subprocess.STDOUT}
        with (self.folder / "log").open("ab") as log, started(command, stdout=log, **options) as process:
            yield process

    def said(self) -> bytes:
        log = self.folder / "log"
        return log.read_bytes() if log.exists() else b""

    def kill_in(self, phase: str) -> int:
        """Starts the command and ends it in this phase, at times what it has started before it; how many kills."""
        before, results = len(self.said()), [*self.output.glob("chaos/*/result.json")]
        if phase in ("report", "files"):
            paths.report_stamp(str(self.output), "chaos").unlink(missing_ok=True)  # or there is nothing to write
        with self.command(forks=len(results) < RUNS_OF_A_CHAIN) as process:  # what forks only imports once all is there
            reached = {
                "start": lambda: True,
                "run": lambda: b": started" in self.said()[before:],
                "timing": lambda: b"Timing " in self.said()[before:],
                "report": lambda: workers(process.pid, "harness.reports.after_sweep"),
                "files": lambda: [*self.report.glob(".writing.*")],
                "end": lambda: b"Report" in self.said()[before:],
            }
            while process.poll() is None and not reached[phase]():
                time.sleep(0.001 if phase == "files" else 0.02)
            time.sleep(self.chance.uniform(0, {"start": 8, "files": 0.02, "end": 0.3}.get(phase, 4)))
            killed = 0
            if self.chance.random() < 1 / 4 and process.poll() is None:  # what it has started first
                killed += 1
                with contextlib.suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(process.pid).children(recursive=True):
                        child.kill()
                time.sleep(self.chance.uniform(0, 2))
            killed += process.poll() is None
            whom = self.chance.choice(["supervisor", "supervisor", "both", "politely", "hangup", "interrupt"])
            if whom in ("hangup", "interrupt"):
                process.send_signal(signal.SIGHUP if whom == "hangup" else signal.SIGINT)
            else:
                kill(process, whom)
            process.wait(PATIENCE_S)
        print(f"{phase}: {whom}, {killed}", flush=True)
        return killed

    def finish(self, commands: int = 1) -> list[int]:
        """Exit codes of the command, undisturbed, once or several times at once."""
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(self.command()) for _ in range(commands)]
            return [process.wait(PATIENCE_S) for process in running]

    def processes(self) -> list[psutil.Process]:
        """Those of any command of this chain that still run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_ours = process.environ().get(MARK) == str(self.folder) and process.pid != os.getpid()
                found += [process] if is_ours and process.status() != psutil.STATUS_ZOMBIE else []
        return found

    def leftovers(self) -> list[str]:
        """Processes, and temporary files and folders, that no command of this chain uses."""
        ends = time.monotonic() + 5
        while self.processes() and time.monotonic() < ends:
            time.sleep(0.1)
        files = [path for path in self.output.rglob("*") if TEMPORARY.fullmatch(path.name)]
        files += [path for path in self.temporary.iterdir() if not path.name.startswith("torchinductor_")]  # a cache of torch
        return [*map(str, self.processes()), *map(str, files)]

    def expected_report(self) -> dict[str, bytes]:
        """Files of a report that is made from the store now."""
        folder = self.folder / "expected"
        made = [sys.executable, "-m", "reports", "--study", "chaos", "--out", str(folder)]
        made += ["--uri", paths.database_uri(str(self.output))]
        done = subprocess.run(made, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder.exists() else {}


@pytest.mark.slow
def test_after_any_chain_of_kills_the_report_is_that_of_an_undisturbed_sweep(store_template: Path, tmp_path: Path):
    """The report is of these runs, no process and no temporary file is left, and the tables are those of the calm sweep."""
    seed, kills = int(os.environ.get("CHAOS_SEED", random.randrange(10**6))), int(os.environ.get("CHAOS_KILLS", 40))
    print(f"CHAOS_SEED={seed} CHAOS_KILLS={kills}")
    chance = random.Random(seed)
    calm = Chain(tmp_path / "calm", chance)
    assert calm.finish() == [0]
    rows = fixed_rows(calm.report / "summary.csv")

    killed, chains, faults = Counter(), 0, Counter()
    while killed.total() < kills:
        chain, chains = Chain(tmp_path / f"chain-{chains}", chance), chains + 1
        if chance.random() < 2 / 3:  # else the store is made in this chain, too
            chain.output.mkdir()
            shutil.copy(store_template, chain.output)
        phases = chance.choices([*PHASES], [*PHASES.values()], k=KILLS_OF_A_CHAIN)
        for phase in sorted(phases, key=[*PHASES].index):
            killed[phase] += chain.kill_in(phase)
        codes = chain.finish(commands=chance.choice([1, 1, 1, 2]))
        report, expected = contents(chain.report), chain.expected_report()
        left = chain.leftovers()
        found = {
            "failed": any(codes),
            "missing": "report.md" not in report,
            "stale": bool(report) and report != expected,
            "leftovers": len(left),
            "differing tables": fixed_rows(chain.folder / "expected" / "summary.csv") != rows,
            "running": len(running_runs(chain.output)),
        }
        faults.update({name: int(count) for name, count in found.items()})
        print(f"{killed.total()} kills {dict(killed)}, {chains} chains: {dict(faults)} {left}", flush=True)
        if not any(found.values()):
            shutil.rmtree(chain.folder)
    assert not +faults, f"see {tmp_path}"


def running_runs(output: Path) -> list[str]:
    """Names of runs that are said to be running."""
    client = mlflow.MlflowClient(paths.database_uri(str(output)))
    study = client.get_experiment_by_name("chaos")
    return [run.info.run_name for run in client.search_runs([study.experiment_id]) if run.info.status == "RUNNING"]
