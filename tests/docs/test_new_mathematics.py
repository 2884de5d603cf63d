"""The worked example of docs/new_mathematics.md: a package outside of the repository, typed in and run there."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "new_mathematics.md"
CHECK = """
import torch
from harness.measure.flops import Shape, counted
from harness.models.attention import Attention, make_attention
from harness.models.attention.products import Context
from harness.models.config import EncoderConfig
from sine import Sine

config = EncoderConfig(hidden_size=32, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2, attention="fourier")
mixing = make_attention(config, 0)
assert isinstance(mixing, Attention)
hidden, mask = torch.randn(2, 9, 32), torch.arange(9) < torch.tensor([9, 5])[:, None]
padded, alone = mixing(hidden, Context(mask)), mixing(hidden[1:, :5], Context())
assert torch.equal(padded[1, :5], alone[0])
sine, hidden = Sine(EncoderConfig(hidden_size=32, num_attention_heads=2)), torch.randn(2, 9, 32)
assert torch.equal(sine(hidden), sine.output(torch.sin(sine.input(hidden))))
for backward in (False, True):  # RuntimeError where count and formula differ
    assert counted(Shape(config, 2, 3, 9), backward) > 0
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """All files of the page, and the metadata that an installation would leave."""
    root, text = tmp_path_factory.mktemp("package"), PAGE.read_text()
    for name, content in re.findall(r"^`(\S+)`, new.*?:\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    metadata = root / "new_mathematics-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["harness.encoders"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[harness.encoders]", *lines]))
    return root


def run(root: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(root)]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=root, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_class_pads_and_counts_as_the_page_says(package):
    run(package, "-c", CHECK)


@pytest.mark.long
def test_the_variant_is_described_and_learns_beside_base(package):
    described = run(package, "-m", "harness", "describe", "--config-dir", "my_conf", "model=fourier", "scale=tiny")
    assert re.search(r"attention +null +fourier", described)
    small = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=20"]
    small += ["finetune.max_steps=3", "measure=none", "hardware.threads=1", "report=false"]
    words = ["--config-dir", "my_conf", "-m", "model=base,fourier,sine", "seed=0", *small]
    assert run(package, "-m", "harness", *words).count(": finished in ") == 3
