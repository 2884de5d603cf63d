"""Tasks: the kinds of tasks and the checks of their configs. Each file of `conf/task/` is a task, each module here a kind."""

from functools import cache

from harness import extensions, metrics
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.errors import InputError, Mistakes, unknown
from harness.tasks import scores
from harness.tasks.base import Kind
from harness.tasks.classification import Classification, MultiLabel, MultipleChoice, Regression
from harness.tasks.minimal_pairs import MinimalPairs
from harness.tasks.spans import Spans
from harness.tasks.tagging import Tokens
from harness.tasks.vectors import Retrieval, Similarity

GROUP = "harness.tasks"
"""Entry points of further kinds."""

KINDS: dict[TaskKind, Kind] = {
    TaskKind.classification: Classification(),
    TaskKind.regression: Regression(),
    TaskKind.tokens: Tokens(),
    TaskKind.spans: Spans(),
    TaskKind.minimal_pairs: MinimalPairs(),
    TaskKind.multiple_choice: MultipleChoice(),
    TaskKind.multilabel: MultiLabel(),
    TaskKind.similarity: Similarity(),
    TaskKind.retrieval: Retrieval(),
}


def kind_of(task: TaskConfig) -> Kind:
    """The kind of this task; InputError for one of another package that cannot be used."""
    return KINDS[task.kind] if task.plugin is None else _added(task.plugin)


@cache
def _added(name: str) -> Kind:
    kind = extensions.find(GROUP, name, type, "task.plugin")
    if not issubclass(kind, Kind):
        raise InputError(f"{GROUP}: {name} is {kind.__name__}: expected a class of harness.tasks.base.Kind")
    return kind()


def num_outputs(task: TaskConfig) -> int:
    """Outputs of the task's head."""
    return kind_of(task).num_outputs(task)


def refuse_impossible(task: TaskConfig) -> None:
    """InputError for an invalid task config, with all that is wrong with it."""
    lists = {"fields": task.fields, "labels": task.labels, "scores": task.scores}
    for key, named in lists.items():
        if not all(isinstance(name, str) for name in named):
            raise InputError(f"task.{key}={named} of task {task.name!r} must be a list of names")
    mistakes, choices = Mistakes(), scores.of_kind(task.kind)
    with mistakes.collected():
        if not task.scores:
            raise InputError(f"task.scores of task {task.name!r} is empty; choices: {', '.join(choices)}")
    for score in task.scores:
        with mistakes.collected():
            if score not in scores.SCORES:
                raise unknown("score", score, choices, "task.scores")
            if score not in choices:
                raise InputError(
                    f"task.scores: {score!r} does not fit task {task.name!r}, which is of kind {task.kind.value}; "
                    f"choices: {', '.join(choices)}"
                )
    with mistakes.collected():
        if task.scores and task.headline not in task.scores and {*task.scores} <= {*choices}:
            raise unknown("headline score", task.headline, task.scores, "task.headline")
    for name in task.more_validation:
        with mistakes.collected():
            if name not in metrics.BESIDE:
                raise unknown("name of an additional validation split", name, metrics.BESIDE, "task.more_validation")
    for key, named in lists.items():
        with mistakes.collected():
            if len(set(named)) < len(named):
                raise InputError(f"task.{key}={named} of task {task.name!r} must be different names")
    with mistakes.collected():
        if task.kind is not TaskKind.retrieval and task.label in "+".join(task.fields).split("+"):
            raise InputError(
                f"task.label={task.label} of task {task.name!r} is in task.fields={task.fields}, too: leave it out"
            )
    with mistakes.collected():
        kind_of(task).refuse_impossible(task)
    mistakes.refuse()
