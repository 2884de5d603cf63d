"""What went wrong in a training is said in one sentence with the key to change, and a healthy one is left alone."""

import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import tags
from harness.config.schema import RunConfig
from harness.study import outcome
from harness.tracking.run_log import State


@pytest.fixture
def kinds_of(small_config: RunConfig) -> Callable[..., list[str]]:
    """Kinds of the notes on a run with these losses of its steps, scores of its evaluations and results."""

    def kinds(losses: list[float], scores: tuple[float, ...] = (), **values: float) -> list[str]:
        config = replace(small_config, finetune=replace(small_config.finetune, max_steps=None))
        entries = [{"key": "finetune/loss", "step": step, "value": value} for step, value in enumerate(losses, 1)]
        entries += [{"key": "eval/score", "step": step, "value": value} for step, value in enumerate(scores, 1)]
        known = {"score": 0.9, "majority_score": 0.5, "examples": 400, "loss": losses[-1]} | values
        return [note.kind for note in outcome.judged(config, entries, {f"eval/{key}": known[key] for key in known}, {})]

    return kinds


def noisy(losses: list[float], scatter: float) -> list[float]:
    chance = random.Random(0)
    return [loss * math.exp(chance.gauss(0, scatter)) for loss in losses]


FLAT, LEARNED = [0.7] * 100, [0.7 * math.exp(-step / 15) + 0.2 for step in range(100)]
STRAIGHT = [0.9 - 0.004 * step for step in range(100)]


@pytest.mark.parametrize("scatter", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 30, 100])
def test_a_training_that_learns_has_no_note_however_its_losses_scatter(kinds_of, steps, scatter):
    assert kinds_of(noisy(LEARNED[:: 100 // steps], scatter)) == []


@pytest.mark.parametrize(
    "losses", [[0.7, 525], [0.7, 50, 80, 60, 46], [0.7, 12, 100, 60, 30], [*FLAT, *noisy([9.0] * 90, 0.5)]]
)
def test_a_loss_that_ends_above_its_first_is_diverged_where_nothing_was_learned(kinds_of, losses):
    assert kinds_of(losses, score=0.5) == ["diverged"]
    assert kinds_of(losses) == ["rose"]  # and the score is well above the majority baseline


def test_a_state_is_diverged_by_its_note_alone():
    assert outcome.state_of([]) is outcome.state_of([outcome.Note("rose", "")]) is State.finished
    assert outcome.state_of([outcome.Note("diverged", "")]) is State.diverged


@pytest.mark.parametrize("losses", [[0.002, 0.008, 0.006], [0.7, 0.9, 0.8], [0.01, 0.03, 0.02, 0.05, 0.01]])
def test_losses_of_batches_that_scatter_have_not_risen(kinds_of, losses):
    assert kinds_of(losses) == []


@pytest.mark.parametrize(
    ("score", "items", "predicted", "kinds"),
    [
        (0.5, 400, 0.5, ["baseline"]),
        (0.53, 400, 0.5, ["baseline"]),  # one that 400 items do not tell from it
        (0.53, 40_000, 0.5, []),
        (0.4, 400, 0.5, ["baseline"]),
        (0.5, 400, 1.0, ["collapsed"]),
        (0.5, 400, 0.97, ["collapsed"]),
        (0.6, 400, 1.0, ["collapsed"]),  # the labels of the training rows have another majority
        (0.6, 400, 0.99, []),
    ],
)
def test_a_score_at_the_majority_baseline_is_said_and_whether_all_predictions_are_one(kinds_of, score, items, predicted, kinds):
    shares = {"most_frequent_prediction_share": predicted, "most_frequent_label_share": 0.5}
    assert kinds_of(FLAT, score=score, examples=items, **shares) == kinds


@pytest.mark.parametrize(("steps", "cure"), [(19, "raise finetune."), (20, "try another finetune.learning_rate")])
def test_what_may_have_been_too_short_is_told_to_train_longer(small_config, steps, cure):
    values = {"eval/score": 0.5, "eval/majority_score": 0.5, "eval/examples": 400.0}
    entries = [{"key": "finetune/loss", "step": step, "value": 0.7} for step in range(steps)]
    (note,) = outcome.judged(small_config, entries, values, {})
    assert f": {cure}" in note.text
    assert "raise finetune." in note.text


def test_few_predictions_of_a_rare_class_are_no_collapse(kinds_of):
    shares = {"most_frequent_prediction_share": 0.985, "most_frequent_label_share": 0.97}
    assert kinds_of(FLAT, score=0.97, majority_score=0.97, **shares) == ["baseline"]


@pytest.mark.parametrize(
    ("scores", "kinds"), [((0.9, 0.8, 0.7), ["best_first"]), ((0.9, 0.89, 0.89), []), ((0.8, 0.9, 0.7), []), ((0.9, 0.7), [])]
)
def test_a_best_score_at_the_first_evaluation_is_said(kinds_of, scores, kinds):
    assert kinds_of(LEARNED, scores) == kinds


@pytest.mark.parametrize("scatter", [0.0, 0.05])
def test_a_loss_that_falls_to_the_end_is_said_once(kinds_of, scatter):
    losses = noisy(STRAIGHT, scatter)
    assert kinds_of(losses) == ["falling"]
    assert kinds_of(losses, score=0.5) == ["baseline"]  # whose sentence says it
    assert kinds_of(losses, loss=0.9) == []  # the training rows alone, by heart
    assert kinds_of(losses, score=1.0) == []
    assert kinds_of(losses[:3]) == []


@pytest.mark.parametrize(
    ("model", "cure"), [("base", "raise finetune."), ("static", "as theory expects, it is a weighted count")]
)
def test_an_arm_that_cannot_learn_its_task_gets_no_advice(compose, model, cure):
    (config,) = compose(f"model={model}", "task=order", "scale=tiny")
    values = {"eval/score": 0.5, "eval/majority_score": 0.5, "eval/examples": 400.0}
    (note,) = outcome.judged(config, [], values, {})
    assert cure in note.text


PRETRAINED = {"pretrain/steps": 100.0, "pretrain/unigram_entropy": 6.7}


def notes_of_pretraining(compose: Callable, losses: list[float], held_out: list[float], **more: float) -> list[outcome.Note]:
    (config,) = compose("task=none", "pretrain=mlm", "scale=tiny")
    entries = [{"key": "pretrain/loss", "value": value} for value in losses]
    entries += [{"key": "pretrain/masked_loss", "value": value} for value in held_out]
    values = PRETRAINED | {"pretrain/masked_loss": held_out[-1]} | more
    return outcome.judged(config, entries, values, {})


def kinds_of_pretraining(*given: Any, **more: float) -> list[str]:
    return [note.kind for note in notes_of_pretraining(*given, **more)]


def test_a_pretraining_on_the_plateau_is_told_to_train_longer(compose):
    (note,) = notes_of_pretraining(compose, [9 * math.exp(-step / 15) + 3 for step in range(100)], [6.6, 6.5, 6.5])
    assert re.search(r"; raise pretrain\.tokens \(\S+\)$", note.text)


def test_pretrainings_are_judged_too(compose):
    fallen = [9 * math.exp(-step / 15) + 3 for step in range(100)]
    assert kinds_of_pretraining(compose, fallen, [6.0, 4.0, 3.0]) == []
    assert kinds_of_pretraining(compose, fallen, [6.6, 6.5, 6.5]) == ["plateau"]
    assert kinds_of_pretraining(compose, [6.5, *[1500.0] * 40], [9.0, 12.0, 12.0]) == ["diverged"]
    probe = {"pretrain/probe_steps": 200.0}
    assert kinds_of_pretraining(compose, [6.5, *[1500.0] * 40], [6.0, 12.0, 17.0], **probe) == ["diverged"]
    assert kinds_of_pretraining(compose, fallen, [4.0, 4.2, 4.5]) == ["best_first"]


CURES = {
    "finetune.learning_rate=10": ("diverged", "lower finetune.learning_rate (10)"),
    "finetune.learning_rate=1e-7": ("collapsed", "raise finetune.max_steps (12)"),
}


@pytest.mark.long
@pytest.mark.parametrize("key", CURES)
def test_a_run_that_went_wrong_says_so_in_its_line_in_status_and_in_mlflow(key, small, run_harness, runs_of, output):
    kind, cure = CURES[key]
    small = [*small, "task.grammar.validation_examples=400"]  # as no random answers beat the majority of
    done = run_harness(*small, key, "study=s", "measure=none", "tracking=mlflow", f"output={output}")
    said = run_harness("status", "s", f"output={output}")
    (run,) = runs_of(output, "s")
    (line,) = [text for text in done.stdout.splitlines() if "seed 0: " in text and cure in text]
    assert run.data.tags[tags.NOTES] == kind
    assert cure in run.data.tags[tags.WARNING]
    assert cure in " ".join(said.stdout.split())
    is_diverged = kind == "diverged"
    assert ("diverged: " in line, done.returncode, said.returncode) == (is_diverged, is_diverged, is_diverged)
    assert ("Complete." in said.stdout) != is_diverged
    assert run.data.tags["status"] == ("diverged" if is_diverged else "finished")
    assert cure in run.data.tags["mlflow.note.content"]
    again = run_harness(*small, key, "study=s", "measure=none", "tracking=mlflow", f"output={output}")
    assert (cure in again.stdout) == is_diverged  # the command that ran it has said so, and status does


@pytest.mark.long
def test_a_run_that_learns_says_nothing(small, run_harness, output):
    healthy = [
        "task.grammar.train_examples=1000",
        "finetune.learning_rate=1e-3",
        "finetune.epochs=8",
        "finetune.max_steps=null",
    ]
    done = run_harness(*small, *healthy, "study=s", "measure=none", "tracking=none", f"output={output}")
    (result,) = Path(output, "s").glob("*/result.json")
    assert json.loads(result.read_text())["notes"] == [], done.stdout
    assert "Complete." in run_harness("status", "s", f"output={output}").stdout


OWN = {
    "multilabel": ("labels", [["joy"], ["fear", "joy"], ["anger"], []]),
    "regression": ("label", [0.5, 3.0, 4.5, 2.0]),
    "tokens": ("label", [["O", "B-X"], ["B-X", "O"], ["O", "O"], ["B-X", "O"]]),
    "spans": ("label", [{"text": ["green"], "answer_start": [0]}, {"text": ["blue"], "answer_start": [6]}] * 2),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", OWN)
def test_every_kind_of_training_diverges_by_name(kind, run_harness, tmp_path):
    column, labels = OWN[kind]
    texts = [["green", "blue"] if kind == "tokens" else "green blue", "blue what"][: 1 + (kind == "spans")]
    rows = [{"text": texts[0], "question": texts[-1], column: labels[place % 4]} for place in range(64)]
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = "[question,text]" if kind == "spans" else "[text]"
    files = [f"task.{name}_file={tmp_path / name}.jsonl" for name in ("train", "validation")]
    task = ["task=own", *files, f"task.kind={kind}", f"task.fields={fields}", f"task.label={column}", "task.max_length=24"]
    more = ["scale=tiny", "task.stride=4", "measure=none", "tracking=none", "hardware.threads=1", "finetune.max_steps=8"]
    more = [one for one in more if kind == "spans" or "stride" not in one]
    done = run_harness(*task, *more, "finetune.learning_rate=30", "finetune.batch_size=8", "study=s", "output=out")
    (result,) = Path("out", "s").glob("*/result.json")
    assert json.loads(result.read_text())["status"] == "diverged", done.stdout + done.stderr
