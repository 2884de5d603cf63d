"""Training memory: the four parts as measured are those of the formula, and the peak does not contradict their sum."""

from dataclasses import replace

import pytest
import torch

from harness import processes
from harness.config.choices import UNTRAINED, Device, Dtype, TaskKind
from harness.config.schema import FinetuneConfig, HardwareConfig, MeasureConfig, ModelConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.measure import flops
from harness.measure.memory import SLACK
from harness.measure.records import StepRequest
from harness.measure.subject import step_shape
from harness.models.config import Activation, Body, Norm, NormPlace, Pooling, Position, Trains
from harness.plugins.costs.memory import probe
from harness.plugins.costs.step_memory import flops_of, narrow, one_piece, parts, step_times
from harness.plugins.shared import memory_formula
from harness.plugins.shared.memory_formula import Saved
from harness.training.measured_steps import TrainingSteps, steps_of

SMALL = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PRE_NORM = {"norm_place": NormPlace.pre, "pooler": Activation.gelu, "pooler_norm": True}
ROTARY = {"position": Position.rotary, "type_vocab_size": 0}
SEGMENTS = {"position": Position.relative, "causal": True, "type_vocab_size": 0, "pooling": Pooling.last}
VARIANTS = {
    "bert": {},
    "bert without dropout": NO_DROPOUT,
    "albert": {"num_hidden_groups": 1, "embedding_size": 8, "hidden_act": Activation.gelu_tanh, **NO_DROPOUT},
    "relu and root mean square norm": {"hidden_act": Activation.relu, "norm": Norm.rms, "pooling": Pooling.mean},
    "blocked window": {"attention_window": 8},
    "blocked window without dropout": {"attention_window": 8, "pooling": Pooling.max, **NO_DROPOUT},
    "window of one block": {"attention_window": 44},
    "causal": {"causal": True, "pooling": Pooling.last, "pooler": None},
    "causal without dropout": {"causal": True, **NO_DROPOUT},
    "rotary, one head": {**ROTARY, "num_attention_heads": 1},
    "wide heads": {"head_size": 20},
    "narrow heads without dropout": {"head_size": 6, "num_attention_heads": 3, **NO_DROPOUT},
    "narrow heads, blocked window": {"head_size": 6, "attention_window": 8},
    "normed queries and keys": {"qk_norm": True},
    "normed queries and keys, blocked window": {"qk_norm": True, "attention_window": 8, **NO_DROPOUT},
    **{f"gated {act.value}": {"hidden_act": act, "gated_feed_forward": True} for act in Activation},
    "modern": {"attention_window": 8, "global_layer_every": 2, "rotary_global_theta": 1e5, **ROTARY, **PRE_NORM, **NO_DROPOUT},
}
UNKNOWN = {"lstm": {"body": Body.lstm, "position": Position.none}}
VARIANTS |= {
    "encoder_decoder": {"body": Body.encoder_decoder},
    "disentangled": {"position": Position.disentangled},
    "disentangled by buckets": {"position": Position.disentangled, "position_buckets": 8, "max_relative_distance": 32},
    "relative": {"position": Position.relative},
    "segments with a memory": {**SEGMENTS, "segment_length": 16, "memory_length": 24},
    "segments with a memory without dropout": {**SEGMENTS, "segment_length": 32, "memory_length": 32, **NO_DROPOUT},
    "bucketed without dropout": {"position": Position.bucketed, **NO_DROPOUT},
    "alibi": {"position": Position.alibi},
    "bucketed": {"position": Position.bucketed},
    "global tokens": {"attention_window": 8, "global_tokens": 1},
}


def config(kind: TaskKind = TaskKind.classification, length: int = 60, **changes) -> RunConfig:
    labels = [] if kind is TaskKind.regression else ["no", "maybe", "yes"]
    return RunConfig(
        model=ModelConfig(**{**SMALL, **changes}),
        task=TaskConfig(name="any", kind=kind, labels=labels),
        measure=MeasureConfig(length=length),
        hardware=HardwareConfig(threads=1),
    )


def steps(config: RunConfig, request: StepRequest) -> TrainingSteps:
    """A model under training."""
    return steps_of(one_piece(config, request), Machine(config.hardware))


def both(config: RunConfig, request: StepRequest) -> tuple[memory_formula.Parts, memory_formula.Parts]:
    """Measured and by formula."""
    shape = step_shape(config, request.batch_size)
    return parts(steps(config, request)), memory_formula.parts(shape, config.hardware, request.checkpointing)


PARTS = [(name, 3, False) for name in VARIANTS]
PARTS += [(name, 3, True) for name in VARIANTS if not name.startswith("gated")] + [("gated gelu", 3, True)]
PARTS += [(name, 1, False) for name in ("bert", "blocked window")]  # what a batch shares, and what each text has of its own


@pytest.mark.long
@pytest.mark.parametrize(("name", "batch_size", "checkpointing"), PARTS)
def test_every_part_is_what_the_formula_says(name, batch_size, checkpointing):
    request = StepRequest(batch_size, checkpointing)
    measured, formula = both(config(**VARIANTS[name]), request)
    assert measured.activations == formula.activations
    if name != "relative":  # some of whose vectors a text does not use, so that they get no gradient
        assert measured == formula


@pytest.mark.parametrize("kind", [kind for kind in TaskKind if kind not in UNTRAINED], ids=lambda kind: kind.value)
def test_every_kind_of_task_has_its_head_counted(kind):
    measured, formula = both(config(kind, length=16), StepRequest(2))
    assert measured.activations == pytest.approx(formula.activations, rel=0.0001)  # a span's head does not count its tokens


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 4, 8])
@pytest.mark.parametrize("arguments", ["scale=larger_bert", "scale=base", "scale=base model=albert"])
def test_formula_and_peak_hold_for_large_models(compose, monkeypatch, arguments, batch_size):
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")  # freed blocks go back at once, so that the peak is what is held
    monkeypatch.setenv(processes.FORK, "0")  # the variable is read when a process starts
    (composed,) = compose(*arguments.split(), "task=bag", "measure.length=128", "hardware.threads=1")
    found = probe(composed, StepRequest(batch_size, timed_steps=0)).measured
    for part in ("weights", "gradients", "optimiser", "activations", "total"):
        assert getattr(found.parts, part) == pytest.approx(getattr(found.formula, part), rel=0.1)
    least = found.parts.lasting + max(found.parts.gradients, found.parts.activations)
    assert least - SLACK <= found.peak.kernel <= 1.05 * found.parts.total + 16e6


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_worked_out_has_no_number(name):
    composed = config(**UNKNOWN[name])
    measured, formula = both(composed, StepRequest(2))
    assert measured.activations > 0
    assert formula.activations is formula.total is None
    assert formula.weights == measured.weights


@pytest.mark.parametrize(
    "hardware", [HardwareConfig(dtype=Dtype.bf16), HardwareConfig(device=Device.cuda)], ids=["bf16", "cuda"]
)
def test_other_kernels_have_no_number(hardware):
    shape = flops.Shape(config().model, 2, 1, 16)
    assert memory_formula.parts(shape, hardware, False).activations is None


def test_checkpointing_of_layers_that_cannot_be_run_alone_has_no_number():
    request = StepRequest(2, checkpointing=True)
    assert parts(steps(config(body=Body.encoder_decoder), request)).activations is None


def test_a_storage_is_counted_once_and_whole_and_not_where_it_is_named():
    named, given = torch.ones(8, requires_grad=True), torch.ones(100, requires_grad=True)
    saved = Saved([named])
    with saved:
        made = given.exp()  # its result is saved
        (made[:10] * made[10:20]).sum() + (named * named).sum()
    assert saved.bytes == 4 * 100


def test_what_warms_up_weighs_next_to_nothing():
    thin = narrow(config(hidden_size=768, vocab_size=30522, num_attention_heads=12, pad_token_id=5))
    assert memory_formula.parts(flops.Shape(thin.model, 2, 1, 16), thin.hardware, False).weights < 200_000


def test_timed_steps_alternate_with_plain_ones():
    request = StepRequest(2, checkpointing=True, timed_steps=3, against_plain=True)
    made = steps(config(length=16), request)
    seen = []
    (block, _) = made.model.encoder.layers.execution_order()[0]
    block.register_forward_pre_hook(lambda *_: seen.append(1))
    own, plain_ones = step_times(made, request)
    assert (len(own), len(plain_ones)) == (3, 3)
    assert len(seen) == 3 * (2 + 1)  # computed twice, and once
    assert step_times(made, replace(request, timed_steps=0)) == ([], [])


# Activation checkpointing


@pytest.mark.long
def test_hardware_does_what_the_model_needs_and_its_layers_once_more():
    shape = config().model
    plain, again = (flops_of(flops.Shape(shape, 2, 3, 16), checkpointing) for checkpointing in (False, True))
    layers = flops.on_meta(shape, 2).encoder.layers
    assert plain.model == plain.hardware == again.model
    assert again.hardware - again.model == 3 * layers.flops(16)


@pytest.mark.long
@pytest.mark.parametrize("phase", ["finetune", "pretrain"])
@pytest.mark.parametrize("model", ["bilstm", "static"])
def test_a_body_without_layers_to_compute_again_is_refused_by_key(compose, phase, model):
    with pytest.raises(InputError, match=rf"{phase}.activation_checkpointing=true .*model.body="):
        compose("scale=tiny", "task=bag", f"model={model}", f"{phase}.activation_checkpointing=true")


@pytest.mark.parametrize("averaged", [None, 0.9], ids=["last", "averaged"])
@pytest.mark.parametrize("trains", [Trains.lora, Trains.bitfit, Trains.head], ids=lambda one: one.value)
def test_a_step_that_trains_a_part_is_what_the_formula_says(trains, averaged):
    trained = replace(config(length=16), finetune=FinetuneConfig(trains=trains, ema_decay=averaged))
    measured, formula = both(trained, StepRequest(2, False))
    assert (measured.gradients, measured.optimiser) == (formula.gradients, formula.optimiser)
