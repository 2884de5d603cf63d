"""Hydra composes a command line once, unless something may set hydra.mode."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from harness.config import compose as composition
from harness.paths import conf_directory


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], int]]:
    """Of a command line: its arms, and how often Hydra composes them itself."""
    monkeypatch.setattr("sys.argv", ["harness"])
    load, calls = ConfigLoaderImpl.load_configuration, []

    def counted(self: ConfigLoaderImpl, *arguments: object, **options: object) -> object:
        calls.append(gc.isenabled())
        return load(self, *arguments, **options)

    def command(*arguments: str) -> tuple[list[str], int]:
        found, calls[:] = [], []
        monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counted)
        composition.main(["task=bag", *arguments], lambda configs: found.extend(config.label for config in configs) or 0)
        assert not any(calls), "without garbage collection"
        return found, len(calls)

    return command


def test_a_run_is_composed_once_beside_its_published_form(composed):
    composed("model=albert")
    assert composed("model=albert") == (["albert"], 1)
    assert composed("model=albert", "hydra.mode=RUN") == (["albert"], 2)


@pytest.mark.long
def test_an_experiment_and_a_file_of_the_user_may_sweep(composed, tmp_path):
    assert len(composed("+experiment=length_scaling")[0]) == 4
    Path(tmp_path, "data").mkdir()
    Path(tmp_path, "data", "swept.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {model: 'base,albert'}}}\n"
    )
    for option in (["--config-dir", str(tmp_path)], [f"--config-dir={tmp_path}"], [f"-cd={tmp_path}"]):
        assert composed(*option, "data=swept")[0] == ["base", "albert"]
    assert composed(f"hydra.searchpath=[file://{tmp_path}]", "data=swept")[0] == ["base", "albert"]


def test_garbage_collection_is_as_before(composed):
    assert gc.isenabled()
    composed()
    assert gc.isenabled()
    gc.disable()
    try:
        composed()
        assert not gc.isenabled()
    finally:
        gc.enable()


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
