"""The other side of the sweep: one script that fine-tunes three models on three tasks with the Trainer, one after the other.

    python sweep_trainer.py FOLDER

It imports nothing of this project. FOLDER has settings.json, with the vocabulary, the shapes of the models and the arguments of
the Trainer, and the rows of each task below rows/. BERT, ALBERT and, in place of our windowed model, Longformer with the same
window, whose classifier adds global attention on the first token.
"""

import json
import sys
from pathlib import Path

import datasets
import numpy as np
import transformers
from sklearn.metrics import accuracy_score

TEXTS = ("text", "text_pair")
"""Columns, the second of tasks on pairs."""

MODELS = {
    "base": (transformers.BertConfig, transformers.BertForSequenceClassification),
    "albert": (transformers.AlbertConfig, transformers.AlbertForSequenceClassification),
    "windowed": (transformers.LongformerConfig, transformers.LongformerForSequenceClassification),
}


def main(folder: Path) -> None:
    """Prints the accuracy of each model on each task."""
    datasets.disable_progress_bars()
    settings = json.loads((folder / "settings.json").read_text())
    pieces = Path(settings["vocabulary"]).read_text(encoding="utf-8").splitlines()
    tokenizer = transformers.BertTokenizerFast(vocab={piece: number for number, piece in enumerate(pieces)})
    if len(tokenizer) != settings["pieces"]:
        raise RuntimeError(f"the vocabulary has {len(tokenizer):,} pieces, expected {settings['pieces']:,}")
    arguments = transformers.TrainingArguments(output_dir=str(folder / "out"), **settings["arguments"])
    for path in sorted((folder / "rows").glob("*.json")):
        splits = {
            name: datasets.Dataset.from_dict(columns).map(
                lambda some: tokenizer(*(some[name] for name in TEXTS if name in some), truncation=True, max_length=128),
                batched=True,
            )
            for name, columns in json.loads(path.read_text()).items()
        }
        for name, (config, model) in MODELS.items():
            trainer = transformers.Trainer(
                model=model(config(**settings["shapes"][name])),
                args=arguments,
                train_dataset=splits["train"],
                eval_dataset=splits["validation"],
                data_collator=transformers.DataCollatorWithPadding(tokenizer),
                processing_class=tokenizer,
                compute_metrics=accuracy,
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
            print(path.stem, name, trainer.evaluate()["eval_accuracy"], flush=True)


def accuracy(found: transformers.EvalPrediction) -> dict[str, float]:
    """Longformer predicts more than logits."""
    logits = found.predictions[0] if isinstance(found.predictions, tuple) else found.predictions
    return {"accuracy": accuracy_score(found.label_ids, np.argmax(logits, axis=1))}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
