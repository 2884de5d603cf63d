"""The sweep of the demo, smaller, as whole processes: `python -m harness -m model=base,albert,windowed` against a script.

The script (sweep_trainer.py) fine-tunes BERT, ALBERT and Longformer with the Trainer on the same rows, with the same steps, in
one process and without tracking. Ours starts a process for every run, as many at once as the script has threads, and keeps the
results in MLflow; neither renders a report. Ours also in the faster arithmetic of the machine, as `make demo` trains, and in
the full form with our timing session, which the script has nothing to set against.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import ours
import peers
import rounds

from harness.models.config import EncoderConfig
from harness.tasks.rows import load_table

HERE = Path(__file__).resolve().parent
TASKS = ("bag", "order", "distance")
QUICK_STEPS, EVAL_BATCH = 16, 64
"""Steps of every run in the quick form, where starting takes most of the time; the full one trains as long as the demo."""


def measure(quick: bool) -> list[dict[str, Any]]:
    """Seconds of every side, and how many times as fast ours is."""
    with tempfile.TemporaryDirectory() as folder:
        steps = write_settings(Path(folder), QUICK_STEPS if quick else None)

        def ours_with(name: str, *overrides: str) -> rounds.Side:
            return lambda number: _ours(Path(folder) / f"{name}-{number}", f"finetune.max_steps={steps}", *overrides)

        sides = {
            "ours, measure=none": ours_with("none", "measure=none"),
            "ours, dtype=auto": ours_with("auto", "measure=none", "hardware.dtype=auto"),
            "script with Trainer": lambda number: _script(Path(folder)),
        }
        if not quick:
            sides["ours, with timing session"] = ours_with("timed", "measure.rounds=1")
        values = rounds.interleaved(sides, 1 if quick else 3)
    ratios = [
        rounds.times_as_fast(values["script with Trainer"], one, f"{name} / script with Trainer")
        for name, one in values.items()
        if name.startswith("ours")
    ]
    return ratios + [rounds.row(name, one, "s") for name, one in values.items()]


def write_settings(folder: Path, steps: int | None) -> int:
    """What the script reads: shapes, arguments, and the rows of each task. The steps of every run; None: those of the demo."""
    (folder / "rows").mkdir()
    shapes = {}
    for name in ("base", "albert", "windowed"):
        config = ours.composed(f"model={name}", "task=bag", output=str(folder / "cache"))
        shapes[name] = shape(replace(config.model, vocab_size=ours.PIECES))
    for task in TASKS:
        config = ours.composed(f"task={task}", output=str(folder / "cache"))
        splits = {split: load_table(config, split).columns for split in ("train", "validation")}
        names = dict(zip(("text", "text_pair"), config.task.fields, strict=False)) | {"labels": config.task.label}
        rows = {split: {name: list(columns[column]) for name, column in names.items()} for split, columns in splits.items()}
        (folder / "rows" / f"{task}.json").write_text(json.dumps(rows))
        steps = steps or config.finetune.planned_steps(len(rows["train"]["labels"]))  # equal for all three
    arguments = peers.settings(config.finetune) | {"max_steps": steps, "per_device_eval_batch_size": EVAL_BATCH}
    vocabulary = {"vocabulary": str(ours.vocabulary_file()), "pieces": ours.PIECES}
    (folder / "settings.json").write_text(json.dumps(vocabulary | {"shapes": shapes, "arguments": arguments}))
    return steps


def shape(config: EncoderConfig) -> dict[str, Any]:
    """The same shape as keywords of a config of transformers: BERT's, ALBERT's or Longformer's."""
    keywords = peers.shape(config)
    if config.num_hidden_groups is not None:
        keywords |= {"embedding_size": config.embedding_width, "hidden_act": "gelu_new", "classifier_dropout_prob": 0.1}
    if config.attention_window is not None:
        keywords |= {"attention_window": [config.attention_window] * config.num_hidden_layers, "pad_token_id": 0}
        keywords["max_position_embeddings"] = config.max_position_embeddings + 2  # its positions begin after the padding's
    return keywords


def _ours(output: Path, *overrides: str) -> float:
    """Seconds of the whole command on a fresh output folder."""
    return _seconds(
        [
            *("-m", "harness", "-m", "model=base,albert,windowed", "seed=0", f"task={','.join(TASKS)}"),
            f"finetune.eval_batch_size={EVAL_BATCH}",
            *(*overrides, f"tokenizer.vocab_file={ours.vocabulary_file()}"),
            *(f"hardware.workers={ours.THREADS}", "hardware.threads=1", "report=false"),
            f"output={output}",
        ]
    )


def _script(folder: Path) -> float:
    return _seconds([str(HERE / "sweep_trainer.py"), str(folder)])


def _seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    ours.run_python(*arguments)
    return time.perf_counter() - started
