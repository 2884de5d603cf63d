"""Every head that is read from a published checkpoint, against transformers' logits, over drawn configs of every family.

What cannot be read is refused by name; nothing is read as something else.
"""

import re
from collections.abc import Callable

import pytest
import torch
import transformers
from drawn_families import FAMILY, MASKED, SPANS, TEXT, TOKENS, UNREADABLE, batch_of, logits_of, reference_of
from torch import Tensor

from harness.models.batch import Batch
from harness.models.heads import Classifier, MaskedLMHead, SequenceClassifier, TokenClassifier
from harness.models.huggingface import FAMILIES, config_of, load, masked_head_of

PAIRS = [pytest.param(name, head, id=f"{name}-{head}") for name, family in FAMILY.items() for head in family.heads]


def test_every_family_is_drawn():
    assert FAMILY.keys() == FAMILIES.keys()


def read(reference: transformers.PreTrainedModel, head: str) -> Callable[[Batch], Tensor]:
    """The checkpoint as ours reads it; ValueError for one that it cannot."""
    published = reference.config.to_dict() | {"architectures": [type(reference).__name__]}
    state, shape = dict(reference.state_dict()), config_of(published)
    if head == MASKED:
        found = masked_head_of(state, published, shape)
        model = SequenceClassifier(shape, 1).eval()
        load(model, state, published)
        masked = MaskedLMHead(shape, torch.nn.Embedding(shape.vocab_size, shape.embedding_width)).eval()
        masked.load_state_dict({name.removeprefix("masked_head."): tensor for name, tensor in found.items()})
        return lambda batch: masked(model.encoder(batch))
    kind = SequenceClassifier if head == TEXT else TokenClassifier
    model: Classifier = kind(shape, reference.config.num_labels).eval()
    assert load(model, state, published) == []  # nothing stays randomly initialised
    return model


def compared(name: str, head: str, seed: int) -> str:
    """`equal`, or why the checkpoint is refused; AssertionError where it is read as something else."""
    family = FAMILY[name]
    reference = reference_of(family, head, seed)
    try:
        ours = read(reference, head)
    except ValueError as error:
        return str(error)
    batch = batch_of(family, reference.config.pad_token_id)
    with torch.inference_mode():
        found, expected = ours(batch), logits_of(reference, batch)
    real = slice(None) if head == TEXT else batch.attention_mask
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-4)
    return "equal"


def assert_read_or_refused(name: str, head: str, enough: int) -> None:
    """Until as many drawn checkpoints as are enough are read; those on the way are refused, naming a key."""
    outcomes: list[str] = []
    while outcomes.count("equal") < enough and len(outcomes) < 8 * enough:
        outcomes.append(compared(name, head, seed=len(outcomes)))
    refused = [outcome for outcome in outcomes if outcome != "equal"]
    assert all(re.match(r"\w+=", outcome) for outcome in refused), refused
    if (name, head) in UNREADABLE:
        assert refused == outcomes
        assert sum(f"model_type={name!r}" in outcome for outcome in refused) >= enough
    else:
        assert outcomes.count("equal") == enough, refused


@pytest.mark.parametrize(("name", "head"), PAIRS)
def test_a_published_head_is_read_as_transformers_computes_it_or_refused(name, head):
    assert_read_or_refused(name, head, enough=1)


@pytest.mark.long
@pytest.mark.parametrize(("name", "head"), PAIRS)
def test_it_is_over_many_configs(name, head):
    assert_read_or_refused(name, head, enough=25)


HEADED = ("bert", "roberta", "distilbert", "modernbert", "gpt2", "deberta")


@pytest.mark.parametrize("name", HEADED)
@pytest.mark.parametrize(
    ("trained", "ours"), [(TEXT, TokenClassifier), (TOKENS, SequenceClassifier), (SPANS, SequenceClassifier)]
)
def test_a_head_of_another_task_is_not_read_though_it_has_the_shape(name, trained, ours):
    seeds = (reference_of(FAMILY[name], trained, seed) for seed in range(20))
    reference = next(one for one in seeds if one.config.num_labels == 2 and _is_expressible(one))
    published = reference.config.to_dict() | {"architectures": [type(reference).__name__]}
    model = ours(config_of(published), 2)
    fresh = load(model, dict(reference.state_dict()), published)
    assert {"head.weight"} <= set(fresh)
    assert all(name.startswith(("head.", "pooler.")) for name in fresh)
    assert torch.equal(model.encoder.embeddings.token_embedding.weight, reference.get_input_embeddings().weight)


def _is_expressible(reference: transformers.PreTrainedModel) -> bool:
    try:
        config_of(reference.config.to_dict())
    except ValueError:
        return False
    return True
