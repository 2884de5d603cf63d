"""Another package adds a command, a chapter, a format, a tracker, an attention, an objective and a kind of task."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from harness import commands, extensions, tasks
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.keys import keys_read
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import build, refuse_misfit
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName
from harness.reports import chapters

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tests" / "plugin_package"
CACHES = (extensions._points, commands.commands, chapters.added, chapters.chapters, tasks._added)
RUN = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=20", "report=false"]
RUN += ["finetune.max_steps=3", "measure=none", "hardware.threads=1", "seed=0", "tracking=mlflow", "study=added"]


def declare(folder: Path, points: dict[str, dict[str, str]], name: str = "plugin-package") -> None:
    """The metadata of an installed package, beside its modules."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in of.items()) for group, of in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Makes what `declare` writes, and the package, importable."""
    monkeypatch.syspath_prepend(str(PACKAGE))

    def declared(points: dict[str, dict[str, str]], name: str = "plugin-package") -> None:
        declare(tmp_path / name, points, name)
        monkeypatch.syspath_prepend(str(tmp_path / name))
        for one in CACHES:
            one.cache_clear()

    yield declared
    monkeypatch.undo()
    for one in CACHES:
        one.cache_clear()


@cache
def points() -> dict[str, dict[str, str]]:
    return tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]


def test_a_command_has_help_and_runs(installed, run_harness):
    installed(points())
    assert re.search(r"^ +words +counts the words of a text$", run_harness("--help", "commands").stdout, re.MULTILINE)
    assert run_harness("words", "text=one two").stdout == "2 words\n"
    assert "unknown key 'txt'" in run_harness("words", "txt=one").stderr


@pytest.mark.long
def test_a_run_uses_attention_task_and_tracker_and_the_report_has_the_chapter(installed, run_harness, output):
    installed(points())
    own = ["model.attention=mean", "task.plugin=smoothed", "tracking.plugins=[lines]"]
    command = [sys.executable, "-m", "harness", *RUN, *own, f"output={output}"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path[:2], str(ROOT)])}
    done = subprocess.run(command, cwd=output.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    began, ended = (output / "lines.txt").read_text().splitlines()
    assert (began.split()[0], ended.split()[0]) == ("began", "finished")
    assert run_harness("report", "--study", "added", "--output", str(output), "--format", "md,names").returncode == 0
    (report,) = output.glob("reports/*/report.md")
    assert "## Greeting" in report.read_text()
    assert "changes.svg" not in (report.parent / "names.txt").read_text()


WRONG = {
    "harness.commands": ("broken", ["broken"]),
    "harness.chapters": ("broken", ["report", "--uri", "sqlite:///nothing.db"]),
    "harness.formats": ("broken", ["report", "--format", "broken"]),
    "harness.stores": ("broken", ["report", "--uri", "folder"]),
    "harness.trackers": ("broken", [*RUN, "tracking.plugins=[broken]"]),
    "harness.encoders": ("attention.broken", [*RUN, "model.attention=broken"]),
    "harness.tasks": ("broken", [*RUN, "task.plugin=broken"]),
}


@pytest.mark.parametrize("group", WRONG)
@pytest.mark.parametrize(("value", "why"), [("no_such_module:X", "No module named"), ("plugin_package:__name__", "str")])
def test_what_cannot_be_used_is_one_line(group, value, why, installed, tell):
    name, words = WRONG[group]
    installed({group: {name: value}})
    done = tell(*words) if group != "harness.chapters" else _reported(tell, words)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert [path for path in done.left if not path.startswith((".", "cache/"))] == [], "data may be prepared"
    assert name in done.err
    assert why in done.err


def _reported(tell, words: list[str]):
    from harness.reports.report import read

    class Options:
        target = ()

    with pytest.raises(InputError) as error:
        read(Options())
    return type("Printed", (), {"code": 2, "err": f"{error.value}\n", "left": []})


def test_names_are_of_one_package(installed):
    installed({"harness.commands": {"words": "plugin_package:WORDS"}})
    installed({"harness.commands": {"words": "other:WORDS"}}, "other-package")
    with pytest.raises(InputError, match=r"other-package and plugin-package both add 'words'|plugin-package and other-package"):
        commands.commands()


def test_no_package_replaces_a_command(installed):
    installed({"harness.commands": {"report": "plugin_package:WORDS"}})
    with pytest.raises(InputError, match="plugin-package adds 'report', which is already a command"):
        commands.commands()


@pytest.mark.parametrize("key", ["attention", "feed_forward", "layers"])
def test_an_unknown_name_lists_those_that_there_are(key, installed):
    installed({"harness.encoders": {f"{key}.mean": "plugin_package.attention:Mean"}})
    with pytest.raises(InputError, match=rf"unknown {key} 'mena'; did you mean 'mean'\? choices for `model\.{key}`: mean"):
        EncoderConfig(**{key: "mena"})


def test_an_objective_takes_the_place_of_the_one_that_it_is_like(installed):
    installed(points())
    shape = EncoderConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    vocabulary = Vocabulary(40, 0, 2, 3, 4, torch.ones(40, dtype=torch.bool))
    config = ObjectiveConfig(ObjectiveName.mlm, plugin="doubled")
    own, ours = (build(one, shape, vocabulary, 0).eval() for one in (config, replace(config, plugin=None)))
    batch = ours.make_batch(Batch(torch.arange(5, 29).view(2, 12)), [1, 2])
    assert own(batch).item() == pytest.approx(2 * ours(batch).item())
    phases = replace(config, phases=[ObjectiveName.clm, ObjectiveName.mlm]).of_phases
    assert [phase.plugin for phase in phases] == [None, "doubled"]
    for name, said in {"wrong": "expected a class of .*Objective", "dubled": "choices for `pretrain.plugin`: doubled"}.items():
        with pytest.raises(InputError, match=said):
            refuse_misfit(replace(config, plugin=name), shape)


def test_an_attention_says_which_keys_of_heads_it_reads(installed):
    installed(points())
    assert "num_attention_heads" in keys_read(EncoderConfig())
    assert "num_attention_heads" not in keys_read(EncoderConfig(attention="mean"))


@pytest.mark.slow
def test_the_package_is_installed_in_an_environment_of_its_own(tmp_path):
    venv.create(tmp_path / "venv", system_site_packages=True, with_pip=False, symlinks=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "parent.pth").write_text("\n".join([*(path for path in sys.path if path.endswith("site-packages")), str(ROOT)]))
    install = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--prefix", str(tmp_path / "venv")]
    shutil.copytree(PACKAGE, tmp_path / "package")  # a build leaves files beside its sources
    subprocess.run([*install, "./package"], check=True, cwd=tmp_path)
    done = subprocess.run(
        [python, "-m", "harness", "words", "text=a b"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 words\n"
    own = ["model.attention=mean", "task.plugin=smoothed", "tracking.plugins=[lines]"]
    subprocess.run([python, "-m", "harness", *RUN, *own], cwd=tmp_path, check=True)
    subprocess.run([python, "-m", "harness", "report", "--study", "added"], cwd=tmp_path, check=True)
    assert "## Greeting" in (tmp_path / "multirun" / "reports" / "added" / "report.md").read_text()
