"""Names that become folders are refused before anything is written."""

import io
import os

import pytest

from harness.config import command_line, resolve
from harness.config.compose import main
from harness.config.resolve import save
from harness.errors import InputError
from harness.paths import RESERVED


@pytest.mark.parametrize(
    "study", ["..", ".", ".hydra", *RESERVED, "Cache", "a\nb", "a\tb", " a", "x" * 300, "é" * 100, "a/b", ""]
)
def test_study_that_cannot_be_a_folder_of_its_own_is_one_line(study):
    with pytest.raises(InputError, match="study=") as refused:
        command_line.refuse_study(study)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("study", ["default", "a b", "étude", "v1.2", "caches", "x" * 120])
def test_other_names_are_studies(tmp_path, study):
    command_line.refuse_study(study)
    command_line.refuse_output(str(tmp_path / "new" / "folder"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a%b", "a?b", "a#b", "a\nb"])
def test_output_that_an_address_cannot_hold_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"output=.* must be a folder without % [?] #"):
        command_line.refuse_output(str(tmp_path / name))


@pytest.mark.parametrize("below", ["", "/below"])
def test_output_at_or_below_a_file_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"must be a folder: .*file is not one"):
        command_line.refuse_output(f"{tmp_path}/file{below}")


def test_output_on_a_full_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(command_line.tempfile, "TemporaryFile", lambda **_: io.FileIO("/dev/full", "w"))
    with pytest.raises(InputError, match=r"must be a writable folder: .*No space left on device"):
        command_line.refuse_output(str(tmp_path))


def test_read_only_output_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(InputError, match="must be a writable folder"):
        command_line.refuse_output(str(tmp_path))


@pytest.mark.long
def test_a_saved_config_is_read_where_its_folder_is_read_only(compose, tmp_path, monkeypatch):
    (config,) = compose("task=bag", "scale=tiny")
    save(config, tmp_path / "config.yaml")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert resolve.load(tmp_path / "config.yaml").study == config.study


@pytest.mark.parametrize(
    "override", ["study=..", "study=cache", "study=a-search", "output=/dev/null", "output=a%b", "output='a?b'"]
)
@pytest.mark.parametrize("options", [[], ["-m"]], ids=["one", "sweep"])
def test_a_command_refuses_it(tmp_path, monkeypatch, override, options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["harness"])
    with pytest.raises(InputError, match=override.partition("=")[0]):
        main([*options, "task=bag", override, "scale=tiny"], lambda configs: 0)


def test_an_output_before_other_keys_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["harness"])
    assert main([f"output={tmp_path}", "task=bag", "scale=tiny"], lambda configs: 0) == 0


def test_a_text_that_looks_like_a_number_stays_as_it_is_typed(compose):
    (run,) = compose("task=bag", "study=2026_11_28", "arm=1e5", "task.labels=[1.10, +1,2]", "finetune.epochs=1e0")
    assert (run.study, run.arm, run.task.labels, run.finetune.epochs) == ("2026_11_28", "1e5", ["1.10", "+1", "2"], 1.0)
