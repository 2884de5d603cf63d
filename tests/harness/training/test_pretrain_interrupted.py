"""A pretraining that ends between two of its kept points, and a disk that is full when one is kept."""

import errno
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import in_process
import numpy as np
import pytest
import torch
from numbered_words import config_on, read, words
from safetensors.torch import load_file

from harness import paths
from harness.config.schema import HardwareConfig, ModelConfig, PretrainConfig
from harness.hardware.device import Machine
from harness.measure.memory import CLEAR, Baseline
from harness.models import config as choices
from harness.models.objectives.config import ObjectiveName
from harness.tracking.run_log import Reader, RunLog
from harness.training import loop, resume
from harness.training import pretrain as pretraining
from harness.training.loop import Position
from harness.training.pretrain import Keeping, pretrain

LENGTH, ROWS = 16, 4
FIRST, SECOND = 2 * LENGTH * ROWS, 6 * LENGTH * ROWS
"""Kept points: after two and six of eight steps."""


class Killed(BaseException):
    """In place of a signal: nothing of the process runs after it."""


@pytest.fixture(params=[[], [ObjectiveName.clm, ObjectiveName.mlm]], ids=["mlm", "clm-mlm"])
def pretrained(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """Runs or resumes the pretraining of this folder, which keeps both points, of phases one in each; dropout is on."""
    shape = ModelConfig(
        vocab_size=305,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
    )
    options = PretrainConfig(
        objective=ObjectiveName.mlm,
        phases=request.param,
        shares=[0.5, 0.5] if request.param else [],
        tokens=8 * LENGTH * ROWS,
        length=LENGTH,
        batch_size=ROWS,
        learning_rate=1e-2,
        keep=[FIRST, SECOND],
        checkpoint_every_s=0,
        evaluations=1,
    )
    config = config_on(tmp_path, words(0, 300), words(0, 100), 300, model=shape, pretrain=options)
    corpus, machine = read(config), Machine(HardwareConfig(threads=1))

    def run(name: str, model: Mapping[str, object] = MappingProxyType({}), **keys: object) -> Path:
        folder = tmp_path / name
        changed = replace(config, model=replace(shape, **model), pretrain=replace(config.pretrain, **keys))
        folder.mkdir(exist_ok=True)
        run_log = RunLog(folder)
        try:
            pretrain(changed, corpus, machine, run_log, "identity", Baseline(machine))
        finally:
            run_log.close()
        return folder

    return run


def kept(folder: Path, tokens: int) -> dict[str, torch.Tensor]:
    return load_file(paths.pretrained_weights(folder, tokens) / "model.safetensors")


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the training right after the checkpoint of this step."""
    save = resume.save

    def save_until(folder: Path, identity: str, position: Position, *more: object) -> None:
        save(folder, identity, position, *more)
        if position.step == step:
            raise Killed

    monkeypatch.setattr(resume, "save", save_until)


WITH_MEMORY = {
    "position": choices.Position.relative,
    "causal": True,
    "segment_length": LENGTH // 4,
    "memory_length": LENGTH // 4,
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "decay"), [({}, None), ({}, 0.5), (WITH_MEMORY, None)], ids=["base", "averaged", "with a memory"]
)
@pytest.mark.parametrize("step", [2, 4, 6], ids=["at the first", "between", "at the second"])
def test_resumed_between_two_kept_points_the_second_equals_that_of_an_uninterrupted_run(
    pretrained, monkeypatch, capsys, step: int, model: dict[str, object], decay: float | None
):
    whole = pretrained("whole", model, ema_decay=decay)
    with monkeypatch.context() as patch:
        kill_at(step, patch)
        with pytest.raises(Killed):
            pretrained("killed", model, ema_decay=decay)
    folder = whole.parent / "killed"
    assert (paths.pretrained_weights(folder, SECOND).is_dir()) == (step == 6)
    first = kept(folder, FIRST)

    pretrained("killed", model, ema_decay=decay)
    assert f"resumed from checkpoint step-{step:09d}" in capsys.readouterr().out
    for tokens in (FIRST, SECOND):
        ours, theirs = kept(folder, tokens), kept(whole, tokens)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert all(torch.equal(kept(folder, FIRST)[name], first[name]) for name in first)
    assert any(not torch.equal(kept(folder, SECOND)[name], first[name]) for name in first)
    assert sorted(path.name for path in (folder / paths.KEPT).iterdir()) == sorted(
        path.name for path in (whole / paths.KEPT).iterdir()
    )


@pytest.mark.long
@pytest.mark.skipif(not CLEAR.exists(), reason="this kernel gives no high-water mark")
def test_the_peak_of_memory_is_that_of_all_processes_of_a_training(pretrained, monkeypatch):
    def train(*given: object) -> None:
        np.ones(12_500_000).sum()
        loop.train(*given)

    with monkeypatch.context() as patch:
        kill_at(8, patch)
        patch.setattr(pretraining, "train", train)
        with pytest.raises(Killed):
            pretrained("killed")
    entries = Reader(pretrained("killed")).new_entries()
    (peak,) = (entry["value"] for entry in entries if entry.get("result") == "pretrain/peak_memory_bytes")
    assert peak > 90e6


@pytest.mark.long
def test_the_average_is_what_is_kept_and_evaluated_and_the_training_is_the_same(pretrained):
    found = {}
    for name, decay in (("last", None), ("averaged", 0.5)):
        folder = pretrained(name, ema_decay=decay)
        found[name] = in_process.curves_of(folder), kept(folder, SECOND)
    (plain, last), (same, averaged) = found.values()
    assert same["pretrain/loss"] == plain["pretrain/loss"]
    held_out = next(key for key in plain if key.startswith("pretrain/") and "masked_loss" in key)
    assert same[held_out] != plain[held_out]
    assert any(not torch.equal(averaged[name], last[name]) for name in last)


@pytest.mark.long
def test_a_parametrisation_by_width_changes_nothing_at_its_own_width_and_rates_at_another(pretrained, monkeypatch):
    plain, same = (kept(pretrained(name, mup_base_width=width), SECOND) for name, width in (("plain", None), ("same", 16)))
    assert all(torch.equal(same[name], plain[name]) for name in plain)
    rates = {}

    def note(*saved: object) -> None:
        rates.update({group["rate_factor"]: group["lr"] for group in saved[4].param_groups})

    monkeypatch.setattr(resume, "save", note)
    other = kept(pretrained("other", mup_base_width=8), SECOND)
    assert any(not torch.equal(other[name], plain[name]) for name in plain)
    assert rates == {1.0: rates[1.0], 0.5: rates[1.0] / 2}


def test_a_full_disk_leaves_no_half_of_a_kept_point_and_the_next_attempt_keeps_it(tmp_path):
    def full(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"begun")
        raise OSError(errno.ENOSPC, "No space left on device")

    def whole(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"whole")

    position = Position(tokens=600)
    with pytest.raises(OSError, match="No space left"):
        Keeping(full, [500.0], tmp_path).run(position)
    assert not list((tmp_path / paths.KEPT).iterdir())
    Keeping(whole, [500.0], tmp_path).run(position)
    (path,) = (tmp_path / paths.KEPT).iterdir()
    assert path == paths.pretrained_weights(tmp_path, 500.0)
    assert (path / "model.safetensors").read_bytes() == b"whole"
