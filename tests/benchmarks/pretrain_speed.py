"""Masked-LM pretraining at scale mini on WikiText, 16 sequences of 128 tokens a step: our `pretrain` against the Trainer.

Both sides read the same packed sequences. The Trainer computes logits for every token, as `BertForMaskedLM` does; ours for the
predicted ones.
"""

import tempfile
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import ours
import peers
import rounds
import transformers
from ours import Pretraining

from harness.corpus.sequences import Corpus, Sequences

FIRST = 1
"""Steps before the clock starts, on every side."""

LENGTH, BATCH = 128, 16
SEQUENCES = 2000


def measure(quick: bool) -> list[dict[str, Any]]:
    """Throughput of every side, and ours over the Trainer in the same arithmetic."""
    steps = FIRST + (3 if quick else 20)
    with tempfile.TemporaryDirectory() as folder:
        timed = sides(Path(folder), steps)
        for side in timed.values():
            side(1000)
        values = rounds.interleaved(timed, 3 if quick else 7)
    ratios = [
        rounds.times_as_fast(values[f"ours, {dtype}"], values[f"Trainer, {dtype}"], f"ours / Trainer, {dtype}")
        for dtype in ("fp32", "bf16")
    ]
    return ratios + rounds.rates(values, "tokens/s")


def sides(folder: Path, steps: int) -> dict[str, rounds.Side]:
    """Both sides in both arithmetics."""
    found: dict[str, rounds.Side] = {}
    for dtype in ("fp32", "bf16"):
        config, corpus = pretraining(dtype, folder)
        found[f"ours, {dtype}"] = rounds.tokens_per_s(Pretraining(config, corpus, folder / dtype), steps, FIRST)
    rows, tokenizer = _rows(corpus), peers.tokenizer()
    for dtype in ("fp32", "bf16"):
        collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=config.pretrain.mask_rate)
        model = transformers.BertForMaskedLM(peers.bert(config.model))
        training = peers.Training(model, rows, collator, config.pretrain, folder / "trainer", bf16=dtype == "bf16")
        found[f"Trainer, {dtype}"] = rounds.tokens_per_s(training, steps, FIRST)
    return found


def pretraining(dtype: str, folder: Path) -> tuple[Any, Corpus]:
    """Our config and text; held-out text is evaluated once, after the last step that is timed."""
    return ours.on_text(
        "pretrain=mlm", f"pretrain.batch_size={BATCH}", "corpus=wikitext", f"pretrain.length={LENGTH}",
        "pretrain.evaluations=1", "pretrain.eval_sequences=16", f"hardware.dtype={dtype}",
        output=ours.prepared_folder(folder / "output"),
    )  # fmt: skip


def _rows(corpus: Corpus) -> datasets.Dataset:
    """The same packed sequences, with the columns that `run_mlm.py` makes."""
    numbers = np.arange(SEQUENCES)
    ids = Sequences(corpus, "train", LENGTH, None, 0).batch(numbers, np.zeros_like(numbers)).input_ids.numpy()
    special = np.isin(ids, [corpus.cls, corpus.sep, corpus.pad])
    return datasets.Dataset.from_dict(
        {
            "input_ids": ids,
            "token_type_ids": np.zeros_like(ids),
            "attention_mask": np.ones_like(ids),
            "special_tokens_mask": special.astype(np.int64),
        }
    )
