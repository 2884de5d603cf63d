"""Launchers of Hydra's plugins run each job of a sweep in a process of its own; together they are one sweep."""

import importlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm
from child_processes import wait_for

from harness import paths
from harness.config import command_line
from harness.study import plan_file
from harness.study.plan import plan

SWEEP = ("-m", "model=base,albert", "seed=1,2")
TRACKED = ("finetune.max_steps=4", "measure=none")
QUICK = (*TRACKED, "report=false", "tracking=none")


def planned(output) -> dict[str, int]:
    """Command -> planned runs, of the study `s`."""
    plans = json.loads((output / "s" / paths.PLAN).read_text())
    return {command: len(plan["runs"]) for command, plan in plans.items() if command != "crc32"}


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["joblib", pytest.param("submitit_local", marks=pytest.mark.slow)])
def test_every_job_runs_once_and_the_study_knows_them_as_one_command(launcher, run_harness, run_module, small, output):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.removesuffix('_local')}_launcher")
    """Each arm with the three seeds that a command gets which names none."""
    command = ("-m", "model=base,albert", f"hydra/launcher={launcher}", *small, *QUICK, "study=s", f"output={output}")
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("3 seeds per arm (seed=0,1,2), as a verdict needs three")
    results = [json.loads(path.read_text()) for path in output.glob("s/*/result.json")]
    assert [one["status"] for one in results] == ["finished"] * 6
    assert list(planned(output).values()) == [6]
    status = run_module("harness", "status", "s", f"output={output}")
    assert "s: 6 runs: 6 finished" in status.stdout
    again = run_harness(*command)
    assert again.returncode == 0
    assert len(list(output.glob("s/*/result.json"))) == 6
    assert list(planned(output).values()) == [6]
    if launcher == "joblib":  # its processes wait for more jobs of this process
        loky = importlib.import_module("joblib.externals.loky")
        loky.get_reusable_executor().shutdown(wait=True)


@pytest.mark.long
def test_jobs_have_their_number_of_all_and_the_command_ends_with_the_report(run_module, small, output):
    """What one job was asked for and cannot be composed is said in the end, with exit code 2."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    reported = (*(one for one in small if not one.startswith("report=")), *TRACKED, "study=s", f"output={output}")
    jobs = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "model.num_hidden_layers=1,0,2", "seed=0")
    done = run_module("harness", "-m", "model=base", *jobs, *reported)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1].startswith("harness: model.num_hidden_layers=0 ")
    lines = done.stdout.splitlines()
    assert {line[:6] for line in lines if ": finished in " in line} == {"[1/3] ", "[3/3] "}
    shown = lines[lines.index("2 of 2 runs finished") :]
    assert any(line.startswith("arm ") for line in shown)
    assert lines[-2].startswith(f"Report: {Path('out', 'reports', 's', 'report.html')}")
    assert lines[-1].startswith("MLflow: ")
    assert (output / "reports" / "s" / "report.html").exists()


@pytest.mark.parametrize(("runs", "expected"), [(1, ["3/12"]), (2, ["3/12: 1/2", "3/12: 2/2"])])
def test_a_run_of_a_job_has_the_place_of_the_job(runs, expected):
    with command_line.job([], "sweep", "3/12"):
        assert [command_line.place(number, runs) for number in range(1, runs + 1)] == expected
    assert command_line.place(1, 2) == "1/2"


@pytest.mark.slow
def test_ray_starts_two_jobs_at_a_time_and_the_command_ends_with_the_report(small, output):
    """In an environment of its own: its plug-in needs an older cloudpickle than constraints.txt has."""
    environment, root = output.parent / "ray", paths.conf_directory().parent
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin" / "python", ".ci/install", "-e", ".[ray]"], cwd=root, check=True)
    reported = (*(one for one in small if not one.startswith("report=")), *TRACKED, "study=s", f"output={output}")
    jobs = ("-m", "model=base", "seed=1,2", "hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2")
    done = subprocess.run([environment / "bin" / "harness", *jobs, *reported], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [json.loads(path.read_text())["status"] for path in output.glob("s/*/result.json")] == ["finished"] * 2
    assert (output / "reports" / "s" / "report.html").exists()


@pytest.mark.long
def test_a_job_whose_run_fails_ends_the_command_with_code_one_and_no_traceback(run_module, small, output):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    jobs = ("-q", "-m", "hardware=cpu,gpu", "seed=0", "hydra/launcher=joblib")
    done = run_module("harness", *jobs, *small, *QUICK, "study=s", f"output={output}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert ": invalid: hardware.device=cuda" in done.stdout + done.stderr
    assert ": started" not in done.stdout + done.stderr
    assert len(list(output.glob("s/*/result.json"))) == 1


def test_a_launcher_that_is_not_installed_names_its_extra(tell):
    if importlib.util.find_spec("hydra_plugins.hydra_ray_launcher"):
        pytest.skip("hydra-ray-launcher is installed")
    printed = tell("-m", "task=bag", "seed=1,2", "hydra/launcher=ray")
    assert printed.err.endswith("needs a package that is missing: pip install 'encoder-variant-harness[ray]'\n")


@pytest.fixture
def cluster(tmp_path) -> Iterator[dict[str, str]]:
    """The environment of a SLURM with two CPUs."""
    if (reason := slurm.why_not()) is not None:
        pytest.skip(reason)
    with slurm.running(tmp_path / "slurm", cpus=2) as environment:
        yield environment | {"PYTHONPATH": str(paths.conf_directory().parent)}


@pytest.mark.slow
def test_every_run_is_a_job_of_slurm(cluster, start_process, run_module, small, output):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    jobs = ("hydra/launcher=submitit_slurm", "hydra.launcher.cpus_per_task=1", "hydra.launcher.timeout_min=60")
    sweep = start_process("-m", "harness", *SWEEP, *jobs, *small, *QUICK, "study=s", f"output={output}", env=cluster)
    out, err = sweep.communicate()
    assert sweep.returncode == 0, out + err
    assert "s: 4 runs: 4 finished" in run_module("harness", "status", "s", f"output={output}").stdout


@pytest.mark.slow
def test_jobs_of_slurm_share_a_sweep_and_one_that_is_killed_loses_nothing(cluster, run_module, small, output, tmp_path):
    """Four jobs of one command, two at a time; the first one is killed while it trains."""

    def ask(*command: str) -> list[str]:
        return subprocess.run(command, env=cluster, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()

    several = ("-m", "model=base,albert", "seed=range(1,7)", "hardware.threads=1")
    command = [sys.executable, "-m", "harness", *several, *small, *QUICK, "study=s", f"output={output}"]
    (job,) = ask("sbatch", "--parsable", "--array=0-3", "--cpus-per-task=1", f"--wrap=exec {shlex.join(command)}")
    wait_for(lambda: list(output.glob("s/*/metrics.jsonl")))
    ask("scancel", "--signal=KILL", "--full", f"{job}_0")
    wait_for(lambda: not ask("squeue", "--noheader", f"--jobs={job}"))
    said = [path.read_text() for path in tmp_path.glob(f"slurm-{job}_*.out")]
    results = [json.loads(path.read_text())["status"] for path in output.glob("s/*/result.json")]
    assert results == ["finished"] * 12, said
    assert 11 <= sum(text.count(": finished in ") for text in said) <= 12, said
    assert "s: 12 runs: 12 finished" in run_module("harness", "status", "s", f"output={output}").stdout


@pytest.mark.long
def test_a_new_sweep_of_the_same_command_replaces_the_plan(compose, small, output):
    first, second = ([item] for item in plan(compose("-m", *small, "study=s", "seed=1,2", f"output={output}")))
    for sweep, jobs, expected in (("a", (first, second), 2), ("b", (second,), 1), ("c", (first,), 1)):
        for job in jobs:
            with command_line.job(["-m", "seed=1,2"], sweep, "1/2"):
                plan_file.write(job)
        assert planned(output) == {"python -m harness -m seed=1,2": expected}
