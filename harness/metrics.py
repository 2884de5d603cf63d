"""The contract between harness and reports: every result has a declared name, a unit and a direction.

Names read `phase/quantity_unit[_statistic]`. Values are stored in base units (bytes, FLOPs, parameters; times in the unit
that the name says) and formatted late. Nothing is logged under a name that is not declared here, and nothing that is not a
finite number. A `loss` is cross-entropy in nats for classes and a squared error in score points for regression tasks.
"""

import difflib
import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PARAMETER_COMPONENTS = {
    "token_embedding": "token embeddings",
    "position_embedding": "position embeddings",
    "type_embedding": "type embeddings",
    "embedding_projection": "projection",
    "embedding_norm": "embedding norm",
    "layers": "layers",
    "pooler": "pooler",
    "head": "head",
}
"""Component of a model -> its row in the component table; the components of one model add up to its total."""


VOCABULARY = (
    *("tokenizer.kind", "tokenizer.lowercase", "tokenizer.multilingual", "tokenizer.vocab_size", "tokenizer.min_frequency"),
    "tokenizer.sentinels",
    *("tokenizer.train_characters", "facts.tokenizer_file"),
)
"""Parameters of a run that decide its vocabulary, where the text is the same."""

PER_BYTE = {
    "pretrain/masked_loss": "pretrain/heldout_bits_per_byte",
    "pretrain/next_token_loss": "pretrain/next_token_bits_per_byte",
}
"""Loss by token -> the same by byte of the text."""

PER_TOKEN = tuple(
    f"pretrain/{of}_{what}"
    for of in ("masked", "detection", "replaced", "next_token", "permuted", "two_sided", "centre", "span")
    for what in ("loss", "accuracy")
)


SCORE_TITLES = {
    "score": "score",
    "accuracy": "accuracy",
    "accuracy_by_piece": "accuracy, later pieces of a word in sight",
    "f1": "F1",
    "f1_macro": "macro F1",
    "f1_micro": "micro F1",
    "matthews": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "entity_precision": "entity precision",
    "entity_recall": "entity recall",
    "entity_f1": "entity F1",
    "exact_match": "exact match",
    "ndcg_at_10": "nDCG@10",
    "recall_at_10": "recall@10",
}
"""Score of a task -> its title."""

LAUNCHES = "timing/"
"""Phase of the metrics whose step is the number of a launch in its session."""

LATENCY, THROUGHPUT, TRAINING = f"{LAUNCHES}latency_ms", f"{LAUNCHES}tokens_per_s", f"{LAUNCHES}train_tokens_per_s"
"""What timings are compared by, of a launch and by the wall clock: what a user waits for."""

DEVICE_LATENCY, DEVICE_THROUGHPUT = f"{LAUNCHES}latency_device_ms", f"{LAUNCHES}device_tokens_per_s"
DEVICE_TRAINING = f"{LAUNCHES}train_device_tokens_per_s"
"""The same by the clock of the device: CPU time of the one thread that computes, or GPU time, without the work of others."""

DEVICE_TIME = {LATENCY: DEVICE_LATENCY, THROUGHPUT: DEVICE_THROUGHPUT, TRAINING: DEVICE_TRAINING}
"""Metric of a launch by the wall clock -> the same by that of the device."""

JUDGED_BY = {
    "inference/latency_ms_p50": "inference/latency_device_ms",
    "inference/tokens_per_s": "inference/device_tokens_per_s",
    "finetune/tokens_per_s": "train_step/device_tokens_per_s",
}
"""Metric of a run by the wall clock -> the one that a verdict is about where it was measured: by the clock of the device."""

SHORT = {
    name: short for pair, short in zip(DEVICE_TIME.items(), ("latency", "throughput", "training"), strict=True) for name in pair
}
"""Metric of a launch -> its name in a line about a session, which has one of each two."""

LENGTHS = "scaling/"
"""Phase of the metrics whose step is the length of the text in tokens."""

BATCHES = "batching/"
"""Phase of the metrics whose step is the number of texts of a batch."""

BESIDE = {"mismatched": "mismatched genres", "german": "German", "chinese": "Chinese"}
"""Name in `task.more_validation` -> what the rows are that are scored beside the validation, as `eval/SCORE_NAME`."""


class Direction(enum.Enum):
    """Which way is better; NEITHER for facts that are no merit by themselves."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Compared(enum.Enum):
    """How two values of a metric are compared."""

    BY_SEED = "by seed"  # paired by replicate
    COUNTED = "counted"  # exact: there is no spread
    BY_LAUNCH = "by launch"  # paired by round of a session, above its noise floor
    ABOVE_FLOOR = "above floor"  # paired by replicate, and must exceed the noise floor of the session
    SHOWN = "shown"  # a timing without values by launch: no verdict, as replicates share the launches


@dataclass(frozen=True)
class Margin:
    """A difference that is too small to matter: of the values themselves, or relative to the value before."""

    size: float
    relative: bool = False


MARGINS = {"score": Margin(0.01), "share": Margin(0.01), "nats": Margin(0.02), "bits/byte": Margin(0.01)}
"""Unit -> margin of the equivalence test; of all other units RELATIVE_MARGIN."""

RELATIVE_MARGIN = Margin(0.05, relative=True)

COUNTED_UNITS = ("FLOP", "tokens")
"""Units of what is counted in every run: equal runs have equal counts."""

TRAINED_UNITS = ("score", "share", "nats", "bits/byte", "loss")
"""Units of what scatters from one training to the next."""
FEWEST_REPLICATES = 3
"""Pairs or clusters of pairs below which a score carries no verdict: of two differences any may be equal by chance."""

HIGHEST_FLOOR = math.log(1.25)
"""Noise floor of timings, as a log ratio, above which they support no verdict."""


@dataclass(frozen=True)
class Metric:
    """One kind of result. `launch` is the metric of a launch that it is compared by, or whose noise floor it must exceed."""

    name: str
    unit: str
    direction: Direction
    title: str
    compared: Compared = Compared.BY_SEED
    launch: str | None = None

    @property
    def deterministic(self) -> bool:
        """Whether it is counted, not timed or trained."""
        return self.compared is Compared.COUNTED

    @property
    def margin(self) -> Margin:
        """Two values that differ by less are the same for all that matters."""
        return MARGINS.get(self.unit, RELATIVE_MARGIN)

    @property
    def by_ratio(self) -> bool:
        """Whether it is compared by the logarithm of after / before: times, rates, memories and losses, but no counts."""
        counts = self.deterministic or self.unit in COUNTED_UNITS or self.direction is Direction.NEITHER
        return self.margin.relative and not counts


def _counted() -> list[Metric]:
    lower, neither = Direction.LOWER, Direction.NEITHER
    counted = [
        Metric("model/params_total", "parameters", lower, "parameters", Compared.COUNTED),
        Metric("model/params_trainable", "parameters", lower, "trainable parameters", Compared.COUNTED),
        Metric("model/params_embedding", "parameters", lower, "embedding parameters", Compared.COUNTED),
        Metric("model/params_encoder", "parameters", lower, "encoder layer parameters", Compared.COUNTED),
        Metric("model/params_head", "parameters", neither, "pooler and head parameters", Compared.COUNTED),
        Metric("model/params_effective", "parameters", neither, "effective parameters", Compared.COUNTED),
        Metric("model/params_kept", "parameters", neither, "parameters kept from the weights", Compared.SHOWN),
        Metric("model/params_derived", "parameters", neither, "parameters derived from the weights", Compared.SHOWN),
        Metric("model/params_random", "parameters", neither, "parameters with random values", Compared.SHOWN),
        Metric("model/weights_error", "share", neither, "largest relative error of a derived tensor", Compared.SHOWN),
        Metric("model/weights_bytes", "bytes", lower, "weights", Compared.COUNTED),
        Metric("model/file_bytes", "bytes", lower, "file of the served model", Compared.COUNTED),
        Metric("model/flops_forward", "FLOP", lower, "forward FLOPs", Compared.COUNTED),
        Metric("model/flops_train_step", "FLOP", lower, "training step FLOPs", Compared.COUNTED),
        Metric("published/params_total", "parameters", lower, "parameters at BERT-base dimensions", Compared.COUNTED),
    ]
    for component, title in PARAMETER_COMPONENTS.items():
        counted.append(Metric(f"model/params_component_{component}", "parameters", lower, title, Compared.COUNTED))
        counted.append(Metric(f"published/params_component_{component}", "parameters", lower, title, Compared.COUNTED))
    return counted


def _of_measuring() -> list[Metric]:
    lower, higher, neither = Direction.LOWER, Direction.HIGHER, Direction.NEITHER
    return [
        Metric("setup/import_s", "s", neither, "time to import", Compared.SHOWN),
        Metric("setup/build_s", "s", lower, "time to build the model", Compared.SHOWN),
        Metric("setup/compile_s", "s", lower, "time to compile", Compared.SHOWN),
        Metric("inference/first_call_ms", "ms", lower, "first call", Compared.SHOWN),
        Metric("inference/latency_ms_p50_low", "ms", neither, "latency p50, lower end of its 95 % interval", Compared.SHOWN),
        Metric("inference/latency_ms_p50_high", "ms", neither, "latency p50, upper end of its 95 % interval", Compared.SHOWN),
        Metric("inference/padded_tokens_per_s", "tokens/s", higher, "inference throughput, padding counted", Compared.SHOWN),
        Metric("inference/samples_per_s", "samples/s", higher, "inference throughput in texts", Compared.SHOWN),
        Metric("inference/padding_share", "share", neither, "padding in inference batches", Compared.SHOWN),
        Metric("inference/sampled_peak_memory_bytes", "bytes", lower, "inference peak memory, sampled"),
        Metric("inference/reserved_peak_memory_bytes", "bytes", lower, "inference peak memory, reserved on the GPU"),
        Metric("inference/process_peak_memory_bytes", "bytes", lower, "inference peak memory, of the process on the GPU"),
        Metric("inference/mfu", "share", higher, "model FLOPs utilisation of inference", Compared.SHOWN),
        Metric("inference/energy_j_per_token", "J/token", lower, "inference energy", Compared.SHOWN),
        Metric("train_step/peak_memory_bytes", "bytes", lower, "training step peak memory"),
        Metric(
            "finetune/padded_tokens_per_s",
            "tokens/s",
            higher,
            "training throughput, padding counted",
            Compared.ABOVE_FLOOR,
            THROUGHPUT,
        ),
        Metric("finetune/samples_per_s", "samples/s", higher, "training throughput in texts", Compared.ABOVE_FLOOR, THROUGHPUT),
        Metric("finetune/padding_share", "share", neither, "padding in training batches"),
        Metric("finetune/device_peak_memory_bytes", "bytes", lower, "training peak memory, of the device with the highest"),
        Metric("finetune/sampled_peak_memory_bytes", "bytes", lower, "training peak memory, sampled"),
        Metric("finetune/reserved_peak_memory_bytes", "bytes", lower, "training peak memory, reserved on the GPU"),
        Metric("finetune/process_peak_memory_bytes", "bytes", lower, "training peak memory, of the process on the GPU"),
        Metric("finetune/mfu", "share", higher, "model FLOPs utilisation of training", Compared.ABOVE_FLOOR, THROUGHPUT),
        Metric("finetune/energy_j", "J", lower, "training energy"),
        Metric(
            "inference/peak_flops_per_s",
            "FLOP/s",
            neither,
            "fastest matrix product on the threads of inference",
            Compared.SHOWN,
        ),
        Metric("hardware/peak_flops_per_s", "FLOP/s", neither, "fastest matrix product on the threads of training"),
        Metric(
            "model/bytes_forward", "bytes", lower, "bytes that operators read and write in a forward pass", Compared.COUNTED
        ),
        Metric("model/operators_forward", "operators", lower, "operators that move bytes in a forward pass", Compared.COUNTED),
        Metric("model/arithmetic_intensity", "FLOP/byte", neither, "arithmetic intensity", Compared.COUNTED),
    ]


def _of_load() -> list[Metric]:
    lower, higher, neither = Direction.LOWER, Direction.HIGHER, Direction.NEITHER
    latencies = {
        "single_stream": "one text at a time",
        "server": "random arrivals",
        "simulated_server": "random arrivals, simulated",
    }
    rates = [
        Metric("load/offline_samples_per_s", "samples/s", higher, "throughput in texts, all at once", Compared.SHOWN),
        Metric("load/server_samples_per_s", "samples/s", neither, "texts that arrive", Compared.SHOWN),
    ]
    return rates + [
        Metric(f"load/{name}_latency_ms_{rank}", "ms", lower, f"latency {rank}, {title}", Compared.SHOWN)
        for name, title in latencies.items()
        for rank in ("p50", "p90", "p99")
    ]


def _by_step() -> list[Metric]:
    lower, higher, neither = Direction.LOWER, Direction.HIGHER, Direction.NEITHER
    return [
        Metric("timing/latency_ms", "ms", lower, "median latency of one launch, wall clock"),
        Metric("timing/tokens_per_s", "tokens/s", higher, "inference throughput of one launch"),
        Metric("timing/latency_device_ms", "ms", lower, "latency of one launch, device time, trimmed mean"),
        Metric("timing/device_tokens_per_s", "tokens/s", higher, "inference throughput of one launch, device time"),
        Metric("timing/train_tokens_per_s", "tokens/s", higher, "throughput of the training steps of one launch"),
        Metric("timing/train_device_tokens_per_s", "tokens/s", higher, "throughput of its training steps, device time"),
        Metric("timing/reference_ms", "ms", neither, "reference workload between the calls of that launch"),
        Metric("timing/throughput_reference_ms", "ms", neither, "reference workload between its passes over batches"),
        Metric("timing/train_reference_ms", "ms", neither, "reference workload between its training steps"),
        Metric("timing/reference_device_ms", "ms", neither, "device time of the reference between calls"),
        Metric("timing/throughput_reference_device_ms", "ms", neither, "device time of the reference between passes"),
        Metric("timing/train_reference_device_ms", "ms", neither, "device time of the reference between training steps"),
        Metric("timing/peak_memory_bytes", "bytes", lower, "peak memory of building the model and its first call"),
        Metric("timing/load_average", "processes", neither, "load average at that launch"),
        Metric("timing/cpu_mhz", "MHz", neither, "clock of the CPUs at that launch"),
        Metric("timing/foreign_cpus", "CPUs", neither, "CPUs that others kept busy during that launch"),
        Metric("timing/launch_s", "s", neither, "wall clock of its process, and of its repetitions"),
        Metric("scaling/latency_ms", "ms", lower, "latency p50 by length"),
        Metric("scaling/tokens_per_s", "tokens/s", higher, "throughput by length"),
        Metric("scaling/peak_memory_bytes", "bytes", lower, "inference peak memory by length"),
        Metric("scaling/flops_forward", "FLOP", lower, "forward FLOPs by length", Compared.COUNTED),
        Metric("scaling/flops_train_step", "FLOP", lower, "training step FLOPs by length, of one text", Compared.COUNTED),
        Metric("batching/latency_ms", "ms", lower, "latency p50 by batch size"),
        Metric("batching/tokens_per_s", "tokens/s", higher, "throughput by batch size"),
    ]


def _of_optimiser(phase: str, title: str) -> list[Metric]:
    lower, neither = Direction.LOWER, Direction.NEITHER
    spread = "gradient norm of the layers, largest over smallest"
    return [
        Metric(f"{phase}/learning_rate", "1", neither, f"learning rate of {title}"),
        Metric(f"{phase}/gradient_norm", "1", neither, f"gradient norm of {title}, before clipping"),
        Metric(f"{phase}/gradient_norm_p50", "1", neither, f"gradient norm of {title}, median of its steps"),
        Metric(f"{phase}/gradient_spread", "ratio", lower, f"{spread}, {title}"),
        Metric(f"{phase}/gradient_spread_p50", "ratio", lower, f"{spread}, median of {title}"),
    ]


def _of_pretraining() -> list[Metric]:
    lower, higher, neither = Direction.LOWER, Direction.HIGHER, Direction.NEITHER
    return [
        Metric("pretrain/loss", "loss", lower, "pretraining loss"),
        Metric("pretrain/masked_loss", "nats", lower, "held-out masked loss"),
        Metric("pretrain/masked_accuracy", "share", higher, "held-out masked accuracy"),
        Metric("pretrain/heldout_bits_per_byte", "bits/byte", lower, "held-out masked bits per byte"),
        Metric("pretrain/pair_loss", "nats", lower, "held-out loss on segment pairs"),
        Metric("pretrain/pair_accuracy", "share", higher, "held-out accuracy on segment pairs"),
        Metric("pretrain/detection_loss", "nats", lower, "held-out loss of the detector"),
        Metric("pretrain/detection_accuracy", "share", higher, "held-out accuracy of the detector"),
        Metric("pretrain/replaced_loss", "nats", lower, "held-out loss of the detector on replaced tokens"),
        Metric("pretrain/replaced_accuracy", "share", higher, "held-out replaced tokens that the detector finds"),
        Metric("pretrain/next_token_loss", "nats", lower, "held-out loss on next tokens"),
        Metric("pretrain/next_token_bits_per_byte", "bits/byte", lower, "held-out bits per byte on next tokens"),
        Metric("pretrain/next_token_accuracy", "share", higher, "held-out accuracy on next tokens"),
        Metric("pretrain/permuted_loss", "nats", lower, "held-out loss on tokens in a random order"),
        Metric("pretrain/permuted_accuracy", "share", higher, "held-out accuracy on tokens in a random order"),
        Metric("pretrain/two_sided_loss", "nats", lower, "held-out loss on next and previous tokens"),
        Metric("pretrain/two_sided_accuracy", "share", higher, "held-out accuracy on next and previous tokens"),
        Metric("pretrain/centre_loss", "nats", lower, "held-out loss on tokens between their neighbours"),
        Metric("pretrain/centre_accuracy", "share", higher, "held-out accuracy on tokens between their neighbours"),
        Metric("pretrain/span_loss", "nats", lower, "held-out loss on corrupted spans"),
        Metric("pretrain/span_accuracy", "share", higher, "held-out accuracy on corrupted spans"),
        Metric("pretrain/unigram_entropy", "nats", neither, "unigram entropy of the held-out text"),
        Metric("pretrain/probe_steps", "steps", neither, "steps of the probe that answers for masked tokens"),
        Metric("pretrain/steps", "steps", neither, "pretraining steps"),
        Metric("pretrain/tokens", "tokens", neither, "tokens pretrained on"),
        Metric("pretrain/flops", "FLOP", lower, "pretraining FLOPs"),
        Metric("pretrain/tokens_per_s", "tokens/s", higher, "pretraining throughput", Compared.ABOVE_FLOOR, THROUGHPUT),
        Metric("pretrain/duration_s", "s", lower, "pretraining time", Compared.ABOVE_FLOOR, LATENCY),
        Metric("pretrain/evaluation_s", "s", neither, "time of evaluation while pretraining"),
        Metric("pretrain/peak_memory_bytes", "bytes", lower, "pretraining peak memory"),
        Metric("pretrain/device_peak_memory_bytes", "bytes", lower, "pretraining peak memory, of the device with the highest"),
        Metric("corpus/tokens", "tokens", neither, "tokens of the corpus"),
        Metric("corpus/documents", "documents", neither, "documents of the corpus"),
        Metric("corpus/overlap", "share", neither, "evaluation items with an n-gram of the corpus"),
    ]


def _of_tasks() -> list[Metric]:
    lower, higher, neither = Direction.LOWER, Direction.HIGHER, Direction.NEITHER
    return [
        Metric("inference/latency_ms_min", "ms", lower, "latency min", Compared.SHOWN),
        Metric("inference/latency_device_ms", "ms", lower, "latency, device time", Compared.BY_LAUNCH, DEVICE_LATENCY),
        Metric("inference/latency_ms_p50", "ms", lower, "latency p50", Compared.BY_LAUNCH, LATENCY),
        Metric("inference/latency_ms_p90", "ms", lower, "latency p90", Compared.SHOWN),
        Metric("inference/latency_ms_p99", "ms", lower, "latency p99", Compared.SHOWN),
        Metric(
            "inference/device_tokens_per_s",
            "tokens/s",
            higher,
            "inference throughput, device time",
            Compared.BY_LAUNCH,
            DEVICE_THROUGHPUT,
        ),
        Metric("inference/tokens_per_s", "tokens/s", higher, "inference throughput", Compared.BY_LAUNCH, THROUGHPUT),
        Metric(
            "train_step/device_tokens_per_s",
            "tokens/s",
            higher,
            "throughput of training steps, device time",
            Compared.BY_LAUNCH,
            DEVICE_TRAINING,
        ),
        Metric("train_step/tokens_per_s", "tokens/s", higher, "throughput of training steps", Compared.BY_LAUNCH, TRAINING),
        Metric("inference/peak_memory_bytes", "bytes", lower, "inference peak memory"),
        Metric("finetune/loss", "loss", lower, "training loss"),
        Metric("finetune/tokens_per_s", "tokens/s", higher, "training throughput", Compared.ABOVE_FLOOR, THROUGHPUT),
        Metric("finetune/tokens", "tokens", neither, "tokens trained on"),
        Metric("finetune/flops", "FLOP", lower, "training FLOPs"),
        Metric("finetune/duration_s", "s", lower, "training time", Compared.ABOVE_FLOOR, LATENCY),
        Metric("finetune/peak_memory_bytes", "bytes", lower, "training peak memory"),
        Metric("finetune/optimizer_state_bytes", "bytes", lower, "optimizer state", Compared.COUNTED),
        Metric("finetune/best_epoch", "epochs", neither, "epoch whose weights were kept"),
        Metric("tune/score", "score", higher, "score on tuning rows"),
        Metric("eval/loss", "loss", lower, "validation loss"),
        Metric("eval/majority_loss", "loss", neither, "squared error of the best constant, the mean label", Compared.SHOWN),
        Metric(
            "eval/logits_difference_max", "1", neither, "largest difference of a served model's logits from torch's in float32"
        ),
        Metric("eval/examples", "examples", neither, "validation examples"),
        Metric("eval/pairs_per_s", "pairs/s", higher, "minimal pairs scored a second, with all their masks", Compared.SHOWN),
        Metric("eval/unigram_score", "score", neither, "score of the corpus's word frequencies"),
        Metric(
            "eval/majority_score",
            "score",
            neither,
            "constant answer: most frequent class or tag, or no answer, or first words",
        ),
    ]


def _scores() -> list[Metric]:
    higher = Direction.HIGHER
    evaluated = [Metric(f"eval/{name}", "score", higher, title) for name, title in SCORE_TITLES.items()]
    beside = [
        Metric(f"eval/{name}_{split}", "score", higher, f"{title}, {rows}")
        for split, rows in BESIDE.items()
        for name, title in SCORE_TITLES.items()
        if name != "score"
    ]
    of_items = [
        Metric(
            f"eval/{name}_{end}", unit, Direction.NEITHER, f"{title}, {end} end of its 95 % interval over items", Compared.SHOWN
        )
        for name, title, unit in [*((name, title, "score") for name, title in SCORE_TITLES.items()), ("loss", "loss", "loss")]
        for end in ("low", "high")
    ]
    return evaluated + beside + of_items


METRICS = {
    metric.name: metric
    for metric in (
        *(*_counted(), *_of_measuring(), *_of_load(), *_by_step(), *_of_tasks(), *_of_pretraining(), *_scores()),
        *(*_of_optimiser("pretrain", "pretraining"), *_of_optimiser("finetune", "fine-tuning")),
    )
}
"""All there are, by name."""


def compared(how: Compared) -> dict[str, str | None]:
    """Name -> metric of a launch, of all metrics that are compared like this."""
    return {metric.name: metric.launch for metric in METRICS.values() if metric.compared is how}


def get(name: str) -> Metric:
    """The declared metric of this name; KeyError with the nearest declared name otherwise."""
    if name not in METRICS:
        near = difflib.get_close_matches(name, METRICS, n=1)
        raise KeyError(
            f"metric {name!r} is not declared in harness/metrics.py" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    return METRICS[name]


def check(name: str, value: float) -> float:
    """`value` as float, if the name is declared and the value finite; KeyError or ValueError otherwise."""
    metric = get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"metric {metric.name!r} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"metric {metric.name!r} must be finite, not {value!r}; a diverged run is a state, not a number")
    return float(value)


def has_one_vocabulary(runs: Iterable[Mapping[str, str]]) -> bool:
    """Whether runs with these parameters have one vocabulary."""
    return len({tuple(params.get(key) for key in VOCABULARY) for params in runs}) <= 1
