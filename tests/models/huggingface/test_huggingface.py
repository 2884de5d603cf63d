"""Published families against transformers: same hidden states, logits and gradients from the same tensors."""

import contextlib
import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
import transformers
import yaml
from torch.nn import functional as F

from harness.models.batch import Batch
from harness.models.config import Body
from harness.models.heads import SequenceClassifier, build_classifier
from harness.models.huggingface import config_of, load

DATA = yaml.safe_load(Path(__file__).with_name("families.yaml").read_text("utf-8"))

LENGTHS = (60, 37, 13, 1)
VOCABULARY = 50
LABELS = torch.tensor([0, 2, 1, 2])

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
BERT = SIZES | {"num_hidden_layers": 3, "max_position_embeddings": 70}
ALBERT = BERT | {"embedding_size": 16}
ROBERTA = BERT | {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
GPT = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 70, "pad_token_id": 0}
GPT2 = GPT | {"bos_token_id": 2, "eos_token_id": 2}
DISTILBERT = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 70}
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 64, "num_layers": 3}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
MODERN = SIZES | SPECIAL | {"num_hidden_layers": 5}


@dataclass
class Family:
    """A small model of transformers: its class, what its config is told, and how it is called."""

    name: str
    changes: dict = field(default_factory=dict)
    types: bool = False  # whether it is told token types
    lengths: tuple[int, ...] = LENGTHS
    suffix: str = "ForSequenceClassification"
    spread: float = 0.25  # standard deviation of matrices; less where sums are not normed, for float32 to resolve 1e-5

    def config(self) -> transformers.PretrainedConfig:
        return getattr(transformers, f"{self.name}Config")(**self.changes, num_labels=3)

    def build(self) -> transformers.PreTrainedModel:
        """With weights so large that attention is far from uniform."""
        model = getattr(transformers, f"{self.name}{self.suffix}")(self.config()).eval()
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                norm = parameter.dim() == 1 and name.endswith("weight")
                parameter.copy_(1 + 0.1 * noise if norm else self.spread * noise)
        return model


FAMILY = {
    "bert": Family("Bert", BERT, types=True),
    "bert relu": Family("Bert", BERT | {"hidden_act": "relu"}, types=True),
    "albert": Family("Albert", ALBERT, types=True),
    "albert groups": Family("Albert", ALBERT | {"num_hidden_layers": 4, "num_hidden_groups": 2}, types=True),
    "albert 18 layers in 14 groups": Family("Albert", ALBERT | {"num_hidden_layers": 18, "num_hidden_groups": 14}, types=True),
    "roberta": Family("Roberta", ROBERTA),
    "distilbert": Family("DistilBert", DISTILBERT),
    "electra": Family("Electra", BERT | {"embedding_size": 16}, types=True),
    "electra one size": Family("Electra", BERT | {"embedding_size": 32}, types=True),
    "gpt": Family("OpenAIGPT", GPT),
    "gpt2": Family("GPT2", GPT2, spread=0.15),
    "gpt2 unscaled": Family("GPT2", GPT2 | {"scale_attn_weights": False, "n_inner": 40}),
    "t5": Family("T5", T5, lengths=(300, 37, 13, 1), suffix="EncoderModel", spread=0.15),
    "t5 heads of another size": Family(
        "T5", T5 | {"d_kv": 6, "num_heads": 3, "feed_forward_proj": "gated-gelu"}, suffix="EncoderModel", spread=0.15
    ),
    "t5 gated": Family("T5", T5 | {"feed_forward_proj": "gated-gelu"}, suffix="EncoderModel", spread=0.15),
    "t5 stated act": Family("T5", T5 | {"feed_forward_proj": "gated-silu", "dense_act_fn": "relu"}, suffix="EncoderModel"),
    "longformer": Family("Longformer", ROBERTA | {"attention_window": 8}),
    "longformer short": Family("Longformer", ROBERTA | {"attention_window": 32}, lengths=(20, 9, 3, 1)),
    "modernbert": Family("ModernBert", MODERN | {"local_attention": 8}, spread=0.15),
    "modernbert mean": Family(
        "ModernBert", MODERN | {"local_attention": 32, "classifier_pooling": "mean", "mlp_bias": True}, spread=0.15
    ),
}

DEBERTA = SIZES | {"num_hidden_layers": 3, "max_position_embeddings": 24, "relative_attention": True}
DEBERTA |= {"position_biased_input": False, "pos_att_type": ["c2p", "p2c"]}
V3 = DEBERTA | {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
SHORT_TABLE = DEBERTA | {"max_relative_positions": 6, "type_vocab_size": 2, "hidden_act": "relu"}
DISENTANGLED = {
    "deberta": ("Deberta", DEBERTA),
    "deberta short table and types": ("Deberta", SHORT_TABLE),
    "deberta content to position": ("Deberta", DEBERTA | {"pos_att_type": ["c2p"]}),
    "deberta position to content": ("Deberta", DEBERTA | {"pos_att_type": ["p2c"]}),
    "deberta v3": ("DebertaV2", V3),
    "deberta v3 wide buckets": ("DebertaV2", V3 | {"position_buckets": 17, "max_relative_positions": 40}),
    "deberta v3 position to content": ("DebertaV2", V3 | {"pos_att_type": ["p2c"]}),
    "deberta v2 own projections": ("DebertaV2", V3 | {"share_att_key": False, "norm_rel_ebd": "none"}),
    "deberta v2 without buckets": ("DebertaV2", V3 | {"position_buckets": -1, "pooler_hidden_act": "tanh"}),
    "deberta v2 as silent as it may be": ("DebertaV2", DEBERTA),
    "deberta v2 content to position": ("DebertaV2", V3 | {"share_att_key": False, "pos_att_type": ["c2p"]}),
    "deberta v2 position to content": ("DebertaV2", DEBERTA | {"pos_att_type": "p2c"}),
}
ENDS = [(name, length) for name in ("deberta short table and types", "deberta v3") for length in (1, 3, 5, 24)]
FAMILY |= {
    f"{name}, {length}": Family(kind, of, "type_vocab_size" in of, (length, -(-2 * length // 3), -(-length // 4), 1))
    for name, length in [*((name, length) for name in DISENTANGLED for length in (12, 60)), *ENDS]
    for kind, of in [DISENTANGLED[name]]
}
"""Every kind below and above the longest distance of its table, and one of each table at all ends of its buckets."""


def batch_of(family: Family, padding: int) -> Batch:
    """Texts of unlike lengths, padded on the right."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.arange(max(family.lengths)) < torch.tensor(family.lengths)[:, None]
    ids = torch.randint(3, VOCABULARY, mask.shape, generator=generator).masked_fill(~mask, padding)
    types = torch.randint(0, 2, mask.shape, generator=generator) if family.types else None
    return Batch(ids, types, mask, labels=LABELS)


def theirs(family: Family, model: transformers.PreTrainedModel, batch: Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Hidden states and logits, the latter None for a model without a head."""
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask.long(), "output_hidden_states": True}
    if family.types:
        inputs["token_type_ids"] = batch.token_type_ids
    if family.name == "Longformer":
        inputs["global_attention_mask"] = torch.zeros_like(batch.input_ids).index_fill(1, torch.tensor([0]), 1)
    if family.name.startswith("Deberta"):  # it takes numbers of positions from a table that may be too short, and reads none
        inputs["position_ids"] = torch.zeros_like(batch.input_ids)
    given = model(**inputs)
    return list(given.hidden_states), getattr(given, "logits", None)


def loaded(given: dict, state: dict[str, torch.Tensor]) -> tuple[SequenceClassifier, list[str]]:
    model = build_classifier(config_of(given), num_outputs=3, seed=1).eval()
    return model, load(model, state, given)


def loss_of(states: list[torch.Tensor], logits: torch.Tensor | None, batch: Batch) -> torch.Tensor:
    """Cross-entropy, or a fixed direction of the last hidden states where there are no logits."""
    if logits is not None:
        return F.cross_entropy(logits, batch.labels)
    direction = torch.randn(states[-1].shape, generator=torch.Generator().manual_seed(5))
    return (states[-1] * direction * batch.attention_mask[..., None]).sum() / batch.attention_mask.sum()


@pytest.mark.parametrize("name", FAMILY)
def test_family_equals_transformers(name):
    family = FAMILY[name]
    reference = family.build()
    model, fresh = loaded(reference.config.to_dict(), reference.state_dict())
    batch = batch_of(family, reference.config.pad_token_id)
    mask = batch.attention_mask

    states, logits = theirs(family, reference, batch)
    ours = model.encoder.hidden_states(batch)
    assert len(ours) == len(states)
    for mine, wanted in zip(ours, states, strict=True):
        torch.testing.assert_close(mine[mask], wanted[mask], rtol=0, atol=1e-5)
    assert fresh == ([] if logits is not None else [f"head.{kind}" for kind in model.head.state_dict()])
    if logits is not None:
        torch.testing.assert_close(model(batch), logits, rtol=0, atol=1e-5)

    loss_of(states, logits, batch).backward()
    loss_of(ours, None if logits is None else model(batch), batch).backward()
    gradient = model.encoder.embeddings.token_embedding.weight.grad
    wanted = reference.get_input_embeddings().weight.grad
    real = [token for token in range(VOCABULARY) if token != reference.config.pad_token_id]
    assert wanted.abs().max() > 1e-3
    torch.testing.assert_close(gradient[real], wanted[real], rtol=0, atol=1e-4)
    if family.name.startswith("Deberta"):
        distances = reference.deberta.encoder.rel_embeddings.weight.grad
        assert distances.any() or max(family.lengths) == 1
        torch.testing.assert_close(model.encoder.layers.relative.embedding.weight.grad, distances, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["distilbert", "gpt2", "openai-gpt", "t5"])
def test_sizes_by_the_names_of_all_families_are_read(kind):
    sizes = {"hidden_size": 96, "num_attention_heads": 6, "num_hidden_layers": 3}
    ours, theirs = config_of({"model_type": kind} | sizes), transformers.AutoConfig.for_model(kind, **sizes)
    assert [getattr(ours, key) for key in sizes] == [getattr(theirs, key) for key in sizes] == [*sizes.values()]


@pytest.mark.long
@pytest.mark.parametrize("changes", [{}, {"d_kv": 6, "num_heads": 3, "feed_forward_proj": "gated-gelu"}], ids=["", "gated"])
def test_t5_encoder_and_decoder_equal_transformers_where_both_read_the_same_text(changes):
    family = Family("T5", T5 | {"num_decoder_layers": 3} | changes, lengths=(300, 37, 13, 1), suffix="Model", spread=0.15)
    reference = family.build()
    given = reference.config.to_dict() | {"architectures": ["T5Model"]}
    model, fresh = loaded(given, reference.state_dict())
    assert (model.encoder.config.body, fresh) == (Body.encoder_decoder, ["head.weight", "head.bias"])
    batch = batch_of(family, 0)
    mask = batch.attention_mask
    answer = reference(
        input_ids=batch.input_ids,
        attention_mask=mask.long(),
        decoder_input_ids=batch.input_ids,
        decoder_attention_mask=mask.long(),
        output_hidden_states=True,
    )
    states = [*answer.encoder_hidden_states, *answer.decoder_hidden_states[1:]]
    ours = model.encoder.hidden_states(batch)
    assert len(ours) == len(states) == 7
    for mine, theirs_of_layer in zip(ours, states, strict=True):
        torch.testing.assert_close(mine[mask], theirs_of_layer[mask], rtol=0, atol=1e-5)
    loss_of(states, None, batch).backward()
    loss_of(ours, None, batch).backward()
    gradient, expected = model.encoder.embeddings.token_embedding.weight.grad, reference.shared.weight.grad
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(gradient[1:], expected[1:], rtol=0, atol=1e-4)


# What a checkpoint may lack, hold beside, or get wrong


def bert(**changes) -> tuple[dict, dict[str, torch.Tensor]]:
    """config.json and tensors of a small classifier."""
    reference = replace(FAMILY["bert"], changes=BERT | changes).build()
    return reference.config.to_dict(), dict(reference.state_dict())


PRETRAINED = DATA["pretrained"]


@pytest.mark.parametrize("name", PRETRAINED)
def test_pretrained_checkpoint_loads_all_but_the_fresh_parts(name):
    family, fresh_parts = PRETRAINED[name]
    reference = getattr(transformers, name)(FAMILY[family].config())
    model, fresh = loaded(reference.config.to_dict(), reference.state_dict())
    assert fresh == [f"{part}.{tensor}" for part in fresh_parts for tensor in getattr(model, part).state_dict()]
    kept = build_classifier(config_of(reference.config.to_dict()), num_outputs=3, seed=1).state_dict()
    same = {tensor for tensor, value in model.state_dict().items() if value.dim() > 1 and torch.equal(value, kept[tensor])}
    assert same == {tensor for tensor in fresh if kept[tensor].dim() > 1}


def test_causal_buffers_of_old_gpt2_are_left_out():
    reference = FAMILY["gpt2"].build()
    state = reference.state_dict() | {
        "transformer.h.0.attn.bias": torch.ones(1, 1, 70, 70),
        "transformer.h.0.attn.masked_bias": torch.ones(()),
    }
    assert loaded(reference.config.to_dict(), state)[1] == []


def test_finetuned_head_wins_over_the_published_pooler():
    reference = FAMILY["roberta"].build()
    pooler = {
        f"roberta.pooler.dense.{kind}": torch.zeros_like(reference.state_dict()[f"classifier.dense.{kind}"])
        for kind in ("weight", "bias")
    }
    for state in (pooler | reference.state_dict(), reference.state_dict() | pooler):
        model, _ = loaded(reference.config.to_dict(), state)
        assert torch.equal(model.pooler.dense.weight, reference.classifier.dense.weight)


def test_load_names_missing_left_over_and_misshapen_tensors():
    given, state = bert()
    state["bert.encoder.layer.9.output.dense.weight"] = state.pop("bert.encoder.layer.1.output.dense.weight")
    state["unheard_of.weight"] = torch.ones(1)  # beside the encoder, so that it changes nothing
    state["classifier.weight"] = torch.ones(5, 32)
    model = build_classifier(config_of(given), num_outputs=3, seed=1)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="do not fit the model") as error:
        load(model, state, given)
    missing, left_over, misshapen = str(error.value).split("; ")
    assert missing.endswith("missing: encoder.layers.feed_forwards.1.feed_forward.output.weight")
    assert left_over == "left over: encoder.layers.feed_forwards.9.feed_forward.output.weight"
    assert misshapen == "of another shape: head.weight (5, 32) instead of (3, 32)"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_half_a_pooler_is_missing_not_fresh():
    given, state = bert()
    del state["bert.pooler.dense.bias"]
    with pytest.raises(ValueError, match=r"missing: pooler\.dense\.bias$"):
        loaded(given, state)


@pytest.mark.parametrize(("twin", "change", "is_refused"), [("gamma", 0, False), ("gamma", 1, True), ("beta", 1, True)])
def test_two_tensors_for_one_place_must_be_equal(twin, change, is_refused):
    given, state = bert()
    norm = "bert.embeddings.LayerNorm."
    state[norm + twin] = state[norm + {"gamma": "weight", "beta": "bias"}[twin]] + change
    with pytest.raises(ValueError, match="two different tensors for") if is_refused else contextlib.nullcontext():
        loaded(given, state)


# Configs


def test_unknown_model_type_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"model_type='bart' is not one of albert, bert, .*, xlnet"):
        config_of({"model_type": "bart"})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("hidden_size", "768", r"^hidden_size='768': expected a value such as 768$"),
        ("num_hidden_layers", [12], r"^num_hidden_layers=\[12\]: expected a value such as 12$"),
        ("tie_word_embeddings", "false", "^tie_word_embeddings='false': expected a value such as True$"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_key(key, value, said):
    with pytest.raises(ValueError, match=said):
        config_of({"model_type": "bert", key: value})


@pytest.mark.parametrize("ropes", [[1], "x", {"rope_theta": 5e2, "rope_type": "default"}, {"full_attention": [1]}])
def test_modernbert_refuses_other_forms_of_rope_parameters(ropes):
    with pytest.raises(
        ValueError, match=r"rope_parameters=.*: expected an object for each of full_attention, sliding_attention"
    ):
        config_of({"model_type": "modernbert", "rope_parameters": ropes})


@pytest.mark.parametrize("layer_types", [None, ["full_attention", "sliding_attention"] * 2])
def test_modernbert_reads_old_and_new_keys(layer_types):
    old = {"model_type": "modernbert", "global_rope_theta": 5e4, "local_rope_theta": 2e3, "global_attn_every_n_layers": 2}
    config = config_of(old | {"layer_types": layer_types, "num_hidden_layers": 4})
    assert (config.rotary_global_theta, config.rotary_theta, config.global_layer_every) == (5e4, 2e3, 2)


@pytest.mark.parametrize(
    "windows", [{"sliding_window": 8}, {"local_attention": 32, "sliding_window": 8}, {"local_attention": 17}]
)
def test_modernbert_reads_its_window_by_both_names(windows):
    theirs = transformers.ModernBertConfig(**windows)
    assert config_of({"model_type": "modernbert"} | windows).attention_window == 2 * theirs.sliding_window == 16


def test_local_layers_of_modernbert_have_the_theta_of_the_others_where_theirs_is_null():
    config = config_of({"model_type": "modernbert", "global_rope_theta": 5e4, "local_rope_theta": None})
    assert config.rotary_theta == 5e4


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("longformer", ["attention_window"]),
        ("modernbert", ["local_attention", "classifier_pooling", "norm_eps"]),
        ("gpt2", ["n_embd", "vocab_size"]),
        ("t5", ["d_kv", "feed_forward_proj", "dense_act_fn", "layer_norm_epsilon"]),
        ("deberta-v2", ["conv_kernel_size", "max_relative_positions", "norm_rel_ebd", "position_buckets", "layer_norm_eps"]),
    ],
)
def test_null_is_read_as_a_key_that_is_left_out(kind, keys):
    stated = {"model_type": kind} | (DEBERTA if kind == "deberta-v2" else {})
    assert config_of(stated | dict.fromkeys(keys)) == config_of(stated)


def test_single_token_type_serves_texts_of_two():
    family = FAMILY["roberta"]
    reference = family.build()
    model, _ = loaded(reference.config.to_dict(), reference.state_dict())
    batch = batch_of(family, padding=1)
    second = replace(batch, token_type_ids=torch.ones_like(batch.input_ids))
    assert torch.equal(model(second), model(batch))
