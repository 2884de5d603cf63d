"""Models that are scored without training: minimal pairs by a language model, and texts by the cosines of their vectors.

S pairs, B sentences of one length, T tokens.
"""

import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from harness import paths, tasks
from harness.checkpoints import huggingface, language_model, native, pretrained
from harness.config.choices import TaskKind
from harness.config.schema import RunConfig
from harness.corpus import sequences
from harness.data import tokenizer as tokenizers
from harness.hardware.device import Machine
from harness.measure import size
from harness.models.derive import RANDOM
from harness.models.heads import Classifier, TextVectors, build_classifier
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.scoring import log_likelihoods
from harness.tasks.base import Split
from harness.tasks.prepared import Prepared
from harness.tasks.scores import compute
from harness.tracking.run_log import RunLog
from harness.training.evaluation import evaluate_split, write_predictions, write_scores
from harness.training.weights import write_origins

SENTENCES = 256
"""Sentences of one length that share a forward pass."""


def evaluate(
    config: RunConfig, data: Prepared, corpus: str | None, weights: Path | None, machine: Machine, run_log: RunLog
) -> None:
    """Scores the validation split, and writes scores and predictions.

    `weights` is the folder of a pretraining, and `corpus` the key of its text, whose word frequencies are also scored on
    minimal pairs.
    """
    model: Objective | Classifier
    if config.task.kind is TaskKind.minimal_pairs:
        vocabulary = vocabulary_of(Tokenizer.from_file(str(paths.data_folder(config.output, data.key) / native.TOKENIZER)))
        model, origins = language_model.load(config, vocabulary, weights)
        print(f"scored as {language_model.objective_of(config).objective.value}, in float32", flush=True)
    else:
        model = build_classifier(config.model, 0, config.seed, TextVectors)
        origins = dict.fromkeys(model.state_dict(), RANDOM)
        if config.model.has_published_weights:
            origins = huggingface.load_encoder(config, model.encoder)
        if weights is not None:
            origins = pretrained.load_weights(weights, model, config.model.keep_layers)
    write_origins(config, model, origins, run_log)
    run_log.values(size.of_objective(model))
    run_log.stage("evaluate")
    model = machine.prepare(model.to(machine.device))
    if isinstance(model, Objective):
        started = time.perf_counter()
        nats = score(model, data.validation, model.vocabulary.mask, machine)
        run_log.value("eval/pairs_per_s", len(nats) / (time.perf_counter() - started))
        answers = tasks.kind_of(config.task).predictions(config.task, data.validation, nats, data.majority)
        frequencies = _frequencies(config, corpus)
        if frequencies is not None:
            answers.columns["unigram"] = right = _by_frequency(data.validation, frequencies)
            run_log.value("eval/unigram_score", compute(config.task.kind, "accuracy", answers.labels, right[:, None]))
    else:
        answers = evaluate_split(config, model, data.validation, data, machine)
    write_scores(config.task, answers, run_log)
    write_predictions(answers, run_log.folder / "predictions.parquet")


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """What objectives need of the tokenizer; -1 for a special piece that it lacks."""
    ids = {role: -1 if number is None else number for role, number in tokenizers.special_ids(tokenizer).items()}
    starts = torch.from_numpy(tokenizers.word_starts(tokenizer))
    sentinels = tuple(tokenizers.sentinels(tokenizer))
    return Vocabulary(len(starts), ids["pad"], ids["cls"], ids["sep"], ids["mask"], starts, sentinels)


def score(objective: Objective, split: Split, mask: int, machine: Machine) -> np.ndarray:
    """(S, 2, 2) nats of each pair, by way of scoring (`log_likelihoods`), of its right and of its wrong sentence.

    Sentences of one length share a forward pass without padding.
    """
    nats = np.empty((len(split), 2, 2))
    for side, (ids, starts, words) in enumerate(sides(split)):
        lengths = np.diff(starts)
        for length in np.unique(lengths):
            same = np.flatnonzero(lengths == length)
            for rows in np.array_split(same, -(-len(same) // SENTENCES)):
                places = starts[rows][:, None] + np.arange(length)
                of_ids, of_words = (
                    torch.from_numpy(values[places].astype(np.int64)).to(machine.device) for values in (ids, words)
                )
                nats[rows, :, side] = log_likelihoods(objective, of_ids, of_words, mask).double().sum(dim=-1).cpu().numpy().T
    return nats


def sides(split: Split) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Ids, starts and words of the right sentences, and of the wrong ones."""
    ids, starts, words = (split.numbers[f"bad_{name}"] for name in ("ids", "starts", "words"))
    return [(split.ids, split.starts, split.numbers["good_words"]), (ids, starts, words)]


def _frequencies(config: RunConfig, corpus: str | None) -> np.ndarray | None:
    """(V,) nats of each piece by its share of the training text, each counted once more; None where there is no text."""
    if corpus is None:
        return None
    try:
        text = sequences.read(config.output, corpus)
    except FileNotFoundError:
        return None  # that of an earlier pretraining, whose cache is gone
    counts = np.bincount(text.stream("train"), minlength=config.model.vocab_size) + 1.0
    return np.log(counts / counts.sum())


def _by_frequency(split: Split, nats: np.ndarray) -> np.ndarray:
    """(S,) 1 where the right sentence has the more frequent words, 0 where the wrong one has; 0.5 for the same words."""
    right, wrong = (np.add.reduceat(np.where(words >= 0, nats[ids], 0.0), starts[:-1]) for ids, starts, words in sides(split))
    differences = right - wrong
    return np.where(np.abs(differences) < 1e-9, 0.5, differences > 0)
