"""Variants beside each other: `python -m harness describe model=base,gpt,encoder_decoder scale=base`.

One table of what each is built of, is suited to and costs, and three pictures: architectures, parameters, and which words of a
text each word sees. What is seen is not read from the keys: it is where the weights of attention of the built layers are above
zero, in a narrow copy of the variant. T words.
"""

import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import HardwareConfig, RunConfig
from harness.errors import InputError
from harness.measure import flops, memory_formula, size, subject
from harness.measure import pretraining_heads as heads
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import Classifier
from harness.models.objectives.config import ObjectiveName
from harness.paths import file_name
from harness.plugins.explain import describe_picture, describe_shapes
from harness.plugins.explain.describe_shapes import numbered
from harness.plugins.explain.inspect_pictures import maps_of
from harness.plugins.explain.parts import columns
from harness.plugins.explain.pictures import fitted, save
from harness.terminal import DASH, duration, scaled, table, wrapped
from harness.training.loop import Position
from harness.training.pretrain_steps import BatchSizes

ABREAST = 4
"""Variants of one table; more continue below."""

MOST_WORDS = 24
"""Words of the picture of what is seen."""

NARROW = {"num_attention_heads": 1, "hidden_size": 8, "head_size": None, "base_head_size": None, "intermediate_size": 8}
NARROW |= {"feed_forward_size": None, "embedding_size": None, "embedding_fraction": 1.0, "vocab_size": MOST_WORDS + 1}
NARROW |= {"pad_token_id": 0, "mask_decoder": False}
"""Keys of a copy that is built in a moment, with every layer of the variant and its masks."""

SUITED = {"encoder only": "understanding", "decoder only": "generation", "encoder and decoder": "one text into another"}
"""Stack -> what its directions are for (arXiv:1810.04805, arXiv:1706.03762)."""

PARTS = {"embedding": ("embeddings", "#D6E6F4"), "encoder": ("layers", "#FBDDC2"), "head": ("pooler and head", "#BDBDBD")}
"""Parameters as `size.sizes` divides them -> their name in the picture, and the colour."""

UNSEEN, SEEN = "#F4F4F4", "#0072B2"

Value = str | int | None


@dataclass(frozen=True)
class Seen:
    """What each word sees in some attentions of a model: a row of `mask` (T, T) is a word, its columns what it sees."""

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
    variants = {_name(config, configs): config for config in configs}
    if len(variants) < 2:
        raise InputError(
            "describe beside shows several variants, the command line names one: expected model=base,gpt or the like"
        )
    seen = {name: seen_by(config.model, words) for name, config in variants.items()}
    length = min(config.measure.length or min(MEASURED_LENGTH, config.model.longest_text) for config in variants.values())
    columns = {name: facts(config, seen[name], length, flops_per_second) for name, config in variants.items()}
    names, blocks = list(columns), []
    for first in range(0, len(names), ABREAST):
        blocks.append(_table({name: columns[name] for name in names[first : first + ABREAST]}, len(names) == 2))
    return "\n\n".join([*blocks, _notes(variants, length, flops_per_second), _pictures(variants, seen, words, out)])


def _name(config: RunConfig, configs: list[RunConfig]) -> str:
    """The label, with the scale where scales differ."""
    scales = {other.scale_name for other in configs}
    return config.label if len(scales) == 1 or config.scale_name in config.label else f"{config.label} {config.scale_name}"


# What is seen


def seen_by(model: EncoderConfig, words: list[str]) -> list[Seen]:
    """The masks of all attentions in their order, equal ones once; empty without attention."""
    with torch.random.fork_rng():
        encoder = Encoder(replace(model, **{key: value for key, value in NARROW.items() if hasattr(model, key)})).eval()
    maps = maps_of(encoder, Batch(input_ids=torch.arange(1, len(words) + 1)[None]))
    alike: dict[tuple[str, bytes], list[int]] = {}
    for one in maps:
        before, _, after = one.title.partition("layer ")  # of `decoder layer 3, over the encoder`
        number, comma, over = after.partition(",")
        mask = (one.weights > 0).any(dim=0).numpy().tobytes()
        alike.setdefault((f"{before}layer{comma}{over}", mask), []).append(int(number) - 1)
    shape = len(words), len(words)
    return [
        Seen(which.replace("layer", numbered("layer", "s", places)), np.frombuffer(mask, bool).reshape(shape))
        for (which, mask), places in alike.items()
    ]


# The table


def costs(config: RunConfig, model: EncoderConfig, length: int) -> tuple[int, int | None]:
    """FLOPs of a forward pass over one text, and bytes of a training step over measure.batch_size of them in float32.

    The bytes are None where there is no formula.
    """
    shape = replace(subject.step_shape(config, config.measure.batch_size), config=model, length=length)
    forward = flops.counted(replace(shape, batch_size=1), backward=False)
    return forward, memory_formula.parts(shape, HardwareConfig(), config.finetune.activation_checkpointing).total


def facts(config: RunConfig, seen: list[Seen], length: int, flops_per_second: float | None) -> dict[str, Value]:
    """Row -> what is in it: a text, a count, or None for what there is not. FLOPs and bytes are of texts of this length."""
    model, shapes = config.model, subject.shapes(config.model, config.task)
    sizes = size.sizes(shapes)
    built = [part for column in columns(shapes.encoder.layers) for layer in column.layers for part in layer.parts]
    titles = [part.title.lower() for part in built if part.kind in ("attention", "cross")]
    attention = dict.fromkeys(title.replace(" self-attention", "").replace("attention over", "over") for title in titles)
    stack = stack_of(model, seen)
    has_own_past = model.init_from is not None and config.pretrain.objective is ObjectiveName.none  # published weights
    forward, step_bytes = costs(config, model, length)
    rows: dict[str, Value] = {
        "stack": stack,
        "attention": " + ".join(attention) or None,
        "direction": " + ".join(dict.fromkeys(one.direction for one in seen if "over the encoder" not in one.title)) or None,
        "pretrained by": None if has_own_past else heads.objective_of(model, config.pretrain).value,
        "suited to": SUITED.get(stack),
        "positions": model.position.value,
        "activation": f"gated {model.hidden_act.value}" if model.gated_feed_forward else model.hidden_act.value,
        "layers": len(shapes.encoder.layers.execution_order()),
        "hidden size": model.hidden_size,
        "heads": model.num_attention_heads if attention else None,
        "head size": model.head_width if attention else None,
        "feed-forward size": model.feed_forward_width if any(part.kind == "feed_forward" for part in built) else None,
        "longest text": model.longest_text,
        "vocabulary": model.vocab_size,
        "parameters": sizes["model/params_total"],
        "  embeddings": sizes["model/params_embedding"],
        "  layers": sizes["model/params_encoder"],
        "with what pretrains it": None if has_own_past else _with_pretraining_heads(config),
        "weights in float32": f"{4 * sizes['model/params_total'] / 1e6:,.0f} MB",
        "forward pass": scaled(forward, "FLOP"),
        "training step": None if step_bytes is None else f"{step_bytes / 1e6:,.0f} MB",
    }
    if flops_per_second is not None:
        tokens, needed = pretraining(config)
        rows |= {"pretraining": f"{scaled(tokens, '')} tokens", "  costs": scaled(needed, "FLOP")}
        rows["  takes"] = duration(needed / flops_per_second)
    return rows


def _with_pretraining_heads(config: RunConfig) -> int | None:
    """Parameters of encoder and pretraining heads, a tied output matrix once; None where the objective does not fit."""
    try:
        return size.count(heads.shapes(config.model, config.pretrain))
    except ValueError:
        return None


def stack_of(model: EncoderConfig, seen: list[Seen]) -> str:
    """`encoder only`, or `decoder only` where every word sees those before it alone."""
    if model.body is Body.transformer:
        return "decoder only" if all(one.direction == "left to right" for one in seen) else "encoder only"
    return {Body.encoder_decoder: "encoder and decoder", Body.lstm: "recurrent", Body.static: "none"}[model.body]


def pretraining(config: RunConfig) -> tuple[int, float]:
    """Tokens and FLOPs at the end of its budget, as the run counts them; InputError where that is not stated."""
    pretrain = config.pretrain
    if pretrain.objective is ObjectiveName.none or pretrain.seconds is not None:
        raise InputError(
            "flops_per_second= needs how much is trained: expected pretrain=own (or an objective) with pretrain.tokens=42.6e9, "
            "or pretrain.steps=1000000 with pretrain.batch_size=256 pretrain.length=512"
        )
    if pretrain.phases:
        raise InputError(
            "flops_per_second= extrapolates one length: leave pretrain.phases out, or see `python -m harness plan`"
        )
    rows = min(pretrain.batch_size, flops.COUNTED_TEXTS)
    try:
        objective, batch = describe_shapes.objective_with_batch(config, rows, pretrain.length)
    except ValueError as error:
        raise InputError(f"{config.label}: {error}") from error
    of_row = flops.of_objective(objective, batch, pretrain.length) / rows
    end = BatchSizes(pretrain, of_row).end(Position())
    return end.tokens, end.flops


def _table(columns: dict[str, dict[str, Value]], factors: bool) -> str:
    """A column a variant; of two variants how many times as large the second is."""
    rows = []
    for row in next(iter(columns.values())):
        values = [column[row] for column in columns.values()]
        texts = [DASH if value is None else f"{value:,}" if isinstance(value, int) else value for value in values]
        numbers = [value for value in values if isinstance(value, int)]
        rows.append((row, *texts, *([f"{numbers[1] / numbers[0]:.3g}x" if len(numbers) == 2 else ""] if factors else [])))
    return table(("", *columns, *(["factor"] if factors else [])), rows)


def _notes(variants: dict[str, RunConfig], length: int, flops_per_second: float | None) -> str:
    batch_size = next(iter(variants.values())).measure.batch_size
    notes = [
        "direction: where the weights of attention of the built layers are above zero, over the words of text=",
        f"forward pass: of one text of {length} tokens (measure.length); training step: weights, gradients, AdamW and "
        f"activations of {batch_size} such texts (measure.batch_size) in float32, by formula",
    ]
    if any(config.model.body is Body.encoder_decoder for config in variants.values()):
        notes.append("encoder and decoder read the same text here, as for classification in arXiv:1910.13461, section 3.1")
    if flops_per_second is not None:
        notes.append(
            f"takes: FLOPs are counted, the rate is given, {scaled(flops_per_second, 'FLOP/s')}; input, evaluation "
            "and what is not a matrix product take no time in it"
        )
    return "\n".join(map(wrapped, notes))


# Pictures


def _pictures(variants: dict[str, RunConfig], seen: dict[str, list[Seen]], words: list[str], out: Path) -> str:
    """The paths of architectures, parameters and what is seen, which is left out where no variant has attention."""
    models = {name: subject.shapes(config.model, config.task) for name, config in variants.items()}
    joined = "-".join(models)
    name = file_name(f"beside-{joined if len(joined) <= 60 else f'{len(models)}-{zlib.crc32(joined.encode()):08x}'}")
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
    axes, sizes = figure.subplots(), [size.sizes(model) for model in models.values()]
    totals, bottom = (np.array([of["model/params_total"] for of in sizes]) / 1e6), np.zeros(len(models))
    for part, (label, colour) in PARTS.items():
        heights = np.array([of[f"model/params_{part}"] for of in sizes]) / 1e6
        style = {"color": colour, "edgecolor": "#555555", "linewidth": 0.8, "label": label}
        bars = axes.bar(range(len(models)), heights, 0.6, bottom=bottom, **style)
        axes.bar_label(bars, [f"{h:,.3g}" if h > 0.06 * totals.max() else "" for h in heights], label_type="center", fontsize=8)
        bottom += heights
    axes.bar_label(bars, [f"{total:,.1f} M" for total in totals], padding=3, fontweight="bold")
    axes.set_xticks(range(len(models)), [fitted(name, 1.2, 9)[0] for name in models])
    axes.set(ylabel="parameters, millions", ylim=(0, 1.2 * totals.max()), xlim=(-0.6, len(models) - 0.4))
    axes.set_title("Parameters", loc="left", fontweight="bold", fontsize=12)
    axes.legend(loc="upper left", ncols=3, fontsize=8)
    axes.tick_params(axis="x", length=0)
    return figure


def draw_seen(seen: dict[str, list[Seen]], words: list[str]) -> Figure:
    """A panel for each kind of attention: a row is a word, coloured what it sees."""
    panels = [(name, one) for name, masks in seen.items() for one in masks]
    side = max(1.9, 0.3 * len(words))
    figure = Figure(figsize=(max(6, 0.9 + (side + 0.9) * len(panels)), side + 2.3), layout="compressed")
    figure.suptitle("A word (row) sees the coloured words (columns)", fontweight="bold", fontsize=12)
    size = min(9.0, 72 * side / len(words) * 0.6)
    for axes, (name, one) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.pcolormesh(one.mask, cmap=ListedColormap((UNSEEN, SEEN)), vmin=0, vmax=1, edgecolors="white", linewidth=1.5)
        axes.set(aspect="equal")
        axes.invert_yaxis()
        places, labels = np.arange(len(words)) + 0.5, [fitted(word, 0.8, size)[0] for word in words]
        axes.set_xticks(places, labels, rotation=90, fontsize=size)
        axes.set_yticks(places, labels, fontsize=size)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{name}\n{one.title.replace(', ', chr(10))}\n{one.mask.sum()} of {one.mask.size} pairs", fontsize=9)
    return figure
