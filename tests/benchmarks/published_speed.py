"""Fine-tuning of published weights on real MRPC, batch 32: our `finetune` against `transformers.Trainer`, in real tokens/s.

The folder of the weights (config.json, model.safetensors, BERT's uncased vocabulary) is named by BENCHMARK_PUBLISHED. The
Trainer pads to the longest of a batch, with batches as they come or grouped by length. "First steps" is what a process pays
that meets its first batches: kernels for each shape are made there.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import finetune_speed
import ours
import peers
import rounds
import transformers
from ours import Finetuning

from harness.checkpoints import huggingface, start
from harness.config.resolve import resolve, with_vocabulary
from harness.config.schema import RunConfig
from harness.models.heads import build_classifier
from harness.tasks import prepared as cache
from harness.tasks.prepared import Prepared

FIRST = 3
"""Steps before the clock starts, on every side."""

FOLDER = "BENCHMARK_PUBLISHED"
DYNAMIC, GROUPED = "Trainer, dynamic padding", "Trainer, grouped by length"


def measure(quick: bool) -> list[dict[str, Any]]:
    """Throughput of every side in the first steps and after them, and ours over each peer; bf16 in the full form alone."""
    rows, steps = [], FIRST + (40 if quick else 200)
    for dtype in ("fp32",) if quick else ("fp32", "bf16"):
        with tempfile.TemporaryDirectory() as folder:
            sides = _sides(Path(folder), dtype)
            first = rounds.interleaved({name: rounds.tokens_per_s(side, FIRST + 40, FIRST) for name, side in sides.items()}, 1)
            for side in sides.values():
                side.run(60, FIRST, 1000)
            values = rounds.interleaved({name: rounds.tokens_per_s(side, steps, FIRST) for name, side in sides.items()}, 3)
        for when, timed in (("first steps, ", first), ("", values)):
            for peer in (DYNAMIC, GROUPED):
                rows.append(rounds.times_as_fast(timed["ours"], timed[peer], f"{when}{dtype}: ours / {peer}"))
            rows += rounds.rates({f"{when}{dtype}: {name}": one for name, one in timed.items()}, "tokens/s")
    return rows


def _sides(folder: Path, dtype: str) -> dict[str, Any]:
    weights = os.environ.get(FOLDER)
    if not weights:
        raise RuntimeError(f"{FOLDER} is not set; expected the folder of published weights with BERT's uncased vocabulary")
    config, data = _resolved(weights, dtype, ours.prepared_folder(folder / "output"))
    model = build_classifier(config.model, 2, 0)
    huggingface.load_weights(config, model)
    rows = finetune_speed.tokenised(peers.tokenizer(), data, task="mrpc", fields=("sentence1", "sentence2"))
    collator = transformers.DataCollatorWithPadding(peers.tokenizer())

    def trainer(**more: Any) -> peers.Training:
        theirs = transformers.AutoModelForSequenceClassification.from_pretrained(weights, num_labels=2)
        return peers.Training(theirs, rows, collator, config.finetune, folder / "trainer", bf16=dtype == "bf16", **more)

    return {
        "ours": Finetuning(config, model, data, folder / "ours"),
        DYNAMIC: trainer(),
        GROUPED: trainer(train_sampling_strategy="group_by_length"),
    }


def _resolved(weights: str, dtype: str, output: str) -> tuple[RunConfig, Prepared]:
    composed = ours.composed("task=mrpc", f"model.init_from={weights}", f"hardware.dtype={dtype}", output=output)
    config = resolve(composed, replace(start.read(composed), threads=ours.THREADS))
    data = cache.read(config, cache.prepare(config))
    return with_vocabulary(config, data.vocab_size, data.pad_token_id), data
