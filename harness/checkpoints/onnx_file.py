"""A model as an ONNX file, and the file as a model that onnxruntime runs. B texts, T tokens.

torch's older exporter traces one forward pass: it takes a part of the time of `dynamo=True`, and expresses LSTMs, too.
What the trace has fixed shows when the file is run on other shapes, which is done before it gets its name.
"""

import copy
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness import extensions
from harness.errors import InputError, is_disk_full
from harness.models.batch import Batch, as_batch
from harness.models.encoder import Encoder
from harness.models.heads import Classifier

FILE = "model.onnx"

INPUTS = ("input_ids", "token_type_ids", "attention_mask")
"""Each (B, T): int64, int64, bool, True for real tokens."""

OPSET = 20
FLOAT = 1
"""ONNX's number of float32."""

TOLERANCE = 1e-5
"""Outputs may differ from torch's by so much of their largest value, or of 1, or by ROUNDINGS times torch's own rounding."""
ROUNDINGS = 4

INSTEAD = "set measure.backend=torch, or export without format=onnx"

TRACED, CHECKED = 24, ((1, 24), (1, 1), (3, 7), (2, 200))
"""Tokens of the traced pass, or of a window; texts and tokens that the file is run on, as far as the model reads so many."""


library = partial(extensions.library, extra="serve")
"""A package that serving needs."""


def _rms_norm(graph: Any, x: Any, sizes: Any, weight: Any, epsilon: Any) -> Any:
    """The norm of arXiv:1910.07467, which the exporter lacks, by operators that it has."""
    squares = graph.op("ReduceMean", graph.op("Mul", x, x), graph.op("Constant", value_t=torch.tensor([-1])), keepdims_i=1)
    return graph.op("Mul", graph.op("Div", x, graph.op("Sqrt", graph.op("Add", squares, epsilon))), weight)


class _OfTensors(nn.Module):
    """The model with the three tensors of INPUTS in place of a batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Any) -> Tensor:
        """As the model."""
        return self.model(Batch(*tensors))


class OnnxModel(nn.Module):
    """An ONNX file that runs on as many threads as torch has when it is loaded."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        runtime = library("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 4  # errors are raised
        self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._reads = {one.name for one in self._session.get_inputs()}

    def forward(self, inputs: Batch | Tensor) -> Tensor:
        """As the model that the file is of."""
        batch = as_batch(inputs)
        ids, types, mask = batch.input_ids, batch.token_type_ids, batch.attention_mask
        types = torch.zeros_like(ids) if types is None else types
        tensors = (ids, types, torch.ones_like(ids, dtype=torch.bool) if mask is None else mask)
        feeds = {name: one.numpy() for name, one in zip(INPUTS, tensors, strict=True) if name in self._reads}
        return torch.from_numpy(self._session.run(None, feeds)[0])


def write(model: Encoder | Classifier, path: Path) -> float:
    """Writes the model, on the CPU, as a file and runs it; returns the largest difference from torch.

    InputError where the exporter cannot express the model, or the file does not compute what it does: the file is removed.
    """
    library("onnx")
    exporter: Any = torch.onnx
    exporter.register_custom_op_symbolic("aten::rms_norm", _rms_norm, OPSET)
    shape = model.config if isinstance(model, Encoder) else model.encoder.config
    traced = max(TRACED, shape.attention_window or 0)  # a shorter text would be traced as if there were no window
    sizes = ((2, traced), *CHECKED, (2, 2 * traced))
    batches = [_texts(shape.vocab_size, texts, min(tokens, shape.longest_text)) for texts, tokens in sizes]
    axes = {name: {0: "texts", 1: "tokens"} for name in INPUTS}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the exporter is the older one, and what it fixes: it is checked below
            torch._C._jit_set_onnx_log_enabled(False)  # it would print the whole graph where it fails
            torch.onnx.export(
                _OfTensors(model).eval(),
                tuple(getattr(batches[0], name) for name in INPUTS),
                str(path),
                input_names=[*INPUTS],
                output_names=["output"],
                dynamic_axes=axes,
                opset_version=OPSET,
                dynamo=False,
            )
        _share_tensors(path)
        differences = [_difference(model, OnnxModel(path), batch) for batch in batches]
    except InputError:
        raise
    except Exception as error:  # the libraries raise no narrower one
        path.unlink(missing_ok=True)
        if is_disk_full(error):
            raise
        cause = " ".join(str(error).split())[:200]
        raise InputError(f"ONNX cannot express this model ({type(error).__name__}: {cause}): {INSTEAD}") from error
    worst = max(differences)
    if not worst <= TOLERANCE:
        exact = copy.deepcopy(
            model
        ).double()  # torch's own rounding to float32: without a scale of attention, 1e-5 over 200 tokens
        if not worst <= ROUNDINGS * max(_difference(exact, model, batch) for batch in batches):
            path.unlink()
            raise InputError(f"ONNX cannot express this model: outputs differ from torch's by {worst:.2g}: {INSTEAD}")
    return worst


def _share_tensors(path: Path) -> None:
    """Each later use of a tensor reads it, and no copy by an `Identity` node, through which 8 bits do not reach."""
    onnx = library("onnx")
    model = onnx.load(path)
    graph, sources = model.graph, {one.name: one.name for one in model.graph.initializer}
    for node in [*graph.node]:
        if node.op_type == "Identity" and node.input[0] in sources:
            sources[node.output[0]] = sources[node.input[0]]
            graph.node.remove(node)
            continue
        for place, name in enumerate(node.input):
            node.input[place] = sources.get(name, name)
    onnx.save(model, path)


def round_weights(path: Path) -> None:
    """The file with products of weights in 8 bits, inputs rounded as they come, and rows of all tables kept in 8 bits."""
    onnx, plain = library("onnx"), path.rename(path.with_suffix(".fp32"))
    library("onnxruntime.quantization").quantize_dynamic(plain, path)
    plain.unlink()
    model = onnx.load(path)
    tables = {
        one.name: one for one in model.graph.initializer if one.data_type == onnx.TensorProto.FLOAT and len(one.dims) == 2
    }
    for at, node in reversed([*enumerate(model.graph.node)]):
        if node.op_type != "Slice" or node.input[0] not in tables:
            continue
        name, rows = node.input[0], onnx.numpy_helper.to_array(tables[node.input[0]])
        scale = np.float32(max(float(np.abs(rows).max()), 1e-30) / 127)
        for of, values in (("rounded", np.round(rows / scale).astype(np.int8)), ("scale", scale)):
            if f"{name}.{of}" not in (one.name for one in model.graph.initializer):
                model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values), f"{name}.{of}"))
        sliced = f"{node.output[0]}.rounded"
        widened = onnx.helper.make_node("DequantizeLinear", [sliced, f"{name}.scale"], [node.output[0]])
        node.input[0], node.output[0] = f"{name}.rounded", sliced
        model.graph.node.insert(at + 1, widened)
    read = {name for node in model.graph.node for name in node.input}
    for one in [one for one in model.graph.initializer if one.name not in read]:
        model.graph.initializer.remove(one)
    onnx.save(model, path)


def products(path: Path) -> Counter[str]:
    """Type of the weights -> products with weights in the file."""
    graph = library("onnx").load(path).graph
    types = {one.name: one.data_type for one in graph.initializer}
    count: Counter[str] = Counter()
    for node in graph.node:
        if node.op_type.rpartition("Quantize")[2].startswith(("MatMul", "Gemm", "LSTM")):
            of_weights = [types[name] for name in node.input[:2] if name in types]
            count.update({"float32" if of_weights[0] == FLOAT else "int8"} if of_weights else ())
    return count


def _texts(vocab_size: int, texts: int, tokens: int) -> Batch:
    """Random ids; every text but the first is a token shorter than the one before, as far as it has more than one."""
    ids = torch.randint(vocab_size, (texts, tokens), generator=torch.Generator().manual_seed(0))
    real = torch.arange(tokens) < (tokens - torch.arange(texts)).clamp(min=1)[:, None]
    return Batch(ids, torch.zeros_like(ids), real)


@torch.inference_mode()
def _difference(model: nn.Module, other: nn.Module, batch: Batch) -> float:
    """The largest over real tokens, as a share of the largest output or of 1."""
    expected = model.eval()(batch)
    apart = (expected - other(batch)).abs()
    apart = apart if apart.dim() == 2 else apart[batch.attention_mask]
    return (apart.max() / expected.abs().max().clamp(min=1)).item()
