"""Fine-tuned heads of transformers' AutoModelForSequenceClassification, ...ForTokenClassification, ...ForQuestionAnswering.

Those on a text are in the tables of each family; here are those on every token, and what config.json says of any head.
"""

import re

import torch
from torch import Tensor

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
"""What names of architectures contain, by what their head is on."""


def is_on_tokens(config_json: dict) -> bool:
    """Whether config.json names an architecture with a head on every token."""
    return re.search(ON_EVERY_TOKEN, _architecture(config_json)) is not None


def is_of_another_task(state: dict[str, Tensor], config_json: dict, on_tokens: bool) -> bool:
    """Whether the checkpoint's head is for another kind of task than ours; False where nothing says so."""
    architecture = _architecture(config_json)
    text = ON_TEXT in architecture
    tokens = is_on_tokens(config_json) or (not text and "qa_outputs.weight" in state)
    return OF_CHOICES in architecture or (text if on_tokens else tokens)


def published_token_head(state: dict[str, Tensor], config_json: dict, bias: bool) -> dict[str, Tensor]:
    """The linear layer on every token as `head.`, empty where there is none.

    A bias of zeros is left out where ours has none. ValueError for a family that has more layers in it.
    """
    family = config_json["model_type"]
    names = ON_TOKENS.values() if family not in WITHOUT else [ON_TOKENS["tokens"]]
    head = {
        f"head.{kind}": state[f"{name}.{kind}"] for name in names for kind in ("weight", "bias") if f"{name}.{kind}" in state
    }
    if head and family in DEEPER:
        raise ValueError(
            f"model_type={family!r} has a dense layer and a norm between encoder and classifier of a token, which ours has not"
        )
    if not bias and "head.bias" in head and not head["head.bias"].any():
        del head["head.bias"]
    return head


def without_token_heads(state: dict[str, Tensor], family: str) -> dict[str, Tensor]:
    """The other tensors."""
    names = ON_TOKENS.values() if family not in WITHOUT else [ON_TOKENS["tokens"]]
    return {name: tensor for name, tensor in state.items() if name.rpartition(".")[0] not in names}


def _architecture(config_json: dict) -> str:
    return str((config_json.get("architectures") or [""])[0])


def token_head(state: dict[str, Tensor], kind: str, family: str) -> dict[str, Tensor]:
    """The tensors `head.` of a task on tokens under their published names; ValueError for a family without such a head."""
    if family in WITHOUT:
        raise ValueError(f"model_type={family!r} has no head for every token")
    name, weight = ON_TOKENS[kind], state["head.weight"]
    bias = state.get("head.bias", torch.zeros(len(weight), dtype=weight.dtype))  # theirs always has one
    return {f"{name}.weight": weight, f"{name}.bias": bias}


def task_keys(kind: str, labels: list[str], num_outputs: int) -> dict:
    """Keys of config.json: names of the outputs, and the loss."""
    problems = {"classification": "single_label_classification", "regression": "regression"}
    problems["multilabel"] = "multi_label_classification"
    problem = {"problem_type": problems[kind]} if kind in problems else {}
    names = labels or [f"LABEL_{number}" for number in range(num_outputs)]
    by_number = {str(number): name for number, name in enumerate(names)}
    return problem | {"id2label": by_number, "label2id": {name: number for number, name in enumerate(names)}}
