"""What `make` installs for whom, and how `.ci/install` does it: progress, errors as they are, uv and then pip."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTALLER = runpy.run_path(str(ROOT / ".ci" / "install"))
WITHOUT_TESTS = {"demo", "published", "versions"}
TARGETS = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def installs(checkout: Path, target: str) -> list[str]:
    """What `make` would install before it runs the target."""
    done = subprocess.run(["make", "-n", target], cwd=checkout, capture_output=True, text=True, check=True)
    return re.findall(r"\.ci/install -c constraints\.txt -e '(.*)'", done.stdout)


@pytest.mark.parametrize("target", TARGETS)
def test_only_what_needs_the_test_extra_installs_it_and_once(checkout, target):
    extra = ".[run]" if target in WITHOUT_TESTS else ".[test]"
    assert installs(checkout, target) == [extra]
    (checkout / ".venv" / ".installed").touch()
    assert installs(checkout, target) == ([] if target in WITHOUT_TESTS else [extra])
    (checkout / ".venv" / ".installed-test").touch()
    assert installs(checkout, target) == []


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package `nothing` without content."""
    path = tmp_path / "nothing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nothing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n")
        archive.writestr("nothing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("nothing-1.0.dist-info/RECORD", "")
    return path


def install(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs `.ci/install` with no configuration of pip but this one."""
    bare = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
    command = [sys.executable, ROOT / ".ci" / "install", *arguments]
    environment = bare | {"PIP_CONFIG_FILE": os.devnull} | environment
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.long
def test_an_error_of_pip_is_shown_whole_and_keeps_its_code():
    done = install("nothing==1.0", PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "ERROR: No matching distribution found for nothing==1.0" in done.stdout.splitlines()


@pytest.mark.long
def test_where_uv_fails_pip_installs_and_whoever_has_no_gpu_is_warned_of_cuda(wheel, tmp_path):
    uv = tmp_path / "uv"
    for folder in (uv, tmp_path / "uv-0.13.9.dist-info"):
        folder.mkdir()
    (tmp_path / "uv-0.13.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: uv\nVersion: 0.13.9\n")
    (uv / "__init__.py").touch()  # or the uv that is installed comes first
    (uv / "__main__.py").write_text(
        "print('Resolved 2 packages in 1s\\nDownloading nvidia-x (2GiB)\\nno disk')\nraise SystemExit(2)"
    )
    where = {"PYTHONPATH": str(tmp_path), "PIP_INDEX_URL": "http://127.0.0.1:9", "PATH": ""}
    done = install("--target", tmp_path / "here", wheel, **where)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "here" / "nothing-1.0.dist-info").is_dir()
    assert "set UV_TORCH_BACKEND=cpu" in done.stdout
    assert "no disk\n\nuv failed, and pip installs instead:\n" in done.stdout
    assert re.search(r"^ +\d+ s  2 packages, downloading nvidia-x \(2GiB\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +\d+ s  Successfully installed nothing-1\.0$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["reading the index"], "reading the index"),
        (
            ["Resolved 9 packages in 1s", "Downloading a (1MiB)", "Downloading b (2MiB)", "Downloaded a"],
            "9 packages, downloading b (2MiB)",
        ),
        (
            ["Resolved 9 packages in 1s", *(f"Downloading {name} (1MiB)" for name in "abcde")],
            "9 packages, downloading a (1MiB), b (1MiB), c (1MiB) and 2 more",
        ),
        (
            ["Resolved 9 packages in 1s", "Installed 9 packages in 1s", "+ a==1", "- b==2"],
            "Installed 9 packages in 1s, compiling them",
        ),
        (["Collecting a", "Downloading a-1-py3-none-any.whl (1 MB)"], "Downloading a-1-py3-none-any.whl (1 MB)"),
        (["Collecting b", "WARNING: a mirror is ignored"], "Collecting b"),
        (["Installing collected packages: a, b, c", "Successfully uninstalled a-0"], "2 of 3 packages installed"),
        (
            ["Installing collected packages: a, b, c", "Successfully installed a-1 b-1 c-1"],
            "Successfully installed a-1 b-1 c-1",
        ),
    ],
)
def test_progress_says_what_is_under_way(lines, expected):
    assert INSTALLER["state"](lines, 2) == expected


def test_uv_gets_the_configuration_of_pip_or_is_not_used():
    config = ":env:.find-links='/a'\n:env:.timeout='9'\nglobal.extra-index-url='file:///b file:///c'\nglobal.find-links='/d'\n"
    first, *options = INSTALLER["options_of_uv"](config)
    assert first == "--index-strategy=unsafe-best-match"
    assert options == ["--extra-index-url=file:///b", "--extra-index-url=file:///c", "--find-links=/a"]
    assert INSTALLER["options_of_uv"](config + "global.no-index='true'\n") is None


def test_every_package_is_in_the_wheel():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    places = [path.parent.relative_to(ROOT) for path in ROOT.glob("[hmrp]*/**/__init__.py") if "tests" not in path.parts]
    names = {".".join(place.parts) for place in places if place.parts[0] in ("harness", "models", "plugins", "reports")}
    assert {name if name.startswith("harness") else f"harness.{name}" for name in names} == {*listed} - {"harness.conf"}
