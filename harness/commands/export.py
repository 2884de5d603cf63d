"""A model that was trained here as a checkpoint that transformers loads: `python -m harness export RUN [--out FOLDER]`.

RUN is the folder of a pretraining or fine-tuning, or its id in the tracking store. The checkpoint is config.json,
model.safetensors and the tokenizer; that of a fine-tuning has the head of its task. It is loaded and run once before it gets
its name: by transformers where that is installed, otherwise by our own reader.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from harness.checkpoints import find_run
from harness.commands.arguments import Parser
from harness.config import names

if TYPE_CHECKING:
    from harness.checkpoints.export import Export


def summary(exported: "Export") -> str:
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


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be exported."""
    parser = Parser("export", "Writes a model that was trained here as a checkpoint that transformers loads.")
    parser.add_argument("run", metavar="RUN", help="folder of a run, or its id in the tracking store")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="new folder (RUN/export)")
    parser.add_argument("--family", metavar="NAME", help="model_type to write (the first that expresses the model)")
    parser.add_argument("--output", default="multirun", help="folder of the runs, to find an id in (multirun)")
    parser.add_argument("--uri", help="tracking store (SQLite in the output folder)")
    options = parser.parse_args(arguments)
    names.refuse_address(options.uri, "--uri")
    checkpoint = find_run.weights_folder(options.run, "RUN", options.output, options.uri)
    from harness.checkpoints.export import export  # torch takes 2 s, which --help does not need

    print(summary(export(checkpoint, options.out or checkpoint.parent / "export", options.family)))
    return 0
