"""A fine-tuning that starts from another one: the encoder is taken, and the head where the labels are the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness import reports, tags
from harness.checkpoints import finetuned, pretrained
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig
from harness.models.config import EncoderConfig
from harness.models.heads import SequenceClassifier, build_classifier

SHAPE = EncoderConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=20)
NLI = TaskConfig(name="mnli", fields=["a", "b"], labels=["yes", "maybe", "no"])


@pytest.fixture
def weights(tmp_path: Path) -> tuple[Path, SequenceClassifier]:
    model = build_classifier(SHAPE, 3, seed=1)
    (tmp_path / "tokenizer.json").write_text("{}")
    finetuned.save(tmp_path / "run", model, NLI, tmp_path / "tokenizer.json")
    return tmp_path / "run", model


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        (replace(NLI, name="snli"), [0, 1, 2]),
        (replace(NLI, labels=["no", "yes", "maybe"]), [2, 0, 1]),
        (replace(NLI, labels=["yes", "no"]), None),
        (replace(NLI, labels=["yes", "maybe", "never"]), None),
        (replace(NLI, kind=TaskKind.regression, labels=[]), None),
    ],
)
def test_the_head_is_that_of_the_run_where_the_labels_are_the_same(weights, task, rows):
    folder, before = weights
    model = build_classifier(SHAPE, max(1, len(task.labels)), seed=0)
    own = model.head.weight.clone()
    origins = pretrained.load_weights(folder, model, task=task)
    assert torch.equal(model.head.weight, own if rows is None else before.head.weight[rows])
    assert {name for name, origin in origins.items() if origin.kind == "random"} == (
        {"head.weight", "head.bias"} if rows is None else set()
    )
    for name, tensor in before.encoder.state_dict().items():
        assert torch.equal(tensor, model.encoder.state_dict()[name]), name
    assert torch.equal(model.pooler.dense.weight, before.pooler.dense.weight)


@pytest.mark.long
def test_a_second_stage_starts_from_the_first_one_and_is_named_after_it(run_harness, small, output):
    common = [*small, "measure=none", f"output={output}", "tracking=none"]
    first = run_harness(*common, "study=one", "finetune.keep=last", "finetune.learning_rate=1e-3", "seed=4")
    assert first.returncode == 0, first.stderr
    (source,) = (output / "one").glob("base-*")
    second = run_harness(
        *common, f"pretrain.from={source}", "study=two", "task=order", "finetune.trains=head", "finetune.keep=last"
    )
    assert second.returncode == 0, second.stderr
    (folder,) = (output / "two").glob("base-*")
    record = json.loads((folder / "run.json").read_text())
    assert (record["tags"][tags.ARM], record["tags"][tags.PRETRAIN_SEED]) == ("base+bag", "4")
    assert record["tags"][tags.PRETRAINING] == json.loads((source / "run.json").read_text())["tags"][tags.FINGERPRINT]
    one, two = (finetuned.load_finetuned(run / "checkpoint")[0].encoder.state_dict() for run in (source, folder))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert "weights: layers" in (folder / "log.txt").read_text()


@pytest.mark.long
def test_stages_of_several_seeds_are_replicates_of_one_arm(run_harness, small, output):
    common = [*small, "measure=none", f"output={output}", "finetune.max_steps=2"]
    first = run_harness("-m", *common, "study=one", "finetune.keep=last", "seed=4,5,6")
    assert first.returncode == 0, first.stderr
    sources = sorted(str(path) for path in (output / "one").glob("base-*"))
    second = run_harness(
        "-m", *common, "study=two", "task=order", f"pretrain.from={','.join(sources)}", "finetune.trains=all,head"
    )
    assert second.returncode == 0, second.stderr
    records = [json.loads(path.read_text())["tags"] for path in (output / "two").glob("base-*/run.json")]
    assert {(record[tags.ARM], record[tags.PRETRAIN_SEED]) for record in records} == {
        (arm, seed) for arm in ("base+bag", "base+bag trains=head") for seed in "456"
    }
    assert len({record[tags.CONDITIONS] for record in records}) == 1
    assert len({record[tags.PRETRAINING] for record in records}) == 3
    runs = reports.load("two", uri=f"sqlite:///{output / 'mlflow.db'}")
    assert len(runs[runs["counted"] & (runs["task"] == "order")]) == 6
