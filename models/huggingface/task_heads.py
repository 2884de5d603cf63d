"""Fine-tuned heads as transformers' AutoModelForSequenceClassification, ...ForTokenClassification, ...ForQuestionAnswering read
them. Those on a text are in the tables of each family; here are those on every token, and what config.json says of any head.
"""

import torch
from torch import Tensor

ON_TOKENS = {"tokens": "classifier", "spans": "qa_outputs"}
"""Kind of task -> name of its linear layer on every token, in all families."""

WITHOUT = ("openai-gpt", "t5")
"""Families that have no such class, or one with more than a linear layer on the encoder."""


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
    problem = {"problem_type": problems[kind]} if kind in problems else {}
    names = labels or [f"LABEL_{number}" for number in range(num_outputs)]
    by_number = {str(number): name for number, name in enumerate(names)}
    return problem | {"id2label": by_number, "label2id": {name: number for number, name in enumerate(names)}}
