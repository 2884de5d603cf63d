"""Fine-tuning on a task and its evaluation, item by item."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import torch
from pyarrow import parquet

from harness import tasks
from harness.config.choices import KeepBest
from harness.config.schema import RunConfig, TaskConfig
from harness.hardware.device import Machine
from harness.hardware.energy import EnergyMeter
from harness.measure import flops
from harness.tasks import glue_submission, scores
from harness.tasks.base import Answers, Split
from harness.tasks.batches import collate, evaluation_order, pieces, training_batches
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import Journal
from harness.training.loop import Limit, Position, Step, Training, make_optimiser, train
from models.batch import Batch
from models.heads import Classifier


def finetune(
    config: RunConfig, model: Classifier, data: Prepared, machine: Machine, journal: Journal, meter: EnergyMeter | None = None
) -> Position:
    """Trains the model in place on the task's training split, up to the epoch that is kept; returns how far training came.

    `meter` pauses while a split is looked at.
    """
    budget, position = config.finetune, Position()
    looks = None if budget.keep_best is KeepBest.none else Looks(config, model, data, machine, journal, meter)
    train(training_of(config, model, data, looks), make_optimiser(model, budget), position, machine, journal)
    if looks is not None:
        looks.put_back_best()
    return position


def training_of(config: RunConfig, model: Classifier, data: Prepared, looks: "Looks | None" = None) -> Training:
    """What `finetune` trains, from the first batch on; good for one training."""
    budget, kind = config.finetune, tasks.kind_of(config.task)
    batches = training_batches(data.train, budget.batch_size, config.seed, data.pad_token_id)
    steps = budget.planned_steps(len(data.train))
    cost = flops.of_training(model)
    return Training(
        model=model,
        loss=lambda batch: kind.loss(model, batch),
        next_step=lambda position: step_of(next(batches), budget.accumulation, kind.asked, cost),
        limit=Limit("step", steps),
        planned_steps=steps,
        phase="finetune",
        config=budget,
        seed=config.seed,
        pauses=looks,
    )


class Looks:
    """Scores a split after every epoch, and at the end of the budget; keeps the weights that scored best, the first of equals.

    A score that is undefined is never the best; where all are, the last weights stay.
    """

    def __init__(
        self,
        config: RunConfig,
        model: Classifier,
        data: Prepared,
        machine: Machine,
        journal: Journal,
        meter: EnergyMeter | None = None,
    ) -> None:
        self._meter = meter or EnergyMeter([])
        self._config, self._model, self._data, self._machine, self._journal = config, model, data, machine, journal
        by_tune = config.finetune.keep_best is KeepBest.tune
        self._split, self._key = (data.tune, "tune/score") if by_tune else (data.validation, "eval/score")
        self._epoch = config.finetune.steps_per_epoch(len(data.train))
        self._last = config.finetune.planned_steps(len(data.train))
        self._best: tuple[float, int] | None = None  # score and step
        self._weights: dict[str, torch.Tensor] = {}

    def due(self, position: Position) -> bool:
        """Whether an epoch or the training ends with this step."""
        return position.step % self._epoch == 0 or position.step == self._last

    def take(self, position: Position) -> None:
        """One look."""
        with self._meter.paused():
            self._look(position)

    def _look(self, position: Position) -> None:
        for key, spent in (costs(position) | {"finetune/energy_j": self._meter.counted}).items():
            if spent is not None:
                self._journal.curve(key, position.step, spent, position.tokens)
        answers = answer(self._config, self._model, self._split, self._data, self._machine)
        score = headline(self._config.task, answers)
        if score is None:
            return
        self._journal.curve(self._key, position.step, score, position.tokens)
        if self._best is None or score > self._best[0]:
            self._best = score, position.step
            self._weights = {name: value.to("cpu", copy=True) for name, value in self._model.state_dict().items()}

    def put_back_best(self) -> None:
        """Gives the model the best weights and writes how good they were, and of which epoch."""
        if self._best is None:
            return
        score, step = self._best
        self._model.load_state_dict(self._weights)
        self._weights = {}
        self._journal.value(self._key, score)
        self._journal.value("finetune/best_epoch", step / self._epoch)


def costs(position: Position) -> dict[str, float]:
    """What training took up to here, looks apart: metric -> value, which only grows."""
    return {
        "finetune/tokens": position.tokens,
        "finetune/flops": position.flops,
        "finetune/duration_s": position.seconds,
    }


def rates(position: Position) -> dict[str, float]:
    """Work of all batches over the seconds of training, and the share of the padded tokens that are padding."""
    return {
        "finetune/tokens_per_s": position.tokens / position.seconds,
        "finetune/padded_tokens_per_s": position.padded_tokens / position.seconds,
        "finetune/samples_per_s": position.rows / position.seconds,
        "finetune/padding_share": 1 - position.tokens / position.padded_tokens,
    }


def rows_of(batch: Batch) -> int:
    """Sequences of a batch."""
    return len(batch.input_ids)


def step_of(
    batch: Batch,
    accumulation: int,
    asked: Callable[[Batch], int] = rows_of,
    cost: Callable[[int, int], float] = lambda rows, length: 0.0,
) -> Step:
    """The batch in pieces, each weighed by its share of what is asked: the step's loss is the mean over all of that.

    `cost` is what so many rows of so many tokens, padding and all, take in FLOPs.
    """
    cut = pieces(batch, accumulation)
    counts = [asked(piece) for piece in cut]
    spent = sum(cost(*piece.input_ids.shape) for piece in cut)
    shares = [count / max(1, sum(counts)) for count in counts]
    return Step(cut, rows_of(batch), batch.tokens, batch.input_ids.numel(), spent, shares)


def answer(config: RunConfig, model: Classifier, split: Split, data: Prepared, machine: Machine) -> Answers:
    """What the model says of a split whose labels are known."""
    logits = predict(model, split, config.finetune.eval_batch_size, data.pad_token_id, machine)
    return tasks.kind_of(config.task).answers(config.task, split, logits, data.majority)


@torch.inference_mode()
def predict(model: Classifier, split: Split, batch_size: int, pad_token_id: int, machine: Machine) -> np.ndarray:
    """The model's float32 logits without dropout, in the order of the data.

    (S, C) for every sequence, or (N, C) for every token of all sequences, padding left out.
    """
    model.eval()
    logits: np.ndarray | None = None
    for chosen in evaluation_order(split, batch_size):
        batch = collate(split, chosen, pad_token_id).to(machine.device)
        with machine.autocast():
            given = model(batch).float().cpu().numpy()
        if logits is None:
            logits = np.empty((len(split) if given.ndim == 2 else len(split.ids), given.shape[-1]), dtype=np.float32)
        if given.ndim == 2:
            logits[chosen] = given
        else:
            _put_tokens(logits, given, split, chosen)
    return logits


def _put_tokens(logits: np.ndarray, given: np.ndarray, split: Split, chosen: np.ndarray) -> None:
    """Puts the (B, T, C) logits of the chosen sequences in their places of (N, C)."""
    for row, sequence in enumerate(chosen):
        start, end = split.starts[sequence], split.starts[sequence + 1]
        logits[start:end] = given[row, : end - start]


def evaluate(task: TaskConfig, answers: Answers, journal: Journal) -> None:
    """Writes the task's scores, its headline score, the loss, and the score of the constant answer.

    A score that is undefined is said to be, and left out.
    """
    evaluate_beside(task, "", answers, journal)
    journal.value("eval/score", headline(task, answers))
    journal.value("eval/loss", answers.loss)
    journal.value("eval/examples", len(answers.truth))
    journal.value("eval/majority_score", scores.compute(task.kind, task.headline, answers.truth, answers.constant))


def evaluate_beside(task: TaskConfig, ending: str, answers: Answers, journal: Journal) -> None:
    """Writes the task's scores alone, under names with this ending: `_mismatched` of such a split in task.more_validation."""
    for name in task.scores:
        value = scores.compute(task.kind, name, answers.truth, answers.predicted)
        if value is None:
            print(f"score {name}{ending} is undefined for such labels or predictions, as constant ones")
        journal.value(f"eval/{name}{ending}", value)


def headline(task: TaskConfig, answers: Answers) -> float | None:
    """The score that stands for the task, None where it is undefined."""
    return scores.compute(task.kind, task.headline, answers.truth, answers.predicted)


def submit(config: RunConfig, model: Classifier, data: Prepared, machine: Machine, folder: Path) -> list[Path]:
    """Answers the test splits, whose labels nobody looks at, and leaves the benchmark's files below the folder."""
    task, written = config.task, []
    for file, split in glue_submission.splits(task).items():
        logits = predict(model, data.more[split], config.finetune.eval_batch_size, data.pad_token_id, machine)
        predicted = tasks.kind_of(task).predicted(logits)
        written.append(glue_submission.write(folder, task, data.more[split].items, predicted.tolist(), file))
    return written


def write_predictions(answers: Answers, path: Path) -> None:
    """One row an item, or a word of kind `tokens`; the kind of the task says which columns."""
    parquet.write_table(pyarrow.table(answers.columns), path)
