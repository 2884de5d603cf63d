"""Scores of published weights that transformers' Trainer fine-tunes on tasks of GLUE: a line of JSON for each task and seed.

    python tests/benchmarks/published_scores.py FOLDER ../shared/data/glue --task rte,mrpc --seed 0,1,2 --epochs 3 --rate 1e-4

It imports nothing of this project. The settings are those of `finetune`: AdamW without decay of biases and norms, batches of
32, a linear schedule with a tenth of warm-up, gradients clipped at 1. To be read beside runs of the same settings.
"""

import argparse
import json
import tempfile

import datasets
import numpy as np
import torch
import transformers
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

TASKS = {
    "rte": ("sentence1", "sentence2", accuracy_score),
    "mrpc": ("sentence1", "sentence2", f1_score),
    "stsb": ("sentence1", "sentence2", lambda labels, values: pearsonr(labels, values).statistic),
    "cola": ("sentence", None, matthews_corrcoef),
    "sst2": ("sentence", None, accuracy_score),
}
"""Columns with text, and the score."""


def main() -> None:
    """Fine-tunes and evaluates task by task, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", help="folder with config.json, model.safetensors and a tokenizer")
    parser.add_argument("data", help="folder with a folder of each task, in the layout of the hub")
    parser.add_argument("--task", default=",".join(TASKS))
    parser.add_argument("--seed", default="0,1,2")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--rate", type=float, default=1e-4, help="peak of the learning rate")
    parser.add_argument("--rows", default="", help="part of train in the notation of datasets: [:2000]")
    options = parser.parse_args()
    datasets.disable_progress_bars()
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.weights)
    for task in options.task.split(","):
        rows = {split: rows_of(options, task, split, tokenizer) for split in ("train", "validation")}
        for seed in map(int, options.seed.split(",")):
            score = fine_tuned(options, task, rows, tokenizer, seed)
            print(json.dumps({"task": task, "seed": seed, "score": score, "epochs": options.epochs}), flush=True)


def rows_of(
    options: argparse.Namespace, task: str, split: str, tokenizer: transformers.PreTrainedTokenizerBase
) -> datasets.Dataset:
    """The split as token ids and labels, cut at 128 tokens."""
    first, second, _ = TASKS[task]
    part = options.rows if split == "train" else ""
    rows = datasets.load_dataset("parquet", data_files=f"{options.data}/{task}/{split}-*.parquet", split=f"train{part}")
    encoded = rows.map(
        lambda some: tokenizer(some[first], some[second] if second else None, max_length=128, truncation=True), batched=True
    )
    return encoded.select_columns(["input_ids", "token_type_ids", "attention_mask", "label"]).rename_column("label", "labels")


def fine_tuned(
    options: argparse.Namespace,
    task: str,
    rows: dict[str, datasets.Dataset],
    tokenizer: transformers.PreTrainedTokenizerBase,
    seed: int,
) -> float:
    """The score on validation after the last step."""
    transformers.set_seed(seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        options.weights, num_labels=1 if task == "stsb" else 2, dtype=torch.float32
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, report_to=[], save_strategy="no", eval_strategy="no", disable_tqdm=True, logging_steps=1000,
            bf16=torch.cuda.is_available(), per_device_train_batch_size=32, per_device_eval_batch_size=64, seed=seed,
            optim="adamw_torch_fused", learning_rate=options.rate, weight_decay=0.01, lr_scheduler_type="linear",
            warmup_steps=0.1, max_grad_norm=1.0, num_train_epochs=options.epochs,
        )  # fmt: skip
        collator = transformers.DataCollatorWithPadding(tokenizer)
        trainer = transformers.Trainer(model, arguments, collator, rows["train"], rows["validation"])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        logits = trainer.predict(rows["validation"]).predictions
    labels = np.array(rows["validation"]["labels"])
    return float(TASKS[task][2](labels, logits[:, 0] if task == "stsb" else logits.argmax(axis=1)))


if __name__ == "__main__":
    main()
