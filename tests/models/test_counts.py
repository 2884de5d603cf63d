"""Parameters of the variants in conf/ at published dimensions, to the last weight."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from omegaconf import OmegaConf
from torch import nn
from variant_files import merged, variant

from harness.models.config import Body, EncoderConfig
from harness.models.heads import MaskedLMHead, SequenceClassifier
from harness.models.huggingface import config_of

ROOT = Path(__file__).parents[2]
FILES = {
    "bert-base": ("scale/base", "model/base"),
    "bert-large": ("scale/large", "model/base"),
    "mbert-cased": ("scale/base", "model/mbert"),
    "albert-base": ("scale/base", "model/albert"),
    "roberta-base": ("scale/base", "model/roberta"),
    "roberta-large": ("scale/large", "model/roberta"),
    "distilbert-base": ("scale/base", "model/distilbert"),
    "electra-small": ("scale/electra_small", "model/electra"),
    "electra-base": ("scale/base", "model/electra"),
    "electra-large": ("scale/large", "model/electra"),
    "gpt": ("scale/base", "model/gpt"),
    "gpt2": ("scale/base", "model/gpt2"),
    "t5-base": ("scale/base", "model/t5"),
    "longformer-base": ("scale/base", "model/longformer"),
    "modernbert-base": ("scale/base", "model/modern", "model/published/modern_base"),
    "deberta-base": ("scale/base", "model/deberta"),
    "deberta-v3-base": ("scale/base", "model/deberta_v3"),
    "xlnet-base": ("scale/base", "model/xlnet"),
    "mini-bert": ("scale/mini_bert", "model/base"),
    "larger-bert": ("scale/larger_bert", "model/base"),
}
ROWS = dict.fromkeys(FILES, ("encoder",)) | {
    "bert-base": ("encoder", "encoder_and_pooler", "sequence_classification_2", "masked_lm_tied", "mlm_and_nsp"),
    "bert-large": ("encoder", "encoder_and_pooler"),
    "mbert-cased": ("encoder_and_pooler",),
    "albert-base": ("encoder", "encoder_and_pooler", "sequence_classification_2"),
    "roberta-base": ("encoder", "encoder_and_pooler"),
    "roberta-large": ("encoder_and_pooler",),
    "longformer-base": ("encoder_and_pooler",),
    "t5-base": ("encoder", "encoder_and_decoder"),
    "mini-bert": ("encoder", "masked_lm_tied"),
    "larger-bert": ("encoder", "masked_lm_tied", "masked_lm_untied"),
}
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
    parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in FILES[name]]
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
@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in ROWS.items() for row in rows])
def test_parameters_equal_the_published_count(name, row):
    config = published(name, row)
    # Untied, the published head carries a second bias over the vocabulary that its forward pass never reads.
    unread = config.vocab_size if row == "masked_lm_untied" else 0
    assert count_of(config, row) == COUNTS[name][row] - unread


@needs_counts
def test_every_count_of_a_listed_model_is_compared():
    listed = {(name, row) for name in FILES for row in COUNTS[name] if row != "config"}
    assert listed - {(name, row) for name, rows in ROWS.items() for row in rows} == set()


def test_distilbert_is_half_as_deep_at_every_scale():
    for scale in ("tiny", "mini", "base", "large"):
        parts = [OmegaConf.load(ROOT / "conf" / f"{file}.yaml") for file in (f"scale/{scale}", "model/distilbert")]
        config = merged(*parts)
        assert 2 * config.depth == config.num_hidden_layers


# Everything else that a published config says

SIZES = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}
NAMES = {
    "T5": ("d_model", "num_layers", "num_heads", "d_ff"),
    "GPT2": ("n_embd", "n_layer", "n_head", "n_inner"),
    "XLNet": ("d_model", "n_layer", "n_head", "d_inner"),
}
"""What a family calls these four."""
BPE = {"vocab_size": 50265, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
DEBERTA = {"type_vocab_size": 0, "relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]}
DEBERTA |= {"max_relative_positions": -1, "max_position_embeddings": 512}
V3 = DEBERTA | {"position_buckets": 256, "share_att_key": True, "norm_rel_ebd": "layer_norm", "vocab_size": 128100}
WITHOUT_TABLE = {"max_position_embeddings": 512}
PUBLISHED = {
    ("base", "base"): ("Bert", SIZES["base"], {}),
    ("base", "large"): ("Bert", SIZES["large"], {}),
    ("albert", "base"): ("Albert", SIZES["base"] | {"embedding_size": 128}, {}),
    ("albert", "large"): ("Albert", SIZES["large"] | {"embedding_size": 128}, {}),
    ("roberta", "base"): ("Roberta", SIZES["base"] | BPE | {"max_position_embeddings": 514}, {}),
    ("roberta", "large"): ("Roberta", SIZES["large"] | BPE | {"max_position_embeddings": 514}, {}),
    ("mbert", "base"): ("Bert", SIZES["base"] | {"vocab_size": 119547}, {}),
    ("distilbert", "base"): ("DistilBert", {}, {}),
    ("electra", "base"): ("Electra", SIZES["base"] | {"embedding_size": 768}, {}),
    ("electra", "large"): ("Electra", SIZES["large"] | {"embedding_size": 1024}, {}),
    ("electra", "electra_small"): ("Electra", {}, {}),
    ("gpt", "base"): ("OpenAIGPT", {}, {}),
    ("gpt2", "base"): ("GPT2", {}, {}),
    ("gpt2", "large"): ("GPT2", SIZES["large"], {}),
    ("t5", "base"): ("T5", SIZES["base"], WITHOUT_TABLE),
    ("t5", "large"): ("T5", SIZES["large"], WITHOUT_TABLE),
    ("t5_full", "base"): ("T5", SIZES["base"] | {"architectures": ["T5Model"]}, WITHOUT_TABLE | {"pooling": "mean"}),
    ("t5_full", "large"): ("T5", SIZES["large"] | {"architectures": ["T5Model"]}, WITHOUT_TABLE | {"pooling": "mean"}),
    ("longformer", "base"): ("Longformer", SIZES["base"] | BPE | {"max_position_embeddings": 4098}, {}),
    ("longformer", "large"): ("Longformer", SIZES["large"] | BPE | {"max_position_embeddings": 4098}, {}),
    ("modern", "base"): ("ModernBert", {}, {}),
    ("modern", "large"): ("ModernBert", SIZES["large"] | {"num_hidden_layers": 28, "intermediate_size": 2624}, {}),
    ("deberta", "base"): ("Deberta", SIZES["base"] | DEBERTA | {"vocab_size": 50265}, {}),
    ("deberta", "large"): ("Deberta", SIZES["large"] | DEBERTA | {"vocab_size": 50265}, {}),
    ("deberta_v3", "base"): ("DebertaV2", SIZES["base"] | V3, {}),
    ("deberta_v3", "large"): ("DebertaV2", SIZES["large"] | V3, {}),
    ("xlnet", "base"): ("XLNet", SIZES["base"], {}),
    ("xlnet", "large"): ("XLNet", SIZES["large"], {}),
}
"""Variant and scale -> family, what its config.json says beside the family's defaults, and keys that nothing reads there."""


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


@pytest.mark.parametrize(("name", "scale"), PUBLISHED)
def test_variant_says_what_the_published_config_says(name, scale):
    family, settings, unread = PUBLISHED[name, scale]
    sizes = dict(zip(SIZES["base"], NAMES.get(family, SIZES["base"]), strict=True))
    settings = {sizes.get(key, key): value for key, value in settings.items()}
    given = getattr(transformers, f"{family}Config")(**settings).to_dict()
    assert resolved(variant(name, scale, **unread)) == resolved(config_of(given))


def test_albert_large_and_modernbert_have_their_published_counts():
    """A classifier of two classes on ALBERT-large; ModernBERT's encoders, as transformers counts them."""
    assert count_of(variant("albert", "large"), "sequence_classification_2") == 17_686_018
    for scale, settings in (("base", {}), ("large", SIZES["large"] | {"num_hidden_layers": 28, "intermediate_size": 2624})):
        with torch.device("meta"):
            theirs = transformers.ModernBertModel(transformers.ModernBertConfig(**settings))
        assert count_of(variant("modern", scale), "encoder") == theirs.num_parameters()
