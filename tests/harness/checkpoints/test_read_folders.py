"""What a run says of the published folder that it starts from, and folders that are refused by name."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from published_bert import save_bert
from safetensors.torch import load_file, save_file

from harness import tags
from harness.checkpoints import huggingface, start
from harness.config.resolve import resolve
from harness.config.schema import ModelConfig, RunConfig
from harness.errors import InputError
from harness.models.config import Pooling
from harness.models.heads import build_classifier
from harness.study.plan import PlannedRun, plan

KEY = "model.init_from"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A small classifier whose first row is good."""
    small = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 32}
    return save_bert(tmp_path / "published", id2label={0: "good", 1: "bad"}, **small)


@pytest.fixture
def planned(compose, published, tmp_path):
    """The run from the folder on rows of these labels."""

    def of(labels: list[str], *more: str) -> PlannedRun:
        for split, letter in (("train", "a"), ("validation", "b")):
            rows = [f"{letter * (row + 1)},{labels[row % len(labels)]}" for row in range(12)]
            (tmp_path / f"{split}.csv").write_text("\n".join(["text,label", *rows]))
        files = [f"task.{split}_file={tmp_path / split}.csv" for split in ("train", "validation")]
        own = ["task=own", "task.fields=[text]", "task.label=label", "task.max_length=16", *files]
        (run,) = plan(compose(*own, f"{KEY}={published}", "measure=none", f"output={tmp_path / 'out'}", *more))
        return run

    return of


def head_of(run: PlannedRun) -> tuple[torch.Tensor, str]:
    """The rows that are loaded, and where they come from."""
    model = build_classifier(run.config.model, len(run.config.task.labels), 5)
    origins = huggingface.load_weights(run.config, model)
    return model.head.weight.detach(), origins["head.weight"].kind


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("task.labels=[bad,good]",)])
def test_rows_of_the_head_follow_id2label_and_stand_in_the_run(planned, published, more):
    run = planned(["bad", "good"], *more)
    rows = load_file(published / "model.safetensors")["classifier.weight"]
    assert torch.equal(head_of(run)[0], rows[[1, 0]])
    assert run.inputs.weights_read == "head: row 1 is bad, row 0 is good"
    head, few = run.notes
    assert head == f"{published}: head: row 1 is bad, row 0 is good"
    assert few.startswith("task 'own': only 2 optimizer steps: ")
    assert run.identity.described([])["tags"][tags.WEIGHTS_READ] == "head: row 1 is bad, row 0 is good"


@pytest.mark.long
@pytest.mark.parametrize("labels", [["bad", "dull", "good"], ["cold", "warm"]])
def test_other_classes_give_a_new_head_and_a_note(planned, labels):
    run = planned(labels)
    weight, kind = head_of(run)
    assert (len(weight), kind) == (len(labels), "random")
    assert run.inputs.weights_read.startswith("new head")
    assert "as the published one is for good, bad" in run.inputs.weights_read


@pytest.mark.long
def test_names_are_the_same_however_unicode_writes_them(planned, published):
    config = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps(config | {"id2label": {"0": "caf\u00e9", "1": "th\u00e9"}}))
    assert "row 0 is caf\u00e9, row 1 is th\u00e9" in planned(["the\u0301", "cafe\u0301"]).inputs.weights_read


@pytest.mark.long
def test_a_number_that_is_written_as_text_is_that_number(planned, published):
    config = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps(config | {"layer_norm_eps": "1e-7"}))
    shape = huggingface.shape_of(published / "config.json", KEY)
    assert shape.layer_norm_eps == 1e-7
    planned(["bad", "good"])


@pytest.mark.long
def test_other_names_of_the_same_rows_are_another_run(planned, published):
    before = planned(["bad", "good"]).identity.fingerprint
    config = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps(config | {"id2label": {"0": "bad", "1": "good"}}))
    assert planned(["bad", "good"]).identity.fingerprint != before


@pytest.mark.long
def test_a_run_without_a_folder_says_nothing(compose):
    (run,) = plan(compose("task=bag", "scale=tiny", "measure=none"))
    assert (run.inputs.weights_read, tags.WEIGHTS_READ in run.identity.described([])["tags"]) == ("", False)


def split_up(folder: Path) -> dict[str, str]:
    """Its weights in two files and an index; the file of each tensor."""
    state = load_file(folder / "model.safetensors")
    places = {name: f"model-0000{1 + place % 2}-of-00002.safetensors" for place, name in enumerate(state)}
    for file in {*places.values()}:
        save_file({name: tensor for name, tensor in state.items() if places[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return places


@pytest.mark.long
def test_weights_in_several_files_are_one_model(planned, published):
    rows = load_file(published / "model.safetensors")["classifier.weight"]
    split_up(published)
    run = planned(["bad", "good"])
    assert torch.equal(head_of(run)[0], rows[[1, 0]])
    assert run.inputs.weights_read.startswith("2 files of model.safetensors.index.json; ")
    before = run.identity.fingerprint
    last = published / "model-00002-of-00002.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(last).items()}, last)
    assert planned(["bad", "good"]).identity.fingerprint != before


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("lost", "must name files of its folder, which lacks: model-00001-of-00002.safetensors"),
        ("../outside.safetensors", "must name files of its folder, which lacks: ../outside.safetensors"),
        ("/outside.safetensors", "must name files of its folder, which lacks: /outside.safetensors"),
        ("empty", "must name files of its folder, which lacks: all"),
        ("unlisted", "names tensors that its files lack: unheard_of.weight"),
    ],
)
def test_an_index_of_other_files_is_refused(planned, published, place, message):
    places = split_up(published)
    save_file({"x": torch.ones(1)}, published.parent / "outside.safetensors")
    if place == "lost":
        (published / "model-00001-of-00002.safetensors").unlink()
    wrong = {"empty": {}, "lost": places, "unlisted": places | {"unheard_of.weight": next(iter(places.values()))}}
    weight_map = wrong.get(place, dict.fromkeys(places, place))
    (published / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(InputError) as refused:
        planned(["bad", "good"])
    assert message in str(refused.value)


@pytest.mark.long
def test_a_pickle_is_never_read(planned, published):
    state = load_file(published / "model.safetensors")
    torch.save(state, published / "pytorch_model.bin")
    assert "model.safetensors, not pytorch_model.bin; " in planned(["bad", "good"]).inputs.weights_read
    (published / "model.safetensors").unlink()
    with pytest.raises(
        InputError, match=r"has a pickle, pytorch_model\.bin: only safetensors can be read; .*save_pretrained\(NEW\)"
    ):
        planned(["bad", "good"])


@pytest.mark.parametrize("more", [(), ("model.provider=transformers",)])
def test_weights_that_the_config_names_in_another_file_are_refused(planned, published, more):
    config = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps(config | {"transformers_weights": "other.safetensors"}))
    with pytest.raises(InputError, match=r"expected model\.safetensors, got transformers_weights='other\.safetensors'"):
        planned(["bad", "good"], *more)


@pytest.mark.long
def test_an_adapter_is_refused_with_the_name_of_its_model(planned, published):
    for name in ("config.json", "model.safetensors"):
        (published / name).unlink()
    (published / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "owner/name"}))
    with pytest.raises(InputError, match=r"is an adapter of 'owner/name' .*merge_and_unload\(\)"):
        planned(["bad", "good"])


@pytest.mark.long
@pytest.mark.parametrize("typed", [(), ("model.vector_pooling=max",)])
def test_pooling_of_sentence_transformers_is_that_of_vectors_unless_it_is_typed(compose, published, typed):
    inner = published / "0_Transformer"
    inner.mkdir()
    for path in [path for path in published.iterdir() if path.is_file()]:
        path.rename(inner / path.name)
    modules = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    listed = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
    (published / "modules.json").write_text(json.dumps(listed))
    (published / "1_Pooling").mkdir()
    (published / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    vectors = ["task=own", "task.kind=similarity", "task.fields=[a,b]", "task.max_length=16"]
    (config,) = compose(*vectors, f"{KEY}={published}", *typed)
    adopted = resolve(config, start.read(config))
    assert adopted.model.vector_pooling is (Pooling.max if typed else Pooling.cls)
    said = "maximum of the real tokens (model.vector_pooling)" if typed else "first token (modules.json)"
    assert huggingface.notes(adopted) == [f"vectors: {said}"]
    (inner / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    with pytest.raises(InputError, match=r"task\.max_length=16 must be at most the 12 tokens .* or max_seq_length"):
        resolve(config, start.read(config))
    prompts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": None}
    (published / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert huggingface.notes(adopted)[1:] == ["no text begins with a prompt, though there are some for query"]


@pytest.mark.long
def test_a_classifier_is_trained_from_modules_that_make_other_vectors(planned, published):
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Dense", "type": "models.Dense"}]
    (published / "modules.json").write_text(json.dumps(modules))
    assert planned(["bad", "good"]).inputs.weights_read == "head: row 1 is bad, row 0 is good"


@pytest.mark.long
@pytest.mark.parametrize("key", ["pretrain.from", "finetune.from"])
def test_a_published_folder_in_place_of_a_run_is_refused_with_its_key(run_harness, published, key):
    done = run_harness(f"{key}={published}", "task=bag")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.endswith(f"is a folder of published weights, not a run: set model.init_from={published}")


def test_positions_that_count_from_another_piece_than_padding_are_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "fox"]))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 6}
    config = transformers.RobertaConfig(**sizes, max_position_embeddings=20, type_vocab_size=1, pad_token_id=1)
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    run = RunConfig(model=ModelConfig(init_from=str(tmp_path)))
    assert huggingface.checkpoint_of(run).shape.position_offset == 2
    stated = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stated | {"pad_token_id": 0}))
    with pytest.raises(InputError, match="pad_token_id=0, from which positions count, must be that of the tokenizer, 1"):
        huggingface.checkpoint_of(run)
