"""Published weights through the user's door: a folder as `save_pretrained` writes it, with its own tokenizer files."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from published_bert import PIECES, save_bert
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertModel, T5Config, T5ForConditionalGeneration

from harness.checkpoints import huggingface as loading
from harness.checkpoints import start
from harness.config.resolve import resolve
from harness.errors import InputError
from harness.models.heads import build_classifier
from harness.study.identity import Identity, Inputs, content_of
from harness.study.plan import plan


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A small BERT classifier with a vocabulary of letters."""
    return save_bert(tmp_path / "published")


def config_of(compose, folder: Path, *more: str):
    """The config of a checkpoint, its output beside it."""
    (composed,) = compose(
        "task=bag", "task.max_length=64", f"model.init_from={folder}", f"output={folder.parent / 'out'}", *more
    )
    return composed


def resolved(config):
    """As it runs, but for the vocabulary."""
    return resolve(config, start.read(config))


def print_of(config) -> str:
    """The run's fingerprint, with the content of its weights."""
    config = resolved(config)
    return Identity(config, Inputs(data="key", content=content_of(config, None, None, None, None))).fingerprint


@pytest.mark.long
def test_shape_and_tokenizer_are_the_checkpoints(compose, published):
    adopted = resolved(config_of(compose, published))
    assert (adopted.model.hidden_size, adopted.model.num_hidden_layers, adopted.model.vocab_size) == (32, 2, len(PIECES))
    assert adopted.published == adopted.model
    assert (adopted.tokenizer.file, adopted.tokenizer.vocab_file) == (str(published), None)
    assert adopted.tokenizer.lowercase


@pytest.mark.long
def test_weights_are_loaded_and_fresh_ones_named(compose, published):
    from harness.study.execute import _build

    given = load_file(published / "model.safetensors")
    model = _build(resolved(config_of(compose, published)), Inputs(data="key"))
    assert torch.equal(model.encoder.embeddings.token_embedding.weight, given["bert.embeddings.word_embeddings.weight"])
    assert torch.equal(model.head.weight, given["classifier.weight"])
    BertModel.from_pretrained(published, add_pooling_layer=False).save_pretrained(published)
    origins = loading.load_weights(resolved(config_of(compose, published)), model)
    assert {name.split(".")[0] for name, origin in origins.items() if origin.kind == "random"} == {"pooler", "head"}


@pytest.mark.long
def test_a_run_trains_from_a_checkpoint(published, tmp_path, run_harness, small, output):
    more = ["task.max_length=64", f"model.init_from={published}", "measure=none", f"output={output}"]
    done = run_harness(*(setting for setting in small if not setting.startswith("scale=")), *more)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = next((output / "default").glob("*/run.json")).parent
    result = json.loads((folder / "result.json").read_text())
    assert result["metrics"]["model/params_component_token_embedding"] == len(PIECES) * 32
    log = (folder / "log.txt").read_text()
    assert "tensors kept" in log
    assert "tensors random" not in log


def test_a_name_of_the_hub_is_read_where_its_weights_were_put_and_another_owners_is_not(published, tmp_path, monkeypatch):
    put = tmp_path / ".cache" / "published"
    monkeypatch.setattr(loading, "PUBLISHED", put)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copytree(published, put / "owner" / "name")
    assert loading.folder_of("owner/name") == put / "owner" / "name"
    for name in ("other/name", "name", "../published", "sentence-transformers/all-mpnet-base-v2"):
        with pytest.raises(InputError, match=r"is not a folder and cannot be downloaded.*set it to a folder$"):
            loading.folder_of(name)
    (tmp_path / "Makefile").touch()
    with pytest.raises(InputError, match="set it to a folder, or run `make published ARGS=mpnet`"):
        loading.folder_of("sentence-transformers/all-mpnet-base-v2")


@pytest.mark.long
def test_other_weights_are_another_run(compose, published):
    composed = config_of(compose, published)
    before = print_of(composed)
    weights = load_file(published / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + 1
    save_file(weights, published / "model.safetensors")
    assert print_of(composed) != before


@pytest.mark.long
def test_the_folder_of_the_same_weights_does_not_matter(compose, published, tmp_path):
    shutil.copytree(published, tmp_path / "copy")
    prints = []
    for folder in (published, tmp_path / "copy"):
        composed = replace(config_of(compose, folder), arm="same")
        prints.append(print_of(composed))
    assert prints[0] == prints[1]


def broken(folder: Path, how: str) -> None:
    weights = load_file(folder / "model.safetensors")
    if how == "missing":
        del weights["bert.encoder.layer.1.output.dense.weight"]
    elif how == "left over":
        weights["bert.encoder.layer.1.surprise.weight"] = torch.zeros(2)
    else:
        weights["bert.encoder.layer.0.intermediate.dense.bias"] = torch.zeros(3)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "named"),
    [("missing", "feed_forwards.1"), ("left over", "surprise.weight"), ("of another shape", r"\(3,\) instead of \(64,\)")],
)
def test_tensors_that_do_not_fit_are_named(compose, published, how, named):
    broken(published, how)
    with pytest.raises(InputError, match=rf"model\.init_from=.*{how}: .*{named}") as error:
        plan([config_of(compose, published)])
    assert "\n" not in str(error.value)


@pytest.mark.long
def test_more_pieces_than_token_embeddings_are_refused(compose, published):
    with (published / "vocab.txt").open("a") as file:
        file.write("\nextra")
    with pytest.raises(InputError, match=rf"{len(PIECES)} token embeddings, but the tokenizer has {len(PIECES) + 1} pieces"):
        plan([config_of(compose, published)])


@pytest.mark.long
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_folder_without_its_files_is_refused(compose, published, name):
    (published / name).unlink()
    with pytest.raises(InputError, match=f"lacks {name}"):
        plan([config_of(compose, published)])


@pytest.mark.long
def test_a_folder_without_tokenizer_is_refused(compose, published):
    (published / "vocab.txt").unlink()
    with pytest.raises(InputError, match=r"neither tokenizer\.json nor vocab\.txt"):
        plan([config_of(compose, published)])


@pytest.mark.long
def test_a_whole_tokenizer_is_used_as_it_was_saved(compose, published):
    whole = Tokenizer(WordPiece({piece: index for index, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    whole.pre_tokenizer = Whitespace()
    whole.save(str(published / "tokenizer.json"))
    (published / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (item,) = plan([config_of(compose, published)])
    assert item.config.tokenizer.file == str(published)
    from harness.tasks import prepared

    first = prepared.read(item.config, item.inputs.data).train
    assert first.ids[0] != PIECES.index("[CLS]")  # this one adds no special pieces


@pytest.mark.long
@pytest.mark.parametrize(("said", "most"), [(8, 8), (64, None), (1e30, None), (None, None)])
def test_the_longest_text_of_the_tokenizer_limits_that_of_the_task(compose, published, said, most):
    (published / "tokenizer_config.json").write_text(json.dumps({"model_max_length": said}))
    config = config_of(compose, published)
    config = replace(config, task=replace(config.task, max_length=16))
    if most is None:
        plan([config])
        return
    with pytest.raises(
        InputError, match=rf"task\.max_length=16 must be at most the {most} tokens that .*published states \(model_max_length"
    ):
        plan([config])


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "entry", "fragment"),
    [
        ("config.json", {"model_type": ["bert"]}, "model_type=['bert'] is not one of"),
        ("config.json", {"hidden_size": "wide"}, "config.json: "),
        ("config.json", {"num_hidden_layers": 2.5}, "config.json, num_hidden_layers: "),
        ("config.json", {"layer_norm_eps": float("nan")}, "layer_norm_eps=nan must be a finite number"),
        ("tokenizer_config.json", {"do_lower_case": "yes"}, "do_lower_case='yes' must be true or false"),
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "'BertJapaneseTokenizer' cannot be read"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": 1}}, "added_tokens_decoder"),
        ("tokenizer_config.json", {"extra_special_tokens": 3}, "extra_special_tokens"),
        ("tokenizer_config.json", {"cls_token": {"content": 3}}, "cls_token has"),
    ],
)
def test_a_value_that_no_model_has_is_refused(compose, published, name, entry, fragment):
    path = published / name
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | entry))
    with pytest.raises(InputError) as refused:
        plan([config_of(compose, published)])
    assert fragment in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.long
@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_file_that_is_no_object_is_refused(compose, published, name, content):
    (published / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as refused:
        plan([config_of(compose, published)])
    assert "\n" not in str(refused.value)


@pytest.mark.long
def test_an_encoder_that_lacks_a_tensor_is_refused_and_none_stays_random(compose, published):
    config = resolved(config_of(compose, published))
    encoder = build_classifier(config.model, 1, 0).encoder
    loading.load_encoder(config, encoder)  # whatever head it has
    path = published / "model.safetensors"
    state = load_file(path)
    assert torch.equal(encoder.embeddings.token_embedding.weight, state["bert.embeddings.word_embeddings.weight"])
    save_file({name: tensor for name, tensor in state.items() if "1.output.dense.bias" not in name}, path, {"format": "pt"})
    with pytest.raises(InputError, match=r"do not fit the encoder: encoder.*bias|missing"):
        loading.load_encoder(config, encoder)


@pytest.mark.long
def test_a_name_that_no_hub_has_is_one_line_in_a_new_process(tmp_path):
    """In this one, other libraries have imported what the answer needs."""
    command = [sys.executable, "-m", "harness", "model.init_from=no/such", "task=bag", f"output={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line.partition(" (")[0]) == (
        2, "harness: model.init_from='no/such' is not a folder and cannot be downloaded from the hub",
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("both", [True, False])
def test_a_published_t5_is_read_with_its_decoder_where_the_body_says_so(compose, tmp_path, both):
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 48, "num_layers": 2, "decoder_start_token_id": 0}
    theirs = T5ForConditionalGeneration(T5Config(vocab_size=len(PIECES), **sizes)).eval()
    theirs.save_pretrained(tmp_path / "t5")
    cut = Tokenizer(WordPiece({piece: number for number, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    cut.save(str(tmp_path / "t5" / "tokenizer.json"))
    (tmp_path / "t5" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    config = resolved(config_of(compose, tmp_path / "t5", *(["model.body=encoder_decoder"] if both else [])))
    model = build_classifier(config.model, 2, 0).eval()
    origins = loading.load_weights(config, model)
    assert {origin.kind for name, origin in origins.items() if name.startswith("encoder.")} == {"kept"}
    ids = torch.randint(5, len(PIECES), (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs.encoder(ids).last_hidden_state
        if both:
            expected = theirs.decoder(ids, encoder_hidden_states=expected).last_hidden_state
        torch.testing.assert_close(model.encoder(ids), expected, rtol=0, atol=1e-5)
    encoder = build_classifier(config.model, 2, 1).encoder
    loading.load_encoder(config, encoder)
    assert all(torch.equal(tensor, model.encoder.state_dict()[name]) for name, tensor in encoder.state_dict().items())
