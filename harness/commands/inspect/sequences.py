"""The inputs of the model for one item of a task: its pieces and what belongs to each, as columns of a table.

An item is one sequence, of kind `spans` one a window. T pieces.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

import numpy as np
from tokenizers import Tokenizer

from harness import tasks
from harness.config.choices import TaskKind, TrainedOn
from harness.config.schema import RunConfig
from harness.config.texts import TaskConfig
from harness.data.tokenizer import build, pad_token_id
from harness.errors import InputError
from harness.tasks.base import Examples, Split
from harness.tasks.batches import collate
from harness.tasks.rows import HIDDEN, load_table
from models.batch import Batch
from models.config import Body, EncoderConfig, Position
from models.losses import IGNORED

LISTED = 5
"""Ids of items that an error lists."""

NOTHING = "-"
"""Where a piece has no label."""

NOT_ADDED = {
    Position.rotary: "queries and keys are turned by their place (rotary)",
    Position.alibi: "each head lowers its scores by distance (alibi)",
    Position.bucketed: "a learned bias on the scores for each bucket of distance (bucketed)",
    Position.disentangled: "vectors of the distance between pieces in the scores (disentangled)",
    Position.relative: "vectors of the distance between pieces in the scores (relative)",
}
"""What attention has of places where nothing is added to the embeddings."""


@dataclass(frozen=True)
class InputSequence:
    """One sequence as the model reads it; every row has one text a piece."""

    title: str
    texts: tuple[tuple[str, str], ...]  # column of the data set and its text
    rows: dict[str, tuple[str, ...]]  # piece, id, segment, position, mask, label: those that there are
    added: tuple[str, ...]  # rows whose vectors are summed: id, and of segment and position those that the model adds
    notes: tuple[str, ...]  # beside the table, a line each
    batch: Batch


def sequences_of(config: RunConfig, split: str, item: str, tokenizer: Tokenizer | None) -> list[InputSequence]:
    """The item's sequences, by the tokenizer of the config unless one is passed; InputError for an unknown item."""
    kind = tasks.kind_of(config.task)
    tasks.refuse_impossible(config.task)
    examples = kind.examples(config.task, load_table(config, split))
    place = _place(examples, item, f"task {config.task.name!r}, {split}")
    one = type(examples)([examples.texts[place]], [examples.labels[place]], [examples.items[place]], examples.where)
    tokenizer = tokenizer or trained_tokenizer(config, examples if split == "train" else None)
    _refuse_more_pieces(config)
    encoded = kind.encode(config.task, tokenizer, one)
    title = f"{config.task.name}, {split}, item {item}"
    return [sequence_of(config, tokenizer, one, encoded, window, title) for window in range(len(encoded))]


def _place(examples: Examples, item: str, where: str) -> int:
    for place, found in enumerate(examples.items):
        if str(found) == item:
            return place
    first = ", ".join(str(found) for found in examples.items[:LISTED])
    more = ", ..." if len(examples.items) > LISTED else ""
    raise InputError(f"item={item!r} is not among the {len(examples.items):,} of {where}; the first ids are {first}{more}")


def trained_tokenizer(config: RunConfig, train: Examples | None) -> Tokenizer:
    """As a run of the config has it; `train` is None where its rows have not been read."""
    if config.tokenizer.vocab_file or config.tokenizer.file:
        return build(config.tokenizer, ())
    if config.tokenizer.trained_on is TrainedOn.corpus:
        raise InputError(
            "the tokenizer is trained on the corpus: name its run by run=, or its tokenizer.json by tokenizer.file="
        )
    if train is None:
        train = tasks.kind_of(config.task).examples(config.task, load_table(config, "train"))
    return build(config.tokenizer, [text for texts in train.texts for text in texts])


def _refuse_more_pieces(config: RunConfig) -> None:
    if config.task.max_length > config.model.longest_text:
        raise InputError(
            f"task.max_length={config.task.max_length} must be at most the {config.model.longest_text} that the model takes"
        )


def sequence_of(
    config: RunConfig, tokenizer: Tokenizer, example: Examples, split: Split, window: int, title: str
) -> InputSequence:
    """One encoded window with the labels of its row."""
    batch = collate(split, np.array([window]), pad_token_id(tokenizer) or 0)
    ids = batch.input_ids[0].tolist()
    rows = {"piece": tuple(tokenizer.id_to_token(number) for number in ids), "id": tuple(map(str, ids))}
    added = ["id"]
    segments, of_segments = _segments(config.model, batch.token_type_ids[0].tolist())
    if segments:
        rows["segment"] = segments
        added += ["segment"] * bool(config.model.type_vocab_size)
    places, of_places = _places(config.model, len(ids))
    if places:
        rows["position"] = places
        added.append("position")
    rows["mask"] = ("1",) * len(ids)
    labels, of_labels = _labels(config.task, split, window)
    if labels:
        rows["label"] = labels
    notes = [f"label: {of_labels}", of_segments, of_places, f"attention: {attention_note(config.model)}", _summed(config.model)]
    names = [config.task.fields[0]] if config.task.kind is TaskKind.tokens else config.task.fields
    texts = [" ".join(example.texts[0])] if config.task.kind is TaskKind.tokens else example.texts[0]
    several = f", window {window + 1} of {len(split)}" if len(split) > 1 else ""
    lines = tuple(note for note in notes if note)
    return InputSequence(f"{title}{several}", tuple(zip(names, texts, strict=True)), rows, tuple(added), lines, batch)


def _segments(model: EncoderConfig, types: list[int]) -> tuple[tuple[str, ...], str]:
    """One text a piece, none where the model does not read segments, and a note."""
    if model.type_vocab_size == 1:
        return ("0",) * len(types), "segments: one vector for all pieces"
    if model.type_vocab_size:
        return tuple(map(str, types)), ""
    if model.position is Position.relative:
        return tuple(map(str, types)), "segments: not added, the scores of attention tell same from other"
    return (), "segments: none"


def _places(model: EncoderConfig, length: int) -> tuple[tuple[str, ...], str]:
    """The same of positions."""
    if model.position in (Position.learned, Position.sinusoidal):
        first = model.position_offset if model.position is Position.learned else 0
        note = "positions: sines and cosines" if model.position is Position.sinusoidal else ""
        return tuple(str(first + place) for place in range(length)), note
    if model.position in NOT_ADDED:
        return (), f"positions: not added, {NOT_ADDED[model.position]}"
    read = {Body.lstm: "none, the text is read in order", Body.static: "none, a bag of pieces"}
    return (), f"positions: {read.get(model.body, 'none')}"


def attention_note(model: EncoderConfig) -> str:
    """Which pieces a piece may attend to."""
    if model.body in (Body.lstm, Body.static):
        return "none"
    if model.attention_window is None:
        return "each piece sees itself and those before it" if model.causal else "each piece sees every piece"
    side = model.attention_window // 2
    text = f"each piece sees {side} {'before it' if model.causal else 'to each side'}"
    if model.global_tokens:
        text += f", the first {model.global_tokens} see and are seen by all"
    if model.global_layer_every is not None:
        everything = "all before it" if model.causal else "all"
        text += f"; in layer 1 and every {model.global_layer_every} layers from there each sees {everything}"
    return text


def _summed(model: EncoderConfig) -> str:
    steps = ["normed"] * model.embedding_norm
    if model.embedding_width != model.hidden_size:
        steps.append(f"projected from {model.embedding_width} to {model.hidden_size} features")
    times = f"token vectors times {model.token_scale:.4g}" if model.token_scale != 1 else ""
    text = f"the sum is {' and '.join(steps)}" if steps else ""
    return "; ".join(part for part in (times, text) if part)


def _labels(task: TaskConfig, split: Split, window: int) -> tuple[tuple[str, ...], str]:
    """The label of each piece, none where the text has one, and a note."""
    pieces = slice(split.starts[window], split.starts[window + 1])
    if task.kind is TaskKind.tokens:
        numbers = split.labels[pieces].tolist()
        names = {IGNORED: NOTHING, HIDDEN: "hidden"} | dict(enumerate(task.labels))
        return tuple(names[number] for number in numbers), "a tag at the first piece of each word"
    label = split.labels[window]
    if task.kind is TaskKind.spans:
        return _span(split, window, *label.tolist())
    if task.kind is TaskKind.regression:
        return (), f"{label:g}"
    return (), "hidden" if label == HIDDEN else f"{label} ({task.labels[label]})"


def _span(split: Split, window: int, first: int, last: int) -> tuple[tuple[str, ...], str]:
    answers = split.texts["answers"][0]
    marks = [NOTHING] * split.lengths[window]
    marks[first], marks[last] = "start", "end"
    if first == last:
        marks[first] = "start, end"
    if first == split.numbers["cls"][window]:
        reason = f"the answer {answers[0]!r} is not whole in this window" if answers else "there is no answer"
        return tuple(marks), f"{reason}: start and end are at the first piece"
    return tuple(marks), f"the answer is {answers[0]!r}"


def as_table(sequence: InputSequence, width: int | None = None) -> str:
    """All of it as text; a row that is longer than a line continues below."""
    width = width or shutil.get_terminal_size((120, 0)).columns
    head = [sequence.title, *(f"{name}: {text}" for name, text in sequence.texts), *sequence.notes]
    lines = [line for text in head for line in wrap(text, width, subsequent_indent="    ")]
    return "\n\n".join(["\n".join(lines), *_blocks(sequence.rows, width)])


def _blocks(rows: dict[str, Sequence[str]], width: int) -> list[str]:
    heads = max(map(len, rows))
    columns = list(zip(*rows.values(), strict=True))
    blocks: list[list[str]] = []
    for texts in columns:
        wide = max(map(len, texts))
        if not blocks or len(blocks[-1][0]) + 2 + wide > width:
            blocks.append([name.ljust(heads) for name in rows])
        blocks[-1] = [f"{line}  {text.rjust(wide)}" for line, text in zip(blocks[-1], texts, strict=True)]
    return ["\n".join(block) for block in blocks]
