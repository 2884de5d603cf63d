"""Fine-tuning on real SST-2 at scale mini, batch 32: our `finetune` against `transformers.Trainer`, in real tokens per second.

The Trainer as (a) the usual GLUE script sets it up, padded to 128; (b) with dynamic padding; (c) with dynamic padding, batches
grouped by length, and bf16.
"""

import tempfile
from pathlib import Path
from typing import Any

import datasets
import ours
import peers
import rounds
import transformers
from ours import Finetuning

from harness.config.schema import RunConfig
from harness.models.heads import build_classifier
from harness.tasks.prepared import Prepared

FIRST = 3
"""Steps before the clock starts, on every side."""

WARM_UP = 10
"""Steps of every side before the first round, so that kernels for most shapes are there; padded to 128 there is one shape."""

PADDED = "Trainer, padded to 128, fp32"
DYNAMIC = "Trainer, dynamic padding, fp32"
GROUPED = "Trainer, grouped by length, bf16"

PAIRS = (("ours, fp32", PADDED), ("ours, fp32", DYNAMIC), ("ours, bf16", GROUPED), ("ours, bf16", PADDED))


def measure(quick: bool) -> list[dict[str, Any]]:
    """Throughput of every side, and ours over each peer."""
    timed = {PADDED: 2, DYNAMIC: 12} if quick else {PADDED: 6, DYNAMIC: 40}
    with tempfile.TemporaryDirectory() as folder:
        sides = _sides(Path(folder))
        for name, side in sides.items():
            side.run(FIRST + 2 if name == PADDED else WARM_UP, FIRST, 1000)
        values = rounds.interleaved(
            {
                name: rounds.tokens_per_s(side, FIRST + timed.get(name, 30 if quick else 150), FIRST)
                for name, side in sides.items()
            },
            3 if quick else 15,
        )
    ratios = [rounds.times_as_fast(values[one], values[other], f"{one} / {other}") for one, other in PAIRS]
    return ratios + rounds.rates(values, "tokens/s")


def _sides(folder: Path) -> dict[str, Any]:
    configs = {}
    for dtype in ("fp32", "bf16"):
        config, data = ours.on_task(
            "task=sst2",
            f"data.train_examples={ours.ROWS}",
            f"hardware.dtype={dtype}",
            output=ours.prepared_folder(folder / "output"),
        )
        configs[f"ours, {dtype}"] = Finetuning(config, build_classifier(config.model, 2, 0), data, folder / dtype)
    return configs | _peers(config, data, folder / "trainer")


def _peers(config: RunConfig, data: Prepared, folder: Path) -> dict[str, peers.Training]:
    tokenizer = peers.tokenizer()
    padded, dynamic = (tokenised(tokenizer, data, padding) for padding in ("max_length", False))
    collator = transformers.DataCollatorWithPadding(tokenizer)

    def training(rows: datasets.Dataset, collator: Any, **more: Any) -> peers.Training:
        model = transformers.BertForSequenceClassification(peers.bert(config.model, num_labels=2))
        return peers.Training(model, rows, collator, config.finetune, folder, **more)

    return {
        PADDED: training(padded, transformers.default_data_collator),
        DYNAMIC: training(dynamic, collator),
        GROUPED: training(dynamic, collator, bf16=True, train_sampling_strategy="group_by_length"),
    }


def tokenised(
    tokenizer: Any, data: Prepared, padding: str | bool = False, task: str = "sst2", fields: tuple[str, ...] = ("sentence",)
) -> datasets.Dataset:
    """The same rows, as a GLUE script prepares them; RuntimeError if they have other token ids."""
    datasets.disable_progress_bars()
    rows = datasets.load_dataset(str(ours.data_root() / "glue"), task, split="train").select(data.train.items)
    encoded = rows.map(
        lambda some: tokenizer(*(some[field] for field in fields), padding=padding, max_length=128, truncation=True),
        batched=True,
    )
    lengths = [sum(mask) for mask in encoded["attention_mask"]]
    if not padding:
        for number, ids in enumerate(encoded["input_ids"][:1000]):
            start, end = data.train.starts[number], data.train.starts[number + 1]
            if data.train.ids[start:end].tolist() != ids:
                raise RuntimeError(f"row {number} has other token ids on the side of the peer")
    return encoded.add_column("length", lengths).rename_column("label", "labels")
