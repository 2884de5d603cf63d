"""How often Hydra composes for a command line, from which files, and what it leaves."""

import os
from collections.abc import Callable
from pathlib import Path

import hydra
import pytest

from harness.config import compose as composition
from harness.paths import conf_directory

pytestmark = pytest.mark.long


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], int]]:
    """Of a command line: its arms, and how often Hydra composes."""
    monkeypatch.setattr("sys.argv", ["harness"])
    compose, calls = hydra.compose, []
    monkeypatch.setattr(hydra, "compose", lambda *arguments, **options: calls.append(1) or compose(*arguments, **options))

    def command(*arguments: str) -> tuple[list[str], int]:
        found, calls[:] = [], []
        composition.main(["task=bag", *arguments], lambda configs: found.extend(config.label for config in configs) or 0)
        return found, len(calls)

    return command


def test_a_run_is_composed_once_beside_its_published_form(counted):
    counted("model=albert")
    assert counted("model=albert") == (["albert"], 1)
    assert counted("model=albert", "hydra.mode=RUN")[0] == ["albert"]


def test_replicates_are_composed_once(counted):
    counted("-m", "model=base,albert")
    assert counted("-m", "model=base,albert", "seed=5,6,7") == (["base"] * 3 + ["albert"] * 3, 2)


def test_an_experiment_and_a_file_of_the_user_may_sweep(counted, tmp_path):
    assert len(counted("+experiment=length_scaling")[0]) == 4
    Path(tmp_path, "data").mkdir()
    Path(tmp_path, "data", "swept.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {model: 'base,albert'}}}\n"
    )
    for option in (["--config-dir", str(tmp_path)], [f"--config-dir={tmp_path}"], [f"-cd={tmp_path}"]):
        assert counted(*option, "data=swept")[0] == ["base", "albert"]
    assert counted(f"hydra.searchpath=[file://{tmp_path}]", "data=swept")[0] == ["base", "albert"]


@pytest.mark.parametrize("option", ["--config-dir={}", "hydra.searchpath=['file://{}']"])
def test_files_of_the_user_are_read_again_by_the_next_command(compose, composed, tmp_path, option):
    folder = tmp_path / "a, b [c]" / "model"
    folder.mkdir(parents=True)
    layers = []
    for count in (3, 4):
        (folder / "mine.yaml").write_text(f"num_hidden_layers: {count}\n")
        composed.clear()
        (run,) = compose("task=bag", "model=mine", option.format(folder.parent))
        layers.append(run.model.num_hidden_layers)
    assert layers == [3, 4]


def test_folders_of_an_option_and_of_a_setting_are_both_searched(compose, tmp_path):
    for name in ("mine1", "mine2"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / f"{name}.yaml").write_text("attention_window: 8\n")
    runs = compose(
        "-m", "task=bag", "model=glob(mine*)", f"--config-dir={tmp_path}/mine1", f"hydra.searchpath=[file://{tmp_path}/mine2]"
    )
    assert [run.model_name for run in runs] == ["mine1", "mine2"]


def test_a_choice_may_be_named_by_another_one(compose, tmp_path):
    """`${...}` in a defaults list."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "by_hardware.yaml").write_text("# @package _global_\ndefaults:\n  - sub: ${hardware}_own\n")
    (folder / "sub" / "cpu_own.yaml").write_text("# @package _global_\nmodel: {num_hidden_layers: 5}\n")
    (run,) = compose("task=bag", "scale=tiny", "model=by_hardware", f"--config-dir={tmp_path}")
    assert run.model.num_hidden_layers == 5


def test_a_value_of_hydra_may_be_named(compose):
    runs = compose("-m", "task=bag", "scale=tiny", "model=base,albert", "study=${hydra:runtime.choices.model}")
    assert [run.study for run in runs] == ["base", "albert"]


def test_a_composition_writes_nothing_that_a_kill_could_leave(run_python, tmp_path):
    """In a process of its own: Hydra loads its plugins anew in the first command of each."""
    (tmp_path / "temporary").mkdir()
    code = (
        "import os, sys, tempfile\n"
        "from harness.config import compose\n"
        "look = lambda runs: print(os.listdir(), os.listdir(tempfile.gettempdir())) or 0\n"
        "for _ in range(2): compose.main(['-m', 'task=bag', 'seed=1,2'], look)\n"
    )
    done = run_python(
        "-c", code, env=os.environ | {"PYTHONPATH": str(conf_directory().parent), "TMPDIR": str(tmp_path / "temporary")}
    )
    assert (done.stdout, done.stderr) == ("['temporary'] []\n" * 2, "")
