"""XLNet against transformers' own, and the mathematics that the two share. B sequences, T tokens, D hidden."""

import pytest
import torch
import transformers
from torch import Tensor, nn

from harness.models.batch import Batch
from harness.models.heads import SequenceClassifier
from harness.models.huggingface import FAMILIES, config_of, load

SIZES = {"vocab_size": 60, "d_model": 48, "n_layer": 3, "n_head": 4, "d_inner": 80, "pad_token_id": 5, "num_labels": 3}
FIRST_WORD = 6


def both(**changes) -> tuple[transformers.XLNetForSequenceClassification, SequenceClassifier]:
    """Theirs with large random weights, and ours with the same, both outside training."""
    torch.manual_seed(0)
    theirs = transformers.XLNetForSequenceClassification(transformers.XLNetConfig(**{**SIZES, **changes})).eval()
    for name, parameter in theirs.named_parameters():
        centre = 1.0 if "layer_norm.weight" in name else 0.0
        nn.init.normal_(parameter, centre, 1.0 if "embedding" in name else 0.2)
    config = config_of(theirs.config.to_dict())
    ours = SequenceClassifier(config, SIZES["num_labels"]).eval()
    assert load(ours, theirs.state_dict(), theirs.config.to_dict()) == []
    return theirs, ours


def words(rows: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(B, T) ids without padding and types, the second type last."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_WORD, SIZES["vocab_size"], (rows, length), generator=generator)
    starts = torch.randint(1, length + 1, (rows, 1), generator=generator)
    return ids, (torch.arange(length) >= starts).long()


def padded(lengths: list[int], left: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, types and mask of real tokens, each (B, T)."""
    ids, types = words(len(lengths), max(lengths))
    places, numbers = torch.arange(max(lengths)), torch.tensor(lengths)[:, None]
    mask = places >= max(lengths) - numbers if left else places < numbers
    return ids.masked_fill(~mask, SIZES["pad_token_id"]), types, mask


def assert_near(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def gradient_of_tokens(logits: Tensor, embedding: nn.Embedding) -> Tensor:
    labels = torch.arange(len(logits)) % SIZES["num_labels"]
    return torch.autograd.grad(nn.functional.cross_entropy(logits, labels), embedding.weight)[0]


# Against transformers


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lengths", [[1], [2, 1], [40, 23, 9, 1]])
def test_hidden_states_equal_those_of_transformers(lengths, left):
    theirs, ours = both()
    ids, types, mask = padded(lengths, left)
    expected = theirs(ids, mask.float(), token_type_ids=types, output_hidden_states=True).hidden_states
    states = ours.encoder.hidden_states(Batch(ids, types, mask))
    assert len(states) == len(expected) == SIZES["n_layer"] + 1
    for state, other in zip(states, expected, strict=True):
        assert_near(state[mask], other[mask])


@pytest.mark.parametrize("lengths", [[12, 12], [40, 23, 9, 1]])
@pytest.mark.parametrize("typed", [False, True])
def test_logits_and_gradients_equal_those_of_transformers(lengths, typed):
    theirs, ours = both()
    ids, types, mask = padded(lengths, left=True)  # theirs reads the very last place, padding or not
    expected = theirs(ids, mask.float(), token_type_ids=types if typed else None).logits
    logits = ours(Batch(ids, types if typed else None, mask))
    assert_near(logits, expected)
    gradients = gradient_of_tokens(logits, ours.encoder.embeddings.token_embedding)
    assert gradients.abs().max() > 1e-2
    assert_near(gradients, gradient_of_tokens(expected, theirs.transformer.word_embedding), 1e-4)


@pytest.mark.parametrize("pooling", ["last", "first", "mean"])
def test_each_summary_equals_that_of_transformers_text_by_text(pooling):
    theirs, ours = both(summary_type=pooling)
    ids, _, mask = padded([12, 12, 5, 1], left=False)
    with torch.no_grad():
        alone = torch.cat([theirs(row[real][None]).logits for row, real in zip(ids, mask, strict=True)])
        assert_near(ours(Batch(ids, None, mask)), alone)
        assert_near(ours(Batch(ids[:2])), theirs(ids[:2]).logits)


def drawn_order(rows: int, length: int, targets: int) -> tuple[Tensor, Tensor]:
    """(B, T, T) True where the column is earlier in the drawn order, and the (B, P) places drawn last."""
    generator = torch.Generator().manual_seed(3)
    order = torch.stack([torch.randperm(length, generator=generator) for _ in range(rows)])
    rank = order.argsort(dim=1)
    return rank[:, None, :] < rank[:, :, None], order[:, -targets:]


def one_stream(ids: Tensor, types: Tensor, earlier: Tensor, targets: Tensor) -> Batch:
    """The text with one query appended for each target."""
    rows, length = ids.shape
    number = targets.shape[1]
    content = torch.cat(
        [earlier | torch.eye(length, dtype=torch.bool), torch.zeros(rows, length, number, dtype=torch.bool)], -1
    )
    asked = earlier.gather(1, targets[..., None].expand(-1, -1, length))
    asked = torch.cat([asked, torch.zeros(rows, number, number, dtype=torch.bool)], -1)
    queries = (torch.arange(length + number) >= length).expand(rows, -1)
    return Batch(
        input_ids=torch.cat([ids, torch.full_like(targets, SIZES["pad_token_id"])], 1),
        token_type_ids=torch.cat([types, types.gather(1, targets)], 1),
        attention_mask=torch.cat([content, asked], 1),
        position_ids=torch.cat([torch.arange(length).expand(rows, -1), targets], 1),
        queries=queries,
    )


def test_two_streams_equal_one_with_appended_queries():
    theirs, ours = both()
    ids, types = words(3, 14)
    earlier, targets = drawn_order(3, 14, targets=5)
    mapping = nn.functional.one_hot(targets, 14).float()
    given = {"perm_mask": (~earlier).float(), "target_mapping": mapping, "token_type_ids": types}
    other = theirs.transformer(ids, **given, output_hidden_states=True).hidden_states
    states = ours.encoder.hidden_states(one_stream(ids, types, earlier, targets))
    for state, content, query in zip(states, other[::2], other[1::2], strict=True):
        assert_near(state[:, :14], content)
        assert_near(state[:, 14:], query)


# Checkpoints


def test_a_bare_encoder_and_a_language_model_translate_as_the_classifier_does():
    theirs, ours = both()
    whole = FAMILIES["xlnet"].tensors(theirs.state_dict(), ours.encoder.config)
    expected = {name: value for name, value in whole.items() if name.startswith("encoder.")}
    bare = theirs.transformer.state_dict()
    language_model = {f"transformer.{name}": value for name, value in bare.items()} | {"lm_loss.bias": torch.zeros(60)}
    for state in (bare, language_model):
        translated = FAMILIES["xlnet"].tensors(state, ours.encoder.config)
        assert translated.keys() == expected.keys()
        assert all(torch.equal(translated[name], expected[name]) for name in expected)
