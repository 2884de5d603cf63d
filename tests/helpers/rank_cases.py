"""Trainings that tests run in one process and in several: each rank executes the same function, forked from one process."""

import contextlib
import os
import uuid
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import distributed, multiprocessing

from harness.config.choices import CorpusSource, TaskKind
from harness.config.schema import (
    CorpusConfig,
    FinetuneConfig,
    HardwareConfig,
    ModelConfig,
    PretrainConfig,
    RunConfig,
    TaskConfig,
    TokenizerConfig,
)
from harness.corpus import sequences
from harness.hardware.device import Machine
from harness.measure import flops
from harness.measure.memory import Baseline
from harness.models.config import EncoderConfig
from harness.models.heads import Classifier, build_classifier
from harness.models.losses import IGNORED
from harness.models.objectives.base import Objective
from harness.models.objectives.config import ObjectiveName
from harness.tasks import kind_of, num_outputs
from harness.tasks.base import Split
from harness.tasks.prepared import Prepared
from harness.tracking import run_log
from harness.tracking.run_log import RunLog
from harness.training import resume
from harness.training.distributed import ALONE, LONGEST_WAIT, Ranks
from harness.training.finetune import finetune
from harness.training.loop import Position
from harness.training.pretrain import pretrain

VOCABULARY, LONGEST = 60, 12
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a warning at every model whose parameters are all trained
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 32, "max_position_embeddings": LONGEST, "hidden_dropout_prob": 0.0}
SIZES |= {"attention_probs_dropout_prob": 0.0}
SHAPE = EncoderConfig(**SIZES)

Case = Callable[[Ranks, Path], None]
"""What each rank executes; the folder is that of the run."""


def run(case: Case, count: int, folder: Path, sharded: bool = False) -> Path:
    """Executes the case in so many processes of one run; the folder of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rank_cases", "torch._dynamo", "torch.distributed.fsdp"])
    store = folder / f"store-{uuid.uuid4().hex}"  # in what an earlier run has left there, ranks would wait for its ranks
    multiprocessing.start_processes(_rank, (case, count, folder, sharded, store), nprocs=count, start_method="forkserver")
    return folder


def _rank(rank: int, case: Case, count: int, folder: Path, sharded: bool, path: Path) -> None:
    torch.set_num_threads(1)
    if count == 1:
        return case(ALONE, folder)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = distributed.FileStore(str(path), count)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=LONGEST_WAIT)
    try:
        case(Ranks(rank, count, sharded), folder)
    finally:
        distributed.destroy_process_group()


def curve(folder: Path, key: str) -> list[float]:
    """The points of a curve, step by step."""
    return [entry["value"] for entry in run_log.Reader(folder).new_entries() if entry.get("key") == key]


def rows(count: int, tagged: bool, seed: int = 0) -> Split:
    """Texts of 3 to 12 tokens. The class is whether an id is above the middle: the first one, or some tokens of each text."""
    stream = np.random.default_rng(seed)
    lengths = stream.integers(3, LONGEST + 1, count)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = stream.integers(1, VOCABULARY, starts[-1]).astype(np.int32)
    classes = ids.astype(np.int64) * 2 // VOCABULARY
    labels = np.where(stream.random(len(ids)) < 0.4, classes, IGNORED)
    labels[starts[:-1]] = classes[starts[:-1]]
    types, items = np.zeros(len(ids), dtype=np.uint8), range(count)
    return Split(ids, types, starts, labels if tagged else classes[starts[:-1]], items, labels_of_tokens=tagged)


def finetuned(
    ranks: Ranks, folder: Path, kind: TaskKind = TaskKind.tokens, shape: EncoderConfig = SHAPE, **keys: object
) -> Classifier:
    """Fine-tunes: batches of 8 rows, the last of an epoch of 2, in two pieces, clipped in most steps."""
    labels = ["O", "B-X"] if kind is TaskKind.tokens else ["low", "high"]
    task = TaskConfig(name="own", kind=kind, labels=labels, scores=["accuracy"], headline="accuracy")
    settings = {"batch_size": 8, "accumulation": 2, "learning_rate": 3e-3, "max_grad_norm": 0.1, "max_steps": 200, "epochs": 99}
    config = RunConfig(task=task, finetune=FinetuneConfig(**settings | keys))
    train, validation = (rows(count, kind is TaskKind.tokens, seed) for seed, count in enumerate((58, 40)))
    data = Prepared("key", VOCABULARY, pad_token_id=0, rows="rows", majority=0, train=train, validation=validation)
    model = build_classifier(shape, num_outputs(task), 0, kind_of(task).head())
    log = RunLog(folder, writes=ranks.first)
    finetune(config, model, data, Machine(HardwareConfig(threads=1)), log, flops.of_training(model), ranks=ranks)
    log.close()
    return model


def corpus_config(folder: Path) -> RunConfig:
    """A pretraining on files that are written to the folder, without dropout; batches of 8, three in the first step."""
    for name, words in (("a.txt", 900), ("b.txt", 200)):
        (folder / name).write_text(" ".join(f"w{number * number % 97}" for number in range(words)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(97))]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    text = {"files": [str(folder / "a.txt")], "validation_files": [str(folder / "b.txt")]}
    budget = {"tokens": 200 * 8 * LONGEST, "length": LONGEST, "batch_size": 8, "ramp_from": 2, "ramp_fraction": 0.02}
    return RunConfig(
        model=ModelConfig(**asdict(replace(SHAPE, vocab_size=len(pieces)))),
        corpus=CorpusConfig(name="own", source=CorpusSource.files, **text),
        tokenizer=TokenizerConfig(vocab_file=str(folder / "vocab.txt")),
        pretrain=PretrainConfig(
            objective=ObjectiveName.mlm, **budget, accumulation=2, learning_rate=3e-3, max_grad_norm=0.1, evaluations=2
        ),
        output=str(folder / "out"),
    )


def pretrained(ranks: Ranks, folder: Path, config: RunConfig, key: str) -> Objective:
    """Pretrains on the prepared text of this key."""
    machine, log = Machine(HardwareConfig(threads=1)), RunLog(folder, writes=ranks.first)
    corpus = sequences.read(config.output, key)
    objective = pretrain(config, corpus, machine, log, "identity", Baseline(machine), ranks)
    log.close()
    return objective


class StoppedError(Exception):
    """After a checkpoint."""


def pretrained_until(ranks: Ranks, folder: Path, config: RunConfig, key: str, step: int) -> None:
    """Pretrains from the checkpoint of the folder, if any, and ends after that of this step."""
    save = resume.save

    def save_and_stop(folder: Path, identity: str, position: Position, *others: object) -> None:
        if position.step == step:
            save(folder, identity, position, *others)
            raise StoppedError

    resume.save = save_and_stop  # in this process alone
    often = replace(config, pretrain=replace(config.pretrain, checkpoint_every_s=0))
    with contextlib.suppress(StoppedError):
        pretrained(ranks, folder, often, key)
