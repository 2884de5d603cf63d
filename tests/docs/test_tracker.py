"""The tracker of a team, as far as it can be checked without containers."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import environment_variables

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "tracker" / "compose.yaml").read_text()
PAGE = (DOCS / "tracker.md").read_text()
VERSIONS = (DOCS.parent / "constraints.txt").read_text()


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return yaml.safe_load(TEXT)["services"]


def variables(services: dict[str, Any]) -> dict[str, str]:
    return {name: value for one in services.values() for name, value in one["environment"].items()}


def test_every_service_has_a_version_a_health_check_and_a_volume_that_is_declared(services):
    declared = yaml.safe_load(TEXT)["volumes"]
    for one in services.values():
        images = [one["image"]] if "image" in one else re.findall("FROM (.+)", one["build"]["dockerfile_inline"])
        assert all(re.search(r":.*\d+[.-]\d+", image) for image in images)
        assert one["healthcheck"]["test"][0] == "CMD"
        assert {volume.partition(":")[0] for volume in one["volumes"]} <= set(declared)
        assert {*one.get("depends_on", {})} <= set(services)


def test_packages_of_the_server_are_those_that_the_tests_use(services):
    installed = re.findall(r'"([\w\[\]]+)==([\w.]+)"', services["tracker"]["build"]["dockerfile_inline"])
    known = dict(re.findall(r"^([\w-]+)==([\w.]+)", VERSIONS, re.MULTILINE))
    assert {name: version for name, version in installed if name.startswith("mlflow")} == {"mlflow[auth]": known["mlflow"]}
    assert len(installed) == 3


def test_no_password_has_a_default_and_the_page_sets_each(services):
    secret = {name: value for name, value in variables(services).items() if re.search("PASSWORD|SECRET", name)}
    asked = [re.fullmatch(r"\$\{(\w+):\?[^}]+\}", value) for value in secret.values()]
    assert len(secret) == 6
    assert None not in asked
    made = re.search(r"for name in (.+?); do", PAGE)[1].split()
    assert {found[1] for found in asked} == set(made)


def test_only_the_server_is_reached_from_outside_and_by_default_from_this_machine_alone(services):
    assert [name for name, one in services.items() if "ports" in one] == ["tracker"]
    assert services["tracker"]["ports"] == ["${BIND:-127.0.0.1}:5000:5000"]


@pytest.mark.long
def test_options_and_variables_of_the_server_exist(services):
    known = subprocess.run([sys.executable, "-m", "mlflow", "server", "--help"], capture_output=True, text=True, check=True)
    command = services["tracker"]["command"][-1].partition("mlflow server")[2]
    for used in (command, PAGE.partition("    mlflow server")[2].partition("\n")[0]):
        options = set(re.findall(r"--[a-z-]+", used))
        assert len(options) >= 6
        assert options <= set(re.findall(r"--[a-z-]+", known.stdout))
    named = {*variables(services), *re.findall(r"\bMLFLOW_\w+", PAGE)}
    assert {name for name in named if name.startswith("MLFLOW_") and not hasattr(environment_variables, name)} == set()
