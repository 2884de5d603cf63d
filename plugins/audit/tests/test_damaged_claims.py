"""Damaged files of claims: read, or one line that names the file or its key; never a traceback."""

import pytest
import yaml
from damaged_files import Kind, bytes_of, damages, examples, values_of
from fuzzing import changes, tried

from harness.plugins.audit import claims

pytestmark = pytest.mark.long

CLAIM = {"claim": "a", "claimed": -0.5, "readings": {"x": {"measure": "flops", "of": "model=windowed", "lengths": [64]}}}
KIND = Kind("mine.yaml", yaml.safe_dump({"source": "s", "claims": {"c": CLAIM}}).encode(), claims.read)


def test_a_sound_file_is_read(tmp_path):
    (tmp_path / KIND.name).write_bytes(KIND.content)
    KIND.read(tmp_path / KIND.name)


def test_a_few_damaged_files(tmp_path):
    tried(bytes_of(KIND, tmp_path / "file"), 15, damages, shrinks=False)
    tried(values_of(KIND, tmp_path / "file"), 25, changes, shrinks=False)


@pytest.mark.slow
def test_all_damaged_files(tmp_path):
    tried(bytes_of(KIND, tmp_path / "file"), examples("claims", 4), damages)
    tried(values_of(KIND, tmp_path / "file"), examples("claims", 4), changes)
