"""Which fine-tuned weights a run leaves: those that were evaluated, whole, and used by the other commands."""

import json
from dataclasses import replace
from pathlib import Path

import in_process
import numpy as np
import pytest
from pyarrow import parquet

from harness import paths
from harness.checkpoints import find_run, native, pretrained
from harness.checkpoints.finetuned import load_finetuned, read_task
from harness.config.choices import Keep, KeepBest, TaskKind
from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.plugins.shared.options import Weights
from harness.plugins.shared.weights import source_of
from harness.tasks import prepared as cache
from harness.training.evaluation import predict

NAMES = {"model.safetensors", "model.json", "tokenizer.json", "task.json"}


def trained(config: RunConfig, folder: Path, **budget: object) -> RunConfig:
    """Fine-tunes and evaluates for two epochs in the folder; the config that ran."""
    task = replace(config.task, tune_share=0.3)
    measure = replace(config.measure, enabled=False)
    config = replace(config, task=task, measure=measure, finetune=FinetuneConfig(epochs=2, batch_size=32, **budget))
    in_process.ran(config, folder)
    return config


def evaluated(folder: Path) -> np.ndarray:
    """(S, C) logits of the run's predictions."""
    table = parquet.read_table(folder / "predictions.parquet")
    return np.stack([table[name].to_numpy() for name in ("logit_0", "logit_1")], axis=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("keep", "keep_best"),
    [(Keep.last, KeepBest.none), (Keep.last, KeepBest.tune), (Keep.best, KeepBest.tune)],
    ids=lambda value: value.value,
)
def test_the_kept_weights_are_those_that_were_evaluated(small_config, tmp_path, keep, keep_best):
    config = trained(small_config, tmp_path / "run", keep=keep, keep_best=keep_best)
    checkpoint = tmp_path / "run" / paths.WEIGHTS
    assert {path.name for path in checkpoint.iterdir()} == NAMES
    model, facts, tokenizer = load_finetuned(checkpoint)
    assert not model.training
    assert (facts.name, facts.kind, facts.labels, facts.num_outputs) == ("bag", "classification", config.task.labels, 2)
    assert tokenizer == checkpoint / "tokenizer.json"
    data = cache.read(config, cache.prepare(config))
    machine = Machine(HardwareConfig(threads=1))
    logits = predict(machine.prepare(model), data.validation, 64, data.pad_token_id, machine)
    np.testing.assert_array_equal(logits, evaluated(tmp_path / "run"))


@pytest.mark.long
def test_nothing_is_kept_by_default_and_the_error_says_how(small_config, tmp_path):
    trained(small_config, tmp_path / "run")
    assert not (tmp_path / "run" / paths.WEIGHTS).exists()
    with pytest.raises(InputError, match=r"has no checkpoint/: expected .* a fine-tuning with finetune\.keep=last"):
        find_run.weights_folder(str(tmp_path / "run"), "run", str(tmp_path), None)


def test_a_study_of_one_timed_run_names_that_run(tmp_path):
    for name in ("base-0", "replicate-1-2-base-0"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "run.json").write_text("{}")
    for typed, name in {"mine": "base-0", "replicate": "replicate-1-2-base-0"}.items():
        assert find_run.folder_of(typed, "RUN", str(tmp_path), None).name == name


@pytest.mark.long
def test_an_earlier_checkpoint_is_replaced_and_nothing_half_written_stays(small_config, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / paths.WEIGHTS).mkdir()
    (tmp_path / "run" / paths.WEIGHTS / "left.txt").write_text("of an earlier attempt")
    config = replace(small_config, measure=replace(small_config.measure, enabled=False))
    config = replace(config, finetune=FinetuneConfig(max_steps=1, keep=Keep.last))
    in_process.ran(config, tmp_path / "run")
    assert {path.name for path in (tmp_path / "run" / paths.WEIGHTS).iterdir()} == NAMES
    assert not list((tmp_path / "run").glob(".*"))
    source = source_of(Weights(run=str(tmp_path / "run")), config)  # as predict and inspect load it
    model, _, _ = load_finetuned(tmp_path / "run" / paths.WEIGHTS)
    for name, tensor in model.encoder.state_dict().items():
        assert (source.encoder.state_dict()[name] == tensor).all(), name
    (tmp_path / "run" / "config.yaml").write_text("")
    started = replace(config, pretrain=replace(config.pretrain, checkpoint=str(tmp_path / "run")))
    started.task.kind = TaskKind.minimal_pairs
    with pytest.raises(InputError, match="is a fine-tuning: expected a pretraining to start from"):
        pretrained.checkpoint_of(started)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "task.json is not JSON"),
        ("{}", "must have the keys fields, head, kind"),
        (None, "lacks task.json: expected the checkpoint of a fine-tuning, run with finetune.keep=last"),
    ],
)
def test_torn_or_missing_facts_are_one_line(tmp_path, content, message):
    if content is not None:
        (tmp_path / "task.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_task(tmp_path)


@pytest.mark.long
def test_a_head_that_does_not_fit_its_facts_is_one_line(small_config, tmp_path):
    trained(small_config, tmp_path / "run", keep=Keep.last, max_steps=1)
    checkpoint = tmp_path / "run" / paths.WEIGHTS
    facts = json.loads((checkpoint / "task.json").read_text())
    (checkpoint / "task.json").write_text(json.dumps(facts | {"num_outputs": 5, "labels": [*"abcde"]}))
    with pytest.raises(InputError, match=r"model\.safetensors does not fit task\.json: .*head\.weight"):
        load_finetuned(checkpoint)
    (checkpoint / "task.json").write_text(json.dumps(facts | {"head": "Perceptron"}))
    with pytest.raises(InputError, match="head='Perceptron' is not one of SequenceClassifier, ChoiceClassifier"):
        load_finetuned(checkpoint)
    (checkpoint / "task.json").write_text(json.dumps(facts))
    (checkpoint / native.TOKENIZER).unlink()
    with pytest.raises(InputError, match=r"lacks tokenizer\.json"):
        load_finetuned(checkpoint)
