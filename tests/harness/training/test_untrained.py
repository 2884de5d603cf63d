"""Pairs are scored as transformers' own model scores them, and runs of one pretraining go through the whole command."""

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from in_process import metrics_of
from published_bert import save_bert
from tokenizers import Tokenizer
from transformers import BertForMaskedLM

from harness import tasks
from harness.checkpoints import huggingface, language_model
from harness.config.choices import TaskKind
from harness.config.schema import HardwareConfig, ModelConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.data import tokenizer as tokenizers
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.tasks.base import Examples, Split
from harness.tracking import run_log
from harness.training import untrained

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "##like", "dog", "is", "are", "here", "."]
PAIRS = [
    ("The cats are here.", "The cats is here."),
    ("The dog is here.", "The dog are here."),
    ("The catlikes are dog.", "The catlike are dogs."),
    ("Here.", "Dog."),
]
TASK = TaskConfig(
    name="pairs",
    kind=TaskKind.minimal_pairs,
    fields=["sentence_good", "sentence_bad"],
    scores=["accuracy"],
    headline="accuracy",
)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder as transformers saves a masked language model, whose head is not that of the embedding alone."""
    folder = save_bert(tmp_path / "published", "BertForMaskedLM", PIECES, max_position_embeddings=40, initializer_range=0.3)
    model = BertForMaskedLM.from_pretrained(folder)
    torch.nn.init.normal_(model.cls.predictions.bias)
    model.save_pretrained(folder)
    return folder


def config_of(published: Path, **keys) -> RunConfig:
    shape = huggingface.checkpoint_of(RunConfig(model=ModelConfig(init_from=str(published)))).shape
    return RunConfig(task=TASK, model=ModelConfig(**vars(shape) | {"init_from": str(published)} | keys))


def cut(published: Path) -> Tokenizer:
    return tokenizers.build(TokenizerConfig(vocab_file=str(published / "vocab.txt"), lowercase=True), ())


def encoded(published: Path) -> Split:
    examples = Examples([["", good, "", bad] for good, bad in PAIRS], ["a"] * len(PAIRS), [*range(len(PAIRS))], "pairs")
    return tasks.kind_of(TASK).encode(TASK, cut(published), examples)


def one_at_a_time(model: BertForMaskedLM, ids: list[int], words: list[int], whole: bool) -> float:
    """The sum over the tokens of one sentence, a forward pass of transformers' model for each."""
    total = 0.0
    for at, word in enumerate(words):
        if word is not None:
            hides = [other == at or (whole and other > at and words[other] == word) for other in range(len(ids))]
            hidden = [PIECES.index("[MASK]") if hide else token for token, hide in zip(ids, hides, strict=True)]
            total += model(torch.tensor([hidden])).logits[0, at].log_softmax(dim=-1)[ids[at]].item()
    return total


@pytest.mark.long
@torch.inference_mode()
def test_published_weights_score_pairs_as_transformers_does(published):
    vocabulary = untrained.vocabulary_of(cut(published))
    model, origins = language_model.load(config_of(published), vocabulary, None)
    assert {origin.kind for origin in origins.values()} == {"kept"}
    nats = untrained.score(model, encoded(published), vocabulary.mask, Machine(HardwareConfig(threads=1)))
    theirs = BertForMaskedLM.from_pretrained(published).eval()
    for item, pair in enumerate(PAIRS):
        for side, text in enumerate(pair):
            encoding = cut(published).encode(text)
            for way, whole in enumerate((True, False)):
                expected = one_at_a_time(theirs, encoding.ids, encoding.word_ids, whole)
                assert nats[item, way, side] == pytest.approx(expected, abs=1e-4)
    assert (np.abs(nats[2, 0] - nats[2, 1]) > 1e-3).all()  # words of several pieces
    assert np.allclose(nats[1, 0], nats[1, 1])


def test_weights_without_the_head_are_refused_by_their_key(published):
    from safetensors.torch import load_file, save_file

    weights = published / "model.safetensors"
    state = {name: tensor for name, tensor in load_file(weights).items() if not name.startswith("cls.")}
    save_file(state, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"model.init_from=.* do not fit a head for masked tokens: missing: "):
        language_model.refuse_misfit(config_of(published))
    language_model.refuse_misfit(config_of(published, random_weights=True))


def test_word_frequencies_are_counted_once_more_and_a_tie_is_half(published):
    split = encoded(published)
    nats = np.zeros(len(PIECES))
    nats[PIECES.index("are")], nats[PIECES.index("[CLS]")] = -2.0, -50.0
    assert untrained._by_frequency(split, nats).tolist() == [0.0, 1.0, 0.5, 0.5]


SMALL = [
    *("scale=tiny", "pretrain=mlm", "corpus.documents=40", "tokenizer.vocab_size=400", "task.pairs=4"),
    *("model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=32", "model.max_position_embeddings=64"),
    *("pretrain.tokens=2048", "pretrain.length=32", "pretrain.evaluations=1", "pretrain.eval_sequences=4"),
    *("pretrain.probe_steps=2", "hardware.threads=1"),
]


def finished(output: Path) -> dict[str, dict]:
    """Folder of a run of pairs -> its metrics."""
    folders = output.glob("default/*-minimal_pairs-*")
    return {folder.name: metrics_of(folder) for folder in folders}


@pytest.mark.long
def test_a_sweep_scores_what_it_has_pretrained_and_its_control_once_each(run_harness, tmp_path):
    """Of two fine-tuning seeds of one pretraining, the scores are one run; the same command then does nothing again."""
    command = ["-m", *SMALL, "model=base,windowed", "task=minimal_pairs", "seed=0,1", "pretrain.seed=0", f"output={tmp_path}"]
    command += ["pretrain.keep=[1024]", "pretrain.at=1024,null"]
    done = run_harness(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = finished(tmp_path)
    assert len(runs) == 4
    for folder, metrics in runs.items():
        rows = pyarrow.parquet.read_table(tmp_path / "default" / folder / "predictions.parquet").to_pylist()
        right = [row["label"] == row["prediction"] for row in rows]
        assert metrics["eval/score"] == pytest.approx(sum(right) / len(right))
        assert metrics["eval/unigram_score"] == metrics["eval/majority_score"] == 0.5
        assert metrics["eval/pairs_per_s"] > 0
        assert len(rows) == metrics["eval/examples"] == 4 * 24
    assert len({metrics["eval/score"] for metrics in runs.values()} | {1}) > 1
    again = run_harness(*command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert finished(tmp_path) == runs


@pytest.mark.long
@pytest.mark.parametrize("objective", ["clm", "plm", "bidirectional_lm", "[clm,mlm]"])
def test_other_objectives_score_by_their_own_heads(run_harness, tmp_path, objective):
    done = run_harness(*SMALL, f"pretrain={objective}", "task=minimal_pairs", f"output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    (metrics,) = finished(tmp_path).values()
    assert 0.3 < metrics["eval/score"] < 0.7
    (folder,) = (path.parent for path in (tmp_path / "pretrained").glob("*/metrics.jsonl"))
    (part,) = (entry["part"] for entry in run_log.Reader(folder).new_entries() if "part" in entry)
    assert part.endswith("with a probe trained for 2 steps" if objective != "[clm,mlm]" else "held-out text")
