"""Small fine-tunings with their weights, and what `predict` answers."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from harness import paths
from harness.checkpoints import finetuned
from harness.config.choices import TaskKind
from harness.config.schema import HardwareConfig, RunConfig, TaskConfig
from harness.grammar import parse
from harness.models.config import EncoderConfig
from harness.models.encoder import initialise
from harness.models.heads import ChoiceClassifier, Classifier, SequenceClassifier, TokenClassifier
from harness.plugins.predict import predict
from harness.plugins.predict.options import Predict

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def kept(
    folder: Path, tokenizer: Tokenizer, kind: TaskKind, labels: list[str], fields: list[str], bias: float = 0.0
) -> Classifier:
    """A run's folder with the checkpoint of a small model, `bias` added to its logits."""
    heads = dict.fromkeys((TaskKind.tokens, TaskKind.spans), TokenClassifier) | {TaskKind.multiple_choice: ChoiceClassifier}
    shape = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **SMALL)
    outputs = {TaskKind.regression: 1, TaskKind.spans: 2, TaskKind.multiple_choice: 1}.get(kind, len(labels))
    model = heads.get(kind, SequenceClassifier)(shape, outputs)
    initialise(model, 0.5, 0)
    model.head.bias.data += bias
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    task = TaskConfig(name="mine", kind=kind, fields=fields, labels=labels, max_length=16)
    finetuned.save(folder / paths.WEIGHTS, model, task, folder / "tokenizer.json")
    return model.eval()


def predicted(folder: Path, source: Path, output: Path, *arguments: str) -> None:
    options = parse([str(folder), f"input={source}", f"to={output}", *arguments], Predict, "predict")
    assert predict.main(options, [RunConfig(hardware=HardwareConfig(threads=1))]) == 0


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
