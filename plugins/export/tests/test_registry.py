"""`export register=NAME`: a version in MLflow's registry that predicts as `predict` does, or one line and nothing half done."""

import json
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from kept_runs import kept, predicted, rows_of
from mlflow.types.schema import Array, DataType
from small_disk import fill, mounted
from tokenizers import Tokenizer
from tracking_server import serving

from harness.__main__ import main
from harness.config.choices import TaskKind
from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError
from harness.plugins.trackers import mlflow_store

TEXTS = ["the cat sat on the mat", "a dog", "cats and dogs sat still", "mat"]
PAIRS = [("the cat", "a dog"), ("a mat", "cats sat")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build(TokenizerConfig(vocab_size=80, min_frequency=1), TEXTS)


MLFLOW_WARNS = pytest.mark.filterwarnings("ignore:.*type hint is inferred as AnyType", "ignore:Operation with range")
"""Of its own code, while it is imported and when it compares a frame with a signature."""

REGISTERED = {
    TaskKind.classification: (["no", "yes"], ["question", "context"], PAIRS),
    TaskKind.regression: ([], ["text"], [(text,) for text in TEXTS]),
    TaskKind.multilabel: (["no", "yes"], ["text"], [(text,) for text in TEXTS]),
    TaskKind.tokens: (["O", "B-x"], ["words"], [(text.split(),) for text in TEXTS]),
}


def store_in(output: Path) -> Path:
    """A folder of results whose store tracks the run with the attempt `one`."""
    experiment = mlflow_store.Tracker(None, str(output), "s").experiment
    client = mlflow_store.MlflowClient(tracking_uri=f"sqlite:///{output / 'mlflow.db'}")
    note = "base on bag, scale tiny, seed 1. Finished: score 0.900.\n\nFiles: `s/run` below the output folder."
    client.create_run(experiment, tags={"attempt": "one", mlflow_store.NOTE: note})
    return output


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return store_in(tmp_path / "out")


@pytest.mark.long
@MLFLOW_WARNS
@pytest.mark.parametrize("kind", REGISTERED, ids=lambda kind: kind.value)
def test_a_registered_model_predicts_as_the_command_does(tokenizer, store, tmp_path, capsys, monkeypatch, kind):
    labels, columns, texts = REGISTERED[kind]
    bias = -9.0 if kind is TaskKind.multilabel else 0.0  # no label for the example: its type is known all the same
    kept(tmp_path / "run", tokenizer, kind, labels, columns, bias)
    (tmp_path / "run" / "run.json").write_text(json.dumps({"attempt": "one"}))
    for version in (1, 2):
        assert main(["export", str(tmp_path / "run"), "register=mine", f"output={store}"]) == 0
        assert capsys.readouterr().out == f"registered models:/mine/{version}: load it by mlflow.pyfunc.load_model\n"
    address = f"sqlite:///{store / 'mlflow.db'}"  # whatever another test of this process has set
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", address)
    monkeypatch.setattr("mlflow.tracking._model_registry.utils._registry_uri", address)
    version = mlflow_store.MlflowClient().get_model_version("mine", "2")
    assert version.description == "base on bag, scale tiny, seed 1. Finished: score 0.900."
    loaded = mlflow.pyfunc.load_model("models:/mine/2")
    assert loaded.metadata.get_input_schema().input_names() == columns
    assert [*loaded.input_example.columns] == columns
    answer = loaded.metadata.get_output_schema().input_dict()["prediction"].type
    types = {TaskKind.regression: DataType.double, TaskKind.classification: DataType.string}
    assert answer == types.get(kind, Array(DataType.string))
    rows = [dict(zip(columns, row, strict=True)) for row in texts]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    predicted(tmp_path / "run", tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    frame = loaded.predict(pd.DataFrame(rows))
    for found, expected in zip(frame.to_dict("records"), rows_of(tmp_path / "out.jsonl"), strict=True):
        assert found == {key: value for key, value in expected.items() if key not in ("row", "words")}
    with pytest.raises(InputError, match=f"row 1: expected text in {', '.join(columns)}, got "):
        loaded.predict(pd.DataFrame([rows[0], dict.fromkeys(columns, [] if columns == ["words"] else None)]))


@pytest.mark.long
@MLFLOW_WARNS
def test_what_cannot_be_registered_is_one_line(tokenizer, store, tmp_path, capsys):
    run = tmp_path / "run"
    kept(run, tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    refused = {
        ("register=a", "format=onnx"): "format=onnx applies to a folder: leave it out, or register=a",
        ("register=a", "to=x"): "to=x applies to a folder: leave it out, or register=a",
        ("register=a",): "is not in the folder of a run",
    }
    for arguments, message in refused.items():
        assert main(["export", str(run), *arguments, f"output={store}"]) == 2
        assert message in capsys.readouterr().err
    (run / "run.json").write_text(json.dumps({"attempt": "other"}))
    assert main(["export", str(run), "register=a", f"output={store}"]) == 2
    assert "register=a: the run is not in the tracking store: python -m harness sync sends it" in capsys.readouterr().err
    (run / "run.json").write_text(json.dumps({"attempt": "one"}))
    assert main(["export", str(run), "register=a/b", f"output={store}"]) == 2
    assert "MLflow failed (Invalid model name" in (err := capsys.readouterr().err)
    assert err.startswith("harness export: register=a/b tracking.uri=sqlite:////")
    assert err.count("\n") == 1
    assert not list(store.glob("artifacts/**/MLmodel"))


def registered(store: Path, name: str) -> list[str]:
    """Versions of a model in the registry; a model without versions is none."""
    client = mlflow_store.MlflowClient(tracking_uri=f"sqlite:///{store / 'mlflow.db'}")
    names = [model.name for model in client.search_registered_models()]
    return [one.version for one in client.search_model_versions(f"name='{name}'")] if name in names else []


@pytest.mark.long
@MLFLOW_WARNS
@pytest.mark.parametrize("last", ["/mlflow-artifacts/", "/model-versions/create"])
def test_a_registry_that_ends_meanwhile_is_one_line_and_has_no_version(tokenizer, store, tmp_path, capsys, last):
    """The server drops the connection at the first request of this kind, and at all later ones."""
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    (tmp_path / "run" / "run.json").write_text(json.dumps({"attempt": "served"}))
    asked: list[str] = []
    left = [last]

    def drop(path: str) -> None:
        if left and (asked or left[0] in path):
            asked.append(path)
            raise ConnectionResetError

    with serving(store / "mlflow.db", drop) as uri:
        client = mlflow_store.MlflowClient(tracking_uri=uri)
        client.create_run(client.create_experiment("served"), tags={"attempt": "served"})
        command = ["export", str(tmp_path / "run"), "register=mine", f"tracking.uri={uri}"]
        assert main(command) == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"harness export: register=mine tracking.uri={uri}: MLflow failed (")
        assert (out, err.count("\n")) == ("", 1)
        assert len(asked) <= 4  # each of two requests is repeated once
        assert registered(store, "mine") == []
        left.clear()
        assert main(command) == 0
    assert registered(store, "mine") == [1]


@pytest.mark.long
@MLFLOW_WARNS
def test_a_full_disk_is_one_line_and_leaves_the_version_before_whole(tokenizer, tmp_path, capsys):
    kept(tmp_path / "run", tokenizer, TaskKind.classification, ["no", "yes"], ["text"])
    (tmp_path / "run" / "run.json").write_text(json.dumps({"attempt": "one"}))
    with mounted(tmp_path / "disk", 4 << 20) as disk:
        output = store_in(disk / "out")
        command = ["export", str(tmp_path / "run"), "register=mine", f"output={output}"]
        assert main(command) == 0
        files = {path: path.read_bytes() for path in output.rglob("artifacts/**/*") if path.is_file()}
        capsys.readouterr()
        for leave in (0, 1 << 14):
            filler = fill(disk, leave)
            assert main(command) == 1
            err = capsys.readouterr().err
            assert (err.count("\n"), err.endswith(": free some, and the same command continues\n")) == (1, True), err
            filler.unlink()
            assert {path: path.read_bytes() for path in output.rglob("artifacts/**/*") if path.is_file()} == files
            assert registered(output, "mine") == [1]
        assert main(command) == 0
        assert sorted(registered(output, "mine")) == [1, 2]
