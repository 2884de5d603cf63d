"""Published weights under a head on every token: the encoder is taken, a pooler is not, and the logits are the publisher's."""

import pytest
import torch
import transformers

from harness.models.batch import Batch
from harness.models.heads import TokenClassifier
from harness.models.huggingface import config_of, load

SIZES = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
MASK = torch.tensor([[True] * 4, [True, True, False, False]])
BATCH = Batch(torch.tensor([[5, 6, 7, 8], [9, 10, 11, 3]]), attention_mask=MASK)


@pytest.fixture
def given() -> transformers.BertConfig:
    torch.manual_seed(0)
    return transformers.BertConfig(**SIZES, num_labels=5)


def test_token_logits_equal_the_publishers(given):
    reference = transformers.BertForTokenClassification(given).eval()
    ours = TokenClassifier(config_of(reference.config.to_dict()), 5).eval()
    assert load(ours, reference.state_dict(), reference.config.to_dict()) == []
    with torch.no_grad():
        theirs = reference(BATCH.input_ids, BATCH.attention_mask.long()).logits
        torch.testing.assert_close(ours(BATCH)[MASK], theirs[MASK], rtol=1e-4, atol=1e-5)


def test_a_pooler_is_left_aside_and_the_head_stays_fresh(given):
    reference = transformers.BertModel(given)
    ours = TokenClassifier(config_of(reference.config.to_dict()), 5)
    before = ours.head.weight.clone()
    assert load(ours, reference.state_dict(), reference.config.to_dict()) == ["head.weight", "head.bias"]
    assert torch.equal(ours.head.weight, before)
    assert torch.equal(ours.encoder.embeddings.token_embedding.weight, reference.embeddings.word_embeddings.weight)
