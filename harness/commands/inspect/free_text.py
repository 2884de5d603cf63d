"""A text of the user as the input of a model, of a run or randomly initialised, and what the run predicts of it."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from harness import tasks
from harness.checkpoints import find_run, finetuned, native
from harness.commands.features.vectors import Source
from harness.commands.inspect.request import SEPARATOR, Request
from harness.commands.inspect.sequences import InputSequence, sequence_of, trained_tokenizer
from harness.config.choices import TaskKind, TrainedOn
from harness.config.resolve import MEASURED_LENGTH
from harness.config.schema import HardwareConfig, RunConfig
from harness.config.texts import TaskConfig
from harness.corpus.prepare import Lines
from harness.data.tokenizer import build, pad_token_id, special_ids
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.measure import subject
from harness.tasks.base import Examples
from harness.tasks.rows import HIDDEN
from harness.training.evaluation import predict
from harness.training.predictor import classified, softmax
from models.batch import Batch
from models.encoder import Encoder
from models.heads import MaskedLMHead
from models.mask_decoder import make_mask_decoder

BEST = 5
"""Pieces that are predicted in the place of a masked one."""

HEAD = "masked_head."


@dataclass(frozen=True)
class Named:
    """The weights that the command line names: their folder where they are ours, and the task that they are fine-tuned on."""

    title: str
    folder: Path | None = None
    task: TaskConfig | None = None


def named(request: Request, config: RunConfig) -> Named:
    """What is known of the weights before they are read; InputError for a run that does not exist."""
    if request.source is None:
        return Named(f"{config.label} at scale {config.scale_name}, randomly initialised (seed {config.seed})")
    key, name = request.source
    if key == "checkpoint" and not (Path(name) / native.SHAPE).is_file():
        return Named(f"checkpoint {name}")
    folder = find_run.weights_folder(name, key, request.runs, config.tracking.uri)
    task = _task_of(folder) if finetuned.is_finetuned(folder) else None
    after = f", fine-tuned on {task.name}" if task else ""
    return Named(f"{key} {Path(name).name}{after}", folder, task)


def _task_of(folder: Path) -> TaskConfig:
    """Of a fine-tuning; the overlap of windows is not kept with its weights, here it is at most a quarter of them."""
    task = finetuned.read_task(folder).config()
    return replace(task, stride=min(task.stride, task.max_length // 4))


def random_source(config: RunConfig, has_task: bool, has_corpus: bool) -> tuple[Source, RunConfig]:
    """The encoder of the config with values from its seed, and a tokenizer trained on the text that is named.

    InputError where the command line names neither a text nor a tokenizer.
    """
    tokenizer = config.tokenizer
    if tokenizer.file or tokenizer.vocab_file:
        reader = build(tokenizer, ())
    elif has_corpus:
        reader = build(tokenizer, Lines(config, "train"))
    elif has_task:
        reader = trained_tokenizer(replace(config, tokenizer=replace(tokenizer, trained_on=TrainedOn.task)), None)
    else:
        raise InputError(
            "text= needs a tokenizer: name weights (run=, checkpoint=), the text that one is trained on (task=, corpus=), "
            "or a file (tokenizer.vocab_file=, tokenizer.file=)"
        )
    shape = replace(config.model, vocab_size=reader.get_vocab_size(), pad_token_id=pad_token_id(reader) or 0)
    config = replace(config, model=shape)
    return Source(subject.classifier(config, config.seed).encoder.eval(), reader), config


def sequences(request: Request, config: RunConfig, source: Source, weights: Named) -> list[InputSequence]:
    """The text as the model reads it, a window each for tasks of kind `spans`; InputError for a pair that does not fit."""
    texts = request.text.split(SEPARATOR)
    longest = min(config.measure.length or MEASURED_LENGTH, config.model.longest_text)
    task = weights.task or TaskConfig(name="text", fields=["text", "second text"][: len(texts)], max_length=longest)
    example = _example(task, texts)
    config = replace(config, task=task)
    encoded = tasks.kind_of(task).encode(task, source.tokenizer, example)
    found = [
        sequence_of(config, source.tokenizer, example, encoded, window, f"text, {weights.title}")
        for window in range(len(encoded))
    ]
    cut = _cut(task, source.tokenizer, example)
    return [_without_label(one, cut) for one in found]


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
    return Examples([texts], [[] if task.kind is TaskKind.spans else HIDDEN], [0], "text")


def _without_label(sequence: InputSequence, first: list[str]) -> InputSequence:
    """A text of the user has none; `first` are notes that come before the others."""
    rows = {name: row for name, row in sequence.rows.items() if name != "label"}
    return replace(sequence, rows=rows, notes=(*first, *(note for note in sequence.notes if not note.startswith("label: "))))


def _cut(task: TaskConfig, tokenizer: Tokenizer, example: Examples) -> list[str]:
    """A note where the text is longer than the model reads."""
    if task.kind is TaskKind.spans:  # several windows
        return []
    tokenizer.no_truncation()
    (texts,) = example.texts
    words = task.kind is TaskKind.tokens
    pieces = len((tokenizer.encode(texts, is_pretokenized=True) if words else tokenizer.encode(*texts)).ids)
    return [f"cut: the first {task.max_length} of {pieces} pieces"] if pieces > task.max_length else []


# Predictions


def predictions(request: Request, config: RunConfig, source: Source, weights: Named, shown: list[InputSequence]) -> list[str]:
    """What a fine-tuned run predicts, or the pieces of a masked-LM head in the place of masked ones; a line each."""
    if weights.task is not None:
        return _of_task(request, weights, config.hardware)
    mask = special_ids(source.tokenizer)["mask"]
    places = [place for place, number in enumerate(shown[0].batch.input_ids[0].tolist()) if number == mask]
    if not places or weights.folder is None:
        return []
    head = masked_head(weights.folder, source.encoder)
    if head is None:
        return ["prediction: none, these weights have no masked-LM head"]
    return [f"prediction at {place}: {text}" for place, text in _masked(source, head, shown[0].batch, places)]


def _of_task(request: Request, weights: Named, hardware: HardwareConfig) -> list[str]:
    model, _, file = finetuned.load_finetuned(weights.folder)
    task, tokenizer = weights.task, Tokenizer.from_file(str(file))
    example, kind, machine = _example(task, request.text.split(SEPARATOR)), tasks.kind_of(task), Machine(hardware)
    split = kind.encode(task, tokenizer, example)
    logits = predict(model.to(machine.device), split, 1, pad_token_id(tokenizer) or 0, machine)
    if task.kind is TaskKind.regression:
        return [f"prediction: {logits[0, 0]:.3f}"]
    if task.kind is TaskKind.classification:
        shares = classified(0, task.labels, softmax(logits)[0])["probabilities"]
        ordered = sorted(shares.items(), key=lambda pair: -pair[1])
        return [f"prediction: {', '.join(f'{label} {share:.3f}' for label, share in ordered)}"]
    (predicted,) = kind.predictions(task, split, logits, 0).predicted
    if task.kind is TaskKind.tokens:
        return [f"prediction: {' '.join(f'{word}/{tag}' for word, tag in zip(example.texts[0], predicted, strict=True))}"]
    return [f"prediction: {predicted!r}" if predicted else "prediction: no answer"]


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
