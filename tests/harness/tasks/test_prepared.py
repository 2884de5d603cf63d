"""Kinds of tasks from their files to answers: what the cache keeps, and that every entry can be prepared."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from pyarrow import parquet

from harness import paths, tasks
from harness.config.choices import DataSource, TaskKind
from harness.config.schema import DataConfig, HardwareConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.measure import flops
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier
from harness.paths import conf_directory
from harness.tasks import prepared as cache
from harness.tasks.base import Predictions
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog
from harness.training.evaluation import predict, write_predictions, write_scores
from harness.training.finetune import finetune

NAMES = ["Ann", "Bob", "Eve"]


def tagged(row: int) -> dict[str, object]:
    words = ["now", NAMES[row % 3], "sings", *(["and", NAMES[row % 2]] if row % 4 else [])]
    return {"id": f"t{row}", "words": words, "tags": [int(word in NAMES) for word in words]}


def answered(row: int) -> dict[str, object]:
    context = f"{'long ago ' * (row % 5)}the singer was {NAMES[row % 3]} they say"
    known = row % 4 > 0
    answers = {"text": [NAMES[row % 3]] * known, "answer_start": [context.index(NAMES[row % 3])] * known}
    return {"id": f"s{row}", "question": "Who sang?" if known else "Who danced?", "context": context, "answers": answers}


MADE = {
    TaskKind.tokens: (tagged, {"fields": ["words"], "label": "tags", "labels": ["O", "B-name"], "scores": ["entity_f1"]}),
    TaskKind.spans: (answered, {"fields": ["question", "context"], "label": "answers", "scores": ["f1"]}),
}


@pytest.fixture
def config_of(tmp_path: Path) -> Callable[[TaskKind], RunConfig]:
    """A config on small files of this kind of task that are written first."""

    def make(kind: TaskKind) -> RunConfig:
        row, keys = MADE[kind]
        for split, rows in (("train", range(40)), ("validation", range(40, 60))):
            (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row(number)) + "\n" for number in rows))
        files = {f"{split}_file": str(tmp_path / f"{split}.jsonl") for split in ("train", "validation")}
        task = TaskConfig(
            name="made", kind=kind, headline=keys["scores"][0], item="id", max_length=24, stride=2, **keys, **files
        )
        return RunConfig(
            task=task, data=DataConfig(DataSource.local), output=str(tmp_path), tokenizer=TokenizerConfig(vocab_size=80)
        )

    return make


def trained(config: RunConfig, prepared: Prepared, folder: Path, epochs: int) -> Predictions:
    """The answers of a small model after some epochs."""
    machine, run_log = Machine(HardwareConfig(threads=1)), RunLog(folder)
    kind = tasks.kind_of(config.task)
    shape = EncoderConfig(
        vocab_size=prepared.vocab_size, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    model = build_classifier(shape, kind.num_outputs(config.task), 0, kind.head())
    budget = replace(config.finetune, epochs=epochs, learning_rate=3e-3, batch_size=8, accumulation=2)
    finetune(replace(config, finetune=budget), model, prepared, machine, run_log, flops.of_training(model))
    logits = predict(model, prepared.validation, 7, prepared.pad_token_id, machine)
    answers = kind.predictions(config.task, prepared.validation, logits, prepared.majority)
    write_scores(config.task, answers, run_log)
    run_log.finish("finished")
    return answers


@pytest.mark.parametrize("kind", MADE)
def test_what_is_read_is_what_was_prepared(config_of, kind):
    config = config_of(kind)
    prepared = cache.read(config, cache.prepare(config))
    entry = paths.cache_folder(config.output) / prepared.key
    written = [path for path in entry.iterdir() if path.name != ".made-by-harness"]
    assert {path.suffix for path in written} == {".safetensors", ".parquet", ".json"}
    split = prepared.train
    assert split.items == [MADE[kind][0](row)["id"] for row in range(40)]
    assert len(split.labels) == (len(split.ids) if kind is TaskKind.tokens else len(split))
    if kind is TaskKind.spans:
        assert split.texts["answers"] == [answered(row)["answers"]["text"] for row in range(40)]
    else:
        assert split.texts["tags"] == [tagged(row)["tags"] for row in range(40)]


@pytest.mark.long
@pytest.mark.parametrize("kind", MADE)
def test_a_small_model_learns_more_than_the_constant_answer(config_of, kind, tmp_path):
    config = config_of(kind)
    answers = trained(config, cache.read(config, cache.prepare(config)), tmp_path, epochs=20)
    values = json.loads((tmp_path / "result.json").read_text())["metrics"]
    assert values["eval/score"] > values["eval/majority_score"] + 0.3
    assert values["eval/examples"] == 20
    assert len(answers.predicted) == 20


@pytest.mark.parametrize("kind", MADE)
def test_predictions_are_written_for_every_item(config_of, kind, tmp_path):
    config = config_of(kind)
    answers = trained(config, cache.read(config, cache.prepare(config)), tmp_path, epochs=1)
    write_predictions(answers, tmp_path / "predictions.parquet")
    table = parquet.read_table(tmp_path / "predictions.parquet").to_pydict()
    assert list(dict.fromkeys(table["item"])) == [MADE[kind][0](row)["id"] for row in range(40, 60)]


@pytest.mark.parametrize(("key", "value"), [("stride", 4), ("answerable_only", True), ("max_length", 32)])
def test_keys_that_shape_windows_are_part_of_the_key(config_of, key, value):
    config = config_of(TaskKind.spans)
    rows = [answered(row) for row in range(41) if row % 4]
    for name in ("train", "validation"):
        Path(getattr(config.task, f"{name}_file")).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cache.prepare(config) != cache.prepare(replace(config, task=replace(config.task, **{key: value})))


def test_splits_beside_the_validation_are_prepared_with_it(config_of):
    config = config_of(TaskKind.tokens)
    task = replace(
        config.task, validation_split="train[:10]", train_split="train[10:]", more_validation={"mismatched": "validation"}
    )
    config = replace(config, task=task)
    prepared = cache.read(config, cache.prepare(config))
    assert {name: split.items[0] for name, split in prepared.more.items()} == {"mismatched": "t40"}
    assert [len(prepared.train.items), len(prepared.validation.items), len(prepared.more["mismatched"].items)] == [30, 10, 20]


def test_an_undefined_score_is_said_and_left_out(tmp_path, capsys):
    task = TaskConfig(name="numbers", kind=TaskKind.regression, scores=["pearson"], headline="pearson")
    given = Predictions(np.ones(3), np.arange(3.0), np.zeros(3), 0.5, {})
    run_log = RunLog(tmp_path)
    write_scores(task, given, run_log)
    run_log.finish("finished")
    values = json.loads((tmp_path / "result.json").read_text())["metrics"]
    assert {key: values[key] for key in ("eval/loss", "eval/examples", "eval/majority_loss")} == dict(
        zip(("eval/loss", "eval/examples", "eval/majority_loss"), (0.5, 3, 0), strict=True)
    )
    assert not any("pearson" in key or "score" in key for key in values)
    assert "pearson is undefined" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(conf_directory().glob("task/*.yaml")), ids=lambda path: path.stem)
def test_every_entry_can_be_used_by_some_run(path):
    node = OmegaConf.load(path)
    if "members" not in node and path.stem not in ("none", "own"):  # pretraining alone, and what its user completes
        task = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), {"name": path.stem}, node))
        tasks.refuse_impossible(task)
        assert tasks.num_outputs(task) >= (task.kind is not TaskKind.minimal_pairs)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "items"),
    [("wnut17", (3394, 1009)), ("squad_small", (2575, 1190)), ("xquad_en", (952, 238)), ("squad_v2_part", (4862, 1216))],
)
def test_real_entries_prepare_whole(compose, shared_data, tmp_path, name, items):
    limits = [] if name == "wnut17" else ["data.train_examples=60", "data.validation_examples=50"]
    (config,) = compose(f"task={name}", "data=local", f"data.root={shared_data}", f"output={tmp_path}", *limits)
    prepared = cache.read(config, cache.prepare(config))
    found = [len(prepared.train.items), len(prepared.validation.items)]
    assert found == (list(items) if not limits else [60, 50])
    assert all(isinstance(item, str) for item in prepared.train.items)
    assert prepared.train.lengths.max() <= config.task.max_length


def test_texts_that_are_cut_are_said(config_of):
    config = config_of(TaskKind.tokens)
    assert not any("are cut" in note for note in cache.facts(config.output, cache.prepare(config)).notes)
    config = replace(config, task=replace(config.task, max_length=4))
    (note,) = (note for note in cache.facts(config.output, cache.prepare(config)).notes if "are cut" in note)
    assert note == (
        "100 % of the texts of train and 100 % of the texts of validation are longer than task.max_length=4 tokens and are cut"
    )


def test_texts_of_exactly_the_maximum_length_are_not_cut(config_of):
    config = config_of(TaskKind.tokens)
    longest = int(cache.read(config, cache.prepare(config)).train.lengths.max())
    for length, is_cut in ((longest, False), (longest - 1, True)):
        shorter = replace(config, task=replace(config.task, max_length=length))
        notes = cache.facts(config.output, cache.prepare(shorter)).notes
        assert any("are cut" in note for note in notes) is is_cut


def test_labels_of_another_kind_are_refused_with_the_key(config_of):
    config = config_of(TaskKind.tokens)
    config = replace(config, task=replace(config.task, labels=["O"]))
    with pytest.raises(InputError, match=r"task\.labels=\['O'\].*must be O and names"):
        cache.prepare(config)
