"""`python -m harness predict kind=vectors`: vectors as transformers gives them, the files' layouts, and what is refused."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from pyarrow import parquet
from safetensors.torch import load_file

from harness import paths
from harness.__main__ import main
from harness.checkpoints import native
from harness.config.schema import HardwareConfig, RunConfig, TokenizerConfig
from harness.data.tokenizer import SPECIAL, build
from harness.errors import InputError
from harness.grammar import parse
from harness.models.config import EncoderConfig
from harness.models.encoder import initialise
from harness.models.heads import SequenceClassifier
from harness.plugins.predict import predict
from harness.plugins.predict.options import Predict

PIECES = [*SPECIAL, "the", "cat", "sat", "on", "mat", "##s", "a", "dog", ".", "é", "##é"]
TEXTS = ["the cat sat on the mats .", "a dog ||| the cats sat", "", "the élan dog", "a ||| b ||| cat", "dog"]


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["predict"])
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published BERT with a classifier of three classes."""
    folder = tmp_path_factory.mktemp("bert")
    shape = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(
        vocab_size=len(PIECES), max_position_embeddings=24, num_labels=3, initializer_range=0.2, **shape
    )
    torch.manual_seed(5)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of ours with its weights."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = build(TokenizerConfig(vocab_size=60, min_frequency=1), TEXTS)
    small = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    shape = EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **small)
    model = SequenceClassifier(shape, 2)
    initialise(model, 0.3, 0)
    native.save(folder / paths.WEIGHTS, model.state_dict(), shape)
    tokenizer.save(str(folder / paths.WEIGHTS / native.TOKENIZER))
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def run(*arguments: str) -> None:
    """The command, without the seconds that Hydra takes."""
    assert (
        predict.main(parse([*arguments, "kind=vectors"], Predict, "predict"), [RunConfig(hardware=HardwareConfig(threads=1))])
        == 0
    )


def written(*arguments: str) -> list[dict]:
    """The JSON lines that the command writes."""
    run(*arguments, "to=out.jsonl")
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def vectors(rows: list[dict]) -> np.ndarray:
    """(tokens of all texts, L, D)."""
    return np.array([[layer["values"] for layer in token["layers"]] for row in rows for token in row["features"]])


def expected(folder: Path, layers: tuple[int, ...]) -> tuple[list[list[str]], np.ndarray]:
    """Tokens and vectors by transformers, one text at a time; a pair is parted at its last mark."""
    reading = transformers.BertTokenizer(vocab=str(folder / "vocab.txt"))
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens, found = [], []
    for line in TEXTS:
        given = reading(*(line.rsplit(" ||| ", 1)), return_tensors="pt")
        with torch.no_grad():
            states = model(**given, output_hidden_states=True).hidden_states
        tokens.append(reading.convert_ids_to_tokens(given["input_ids"][0]))
        found.append(torch.stack([states[layer][0] for layer in layers], dim=1))
    return tokens, torch.cat(found).numpy()


def test_vectors_are_the_hidden_states_of_transformers(bert, text):
    layers = (-1, -2, -3, -4, 0)
    rows = written(f"checkpoint={bert}", f"input={text}", f"layers={[*layers]}", "batch_size=4")
    tokens, wanted = expected(bert, layers)
    assert [[token["token"] for token in row["features"]] for row in rows] == tokens
    assert wanted.std() > 0.5
    assert np.abs(vectors(rows) - wanted).max() <= 1e-5


TABLE = {
    "new.csv": 'label,text\n0,"good, better"\n1,bad\n',
    "new.tsv": "label\ttext\n0\tgood, better\n1\tbad\n",
    "new.jsonl": '{"text": "good, better"}\n{"text": "bad", "label": 1}\n',
}


@pytest.mark.parametrize("name", TABLE)
def test_a_table_is_read_by_its_columns_and_its_header_is_no_text(bert, text, name):
    plain, table = Path("plain.txt"), Path(name)
    plain.write_text("good, better\nbad\n")
    table.write_text(TABLE[name])
    assert written(f"checkpoint={bert}", f"input={table}") == written(f"checkpoint={bert}", f"input={plain}")


def test_a_pair_of_a_table_is_that_of_a_line(bert):
    Path("plain.txt").write_text("a b ||| c d\n")
    Path("new.csv").write_text("one,other\na b,c d\n")
    of_table = written(f"checkpoint={bert}", "input=new.csv", "fields=[one,other]")
    assert of_table == written(f"checkpoint={bert}", "input=plain.txt")


def test_layout_is_that_of_the_original_feature_extraction(bert, text):
    rows = written(f"checkpoint={bert}", f"input={text}")
    assert [row["linex_index"] for row in rows] == list(range(len(TEXTS)))
    for line, row in zip(Path("out.jsonl").read_text().splitlines(), rows, strict=True):
        tokens = []
        for token in row["features"]:
            rounded = [[round(value, 6) for value in layer["values"]] for layer in token["layers"]]
            of_layers = [{"index": index, "values": rounded[place]} for place, index in enumerate((-1, -2, -3, -4))]
            tokens.append({"token": token["token"], "layers": of_layers})
        assert line == json.dumps({"linex_index": row["linex_index"], "features": tokens})


def test_formats_hold_the_same(bert, text):
    rows = written(f"checkpoint={bert}", f"input={text}", "layers=[-1,2]", "batch_size=2")
    wanted, lengths = vectors(rows), [len(row["features"]) for row in rows]
    for form in ("parquet", "safetensors"):
        run(f"checkpoint={bert}", f"input={text}", "layers=[-1,2]", "batch_size=2", f"to=out.{form}")
    table = pd.read_parquet("out.parquet")
    assert parquet.ParquetFile("out.parquet").num_row_groups > 1
    assert table["linex_index"].tolist() == list(range(len(TEXTS)))
    assert [list(tokens) for tokens in table["tokens"]] == [[token["token"] for token in row["features"]] for row in rows]
    columns = [np.concatenate([np.stack(text) for text in table[name]]) for name in ("layer_-1", "layer_2")]
    assert np.abs(np.stack(columns, axis=1) - wanted).max() <= 1e-6
    found = load_file("out.safetensors")
    assert np.abs(found["values"].numpy() - wanted).max() <= 1e-6
    assert found["lengths"].tolist() == lengths
    pieces = json.loads(bytes(found["pieces"].tolist()))
    assert [pieces[i] for i in found["token_ids"].tolist()] == [token["token"] for row in rows for token in row["features"]]


def test_batch_size_changes_nothing(bert, text):
    one = written(f"checkpoint={bert}", f"input={text}", "batch_size=1")
    several = written(f"checkpoint={bert}", f"input={text}", "batch_size=5")
    assert np.abs(vectors(one) - vectors(several)).max() <= 1e-5


def test_long_texts_are_cut(bert, text):
    rows = written(f"checkpoint={bert}", f"input={text}", "max_length=5")
    assert [token["token"] for token in rows[0]["features"]] == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    assert max(len(row["features"]) for row in rows) == 5


@pytest.mark.parametrize("key", ["RUN", "checkpoint"])
def test_weights_of_ours_give_the_encoders_vectors(key, ours, text):
    from harness.models.batch import Batch

    rows = written(str(ours) if key == "RUN" else f"checkpoint={ours / paths.WEIGHTS}", f"input={text}")
    state, shape = native.read(ours / paths.WEIGHTS)
    model = SequenceClassifier(shape, 2).eval()
    model.load_state_dict(state)
    tokenizer = build(TokenizerConfig(file=str(ours / paths.WEIGHTS / native.TOKENIZER)), ())
    with torch.no_grad():
        wanted = model.encoder(Batch(torch.tensor([tokenizer.encode(TEXTS[0]).ids])))[0].numpy()
    assert np.abs(vectors(rows[:1])[:, 0] - wanted).max() <= 1e-6
    assert [layer["index"] for layer in rows[0]["features"][0]["layers"]] == [-1, -2, -3]


@pytest.mark.long
def test_summary_tells_pieces_shapes_and_bytes(bert, tmp_path, capsys):
    path = tmp_path / "many.txt"
    path.write_text("the cat\n" * 13)
    assert main(["predict", "kind=vectors", f"checkpoint={bert}", f"input={path}", "to=out.jsonl", "hardware.threads=1"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[2] == ["text", "WordPieces", "shape", "bytes", "of", "float32"]
    assert rows[4] == ["0", "4", "4", "x", "4", "x", "16", "1,024"]
    assert rows[-1] == ["all", "13", "52", "52", "x", "4", "x", "16", "13,312"]


# What is refused

HYDRA = ("model", "scale", "finetune", "format", "layers=[5]")
"""Arguments for which the whole command runs."""


@pytest.fixture
def refused(bert: Path, text: Path, capsys: pytest.CaptureFixture) -> Callable[..., str]:
    """The one line of a refusal, after which nothing new lies there."""

    def refusal(*arguments: str, leave: tuple[str, ...] = ()) -> str:
        before = {path.name for path in Path().iterdir()}
        given = {"checkpoint": f"checkpoint={bert}", "input": f"input={text}", "to": "to=out.jsonl"}
        named = {argument.partition("=")[0] for argument in arguments}
        kept = [value for key, value in given.items() if key not in named and key not in leave]
        if any(argument.startswith(HYDRA) for argument in arguments):
            assert main(["predict", "kind=vectors", *kept, *arguments, "hardware.threads=1"]) == 2
        else:
            with pytest.raises(InputError) as error:
                run(*kept, *arguments)
            print(error.value, file=sys.stderr)
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert {path.name for path in Path().iterdir()} == before
        return err

    return refusal


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("layers=[-1,-6]", "layers=-6 does not exist; choices: 0 (the embeddings) to 4 (the last layer), or from the"),
        ("layers=[-1,-1]", "names a layer twice"),
        ("checkpoint=/nowhere", "checkpoint='/nowhere' is not a folder"),
        ("nowhere", "RUN and checkpoint= both name a model"),
        ("to=text.txt", "is a folder or the input itself"),
        ("to=nowhere/out.jsonl", "to='nowhere/out.jsonl' cannot be written (No such file or directory)"),
        ("to=f.csv", "to='f.csv' ends in '.csv': expected .jsonl, .parquet, .safetensors, or format=NAME with it"),
        ("max_length=25", "max_length=25 must be at most 24, the"),
        ("beside=[id]", "beside= is for predictions"),
        ("finetune.epochs=2", "unknown key 'finetune'"),
        ("scale=tiny", "checkpoint= and scale=tiny both name a model"),
    ],
)
def test_wrong_inputs_are_told_in_one_line(argument, message, refused):
    assert message in refused(argument)


@pytest.mark.parametrize("argument", ["layers=[-1]", "model=albert", "tokenizer.vocab_file=v.txt"])
def test_what_predictions_do_not_read_is_told(argument, text):
    with pytest.raises(InputError, match=rf"{argument.partition('=')[0]}= belongs to kind=vectors: add it, or leave"):
        parse([*([] if argument.startswith("model") else ["run"]), f"input={text}", "to=o.csv", argument], Predict, "predict")


def test_input_without_text_is_told(refused, tmp_path):
    (tmp_path / "empty.txt").touch()
    assert "input='empty.txt' has no rows" in refused("input=empty.txt")


def test_diverged_weights_are_told(ours, tmp_path, refused):
    state, shape = native.read(ours / paths.WEIGHTS)
    state["encoder.embeddings.norm.weight"][:] = float("nan")
    native.save(tmp_path / "bad", state, shape)
    (tmp_path / "bad" / native.TOKENIZER).write_bytes((ours / paths.WEIGHTS / native.TOKENIZER).read_bytes())
    assert "vectors of line 1 are not finite" in refused("checkpoint=bad")


# Without weights


BERT_CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 24,
    "initializer_range": 0.02,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 5,
    "type_vocab_size": 2,
    "vocab_size": len(PIECES),
}
"""The keys that BERT's own bert_config.json has."""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Arguments without weights: a vocabulary and a shape."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "bert_config.json").write_text(json.dumps(BERT_CONFIG))
    return ["tokenizer.vocab_file=vocab.txt", "bert_config_file=bert_config.json"]


def whole_command(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["predict", "kind=vectors", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.long
def test_a_vocabulary_and_a_bert_config_give_random_vectors_of_its_shape(capsys, files, text):
    arguments = [*files, f"input={text}", "max_length=12"]
    code, out, _ = whole_command(capsys, *arguments, "to=one.jsonl")
    rows = [json.loads(line) for line in Path("one.jsonl").read_text().splitlines()]
    assert code == 0
    assert out.startswith("no weights are named: randomly initialised (seed 0)\n")
    assert vectors(rows).shape[1:] == (4, 24)
    assert [layer["index"] for layer in rows[0]["features"][0]["layers"]] == [-1, -2, -3, -4]
    assert [token["token"] for token in rows[0]["features"]] == [
        "[CLS]",
        "the",
        "cat",
        "sat",
        "on",
        "the",
        "mat",
        "##s",
        ".",
        "[SEP]",
    ]
    assert max(len(row["features"]) for row in rows) <= 12
    for seed, is_same in ((0, True), (1, False)):
        whole_command(capsys, *arguments, "to=two.jsonl", f"seed={seed}")
        assert (Path("one.jsonl").read_bytes() == Path("two.jsonl").read_bytes()) == is_same


@pytest.mark.long
def test_random_encoder_of_a_named_variant(capsys, files, text):
    code, _, _ = whole_command(capsys, files[0], "model=albert", "scale=tiny", f"input={text}", "to=out.jsonl", "layers=[0,-1]")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert code == 0
    assert vectors(rows).shape[1:] == (2, 128)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["bert_config_file=bert_config.json"],
            "no weights are named: give RUN or checkpoint=FOLDER, one of them; or, for random",
        ),
        (["bert_config_file=none.json", "tokenizer.vocab_file=vocab.txt"], "bert_config_file='none.json' is not a file"),
        (
            ["bert_config_file=small.json", "tokenizer.vocab_file=vocab.txt"],
            "'small.json' has 16 pieces, the model 3 token embeddings",
        ),
        (
            ["bert_config_file=odd.json", "tokenizer.vocab_file=vocab.txt"],
            "bert_config_file='odd.json': config.json: model.hidden_size=24 must be a multiple",
        ),
        (["bert_config_file=bert_config.json", "checkpoint=here"], "bert_config_file= and checkpoint= both name a model"),
        (
            ["bert_config_file=bert_config.json", "tokenizer.vocab_file=vocab.txt", "model=albert"],
            "bert_config_file= and model=albert both name a model",
        ),
    ],
)
def test_wrong_files_without_weights_are_one_line(capsys, files, text, arguments, message):
    Path("small.json").write_text(json.dumps(BERT_CONFIG | {"vocab_size": 3}))
    Path("odd.json").write_text(json.dumps(BERT_CONFIG | {"num_attention_heads": 7}))
    code, out, err = whole_command(capsys, *arguments, f"input={text}", "to=out.jsonl")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
