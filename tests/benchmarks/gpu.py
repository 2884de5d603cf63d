"""Benchmarks for one GPU, in at most 8 minutes: changes of an encoder, training at scale base, windowed attention, memory.

    python tests/benchmarks/gpu.py [--seconds 480] [--only changes '512 tokens' ...] [--device cpu --tiny]

Needs torch and, for the Trainer, transformers and accelerate; nothing is downloaded and no data is read: texts are random ids.
What a version of these packages cannot do is named in the table with its error. With the time used up, the rest is left out and
named too. `--device cpu --tiny` runs everything with tiny shapes, to check that it runs.
"""

import argparse
import functools
import gc
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import results  # noqa: E402
import rounds  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from torch import Tensor  # noqa: E402

from harness.config import compose  # noqa: E402
from harness.config.choices import Device, Dtype  # noqa: E402
from harness.config.resolve import Found, resolve  # noqa: E402
from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig  # noqa: E402
from harness.hardware.device import Machine  # noqa: E402
from harness.hardware.peak_flops import peak_flops_per_s  # noqa: E402
from harness.measure import flops, subject  # noqa: E402
from harness.measure.latency import forward, time_ms  # noqa: E402
from harness.models.attention.full import SelfAttention  # noqa: E402
from harness.models.attention.products import Context  # noqa: E402
from harness.models.batch import Batch  # noqa: E402
from harness.models.config import EncoderConfig  # noqa: E402
from harness.models.heads import build_classifier  # noqa: E402
from harness.models.objectives.base import Vocabulary  # noqa: E402
from harness.models.objectives.build import build as build_objective  # noqa: E402
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName  # noqa: E402
from harness.paths import conf_directory  # noqa: E402
from harness.training.loop import Limit, Position, Step, Training, train  # noqa: E402
from harness.training.measured_steps import NoLog  # noqa: E402
from harness.training.optimiser import make_optimiser  # noqa: E402

PIECES, MASK = 30_522, 103


@dataclass(frozen=True)
class Sizes:
    """What is run."""

    shape: EncoderConfig
    batches: dict[int, int]  # tokens of a text -> texts of a batch
    lengths: tuple[int, ...]  # of windowed attention
    window: int
    steps: int
    warm_up: int
    rounds: int
    calls: dict[int, tuple[int, ...]]  # texts of a call -> their lengths, of changed encoders


BASE = Sizes(
    EncoderConfig(vocab_size=PIECES), {128: 128, 512: 32}, (512, 1024, 2048, 4096, 8192, 16_384), 128, 20, 5, 3,
    {1: (32, 128, 512), 32: (32, 128, 512)},
)  # fmt: skip
TINY = Sizes(
    EncoderConfig(vocab_size=PIECES, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64),
    {16: 2, 32: 2}, (32, 64), 16, 2, 1, 2, {1: (8,)},
)  # fmt: skip


def main() -> int:
    """Writes the table; 1 if a part failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes")
    parser.add_argument("--seconds", type=float, default=480.0, help="no part begins after this time")
    parser.add_argument("--only", action="extend", nargs="+", metavar="TEXT", help="parts with such a text in their name alone")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu.py: torch sees no CUDA device; use --device cpu --tiny to check that it runs", file=sys.stderr)
        return 2
    rows, problems = measure(options.device, TINY if options.tiny else BASE, options.seconds, options.only)
    write(options, rows, problems)
    return 1 if any(problem["failed"] for problem in problems) else 0


def measure(
    device: str, sizes: Sizes, seconds: float, only: list[str] | None = None
) -> tuple[results.Rows, list[dict[str, Any]]]:
    """The figures of each part, and the parts that failed or were left out; `only`: texts, one of which is in each name."""
    ends, rows, problems = time.monotonic() + seconds, {}, []
    machine = Machine(HardwareConfig(device=Device(device), dtype=Dtype.bf16))
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {}
    for arithmetic in ARITHMETIC:
        parts[f"changes, {arithmetic}"] = lambda arithmetic=arithmetic: changed_figures(device, sizes, arithmetic)
    for length in sizes.lengths:  # seconds each; a training takes minutes, most of them torch's compiler
        parts[f"attention, {length} tokens"] = lambda length=length: attention_figures(machine, sizes, length)
    for length, batch in sizes.batches.items():
        for phase in ("fine-tuning", "pretraining"):
            parts[f"{phase}, {length} tokens"] = lambda phase=phase, length=length, batch=batch: training_figures(
                machine, sizes, phase, length, batch
            )
    for name, part in parts.items():
        if only and not any(text in name for text in only):
            continue
        if time.monotonic() > ends:
            problems.append({"part": name, "failed": False, "why": f"left out: {seconds:.0f} s are used up"})
            continue
        try:
            rows[f"gpu, {name}"] = part()
        except Exception as error:  # noqa: BLE001  a part that this machine's packages cannot run is named in the table
            problems.append({"part": name, "failed": True, "why": f"{type(error).__name__}: {str(error)[:300]}"})
            print(f"{name} failed: {problems[-1]['why']}", file=sys.stderr, flush=True)
        release()
    return rows, problems


def release() -> None:
    """Frees what the last part left; torch compiles for the next one as if it were the first (`recompile_limit`)."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# Changes of an encoder

ENCODER = (
    *("scale=base", "model.num_hidden_layers=6", "model.hidden_size=384", "model.intermediate_size=1536"),
    f"model.vocab_size={PIECES}",
)
"""The shape of all-MiniLM-L6-v2, which `conf/experiment/compress.yaml` changes."""

ARITHMETIC = {"fp32": Dtype.fp32, "bf16": Dtype.bf16, "bf16 weights": Dtype.fp32}
"""Name -> dtype of the device: `bf16` casts float32 weights in every call, `bf16 weights` are kept so."""

NONE = "none"
"""The encoder without changes; it is timed twice, which shows what two timings of the same differ by."""


def changed() -> dict[str, EncoderConfig]:
    """The changes of the experiment `compress`, by name -> shape."""
    text = (conf_directory() / "experiment" / "compress.yaml").read_text()
    names = re.findall(r"\[([a-z0-9_,]*)\]", yaml.safe_load(text)["hydra"]["sweeper"]["params"]["enhancement"])
    runs: list[RunConfig] = []
    typed = ["-m", *ENCODER, "task=bag", "seed=0", f"enhancement={','.join(f'[{name}]' for name in names)}"]
    compose.main(typed, lambda configs: runs.extend(configs) or 0)
    return {name or NONE: resolve(run, Found()).model for name, run in zip(names, runs, strict=True)}


def changed_figures(device: str, sizes: Sizes, arithmetic: str) -> list[dict[str, Any]]:
    """Milliseconds of a forward pass of the encoder, and how many times as fast each change is in the same round."""
    machine = Machine(HardwareConfig(device=Device(device), dtype=ARITHMETIC[arithmetic], threads=1))
    shapes = changed()
    models = {name: build_classifier(shape, 2, 0).to(machine.device) for name, shape in shapes.items()}
    if arithmetic == "bf16 weights":
        models = {name: model.bfloat16() for name, model in models.items()}
    models["none again"] = models[NONE]
    found = []
    for texts, length in [(texts, length) for texts, lengths in sizes.calls.items() for length in lengths]:
        batch = subject.texts(PIECES, length, machine, texts)
        sides = {}
        for name, model in models.items():
            call = functools.partial(forward(model, machine), batch)
            for _ in range(sizes.warm_up):
                call()
            sides[name] = _milliseconds(call, machine, calls=2 * sizes.warm_up)
        values = rounds.interleaved(sides, 2 * sizes.rounds)
        title = f"{texts} x {length} tokens, {arithmetic}"
        found.append(rounds.row(f"{title}: none", values[NONE], "ms"))
        found += [
            rounds.times_as_fast(values[NONE], one, f"{title}: {name} / none") for name, one in values.items() if name != NONE
        ]
    return found


# Training


def training_figures(machine: Machine, sizes: Sizes, phase: str, length: int, rows: int) -> list[dict[str, Any]]:
    """Tokens per second of our loop, eager and compiled, and of the Trainer with SDPA, eager and compiled; MFU and memory."""
    sides: dict[str, Ours | Peer] = {}
    memory: dict[str, dict[str, float]] = {}
    for side, kind, compiled in SIDES:

        def begin(side: str = side, kind: type = kind, compiled: bool = compiled) -> None:
            sides[side] = kind(machine, sizes, phase, length, rows, compiled)
            sides[side].warm_up()

        memory[side] = peak_memory(begin, machine)
    name = f"{phase}, {length} tokens"
    timed = {side: (lambda number, one=one: one.tokens_per_s()) for side, one in sides.items()}
    timed["peak"] = lambda number: peak_flops_per_s(machine)
    values = rounds.interleaved(timed, sizes.rounds)
    peak = values.pop("peak")
    found = [
        rounds.times_as_fast(values[one], values[other], f"{name}: {one} / {other}")
        for one, other in (("ours", "Trainer"), ("ours, compiled", "Trainer, compiled"), ("ours, compiled", "ours"))
    ]
    for side, rate in values.items():
        found.append(rounds.row(f"{name}: {side}", rate, "tokens/s"))
        used = [100 * one * sides["ours"].flops_per_token / most for one, most in zip(rate, peak, strict=True)]
        found.append(rounds.row(f"{name}: {side}, model FLOPs", used, "% of peak"))
        found += [rounds.row(f"{name}: {side}, {counter}", [value], "MB") for counter, value in memory[side].items()]
    return [*found, rounds.row(f"{name}: fastest matrix product", [one / 1e12 for one in peak], "TFLOP/s")]


class Ours:
    """The project's own training loop over one batch of random ids."""

    def __init__(self, machine: Machine, sizes: Sizes, phase: str, length: int, rows: int, compiled: bool) -> None:
        self._machine = _that_compiles(machine) if compiled else machine
        self._sizes, self._config = sizes, FinetuneConfig(batch_size=rows)
        self._tokens, self._position = rows * length, Position()
        ids = torch.randint(1000, PIECES, (rows, length), generator=torch.Generator().manual_seed(0))
        if phase == "fine-tuning":
            self._model = build_classifier(sizes.shape, 2, 0)
            self._batch = Batch(ids, labels=torch.zeros(rows, dtype=torch.int64))
            self._loss = lambda batch: self._model.loss(self._model(batch), batch.labels)
            per_step = flops.of_model(self._model, rows, length, backward=True)
        else:
            words = torch.ones(PIECES, dtype=torch.bool)
            vocabulary = Vocabulary(PIECES, 0, 101, 102, MASK, words)
            self._model = build_objective(ObjectiveConfig(ObjectiveName.mlm), sizes.shape, vocabulary, 0, None)
            self._batch = self._model.make_batch(Batch(ids, tokens=ids.numel()), list(range(rows)))
            self._loss = self._model
            per_step = flops.of_objective(self._model, self._batch, length)
        self.flops_per_token = per_step / self._tokens
        self._model.to(machine.device)
        if compiled:
            self._model.compile(dynamic=False)
        self._optimiser = make_optimiser(self._model, self._config)

    def warm_up(self) -> None:
        """Compiles and fills caches."""
        self._train(self._sizes.warm_up)

    def tokens_per_s(self) -> float:
        """Of some more steps."""
        self._machine.synchronise()
        started = time.perf_counter()
        self._train(self._sizes.steps)
        self._machine.synchronise()
        return self._sizes.steps * self._tokens / (time.perf_counter() - started)

    def _train(self, steps: int) -> None:
        rows = len(self._batch) if hasattr(self._batch, "__len__") else len(self._batch.input_ids)
        end = self._position.step + steps
        training = Training(
            model=self._model,
            loss=self._loss,
            next_step=lambda position: Step([self._batch], rows, self._tokens, self._tokens),
            limit=Limit("step", end),
            planned_steps=end,
            phase="benchmark",
            config=self._config,
            seed=0,
        )
        train(training, self._optimiser, self._position, self._machine, NoLog())


def _that_compiles(machine: Machine) -> Machine:
    """The same device; the training loop then leaves out what cannot be compiled."""
    threads = torch.get_num_threads()
    return Machine(HardwareConfig(device=Device(machine.device.type), dtype=Dtype.bf16, compile=True, threads=threads))


class Peer:
    """`transformers.Trainer` with SDPA attention over the same number of random ids."""

    def __init__(self, machine: Machine, sizes: Sizes, phase: str, length: int, rows: int, compiled: bool) -> None:
        import transformers  # the other parts run without it

        self._sizes, self._tokens, self._compiled, self._cpu = sizes, rows * length, compiled, not machine.is_cuda
        shape = sizes.shape
        config = transformers.BertConfig(
            vocab_size=PIECES, hidden_size=shape.hidden_size, num_hidden_layers=shape.num_hidden_layers,
            num_attention_heads=shape.num_attention_heads, intermediate_size=shape.intermediate_size,
            max_position_embeddings=shape.max_position_embeddings, attn_implementation="sdpa",
        )  # fmt: skip
        tuned = phase == "fine-tuning"
        self._model = (transformers.BertForSequenceClassification if tuned else transformers.BertForMaskedLM)(config)
        if self._model.get_input_embeddings().num_embeddings != PIECES:
            raise RuntimeError(f"the peer's vocabulary must have {PIECES:,} pieces")
        ids = torch.randint(1000, PIECES, (rows, length), generator=torch.Generator().manual_seed(0))
        predicted = torch.rand(ids.shape, generator=torch.Generator().manual_seed(1)) < ObjectiveConfig().mask_rate
        labels = [0] * rows if tuned else ids.masked_fill(~predicted, -100).tolist()
        inputs = ids if tuned else ids.masked_fill(predicted, MASK)
        self._rows = [{"input_ids": text, "labels": label} for text, label in zip(inputs.tolist(), labels, strict=True)]
        self._batch_size = rows

    def warm_up(self) -> None:
        """Compiles and fills caches."""
        self._train(self._sizes.warm_up, 1)

    def tokens_per_s(self) -> float:
        """Of some steps after the first."""
        begin, end = self._train(self._sizes.steps + 1, 1)
        return self._sizes.steps * self._tokens / (end - begin)

    def _train(self, steps: int, first: int) -> list[float]:
        import transformers  # as above

        times: list[float] = []

        class Clock(transformers.TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                if state.global_step in (first, steps):
                    if torch.cuda.is_available():
                        torch.cuda.synchronize()
                    times.append(time.perf_counter())

        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder, max_steps=steps, per_device_train_batch_size=self._batch_size, bf16=True, report_to=[],
                save_strategy="no", disable_tqdm=True, logging_steps=10, optim="adamw_torch_fused", use_cpu=self._cpu,
                learning_rate=FinetuneConfig().learning_rate, weight_decay=FinetuneConfig().weight_decay,
                torch_compile=self._compiled, dataloader_pin_memory=not self._cpu,
            )  # fmt: skip
            trainer = transformers.Trainer(
                model=self._model, args=arguments, train_dataset=self._rows * 2, callbacks=[Clock()],
                data_collator=transformers.default_data_collator,
            )  # fmt: skip
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        return times


SIDES = (("ours", Ours, False), ("ours, compiled", Ours, True), ("Trainer", Peer, False), ("Trainer, compiled", Peer, True))
"""Name, class, and whether it runs under torch.compile. The FLOPs of a token are those of ours on all sides."""


def peak_memory(call: Callable[[], object], machine: Machine) -> dict[str, float]:
    """MB by every counter of the GPU above those before the call; the driver's is that after it. Empty on CPU."""
    if not machine.is_cuda:
        call()
        return {}
    release()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), driver_bytes()
    call()
    torch.cuda.synchronize()
    after = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), driver_bytes()
    names = ("memory allocated", "memory reserved", "memory by nvidia-smi")
    return {name: (end - begin) / 1e6 for name, begin, end in zip(names, before, after, strict=True)}


def driver_bytes() -> float:
    """Memory of the GPU in use, of all processes."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return float(subprocess.run(query, capture_output=True, text=True, check=True).stdout) * 2**20


# Attention


def attention_figures(machine: Machine, sizes: Sizes, length: int) -> list[dict[str, Any]]:
    """Milliseconds of forward and backward of one layer: full, our windowed one, and one by a kernel that skips blocks."""
    shape = replace(sizes.shape, max_position_embeddings=length, attention_probs_dropout_prob=0.0)
    windowed = SelfAttention(replace(shape, attention_window=sizes.window)).to(machine.device)
    full = SelfAttention(shape).to(machine.device)
    layers: dict[str, Callable[[Tensor], Tensor]] = {
        "windowed": lambda hidden: windowed(hidden, Context()),
        "full": lambda hidden: full(hidden, Context()),
    }
    if machine.is_cuda:  # flex attention has no backward pass on CPU
        skipping = Skipping(windowed, sizes.window, length, machine.device)
        layers["flex attention with blocks"] = skipping
    hidden = torch.randn(max(1, sizes.lengths[-1] // length), length, shape.hidden_size, device=machine.device)
    hidden.requires_grad_()

    def call(layer: Callable[[Tensor], Tensor]) -> None:
        with machine.autocast():
            output = layer(hidden)
        output.float().sum().backward()
        hidden.grad = None

    memory = {name: peak_memory(lambda layer=layer: [call(layer) for _ in range(2)], machine) for name, layer in layers.items()}
    if "flex attention with blocks" in layers:
        refuse_different(layers["windowed"], layers["flex attention with blocks"], hidden, machine)
    values = rounds.interleaved(
        {name: _milliseconds(lambda one=one: call(one), machine) for name, one in layers.items()}, sizes.rounds
    )
    title = f"attention, {len(hidden)} x {length} tokens"
    found = [
        rounds.times_as_fast(values[other], values["windowed"], f"{title}: windowed / {other}")
        for other in values
        if other != "windowed"
    ]
    for name, one in values.items():
        found.append(rounds.row(f"{title}: {name}", one, "ms"))
        found += [rounds.row(f"{title}: {name}, {counter}", [value], "MB") for counter, value in memory[name].items()]
    return found


class Skipping:
    """The layer by flex attention, whose compiled kernel skips blocks outside of the window; it has the weights of ours."""

    def __init__(self, layer: SelfAttention, window: int, length: int, device: torch.device) -> None:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # a GPU alone needs it

        self._layer, self._attention = layer, torch.compile(flex_attention, dynamic=False)
        side = window // 2
        self._mask = create_block_mask(
            lambda b, h, query, key: (query - key).abs() <= side, None, None, length, length, device=device
        )

    def __call__(self, hidden: Tensor) -> Tensor:
        layer, (B, T, _) = self._layer, hidden.shape
        split = layer.query_key_value(hidden).view(B, T, 3, layer.num_heads, layer.head_size)
        query, key, value = (part.transpose(1, 2) for part in split.unbind(2))
        attended = self._attention(query, key, value, block_mask=self._mask)
        return layer.output(attended.transpose(1, 2).flatten(2))


def refuse_different(one: Callable, other: Callable, hidden: Tensor, machine: Machine) -> None:
    """RuntimeError unless both layers compute the same, up to the rounding of bf16."""
    with torch.no_grad(), machine.autocast():
        difference = (one(hidden) - other(hidden)).abs().max().item()
    if difference > 0.05:
        raise RuntimeError(f"the outputs of both windowed layers differ by {difference:.2g}")


def _milliseconds(call: Callable[[], object], machine: Machine, calls: int = 5) -> rounds.Side:
    return lambda number: statistics.median(time_ms(call, machine) for _ in range(calls))


def write(options: argparse.Namespace, rows: results.Rows, problems: list[dict[str, Any]]) -> None:
    """Adds the figures to the file of today for this hardware; those of parts that were not measured now stay there."""
    hardware = HardwareConfig(device=Device(options.device))
    missing = [f"{problem['part']}: {problem['why']}" for problem in problems]
    print(results.write(options.output, rows, "tiny" if options.tiny else "full", missing, hardware))


if __name__ == "__main__":
    sys.exit(main())
