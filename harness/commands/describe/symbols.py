"""Symbols for the dimensions of tensors, by what differs between two passes of other sizes, and by the model's sizes."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.commands.describe.trace import Seen
from harness.terminal import wrapped
from models.config import Body, EncoderConfig

ATTENDING = ("queries", "keys", "values", "context")
"""Tensors whose last dimension is that of a head."""


@dataclass(frozen=True)
class Sizes:
    """Of one pass: its varying sizes by symbol, and those of each encoder in it."""

    varying: dict[str, int]
    encoders: dict[str, EncoderConfig]
    outputs: int = 0


def symbols(seen: Seen, again: Seen, sizes: Sizes, others: Sizes) -> str:
    """`[B, T, D]`; a number that is neither a size of the pass nor one of the model stays a number."""
    known = _known(seen, sizes)
    last = len(seen.shape) - 1
    named = []
    for place, (value, other) in enumerate(zip(seen.shape, again.shape, strict=True)):
        varying = _varying(value, other, sizes.varying, others.varying)
        named.append(varying or next((symbol for symbol, size in known(place == last) if size == value), f"{value}"))
    return f"[{', '.join(named)}]"


def _varying(value: int, other: int, sizes: dict[str, int], others: dict[str, int]) -> str:
    """`T`, `T+P`, `2T` or `8B`: what both passes agree on; empty where the second pass does not differ or nothing fits."""
    one, two = sizes, others
    sums = {symbol: (one[symbol], two[symbol]) for symbol in one}
    if "P" in one:
        sums["T+P"] = (one["T"] + one["P"], two["T"] + two["P"])
    exact = [symbol for symbol, pair in sums.items() if pair == (value, other)]
    if exact:
        return exact[0]
    for symbol in ("B", "T"):
        times, rest = divmod(value, one[symbol])
        if times > 1 and not rest and other == times * two[symbol]:
            return f"{times}{symbol}"
    if value - other == 2 * (one["T"] - two["T"]) and value < other + 4:
        return f"2T{value - 2 * one['T']:+}"
    return ""


def _known(seen: Seen, sizes: Sizes) -> Callable[[bool], list[tuple[str, int]]]:
    """Symbols and sizes of the model in the order in which they are tried, for the last dimension and for the others."""
    config = sizes.encoders.get(_encoder_of(seen.owner, sizes))
    pairs = _of_config(config)
    outputs = [("C", sizes.outputs)] if seen.owner == "head" else []

    def tried(is_last: bool) -> list[tuple[str, int]]:
        if not is_last:
            return [("H", config.num_attention_heads)]
        if any(name in seen.name for name in ATTENDING) and len(seen.shape) == 4:
            return [("K", config.head_width)]
        if seen.stage == "feed-forward":
            first = [pair for pair in pairs if "F" in pair[0]] if seen.name in ("input", "activated") else []
            return [*first, *pairs]
        return [*outputs, *pairs]

    return tried


def _encoder_of(owner: str, sizes: Sizes) -> str:
    """The encoder that a head belongs to: `generator` of `generator_head`, `teacher.encoder` of `teacher.head`."""
    first = owner.split(".")[0].split("_")[0]
    near = [name for name in sizes.encoders if name.split(".")[0] == first]
    return near[0] if near else "encoder" if "encoder" in sizes.encoders else next(iter(sizes.encoders))


def _of_config(config: EncoderConfig) -> list[tuple[str, int]]:
    """Of a last dimension; E and A only where they differ from D."""
    D, E, A, F = config.hidden_size, config.embedding_width, config.attention_width, config.feed_forward_width
    pairs = [("D", D), ("E", E), ("A", A), ("F", F), ("3A" if A != D else "3D", 3 * A), ("2A" if A != D else "2D", 2 * A)]
    return [*pairs, ("2F", 2 * F), ("D/2", D // 2), ("V", config.vocab_size)]


def legend(sizes: Sizes) -> str:
    """What the symbols of an encoder mean, with their values."""
    ((name, config),) = sizes.encoders.items()
    attending = config.body in (Body.transformer, Body.encoder_decoder)
    facts = {"D": (config.hidden_size, "hidden")}
    if config.embedding_width != config.hidden_size:
        facts["E"] = config.embedding_width, "embedding"
    if attending:
        facts |= {"H": (config.num_attention_heads, "heads"), "K": (config.head_width, "head size")}
        if config.attention_width != config.hidden_size:
            facts["A"] = config.attention_width, "all heads"
        facts["F"] = config.feed_forward_width, "feed-forward"
    facts["V"] = config.vocab_size, "pieces"
    if sizes.outputs:
        facts["C"] = sizes.outputs, "outputs"
    prefix = "" if name == "encoder" else f"{name}: "
    shown = (f"{symbol}={value} {meaning}".replace(" ", "\N{NO-BREAK SPACE}") for symbol, (value, meaning) in facts.items())
    return wrapped(prefix + ", ".join(shown), 0)
