"""Exported checkpoints in transformers: same hidden states, logits and token ids; and what the command refuses."""

import functools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import transformers
from omegaconf import OmegaConf
from safetensors.torch import load_file
from small_disk import mounted
from tokenizers import Tokenizer
from torch import Tensor, nn

from harness import paths
from harness.__main__ import main
from harness.checkpoints import native
from harness.config.schema import ModelConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead, Pooler, SequenceClassifier
from harness.models.huggingface import config_of, load
from harness.plugins.export.checkpoint import by_our_reader, by_transformers, check, export

pytestmark = pytest.mark.long

CONF = Path(__file__).resolve().parents[3] / "conf" / "model"
TEXTS = ["the cat sat on the mat", "A dog", "cats and dogs and mats sat still on a log", "log"]
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 40,
}
SPREAD = {"gpt2": 0.15}
"""Standard deviation of matrices: 0.25, less where sums are not normed, for float32 to resolve 1e-5."""

FAMILY = {
    "base": "bert",
    "albert": "albert",
    "factorized": "albert",
    "roberta": "roberta",
    "distilbert": "distilbert",
    "electra": "electra",
    "deberta": "deberta",
    "deberta_v3": "deberta-v2",
    "gpt": "openai-gpt",
    "gpt2": "gpt2",
}
MASKED = [name for name in FAMILY if not name.startswith("gpt")]
UNTYPED = {"bert": {}, "roberta": {"position_offset": 1}, "albert": {"embedding_size": 16}, "electra": {"pooler": "gelu"}}
"""Family -> what makes a BERT without token types one of it."""

WIDE_HEADS = {"gated_feed_forward": True, "hidden_act": "gelu_tanh", "head_size": 12, "num_attention_heads": 3}
T5 = {"t5": {}, "t5 with wide heads": WIDE_HEADS, "t5 with its decoder": {"body": "encoder_decoder"}}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build(TokenizerConfig(vocab_size=80, min_frequency=1), TEXTS)


def shape_of(name: str, tokenizer: Tokenizer, **changes: object) -> EncoderConfig:
    """A model of conf/ at tiny dimensions, with the tokenizer's vocabulary."""
    said = OmegaConf.load(CONF / f"{name}.yaml")
    distances = {"max_relative_distance": 24} if said.get("position") == "disentangled" else {}
    distances |= {"position_buckets": 8} if "position_buckets" in said else {}
    real = {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": tokenizer.token_to_id("[PAD]")}
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), said, TINY, distances, real, changes))


class Trained(nn.Module):
    """What a pretraining ends with."""

    def __init__(self, shape: EncoderConfig, spread: float = 0.25) -> None:
        super().__init__()
        self.encoder, self.pooler = Encoder(shape), Pooler(shape)
        if not shape.causal:
            self.masked_head = MaskedLMHead(shape, self.encoder.embeddings.token_embedding)
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                norm = parameter.dim() == 1 and name.endswith("weight")
                parameter.copy_(1 + 0.1 * noise if norm else spread * noise)
        self.eval()


def lay_out(folder: Path, shape: EncoderConfig, tokenizer: Tokenizer, state: dict[str, Tensor]) -> Path:
    """A run's folder with its weights; returns the folder of the weights."""
    checkpoint = folder / paths.WEIGHTS
    native.save(checkpoint, state, shape)
    tokenizer.save(str(checkpoint / native.TOKENIZER))
    return checkpoint


def exported(folder: Path, shape: EncoderConfig, tokenizer: Tokenizer, model: nn.Module) -> tuple[Path, str]:
    export(lay_out(folder / "run", shape, tokenizer, model.state_dict()), folder / "out")
    return folder / "out", family_of(folder / "out")


def family_of(folder: Path) -> str:
    return json.loads((folder / "config.json").read_text())["model_type"]


@dataclass(frozen=True)
class Exported:
    """A trained model and its exported checkpoint; nothing may change either."""

    shape: EncoderConfig
    model: Trained
    folder: Path
    family: str


@pytest.fixture(scope="module")
def exported_once(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    """The model of this name, exported by the first test that needs it: transformers loads what is exported, to check it."""

    @functools.cache
    def made(name: str) -> Exported:
        shape = shape_of(name, tokenizer)
        model = Trained(shape, SPREAD.get(name, 0.25))
        return Exported(shape, model, *exported(tmp_path_factory.mktemp(name), shape, tokenizer, model))

    return made


def batch_of(tokenizer: Tokenizer, types: bool) -> Batch:
    """Texts of unlike lengths, some of them pairs, padded on the right."""
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]"), pad_token="[PAD]")
    rows = tokenizer.encode_batch([(TEXTS[0], TEXTS[1]), *TEXTS[1:]])
    ids, kinds, mask = (torch.tensor([getattr(row, key) for row in rows]) for key in ("ids", "type_ids", "attention_mask"))
    return Batch(ids, kinds if types else None, mask.bool())


def inputs_of(batch: Batch) -> dict[str, Tensor]:
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask.long()}
    return inputs if batch.token_type_ids is None else inputs | {"token_type_ids": batch.token_type_ids}


@pytest.mark.parametrize("name", FAMILY)
def test_transformers_and_a_run_of_ours_have_the_same_hidden_states_and_ids(name, tokenizer, exported_once):
    made = exported_once(name)
    model, folder = made.model, made.folder
    assert made.family == FAMILY[name]
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    batch = batch_of(tokenizer, types=made.shape.type_vocab_size > 1)
    with torch.no_grad():
        expected, found = model.encoder(batch), theirs(**inputs_of(batch)).last_hidden_state
    assert (expected - found)[batch.attention_mask].abs().max() <= 1e-5

    reading = transformers.AutoTokenizer.from_pretrained(folder)
    rows = reading(TEXTS[0], TEXTS[1])
    assert rows["input_ids"] == tokenizer.encode(TEXTS[0], TEXTS[1]).ids
    assert reading(TEXTS)["input_ids"] == [row.ids for row in tokenizer.encode_batch(TEXTS)]
    padded = reading(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        again = theirs(**padded).last_hidden_state
    single = Batch(padded["input_ids"], padded.get("token_type_ids"), padded["attention_mask"].bool())
    assert (model.encoder(single) - again)[single.attention_mask].abs().max() <= 1e-5

    config = json.loads((folder / "config.json").read_text())
    ours = SequenceClassifier(config_of(config), num_outputs=2).eval()
    load(ours, load_file(folder / "model.safetensors"), config)
    with torch.no_grad():
        assert torch.equal(ours.encoder(batch), expected)


@pytest.mark.parametrize("family", UNTYPED)
def test_model_without_token_types_runs_in_a_family_that_has_them(family, tokenizer, tmp_path):
    shape = shape_of("base", tokenizer, type_vocab_size=0, **UNTYPED[family])
    model = Trained(shape)
    checkpoint = lay_out(tmp_path / "run", shape, tokenizer, model.state_dict())
    export(checkpoint, tmp_path / "out", family)
    assert family_of(tmp_path / "out") == family
    for heads, expected in (
        ("AutoModel", model.encoder),
        ("AutoModelForMaskedLM", lambda b: model.masked_head(model.encoder(b))),
    ):
        theirs, report = getattr(transformers, heads).from_pretrained(tmp_path / "out", output_loading_info=True)
        assert "embeddings.token_type_embeddings.weight" not in report["missing_keys"]
        batch = batch_of(tokenizer, types=False)
        with torch.no_grad():
            found = theirs.eval()(**inputs_of(batch))[0]
            torch.testing.assert_close(found[batch.attention_mask], expected(batch)[batch.attention_mask], rtol=0, atol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", T5)
def test_t5_gives_the_same_hidden_states_in_transformers(name, tied, tokenizer, tmp_path):
    shape = shape_of("t5", tokenizer, tie_masked_lm_head=tied, **T5[name])
    model = Trained(shape, spread=0.15)
    folder, family = exported(tmp_path, shape, tokenizer, model)
    assert family == "t5"
    both = "body" in T5[name]
    kind = transformers.T5Model if both else transformers.T5EncoderModel
    theirs, report = kind.from_pretrained(folder, output_loading_info=True)
    assert report["missing_keys"] == set()
    batch = batch_of(tokenizer, types=False)
    inputs = inputs_of(batch)
    decoder = {f"decoder_{key}": value for key, value in inputs.items()} if both else {}
    with torch.no_grad():
        expected, found = model.encoder(batch), theirs.eval()(**inputs, **decoder).last_hidden_state
    assert (expected - found)[batch.attention_mask].abs().max() <= 1e-5


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", MASKED)
def test_transformers_gives_the_same_logits_for_masked_tokens(name, tied, tokenizer, exported_once, tmp_path):
    shape = shape_of(name, tokenizer, tie_masked_lm_head=tied)
    if shape == (tied_model := exported_once(name)).shape:
        model, folder = tied_model.model, tied_model.folder
    else:
        model = Trained(shape)
        folder, _ = exported(tmp_path, shape, tokenizer, model)
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert report["missing_keys"] == set()
    batch = batch_of(tokenizer, types=shape.type_vocab_size > 1)
    with torch.no_grad():
        expected = model.masked_head(model.encoder(batch))
        found = theirs.eval()(**inputs_of(batch)).logits
    assert expected.abs().max() > 1
    torch.testing.assert_close(found[batch.attention_mask], expected[batch.attention_mask], rtol=0, atol=1e-5)


def test_report_lists_the_heads_and_what_is_missing(tokenizer, tmp_path):
    shape = shape_of("base", tokenizer)
    state = Trained(shape).state_dict()
    both = export(lay_out(tmp_path / "a", shape, tokenizer, state | {"pair_head.weight": torch.ones(2, 32)}), tmp_path / "b")
    heads = both.splitlines()[1]
    assert "bert.pooler.dense.weight" in heads
    assert "cls.predictions.bias" in heads
    assert "left out, not supported by bert: pair_head.weight\n" in both
    assert "initialise randomly: the head of AutoModelForSequenceClassification\n" in both

    bare = {name: tensor for name, tensor in state.items() if name.startswith("encoder.")}
    found = export(lay_out(tmp_path / "c", shape, tokenizer, bare), tmp_path / "d")
    assert "heads included: none\n" in found
    assert found.count(" of AutoModel") == 3
    _, report = transformers.AutoModel.from_pretrained(tmp_path / "d", output_loading_info=True)
    assert report["missing_keys"] == {"pooler.dense.weight", "pooler.dense.bias"}


def test_tokenizer_config_names_special_pieces_and_case(tokenizer, tmp_path):
    shape = shape_of("roberta", tokenizer)
    folder, _ = exported(tmp_path, shape, tokenizer, Trained(shape))
    reading = transformers.AutoTokenizer.from_pretrained(folder)
    assert (reading.mask_token, reading.pad_token_id, reading.model_max_length) == ("[MASK]", shape.pad_token_id, 38)
    assert reading.model_input_names == ["input_ids", "attention_mask"]
    assert json.loads((folder / "tokenizer_config.json").read_text())["do_lower_case"] is True


# The checkpoint runs before it gets its name


@pytest.mark.parametrize("read", [by_transformers, by_our_reader])
@pytest.mark.parametrize("name", FAMILY)
def test_checkpoint_is_run_and_held_against_the_model(name, read, exported_once, tmp_path):
    made = exported_once(name)
    shape, folder = made.shape, shutil.copytree(made.folder, tmp_path / "out")
    state = {key: tensor for key, tensor in made.model.state_dict().items() if key.startswith("encoder.")}
    reader = f"transformers {transformers.__version__}" if read is by_transformers else "our own reader"
    assert check(folder, state, shape, read).startswith(reader)
    other = state | {"encoder.embeddings.token_embedding.weight": torch.ones(shape.vocab_size, shape.embedding_width)}
    with pytest.raises(InputError, match=rf"nothing is written: read by {reader}.*, hidden states differ from the model's by"):
        check(folder, other, shape, read)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"nothing is written: the checkpoint does not run \(\w+Error: .*model.safetensors"):
        check(folder, state, shape, read)


def test_what_does_not_run_as_the_model_leaves_nothing(tokenizer, tmp_path, capsys):
    shape = shape_of("base", tokenizer)
    state = Trained(shape).state_dict()
    state["encoder.embeddings.norm.weight"].fill_(float("nan"))
    lay_out(tmp_path, shape, tokenizer, state)
    assert "hidden states differ from the model's by nan" in refused(capsys, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [paths.WEIGHTS]


def test_a_full_disk_leaves_no_half_of_a_checkpoint_or_its_card(tokenizer, tmp_path):
    shape = shape_of("base", tokenizer)
    checkpoint = lay_out(tmp_path, shape, tokenizer, Trained(shape).state_dict())
    with mounted(tmp_path / "disk", 1 << 20) as disk:
        export(checkpoint, disk / "before", card="short")
        with pytest.raises(OSError, match="No space left on device"):
            export(checkpoint, disk / "out", card="long " * (1 << 18))
        assert [path.name for path in disk.iterdir()] == ["before"]
        assert (disk / "before" / "README.md").read_text() == "short"
        export(checkpoint, disk / "out", card="short")


# The command


def test_command_writes_beside_the_weights_and_refuses_to_again(tokenizer, tmp_path, capsys):
    shape = shape_of("base", tokenizer)
    lay_out(tmp_path, shape, tokenizer, Trained(shape).state_dict())
    assert main(["export", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"wrote {tmp_path / 'export'}: bert, ")
    assert f"loaded and run once by transformers {transformers.__version__}: hidden states differ from the model's by " in out
    names = {path.name for path in (tmp_path / "export").iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert main(["export", str(tmp_path)]) == 2
    assert "already exists; expected a new or empty folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["export", str(tmp_path / paths.WEIGHTS), f"to={tmp_path / 'empty'}", "family=bert"]) == 0


def refused(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """The one line of a refusal."""
    assert main(["export", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


def test_shape_of_no_family_is_refused_and_leaves_nothing(tokenizer, tmp_path, capsys):
    shape = replace(shape_of("base", tokenizer), attention_window=8, gated_feed_forward=True)
    lay_out(tmp_path, shape, tokenizer, Trained(shape).state_dict())
    line = refused(capsys, tmp_path)
    assert "the nearest, bert cannot express model.attention_window=8, model.gated_feed_forward=true" in line
    assert [path.name for path in tmp_path.iterdir()] == [paths.WEIGHTS]


def test_wrong_inputs_are_refused_in_one_line(tokenizer, tmp_path, capsys):
    assert "is neither a folder nor the id of a run" in refused(capsys, "nowhere")
    assert f"there is no tracking store sqlite:///{tmp_path}" in refused(capsys, "0" * 32, f"output={tmp_path}")
    assert "tracking.uri='foo' must be an address such as http://HOST:5000" in refused(capsys, "0" * 32, "tracking.uri=foo")
    (tmp_path / "empty").mkdir()
    assert "has no checkpoint/" in refused(capsys, tmp_path / "empty")
    shape = shape_of("base", tokenizer)
    checkpoint = lay_out(tmp_path / "run", shape, tokenizer, Trained(shape).state_dict())
    assert "family='bart' is not one of bert" in refused(capsys, checkpoint, "family=bart")
    assert "unknown format 'tf'" in refused(capsys, checkpoint, "format=tf")
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(capsys, checkpoint, f"to={tmp_path}/file/below")
    (checkpoint / "tokenizer.json").write_text("{}")
    assert "tokenizer.json" in refused(capsys, checkpoint)
    build(TokenizerConfig(vocab_size=90, min_frequency=1), [*TEXTS, "zyx 0123456789"]).save(str(checkpoint / "tokenizer.json"))
    assert f"the model {shape.vocab_size} token embeddings" in refused(capsys, checkpoint)
    (checkpoint / "tokenizer.json").unlink()
    assert "tokenizer.json" in refused(capsys, checkpoint)


def test_run_is_found_by_its_id_in_the_tracking_store(tokenizer, output, capsys):
    from harness.plugins.trackers.mlflow_store import Tracker

    shape = shape_of("base", tokenizer)
    records = [{"attempt": letter * 32, "name": letter, "started": 1, "tags": {}, "parameters": {}} for letter in "ab"]
    ids = [Tracker(None, str(output), "study").begin(record) for record in records]
    for record in records:
        lay_out(output / "study" / record["name"], shape, tokenizer, Trained(shape).state_dict())
        (output / "study" / record["name"] / "run.json").write_text(json.dumps(record))
    assert main(["export", ids[1], f"output={output}"]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {output / 'study' / 'b' / 'export'}: bert")
    assert "cannot be looked up: " in refused(capsys, "0" * 32, f"output={output}")
    (output / "study" / "a" / "run.json").unlink()
    assert "has no folder below output=" in refused(capsys, ids[0], f"output={output}")
