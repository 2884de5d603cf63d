"""A model that was trained here as a checkpoint that transformers loads: `python -m harness export RUN [to=FOLDER]`.

RUN is the folder of a pretraining or fine-tuning, or its id in the tracking store. The checkpoint is config.json,
model.safetensors, the tokenizer and a model card; that of a fine-tuning has the head of its task. It is loaded and run once
before it gets its name: by transformers where that is installed, otherwise by our own reader. `format=onnx` writes an ONNX file
instead, and `register=NAME` adds a fine-tuning to MLflow's model registry, whose predictions are those of `predict`.
"""

from pathlib import Path

from harness.checkpoints import find_run, finetuned, native
from harness.checkpoints.onnx_file import FILE, write
from harness.models.encoder import Encoder
from harness.models.heads import Classifier
from harness.plugins.export import card
from harness.plugins.export.checkpoint import export
from harness.plugins.export.folder import new_folder, refuse_filled
from harness.plugins.export.options import Export
from harness.tracking import run_log

STATED = ("- protocol: ", "- selection: ")
"""Lines of a model card that are printed, too."""


def main(options: Export) -> int:
    """0; InputError for what cannot be exported."""
    checkpoint = find_run.weights_folder(options.run, "RUN", options.output, options.uri)
    run = checkpoint.parent
    if options.register is not None:
        from harness.plugins.export import registry  # MLflow takes a second, which only this needs

        print(f"registered {registry.register(options, checkpoint)}: load it by mlflow.pyfunc.load_model")
    elif options.format == "onnx":
        print(export_onnx(checkpoint, options.to or run / "onnx"))
    else:
        has_head = native.read(checkpoint)[1].encoder is None  # that of another package is exported alone
        readme = card.text(run, options.license, has_head) if (run / run_log.RESULT).is_file() else None
        print(export(checkpoint, options.to or run / "export", options.family, readme))
        print(f"model card: {'README.md' if readme else 'none, as the weights are not in the folder of a run'}")
        for line in (readme or "").splitlines():
            if line.startswith(STATED):
                print(line.removeprefix("- "))
    return 0


def export_onnx(checkpoint: Path, out: Path) -> str:
    """Writes FILE and the tokenizer to a new folder, whole or not at all; says what was written.

    For a fine-tuning, the file computes the task's logits or text vectors, and the tokenizer truncates as in training; for a
    pretraining, the last hidden states of as many tokens as the model reads.
    """
    refuse_filled(out)
    model: Classifier | Encoder
    if finetuned.is_finetuned(checkpoint):
        model, facts, path = finetuned.load_finetuned(checkpoint)
        tokenizer = finetuned.cut(finetuned.tokenizer_of(path, model.encoder.config), facts)
        output = "vectors" if model.head is None else "logits"
    else:
        model = native.encoder_of(*native.read(checkpoint)).eval()
        output, tokenizer = "hidden states", finetuned.tokenizer_of(checkpoint / native.TOKENIZER, model.config)
        tokenizer.enable_truncation(model.config.longest_text)
    with new_folder(out) as building:
        difference = write(model, building / FILE)
        tokenizer.save(str(building / native.TOKENIZER))
    size = (out / FILE).stat().st_size
    return f"wrote {out / FILE}: {size:,} bytes; run by onnxruntime, {output} differ from torch's by {difference:.1g} at most"
