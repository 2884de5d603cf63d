"""Encoders that transformers computes: read from folders as it writes them, cut, with its head for masked tokens."""

import json
import shutil
from dataclasses import replace

import pytest
import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from harness.checkpoints import foreign, huggingface, native
from harness.config.choices import Provider, TaskKind
from harness.config.schema import ModelConfig, PretrainConfig, RunConfig, TaskConfig
from harness.data import published
from harness.errors import InputError
from harness.measure import flops, size
from harness.measure.subject import load_code
from harness.models.adapt import adapt, merge
from harness.models.batch import Batch
from harness.models.config import AdaptationConfig, EncoderConfig, Trains
from harness.models.foreign import Foreign
from harness.models.heads import build_classifier, make_masked_head
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import build
from harness.models.objectives.config import ObjectiveName

TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100}
OF_FIRST = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "eos_token_id": 2, "bos_token_id": 1}
KINDS = {"bert": {}, "modernbert": OF_FIRST, "deberta-v2": {}, "mpnet": {}, "convbert": {"embedding_size": 32}, "fnet": {}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """model_type -> a folder of a tiny masked language model, with random weights."""
    root = tmp_path_factory.mktemp("published")
    for kind, extra in KINDS.items():
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(kind, **TINY, **extra)
        transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(root / kind)
    return root


def shape_of(folder, **changes):
    return foreign.published_shape(json.loads((folder / "config.json").read_text()) | changes, "x")


def batch_of():
    ids = torch.randint(5, 100, (2, 12), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 7:] = False
    return Batch(ids, attention_mask=mask)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_and_predictions_are_those_of_the_library(folders, kind):
    folder, batch = folders / kind, batch_of()
    shape = shape_of(folder)
    encoder = Foreign(shape).eval()
    foreign.load_published(folder, encoder, "x")
    given = {"input_ids": batch.input_ids} | ({} if kind == "fnet" else {"attention_mask": batch.attention_mask.long()})
    theirs = transformers.AutoModel.from_pretrained(folder).eval()(**given).last_hidden_state
    torch.testing.assert_close(encoder(batch), theirs, atol=1e-6, rtol=0)

    model = nn.Module()
    model.encoder = Foreign(shape)
    model.masked_head = make_masked_head(shape, model.encoder)
    model.load_state_dict(foreign.masked_lm(folder, shape, "x"))
    logits = model.eval().masked_head(model.encoder(batch))
    expected = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()(**given).logits
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_add_up_and_flops_are_counted_or_named(folders, kind, capsys):
    shape = shape_of(folders / kind)
    model = build_classifier(shape, 3, seed=0)
    sizes = size.sizes(model)
    own = sum(one.numel() for name, one in model.encoder.body.named_parameters() if "pooler" not in name)
    assert sizes["model/params_total"] == own + 32 * 32 + 32 + 32 * 3 + 3
    assert sizes["model/params_component_token_embedding"] == 100 * 32
    count = flops.counted_or_none(flops.Shape(shape, 3, 4, 16), backward=False)
    if kind == "fnet":
        assert count is None
        assert "aten._fft_c2c" in capsys.readouterr().out
    else:
        products = 2 * 16 * 4 * sum(one.numel() for one in model.encoder.layers.parameters() if one.dim() == 2)
        assert count >= products
        assert flops.counted(flops.Shape(shape, 3, 4, 16), backward=True) > 2.5 * count
        assert flops.of_training(model)(4, 16) > 2.5 * count


@pytest.mark.long
def test_values_of_a_seed_are_the_same_again_and_others_of_another(folders):
    shape = shape_of(folders / "modernbert")
    first, again, other = (build_classifier(shape, 2, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["encoder.body.layers.0.attn.Wqkv.weight"], other["encoder.body.layers.0.attn.Wqkv.weight"])


@pytest.mark.long
def test_a_checkpoint_whose_options_state_more_layers_than_any_model_is_refused(folders, tmp_path):
    """Its own key of layers may say two: the options are what is built."""
    shape = shape_of(folders / "bert")
    native.save(tmp_path, {"encoder.x": torch.zeros(2)}, replace(shape, options=shape.options | {"num_hidden_layers": 10**9}))
    with pytest.raises(InputError, match="num_hidden_layers=1000000000 must be between 1 and 1,000"):
        native.read(tmp_path)


@pytest.mark.long
def test_a_new_head_for_masked_tokens_has_the_first_values_of_its_package(folders):
    vocabulary = Vocabulary(100, 0, 2, 3, 4, torch.ones(100, dtype=torch.bool))
    options = PretrainConfig(objective=ObjectiveName.mlm)
    head = build(options, replace(shape_of(folders / "modernbert"), initializer_range=9.0), vocabulary, 0).masked_head
    assert max(one.abs().max() for one in head.parameters()) <= 1
    again = build(options, shape_of(folders / "modernbert"), vocabulary, 0).masked_head
    assert all(torch.equal(*pair) for pair in zip(head.parameters(), again.parameters(), strict=True))


@pytest.mark.long
def test_a_pretraining_goes_on_with_the_published_head(folders, tmp_path):
    """Where the files have one; of an encoder alone it begins anew."""
    transformers.AutoModel.from_pretrained(folders / "bert").save_pretrained(tmp_path)
    vocabulary, batch = Vocabulary(100, 0, 2, 3, 4, torch.ones(100, dtype=torch.bool)), batch_of()
    expected = transformers.AutoModelForMaskedLM.from_pretrained(folders / "bert").eval()(
        batch.input_ids, attention_mask=batch.attention_mask.long()
    )
    for folder, has_head in ((folders / "bert", True), (tmp_path, False)):
        shape = shape_of(folder)
        config = RunConfig(model=ModelConfig(**vars(shape) | {"init_from": str(folder)}))
        objective = build(PretrainConfig(objective=ObjectiveName.mlm), shape, vocabulary, 0).eval()
        huggingface.load_encoder(config, objective.encoder)
        assert bool(huggingface.load_masked_head(config, objective.masked_head)) == has_head
        logits = objective.masked_head(objective.encoder(batch))
        assert torch.allclose(logits, expected.logits, atol=1e-5) == has_head


@pytest.mark.long
def test_a_shared_layer_counts_at_each_of_its_uses():
    config = {"model_type": "albert", **TINY, "embedding_size": 16, "num_hidden_layers": 3, "pad_token_id": 0}
    model = build_classifier(foreign.published_shape(config, "x"), 2, 0)
    sizes = size.sizes(model)
    assert sizes["model/params_effective"] == sizes["model/params_total"] + 2 * sizes["model/params_encoder"]
    assert len(model.encoder.hidden_states(torch.ones(1, 4, dtype=torch.int64))) == 4


@pytest.mark.parametrize("kind", ["bert", "modernbert", "deberta-v2"])
def test_matrices_of_low_rank_are_added_to_queries_and_values(folders, kind):
    model = build_classifier(shape_of(folders / kind), 2, seed=0).eval()
    before = model(batch_of())
    adapt(model, AdaptationConfig(trains=Trains.lora, lora_rank=2))
    added = [one for name, one in model.encoder.named_parameters() if ".low_rank." in name]
    assert sum(one.numel() for one in added) == 2 * 2 * (32 * 2 + 2 * 32)
    torch.testing.assert_close(model(batch_of()), before)
    model(batch_of()).sum().backward()
    assert all(one.grad is not None for one in added)
    merge(model)
    assert size.trainable(model) == size.count(model)


@pytest.mark.long
def test_hidden_states_are_those_of_the_library(folders):
    folder, batch = folders / "bert", batch_of()
    encoder = Foreign(shape_of(folder)).eval()
    foreign.load_published(folder, encoder, "x")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    theirs = model(batch.input_ids, attention_mask=batch.attention_mask.long(), output_hidden_states=True).hidden_states
    for ours, expected in zip(encoder.hidden_states(batch), theirs, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-6, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_padding_that_changes_vectors_is_noted(folders, kind):
    """By published values and by first ones."""
    shape = shape_of(folders / kind)
    for notes in (
        foreign.note_of_padding(shape, folders / kind, "x"),
        huggingface.notes(RunConfig(model=ModelConfig(**vars(shape)))),
    ):
        assert [note.partition(" by ")[0] for note in notes] == ["vectors change with padding"] * (kind in ("convbert", "fnet"))


class Averaged(torch.nn.Module):
    """Vectors of pieces."""

    def __init__(self, vocab_size: int, pad_token_id: int, gives: str) -> None:
        super().__init__()
        self.table, self.gives = torch.nn.Embedding(vocab_size, 16), gives
        self.requires_grad_(gives != "frozen")
        self.loose = [torch.nn.Linear(16, 16)]
        if gives == "nothing":
            self.loose, self.table = [self.table], None

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        vectors = (self.table or self.loose[0])(input_ids)
        ways = {
            "loose": lambda: self.loose[0](vectors),
            "half": lambda: vectors.half(),
            "detached": lambda: vectors.detach(),
            "random": lambda: torch.nn.functional.dropout(vectors),
            "nan": lambda: vectors * torch.nan,
            "narrow": lambda: vectors[..., : 2 * input_ids.shape[1]],
        }
        return ways.get(self.gives, lambda: vectors)()


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        ("half", "gives float16: expected float32 vectors"),
        ("detached", "gives vectors without gradients"),
        ("frozen", "gives vectors without gradients"),
        ("nan", "gives other vectors than finite ones"),
        ("narrow", "gives other vectors than finite ones of one size"),
        ("loose", "has weights that are no parameters of it, as of layers in a plain list"),
        ("nothing", "cannot be built and run (ValueError: no parameters, as of layers in a plain list"),
        ("random", "vectors change from pass to pass by up to"),
        ("all", ""),
    ],
)
def test_vectors_that_cannot_be_compared_are_said(monkeypatch, gives, says):
    monkeypatch.setattr("harness.models.foreign.class_of", lambda *_: Averaged)
    try:
        shape = foreign.shape_of(EncoderConfig(encoder="averaged:Averaged", options={"gives": gives}))
        said = "".join(foreign.note_of_padding(shape, None, "x"))
    except InputError as error:
        said = str(error)
    assert said.removeprefix("model.encoder=averaged:Averaged ").startswith(says)
    assert bool(said) == bool(says)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "is_said"), [("classification", True), ("similarity", False), ("minimal_pairs", False)])
def test_a_head_that_is_not_read_is_said_to_be_new(folders, kind, is_said):
    model = ModelConfig(**vars(shape_of(folders / "bert")) | {"init_from": str(folders / "bert")})
    notes = huggingface.notes(RunConfig(model=model, task=TaskConfig(name="own", kind=TaskKind[kind])))
    assert ("new head, as transformers computes the encoder alone" in notes) == is_said


@pytest.mark.long
@pytest.mark.parametrize("kind", ["xlnet", "funnel"])
def test_segments_that_attention_alone_compares_are_given(kind):
    """There is no table of types."""
    sizes = {"d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 64, "vocab_size": 100}
    sizes |= {"n_layer": 2} if kind == "xlnet" else {"block_sizes": [1, 1]}
    encoder, ids = Foreign(foreign.published_shape({"model_type": kind} | sizes, "x")).eval(), batch_of().input_ids
    types = (torch.arange(12) > 5).long().expand(2, 12)
    for name, parameter in encoder.named_parameters():
        if name.endswith("seg_embed"):
            nn.init.normal_(parameter)
    torch.testing.assert_close(encoder(Batch(ids, types)), encoder.body(ids, token_type_ids=types).last_hidden_state)
    assert not torch.allclose(encoder(Batch(ids, types)), encoder(Batch(ids)))


@pytest.mark.long
def test_vectors_of_longformer_are_those_of_its_own_classifier(tmp_path):
    """Whose first token sees all and is seen by all, by projections of its own."""
    batch, shape = batch_of(), TINY | {"attention_window": 4, "pad_token_id": 0}
    config = transformers.LongformerConfig(**shape, max_position_embeddings=64)
    model = transformers.LongformerForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    encoder = Foreign(shape_of(tmp_path)).eval()
    foreign.load_published(tmp_path, encoder, "x")
    theirs = model(batch.input_ids, attention_mask=batch.attention_mask.long(), output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(encoder(batch), theirs[:, :12], atol=1e-6, rtol=0)


def test_weights_in_shards_and_in_a_pickle_are_read(folders, tmp_path):
    model, batch = transformers.AutoModel.from_pretrained(folders / "bert").eval(), batch_of()
    expected = model(batch.input_ids, attention_mask=batch.attention_mask.long()).last_hidden_state
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len([*(tmp_path / "shards").glob("model-*.safetensors")]) > 1
    (tmp_path / "pickle").mkdir()
    (tmp_path / "pickle/config.json").write_text((folders / "bert/config.json").read_text())
    torch.save(model.state_dict(), tmp_path / "pickle/pytorch_model.bin")
    for name in ("shards", "pickle"):
        encoder = Foreign(shape_of(tmp_path / name)).eval()
        foreign.load_published(tmp_path / name, encoder, "x")
        torch.testing.assert_close(encoder(batch), expected, atol=1e-6, rtol=0)
    assert any("pickle" in note for note in foreign.notes(tmp_path / "pickle", encoder.config))


class Acting:
    """What a pickle could do."""

    def __reduce__(self):
        return print, ("acted",)


def test_a_pickle_that_acts_is_refused(folders, tmp_path, capfd):
    (tmp_path / "config.json").write_text((folders / "bert/config.json").read_text())
    torch.save({"embeddings.word_embeddings.weight": Acting()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"model\.init_from"):
        foreign.load_published(tmp_path, Foreign(shape_of(tmp_path)), "model.init_from='x'")
    assert "acted" not in "".join(capfd.readouterr())


def test_files_that_lack_a_tensor_are_refused(folders, tmp_path):
    model = transformers.AutoModel.from_pretrained(folders / "bert")
    state = {name: one for name, one in model.state_dict().items() if "layer.1.output.dense.weight" not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(InputError, match=r"lack tensors of BertModel: encoder.layer.1.output.dense.weight"):
        foreign.load_published(tmp_path, Foreign(shape_of(tmp_path)), "x")


@pytest.mark.parametrize("provider", [Provider.transformers, Provider.native], ids=str)
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.bool], ids=str)
def test_weights_in_8_bits_are_refused_as_their_scales_are_not_read(folders, tmp_path, dtype, provider):
    state = load_file(folders / "bert" / "model.safetensors")
    matrices = {name: one.to(dtype) for name, one in state.items() if name.endswith("query.weight")}
    save_file(state | matrices, tmp_path / "model.safetensors")
    shutil.copy(folders / "bert" / "config.json", tmp_path)
    config = RunConfig(model=ModelConfig(init_from=str(tmp_path), provider=provider))
    with pytest.raises(InputError, match=r"query\.weight has the type \w+: expected F16, BF16, F32, F64, without"):
        huggingface.checkpoint_of(config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "nobert"}, "model_type='nobert' is unknown to transformers"),
        ({"model_type": "nobert", "auto_map": {"AutoModel": "a.B"}}, "its own code"),
        ({"model_type": "bert", **TINY, "hidden_size": 33}, "cannot be built and run"),
        ({}, "model_type=None"),
        ({"model_type": "mpnet", "quantization_config": {"quant_method": "fp8"}}, "quantization_config=.* cannot be expressed"),
        (
            {"model_type": "bert", **TINY, "num_hidden_layers": 10**9},
            "num_hidden_layers=1000000000 must be between 1 and 1,000",
        ),
    ],
)
def test_a_config_that_no_model_can_be_built_of_is_refused(config, said):
    with pytest.raises(InputError, match=said):
        foreign.published_shape(config, "model.init_from='x'")


@pytest.mark.parametrize(
    "key", [{"num_attention_heads": "4"}, {"text_config": {"a": 1}}, {"text_config": [1]}, {"hidden_size": []}]
)
def test_values_that_the_library_cannot_read_are_refused(key):
    """It fails by errors of many kinds, its own among them."""
    with pytest.raises(InputError, match=r"^x: "):
        foreign.published_shape({"model_type": "mpnet"} | key, "x")


@pytest.mark.long
def test_code_that_a_folder_brings_is_not_run(tmp_path):
    config = {"model_type": "bert", **TINY, "pad_token_id": 0, "auto_map": {"AutoModel": "acting.Model"}}
    (tmp_path / "acting.py").write_text("raise SystemExit('acted')")
    transformers.AutoModel.from_config(transformers.AutoConfig.for_model("bert", **TINY)).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    foreign.load_published(tmp_path, Foreign(shape_of(tmp_path)), "x")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name"),
    [("t5", "spiece.model"), ("xlm-roberta", "sentencepiece.bpe.model"), ("camembert", "sentencepiece.bpe.model")],
)
def test_a_sentencepiece_file_alone_is_read(tmp_path, kind, name):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"the cat number {n} sat on the mat and saw {7 * n} dogs run away" for n in range(400)))
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1} if kind == "t5" else {}
    prefix = tmp_path / name.removesuffix(".model")
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(prefix), vocab_size=80, minloglevel=2, **options)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    read, notes = published.read(tmp_path)
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)("the cat sat").input_ids
    assert published.Tokenizer.from_str(read).encode("the cat sat").ids == ids
    assert any("transformers" in note for note in notes)


@pytest.mark.parametrize(
    ("given", "repository", "revision"), [("a/b", "a/b", None), ("a/b@v1.0", "a/b", "v1.0"), ("a/b@0f3e", "a/b", "0f3e")]
)
def test_a_revision_goes_to_the_hub(monkeypatch, tmp_path, given, repository, revision):
    asked = {}

    def download(name, revision=None, allow_patterns=None):
        asked.update(name=name, revision=revision)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert huggingface.root_of(given, "model.init_from") == tmp_path
    assert asked == {"name": repository, "revision": revision}


def test_the_licence_is_that_of_the_head_of_the_card(tmp_path):
    root = tmp_path / "snapshots" / "0f3e"
    root.mkdir(parents=True)
    (root / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# x\nlicense: none\n")
    assert huggingface._of_card(root) == ["revision 0f3e", "licence apache-2.0"]


def test_code_is_imported_before_anything_is_measured(folders, monkeypatch):
    """A library is no memory of a model: it is built without values, and called, before there is a baseline."""
    seen = []
    monkeypatch.setattr(Foreign, "_called", lambda self: seen.append(next(self.parameters()).is_meta) or [0, 1])
    config = RunConfig(model=ModelConfig(**vars(shape_of(folders / "bert"))))
    seen.clear()
    load_code(config)
    assert seen == [True]
    load_code(RunConfig())
    assert seen == [True]
