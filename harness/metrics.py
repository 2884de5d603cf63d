"""The contract between harness and reports: every result has a declared name, a unit and a direction.

Names read `phase/quantity_unit[_statistic]`. Values are stored in base units (bytes, FLOPs, parameters; times in the unit
that the name says) and formatted late. Nothing is logged under a name that is not declared here, and nothing that is not a
finite number. A `loss` is cross-entropy in nats for classes and a squared error in score points for regression tasks.
"""

import difflib
import enum
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
"""Device times that timings are compared by: CPU time of the computing thread, or GPU time, without the work of others."""

DEVICE_TIME = {LATENCY: DEVICE_LATENCY, THROUGHPUT: DEVICE_THROUGHPUT, TRAINING: DEVICE_TRAINING}
"""Metric of a launch by the wall clock -> the same by that of the device."""

JUDGED_BY = {
    "inference/latency_ms_p50": ("inference/latency_device_ms",),
    "inference/tokens_per_s": ("inference/device_tokens_per_s",),
    "train_step/tokens_per_s": ("train_step/device_tokens_per_s",),
    "finetune/tokens_per_s": ("train_step/device_tokens_per_s", "train_step/tokens_per_s"),
}
"""Quantity -> what its number is where one of these was measured: by launches side by side, and by the clock of the device."""


def judged_by(name: str, is_measured: Callable[[str], object]) -> str:
    """The metric that is the number of this quantity, on every page and in every table, and that a verdict is about."""
    return next((other for other in JUDGED_BY.get(name, ()) if is_measured(other)), name)


SHORT = {
    name: short
    for pair, short in zip(DEVICE_TIME.items(), ("latency", "throughput", "training throughput"), strict=True)
    for name in pair
}
"""Metric of a launch -> its name in a line about a session, which has one of each two."""

LENGTHS = "scaling/"
"""Phase of the metrics whose step is the length of the text in tokens."""

BATCHES = "batching/"
"""Phase of the metrics whose step is the number of texts of a batch."""

BESIDE = {"mismatched": "mismatched genres", "german": "German", "chinese": "Chinese"}
"""Name in `task.more_validation` -> description of the rows that are also scored, as `eval/SCORE_NAME`."""


class Direction(enum.Enum):
    """The better direction; NEITHER for descriptive facts."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Compared(enum.Enum):
    """How two values of a metric are compared."""

    BY_SEED = "by seed"  # paired by replicate
    COUNTED = "counted"  # exact: there is no spread
    BY_LAUNCH = "by launch"  # paired by round of a session, above its noise floor
    OWN_CLOCK = "own clock"  # by the clock or the meter of one training: shown, and compared with no other one's
    SHOWN = "shown"  # a timing without values by launch: no verdict, as replicates share the launches


@dataclass(frozen=True)
class Margin:
    """A difference that is too small to matter: of the values themselves, or relative to the value before."""

    size: float
    relative: bool = False


MARGINS = {"score": Margin(0.01), "share": Margin(0.01), "nats": Margin(0.02), "bits/byte": Margin(0.01)}
"""Unit -> margin of the equivalence test; all other units have RELATIVE_MARGIN."""

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
    """One kind of result. `launch` is the metric of a launch that it is compared by."""

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
    def is_score(self) -> bool:
        """Whether it is a score of a model, which other items would change: that of a baseline without one is a fact."""
        return self.unit == "score" and self.direction is not Direction.NEITHER

    @property
    def margin(self) -> Margin:
        """Values that differ by less than this are equivalent."""
        return MARGINS.get(self.unit, RELATIVE_MARGIN)

    @property
    def by_ratio(self) -> bool:
        """Whether it is compared by the logarithm of after / before: times, rates, memories and losses, but no counts."""
        counts = self.deterministic or self.unit in COUNTED_UNITS or self.direction is Direction.NEITHER
        return self.margin.relative and not counts


COMPARED_BY = {
    "inference/latency_device_ms": DEVICE_LATENCY,
    "inference/latency_ms_p50": LATENCY,
    "inference/device_tokens_per_s": DEVICE_THROUGHPUT,
    "inference/tokens_per_s": THROUGHPUT,
    "train_step/device_tokens_per_s": DEVICE_TRAINING,
    "train_step/tokens_per_s": TRAINING,
}
"""Metric -> the one of a launch that it is compared by."""

# How it is compared, which way is better, unit, name, title: at least two blanks between them.

_COUNTED = """
counted  lower    parameters  model/params_total      parameters
counted  lower    parameters  model/params_trainable  trainable parameters
counted  lower    parameters  model/params_embedding  embedding parameters
counted  lower    parameters  model/params_encoder    encoder layer parameters
counted  neither  parameters  model/params_head       pooler and head parameters
counted  neither  parameters  model/params_effective  effective parameters
shown    neither  parameters  model/params_kept       parameters kept from the weights
shown    neither  parameters  model/params_derived    parameters derived from the weights
shown    neither  parameters  model/params_random     parameters with random values
shown    neither  share       model/weights_error     largest relative error of a derived tensor
counted  lower    bytes       model/weights_bytes     weights
counted  lower    bytes       model/file_bytes        file of the served model
counted  neither  1           model/products_float32  products with weights in float32, in the file of the served model
counted  neither  1           model/products_bfloat16  products with weights in bfloat16, in the file of the served model
counted  neither  1           model/products_int8     products with weights in 8 bits, in the file of the served model
counted  lower    FLOP        model/flops_forward     forward FLOPs
counted  lower    FLOP        model/flops_train_step  training step FLOPs
counted  lower    parameters  published/params_total  parameters at BERT-base dimensions
"""

_OF_COMPONENT = """
counted  lower  parameters  model/params_component_{name}      {title}
counted  lower  parameters  published/params_component_{name}  {title}
"""

_MEASURED = """
shown        neither  s          setup/import_s                        time to import
shown        lower    s          setup/build_s                         time to build the model
shown        lower    s          setup/compile_s                       time to compile
shown        lower    ms         inference/first_call_ms               first call
shown        higher   tokens/s   inference/padded_tokens_per_s         inference throughput, padding counted
shown        higher   samples/s  inference/samples_per_s               inference throughput in texts
shown        neither  share      inference/padding_share               padding in inference batches
by seed      lower    bytes      inference/sampled_peak_memory_bytes   inference peak memory, sampled
by seed      lower    bytes      inference/reserved_peak_memory_bytes  inference peak memory, reserved on the GPU
by seed      lower    bytes      inference/process_peak_memory_bytes   inference peak memory, of the process on the GPU
shown        higher   share      inference/mfu                         model FLOPs utilisation of inference
shown        lower    J/token    inference/energy_j_per_token          inference energy
by seed      lower    bytes      train_step/peak_memory_bytes          training step peak memory
own clock    higher   tokens/s   finetune/padded_tokens_per_s   throughput of the whole training, own clock, padding counted
own clock    higher   samples/s  finetune/samples_per_s                throughput of the whole training in examples, own clock
by seed      neither  share      finetune/padding_share                padding in training batches
by seed      lower    bytes      finetune/device_peak_memory_bytes     training peak memory, of the device with the highest
by seed      lower    bytes      finetune/sampled_peak_memory_bytes    training peak memory, sampled
by seed      lower    bytes      finetune/reserved_peak_memory_bytes   training peak memory, reserved on the GPU
by seed      lower    bytes      finetune/process_peak_memory_bytes    training peak memory, of the process on the GPU
own clock    higher   share      finetune/mfu                          model FLOPs utilisation of training, own clock
own clock    lower    J          finetune/energy_j                     training energy
shown        neither  FLOP/s     inference/peak_flops_per_s            fastest matrix product on the threads of inference
own clock    neither  FLOP/s     hardware/peak_flops_per_s             fastest matrix product on the threads of training
counted      lower    bytes      model/bytes_forward                   bytes moved in a forward pass
counted      lower    operators  model/operators_forward               operators in a forward pass
counted      neither  FLOP/byte  model/arithmetic_intensity            arithmetic intensity
shown        higher   samples/s  load/offline_samples_per_s            throughput in texts, all at once
shown        neither  samples/s  load/server_samples_per_s             texts that arrive
"""

_UNDER_LOAD = """
shown  lower  ms  load/{name}_latency_ms_p50  latency p50, {title}
shown  lower  ms  load/{name}_latency_ms_p90  latency p90, {title}
shown  lower  ms  load/{name}_latency_ms_p99  latency p99, {title}
"""

_LOADS = {
    "single_stream": "one text at a time",
    "server": "random arrivals",
    "simulated_server": "random arrivals, simulated",
}

_SCORES_BESIDE = {
    f"{name}_{split}": f"{title} on {rows}"
    for split, rows in BESIDE.items()
    for name, title in SCORE_TITLES.items()
    if name != "score"
}

_BY_STEP_AND_TRAINING = """
by seed  lower    ms         timing/latency_ms                      median latency of one launch, wall clock
by seed  higher   tokens/s   timing/tokens_per_s                    inference throughput of one launch
by seed  lower    ms         timing/latency_device_ms               latency of one launch, device time, trimmed mean
by seed  higher   tokens/s   timing/device_tokens_per_s             inference throughput of one launch, device time
by seed  higher   tokens/s   timing/train_tokens_per_s              throughput of the training steps of one launch
by seed  higher   tokens/s   timing/train_device_tokens_per_s       throughput of its training steps, device time
by seed  neither  ms         timing/reference_ms                    reference workload between the calls of that launch
by seed  neither  ms         timing/throughput_reference_ms         reference workload between its passes over batches
by seed  neither  ms         timing/train_reference_ms              reference workload between its training steps
by seed  neither  ms         timing/reference_device_ms             device time of the reference between calls
by seed  neither  ms         timing/throughput_reference_device_ms  device time of the reference between passes
by seed  neither  ms         timing/train_reference_device_ms       device time of the reference between training steps
by seed  lower    bytes      timing/peak_memory_bytes               peak memory of building the model and its first call
by seed  neither  processes  timing/load_average                    load average at that launch
by seed  neither  MHz        timing/cpu_mhz                         clock of the CPUs at that launch
by seed  neither  CPUs       timing/foreign_cpus                    CPUs that others kept busy during that launch
by seed  neither  s          timing/launch_s                        wall clock of its process, and of its repetitions
by seed  lower    ms         scaling/latency_ms                     latency p50 by length
by seed  higher   tokens/s   scaling/tokens_per_s                   throughput by length
by seed  lower    bytes      scaling/peak_memory_bytes              inference peak memory by length
counted  lower    FLOP       scaling/flops_forward                  forward FLOPs by length
counted  lower    FLOP       scaling/flops_train_step               training step FLOPs by length, of one text
by seed  lower    ms         batching/latency_ms                    latency p50 by batch size
by seed  higher   tokens/s   batching/tokens_per_s                  throughput by batch size

shown        lower    ms        inference/latency_ms_min        latency min
by launch    lower    ms        inference/latency_device_ms     latency, device time
by launch    lower    ms        inference/latency_ms_p50        latency, wall clock
shown        lower    ms        inference/latency_ms_p90        latency p90
shown        lower    ms        inference/latency_ms_p99        latency p99
by launch    higher   tokens/s  inference/device_tokens_per_s   inference throughput, device time
by launch    higher   tokens/s  inference/tokens_per_s          inference throughput, wall clock
by launch    higher   tokens/s  train_step/device_tokens_per_s  training throughput, device time
by launch    higher   tokens/s  train_step/tokens_per_s         training throughput, wall clock
by seed      lower    bytes     inference/peak_memory_bytes     inference peak memory
by seed      lower    loss      finetune/loss                   training loss
own clock    higher   tokens/s  finetune/tokens_per_s           throughput of the whole training, own clock
by seed      neither  tokens    finetune/tokens                 tokens trained on
by seed      lower    FLOP      finetune/flops                  training FLOPs
own clock    lower    s         finetune/duration_s             training time, own clock
by seed      lower    bytes     finetune/peak_memory_bytes      training peak memory
counted      lower    bytes     finetune/optimizer_state_bytes  optimizer state
by seed      neither  epochs    finetune/best_epoch             epoch whose weights were kept
by seed      higher   score     tune/score                      score on tuning rows
by seed      lower    loss      eval/loss                       validation loss
shown        neither  loss      eval/majority_loss              squared error of the mean label of the scored rows
by seed  neither  1  eval/logits_difference_max  largest difference of a served model's logits from torch's in float32
shown        neither  share     eval/most_frequent_prediction_share    share of the most frequent prediction
shown        neither  share     eval/most_frequent_label_share         share of the most frequent label
by seed      neither  examples  eval/examples                   validation examples
own clock    higher   pairs/s   eval/pairs_per_s                minimal pairs scored a second, with all their masks
by seed      neither  score     eval/unigram_score              score of the corpus's word frequencies
by seed  neither  score  eval/majority_score  majority baseline (most frequent class or tag, empty answer, first words)

by seed      lower    loss       pretrain/loss                      pretraining loss
by seed      lower    nats       pretrain/masked_loss               held-out masked loss
by seed      higher   share      pretrain/masked_accuracy           held-out masked accuracy
by seed      lower    bits/byte  pretrain/heldout_bits_per_byte     held-out masked bits per byte
by seed      lower    nats       pretrain/pair_loss                 held-out loss on segment pairs
by seed      higher   share      pretrain/pair_accuracy             held-out accuracy on segment pairs
by seed      lower    nats       pretrain/detection_loss            held-out loss of the detector
by seed      higher   share      pretrain/detection_accuracy        held-out accuracy of the detector
by seed      lower    nats       pretrain/replaced_loss             held-out loss of the detector on replaced tokens
by seed      higher   share      pretrain/replaced_accuracy         held-out replaced tokens that the detector finds
by seed      lower    nats       pretrain/next_token_loss           held-out loss on next tokens
by seed      lower    bits/byte  pretrain/next_token_bits_per_byte  held-out bits per byte on next tokens
by seed      higher   share      pretrain/next_token_accuracy       held-out accuracy on next tokens
by seed      lower    nats       pretrain/permuted_loss             held-out loss on tokens in a random order
by seed      higher   share      pretrain/permuted_accuracy         held-out accuracy on tokens in a random order
by seed      lower    nats       pretrain/two_sided_loss            held-out loss on next and previous tokens
by seed      higher   share      pretrain/two_sided_accuracy        held-out accuracy on next and previous tokens
by seed      lower    nats       pretrain/centre_loss               held-out loss on tokens between their neighbours
by seed      higher   share      pretrain/centre_accuracy           held-out accuracy on tokens between their neighbours
by seed      lower    nats       pretrain/span_loss                 held-out loss on corrupted spans
by seed      higher   share      pretrain/span_accuracy             held-out accuracy on corrupted spans
by seed      neither  nats       pretrain/unigram_entropy           unigram entropy of the held-out text
by seed      neither  steps      pretrain/probe_steps               steps of the probe that answers for masked tokens
by seed      neither  steps      pretrain/steps                     pretraining steps
by seed      neither  tokens     pretrain/tokens                    tokens pretrained on
by seed      lower    FLOP       pretrain/flops                     pretraining FLOPs
own clock    higher   tokens/s   pretrain/tokens_per_s              pretraining throughput, own clock
own clock    lower    s          pretrain/duration_s                pretraining time, own clock
own clock    neither  s          pretrain/evaluation_s              time of evaluation while pretraining
by seed      lower    bytes      pretrain/peak_memory_bytes         pretraining peak memory
by seed      lower    bytes      pretrain/device_peak_memory_bytes  pretraining peak memory, of the device with the highest
by seed      neither  tokens     corpus/tokens                      tokens of the corpus
by seed      neither  documents  corpus/documents                   documents of the corpus
by seed      neither  share      corpus/overlap                     evaluation items with an n-gram of the corpus
"""

_SCORED = """
by seed  higher  score  eval/{name}  {title}
"""

_OF_ITEMS = """
shown  neither  UNIT  eval/{name}_low   {title}, low end of its 95 % interval over items
shown  neither  UNIT  eval/{name}_high  {title}, high end of its 95 % interval over items
"""

_OF_OPTIMISER = """
by seed  neither  1      {name}/learning_rate        learning rate of {title}
by seed  neither  1      {name}/gradient_norm        gradient norm of {title}, before clipping
by seed  neither  1      {name}/gradient_norm_p50    gradient norm of {title}, median of its steps
by seed  lower    ratio  {name}/gradient_spread      gradient norm of the layers, largest over smallest, {title}
by seed  lower    ratio  {name}/gradient_spread_p50  gradient norm of the layers, largest over smallest, median of {title}
"""


def _declared(rows: str, members: Mapping[str, str] | None = None) -> list[Metric]:
    """The metrics of these rows, once for each name and title of `members`."""
    metrics = []
    for member, its_title in (members or {"": ""}).items():
        for line in rows.format(name=member, title=its_title).splitlines():
            if line:
                how, better, unit, name, title = re.split("  +", line)
                metrics.append(Metric(name, unit, Direction(better), title, Compared(how), COMPARED_BY.get(name)))
    return metrics


_ALL = [
    *_declared(_COUNTED),
    *_declared(_OF_COMPONENT, PARAMETER_COMPONENTS),
    *_declared(_MEASURED),
    *_declared(_UNDER_LOAD, _LOADS),
    *_declared(_BY_STEP_AND_TRAINING),
    *_declared(_SCORED, SCORE_TITLES),
    *_declared(_SCORED, _SCORES_BESIDE),
    *_declared(_OF_ITEMS.replace("UNIT", "score"), SCORE_TITLES),
    *_declared(_OF_ITEMS.replace("UNIT", "loss"), {"loss": "loss"}),
    *_declared(_OF_OPTIMISER, {"pretrain": "pretraining", "finetune": "fine-tuning"}),
]
METRICS = {metric.name: metric for metric in _ALL}
"""All there are, by name."""


OF_OTHERS = "results/"
"""Phase of the metrics of other tools, whose names say their unit and direction: `results/latency (ms, lower)`."""


def of_others(title: str, unit: str, direction: Direction) -> str:
    """The name of a metric of another tool."""
    return f"{OF_OTHERS}{title} ({unit}, {direction.value})"


def get(name: str) -> Metric:
    """The declared metric of this name, or one of another tool; KeyError with the nearest declared name otherwise."""
    if found := re.fullmatch(rf"{OF_OTHERS}(.+) \((.*), (lower|higher)\)", name):
        return Metric(name, found[2], Direction(found[3]), found[1])
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


def normalised(answer: str | None) -> str:
    """Without case, punctuation, articles and further spaces, as SQuAD compares answers; empty for no answer."""
    text = "".join(letter for letter in (answer or "").lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def overlap(answer: str | None, golds: Iterable[str]) -> float:
    """F1 of the words of an answer and of the gold answer that fits best, as SQuAD counts it."""
    ours, best = Counter(normalised(answer).split()), 0.0
    for theirs in (Counter(normalised(gold).split()) for gold in golds):
        words = ours.total() + theirs.total()
        best = max(best, 2 * (ours & theirs).total() / words if words else 1.0)
    return best


def golds_of(answers: list[str]) -> list[str]:
    """The gold answers that SQuAD's script compares with: those that are not empty once normalised, else "no answer"."""
    return [text for text in answers if normalised(text)] or [""]
