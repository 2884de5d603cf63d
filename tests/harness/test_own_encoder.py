"""An encoder class of an installed package, in an environment of its own: as an arm, as weights, and as a stranger's code."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLASS = "gated_convolution:GatedConvolution"
ALLOWED = ("--allow-code", "gated-convolution")
NEEDS = "and would run code of package gated-convolution: add --allow-code gated-convolution to allow it"
SMALL = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=20", "seed=0"]
SMALL += ["finetune.max_steps=3", "hardware.threads=1", "measure=none", "report=false"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """site-packages of an environment in which the package is installed."""
    root = tmp_path_factory.mktemp("environment")
    venv.create(root / "venv", system_site_packages=True, with_pip=False, symlinks=True)
    (site,) = (root / "venv" / "lib").glob("python*/site-packages")
    (site / "parent.pth").write_text("\n".join([*(path for path in sys.path if path.endswith("site-packages")), str(ROOT)]))
    shutil.copytree(ROOT / "tests" / "gated_package", root / "package")  # a build leaves files beside its sources
    python, prefix = str(root / "venv" / "bin" / "python"), ("--prefix", str(root / "venv"))
    install = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", *prefix, "./package"]
    subprocess.run(install, check=True, cwd=root)
    return site


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A working directory, with a folder of the package's name, and a variant that names its class."""
    root = tmp_path_factory.mktemp("work")
    (root / "gated_convolution").mkdir()
    (root / "gated_convolution" / "__init__.py").write_text("raise SystemExit('code of the working directory')\n")
    (root / "conf" / "model").mkdir(parents=True)
    (root / "conf" / "model" / "mine.yaml").write_text(f"encoder: {CLASS}\n")
    (root / "conf" / "experiment").mkdir()
    swept = f"hydra: {{sweeper: {{params: {{model.encoder: '{CLASS}'}}}}}}"
    for name, values in {"theirs": f"model: {{encoder: '{CLASS}'}}", "swept": swept}.items():
        (root / "conf" / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\n{values}\n")
    (root / "pairs.txt").write_text("the hunter ||| sees the prey\n")
    return root


@pytest.fixture(scope="module")
def call(site, work):
    """Runs a command of the harness there: (exit code, output and errors)."""

    def called(*words: str) -> tuple[int, str]:
        imported = {"GATED_IMPORTED": str(work / "imported")}
        python = site.parents[2] / "bin" / "python"
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | imported
        (work / "imported").unlink(missing_ok=True)
        done = subprocess.run([python, "-m", "harness", *words], cwd=work, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return called


@pytest.fixture(scope="module")
def run(call, work) -> str:
    """The folder of a fine-tuned arm, trained beside base from a pretraining."""
    code, said = call("-m", f"model=base,{CLASS}", *SMALL, "pretrain=mlm", "pretrain.steps=2", "finetune.keep=last", "study=a")
    assert code == 0, said
    (folder,) = work.glob("multirun/a/gated*-bag-*")
    return str(folder.relative_to(work))


def test_the_report_has_the_arm_with_its_costs(call, run, work):
    assert call("report", "study=a")[0] == 0
    text = (work / "multirun" / "reports" / "a" / "report.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith(f"| {CLASS}"))
    assert re.search(r" k<br>−9\d", row), "parameters beside those of base"


def test_weights_are_read_again_with_consent_alone(call, run, work):
    vectors = ("predict", "kind=vectors", run, "input=pairs.txt", "to=vectors.jsonl")
    answers = ("predict", run, "input=pairs.txt", "to=answers.jsonl")
    onward = (*SMALL[1:], f"pretrain.from={run}", "study=onward")
    inspected = ("inspect", run, "task=bag", "text=the hunter ||| sees the prey")
    for words in (answers, (*vectors, "layers=[-1]"), ("export", run, "format=onnx"), onward, inspected):
        code, said = call(*words)
        assert (code, said.count("\n")) == (2, 1), said
        assert f"model.encoder={CLASS} is set in a file" in said
        assert not (work / "imported").exists()
        code, said = call(*words, *ALLOWED)
        assert code == 0, said
    for words in ([f"finetune.teacher={run}"], ["pretrain=distillation", f"pretrain.teacher={run}"]):
        code, said = call("plan", *SMALL, *words)
        assert (code, said) == (2, f"harness plan: model.encoder={CLASS} is set in a file {NEEDS}\n")
        assert not (work / "imported").exists()
    for words, why in {(*vectors,): "expected layers=[-1]", ("export", run): "expected format=onnx"}.items():
        code, said = call(*words, *ALLOWED)
        assert code == 2, said
        assert why in said


def test_an_archive_and_a_plan_of_a_stranger_need_no_code(call, run, work):
    """They read results: nothing is imported where the package is there, and nothing is missing where it is not."""
    assert call("report", "archive", "study=a", "to=archive")[0] == 0
    for words in (["report", "verify", "archive"], ["report", "tracking.uri=archive", "to=report"], ["status", "study=a"]):
        code, said = call(*words)
        assert code == 0, said
        assert not (work / "imported").exists()
        command = [sys.executable, "-P", "-m", "harness", *words]
        done = subprocess.run(command, cwd=work, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert CLASS in (work / "report" / "report.md").read_text()


def test_a_variant_of_a_file_needs_consent(call, work):
    by_file = (["describe", "scale=tiny"], ["plan", *SMALL], ["profile", "scale=tiny"], SMALL)
    for words in [
        *([*words, "model=mine"] for words in by_file),
        [*SMALL, "+experiment=theirs"],
        ["-m", *SMALL, "+experiment=swept"],
    ]:
        code, said = call(*words, "--config-dir", "conf")
        assert (code, said.count("\n")) == (2, 1), said
        assert "add --allow-code gated-convolution" in said
        assert not (work / "imported").exists()
    code, said = call("describe", "scale=tiny", "--config-dir", "conf", "model=mine", *ALLOWED)
    assert code == 0, said
    assert (work / "imported").exists()


def test_it_is_described_by_class_and_by_name(call):
    for word in (f"model={CLASS}", "model.encoder=gated"):
        code, said = call("describe", word, "scale=tiny")
        assert code == 0, said
        assert re.search(r"^layers +396,544 +20,608 ", said, re.MULTILINE)


def test_the_commands_of_the_page_work(call, run):
    page = (ROOT / "docs" / "bring-your-own.md").read_text()
    lines = re.findall(r"^    python -m harness (.*)$", page, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        code, said = call(*(line.replace("RUN", run) if line.startswith("predict") else f"plan {line}").split())
        assert code == 0, said


WRONG = {
    "model=gated_convolution:Gated": "has no attribute 'Gated'",
    "model=gated_convolution:Mean": "expected one vector per token, (1, 8, D)",
    "model=gated_convolution:Flat": "cannot be built and run",
    "model=not_installed:Encoder": "no installed package has the module",
    "model.encoder=gate": "did you mean 'gated'?",
    f"model={CLASS} model.options.widht=3": "unexpected keyword argument 'widht'",
    f"model={CLASS} model.num_hidden_layers=3": "needs model.encoder=null",
    f"model={CLASS} finetune.trains=lora": "no queries and values",
}


@pytest.mark.parametrize("words", WRONG)
def test_what_does_not_fit_is_one_line(words, call):
    code, said = call(*SMALL, *words.split())
    assert code == 2
    (line,) = [line for line in said.splitlines() if line.startswith("harness: ")]
    assert WRONG[words] in line


def test_changed_source_is_another_run(call, site, work):
    words = [*SMALL, f"model={CLASS}", "study=source"]
    assert "finished" in call(*words)[1]
    assert "finished in" not in call(*words)[1]
    with (site / "gated_convolution" / "encoder.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    assert "finished in" in call(*words)[1]
    assert len([*work.glob("multirun/source/gated*")]) == 2
