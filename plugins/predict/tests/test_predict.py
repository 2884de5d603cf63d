"""`python -m harness predict`: the model's own predictions in every format, and what is refused."""

import csv
import datetime
import gzip
import json
import re
import signal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch
from child_processes import wait_for
from kept_runs import kept, predicted, rows_of
from pyarrow import parquet
from small_disk import fill, mounted
from tokenizers import Tokenizer

from harness import paths
from harness.__main__ import main
from harness.config.choices import TaskKind
from harness.config.schema import HardwareConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.heads import Classifier
from harness.plugins.predict import predict
from harness.plugins.shared.predictor import Predictor

TEXTS = ["the cat sat on the mat", "a dog", "cats and dogs sat still", "mat"]
PAIRS = [("the cat", "a dog"), ("a mat", "cats sat")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build(TokenizerConfig(vocab_size=80, min_frequency=1), TEXTS)


@torch.inference_mode()
def logits_of(model: Classifier, tokenizer: Tokenizer, *texts: str) -> torch.Tensor:
    """One text or pair at a time, without padding."""
    row = tokenizer.encode(*texts)
    return model(Batch(torch.tensor([row.ids]), torch.tensor([row.type_ids])))[0]


@pytest.mark.parametrize("arguments", [(), ("batch_size=1",)])
def test_probabilities_are_those_of_the_model(tokenizer, tmp_path, capsys, arguments):
    model = kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes", "maybe"], ["text"])
    source, output = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("\n".join(TEXTS) + "\n")
    predicted(tmp_path / "run", source, output, *arguments)
    assert capsys.readouterr().out == f"wrote {output}: 4 predictions of task mine\n"
    for number, (text, row) in enumerate(zip(TEXTS, rows_of(output), strict=True), 1):
        expected = logits_of(model, tokenizer, text).softmax(dim=0).tolist()
        assert row["row"] == number
        assert list(row["probabilities"]) == ["no", "yes", "maybe"]
        assert list(row["probabilities"].values()) == pytest.approx(expected, abs=1e-5)
        assert row["prediction"] == max(row["probabilities"], key=row["probabilities"].get)
        assert row["probability"] == max(row["probabilities"].values())


def test_regression_has_a_number_per_row(tokenizer, tmp_path):
    model = kept(tmp_path / "run", tokenizer, TaskKind.regression, [], ["text"])
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    predicted(tmp_path / "run", tmp_path / "in.txt", tmp_path / "out.jsonl")
    expected = [logits_of(model, tokenizer, text)[0].item() for text in TEXTS]
    assert [row["prediction"] for row in rows_of(tmp_path / "out.jsonl")] == pytest.approx(expected, abs=1e-5)


def test_a_registered_model_reads_a_list_of_endings_as_the_command_does(tokenizer, tmp_path):
    kept(tmp_path / "run", tokenizer, TaskKind.multiple_choice, ["0", "1", "2"], ["text", "endings"])
    rows = [{"text": "the cat", "endings": ["a dog", "sat on", "mat"]}, {"text": "a", "endings": ["cats", "dogs", "the mat"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    predicted(tmp_path / "run", tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    registered = Predictor(tmp_path / "run" / paths.WEIGHTS, HardwareConfig(threads=1), 8)
    expected = [row["prediction"] for row in rows_of(tmp_path / "out.jsonl")]
    assert registered.predict(pd.DataFrame(rows))["prediction"].tolist() == expected
    assert len(registered.predict(registered.example)) == 1


@pytest.mark.long
def test_every_format_of_rows_gives_the_same_predictions(tokenizer, tmp_path):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["question", "context"])
    columns = [{"id": 7, "context": second, "question": first} for first, second in PAIRS]
    (tmp_path / "in.txt").write_text("".join(f"{first} ||| {second}\n" for first, second in PAIRS))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in columns))
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        with (tmp_path / f"in.{ending}").open("w", newline="") as file:
            table = csv.DictWriter(file, list(columns[0]), delimiter=delimiter)
            table.writeheader()
            table.writerows(columns)
    (tmp_path / "in.json").write_text(json.dumps(columns))
    (tmp_path / "in.CSV").write_text((tmp_path / "in.tsv").read_text().replace("\t", ";"))
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress((tmp_path / "in.csv").read_bytes()))
    found = []
    for ending in ("txt", "jsonl", "csv", "tsv", "json", "CSV", "csv.gz"):
        predicted(tmp_path / "run", tmp_path / f"in.{ending}", tmp_path / f"of_{ending}.jsonl")
        found.append(rows_of(tmp_path / f"of_{ending}.jsonl"))
    assert all(rows == found[0] for rows in found)
    assert found[0][0]["probabilities"] != found[0][1]["probabilities"]
    predicted(tmp_path / "run", tmp_path / "in.txt", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["row", "prediction", "probability", "probability.no", "probability.yes"]
    assert [float(row["probability.yes"]) for row in table] == [row["probabilities"]["yes"] for row in found[0]]


@pytest.mark.long
def test_a_table_is_read_as_for_training(tokenizer, tmp_path):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    (tmp_path / "in.tsv").write_text('id\ttext\n1\t"a dog\n2\ta cat\n3\tmat"\n')  # in a .tsv nothing is quoted
    (tmp_path / "in.csv").write_text('\ufeffid,text\r\n1,"a ""dog"",\na mat"\r\n\r\n2,' + "a cat " * 30_000, newline="")
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a dog"}\n\n{"id": 2, "text": "a cat"}\n\n')
    texts = {}
    for ending in ("tsv", "csv", "jsonl"):
        predicted(tmp_path / "run", tmp_path / f"in.{ending}", tmp_path / "out.jsonl", "beside=[id,text]")
        rows = rows_of(tmp_path / "out.jsonl")
        texts[ending] = [row["text"] for row in rows]
        assert [(row["row"], int(row["id"])) for row in rows] == [(number, number) for number in range(1, len(rows) + 1)]
    assert texts["tsv"] == ['"a dog', "a cat", 'mat"']
    assert texts["csv"] == ['a "dog",\na mat', "a cat " * 30_000]
    assert texts["jsonl"] == ["a dog", "a cat"]


def test_labels_of_a_text_are_written_as_training_reads_them(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK", 1)
    (tmp_path / "in.jsonl").write_text('{"text": "a dog", "ids": [1, 2]}\n')
    for bias, labels in ((9.0, ["old money", "rain"]), (-9.0, [])):
        kept(tmp_path / "run", tokenizer, TaskKind.multilabel, ["old money", "rain"], ["text"], bias)
        predicted(tmp_path / "run", tmp_path / "in.jsonl", tmp_path / "out.csv", "beside=[ids]")
        (row,) = written(tmp_path / "out.csv")
        assert (row["prediction"], row["ids"]) == ("|".join(labels), "1|2")


def test_a_column_without_values_in_its_first_rows_is_written(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "CHUNK", 1)
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    rows = [{"text": "mat", "note": None, "tags": []}, {"text": "a dog", "note": "b", "tags": ["c"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    predicted(tmp_path / "run", tmp_path / "in.jsonl", tmp_path / "out.parquet", "beside=[note,tags]")
    assert [(row["note"], row["tags"]) for row in written(tmp_path / "out.parquet")] == [(None, []), ("b", ["c"])]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_dates_stand_beside_the_answer(tokenizer, tmp_path, ending):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    days = [datetime.date(2024, 2, 29), None]
    parquet.write_table(
        pa.table({"text": pa.array(["a dog", "mat"]).dictionary_encode(), "day": days}), tmp_path / "in.parquet"
    )
    predicted(tmp_path / "run", tmp_path / "in.parquet", tmp_path / f"out{ending}", "beside=[day]")
    expected = {".parquet": days, ".csv": ["2024-02-29", ""], ".jsonl": ["2024-02-29", None]}
    assert [row["day"] for row in written(tmp_path / f"out{ending}")] == expected[ending]


def test_words_get_a_label_each_and_cut_ones_none_of_an_entity(tokenizer, tmp_path):
    model = kept(tmp_path / "run", tokenizer, TaskKind.tokens, ["O", "B-x", "I-x"], ["words"])
    words = ["cats", "and", "dogs", "sat"]
    (tmp_path / "in.jsonl").write_text(json.dumps({"words": words}) + "\n" + json.dumps({"words": ["mat"] * 20}) + "\n")
    predicted(tmp_path / "run", tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    first, second = rows_of(tmp_path / "out.jsonl")
    row = tokenizer.encode(words, is_pretokenized=True)
    with torch.inference_mode():
        tags = model(Batch(torch.tensor([row.ids]), torch.tensor([row.type_ids])))[0].argmax(dim=-1).tolist()
    firsts = [row.word_ids.index(number) for number in range(len(words))]
    assert first == {"row": 1, "words": words, "prediction": [["O", "B-x", "I-x"][tags[place]] for place in firsts]}
    assert len(second["prediction"]) == 20
    assert second["prediction"][14:] == ["O"] * 6  # 16 tokens with [CLS] and [SEP]
    (tmp_path / "in.txt").write_text(" ".join(words) + "\n")
    predicted(tmp_path / "run", tmp_path / "in.txt", tmp_path / "again.jsonl")
    assert rows_of(tmp_path / "again.jsonl") == [first]


@pytest.mark.long
def test_command_writes_and_refuses_in_one_line(tokenizer, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["predict"])
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    (tmp_path / "in.txt").write_text("a dog\n")
    assert main(["predict", "run", "input=in.txt", "to=out.csv", "hardware.threads=1"]) == 0
    assert "wrote out.csv: 1 prediction of task mine" in capsys.readouterr().out
    for arguments, message in (
        (["run", "input=in.txt", "to=out.csv", "model=albert"], "model"),
        (["nowhere", "input=in.txt", "to=out.csv"], "RUN='nowhere' is neither a folder nor the id of a run"),
    ):
        assert main(["predict", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.txt", "a dog\n\na cat\n", "line 2 is empty: expected a text on every line"),
        ("in.txt", "a ||| b\n", "line 1 has 2 texts, task 'mine' of the run has 1"),
        ("in.txt", "", "has no rows"),
        ("in.csv", "txt,n\na dog,1\n", "which task 'mine' of the run reads \\(rename or add it\\); it has: txt, n$"),
        ("in.jsonl", "{}\n", "line 1 lacks the column 'text', which task 'mine' of the run reads .*; it has: none$"),
        ("in.jsonl", '{"text": 3}\n', "line 1: expected text in text, got"),
        ("in.doc", "a", "input=.* ends in '.doc': expected .txt, .csv, .tsv, .jsonl"),
    ],
)
def test_wrong_rows_are_refused_and_no_file_is_left(tokenizer, tmp_path, name, content, message):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        predicted(tmp_path / "run", tmp_path / name, tmp_path / "out.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"run", name}


LAST = {
    "in.jsonl": ("line 4: not JSON", '{"text": "a dog"}\n' * 3 + '{"text": "a d'),
    "no.jsonl": ("line 4 lacks the column 'text'", '{"text": "a dog"}\n' * 3 + '{"texts": "a dog"}\n'),
    "in.csv": ("line 5: expected 2 columns, as in the header, got 1", "id,text\n" + "1,a dog\n" * 3 + "4\n"),
    "in.txt": ("line 4: byte 0xff is not UTF-8", "a dog\n" * 3 + "a \xff\n"),
    "in.parquet": ("is not a readable parquet file", ""),
}
"""What is said of an input whose last row is broken, and its content."""


@pytest.mark.long
@pytest.mark.parametrize("name", LAST)
def test_a_broken_last_row_is_one_line_and_leaves_the_older_file(tokenizer, tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predict, "CHUNK", 1)
    monkeypatch.setattr("sys.argv", ["predict"])
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    message, content = LAST[name]
    Path(name).write_text(content, encoding="latin-1")
    if name == "in.parquet":
        parquet.write_table(pa.table({"text": TEXTS}), name, row_group_size=1, use_dictionary=False)
        last, whole = parquet.ParquetFile(name).metadata.row_group(3).column(0), bytearray(Path(name).read_bytes())
        whole[last.data_page_offset : last.data_page_offset + 8] = b"\xff" * 8
        Path(name).write_bytes(whole)
    Path("out.jsonl").write_text("of yesterday")
    assert main(["predict", "run", f"input={name}", "to=out.jsonl", "hardware.threads=1"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), f"input='{name}'" in err, message in err) == (1, True, True), err
    assert Path("out.jsonl").read_text() == "of yesterday"
    assert {path.name for path in tmp_path.iterdir()} == {"run", name, "out.jsonl"}


@pytest.mark.long
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_full_disk_is_one_line_and_leaves_the_older_file(tokenizer, tmp_path, monkeypatch, capsys, ending):
    monkeypatch.setattr("sys.argv", ["predict"])
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    people(tmp_path / "in.jsonl", 1500)
    with mounted(tmp_path / "disk", 1 << 16) as disk:
        output = disk / f"out{ending}"
        output.write_text("of yesterday")
        fill(disk, 1 << 13)
        assert (
            main(["predict", str(tmp_path / "run"), f"input={tmp_path / 'in.jsonl'}", f"to={output}", "hardware.threads=1"])
            == 1
        )
        err = capsys.readouterr().err
        assert (err.count("\n"), err.endswith(": free some, and the same command continues\n")) == (1, True), err
        assert output.read_text() == "of yesterday"
        assert {path.name for path in disk.iterdir()} == {output.name, "filler"}


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_ended_leaves_the_older_file(tokenizer, tmp_path, start_harness, number):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    people(tmp_path / "in.csv", 200_000)
    (tmp_path / "out.jsonl").write_text("of yesterday")
    process = start_harness("predict", "run", "input=in.csv", "to=out.jsonl", "hardware.threads=1")
    wait_for(lambda: (half := tmp_path / f".out.jsonl.{process.pid}").exists() and half.stat().st_size, process)
    process.send_signal(number)
    _, errors = process.communicate()
    assert (tmp_path / "out.jsonl").read_text() == "of yesterday"
    if number == signal.SIGINT:
        assert (process.returncode, errors) == (130, "harness predict: interrupted\n")
        assert {path.name for path in tmp_path.iterdir()} == {"run", "in.csv", "out.jsonl"}


def test_spans_are_refused(tokenizer, tmp_path):
    kept(tmp_path / "run", tokenizer, TaskKind.spans, [], ["question", "context"])
    (tmp_path / "in.txt").write_text("a ||| b\n")
    with pytest.raises(InputError, match="task 'mine' predicts spans of a context, which `predict` does not support"):
        predicted(tmp_path / "run", tmp_path / "in.txt", tmp_path / "out.jsonl")


def people(path: Path, rows: int) -> list[dict]:
    """A table of texts with a key, in the format of the ending."""
    made = [{"id": f"n{number}", "text": TEXTS[number % 4], "weight": number / 2} for number in range(rows)]
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(made), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in made))
    else:
        path.write_text(
            "".join(",".join(map(str, row)) + "\n" for row in [("id", "text", "weight"), *(one.values() for one in made)])
        )
    return made


def written(path: Path) -> list[dict]:
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return rows_of(path)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_columns_stand_beside_the_answer_in_every_format(tokenizer, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(predict, "CHUNK", 3)
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    expected = people(tmp_path / f"in{ending}", 8)
    predicted(tmp_path / "run", tmp_path / f"in{ending}", tmp_path / f"out{ending}", "beside=[id,text]")
    found = written(tmp_path / f"out{ending}")
    assert [(row["id"], row["text"]) for row in found] == [(row["id"], row["text"]) for row in expected]
    assert [int(row["row"]) for row in found] == list(range(1, 9))
    assert list(found[0])[:3] == ["row", "id", "text"]
    assert {row["prediction"] for row in found} <= {"no", "yes"}


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ("[key]", "line 1 lacks the column 'key' of beside= (name another, or leave it out); it has: id"),
        ("[row]", "beside=[row] is the name of an output column"),
        ("[probability.no]", "beside=[probability.no] is the name of an output column"),
        ("[half]", "line 1: expected text in half of beside=, got an unpaired surrogate"),
        ("[large]", "rows 1 to 1 mix types in a column"),
    ],
)
def test_columns_that_cannot_stand_beside_are_one_line(tokenizer, tmp_path, beside, message):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    people(tmp_path / "in.jsonl", 2)
    if beside != "[key]":
        row = {"row": 1, "text": "a dog", "probability.no": 1, "half": ["\ud800"], "large": 2**64}
        (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=re.escape(message)):
        predicted(tmp_path / "run", tmp_path / "in.jsonl", tmp_path / "out.parquet", f"beside={beside}")
    assert not (tmp_path / "out.parquet").exists()
