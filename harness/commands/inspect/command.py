"""The inputs of a model: `python -m harness inspect task=mrpc item=3 [split=validation] [out=FOLDER] [attention=true run=RUN]`.

Prints pieces, segments, positions and labels of one item of a task as a table, and a picture; with weights, the attention too.
`text="The bank was robbed" run=RUN` shows a text of the user in place of an item, and what the run predicts of it.
"""

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from harness.commands.arguments import OF_MODEL, Parser, compose_and_run, group_of, with_a_task
from harness.commands.inspect.request import KEYS, Request, request_of
from harness.errors import InputError, unknown

if TYPE_CHECKING:
    from harness.config.schema import RunConfig


def parse(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Own keys, and what is left for Hydra; InputError without a task."""
    parser = Parser(
        "inspect",
        "Shows the inputs of a model for one item of a task or for a text of yours, as a table and as a picture.",
        "Everything else chooses task, model and tokenizer: task=mrpc model=roberta data=local ...",
        KEYS,
    )
    _, own, choices = parser.parse_composed(arguments)
    if "text" in own:
        return own, choices
    if not any(choice.startswith("task=") for choice in choices):
        raise InputError("task= is missing: expected the task whose item is shown, such as task=mrpc")
    return own, choices


def refuse_unknown(choices: list[str]) -> None:
    """InputError for a key that neither this command nor Hydra has, with the nearest of both."""
    from harness.config import mistakes, schema  # takes 0.2 s, which --help does not need

    known = {*KEYS, *mistakes.groups(), *(field.name for field in fields(schema.RunConfig)), "hydra"}
    for choice in choices:
        if not choice.startswith("-") and group_of(choice) not in known:
            raise unknown("key", group_of(choice), known, "the command line")


def main(arguments: list[str]) -> int:
    """0; InputError for what cannot be read, composed or written."""
    own, choices = parse(arguments)
    request = request_of(own)
    refuse_unknown(choices)
    groups = {group_of(choice) for choice in choices}
    choices = choices if request.text is None else with_a_task(choices)
    return compose_and_run(choices, lambda configs: _show(request, configs, groups))


def _show(request: Request, configs: "list[RunConfig]", groups: set[str]) -> int:
    from harness.commands.inspect import show  # torch and matplotlib: a wrong key is refused before they are loaded

    config = show.resolved(configs)
    if request.text is None:
        print(show.show(request, config, bool(groups & set(OF_MODEL))))
    else:
        config = replace(config, corpus=configs[0].corpus)  # without a pretraining no corpus is kept
        print(show.show_text(request, config, groups))
    return 0
