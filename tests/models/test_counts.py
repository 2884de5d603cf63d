"""Parameters of the variants in conf/ at published dimensions, to the last weight."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
import yaml
from omegaconf import OmegaConf
from torch import nn
from variant_files import merged, variant

from harness.models.config import Body, EncoderConfig
from harness.models.heads import MaskedLMHead, SequenceClassifier
from harness.models.huggingface import config_of

ROOT = Path(__file__).parents[2]
DATA = yaml.safe_load(Path(__file__).with_name("counts.yaml").read_text())
COUNTED = DATA["counted"]
ROWS = [(name, row) for name, found in COUNTED.items() for row in found["rows"]]
OVERRIDES = {
    # The reference counts this one row with a single token type.
    ("mini-bert", "encoder"): {"type_vocab_size": 1},
    ("t5-base", "encoder_and_decoder"): {"body": "encoder_decoder"},
}


def reference_counts() -> dict[str, dict]:
    """Counts by model; empty where the reference is not beside the repository and HARNESS_SHARED does not say where."""
    folders = [ROOT.parent / "shared", *(Path(folder) for folder in [os.environ.get("HARNESS_SHARED")] if folder)]
    for folder in folders:
        path = folder / "reference" / "parameters.json"
        if path.exists():
            return json.loads(path.read_text())["counts"]
    return {}


COUNTS = reference_counts()
needs_counts = pytest.mark.skipif(
    not COUNTS, reason="no reference/parameters.json in ../shared beside the repository nor in HARNESS_SHARED"
)


def published(name: str, row: str) -> EncoderConfig:
    """The configuration that the files of a model make together."""
    parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in COUNTED[name]["files"]]
    return merged(*parts, OVERRIDES.get((name, row), {}))


def counted(*modules: nn.Module) -> int:
    """Weights of all modules, each tensor once."""
    return sum(parameter.numel() for parameter in nn.ModuleList(modules).parameters())


def count_of(config: EncoderConfig, row: str) -> int:
    """Weights of the parts that a row of the reference is about."""
    config.tie_masked_lm_head = row != "masked_lm_untied"
    with torch.device("meta"):
        model = SequenceClassifier(config, num_outputs=2)
        masked_lm = MaskedLMHead(config, model.encoder.embeddings.token_embedding)
        next_sentence = nn.Linear(config.hidden_size, 2)
    parts = {
        "encoder": (model.encoder,),
        "encoder_and_decoder": (model.encoder,),
        "encoder_and_pooler": (model.encoder, model.pooler),
        "sequence_classification_2": (model,),
        "masked_lm_tied": (model.encoder, masked_lm),
        "masked_lm_untied": (model.encoder, masked_lm),
        "mlm_and_nsp": (model.encoder, masked_lm, model.pooler, next_sentence),
    }
    return counted(*parts[row])


@needs_counts
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_parameters_equal_the_published_count(name, row):
    config = published(name, row)
    # Untied, the published head carries a second bias over the vocabulary that its forward pass never reads.
    unread = config.vocab_size if row == "masked_lm_untied" else 0
    assert count_of(config, row) == COUNTS[name][row] - unread


@needs_counts
def test_every_count_of_a_listed_model_is_compared():
    listed = {(name, row) for name in COUNTED for row in COUNTS[name] if row != "config"}
    assert listed - set(ROWS) == set()


def test_distilbert_is_half_as_deep_at_every_scale():
    for scale in ("tiny", "mini", "base", "large"):
        parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in (f"scale/{scale}", "model/distilbert")]
        config = merged(*parts)
        assert 2 * config.depth == config.num_hidden_layers


# Everything else that a published config says

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
NAMES = {
    "T5": ("d_model", "num_layers", "num_heads", "d_ff"),
    "GPT2": ("n_embd", "n_layer", "n_head", "n_inner"),
    "XLNet": ("d_model", "n_layer", "n_head", "d_inner"),
}
"""What a family calls these four."""
UNREAD = {"T5": {"max_position_embeddings": 512}}
"""Keys of ours that nothing reads in a family."""


def resolved(config: EncoderConfig) -> EncoderConfig:
    """With values in place of the rules that they follow from; the padding token is the tokenizer's affair."""
    return replace(
        config,
        pad_token_id=0,
        embedding_size=config.embedding_width,
        embedding_fraction=1.0,
        num_hidden_layers=config.depth,
        depth_fraction=1.0,
        num_hidden_groups=config.groups if config.body is Body.transformer else None,  # others share nothing
        feed_forward_size=config.feed_forward_width,
        intermediate_size=1,
        classifier_dropout=config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout,
    )


@pytest.mark.parametrize(("name", "scale", "family", "settings"), DATA["published"])
def test_variant_says_what_the_published_config_says(name, scale, family, settings):
    names = dict(zip(SIZES, NAMES.get(family, SIZES), strict=True))
    given = getattr(transformers, f"{family}Config")(
        **{names.get(key, key): value for key, value in settings.items()}
    ).to_dict()
    unread = UNREAD.get(family, {}) | ({"pooling": "mean"} if name == "t5_full" else {})
    assert resolved(variant(name, scale, **unread)) == resolved(config_of(given))


@pytest.mark.long
def test_albert_large_and_modernbert_have_their_published_counts():
    """A classifier of two classes on ALBERT-large; ModernBERT's encoders, as transformers counts them."""
    assert count_of(variant("albert", "large"), "sequence_classification_2") == 17_686_018
    settings = {scale: found for name, scale, _, found in DATA["published"] if name == "modern"}
    for scale in ("base", "large"):
        with torch.device("meta"):
            theirs = transformers.ModernBertModel(transformers.ModernBertConfig(**settings[scale]))
        assert count_of(variant("modern", scale), "encoder") == theirs.num_parameters()
