"""Folders of Sentence Transformers: their pooling is followed, or refused by name."""

import json
import shutil
from pathlib import Path

import pytest

from harness.checkpoints.huggingface import folder_of
from harness.checkpoints.sentence_transformers import encoder_folder, longest_text, pooling_of
from harness.errors import InputError
from harness.models.config import Pooling

KEY = "model.init_from"
MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "word_embedding_dimension": 16}


def sentence_transformer(folder: Path, pooling: dict, *more: str, **settings: object) -> None:
    kinds = ["Transformer", "Pooling", *more]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in zip(paths, kinds, strict=True)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if settings:
        (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        (MEAN, Pooling.mean),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, Pooling.cls),
        ({"pooling_mode_max_tokens": True}, Pooling.max),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, Pooling.mean),
        ({"pooling_mode_lasttoken": True}, Pooling.last),
        ({"pooling_mode": "cls"}, Pooling.cls),
    ],
)
@pytest.mark.parametrize("more", [(), ("Normalize",)])
def test_the_pooling_of_sentence_transformers_is_followed(tmp_path, settings, pooling, more):
    sentence_transformer(tmp_path, settings, *more)
    assert pooling_of(tmp_path) is pooling


def test_another_folder_states_no_pooling(tmp_path):
    assert pooling_of(tmp_path) is None
    assert encoder_folder(tmp_path, KEY) == tmp_path


@pytest.mark.parametrize(
    ("pooling", "more", "settings", "message"),
    [
        (MEAN | {"pooling_mode_cls_token": True}, (), {}, "pooling by mean and cls is not supported"),
        ({"pooling_mode_weightedmean_tokens": True}, (), {}, "pooling by weightedmean is not supported"),
        ({}, (), {}, "pooling by none is not supported"),
        ({"pooling_mode": 7}, (), {}, "pooling by 7 is not supported"),
        (MEAN, ("Dense",), {}, "the modules Transformer, Pooling, Dense are not supported"),
        (MEAN, ("Normalize", "Dense"), {}, "the modules Transformer, Pooling, Normalize, Dense are not supported"),
        (MEAN, ("Normalize",), {"truncate_dim": 8}, "truncate_dim=8 is not supported"),
        (MEAN, (), {"prompts": {"query": "query: "}, "default_prompt_name": "query"}, "the default prompt 'query: '"),
        (MEAN, (), {"prompts": ["query: "]}, "expected prompts by name, got ['query: ']"),
        (MEAN, (), {"similarity_fn_name": "dot"}, "similarity_fn_name='dot' is not supported"),
        (MEAN, ("Normalize",), {"similarity_fn_name": "euclidean"}, "similarity_fn_name='euclidean' is not supported"),
    ],
)
def test_other_vectors_are_refused_by_name(tmp_path, pooling, more, settings, message):
    sentence_transformer(tmp_path, pooling, *more, **settings)
    with pytest.raises(InputError) as refused:
        pooling_of(tmp_path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "xlm-roberta"])
def test_letter_case_that_is_changed_before_the_tokenizer_is_refused(tmp_path, kind):
    sentence_transformer(tmp_path, MEAN)
    reading = tmp_path / f"sentence_{kind}_config.json"
    reading.write_text('{"max_seq_length": 64, "do_lower_case": false}')
    assert pooling_of(tmp_path) is Pooling.mean
    assert longest_text(tmp_path) == 64
    reading.write_text('{"max_seq_length": 64, "do_lower_case": true}')
    with pytest.raises(InputError, match=rf"{reading.name}: do_lower_case=true is not supported"):
        pooling_of(tmp_path)


SAVED = {
    "max_seq_length": 64,
    "do_lower_case": False,
    "model_args": {},
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}


@pytest.mark.parametrize(
    "more",
    [
        {"tokenizer_args": {"model_max_length": 4}},
        {"processing_kwargs": {"text": {"add_special_tokens": False}}},
        {"config_args": {"num_hidden_layers": 1}},
        {"tokenizer_name_or_path": "other"},
        {"transformer_task": "fill-mask"},
        {"modality_config": {"text": {"method": "forward", "method_output_name": ["hidden_states", 0]}}},
    ],
)
def test_another_reading_of_texts_is_refused_by_name(tmp_path, more):
    sentence_transformer(tmp_path, MEAN)
    reading = tmp_path / "sentence_bert_config.json"
    reading.write_text(json.dumps(SAVED))
    assert pooling_of(tmp_path) is Pooling.mean
    reading.write_text(json.dumps(SAVED | more))
    with pytest.raises(InputError, match=rf"{reading.name}: {next(iter(more))}=.* is not supported: leave it out"):
        pooling_of(tmp_path)


def test_an_adapter_of_the_encoders_own_folder_is_refused(tmp_path):
    sentence_transformer(tmp_path, MEAN)
    listed = (tmp_path / "modules.json").read_text().replace('"path": "", ', '"path": "0_Transformer", ')
    (tmp_path / "modules.json").write_text(listed)
    (tmp_path / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "adapter_config.json"):
        (tmp_path / "0_Transformer" / name).write_text("{}")
    with pytest.raises(InputError, match="is an adapter"):
        folder_of(str(tmp_path))


def test_a_module_of_the_folders_own_code_is_refused(tmp_path):
    sentence_transformer(tmp_path, MEAN)
    listed = (tmp_path / "modules.json").read_text().replace("sentence_transformers.models.Transformer", "custom.Transformer")
    (tmp_path / "modules.json").write_text(listed)
    with pytest.raises(InputError, match=r"the modules custom\.Transformer, Pooling"):
        pooling_of(tmp_path)


@pytest.mark.parametrize("content", ['{"a": 1}', "[1]", '[{"type": "x"}]', '[{"type": "Transformer", "path": "../.."}]', "{"])
def test_a_list_of_modules_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(InputError, match=r"modules\.json"):
        pooling_of(tmp_path)


def test_a_missing_pooling_is_refused(tmp_path):
    sentence_transformer(tmp_path, MEAN)
    shutil.rmtree(tmp_path / "1_Pooling")
    with pytest.raises(InputError, match=r"1_Pooling/config\.json, which modules\.json names, is missing"):
        pooling_of(tmp_path)
