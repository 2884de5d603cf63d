"""Resuming: a resumed training equals an uninterrupted one, and no torn or foreign checkpoint is used."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from harness.config.schema import OptimiserConfig
from harness.training import resume
from harness.training.loop import Position
from harness.training.optimiser import make_optimiser

IDENTITY = "a" * 64


class Tied(nn.Module):
    """Two names for one matrix, a buffer, and one parameter that no gradient reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.output = nn.Linear(5, 7)
        self.output.weight = self.embedding.weight
        self.unused = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(()))

    def loss(self, step: int) -> torch.Tensor:
        self.count += 1
        ids = torch.randint(0, 7, (4,), generator=torch.Generator().manual_seed(step))
        return nn.functional.cross_entropy(self.output(self.embedding(ids)), ids)


def built() -> tuple[Tied, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = Tied()
    return model, make_optimiser(model, OptimiserConfig(learning_rate=0.1))


def steps(model: Tied, optimiser: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last + 1):
        model.loss(step).backward()
        optimiser.step()
        optimiser.zero_grad()


def saved(folder: Path, *, upto: int, identity: str = IDENTITY) -> None:
    """Checkpoints after every one of so many steps."""
    model, optimiser = built()
    for step in range(1, upto + 1):
        steps(model, optimiser, step, step)
        resume.save(folder, identity, Position(step=step, rows=4 * step, seconds=0.5 * step), model, optimiser)


def test_resumed_training_equals_the_uninterrupted_one_bit_by_bit(tmp_path):
    whole, optimiser = built()
    steps(whole, optimiser, 1, 6)
    saved(tmp_path, upto=4)
    model, optimiser = built()
    position = resume.load(tmp_path, IDENTITY, model, optimiser)
    assert position == Position(step=4, rows=16, seconds=2.0)
    steps(model, optimiser, 5, 6)
    for (name, ours), theirs in zip(model.state_dict().items(), whole.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name
    assert model.output.weight is model.embedding.weight


def test_a_checkpoint_has_the_permissions_of_its_folder(tmp_path):
    saved(tmp_path, upto=1)
    (newest,) = tmp_path.glob("step-*")
    assert {path.stat().st_mode & 0o777 for path in newest.iterdir()} == {newest.stat().st_mode & 0o666}


def test_a_state_from_before_padding_was_counted_is_still_read(tmp_path):
    saved(tmp_path, upto=4)
    (newest,) = tmp_path.glob("step-000000004")
    state = json.loads((newest / "state.json").read_text())
    del state["position"]["padded_tokens"]
    (newest / "state.json").write_text(json.dumps(state))
    assert resume.load(tmp_path, IDENTITY, *built()) == Position(step=4, rows=16, seconds=2.0)


def test_nothing_to_resume_is_the_beginning(tmp_path):
    model, optimiser = built()
    assert resume.load(tmp_path, IDENTITY, model, optimiser) == Position()


def test_the_newest_two_are_kept_and_half_written_ones_removed(tmp_path):
    (tmp_path / ".step-000000001.99").mkdir()
    saved(tmp_path, upto=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000004", "step-000000005"]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def _set(**changes: object):
    def change(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("name", "spoil", "reason"),
    [
        ("weights.safetensors", _cut, "corrupt"),
        ("weights.safetensors", _flip, "weights.safetensors does not match its checksum"),
        ("optimiser.safetensors", _flip, "optimiser.safetensors does not match its checksum"),
        ("optimiser.safetensors", Path.unlink, "corrupt"),
        ("state.json", _cut, "corrupt"),
        ("state.json", _set(version=0), "version 0, expected 1"),
        ("state.json", _set(identity="b" * 64), "belongs to training bbbbbbbb, this one is aaaaaaaa"),
    ],
)
def test_torn_or_foreign_one_is_refused_by_name_and_the_one_before_is_used(tmp_path, capsys, name, spoil, reason):
    saved(tmp_path, upto=3)
    spoil(tmp_path / "step-000000003" / name)
    model, optimiser = built()
    assert resume.load(tmp_path, IDENTITY, model, optimiser).step == 2
    said = capsys.readouterr().out
    assert "checkpoint step-000000003 is refused" in said
    assert reason in said
    assert "resumed from checkpoint step-000000002" in said


def test_checkpoint_of_another_shape_is_refused(tmp_path, capsys):
    saved(tmp_path, upto=1)
    model = nn.Linear(2, 2)
    before = model.weight.clone()
    assert resume.load(tmp_path, IDENTITY, model, make_optimiser(model, OptimiserConfig())) == Position()
    assert "its tensors do not match the model" in capsys.readouterr().out
    assert torch.equal(model.weight, before)


def test_no_checkpoint_holds_a_pickle(tmp_path):
    saved(tmp_path, upto=1)
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"weights.safetensors", "optimiser.safetensors", "state.json"}
