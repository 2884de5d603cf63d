"""A model that was trained here as a checkpoint that transformers loads: `python -m harness export RUN [to=FOLDER]`.

RUN is the folder of a pretraining or fine-tuning, or its id in the tracking store. The checkpoint is config.json,
model.safetensors and the tokenizer; that of a fine-tuning has the head of its task. It is loaded and run once before it gets
its name: by transformers where that is installed, otherwise by our own reader. `format=onnx` writes an ONNX file instead.
"""

from harness.checkpoints import find_run, onnx_file
from harness.checkpoints.export import Export, export
from harness.commands.options import Export as Options


def summary(exported: Export) -> str:
    """What was written, and what was not."""
    family = exported.family
    lines = [
        f"wrote {exported.folder}: {family}, {exported.tensors} tensors",
        f"heads included: {', '.join(exported.heads) or 'none'}",
        f"left out, {family} has no place for it: {', '.join(exported.left_out) or 'none'}",
        f"transformers will initialise randomly: {', '.join(exported.initialised) or 'nothing'}",
        f"loaded and run once by {exported.checked}",
    ]
    return "\n".join(lines)


def main(options: Options) -> int:
    """0; InputError for what cannot be exported."""
    checkpoint = find_run.weights_folder(options.run, "RUN", options.output, options.uri)
    if options.format == "onnx":
        print(onnx_file.export(checkpoint, options.to or checkpoint.parent / "onnx"))
        return 0
    print(summary(export(checkpoint, options.to or checkpoint.parent / "export", options.family)))
    return 0
