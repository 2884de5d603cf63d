"""Models as they are served: size of the file, error of the rounding, what is refused, and a sweep over precisions."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from refusals import assert_refused
from variant_files import variant
from variants import VARIANTS

from harness.config.choices import Backend, Precision
from harness.config.schema import HardwareConfig, MeasureConfig, RunConfig
from harness.errors import InputError
from harness.measure import serving, size
from harness.measure.latency import forward
from harness.models.batch import Batch
from harness.models.heads import Classifier, build_classifier

IN_TORCH = "ignore:`torch.jit:DeprecationWarning"  # torch's own, when it loads its compiler
SERVED = [
    (Backend.torch, Precision.bf16, 2, 0.05),
    (Backend.torch, Precision.int8_dynamic, 4, 0.2),
    pytest.param(Backend.torch, Precision.int8_weights, 4, 0.05, marks=pytest.mark.long),
    pytest.param(Backend.onnxruntime, Precision.fp32, 1, 1e-4, marks=pytest.mark.long),
    pytest.param(Backend.onnxruntime, Precision.int8_dynamic, 4, 0.2, marks=pytest.mark.long),
    pytest.param(Backend.compile, Precision.fp32, 1, 1e-4, marks=[pytest.mark.long, pytest.mark.filterwarnings(IN_TORCH)]),
]
"""Backend, precision, how many times smaller a matrix of a linear layer is, most that rounding changes of the largest logit."""


def served(model: Classifier, backend: Backend, precision: Precision, path: Path) -> tuple[int, torch.nn.Module, object]:
    """Bytes of the file, the call that is measured, and the module that it calls."""
    config = RunConfig(measure=MeasureConfig(backend=backend, precision=precision), hardware=HardwareConfig(threads=1))
    machine = serving.machine(config)
    written = serving.write(model, config.measure, path)
    module = serving.load(path, config.measure, machine)
    return written, forward(module, machine), module


@pytest.mark.long
@pytest.mark.parametrize(("backend", "precision", "smaller", "error"), SERVED)
def test_a_served_model_is_smaller_and_close_to_the_trained_one(backend, precision, smaller, error, tmp_path: Path):
    model = build_classifier(variant("swiglu", vocab_size=300, initializer_range=0.1), 3, 0).eval()
    linear = sum(one.weight.numel() for one in model.modules() if isinstance(one, torch.nn.Linear))
    ids = torch.randint(300, (4, 20), generator=torch.Generator().manual_seed(0))
    batch = Batch(ids, torch.zeros_like(ids), torch.arange(20) < torch.tensor([20, 3, 11, 1])[:, None])
    with torch.inference_mode():
        expected = model(batch)
    written, call, _ = served(model, backend, precision, tmp_path / "model")
    apart = (call(batch).float() - expected).abs().max() / expected.abs().max()
    assert apart > 0 or precision is Precision.fp32
    assert apart < error
    least = size.weights_bytes(model) - 4 * linear * (1 - 1 / smaller)
    assert 0.5 * least < written < 1.2 * least  # embeddings are rounded, too, by bf16 and onnxruntime


def test_eight_bits_err_by_half_a_step_of_each_factor_at_most():
    """A step of the weights is their largest over 127.5, one of the inputs their range over 127: torch keeps a bit free."""
    linear, inputs = torch.nn.Linear(64, 16), torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        linear.weight.copy_(torch.randn(16, 64, generator=torch.Generator().manual_seed(1)))
        expected = linear(inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the package is deprecated
            rounded = serving._rounded(torch.nn.Sequential(linear), Precision.int8_dynamic)
        errors = (rounded(inputs) - expected).abs()
        of_weight, of_input = linear.weight.abs().max() / 127.5, (inputs.max() - inputs.min()) / 127
        most = (inputs.abs().sum(1)[:, None] * of_weight + (linear.weight.abs() + of_weight).sum(1) * of_input) / 2
    assert (errors <= most).all()
    assert errors.mean() > 0.01 * most.mean()


EXPECTED = {
    Precision.fp32: "float32",
    Precision.bf16: "bfloat16",
    Precision.int8_dynamic: "int8",
    Precision.int8_weights: "int8",
}
IN_EIGHT_BITS = [
    *((Backend.torch, precision) for precision in (Precision.bf16, Precision.int8_dynamic)),
    *((Backend.onnxruntime, precision) for precision in (Precision.fp32, Precision.int8_dynamic)),
]


@pytest.mark.long
@pytest.mark.parametrize(("backend", "precision"), IN_EIGHT_BITS)
@pytest.mark.parametrize("name", VARIANTS)
def test_all_products_with_weights_are_of_the_precision_and_answers_close(name, backend, precision, tmp_path: Path):
    """Of every variant that the backend can serve; the others are refused by name."""
    model = build_classifier(variant(name, vocab_size=300, initializer_range=0.1), 3, 0).eval()
    ids = torch.randint(5, 300, (4, 20), generator=torch.Generator().manual_seed(0))
    batch = Batch(ids, torch.zeros_like(ids), torch.arange(20) < torch.tensor([20, 3, 11, 1])[:, None])
    path = tmp_path / "model"
    inexpressible = backend is Backend.onnxruntime and name in ("deberta", "deberta_v3", "transformer_xl", "xlnet")
    if inexpressible or (name, backend, precision) == ("bilstm", Backend.torch, Precision.int8_dynamic):
        with pytest.raises(InputError, match=r"cannot express|would keep"):
            served(model, backend, precision, path)
        assert not path.exists()
        return
    _, call, _ = served(model, backend, precision, path)
    counts = serving.products(path, MeasureConfig(backend=backend, precision=precision))
    assert set(counts) == {EXPECTED[precision]}
    if backend is Backend.torch:
        assert counts.total() == sum(isinstance(one, serving.PRODUCTS) for one in model.modules())
    with torch.inference_mode():
        expected = model(batch)
    assert (call(batch).float() - expected).abs().max() / expected.abs().max() < 0.25


@pytest.mark.long
@pytest.mark.parametrize("name", ["albert", "shared", "enhanced"])
def test_shared_layers_are_rounded_once_and_used_as_often_as_before(name, tmp_path: Path):
    """Later uses were read through copies of the tensor, which 8 bits did not reach: the file was larger than that of base."""
    onnx, counts, sizes = pytest.importorskip("onnx"), [], []
    for one in (name, "base"):
        model = build_classifier(variant(one, "mini", vocab_size=3000), 3, 0).eval()
        bytes_of_file, *_ = served(model, Backend.onnxruntime, Precision.int8_dynamic, tmp_path / one)
        counts.append(serving.products(tmp_path / one, MeasureConfig(backend=Backend.onnxruntime)))
        sizes.append(bytes_of_file / size.weights_bytes(model))
        assert sizes[-1] < 0.35, "a quarter of float32, but for norms, biases and nodes"
        kept = onnx.load(tmp_path / one).graph.initializer
        assert not [tensor.name for tensor in kept if tensor.data_type == 1 and len(tensor.raw_data) > 9000], "in float32"
    assert set(counts[0]) == set(counts[1]) == {"int8"}
    assert counts[0].total() >= counts[1].total()


def test_an_lstm_that_would_stay_float32_is_refused_with_its_count(tmp_path: Path):
    model = build_classifier(variant("bilstm", vocab_size=300), 3, 0)
    with pytest.raises(InputError, match=r"measure.precision=int8_dynamic: .* 4 in float32 of the 5 products with weights"):
        serving.write(model, MeasureConfig(precision=Precision.int8_dynamic), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_trained_model_is_left_as_it_is(tmp_path: Path):
    model = build_classifier(variant("base", vocab_size=300), 3, 0).train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    _, _, module = served(model, Backend.torch, Precision.int8_dynamic, tmp_path / "model")
    assert model.training
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert not any(type(one) is torch.nn.Linear for one in module.modules())


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["measure.backend=onnxruntime", "measure.precision=bf16"], ["measure.precision=bf16", "fp32, int8_dynamic"]),
        (["measure.backend=compile", "measure.precision=int8_dynamic"], ["measure.backend=compile", "fp32, bf16"]),
        (["measure.precision=int8_dynamic", "hardware.dtype=bf16"], ["one CPU trains in float32", "hardware.dtype"]),
        (["measure.precision=int8"], ["int8_dynamic", "int8_weights"]),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments: list[str], fragments: list[str], tell):
    assert_refused(tell("scale=tiny", "task=bag", *arguments), *fragments)


@pytest.mark.long
def test_a_sweep_scores_and_times_each_precision_of_the_same_fine_tuning(run_harness, small, tmp_path: Path):
    done = run_harness("-m", *small, "measure.precision=fp32,int8_dynamic", "seed=1", f"output={tmp_path}", "study=s")
    assert done.returncode == 0, done.stderr
    runs = {}
    for folder in (path.parent for path in tmp_path.glob("s/*/result.json")):
        record = json.loads((folder / "run.json").read_text())
        if record["tags"]["role"] == "run":
            curve = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"finetune/loss"' in line]
            losses = [json.loads(line)["value"] for line in curve]
            runs[record["tags"]["arm"]] = (json.loads((folder / "result.json").read_text())["metrics"], losses)
            assert not (folder / serving.FILE).exists()
    (plain, losses), (rounded, others) = runs["base"], runs["base precision=int8_dynamic"]
    assert losses == others
    assert "eval/logits_difference_max" not in plain
    assert plain["model/products_float32"] == rounded["model/products_int8"] > 0
    assert not {"model/products_float32", "model/products_bfloat16"} & rounded.keys()
    assert 0 < rounded["eval/logits_difference_max"] < 0.1
    assert plain["model/weights_bytes"] <= plain["model/file_bytes"] < 1.1 * plain["model/weights_bytes"]
    assert rounded["model/file_bytes"] < 0.7 * plain["model/file_bytes"]
    assert rounded["inference/peak_memory_bytes"] > 0
    assert rounded["eval/loss"] != plain["eval/loss"]
    assert "inference/mfu" not in rounded  # the peak that it would be a share of is of other products
    assert {"eval/score", "inference/latency_ms_p50", "inference/tokens_per_s"} <= rounded.keys() & plain.keys()


@pytest.mark.long
def test_the_memory_of_training_is_that_of_the_same_training_however_a_model_is_served(run_harness, tmp_path: Path):
    arguments = ["scale=small", "model.max_position_embeddings=64", "task=bag", "finetune.max_steps=2", "sweep.timing=false"]
    arguments += ["measure.throughput_batches=1", "measure.precision=fp32,int8_dynamic", "hardware.threads=1", "report=false"]
    done = run_harness("-m", *arguments, "seed=0", f"output={tmp_path}", "study=s", "tracking=none")
    assert done.returncode == 0, done.stderr
    plain, rounded = (json.loads(path.read_text())["metrics"] for path in tmp_path.glob("s/*/result.json"))
    weights = plain["model/weights_bytes"]
    assert abs(plain["finetune/peak_memory_bytes"] - rounded["finetune/peak_memory_bytes"]) < weights / 2
    plain, rounded = sorted((plain, rounded), key=lambda values: -values["model/file_bytes"])
    less, of_weights = (plain[name] - rounded[name] for name in ("inference/peak_memory_bytes", "model/file_bytes"))
    assert weights / 4 < less < of_weights + weights / 20  # and nothing of the libraries that a first call brings
