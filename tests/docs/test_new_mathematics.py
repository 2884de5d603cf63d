"""The worked example of docs/new_mathematics.md, typed into a copy of the code and run there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "new_mathematics.md"
CHECK = """
import torch
from harness.measure.flops import Shape, counted
from harness.models.attention import Attention, make_attention
from harness.models.attention.products import Context
from harness.models.choices import Mixing
from harness.models.config import EncoderConfig

config = EncoderConfig(hidden_size=32, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2, mixing=Mixing.fourier)
mixing = make_attention(config, 0)
assert isinstance(mixing, Attention)
hidden, mask = torch.randn(2, 9, 32), torch.arange(9) < torch.tensor([9, 5])[:, None]
padded, alone = mixing(hidden, Context(mask)), mixing(hidden[1:, :5], Context())
assert torch.equal(padded[1, :5], alone[0])
for backward in (False, True):  # RuntimeError where count and formula differ
    assert counted(Shape(config, 2, 3, 9), backward) > 0
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The code with all blocks of the page typed in."""
    root, text = tmp_path_factory.mktemp("copy"), PAGE.read_text()
    for folder in ("models", "harness", "reports", "conf"):
        shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "examples"))
    for name, content in re.findall(r"^`(\S+)`, new:\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (root / name).write_text(content)
    diff = "".join(re.findall(r"^```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    applied = subprocess.run(["git", "apply", "-"], cwd=root, input=diff, text=True, capture_output=True, check=False)
    assert applied.returncode == 0, applied.stderr
    return root


def run(root: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=root, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_class_pads_and_counts_as_the_page_says(copy):
    run(copy, "-c", CHECK)


@pytest.mark.long
def test_the_variant_is_described_and_learns_beside_base(copy):
    described = run(copy, "-m", "harness", "describe", "model=fourier", "scale=tiny")
    assert re.search(r"mixing +attention +fourier", described)
    small = ["scale=tiny", "task=bag", "task.grammar.train_examples=60", "task.grammar.validation_examples=20"]
    small += ["finetune.max_steps=3", "measure=none", "hardware.threads=1", "report=false"]
    assert run(copy, "-m", "harness", "-m", "model=base,fourier", "seed=0", *small).count(": finished in ") == 2
