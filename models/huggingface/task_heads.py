"""Fine-tuned heads of transformers' AutoModelForSequenceClassification, ...ForTokenClassification, ...ForQuestionAnswering.

Those on a text are in the tables of each family; here are those on every token, and what config.json says of any head.
"""

import re
import unicodedata
from collections.abc import Sequence

from torch import Tensor

from harness.errors import InputError, some_of
from harness.models.huggingface.names import ConfigJson

ON_TOKENS = {"tokens": "classifier", "spans": "qa_outputs"}
"""Kind of task -> name of its linear layer on every token, in all families."""

WITHOUT = ("openai-gpt", "t5")
"""Families that have no such class, or one with more than a linear layer on the encoder."""

DEEPER = ("modernbert",)
"""Families whose heads on every token are more than a linear layer."""

ON_TEXT, OF_CHOICES, ON_EVERY_TOKEN = (
    "ForSequenceClassification",
    "ForMultipleChoice",
    "For(TokenClassification|QuestionAnswering)",
)
"""Substrings of architecture names, by what their head is on."""


PROBLEMS = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multilabel": "multi_label_classification",
}
"""Kind of task on a text -> `problem_type` of config.json."""

NAMING = ("classification", "multilabel", "tokens")
"""Kinds of tasks whose outputs have names."""

PLACEHOLDER = r"LABEL_\d+"
"""Name that transformers gives to an unnamed row."""

NAMED = 4
"""Names of outputs that a note lists."""


def is_on_tokens(config_json: ConfigJson) -> bool:
    """Whether config.json names an architecture with a head on every token."""
    return re.search(ON_EVERY_TOKEN, architecture(config_json)) is not None


def is_of_another_task(state: dict[str, Tensor], config_json: ConfigJson, on_tokens: bool, kind: str | None) -> bool:
    """Whether the checkpoint's head is for another kind of task than ours, `kind`; False where nothing says so."""
    named, problem = architecture(config_json), config_json.get("problem_type")
    text = ON_TEXT in named
    tokens = is_on_tokens(config_json) or (not text and "qa_outputs.weight" in state)
    if kind in PROBLEMS and problem in PROBLEMS.values() and problem != PROBLEMS[kind]:
        return True
    if kind == "multiple_choice":
        return OF_CHOICES not in named and bool(named or problem)
    return OF_CHOICES in named or (text if on_tokens else tokens)


def names_of_rows(config_json: ConfigJson) -> dict[int, str]:
    """Row of a head -> its name by `id2label`, else by `label2id` where that alone has others than LABEL_0, LABEL_1, ..."""
    by_number, by_name = _by_number(config_json.get("id2label")), _by_number(config_json.get("label2id"), is_inverse=True)
    return by_name if by_name and all(re.fullmatch(PLACEHOLDER, name) for name in by_number.values()) else by_number


def _by_number(stated: object, is_inverse: bool = False) -> dict[int, str]:
    """A list, or an object of numbers and names, in the order of the numbers; empty for anything else."""
    pairs = [*(enumerate(stated) if isinstance(stated, list) else stated.items() if isinstance(stated, dict) else ())]
    pairs = [(number, name) for name, number in pairs] if is_inverse else pairs
    if not all(re.fullmatch(r"\d{1,9}", str(number), re.ASCII) for number, _ in pairs):
        if is_inverse:
            return {}
        raise InputError(f"config.json: id2label={stated!r:.60}: expected numbers of rows with their names")
    return dict(sorted((int(number), str(name)) for number, name in pairs))


def rows_of(
    config_json: ConfigJson, published: int, expected: int, kind: str | None, labels: Sequence[str]
) -> tuple[list[int] | None, str]:
    """The published row of each of our outputs, None where the head is new, and a note that says why.

    Rows go by the names in config.json. LABEL_0, LABEL_1, ... number them alone, and so do labels that are numbers.
    """
    stated, numbers = names_of_rows(config_json), range(published)
    is_named = {*numbers} <= stated.keys()
    names = [stated[number] for number in numbers] if is_named else []
    if published != expected:
        return None, f"new head of {expected}, as the published one is for {some_of(names, NAMED) or f'{published} outputs'}"
    if kind not in NAMING or not labels:
        return [*numbers], "head as published"
    if stated and not is_named:
        listing = some_of([*map(str, stated)], NAMED)
        return None, f"new head, as config.json names rows {listing} and the published one has 0 to {published - 1}"
    for folded in (str, _folded):
        theirs, ours = [folded(name) for name in names], [folded(label) for label in labels]
        if {*theirs} == {*ours} and len({*theirs}) == published:
            rows = [theirs.index(label) for label in ours]
            return rows, f"head: {some_of([f'row {row} is {names[row]}' for row in rows], NAMED)}"
    if not names or sorted(names) == sorted(f"LABEL_{number}" for number in numbers):
        rows = [names.index(f"LABEL_{number}") if names else number for number in numbers]
        return rows, f"head: config.json names none of its rows, in their order they are {some_of(labels, NAMED)}"
    if [*labels] == [*map(str, numbers)]:
        return [*numbers], f"head: labels are numbers of its rows, which are {some_of(names, NAMED)}"
    return None, f"new head, as the published one is for {some_of(names, NAMED)}, not {some_of(labels, NAMED)}"


def _folded(name: str) -> str:
    """The name without differences of letter case, blanks, hyphens and how Unicode writes a letter."""
    return re.sub(r"[\s_-]+", "_", unicodedata.normalize("NFKC", name).strip().casefold())


def published_token_head(state: dict[str, Tensor], config_json: ConfigJson, bias: bool, kind: str | None) -> dict[str, Tensor]:
    """The linear layer on every token as `head.`, empty where there is none for the kind of task.

    A bias of zeros is left out where ours has none. ValueError for a family that has more layers in it.
    """
    family = config_json["model_type"]
    names = [name for task, name in ON_TOKENS.items() if kind in (None, task) and (family not in WITHOUT or task == "tokens")]
    head = {
        f"head.{kind}": state[f"{name}.{kind}"] for name in names for kind in ("weight", "bias") if f"{name}.{kind}" in state
    }
    if head and family in DEEPER:
        raise ValueError(
            f"model_type={family!r} has a dense layer and a norm between encoder and token classifier, which ours lacks"
        )
    if not bias and "head.bias" in head and not head["head.bias"].any():
        del head["head.bias"]
    return head


def architecture(config_json: ConfigJson) -> str:
    """The class that config.json names; empty where it names none."""
    return str((config_json.get("architectures") or [""])[0])
