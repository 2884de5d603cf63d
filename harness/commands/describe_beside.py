"""Variants beside each other: `python -m harness describe model=base,gpt,encoder_decoder scale=base`.

One table of what each is built of, is suited to and costs, and three pictures: architectures, parameters, and which words of a
text each word sees. What is seen is not read from the keys: it is where the weights of attention of the built layers are above
zero, in a narrow copy of the variant. T words.
"""

import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from harness.commands import describe_picture
from harness.commands.describe_shapes import numbered
from harness.commands.inspect_pictures import maps_of
from harness.commands.pictures import STYLE, fitted, save
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import HardwareConfig, RunConfig
from harness.errors import InputError
from harness.measure import flops, memory_formula, size, subject
from harness.measure import pretraining_heads as heads
from harness.paths import file_name
from harness.terminal import DASH, duration, scaled, table, wrapped
from models.batch import Batch
from models.config import Body, EncoderConfig
from models.encoder import Encoder
from models.objectives.config import ObjectiveName

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

PARTS = {"embeddings": "#D6E6F4", "layers": "#FBDDC2", "pooler and head": "#BDBDBD"}
SEEN, UNSEEN = "#0072B2", "#F4F4F4"

BACKWARD = 2
"""FLOPs of a backward pass, in forward passes."""

Value = str | int | None


@dataclass(frozen=True)
class Seen:
    """What each word sees in some attentions of a model: a row of `mask` (T, T) is a word, its columns what it sees."""

    title: str
    mask: np.ndarray

    @property
    def over_encoder(self) -> bool:
        """Whether words of the decoder see those of the encoder."""
        return "over the encoder" in self.title

    @property
    def direction(self) -> str:
        """`both ways`, `left to right`, or how many pairs are seen."""
        if self.mask.all():
            return "both ways"
        return (
            "left to right"
            if np.array_equal(self.mask, np.tril(self.mask | True))
            else f"{self.mask.sum()} of {self.mask.size} pairs"
        )


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
    return "\n\n".join(
        [*blocks, *_notes(variants, length, flops_per_second), "\n".join(map(str, _pictures(variants, seen, words, out)))]
    )


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
        which, number = _layer_of(one.title)
        alike.setdefault((which, (one.weights > 0).any(dim=0).numpy().tobytes()), []).append(number)
    shape = len(words), len(words)
    return [
        Seen(which.replace("layer", numbered("layer", "s", places)), np.frombuffer(mask, bool).reshape(shape))
        for (which, mask), places in alike.items()
    ]


def _layer_of(title: str) -> tuple[str, int]:
    """`decoder layer, over the encoder` and 2 of `decoder layer 3, over the encoder`."""
    before, _, after = title.partition("layer ")
    number, comma, rest = after.partition(",")
    return f"{before}layer{comma}{rest}", int(number) - 1


# The table


def facts(config: RunConfig, seen: list[Seen], length: int, flops_per_second: float | None) -> dict[str, Value]:
    """Row -> what is in it: a text, a count, or None for what there is not. FLOPs and bytes are of texts of this length."""
    model, shapes = config.model, subject.shapes(config.model, config.task)
    parts = size.components(shapes)
    step = replace(subject.step_shape(config, config.measure.batch_size), config=model, length=length)
    built = [part for column in shapes.encoder.layers.columns() for layer in column.layers for part in layer.parts]
    titles = [part.title.lower() for part in built if part.kind in ("attention", "cross")]
    attention = dict.fromkeys(title.replace(" self-attention", "").replace("attention over", "over") for title in titles)
    stack = stack_of(model, seen)
    has_own_past = model.init_from is not None and config.pretrain.objective is ObjectiveName.none  # published weights
    forward = flops.counted(replace(step, batch_size=1), backward=False)
    step_bytes = memory_formula.parts(step, HardwareConfig(), config.finetune.activation_checkpointing).total
    rows: dict[str, Value] = {
        "stack": stack,
        "attention": " + ".join(attention) or None,
        "direction": " + ".join(dict.fromkeys(one.direction for one in seen if not one.over_encoder)) or None,
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
        "parameters": sum(parts.values()),
        "  embeddings": sum(parts.values()) - parts["layers"] - parts["pooler"] - parts["head"],
        "  layers": parts["layers"],
        "with what pretrains it": None if has_own_past else _with_pretraining_heads(config),
        "weights in float32": f"{4 * sum(parts.values()) / 1e6:,.0f} MB",
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


def pretraining(config: RunConfig) -> tuple[float, float]:
    """Tokens and FLOPs of its budget, a backward pass as two forward ones; InputError where that is not stated."""
    pretrain = config.pretrain
    if pretrain.objective is ObjectiveName.none or pretrain.seconds is not None:
        raise InputError(
            "flops_per_second= needs how much is trained: expected pretrain=own (or an objective) with pretrain.tokens=132e9, "
            "or pretrain.steps=1000000 with pretrain.batch_size=256 pretrain.length=512"
        )
    if pretrain.phases:
        raise InputError(
            "flops_per_second= extrapolates one length: leave pretrain.phases out, or see `python -m harness plan`"
        )
    length = pretrain.length or min(MEASURED_LENGTH, config.model.longest_text)
    try:
        of_token = (1 + BACKWARD) * heads.shapes(config.model, pretrain).flops(length) / length
    except ValueError as error:
        raise InputError(f"{config.label}: {error}") from error
    if pretrain.flops is not None:
        return pretrain.flops / of_token, pretrain.flops
    tokens = pretrain.tokens if pretrain.steps is None else pretrain.steps * pretrain.batch_size * length
    return tokens, tokens * of_token


def _table(columns: dict[str, dict[str, Value]], factors: bool) -> str:
    """A column a variant; of two variants how many times as large the second is."""
    rows = []
    for row in next(iter(columns.values())):
        values = [column[row] for column in columns.values()]
        texts = [DASH if value is None else f"{value:,}" if isinstance(value, int) else value for value in values]
        numbers = [value for value in values if isinstance(value, int)]
        rows.append((row, *texts, *([f"{numbers[1] / numbers[0]:.3g}x" if len(numbers) == 2 else ""] if factors else [])))
    head = ("", *columns, *(["factor"] if factors else []))
    return table(head, rows, "l" + "r" * (len(head) - 1))


def _notes(variants: dict[str, RunConfig], length: int, flops_per_second: float | None) -> list[str]:
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
    return ["\n".join(wrapped(note, 0) for note in notes)]


# Pictures


def _pictures(variants: dict[str, RunConfig], seen: dict[str, list[Seen]], words: list[str], out: Path) -> list[Path]:
    """Architectures, parameters and what is seen; the last one is left out where no variant has attention."""
    models = {name: subject.shapes(config.model, config.task) for name, config in variants.items()}
    joined = "-".join(models)
    name = file_name(f"beside-{joined if len(joined) <= 60 else f'{len(models)}-{zlib.crc32(joined.encode()):08x}'}")
    architectures = [
        describe_picture.architecture_of(model, label, f"{size.count(model):,} parameters") for label, model in models.items()
    ]
    with mpl.rc_context(STYLE):
        figures = {
            f"{name}-architecture": describe_picture.draw(*architectures),
            f"{name}-parameters": draw_parameters({label: size.components(model) for label, model in models.items()}),
        }
        if any(seen.values()):
            figures[f"{name}-seen"] = draw_seen(seen, words)
        return [path for name, figure in figures.items() for path in save(figure, out, name)]


def draw_parameters(models: dict[str, dict[str, int]]) -> Figure:
    """A bar a variant, in millions, from embeddings to head."""
    figure = Figure(figsize=(max(5.0, 1.8 + 1.5 * len(models)), 4.6), layout="constrained")
    axes = figure.subplots()
    totals = np.array([sum(parts.values()) for parts in models.values()]) / 1e6
    bottom = np.zeros(len(models))
    for part, colour in PARTS.items():
        values = {
            "layers": [parts["layers"] for parts in models.values()],
            "pooler and head": [parts["pooler"] + parts["head"] for parts in models.values()],
            "embeddings": [
                sum(parts.values()) - parts["layers"] - parts["pooler"] - parts["head"] for parts in models.values()
            ],
        }[part]
        heights = np.array(values) / 1e6
        bars = axes.bar(
            range(len(models)), heights, 0.6, bottom=bottom, color=colour, edgecolor="#555555", linewidth=0.8, label=part
        )
        axes.bar_label(bars, [f"{h:,.3g}" if h > 0.06 * totals.max() else "" for h in heights], label_type="center", fontsize=8)
        bottom += heights
    for place, total in enumerate(totals):
        axes.text(place, total + 0.015 * totals.max(), f"{total:,.1f} M", ha="center", va="bottom", fontweight="bold")
    axes.set_xticks(range(len(models)), [fitted(name, 1.2, 9)[0] for name in models])
    axes.set(ylabel="parameters, millions", ylim=(0, 1.2 * totals.max()), xlim=(-0.6, len(models) - 0.4))
    axes.set_title("Parameters", loc="left", fontweight="bold", fontsize=12)
    axes.legend(frameon=False, loc="upper left", ncols=3, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    return figure


def draw_seen(seen: dict[str, list[Seen]], words: list[str]) -> Figure:
    """A panel for each kind of attention: a row is a word, coloured what it sees."""
    panels = [(name, one) for name, masks in seen.items() for one in masks]
    side = max(1.9, 0.3 * len(words))
    figure = Figure(figsize=(max(6, 0.9 + (side + 0.9) * len(panels)), side + 1.9), layout="constrained")
    figure.suptitle("A word (row) sees the coloured words (columns)", fontweight="bold", fontsize=12)
    size = min(9.0, 72 * side / len(words) * 0.6)
    for axes, (name, one) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for row, columns in enumerate(one.mask):
            for column, sees in enumerate(columns):
                style = {"facecolor": SEEN if sees else UNSEEN, "edgecolor": "white", "linewidth": 1.5}
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **style))
        axes.set(xlim=(-0.5, len(words) - 0.5), ylim=(len(words) - 0.5, -0.5), aspect="equal")
        labels = [fitted(word, 0.8, size)[0] for word in words]
        axes.set_xticks(range(len(words)), labels, rotation=90, fontsize=size)
        axes.set_yticks(range(len(words)), labels, fontsize=size)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{name}\n{one.title.replace(', ', chr(10))}\n{one.mask.sum()} of {one.mask.size} pairs", fontsize=9)
    return figure
