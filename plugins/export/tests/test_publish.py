"""The way back: our shapes as published configs, our tensors under published names, and published heads for masked tokens."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from omegaconf import OmegaConf
from torch import Tensor, nn

from harness.models.config import Activation, EncoderConfig, Norm, Pooling
from harness.models.heads import MaskedLMHead, SequenceClassifier
from harness.models.huggingface import config_of, masked_head_of
from harness.plugins.export.publish import exported, published, settled

CONF = Path(__file__).resolve().parents[3] / "conf" / "model"
TINY = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}
TINY |= {"max_position_embeddings": 40, "hidden_dropout_prob": 0.05}
DISTANCES = {"max_relative_distance": 24}
FAMILY = {name: name for name in ("albert", "roberta", "distilbert", "electra", "deberta", "gpt2", "t5")}
FAMILY |= {"base": "bert", "mbert": "bert", "factorized": "albert", "deberta_v3": "deberta-v2", "gpt": "openai-gpt"}
"""Our model -> the family that expresses it."""


def shape_of(name: str, **changes: object) -> EncoderConfig:
    """A model of conf/ at tiny dimensions."""
    said = OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml"))
    said = {key: value for key, value in said.items() if key in EncoderConfig.__dataclass_fields__}
    distances = DISTANCES if said.get("position") == "disentangled" else {}
    buckets = {"position_buckets": 8} if "position_buckets" in said else {}
    dropout = {"attention_probs_dropout_prob": TINY["hidden_dropout_prob"]} if name == "t5" else {}  # it has one for all
    given = OmegaConf.merge(OmegaConf.structured(EncoderConfig), said | TINY | distances | buckets | dropout)
    return replace(OmegaConf.to_object(given), **changes)


class Everything(nn.Module):
    """A classifier with the head for masked tokens beside it."""

    def __init__(self, shape: EncoderConfig) -> None:
        super().__init__()
        classifier = SequenceClassifier(shape, num_outputs=3)
        self.encoder, self.pooler, self.head = classifier.encoder, classifier.pooler, classifier.head
        self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding)


def state_of(shape: EncoderConfig) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {name: torch.randn(tensor.shape, generator=generator) for name, tensor in Everything(shape).state_dict().items()}


def of(state: dict[str, Tensor], *parts: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in state.items() if name.startswith(parts)}


@pytest.mark.parametrize("name", FAMILY)
def test_shape_finds_its_family_and_comes_back(name):
    shape = shape_of(name)
    given = published(shape)
    assert given["model_type"] == FAMILY[name]
    assert settled(config_of(given)) == settled(shape)
    assert published(config_of(given)) == given


@pytest.mark.parametrize(("pad", "rows"), [(0, slice(1, None)), (1, slice(None)), (3, slice(-40, None))])
def test_positions_are_moved_to_where_the_family_has_them(pad, rows):
    shape = shape_of("roberta", pad_token_id=pad)
    state, given = state_of(shape), published(shape)
    table = exported(state, shape, given)[0]["roberta.embeddings.position_embeddings.weight"]
    assert len(table) == given["max_position_embeddings"] == shape.longest_text + pad + 1
    ours = state["encoder.embeddings.position_embedding.weight"]
    assert torch.equal(table[pad + 1 :], ours[shape.position_offset :])
    assert torch.equal(table[rows][-38:], ours[-38:])


SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEACHERS = {
    "BertForMaskedLM": transformers.BertConfig(**SIZES),
    "BertForPreTraining": transformers.BertConfig(**SIZES),
    "RobertaForMaskedLM": transformers.RobertaConfig(**SIZES),
    "AlbertForMaskedLM": transformers.AlbertConfig(**SIZES, embedding_size=16),
    "DistilBertForMaskedLM": transformers.DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=4, hidden_dim=64),
}


def test_missing_parts_of_a_published_head_are_named():
    given = TEACHERS["BertForMaskedLM"].to_dict()
    bare = transformers.BertModel(TEACHERS["BertForMaskedLM"]).state_dict()
    with pytest.raises(ValueError, match=r"'bert' .* missing: masked_head\.dense\.bias, .*, masked_head\.output\.bias$"):
        masked_head_of({f"bert.{key}": tensor for key, tensor in bare.items()}, given, config_of(given))
    short = transformers.BertForMaskedLM(TEACHERS["BertForMaskedLM"]).state_dict()
    short["cls.predictions.transform.dense.weight"] = torch.ones(3, 32)
    with pytest.raises(ValueError, match=r"dense\.weight \(3, 32\) instead of \(32, 32\)"):
        masked_head_of(short, given, config_of(given))
    with pytest.raises(ValueError, match="model_type='gpt2' has no head for masked tokens"):
        masked_head_of({}, {"model_type": "gpt2"}, EncoderConfig())


def test_head_with_another_non_linearity_is_left_out():
    shape = shape_of("roberta", hidden_act=Activation.relu, pad_token_id=1)
    given, state = published(shape, "roberta"), state_of(shape)
    del state["masked_head.output.weight"]
    tensors, homeless = exported(state, shape, given)
    assert sorted(homeless) == sorted(of(state, "masked_head."))
    assert not any(name.startswith("lm_head.") for name in tensors)


@pytest.mark.long
def test_tensors_of_no_family_are_homeless():
    shape = shape_of("base")
    state = of(state_of(shape), "encoder.", "pooler.") | {"pair_head.weight": torch.ones(2, 32)}
    given = published(shape)
    tensors, homeless = exported(state, shape, given)
    assert homeless == ["pair_head.weight"]
    assert len(tensors) == len(exported(of(state, "encoder.", "pooler."), shape, given)[0])


@pytest.mark.parametrize("wrong", ["missing", "left over", "of another shape"])
def test_other_encoder_is_refused_by_name(wrong):
    shape = shape_of("base")
    state, name = state_of(shape), "encoder.embeddings.norm.weight"
    if wrong == "missing":
        del state[name]
    elif wrong == "left over":
        state[name := "encoder.embeddings.projection.weight"] = torch.ones(2)
    else:
        state[name] = torch.ones(2)
    with pytest.raises(ValueError, match=rf"^tensors do not fit the encoder: .*{name}"):
        exported(state, shape, published(shape))


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"attention_window": 8}, {"attention_window=8"}),
        ({"num_hidden_groups": 1}, {"num_hidden_groups=1"}),
        ({"gated_feed_forward": True}, {"gated_feed_forward=true"}),
        ({"norm": Norm.rms, "pooling": Pooling.mean}, {"norm=rms", "pooling=mean"}),
        ({"pooler": None}, {"pooler=null"}),
    ],
)
def test_shape_of_no_family_is_refused_with_its_keys(changes, keys):
    with pytest.raises(
        ValueError, match=r"no family expresses this shape \(tried bert, .*, gpt2, t5\): the nearest, bert"
    ) as error:
        published(shape_of("base", **changes))
    assert set(str(error.value).partition("cannot express ")[2].replace("model.", "").split(", ")) == keys


def test_wanted_family_says_what_it_lacks():
    with pytest.raises(ValueError, match=r"^gpt2 cannot express .*model\.type_vocab_size=2.*model\.pooler=tanh"):
        published(shape_of("base"), "gpt2")
    with pytest.raises(ValueError, match="family='longformer' is not one of bert, "):
        published(shape_of("base"), "longformer")
    assert published(shape_of("roberta"), "bert")["model_type"] == "bert"
