"""Starting: our packages before those of the working directory, the version, and completion by the shell."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness import processes
from harness.__main__ import main
from harness.config.choices import DERIVED

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = "import sys; from harness.__main__ import main; sys.exit(main())"
"""What the console script `harness` runs."""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with packages that have our names."""
    for name in ("models", "reports", "conf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a foreign package')")
    return tmp_path


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.long
def test_command_does_not_import_the_models_of_the_working_directory(foreign):
    done = run_in(foreign, "-m", "harness", "--cfg", "job", "scale=tiny", "task=bag")
    assert (done.returncode, done.stderr) == (0, "")
    assert "hidden_size: 128" in done.stdout


def test_without_pythonpath_the_checkout_is_searched_and_not_the_working_directory(foreign):
    """As in an editable installation, whose folder is in no search path."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import harness.command as ours; sys.path[0] = {str(foreign)!r}; "
    code += f"ours.leave_out_working_directory(); print(sys.path[0], sys.path.count({str(foreign)!r}))"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], cwd=foreign, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(ROOT), "0"], done.stderr


@pytest.mark.long
def test_console_script_ignores_even_a_folder_named_harness(foreign):
    (foreign / "harness").mkdir()
    (foreign / "harness" / "__init__.py").write_text("raise RuntimeError('a foreign package')")
    script = foreign / "bin" / "harness"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    done = run_in(foreign, str(script), "modle=base")
    assert done.returncode == 2
    assert done.stderr.startswith("harness: unknown key 'modle'; did you mean 'model'?")


@pytest.mark.long
def test_report_is_a_command_beside_a_folder_of_its_name(foreign):
    done = run_in(foreign, "-m", "harness", "report", "--uri", f"sqlite:///{foreign}/none.db")
    assert done.returncode == 2
    assert done.stderr.startswith("harness report: ")
    assert done.stderr.count("\n") == 1


def test_worker_ignores_packages_of_the_working_directory(foreign, monkeypatch):
    (foreign / "harness").mkdir()
    (foreign / "harness" / "__init__.py").write_text("raise RuntimeError('a foreign package')")
    monkeypatch.chdir(foreign)
    log = foreign / "log.txt"
    assert processes.run("harness", ["--version"], 1, log) == 0
    assert log.read_text() == f"harness {harness.__version__}\n"


def test_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"harness {harness.__version__}\n"
    assert harness.__version__ == importlib.metadata.version("encoder-variant-harness")


def test_version_of_a_checkout_that_is_not_installed_is_unknown(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [])
    assert harness.__version__ == "0+unknown"


def test_package_has_no_other_attributes_by_name():
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        _ = harness.version


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("harness sta", {"status"}),
        ("harness s", {"status", "scale=", "seed=", "study="}),
        ("harness model=alb", {"model=albert"}),
        ("harness run model=alb", {"model=albert"}),
        ("harness -m hardware.dt", {"hardware.dtype="}),
        ("harness modle=alb", set()),
    ],
)
def test_shell_completes_commands_keys_and_choices(monkeypatch, capsys, line, completed):
    monkeypatch.setattr(sys, "argv", ["harness"])
    monkeypatch.setenv("COMP_LINE", line)
    assert main(["-sc", "query=bash"]) == 0
    assert completed <= set(capsys.readouterr().out.split()) if completed else not capsys.readouterr().out.split()


@pytest.mark.long
@pytest.mark.parametrize("line", ["harness ", "harness m", "harness run t", "harness hydra", "harness sa", "harness tu"])
def test_completion_offers_no_key_that_a_user_cannot_set(monkeypatch, capsys, line):
    monkeypatch.setattr(sys, "argv", ["harness"])
    monkeypatch.setenv("COMP_LINE", line)
    assert main(["-sc", "query=bash"]) == 0
    roots = {re.split("[.=]", word)[0] for word in capsys.readouterr().out.split()}
    assert roots.isdisjoint({*DERIVED, "hydra", "claims", "reference"})


def test_completion_is_installed_for_the_console_script(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["harness"])
    assert main(["-sc", "install=bash"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("-F hydra_bash_completion harness")
