"""The inputs of a model: `python -m harness inspect task=mrpc item=3 [split=validation] [to=FOLDER] [RUN attention=true]`.

Prints pieces, segments, positions and labels of one item of a task as a table, and draws them; with weights, the attention too.
`text="The bank was robbed" RUN` shows a text of the user in place of an item, and what the run predicts of it; word= adds the
attention of one of its words in numbers, and with texts= compares its vectors in several texts. An item or text is one
sequence, of kind `spans` one a window. B texts, T pieces, K masked pieces, V pieces of the vocabulary.
"""

import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from tokenizers import Encoding, Tokenizer

from harness import tasks
from harness.checkpoints import find_run, finetuned, native, start, teacher
from harness.config.choices import UNTRAINED, TaskKind, TrainedOn
from harness.config.conditions import has_task
from harness.config.resolve import MEASURED_LENGTH, resolve
from harness.config.schema import HardwareConfig, RunConfig, TaskConfig
from harness.corpus.prepare import Lines
from harness.data.tokenizer import build, pad_token_id, special_ids
from harness.errors import InputError, on_one_line, present, some_of
from harness.grammar import group_of
from harness.hardware.device import Machine
from harness.measure import subject
from harness.models.batch import Batch
from harness.models.config import Position
from harness.models.losses import IGNORED
from harness.paths import file_name
from harness.plugins.explain import attention
from harness.plugins.explain.attention import AttentionMap, maps_of
from harness.plugins.explain.options import Inspect
from harness.plugins.explain.parts import Part, embedding_parts, steps
from harness.plugins.explain.pictures import CENTRED, STYLE, fitted, rounded, save, sheet
from harness.plugins.shared.predictor import Predictor
from harness.plugins.shared.weights import SEPARATOR, Source, source_of, untrained
from harness.records import shipped
from harness.tasks.base import Examples, Split
from harness.tasks.batches import collate
from harness.tasks.prepared import vocabulary_texts
from harness.tasks.rows import HIDDEN, load_table, with_labels
from harness.tasks.tagging import running_text
from harness.terminal import table, wrapped
from harness.training.evaluation import answers

IN_NAME = 24
"""Characters of a text that the names of its pictures begin with."""

BEST = 5
"""Pieces that are predicted in the place of a masked one."""

LISTED = 5
"""Ids of items that an error lists."""

NOTHING = "-"
"""Where a piece has no label."""

ROWS = shipped(__file__, dict[str, tuple[str, str, str]])
"""Rows of the picture from the top down: name, colour, and what a box begins with, as in figure 2 of arXiv:1810.04805."""

ACROSS, STEP, ROW, LEFT = 24, 0.72, 0.42, 1.85
"""Pieces side by side; inches of a box, of a row, and of the names of the rows."""


@dataclass(frozen=True)
class InputSequence:
    """One sequence as the model reads it; every row has one text a piece."""

    title: str
    texts: tuple[tuple[str, str], ...]  # column of the data set and its text
    rows: dict[str, tuple[str, ...]]  # piece, id, segment, position, mask, label: those that there are
    added: tuple[str, ...]  # rows whose vectors are summed: id, and of segment and position those that the model adds
    notes: tuple[str, ...]  # a line each
    batch: Batch


def main(options: Inspect, configs: list[RunConfig]) -> int:
    """Prints the tables and predictions, and writes the pictures; 0. InputError for what cannot be read or written."""
    if len(configs) > 1:
        raise InputError(f"the command line names {len(configs)} runs: expected one task and one model")
    if not has_task(configs[0]):
        raise InputError("task=none has no items: expected the task whose item is shown, such as task=mrpc")
    subject.refuse_scored(configs[0].task)
    config = with_labels(resolve(configs[0], start.read(configs[0])))
    weights, predicted, source = named(options, config), [], None
    if options.source:
        source = source_of(options, config)
    elif options.item is None:
        source = random_source(options, replace(config, corpus=configs[0].corpus))  # of no pretraining it is not kept
    if source:
        config = replace(config, model=replace(config.model, **asdict(source.encoder.config)))
    if options.texts is not None:
        print(alike_in_texts(options, config, present(source), weights))
        return 0
    if options.item is not None:
        sequences, ending = sequences_of(config, options.split, options.item, source.tokenizer if source else None), ""
    else:
        text = present(options.text)
        texts, source = text.split(SEPARATOR), present(source)
        sequences = text_sequences(texts, config, source, weights)
        predicted = predictions(texts, config.hardware, source, weights, sequences[0].batch)
        ending = f"-{text[:IN_NAME]}-{zlib.crc32(text.encode()):08x}"  # how the text begins, and a checksum of the whole
        if options.word is not None:
            row = encoded(source.tokenizer, texts)
            if [row.ids] != sequences[0].batch.input_ids.tolist() or len(sequences) > 1:
                raise InputError("word= needs a text that is one sequence of pieces: shorten text=, or leave word= out")
            predicted += attention.of_word(options.word, options.layer, texts, row, _maps(options, sequences[0], source))
    figures = {}
    with mpl.rc_context(fname=STYLE):
        for sequence in sequences:
            name = file_name(sequence.title.replace(", ", "-") + ending)
            figures[name] = draw(sequence)
            if options.attention:
                maps = _maps(options, sequence, present(source))
                figures[f"{name}-attention"] = attention.draw(maps, sequence.rows["piece"], sequence.title)
        paths = [
            save(figure, options.to, name, ("svg", "png") if options.png else ("svg",)) for name, figure in figures.items()
        ]
    print("\n\n".join([*map(as_table, sequences), *predicted, "\n".join(paths)]))
    return 0


def _maps(options: Inspect, sequence: InputSequence, source: Source) -> list[AttentionMap]:
    if maps := maps_of(source.encoder, sequence.batch):
        return maps
    weights = "the model" if options.source is None else "{}={!r}".format(*options.source)
    raise InputError(f"{weights} has no attention: leave {'word=' if options.word else 'attention=true'} out")


# Weights


def random_source(options: Inspect, config: RunConfig) -> Source:
    """The encoder of the config with values from its seed, and a tokenizer trained on the text that is named.

    InputError where the command line names neither a text nor a tokenizer.
    """
    tokenizer, groups = config.tokenizer, {group_of(choice) for choice in options.choices}
    exists = tokenizer.file or tokenizer.vocab_file
    if "corpus" in groups and not exists:
        reader = build(tokenizer, Lines(config, "train"))
    elif "task" in groups or exists:
        reader = trained_tokenizer(replace(config, tokenizer=replace(tokenizer, trained_on=TrainedOn.task)))
    else:
        raise InputError(
            "text= needs a tokenizer: name weights (RUN, checkpoint=), the text that one is trained on (task=, corpus=), "
            "or a file (tokenizer.vocab_file=, tokenizer.file=)"
        )
    return untrained(config, reader)


def trained_tokenizer(config: RunConfig) -> Tokenizer:
    """As a run of the config has it."""
    if config.tokenizer.vocab_file or config.tokenizer.file:
        return build(config.tokenizer, ())
    if config.tokenizer.trained_on is TrainedOn.corpus:
        raise InputError(
            "the tokenizer is trained on the corpus: name its run by run=, or its tokenizer.json by tokenizer.file="
        )
    train = tasks.kind_of(config.task).examples(config.task, load_table(config, "train"))
    return build(config.tokenizer, vocabulary_texts(config, train))


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


def text_sequences(texts: list[str], config: RunConfig, source: Source, weights: Named) -> list[InputSequence]:
    """The text as the model reads it, a window each for tasks of kind `spans`; InputError for a pair that does not fit."""
    longest = min(config.measure.length or MEASURED_LENGTH, source.longest)
    task = weights.task or TaskConfig(name="text", fields=["text", "second text"][: len(texts)], max_length=longest)
    if any(not text.strip() for text in texts):
        raise InputError(f"text= is empty: expected a text, or two with {SEPARATOR!r} between them")
    if task.kind is not TaskKind.tokens and len(texts) != len(task.fields):
        raise InputError(
            f"text= has {len(texts)} texts, task {task.name!r} reads {len(task.fields)} ({', '.join(task.fields)}): "
            f"separate the texts of a pair by {SEPARATOR!r}"
        )
    example = unlabelled(task, texts)
    split = tasks.kind_of(task).encode(task, source.tokenizer, example)
    notes = []
    if task.kind is not TaskKind.spans:  # of which a long text has several windows
        source.tokenizer.no_truncation()
        (read,) = example.texts
        pieces = len(encoded(source.tokenizer, [running_text(read)] if task.kind is TaskKind.tokens else read).ids)
        notes = [f"cut: the first {task.max_length} of {pieces} pieces"] if pieces > task.max_length else []
    return sequences_from(replace(config, task=task), source.tokenizer, example, split, f"text, {weights.title}", notes)


def encoded(tokenizer: Tokenizer, texts: list[str]) -> Encoding:
    """One text or a pair, with special pieces."""
    return tokenizer.encode(texts[0], texts[1] if len(texts) > 1 else None)


def unlabelled(task: TaskConfig, texts: list[str]) -> Examples:
    """The row of these texts, without a label."""
    if task.kind is TaskKind.tokens:
        words = " ".join(texts).split()
        return Examples([words], [[0] * len(words)], [0], "text")
    return Examples([texts], [[] if task.kind in (TaskKind.spans, TaskKind.multilabel) else HIDDEN], [0], "text")


def predictions(texts: list[str], hardware: HardwareConfig, source: Source, weights: Named, batch: Batch) -> list[str]:
    """What a fine-tuned run predicts, or the pieces of a masked-LM head in the place of masked ones; a line each."""
    if weights.folder is None:
        return []
    if weights.task is not None:
        return [f"prediction: {on_one_line(of_task(weights.task, weights.folder, texts, hardware))}"]
    mask = special_ids(source.tokenizer)["mask"]
    places = [place for place, number in enumerate(batch.input_ids[0].tolist()) if number == mask]
    if not places:
        return []
    if (head := teacher.masked_head(native.read(weights.folder)[0], source.encoder, str(weights.folder))) is None:
        return ["prediction: none, these weights have no masked-LM head"]
    with torch.inference_mode():
        _, read = head.read(source.encoder, batch)
        best = head(read[0, places]).float().softmax(dim=-1).topk(BEST)  # (K, BEST) of (K, V)
    lines = []
    for place, numbers, shares in zip(places, best.indices.tolist(), best.values.tolist(), strict=True):
        pieces = [f"{source.tokenizer.id_to_token(number)} {share:.3f}" for number, share in zip(numbers, shares, strict=True)]
        lines.append(f"prediction at {place}: {on_one_line(', '.join(pieces))}")
    return lines


def of_task(task: TaskConfig, folder: Path, texts: list[str], hardware: HardwareConfig) -> str:
    """What the fine-tuned model in this folder predicts of the text."""
    kind, example = tasks.kind_of(task), unlabelled(task, texts)
    if task.kind not in (*UNTRAINED, TaskKind.spans):
        (row,) = Predictor(folder, hardware, 1).rows(example.texts, 0)
        if "probabilities" in row:
            shares = sorted(row["probabilities"].items(), key=lambda pair: -pair[1])
            return ", ".join(f"{label} {share:.3f}" for label, share in shares)
        if "words" in row:
            return " ".join(f"{word}/{tag}" for word, tag in zip(row["words"], row["prediction"], strict=True))
        return f"{row['prediction']:.3f}"
    model, _, file = finetuned.load_finetuned(folder)
    tokenizer, machine = finetuned.tokenizer_of(file, model.encoder.config), Machine(hardware)
    split = kind.encode(task, tokenizer, example)
    logits = answers(kind, model.to(machine.device), split, 1, pad_token_id(tokenizer) or 0, machine)
    if task.kind is not TaskKind.spans:
        return f"cosine {logits.item():.3f}"
    (answer,) = kind.predictions(task, split, logits, 0).predicted
    return repr(answer) if answer else "no answer"


def alike_in_texts(options: Inspect, config: RunConfig, source: Source, weights: Named) -> str:
    """The tables of the vectors of the word: of weights, after those of the same model before any training."""
    untrained = replace(config, model=replace(config.model, init_from=None))
    encoders = {f"randomly initialised (seed {config.seed})": subject.classifier(untrained, config.seed).encoder.eval()}
    if options.source:
        encoders[weights.title] = source.encoder
    longest = min(config.measure.length or MEASURED_LENGTH, config.model.longest_text)
    return attention.alike(present(options.word), present(options.texts), source.tokenizer, encoders, longest)


# Sequences


def sequences_of(config: RunConfig, split: str, item: str, tokenizer: Tokenizer | None) -> list[InputSequence]:
    """The item's sequences, by the tokenizer of the config unless one is passed; InputError for an unknown item."""
    task, kind = config.task, tasks.kind_of(config.task)
    tasks.refuse_impossible(task)
    examples = kind.examples(task, load_table(config, split))
    names = list(map(str, examples.items))
    if item not in names:
        raise InputError(f"item={item!r} is not an id of task {task.name!r}, {split}; choices: {some_of(names, LISTED)}")
    place = names.index(item)
    example = Examples([examples.texts[place]], [examples.labels[place]], [place], examples.where)
    if task.max_length > config.model.longest_text:
        raise InputError(
            f"task.max_length={task.max_length} must be at most the {config.model.longest_text} that the model takes"
        )
    tokenizer = tokenizer or trained_tokenizer(config)
    encoded = kind.encode(task, tokenizer, example)
    return sequences_from(config, tokenizer, example, encoded, f"{task.name}, {split}, item {item}")


def sequences_from(
    config: RunConfig, tokenizer: Tokenizer, example: Examples, split: Split, title: str, notes: list[str] | None = None
) -> list[InputSequence]:
    """Each encoded window with the labels of its row, or with notes in their place."""
    model, task = config.model, config.task
    parts = subject.shapes(model, task).encoder
    added_up = [part for part in embedding_parts(parts.embeddings) if part.detail]
    layers = steps(parts.layers) or [Part("Attention", "attention", "none")]
    of_model = [f"{part.title.lower()}: {part.detail}" for part in (*added_up, *layers)]
    (read,) = example.texts
    texts = tuple(zip(task.fields, [" ".join(read)] if task.kind is TaskKind.tokens else read, strict=False))
    sequences = []
    for window in range(len(split)):
        batch = collate(split, np.array([window]), pad_token_id(tokenizer) or 0)
        ids, segments = batch.input_ids[0].tolist(), present(batch.token_type_ids)[0].tolist()
        rows = {"piece": [tokenizer.id_to_token(number) for number in ids], "id": ids}
        added = ["id"]
        if model.type_vocab_size:
            rows["segment"] = [min(segment, model.type_vocab_size - 1) for segment in segments]
            added.append("segment")
        elif model.position is Position.relative:  # attention tells same from other segments
            rows["segment"] = segments
        if model.position in (Position.learned, Position.sinusoidal):
            first = model.position_offset if model.position is Position.learned else 0
            rows["position"] = [*range(first, first + len(ids))]
            added.append("position")
        rows["mask"] = [1] * len(ids)
        of_window = notes or []
        if notes is None:
            labels, note = _labels(task, split, window)
            rows |= {"label": labels} if labels else {}
            of_window = [f"label: {note}"]
        which = f", window {window + 1} of {len(split)}" if len(split) > 1 else ""
        of_pieces = {name: tuple(map(str, row)) for name, row in rows.items()}
        sequences.append(InputSequence(title + which, texts, of_pieces, tuple(added), (*of_window, *of_model), batch))
    return sequences


def _labels(task: TaskConfig, split: Split, window: int) -> tuple[list[str], str]:
    """The label of each piece, none where the text has one, and a note."""
    if task.kind is TaskKind.tokens:
        numbers = split.labels[split.starts[window] : split.starts[window + 1]].tolist()
        names = {IGNORED: NOTHING, HIDDEN: "hidden"} | dict(enumerate(task.labels))
        return [names[number] for number in numbers], "a tag at the first piece of each word"
    label = split.labels[window]
    if task.kind is TaskKind.regression:
        return [], f"{label:g}"
    if task.kind is TaskKind.multilabel:
        return [], ", ".join(np.array(task.labels)[label > 0]) or "none"
    if task.kind is not TaskKind.spans:
        return [], "hidden" if label == HIDDEN else f"{label} ({task.labels[label]})"
    first, last = label.tolist()
    marks = [NOTHING] * split.lengths[window]
    marks[last] = "end"
    marks[first] = "start, end" if first == last else "start"
    answers = split.texts["answers"][0]
    if first != split.numbers["cls"][window]:
        return marks, f"the answer is {answers[0]!r}"
    reason = f"the answer {answers[0]!r} is cut by this window" if answers else "there is no answer"
    return marks, f"{reason}: start and end are at the first piece"


def as_table(sequence: InputSequence) -> str:
    """A sequence as text; a row that is longer than a line continues below."""
    lines = [sequence.title, *(f"{name}: {text}" for name, text in sequence.texts), *sequence.notes]
    (name, pieces), *others = sequence.rows.items()
    return "\n\n".join(["\n".join(map(wrapped, lines)), table((name, *pieces), [(name, *row) for name, row in others])])


def draw(sequence: InputSequence) -> Figure:
    """Rows of up to ACROSS pieces below each other: boxes of vectors that are summed."""
    pieces = sequence.rows["piece"]
    shown = {
        name: sequence.rows[name] for name in ROWS if name in ("piece", "label", *sequence.added) and name in sequence.rows
    }
    shown |= {"id": pieces}
    width, height = LEFT + STEP * max(8, min(ACROSS, len(pieces))) + 0.3, ROW * (len(shown) + 1) * -(-len(pieces) // ACROSS)
    figure, axes = sheet(width, height + 0.5)
    title, size = fitted(sequence.title, width - 0.6, 13)
    axes.text(0.3, height + 0.2, title, fontsize=size, fontweight="bold", va="center")
    y = height
    for first in range(0, len(pieces), ACROSS):
        for name, (title, colour, before) in ROWS.items():
            if name not in shown:
                continue
            y -= ROW
            axes.text(0.3, y + 0.15, title, va="center", color="#444444")
            for place, text in enumerate(shown[name][first : first + ACROSS]):
                x = LEFT + STEP * place
                rounded(axes, x, y, STEP - 0.06, 0.3, facecolor=colour)
                label, size = fitted(before + text, STEP - 0.14, 8.5)
                axes.text(x + STEP / 2 - 0.03, y + 0.15, label, fontsize=size, **CENTRED)
        y -= ROW
    return figure
