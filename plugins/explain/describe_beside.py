"""Variants side by side: `python -m harness describe model=base,gpt,encoder_decoder scale=base`.

One table of what each is built of, is suited to and costs, and three pictures: architectures, parameters, and which words of a
text each word sees: where attention of the built layers has weights above zero, in a narrow copy of the variant. T words.
"""

import contextlib
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import HardwareConfig, RunConfig
from harness.errors import InputError, present
from harness.measure import flops, size, subject
from harness.models.batch import Batch
from harness.models.config import LARGEST_TABLE, Body, EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import Classifier
from harness.models.objectives.config import ObjectiveName
from harness.paths import file_name
from harness.plugins.explain import describe_picture, describe_shapes
from harness.plugins.explain.attention import maps_of
from harness.plugins.explain.describe_picture import numbered
from harness.plugins.explain.parts import steps
from harness.plugins.explain.pictures import fitted, save
from harness.plugins.shared import memory_formula, structure
from harness.plugins.shared import pretraining_heads as heads
from harness.terminal import DASH, duration, scaled, table, wrapped
from harness.training.loop import Position
from harness.training.pretrain_steps import BatchSizes

PARTS = {"embedding": ("embeddings", "#D6E6F4"), "encoder": ("layers", "#FBDDC2"), "head": ("pooler and head", "#BDBDBD")}
"""Parameters as `size.sizes` divides them -> their name in the picture, and the colour."""

MOST_WORDS = 24
"""Words of the picture of attention masks."""

NARROW: dict[str, Any] = {
    "num_attention_heads": 1,
    "hidden_size": 8,
    "head_size": None,
    "base_head_size": None,
    "intermediate_size": 8,
    "feed_forward_size": None,
    "embedding_size": None,
    "embedding_fraction": 1.0,
    "vocab_size": MOST_WORDS + 1,
    "pad_token_id": 0,
    "mask_decoder": False,
}
"""Keys of a tiny copy, with every layer of the variant and its masks."""

SUITED = {"encoder only": "understanding", "decoder only": "generation", "encoder and decoder": "one text into another"}
"""Stack -> what its directions are for (arXiv:1810.04805, arXiv:1706.03762)."""

STACKS = {Body.encoder_decoder: "encoder and decoder", Body.lstm: "recurrent", Body.static: "none"}
STACKS |= {Body.foreign: "of another package"}

OF_OURS = ("attention", "direction", "suited to", "positions", "activation", "heads", "head size", "feed-forward size")
"""Rows read from keys that other packages' encoders lack."""

Value = str | int | None


@dataclass(frozen=True)
class Seen:
    """The words that each word attends to in some layers: a row of `mask` (T, T) is a word, its columns are the others."""

    title: str
    mask: np.ndarray

    @property
    def direction(self) -> str:
        """`both ways`, `left to right`, or how many pairs are seen."""
        if self.mask.all():
            return "both ways"
        if np.array_equal(self.mask, np.tri(len(self.mask))):
            return "left to right"
        return f"{self.mask.sum()} of {self.mask.size} pairs"


def beside(configs: list[RunConfig], text: str, flops_per_second: float | None, out: Path) -> str:
    """The table and the paths of the pictures; InputError for one variant, for several of one name, and for too many words."""
    words = text.split()
    if not 1 < len(words) <= MOST_WORDS:
        raise InputError(f"text= has {len(words)} words: expected 2 to {MOST_WORDS}, which fit into a picture")
    variants = {}
    for config in configs:
        is_named = config.scale_name in config.label or len({each.scale_name for each in configs}) == 1
        variants[config.label if is_named else f"{config.label} {config.scale_name}"] = config
    if len(variants) < 2:
        raise InputError(
            "describe beside compares variants, but the command line names only one: expected several, such as model=base,gpt"
        )
    seen = {name: seen_by(config.model, words) for name, config in variants.items()}
    length = min(config.measure.length or min(MEASURED_LENGTH, config.model.longest_text) for config in variants.values())
    columns = [facts(config, seen[name], length, flops_per_second) for name, config in variants.items()]
    rows = []
    for row in columns[0]:
        values = [column[row] for column in columns]
        cells = [DASH if value is None else f"{value:,}" if isinstance(value, int) else value for value in values]
        if len(values) == 2:
            first, second = values
            cells.append(f"{second / first:.3g}x" if isinstance(first, int) and isinstance(second, int) else "")
        rows.append((row, *cells))
    head = ("", *variants, *(["factor"] if len(variants) == 2 else []))
    batch_size = configs[0].measure.batch_size
    notes = [
        "direction: where the weights of attention of the built layers are above zero, over the words of text=",
        f"forward pass: of one text of {length} tokens (measure.length); training step: weights, gradients, AdamW and "
        f"activations of {batch_size} such texts (measure.batch_size) in float32, by formula",
    ]
    if any(config.model.body is Body.encoder_decoder for config in configs):
        notes.append("encoder and decoder read the same text here, as for classification in arXiv:1910.13461, section 3.1")
    if flops_per_second is not None:
        notes.append(
            f"takes: counted FLOPs at the given {scaled(flops_per_second, 'FLOP/s')}, without input, evaluation and "
            "operators other than matrix products"
        )
    return "\n\n".join([table(head, rows), "\n".join(map(wrapped, notes)), _pictures(variants, seen, words, out)])


# What is seen


def seen_by(model: EncoderConfig, words: list[str]) -> list[Seen]:
    """The masks of all attentions in their order, equal ones once; empty without attention, and where it is not ours."""
    if model.encoder is not None:
        return []
    with torch.random.fork_rng():
        encoder = Encoder(replace(model, **{key: value for key, value in NARROW.items() if hasattr(model, key)})).eval()
    alike: dict[tuple[str, str, bytes], list[int]] = {}
    for each in maps_of(encoder, Batch(input_ids=torch.arange(1, len(words) + 1)[None])):
        before, _, after = each.title.partition("layer ")  # of `decoder layer 3, over the encoder`
        number, comma, over = after.partition(",")
        mask = (each.weights > 0).any(dim=0).numpy().tobytes()
        alike.setdefault((before, comma + over, mask), []).append(int(number) - 1)
    shape = len(words), len(words)
    return [
        Seen(f"{before}{numbered(places)}{after}", np.frombuffer(mask, bool).reshape(shape))
        for (before, after, mask), places in alike.items()
    ]


# The table


def costs(config: RunConfig, model: EncoderConfig, length: int) -> tuple[int | None, int | None]:
    """FLOPs of a forward pass over one text, and bytes of a training step over measure.batch_size of them in float32.

    FLOPs are None where an operator has none, bytes where there is no formula.
    """
    shape = replace(subject.step_shape(config, config.measure.batch_size), config=model, length=length)
    forward = flops.counted_or_none(replace(shape, batch_size=1), backward=False)
    return forward, memory_formula.parts(shape, HardwareConfig(), config.finetune.activation_checkpointing).total


def facts(config: RunConfig, seen: list[Seen], length: int, flops_per_second: float | None) -> dict[str, Value]:
    """Row -> what is in it: a text, a count, or None for what there is not. FLOPs and bytes are of texts of this length."""
    model, shapes = config.model, subject.shapes(config.model, config.task)
    sizes, built = size.sizes(shapes), steps(shapes.encoder.layers)
    attention = dict.fromkeys(part.title.lower() for part in built if part.kind in ("attention", "cross"))
    directions = dict.fromkeys(each.direction for each in seen if "over the encoder" not in each.title)
    stack = STACKS.get(model.body, "decoder only" if [*directions] == ["left to right"] else "encoder only")
    has_own_past = model.init_from is not None and not config.pretrains  # published weights
    with_heads = None
    with contextlib.suppress(ValueError):  # the objective does not fit
        with_heads = None if has_own_past else size.count(heads.shapes(model, config.pretrain))
    forward, step_bytes = costs(config, model, length)
    rows = {
        "stack": stack,
        "attention": " + ".join(attention).replace(" self-attention", "").replace("attention over", "over") or None,
        "direction": " + ".join(directions) or None,
        "pretrained by": None if has_own_past else heads.objective_of(model, config.pretrain).value,
        "suited to": SUITED.get(stack),
        "positions": model.position.value,
        "activation": f"gated {model.hidden_act.value}" if model.gated_feed_forward else model.hidden_act.value,
        "layers": len(shapes.encoder.layers.execution_order()),
        "hidden size": model.hidden_size,
        "heads": model.num_attention_heads if attention else None,
        "head size": model.head_width if attention else None,
        "feed-forward size": model.feed_forward_width if any(part.kind == "feed_forward" for part in built) else None,
        "longest text": None if model.longest_text == LARGEST_TABLE else model.longest_text,
        "vocabulary": model.vocab_size,
        "parameters": sizes["model/params_total"],
        "  embeddings": sizes["model/params_embedding"],
        "  layers": sizes["model/params_encoder"],
        "with pretraining heads": with_heads,
        "weights in float32": f"{4 * sizes['model/params_total'] / 1e6:,.0f} MB",
        "forward pass": None if forward is None else scaled(forward, "FLOP"),
        "training step": None if step_bytes is None else f"{step_bytes / 1e6:,.0f} MB",
    }
    if model.encoder is not None:
        rows |= dict.fromkeys(OF_OURS) | {"attention": structure.of_model(model) or None}
    if flops_per_second is not None:
        tokens, needed = pretraining(config)
        rows |= {"pretraining": f"{scaled(tokens, '')} tokens", "  costs": scaled(needed, "FLOP")}
        rows["  takes"] = duration(needed / flops_per_second)
    return rows


def pretraining(config: RunConfig) -> tuple[int, float]:
    """Tokens and FLOPs at the end of its budget, as the run counts them; InputError where that is not stated."""
    pretrain = config.pretrain
    if pretrain.objective is ObjectiveName.none or pretrain.seconds is not None:
        raise InputError(
            "flops_per_second= needs the amount of training: expected pretrain=own (or an objective) with "
            "pretrain.tokens=42.6e9, or pretrain.steps=1000000 with pretrain.batch_size=256 pretrain.length=512"
        )
    if pretrain.phases:
        raise InputError(
            "flops_per_second= extrapolates one length: leave pretrain.phases out, or see `python -m harness plan`"
        )
    rows, length = min(pretrain.batch_size, flops.COUNTED_TEXTS), present(pretrain.length)
    try:
        objective, batch = describe_shapes.objective_with_batch(config, rows, length)
    except ValueError as error:
        raise InputError(f"{config.label}: {error}") from error
    of_row = flops.of_objective(objective, batch, length) / rows
    end = BatchSizes(pretrain, of_row).end(Position())
    return end.tokens, end.flops


# Pictures


def _pictures(variants: dict[str, RunConfig], seen: dict[str, list[Seen]], words: list[str], out: Path) -> str:
    """The paths of architectures, parameters and what is seen, which is left out where no variant has attention."""
    joined = "-".join(variants)
    name = file_name(f"beside-{joined if len(joined) <= 60 else f'{len(variants)}-{zlib.crc32(joined.encode()):08x}'}")
    models = {label: subject.shapes(config.model, config.task) for label, config in variants.items()}
    architectures = [
        describe_picture.architecture_of(model, label, f"{size.count(model):,} parameters") for label, model in models.items()
    ]
    figures = {"architecture": describe_picture.draw(*architectures), "parameters": draw_parameters(models)}
    if any(seen.values()):
        figures["seen"] = draw_seen(seen, words)
    return "\n".join(save(figure, out, f"{name}-{part}") for part, figure in figures.items())


def draw_parameters(models: dict[str, Classifier]) -> Figure:
    """A bar a variant, in millions, from embeddings to head."""
    figure = Figure(figsize=(max(5.0, 1.8 + 1.5 * len(models)), 4.6), layout="constrained")
    axes, sizes, places = figure.subplots(), [size.sizes(model) for model in models.values()], range(len(models))
    bottom = np.zeros(len(models))
    for part, (label, colour) in PARTS.items():
        heights = np.array([of[f"model/params_{part}"] for of in sizes]) / 1e6
        bars = axes.bar(places, heights, 0.6, bottom=bottom, color=colour, edgecolor="#555555", linewidth=0.8, label=label)
        bottom += heights
    axes.bar_label(bars, [f"{total:,.1f} M" for total in bottom], padding=3, fontweight="bold")
    axes.set_xticks(places, [fitted(name, 1.2, 9)[0] for name in models])
    axes.set(title="Parameters", ylabel="parameters, millions", ylim=(0, 1.25 * bottom.max()))
    axes.legend(loc="upper left", ncols=3, fontsize=8)
    return figure


def draw_seen(seen: dict[str, list[Seen]], words: list[str]) -> Figure:
    """A panel for each kind of attention: a row is a word, coloured what it sees."""
    panels = [(name, each) for name, masks in seen.items() for each in masks]
    side = max(1.9, 0.3 * len(words))
    figure = Figure(figsize=(max(6, 0.9 + (side + 0.9) * len(panels)), side + 2.3), layout="compressed")
    figure.suptitle("A word (row) sees the coloured words (columns)")
    places, names = range(len(words)), [fitted(word, 0.8, 9)[0] for word in words]
    for axes, (name, each) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.imshow(each.mask, cmap=ListedColormap(("#F4F4F4", "#0072B2")), vmin=0, vmax=1)
        axes.set_xticks(places, names, rotation=90)
        axes.set_yticks(places, names)
        axes.tick_params(length=0)
        title = f"{name}\n{each.title.replace(', ', chr(10))}\n{each.mask.sum()} of {each.mask.size} pairs"
        axes.set_title(title, fontsize=9, loc="center")
    return figure
