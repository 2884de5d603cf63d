"""Time by component of every model: parts that add up, and backward time that counts for who caused it."""

import json
import time
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from variants import VARIANTS

from harness.config.schema import HardwareConfig, MeasureConfig, ModelConfig, RunConfig, TaskConfig
from harness.hardware.device import Machine
from harness.measure import subject
from harness.measure.records import Request
from harness.measure.subject import Subject
from harness.models.heads import build_classifier
from harness.plugins.costs import trace
from harness.plugins.costs.trace import COMPONENTS, component_of, of_range, ranges
from harness.training.measured_steps import TrainingSteps

CONF = Path(__file__).parents[3] / "conf"
AS_BASE = {"distilbert", "electra", "enhanced_shallow", "mbert", "roberta"}
"""Variants with the parts of another one, of other sizes."""
MODELS = sorted({*VARIANTS} - AS_BASE)
OF_OPERATOR = {
    "EmbeddingBackward0": "embeddings",
    "NativeLayerNormBackward0": "norms",
    "GeluBackward0": "feed-forward",
    "SoftmaxBackward0": "attention",
    "TanhBackward0": "head",
    "NllLossBackward0": "other",
}
"""Nodes of BERT's graph that only one component can have made."""


def config_of(name: str, length: int = 16, **changes) -> RunConfig:
    """A variant at scale tiny with few words, as Hydra composes it, without its seconds."""
    files = (OmegaConf.load(CONF / f"{file}.yaml") for file in ("scale/tiny", f"model/{name}"))
    model = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), *files, {"vocab_size": 300}))
    config = RunConfig(
        arm=name, model=model, hardware=HardwareConfig(threads=1), measure=MeasureConfig(length=length, repeats=3)
    )
    config.task = TaskConfig(name="own", labels=["no", "yes"], **changes)
    config.finetune.batch_size = 2
    return config


def spent_on(config: RunConfig) -> dict[str, trace.Spent]:
    """Of a session that nothing came in between of."""
    machine = Machine(config.hardware)
    model = subject.build(config, machine)
    steps, batch = TrainingSteps(config, model, machine), subject.labelled_texts(config, 1, machine)

    def infer() -> None:
        model.eval()
        with torch.inference_mode():
            model(batch)

    with ranges(model):
        return trace.undisturbed({trace.PASS: infer, trace.STEP: lambda: steps.run(1)})[1]


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_components_of_every_model_add_up(name):
    for spent in spent_on(config_of(name)).values():
        assert spent.sum_ms == pytest.approx(spent.whole_ms, rel=trace.TOLERANCE, abs=trace.ENTERING_MS)
        assert {component for parts in spent.parts_ms.values() for component in parts} <= set(COMPONENTS)
        assert min(value for parts in spent.parts_ms.values() for value in parts.values()) >= 0
        assert spent.parts_ms["forward"]["embeddings"] > 0
        assert spent.parts_ms["forward"]["head"] > 0


@pytest.mark.long
def test_training_step_has_all_phases_and_components_both_ways():
    spent = spent_on(config_of("base"))[trace.STEP].parts_ms
    for phase in ("forward", "backward"):
        assert all(spent[phase][component] > 0 for component in COMPONENTS)
    assert spent["optimiser"]["other"] > 0


def test_nodes_of_the_graph_belong_to_the_component_that_made_them():
    config = config_of("base")
    model = build_classifier(config.model, 2, 0).train()
    batch = subject.labelled_texts(config, 2, Machine(config.hardware))
    graph = []

    def record() -> None:
        with torch.autograd.profiler.record_function("forward"):
            graph.append(model.loss(model(batch), batch.labels).grad_fn)

    with ranges(model):
        profiled, _ = trace.session({trace.STEP: record})
    (root,) = (event for event in profiled.events() if event.name == trace.STEP)
    owners, seen = trace.owners_of_nodes(root), set()
    waiting = [graph[0]]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
        if node.name() in OF_OPERATOR:
            assert owners[node._sequence_nr()] == OF_OPERATOR[node.name()], node.name()
    assert {node.name() for node in seen} >= set(OF_OPERATOR)


@pytest.mark.long
def test_time_of_a_component_is_told_forward_and_backward(monkeypatch):
    """Layer norms that sleep on both ways; BERT at two layers has five of them."""
    plain, asleep_s = torch.nn.LayerNorm.forward, 0.05

    def slow(self, x):
        time.sleep(asleep_s)
        out = plain(self, x)
        if out.requires_grad:
            out.register_hook(lambda gradient: time.sleep(asleep_s))
        return out

    monkeypatch.setattr(torch.nn.LayerNorm, "forward", slow)
    spent = spent_on(config_of("base"))[trace.STEP]
    for phase in ("forward", "backward"):
        assert spent.parts_ms[phase]["norms"] >= 5 * asleep_s * 1e3


def test_parts_that_do_not_add_up_are_an_error():
    spent = trace.Spent(10.0)
    spent.add("forward", "attention", 9000.0)
    with pytest.raises(RuntimeError, match=r"9\.000 ms, but the clock says 10\.000 ms"):
        spent.checked()


@pytest.mark.long
def test_every_weight_outside_of_recurrent_layers_has_a_component():
    for name in MODELS:
        model = build_classifier(config_of(name).model, 2, 0)
        named = {place: component_of(place, module) for place, module in model.named_modules()}
        for place, _ in model.named_parameters():
            parents = [place.rsplit(".", cut)[0] for cut in range(1, place.count(".") + 1)]
            inside = [named[parent] for parent in parents if named.get(parent)]
            assert bool(inside) == (".forwards." not in place and ".backwards." not in place), (name, place)


def test_ranges_are_gone_afterwards_and_name_their_module():
    model = subject.build(config_of("base"), Machine(HardwareConfig(threads=1)))
    with ranges(model):
        assert model.encoder.embeddings._forward_hooks
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert of_range("norms | encoder.embeddings.norm") == "norms"
    assert of_range("aten::norm") is None


@pytest.mark.long
def test_trace_of_both_calls_is_written_as_chrome_reads_it(tmp_path):
    measured = Subject(config_of("windowed"), Machine(HardwareConfig(threads=1)))
    traced = trace.trace(measured, Request(()), tmp_path)
    names = [event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert names.count(trace.PASS) == names.count(trace.STEP) == 1
    assert any(name and name.startswith("attention | encoder.layers.attentions.0") for name in names)
    assert traced.unprofiled_forward_ms > 0
    for call in (traced.forward, traced.training_step):
        parts = sum(value for phase in call.parts_ms.values() for value in phase.values())
        assert parts == pytest.approx(call.whole_ms, rel=trace.TOLERANCE, abs=trace.ENTERING_MS)
