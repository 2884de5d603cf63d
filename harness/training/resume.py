"""Checkpoints to resume a training from: weights, optimizer and position, each written whole or not at all.

Every random stream of a training is derived from its seed and the step or sequence, so the position is the whole random state:
a resumed training equals an uninterrupted one. Tensors are in safetensors, the rest in JSON; there is no pickle.
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from harness import paths
from harness.training.distributed import ALONE, Ranks, load_fsdp
from harness.training.loop import Position

VERSION = 1
KEPT = 2
"""Number of newest checkpoints that are kept: one more than needed, because the newest may be corrupt."""

WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "state.json"


class RefusedError(Exception):
    """Why a checkpoint cannot be used."""


def save(
    folder: Path,
    identity: str,
    position: Position,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    ranks: Ranks = ALONE,
) -> None:
    """Writes one more checkpoint into the folder and removes old ones; `identity` names the training that it belongs to.

    The first rank writes it; where the model is sharded, each one writes its part.
    """
    target = folder / f"step-{position.step:09d}"
    building = folder / f".{target.name}.{int(ranks.agreed(os.getpid()))}"
    if ranks.first:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
    if ranks.sharded:
        ranks.agreed(0)  # the folder is there
        load_fsdp().write(building, _tensors(model), _optimiser_tensors(optimiser))
    elif ranks.first:
        save_file(_tensors(model), building / WEIGHTS)
        save_file(_optimiser_tensors(optimiser), building / OPTIMISER)
        paths.share(building / WEIGHTS, building / OPTIMISER)
    if not ranks.first:
        return
    sums = {path.name: _checksum(path) for path in sorted(building.iterdir())}
    state = {"version": VERSION, "identity": identity, "position": asdict(position), "sha256": sums}
    (building / STATE).write_text(json.dumps(state, indent=1))
    for path in building.iterdir():
        _flush(path)
    shutil.rmtree(target, ignore_errors=True)  # of an earlier attempt whose checkpoint was refused
    building.rename(target)
    _flush(folder)
    for path in _all(folder)[:-KEPT]:
        shutil.rmtree(path)
    for path in folder.glob(".step-*"):  # incomplete ones of killed processes
        shutil.rmtree(path, ignore_errors=True)


def load(folder: Path, identity: str, model: nn.Module, optimiser: torch.optim.Optimizer) -> Position:
    """Loads the newest usable checkpoint into model and optimizer and returns its position; without one, that of the start.

    A checkpoint that is corrupt or of another training is reported on the console, and the one before it is tried.
    """
    for path in reversed(_all(folder)):
        try:
            position, weights, moments = _read(path, identity, model, optimiser)
        except RefusedError as error:
            print(f"checkpoint {path.name} is refused: {error}; trying the one before", flush=True)
            continue
        with torch.no_grad():
            for name, tensor in _tensors(model).items():
                tensor.copy_(weights[name])
        states: dict[int, dict[str, Tensor]] = {}
        for key, tensor in moments.items():
            number, _, name = key.partition(".")
            states.setdefault(int(number), {})[name] = tensor
        optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
        print(f"resumed from checkpoint {path.name}", flush=True)
        return position
    return Position()


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


def _read(
    path: Path, identity: str, model: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[Position, dict[str, Tensor], dict[str, Tensor]]:
    """Position, weights and moments, of a sharded model in its parts; RefusedError if it is corrupt or of another training."""
    own = _tensors(model)
    try:
        state = json.loads((path / STATE).read_text())
        names = state["sha256"]
        sums = {name: _checksum(path / name) for name in names}
        whole = {WEIGHTS, OPTIMISER} <= {*names}
        weights, moments = (load_file(path / WEIGHTS), load_file(path / OPTIMISER)) if whole else ({}, {})
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise RefusedError(f"it is corrupt ({' '.join(str(error).split())})") from error
    if state.get("version") != VERSION:
        raise RefusedError(f"its format is version {state.get('version')}, expected {VERSION}")
    if state["identity"] != identity:
        raise RefusedError(f"it belongs to training {state['identity'][:8]}, this one is {identity[:8]}")
    if state["sha256"] != sums:
        changed = [name for name, value in sums.items() if state["sha256"].get(name) != value]
        raise RefusedError(f"{', '.join(changed)} does not match its checksum")
    is_sharded = any(hasattr(tensor, "full_tensor") for tensor in own.values())
    shapes = {name: tensor.shape for name, tensor in weights.items()} if whole else load_fsdp().shapes(path)
    if {name: tensor.shape for name, tensor in own.items()} != shapes:
        raise RefusedError("its tensors do not match the model")
    if not whole:
        weights, moments = load_fsdp().read(path, own, optimiser)
    elif is_sharded:
        weights, moments = load_fsdp().divided(weights, own, moments, optimiser)
    return Position(**state["position"]), weights, moments


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers; one with two names once."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """`<number of the parameter>.<moment>` -> tensor."""
    states = optimiser.state_dict()["state"]
    return {f"{number}.{name}": tensor for number, state in states.items() for name, tensor in state.items()}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Returns once the file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
