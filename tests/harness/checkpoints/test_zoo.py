"""Every type of encoder of transformers as an arm: its hidden states, and a whole run with all instruments."""

import inspect
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from in_process import metrics_of
from pyarrow import parquet
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness import paths
from harness.checkpoints import finetuned, foreign
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.measure import latency
from harness.measure.subject import Subject
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.foreign import Foreign, make_encoder
from harness.models.heads import build_classifier
from harness.plugins.export.checkpoint import export
from harness.study import execute
from harness.study.plan import plan
from harness.tasks import prepared as cache
from harness.tracking.run_log import RunLog
from harness.training.evaluation import predict

FEW = ("mpnet", "t5")
"""With shared distances, and with a decoder that is left out."""

LENGTH = 16


@pytest.fixture
def few_rows(tmp_path: Path) -> list[str]:
    """Texts of two classes, which differ in their words."""
    for split, rows in (("train", 12), ("validation", 6)):
        texts = [" ".join(f"w{20 + 40 * (row % 2) + word}" for word in range(3 + row % 4)) for row in range(rows)]
        lines = ["text,label", *(f"{text},{'ab'[row % 2]}" for row, text in enumerate(texts))]
        (tmp_path / f"{split}.csv").write_text("\n".join(lines))
    files = [f"task.{split}_file={tmp_path / split}.csv" for split in ("train", "validation")]
    return ["task=own", "task.fields=[text]", "task.label=label", f"task.max_length={LENGTH}", *files]


def padded() -> Batch:
    """Three texts, of which one is shorter than the others."""
    ids = torch.randint(10, 100, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(3, LENGTH, dtype=torch.bool)
    ids[0, 9:], mask[0, 9:] = 0, False
    return Batch(ids, attention_mask=mask)


def states_of(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """The last hidden states of a class of transformers, where there are windows with a first token that sees all."""
    first = torch.zeros_like(batch.input_ids).index_fill(1, torch.tensor([0]), 1)
    given = {"attention_mask": batch.attention_mask.long(), "global_attention_mask": first}
    with torch.no_grad():
        return model(
            batch.input_ids, **{name: given[name] for name in given.keys() & inspect.signature(model.forward).parameters}
        ).last_hidden_state


def refuse_wrong_states(folder: Path, encoder: Foreign, expected: torch.Tensor) -> None:
    batch = padded()
    with torch.no_grad():
        found = encoder.eval()(batch)
    assert torch.allclose(found[batch.attention_mask], expected[batch.attention_mask], atol=1e-6), folder


def walk(model_type: str, tmp_path: Path, compose, few_rows) -> None:
    """From a folder to a run that is measured, trained, kept, read again and asked."""
    folder = tmp_path / "published"
    expected = states_of(zoo.saved(model_type, folder), padded())
    own = ["finetune.max_steps=3", "finetune.keep=last", "measure.lengths=[]", "measure.length=16", "hardware.threads=1"]
    (run,) = plan(
        compose(*few_rows, f"model.init_from={folder}", "model.provider=transformers", *own, f"output={tmp_path / 'out'}")
    )
    config, shape = run.config, run.config.model
    assert ("change with padding" in run.inputs.weights_read) == (model_type in zoo.TABLE["sees_padding"])

    encoder = make_encoder(shape)
    foreign.load_published(folder, encoder, "model.init_from")
    refuse_wrong_states(folder, encoder, expected)
    assert encoder.flops(LENGTH) == counted(encoder)

    (run_folder := tmp_path / "run").mkdir()
    log, machine = RunLog(run_folder), Machine(HardwareConfig(threads=1))
    execute.run_task(config, run.inputs, machine, log)
    log.finish("finished")
    metrics = metrics_of(run_folder)
    parts = [value for name, value in metrics.items() if name.startswith("model/params_component_")]
    parameters = list(build_classifier(shape, 2, seed=0).parameters())
    assert sum(parts) == metrics["model/params_total"] == sum(one.numel() for one in parameters)
    assert metrics["model/params_trainable"] == sum(one.numel() for one in parameters if one.requires_grad)
    if model_type in zoo.TABLE["uncounted"]:
        assert not {"model/flops_forward", "model/flops_train_step", "finetune/mfu"} & metrics.keys()
    else:
        assert metrics["model/flops_forward"] > encoder.flops(LENGTH)
        assert metrics["model/flops_train_step"] > 2 * metrics["model/flops_forward"]
    assert (
        min(metrics["model/bytes_forward"], metrics["inference/peak_memory_bytes"], metrics["finetune/peak_memory_bytes"]) > 0
    )
    assert metrics["eval/examples"] == 6

    model, _, _ = finetuned.load_finetuned(run_folder / paths.WEIGHTS)
    both = zip(model.encoder.layers.parameters(), encoder.layers.parameters(), strict=True)
    assert any(not torch.equal(trained, published) for trained, published in both)
    prepared, kept = cache.read(config, run.inputs.rows), parquet.read_table(run_folder / "predictions.parquet").to_pydict()
    found = predict(model, prepared.validation, config.finetune.eval_batch_size, prepared.pad_token_id, machine)
    assert np.allclose(found, np.array([kept["logit_0"], kept["logit_1"]]).T, atol=1e-5)
    latency.forward(machine.prepare(model), machine)(Subject(config, machine, prepared).text(LENGTH))

    export(run_folder / paths.WEIGHTS, out := tmp_path / "exported")
    again = make_encoder(foreign.published_shape(json.loads((out / "config.json").read_text()), "model.init_from"))
    foreign.load_published(out, again, "model.init_from")
    with torch.no_grad():
        refuse_wrong_states(out, again, model.encoder(padded()))


def counted(encoder: Foreign) -> int:
    """FLOPs of a pass with values."""
    ids = torch.full((1, LENGTH), 7)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        encoder(Batch(ids, attention_mask=torch.ones_like(ids, dtype=torch.bool)))
    return counter.get_total_flops()


def test_every_type_with_a_classifier_stands_in_the_table():
    rows = [*zoo.TABLE["encoders"], *zoo.TABLE["decoders"], *zoo.TABLE["refused"]]
    assert sorted(rows) == sorted(zoo.CLASSIFIERS), "tests/helpers/zoo.yaml: a row for each model_type, and none for others"


@pytest.mark.long
@pytest.mark.parametrize("model_type", FEW)
def test_an_arm_of_a_few_types(model_type, tmp_path, compose, few_rows):
    walk(model_type, tmp_path, compose, few_rows)


@pytest.mark.long
@pytest.mark.parametrize("model_type", [one for one in zoo.TABLE["encoders"] if one not in FEW])
def test_an_arm_of_every_encoder(model_type, tmp_path, compose, few_rows):
    walk(model_type, tmp_path, compose, few_rows)


@pytest.mark.long
@pytest.mark.parametrize("model_type", zoo.TABLE["decoders"])
def test_an_arm_of_every_decoder(model_type, tmp_path, compose, few_rows):
    walk(model_type, tmp_path, compose, few_rows)


def shape_of(model_type: str, kept: list[int]) -> EncoderConfig:
    config_json = json.loads(zoo.tiny(model_type).to_json_string())
    return replace(foreign.published_shape(config_json, "model.init_from"), layers_kept=kept)


@pytest.mark.long
@pytest.mark.parametrize(("model_type", "kept"), [("esm", 1), ("t5", 0), ("modernbert", 1)])
def test_any_list_of_layers_can_be_shortened(model_type, kept):
    encoder = make_encoder(shape_of(model_type, [kept])).eval()
    assert len(encoder.layers.execution_order()) == 1
    assert len(encoder.hidden_states(padded())) == 2


@pytest.mark.long
@pytest.mark.parametrize("model_type", ["albert", "funnel", "xlm"])
def test_shared_nested_and_split_layers_are_not_shortened(model_type):
    with pytest.raises(InputError, match="keeping layers"):
        foreign.shape_of(shape_of(model_type, [1]))


@pytest.mark.long
def test_layers_are_not_kept_without_the_one_whose_positions_they_read():
    with pytest.raises(InputError, match=r"keeping layers \[1\] also needs layer 0"):
        foreign.shape_of(shape_of("mt5", [1]))


@pytest.mark.parametrize("model_type", foreign.REFUSED)
def test_types_that_cannot_be_arms_are_refused_with_their_reason(model_type):
    with pytest.raises(InputError) as error:
        foreign.published_shape(json.loads(zoo.tiny(model_type).to_json_string()), "model.init_from")
    assert f"model_type={model_type}: {foreign.REFUSED[model_type]}" in str(error.value)
