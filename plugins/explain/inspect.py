"""The inputs of a model: `python -m harness inspect task=mrpc item=3 [split=validation] [to=FOLDER] [RUN attention=true]`.

Prints pieces, segments, positions and labels of one item of a task as a table, and draws them; with weights, the attention too.
`text="The bank was robbed" RUN` shows a text of the user in place of an item, and what the run predicts of it; word= adds the
attention of one of its words in numbers, and with texts= compares its vectors in several texts. An item or text is one
sequence, of kind `spans` one a window. B texts, T pieces, K masked pieces, V pieces of the vocabulary.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from textwrap import wrap

import matplotlib as mpl
import numpy as np
import torch
from tokenizers import Tokenizer

from harness import tasks
from harness.checkpoints import find_run, finetuned, native, start
from harness.commands.predict import SEPARATOR
from harness.commands.vectors import Source, source_of
from harness.config.choices import TaskKind, TrainedOn
from harness.config.resolve import MEASURED_LENGTH, has_task, resolve
from harness.config.schema import HardwareConfig, RunConfig, TaskConfig
from harness.corpus.prepare import Lines
from harness.data.tokenizer import build, pad_token_id, special_ids
from harness.errors import InputError, on_one_line
from harness.grammar import group_of
from harness.hardware.device import Machine
from harness.measure import subject
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, Position
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead, make_mask_decoder
from harness.models.losses import IGNORED
from harness.paths import file_name
from harness.plugins.explain import inspect_pictures as pictures
from harness.plugins.explain import inspect_word
from harness.plugins.explain.inspect_pictures import AttentionMap, InputSequence, maps_of
from harness.plugins.explain.options import Inspect
from harness.plugins.explain.pictures import STYLE, name_of_text, save
from harness.tasks.base import Examples, Split
from harness.tasks.batches import collate
from harness.tasks.prepared import vocabulary_texts
from harness.tasks.rows import HIDDEN, load_table, with_labels
from harness.tasks.tagging import running_text
from harness.training.evaluation import predict
from harness.training.predictor import softmax

BEST = 5
"""Pieces that are predicted in the place of a masked one."""

HEAD = "masked_head."

LISTED = 5
"""Ids of items that an error lists."""

NOT_ADDED = {
    Position.rotary: "queries and keys are turned by their place (rotary)",
    Position.alibi: "each head lowers its scores by distance (alibi)",
    Position.bucketed: "a learned bias on the scores for each bucket of distance (bucketed)",
    Position.disentangled: "vectors of the distance between pieces in the scores (disentangled)",
    Position.relative: "vectors of the distance between pieces in the scores (relative)",
}
"""What attention has of places where nothing is added to the embeddings."""


def main(options: Inspect, configs: list[RunConfig]) -> int:
    """Prints the tables and predictions, and writes the pictures; 0. InputError for what cannot be read or written."""
    if len(configs) > 1:
        raise InputError(f"the command line names {len(configs)} runs: expected one task and one model")
    if not has_task(configs[0]):
        raise InputError("task=none has no items: expected the task whose item is shown, such as task=mrpc")
    subject.refuse_scored(configs[0].task)
    config = with_labels(resolve(configs[0], start.read(configs[0])))
    if options.text is None and options.texts is None:
        source, config = with_weights(options, config) if options.source else (None, config)
        sequences, predicted = sequences_of(config, options.split, options.item, source and source.tokenizer), []
    else:
        config = replace(config, corpus=configs[0].corpus)  # without a pretraining no corpus is kept
        weights = named(options, config)
        source, config = with_weights(options, config) if options.source else random_source(options, config)
        if options.texts is not None:
            print(alike_in_texts(options, config, source, weights))
            return 0
        sequences = text_sequences(options, config, source, weights)
        predicted = predictions(options, config, source, weights, sequences)
        if options.word is not None:
            ids = sequences[0].batch.input_ids[0].tolist() if len(sequences) == 1 else []
            pair, maps = options.text.split(SEPARATOR), _maps(options, sequences[0], source)
            predicted += inspect_word.attention_of(options.word, options.layer, pair, source, ids, maps)
    with mpl.rc_context(STYLE):
        paths = [path for sequence in sequences for path in _drawn(options, sequence, source)]
    print("\n\n".join([*map(as_table, sequences), *predicted, "\n".join(paths)]))
    return 0


def _drawn(options: Inspect, sequence: InputSequence, source: Source | None) -> list[str]:
    """The pictures of one sequence, written."""
    title = sequence.title.replace(", ", "-")
    name = file_name(title) if options.text is None else name_of_text(title, options.text)
    endings = ("svg", "png") if options.png else ("svg",)
    figures = {name: pictures.draw(sequence)}
    if options.attention:
        maps = _maps(options, sequence, source)
        figures[f"{name}-attention"] = pictures.draw_attention(maps, sequence.rows["piece"], sequence.title)
    return [save(figure, options.to, name, endings) for name, figure in figures.items()]


def _maps(options: Inspect, sequence: InputSequence, source: Source) -> list[AttentionMap]:
    maps = maps_of(source.encoder, sequence.batch)
    if not maps:
        weights = "the model" if options.source is None else "{}={!r}".format(*options.source)
        key = "word=" if options.word else "attention=true"
        raise InputError(f"{weights} has no attention: leave {key} out")
    return maps


# Weights


def with_weights(options: Inspect, config: RunConfig) -> tuple[Source, RunConfig]:
    """The weights of the command line, and the config with their model's shape."""
    source = source_of(options, config)
    return source, replace(config, model=replace(config.model, **asdict(source.encoder.config)))


def random_source(options: Inspect, config: RunConfig) -> tuple[Source, RunConfig]:
    """The encoder of the config with values from its seed, and a tokenizer trained on the text that is named.

    InputError where the command line names neither a text nor a tokenizer.
    """
    tokenizer, groups = config.tokenizer, {group_of(choice) for choice in options.choices}
    if "corpus" in groups and not (tokenizer.file or tokenizer.vocab_file):
        reader = build(tokenizer, Lines(config, "train"))
    elif "task" in groups or tokenizer.file or tokenizer.vocab_file:
        reader = trained_tokenizer(replace(config, tokenizer=replace(tokenizer, trained_on=TrainedOn.task)), None)
    else:
        raise InputError(
            "text= needs a tokenizer: name weights (RUN, checkpoint=), the text that one is trained on (task=, corpus=), "
            "or a file (tokenizer.vocab_file=, tokenizer.file=)"
        )
    shape = replace(config.model, vocab_size=reader.get_vocab_size(), pad_token_id=pad_token_id(reader) or 0)
    config = replace(config, model=shape)
    return Source(subject.classifier(config, config.seed).encoder.eval(), reader, shape.longest_text), config


@dataclass(frozen=True)
class Named:
    """The weights that the command line names: their folder where they are ours, and the task that they are fine-tuned on."""

    title: str
    folder: Path | None = None
    task: TaskConfig | None = None


def named(options: Inspect, config: RunConfig) -> Named:
    """What is known of the weights before they are read; InputError for a run that does not exist."""
    if options.source is None:
        return Named(f"{config.label} at scale {config.scale_name}, randomly initialised (seed {config.seed})")
    key, name = options.source
    if key == "checkpoint" and not (Path(name) / native.SHAPE).is_file():
        return Named(f"checkpoint {name}")
    folder = find_run.weights_folder(name, key, config.output, config.tracking.uri)
    task = None
    if finetuned.is_finetuned(folder):  # the overlap of windows is not kept with weights, here it is at most a quarter
        task = finetuned.read_task(folder).config()
        task = replace(task, stride=min(task.stride, task.max_length // 4))
    after = f", fine-tuned on {task.name}" if task else ""
    return Named(f"{'run' if key == 'RUN' else key} {Path(name).name}{after}", folder, task)


# A text of the user


def text_sequences(options: Inspect, config: RunConfig, source: Source, weights: Named) -> list[InputSequence]:
    """The text as the model reads it, a window each for tasks of kind `spans`; InputError for a pair that does not fit."""
    texts = options.text.split(SEPARATOR)
    longest = min(config.measure.length or MEASURED_LENGTH, source.longest)
    task = weights.task or TaskConfig(name="text", fields=["text", "second text"][: len(texts)], max_length=longest)
    example = _example(task, texts)
    config = replace(config, task=task)
    encoded = tasks.kind_of(task).encode(task, source.tokenizer, example)
    title, cut = f"text, {weights.title}", _cut(task, source.tokenizer, example)
    return [sequence_of(config, source.tokenizer, example, encoded, window, title, cut) for window in range(len(encoded))]


def _example(task: TaskConfig, texts: list[str]) -> Examples:
    """The text without a label."""
    if any(not text.strip() for text in texts):
        raise InputError(f"text= is empty: expected a text, or two with {SEPARATOR!r} between them")
    if task.kind is TaskKind.tokens:
        words = " ".join(texts).split()
        return Examples([words], [[0] * len(words)], [0], "text")
    if len(texts) != len(task.fields):
        raise InputError(
            f"text= has {len(texts)} texts, task {task.name!r} reads {len(task.fields)} ({', '.join(task.fields)}): "
            f"separate the texts of a pair by {SEPARATOR!r}"
        )
    return Examples([texts], [[] if task.kind in (TaskKind.spans, TaskKind.multilabel) else HIDDEN], [0], "text")


def _cut(task: TaskConfig, tokenizer: Tokenizer, example: Examples) -> list[str]:
    """A note where the text is longer than the model reads."""
    if task.kind is TaskKind.spans:  # several windows
        return []
    tokenizer.no_truncation()
    (texts,) = example.texts
    texts = [running_text(texts)] if task.kind is TaskKind.tokens else texts
    pieces = len(tokenizer.encode(*texts).ids)
    return [f"cut: the first {task.max_length} of {pieces} pieces"] if pieces > task.max_length else []


def predictions(
    options: Inspect, config: RunConfig, source: Source, weights: Named, sequences: list[InputSequence]
) -> list[str]:
    """What a fine-tuned run predicts, or the pieces of a masked-LM head in the place of masked ones; a line each."""
    if weights.task is not None:
        return [f"prediction: {on_one_line(_of_task(options, weights, config.hardware))}"]
    mask = special_ids(source.tokenizer)["mask"]
    places = [place for place, number in enumerate(sequences[0].batch.input_ids[0].tolist()) if number == mask]
    if not places or weights.folder is None:
        return []
    head = masked_head(weights.folder, source.encoder)
    if head is None:
        return ["prediction: none, these weights have no masked-LM head"]
    return [f"prediction at {place}: {on_one_line(text)}" for place, text in _masked(source, head, sequences[0].batch, places)]


def _of_task(options: Inspect, weights: Named, hardware: HardwareConfig) -> str:
    """What the fine-tuned model predicts of the text."""
    model, _, file = finetuned.load_finetuned(weights.folder)
    task, tokenizer = weights.task, finetuned.tokenizer_of(file, model.encoder.config)
    example, kind, machine = _example(task, options.text.split(SEPARATOR)), tasks.kind_of(task), Machine(hardware)
    split = kind.encode(task, tokenizer, example)
    sides = [split] if split.second is None else [split, split.second]
    logits, *others = (predict(model.to(machine.device), side, 1, pad_token_id(tokenizer) or 0, machine) for side in sides)
    if others:
        return f"cosine {kind.compared(logits, *others).item():.3f}"
    if task.kind is TaskKind.regression:
        return f"{logits[0, 0]:.3f}"
    if task.kind is TaskKind.classification:
        shares = zip(task.labels, softmax(logits)[0], strict=True)
        return ", ".join(f"{label} {share:.3f}" for label, share in sorted(shares, key=lambda pair: -pair[1]))
    (predicted,) = kind.predictions(task, split, logits, 0).predicted
    if task.kind is TaskKind.tokens:
        return " ".join(f"{word}/{tag}" for word, tag in zip(example.texts[0], predicted, strict=True))
    if task.kind is TaskKind.multilabel:
        return ", ".join(label for label, on in zip(task.labels, predicted, strict=True) if on) or "no label"
    return repr(predicted) if predicted else "no answer"


def masked_head(folder: Path, encoder: Encoder) -> MaskedLMHead | None:
    """The head of a pretraining of ours on this encoder; None where it has none."""
    state, shape = native.read(folder)
    mine = {name.removeprefix(HEAD): tensor for name, tensor in state.items() if name.startswith(HEAD)}
    if not mine:
        return None
    decoder = make_mask_decoder(shape) if any(name.startswith("decoder.") for name in mine) else None
    head = MaskedLMHead(shape, encoder.embeddings.token_embedding, decoder)
    head.load_state_dict(mine, strict=False)
    return head.eval()


def _masked(source: Source, head: MaskedLMHead, batch: Batch, places: list[int]) -> list[tuple[int, str]]:
    """Place of a masked piece, and the pieces that the head holds most likely there."""
    with torch.inference_mode():
        _, read = head.read(source.encoder, batch)
        shares = head(read[0, places]).float().softmax(dim=-1)  # (K, V)
    lines = []
    for place, row in zip(places, shares, strict=True):
        best = row.topk(min(BEST, len(row)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        lines.append((place, ", ".join(f"{source.tokenizer.id_to_token(number)} {share:.3f}" for number, share in pairs)))
    return lines


def alike_in_texts(options: Inspect, config: RunConfig, source: Source, weights: Named) -> str:
    """The tables of the vectors of the word: of weights, after those of the same model before any training."""
    untrained = replace(config, model=replace(config.model, init_from=None))
    before = f"randomly initialised (seed {config.seed})"
    encoders = {before: subject.classifier(untrained, config.seed).encoder.eval()}
    if options.source:
        encoders[weights.title] = source.encoder
    longest = min(config.measure.length or MEASURED_LENGTH, config.model.longest_text)
    return inspect_word.alike(options.word, options.texts, source.tokenizer, encoders, longest)


# An item


def sequences_of(config: RunConfig, split: str, item: str, tokenizer: Tokenizer | None) -> list[InputSequence]:
    """The item's sequences, by the tokenizer of the config unless one is passed; InputError for an unknown item."""
    kind = tasks.kind_of(config.task)
    tasks.refuse_impossible(config.task)
    examples = kind.examples(config.task, load_table(config, split))
    place = _place(examples, item, f"task {config.task.name!r}, {split}")
    example = type(examples)([examples.texts[place]], [examples.labels[place]], [examples.items[place]], examples.where)
    tokenizer = tokenizer or trained_tokenizer(config, examples if split == "train" else None)
    if config.task.max_length > config.model.longest_text:
        raise InputError(
            f"task.max_length={config.task.max_length} must be at most the {config.model.longest_text} that the model takes"
        )
    encoded = kind.encode(config.task, tokenizer, example)
    title = f"{config.task.name}, {split}, item {item}"
    return [sequence_of(config, tokenizer, example, encoded, window, title) for window in range(len(encoded))]


def _place(examples: Examples, item: str, where: str) -> int:
    names = list(map(str, examples.items))
    if item in names:
        return names.index(item)
    first = ", ".join([*names[:LISTED], *(["..."] if len(names) > LISTED else [])])
    raise InputError(f"item={item!r} is not among the {len(names):,} of {where}; the first ids are {first}")


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
    return build(config.tokenizer, vocabulary_texts(config, train))


def sequence_of(
    config: RunConfig,
    tokenizer: Tokenizer,
    example: Examples,
    split: Split,
    window: int,
    title: str,
    notes: list[str] | None = None,
) -> InputSequence:
    """One encoded window with the labels of its row, or with notes in their place."""
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
    if notes is None:
        labels, of_labels = _labels(config.task, split, window)
        rows |= {"label": labels} if labels else {}
        notes = [f"label: {of_labels}"]
    notes = [*notes, of_segments, of_places, f"attention: {attention_note(config.model)}", _summed(config.model)]
    names = [config.task.fields[0]] if config.task.kind is TaskKind.tokens else config.task.fields
    texts = [" ".join(example.texts[0])] if config.task.kind is TaskKind.tokens else example.texts[0]
    which = f", window {window + 1} of {len(split)}" if len(split) > 1 else ""
    lines = tuple(note for note in notes if note)
    return InputSequence(f"{title}{which}", tuple(zip(names, texts, strict=True)), rows, tuple(added), lines, batch)


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
    """One text a piece, none where nothing of its place is added, and a note."""
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
    if model.segment_length is not None:
        before = f", and of the {model.memory_length} before it what the layer below says" if model.memory_length else ""
        return f"each piece sees itself and those before it in its segment of {model.segment_length}{before}"
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
        names = {IGNORED: pictures.NOTHING, HIDDEN: "hidden"} | dict(enumerate(task.labels))
        return tuple(names[number] for number in numbers), "a tag at the first piece of each word"
    label = split.labels[window]
    if task.kind is TaskKind.spans:
        return _span(split, window, *label.tolist())
    if task.kind is TaskKind.regression:
        return (), f"{label:g}"
    if task.kind is TaskKind.multilabel:
        return (), ", ".join(np.array(task.labels)[label > 0]) or "none"
    return (), "hidden" if label == HIDDEN else f"{label} ({task.labels[label]})"


def _span(split: Split, window: int, first: int, last: int) -> tuple[tuple[str, ...], str]:
    answers = split.texts["answers"][0]
    marks = [pictures.NOTHING] * split.lengths[window]
    marks[first], marks[last] = "start", "end"
    if first == last:
        marks[first] = "start, end"
    if first == split.numbers["cls"][window]:
        reason = f"the answer {answers[0]!r} is not whole in this window" if answers else "there is no answer"
        return tuple(marks), f"{reason}: start and end are at the first piece"
    return tuple(marks), f"the answer is {answers[0]!r}"


def as_table(sequence: InputSequence, width: int | None = None) -> str:
    """A sequence as text; a row that is longer than a line continues below."""
    width = width or shutil.get_terminal_size((120, 0)).columns
    head = [sequence.title, *(f"{name}: {text}" for name, text in sequence.texts), *sequence.notes]
    lines = [line for text in head for line in wrap(text, width, subsequent_indent="    ")]
    return "\n\n".join(["\n".join(lines), *_blocks(sequence.rows, width)])


def _blocks(rows: dict[str, Sequence[str]], width: int) -> list[str]:
    heads = max(map(len, rows))
    blocks: list[list[str]] = []
    for texts in zip(*rows.values(), strict=True):
        wide = max(map(len, texts))
        if not blocks or len(blocks[-1][0]) + 2 + wide > width:
            blocks.append([name.ljust(heads) for name in rows])
        blocks[-1] = [f"{line}  {text.rjust(wide)}" for line, text in zip(blocks[-1], texts, strict=True)]
    return ["\n".join(block) for block in blocks]
