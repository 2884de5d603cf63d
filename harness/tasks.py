"""What a task asks of a model and of its data. Entries are the files of `conf/task/`."""

from harness.config import TaskConfig
from harness.errors import InputError, unknown
from harness.scores import SCORES


def num_outputs(task: TaskConfig) -> int:
    """One output a class, or a single one for a regression."""
    return len(task.labels) or 1


def is_regression(task: TaskConfig) -> bool:
    """Whether labels are numbers on a scale rather than classes."""
    return not task.labels


def refuse_impossible(task: TaskConfig) -> None:
    """InputError for an entry that no run could use."""
    if len(task.fields) not in (1, 2):
        raise InputError(f"task.fields={task.fields} of task {task.name!r} must name one or two text columns")
    if not task.scores:
        raise InputError(f"task.scores of task {task.name!r} is empty; choices: {', '.join(SCORES)}")
    for score in task.scores:
        if score not in SCORES:
            raise unknown("score", score, SCORES, "task.scores")
        if SCORES[score].regression != is_regression(task):
            kind = "a regression" if is_regression(task) else "a classification"
            raise InputError(f"task.scores: {score!r} does not fit task {task.name!r}, which is {kind}")
        if score == "f1" and len(task.labels) != 2:
            raise InputError(f"task.scores: 'f1' needs two labels, task {task.name!r} has {len(task.labels)}")
    if task.headline not in task.scores:
        raise unknown("headline score", task.headline, task.scores, "task.headline")
    if len(task.labels) == 1:
        raise InputError(f"task.labels={task.labels} of task {task.name!r} must name two classes or more, or none")
