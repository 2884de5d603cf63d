"""The shape of every tensor on the way from ids to scores, as text: by symbols and by numbers, equal layers once.

Two passes of different sizes say which dimensions grow with the batch and which with the text; the others are looked up among
the sizes of the model. B texts, T tokens, P predicted positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import torch

from harness.checkpoints import teacher
from harness.commands.describe.symbols import Sizes, legend, symbols
from harness.commands.describe.trace import Seen, Size, merged, trace
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import PretrainConfig, RunConfig
from harness.measure import pretraining_heads as heads
from harness.measure import subject
from harness.tasks import kind_of
from harness.terminal import Row, table, wrapped
from models.batch import Batch
from models.config import Body
from models.encoder import Encoder
from models.heads import on_meta
from models.objectives.base import Objective, PretrainBatch, Vocabulary
from models.objectives.config import ObjectiveName
from models.objectives.distillation import Distillation

HEAD = ("where", "tensor", "shape", "numbers", "parameters")

FEW = 6
"""Numbers of layers that are listed."""


@dataclass(frozen=True)
class Traced:
    """What one pass has made, and how large it was."""

    seen: list[Seen]
    sizes: Sizes
    order: dict[str, list[tuple]] = field(default_factory=dict)  # of the blocks of each encoder


def of_model(config: RunConfig) -> str:
    """The table of a forward pass over measure.batch_size texts of measure.length tokens."""
    B, T = config.measure.batch_size, config.measure.length or min(MEASURED_LENGTH, config.model.longest_text)
    one, other = (_classified(config, *size) for size in _two(B, T))
    title = f"shapes of one forward pass over B={B} texts of T={T} tokens (measure.batch_size, measure.length)"
    return "\n".join([wrapped(title, 0), legend(one.sizes), "", table(HEAD, list(rows(one, other)), "llllr")])


def _two(B: int, T: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two sizes; a text of one token cannot be shorter."""
    return (B, T), (B + 1, max(T - 1, 1))


def _classified(config: RunConfig, B: int, T: int) -> Traced:
    outputs = subject.outputs_of(config.task)
    model = on_meta(config.model, outputs, kind_of(config.task).head()).eval()
    ids = Batch(torch.zeros(B, T, dtype=torch.int64, device="meta"))
    seen = trace(dict(model.named_children()), lambda: model(ids))
    order = {"encoder": model.encoder.layers.execution_order()}
    return Traced(seen, Sizes({"B": B, "T": T}, {"encoder": config.model}, outputs), order)


# The objective


def of_objective(run: RunConfig) -> str:
    """The table of one training pass of the objective without its encoder, which is that of the fine-tuning.

    Its own heads, a generator and a teacher. ValueError for a model that it cannot train.
    """
    length, size = run.pretrain.length, run.pretrain.batch_size
    one, other = (_trained(run, *size) for size in _two(size, length))
    shown = [replace(traced, seen=_beside_the_encoder(traced.seen)) for traced in (one, other)]
    positions = one.sizes.varying["P"]
    title = (
        f"shapes of what {run.pretrain.objective.value} adds: B={size} sequences of T={length} tokens, P={positions} predicted "
        "(pretrain.batch_size, length)"
    )
    return "\n".join([wrapped(title, 0), *_legends(one.sizes), "", table(HEAD, list(rows(*shown)), "llllr")])


def _legends(sizes: Sizes) -> list[str]:
    return [legend(Sizes({}, {name: sizes.encoders[name]})) for name in sizes.encoders if name != "encoder"]


def _beside_the_encoder(seen: list[Seen]) -> list[Seen]:
    """Of the encoder the inputs alone, in the place of all of it."""
    added = (one for one in seen if one.owner != "encoder" or one.name == "input ids")
    return [replace(one, stage="encoder, as above") if one.owner == "encoder" else one for one in added]


def _trained(run: RunConfig, B: int, T: int) -> Traced:
    objective, batch = _objective(run), Batch(torch.ones(B, T, dtype=torch.int64))
    batch.token_type_ids = (torch.arange(T).expand(B, T) >= T // 2).long()
    batch.labels = torch.zeros(B, dtype=torch.int64)
    made = objective.make_batch(batch, list(range(B)))
    roots = dict(objective.named_children())
    if isinstance(objective, Distillation):
        roots["teacher"] = objective.teacher
    encoders = _encoders(roots)
    inputs = PretrainBatch(
        made.inputs.to("meta"), made.positions.to("meta"), made.targets.to("meta"), made.total_predictions, B
    )
    loss: list[Size] = []
    seen = trace(roots, lambda: loss.append(tuple(objective(inputs).shape)))
    varying = {"B": B, "T": T, "P": made.positions.shape[1]}
    order = {name: encoder.layers.execution_order() for name, encoder in encoders.items()}
    sizes = Sizes(varying, {name: encoder.config for name, encoder in encoders.items()})
    return Traced([*seen, Seen("loss", None, "", "nats", loss[0])], sizes, order)


def _objective(run: RunConfig) -> Objective:
    """On the meta device and in evaluation mode; of a distillation with its teacher where one is named."""
    is_distilled = run.pretrain.objective is ObjectiveName.distillation
    if not is_distilled:
        return heads.shapes(run.model, run.pretrain).eval()
    known = teacher.load(teacher.folder_of(run))
    model = replace(run.model, vocab_size=known.encoder.config.vocab_size)  # a run adopts the tokenizer of its teacher
    size = model.vocab_size
    with torch.device("meta"):
        vocabulary = Vocabulary(size, 0, 0, 0, 0, torch.ones(size, dtype=torch.bool, device="cpu"))
        return Distillation(run.pretrain, model, vocabulary, known).to("meta").eval()


def _encoders(roots: dict[str, torch.nn.Module]) -> dict[str, Encoder]:
    named = ((name, module) for root, top in roots.items() for name, module in top.named_modules(prefix=root))
    return {name: module for name, module in named if isinstance(module, Encoder)}


def is_added(pretrain: PretrainConfig) -> bool:
    """Whether the command line names an objective."""
    return pretrain.objective is not ObjectiveName.none


# Text


def rows(one: Traced, other: Traced) -> Iterator[Row]:
    """Of the first pass, with symbols by what differs in the second; equal layers once."""
    pairs = zip(one.seen, other.seen, strict=True)
    labelled = merged([replace(seen, symbols=symbols(seen, again, one.sizes, other.sizes)) for seen, again in pairs])
    for (owner, layered), group in groupby(labelled, key=lambda seen: (seen.owner, seen.layer is not None)):
        for title, shown in _folded(owner, list(group), one) if layered else [("", list(group))]:
            if title:
                yield title, "", "", "", ""
            before = ""
            for seen in shown:
                where = f"  {seen.stage}" if title else _outside(seen)
                numbers = " × ".join(map(str, seen.shape)) or "one number"
                yield "" if where == before else where, seen.name, seen.symbols, numbers, _parameters(seen)
                before = where


def _outside(seen: Seen) -> str:
    return " ".join(part for part in ("" if seen.owner == "encoder" else seen.owner, seen.stage) if part)


def _parameters(seen: Seen) -> str:
    parts = [f"{seen.parameters:,}"] if seen.parameters else []
    return " + ".join([*parts, *["tied"] * seen.tied])


def _folded(owner: str, seen: list[Seen], traced: Traced) -> list[tuple[str, list[Seen]]]:
    """The layers of an encoder or the passes of a mask decoder: those that look the same under one title."""
    alike: dict[tuple[Seen, ...], list[int]] = {}
    for layer, group in groupby(seen, key=lambda one: one.layer):
        alike.setdefault(tuple(replace(one, layer=None) for one in group), []).append(layer)
    found = []
    for rows_of_layer, layers in alike.items():
        found += [(title, list(rows_of_layer)) for title in _titles(owner, layers, traced)]
    return found


def _titles(owner: str, layers: list[int], traced: Traced) -> list[str]:
    """One for the layers of an encoder, and one for those of a decoder beside it."""
    if owner not in traced.order:
        return [f"{owner} {_listed('pass', 'passes', layers)}"]
    order, config = traced.order[owner], traced.sizes.encoders[owner]
    prefix = "" if owner == "encoder" else f"{owner} "
    two = config.body is Body.encoder_decoder
    parts = {"encoder ": range(config.depth), "decoder ": range(config.depth, len(order))} if two else {"": range(len(order))}
    titles = []
    for part, places in parts.items():
        mine = [layer for layer in layers if layer in places]
        weights = len({order[layer] for layer in mine})
        shared = "" if weights == len(mine) else ", shared" if weights == 1 else f", {weights} sets"
        numbers = [layer - places.start for layer in mine]
        titles += [f"{prefix}{part}{_listed('layer', 'layers', numbers)}{shared}"] if mine else []
    return titles


def _listed(one: str, several: str, numbers: list[int]) -> str:
    """`layers 1-4`, `layers 1, 4, 7`: from 1 on."""
    counted = [number + 1 for number in numbers]
    if len(counted) == 1:
        return f"{one} {counted[0]}"
    if counted == list(range(counted[0], counted[-1] + 1)):
        return f"{several} {counted[0]}-{counted[-1]}"
    listed = [*map(str, counted)] if len(counted) <= FEW else [*map(str, counted[: FEW - 2]), "...", str(counted[-1])]
    return f"{several} {', '.join(listed)}"
