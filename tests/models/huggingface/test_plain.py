"""Tensors as a wrapper, another library or an older version has named and stored them."""

import pytest
import torch
from drawn_families import FAMILY, SPANS, TEXT, TOKENS, reference_of
from torch import Tensor

from harness.models.heads import SequenceClassifier, TokenClassifier, on_meta
from harness.models.huggingface import config_of, plain, translated

BARE = "bert."


def published(head: str = TEXT, name: str = "bert") -> tuple[dict[str, Tensor], dict]:
    reference = reference_of(FAMILY[name], head, 1)
    return dict(reference.state_dict()), reference.config.to_dict() | {"architectures": [type(reference).__name__]}


def same(found: dict[str, Tensor], state: dict[str, Tensor]) -> bool:
    return found.keys() == state.keys() and all(torch.equal(found[name], tensor) for name, tensor in state.items())


def test_a_part_that_is_compiled_alone_is_read():
    state, config_json = published()
    found, _ = plain({name.replace("encoder.", "encoder._orig_mod.", 1): tensor for name, tensor in state.items()}, config_json)
    assert same(found, state)


@pytest.mark.parametrize("name", FAMILY)
def test_tensors_of_a_family_are_plain_as_they_are(name):
    state, config_json = published(name=name)
    found, notes = plain(state, config_json)
    assert same(found, state)
    assert notes == []


def test_what_is_outside_of_a_wrapped_model_is_not_read_and_named():
    state, config_json = published()
    wrapped = {f"net.{name}": tensor for name, tensor in state.items()} | {"temperature": torch.ones(1)}
    found, notes = plain(wrapped, config_json)
    assert same(found, state)
    assert "not read, as it is outside of 'net.': temperature" in notes


@pytest.mark.parametrize(("architecture", "is_read"), [("BertForSequenceClassification", True), ("BertModel", False)])
def test_a_head_beside_a_renamed_encoder_is_that_of_the_architecture_or_not_read(architecture, is_read):
    state, config_json = published()
    renamed = {f"encoder.{name.removeprefix(BARE)}" if BARE in name else name: tensor for name, tensor in state.items()}
    found, notes = plain(renamed, config_json | {"architectures": [architecture]})
    assert ("classifier.weight" in found) == is_read
    assert any("outside of 'encoder.': classifier" in note for note in notes) == (not is_read)


def test_two_encoders_in_one_file_are_refused():
    state, config_json = published()
    both = {f"{part}.{name}": tensor for part in ("query", "document") for name, tensor in state.items()}
    with pytest.raises(ValueError, match=r"two encoders, 'query\.bert\.' and 'document\.bert\.': expected the weights of one"):
        plain(both, config_json)


def test_two_tensors_of_one_name_are_refused():
    state, config_json = published()
    with pytest.raises(ValueError, match="expected one model"):
        plain(state | {f"module.{name}": tensor for name, tensor in state.items()}, config_json)


def test_an_embedding_that_is_stored_as_the_output_matrix_alone_is_read():
    state, config_json = published("MaskedLM")
    table = state.pop("bert.embeddings.word_embeddings.weight")
    found, notes = plain(state, config_json)
    assert torch.equal(found["embeddings.word_embeddings.weight"], table)
    assert notes == ["token embedding: cls.predictions.decoder.weight, to which it is tied"]
    assert plain(state, config_json | {"tie_word_embeddings": False}) == (state, [])


def test_whole_numbers_in_place_of_weights_are_refused():
    state, config_json = published()
    state["bert.pooler.dense.weight"] = state["bert.pooler.dense.weight"].to(torch.int8)
    with pytest.raises(ValueError, match=r"no floating-point numbers: pooler\.dense\.weight"):
        translated(on_meta(config_of(config_json), 3), state, config_json)


def test_quantised_weights_are_refused_by_name():
    with pytest.raises(ValueError, match=r"quantization_config=\{'quant_method': 'gptq'\} cannot be expressed"):
        config_of(published()[1] | {"quantization_config": {"quant_method": "gptq"}})


def test_tensors_beside_the_encoder_are_named_and_those_inside_refused():
    state, config_json = published()
    model = on_meta(config_of(config_json), len(state["classifier.weight"]))
    _, notes = translated(model, state | {"projector.weight": torch.ones(2)}, config_json, "classification")
    assert "not read: projector.weight" in notes
    for name in ("bert.adapter.weight", "bert.encoder.layer.0.adapter.weight", "encoder.layer.0.adapter.weight"):
        with pytest.raises(ValueError, match=rf"left over: {name}"):
            translated(model, state | {name: torch.ones(2)}, config_json, "classification")


@pytest.mark.parametrize(("head", "kind"), [(TOKENS, "spans"), (SPANS, "tokens"), (TEXT, "tokens"), (TOKENS, "classification")])
def test_a_head_of_another_kind_of_task_is_new(head, kind):
    state, config_json = published(head)
    ours = SequenceClassifier if kind == "classification" else TokenClassifier
    found, notes = translated(on_meta(config_of(config_json), config_json_outputs(state), ours), state, config_json, kind)
    assert not any(name.startswith("head.") for name in found)
    assert any(note.startswith("new head, as ") for note in notes)


@pytest.mark.parametrize(("head", "kind", "seeing"), [(SPANS, "spans", "all tokens of the question"), (TOKENS, "tokens", "no")])
def test_a_head_of_longformer_that_learned_from_other_global_tokens_is_noted(head, kind, seeing):
    state, config_json = published(head, "longformer")
    model = on_meta(config_of(config_json), config_json_outputs(state), TokenClassifier)
    _, notes = translated(model, state, config_json, kind)
    assert notes[-1].startswith(f"the first token alone sees all, where {seeing}")


def config_json_outputs(state: dict[str, Tensor]) -> int:
    return len(state.get("classifier.weight", state.get("qa_outputs.weight")))


def test_a_task_without_a_head_reads_the_encoder_alone():
    state, config_json = published()
    found, notes = translated(on_meta(config_of(config_json), 1), state, config_json, "similarity")
    assert (all(name.startswith("encoder.") for name in found), notes) == (True, [])
