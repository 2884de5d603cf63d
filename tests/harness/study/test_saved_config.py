"""The config that is saved and tracked is the one that the model which runs was built from, whatever it starts from."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from published_bert import PIECES, save_bert
from variants import VARIANTS

from harness.config import resolve
from harness.config.resolve import save
from harness.config.schema import RunConfig
from harness.corpus import sequences
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder
from harness.study import execute, run_folder
from harness.study.plan import PlannedRun, plan
from harness.tasks import prepared
from harness.training import pretrain

ROOT = Path(__file__).resolve().parents[3]
TEXT = ["pretrain=mlm", "pretrain.steps=2", "corpus.documents=30", "tokenizer.vocab_size=300", "pretrain.length=16"]


@pytest.fixture(scope="module")
def shared_output(tmp_path_factory) -> Path:
    """Prepared data of all variants: the same rows are prepared once."""
    return tmp_path_factory.mktemp("out")


def planned(compose, output: Path, *arguments: str) -> list[PlannedRun]:
    data = ["task=bag", "task.grammar.train_examples=40", "task.grammar.validation_examples=20", "measure=none"]
    scale = [] if any(argument.startswith("model.init_from=") for argument in arguments) else ["scale=tiny"]
    return plan(compose(*data, *scale, f"output={output}", *arguments))


def saved(item: PlannedRun, folder: Path) -> RunConfig:
    """As the worker reads it back."""
    folder.mkdir(exist_ok=True)
    save(item.config, folder / "config.yaml")
    return resolve.load(folder / "config.yaml")


def assert_same(encoder: Encoder, config: RunConfig) -> None:
    built = {field.name: getattr(encoder.config, field.name) for field in fields(EncoderConfig)}
    assert built == {field.name: getattr(config.model, field.name) for field in fields(EncoderConfig)}
    assert len(encoder.embeddings.token_embedding.weight) == config.model.vocab_size


@pytest.mark.slow
def test_every_variant_on_a_task(compose, shared_output, tmp_path):
    items = planned(compose, shared_output, "-m", f"model={','.join(VARIANTS)}")
    assert len(items) == len(VARIANTS)
    for item in items:
        config = saved(item, tmp_path / "run")
        assert config == item.config
        assert_same(execute._build(config, item.inputs).encoder, config)
        assert config.model.vocab_size == prepared.facts(config.output, item.inputs.data).vocab_size


@pytest.mark.long
def test_pretraining_and_what_starts_from_it(compose, shared_output, tmp_path):
    items = planned(compose, shared_output, "-m", "model=base,albert,modern,t5", *TEXT)
    pretrainings = [item for item in items if item.inputs.data is None]
    assert len(pretrainings) == 4
    for item in pretrainings:
        config = saved(item, tmp_path / "run")
        corpus = sequences.read(config.output, item.inputs.corpus)
        shape = pretrain.pretrained_shape(config.pretrain, config.model)  # initial values and dropout, which pretrain.* says
        assert_same(pretrain.build(config, corpus.vocabulary()).encoder, replace(config, model=shape))
        assert replace(shape, initializer_range=0.02, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1) == replace(
            config.model, initializer_range=0.02, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
        )
        assert config.model.vocab_size == corpus.vocab_size
        assert all(one.config.model.vocab_size == corpus.vocab_size for one in items if one.needs is item)
        assert config.pretrain.seed == config.seed == 0


@pytest.mark.long
def test_published_weights(compose, tmp_path):
    folder = save_bert(tmp_path / "small-bert")
    (item,) = planned(compose, tmp_path / "out", f"model.init_from={folder}", "task.max_length=64")
    config = saved(item, tmp_path / "run")
    assert_same(execute._build(config, item.inputs).encoder, config)
    assert (config.label, config.scale_name, config.model.vocab_size) == ("small-bert", "L2-H32", len(PIECES))


@pytest.mark.long
def test_a_config_that_an_earlier_version_saved_is_read(compose, output):
    (item,) = planned(compose, output)
    config = saved(item, output)
    path = output / "config.yaml"
    path.write_text(
        path.read_text()
        .replace("sweep:\n", "sweep:\n  lease: folder\n")
        .replace("measure:\n", "measure:\n  half_width: 0.05\n")
    )
    assert resolve.load(path) == config


@pytest.mark.long
def test_record_of_a_run_names_the_resolved_values(compose, shared_output):
    (item,) = planned(compose, shared_output)
    params = run_folder.new_record(item.config, item.inputs, item.lifted)["parameters"]
    assert params["model.vocab_size"] == str(item.config.model.vocab_size)
    assert int(params["model.vocab_size"]) < 1000  # that of the task, not BERT's 30,522
    assert params["hardware.threads"].isdecimal()
