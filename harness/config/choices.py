"""Keys whose value is one of a few names. Hydra refuses every other name and lists these."""

from enum import Enum

DERIVED = (
    "enhancements",
    "matched",
    "model_keys",
    "model_name",
    "overrides",
    "protocol",
    "protocol_name",
    "published",
    "said_keys",
    "scale_name",
    "settings",
    "swept",
    "tuned",
)
"""Keys of a run that are set by composition and not by the user."""


class DataSource(Enum):
    """The source of the rows of a task that no grammar generates."""

    hub = "hub"
    local = "local"


class CorpusSource(Enum):
    """The source of running text."""

    builtin = "builtin"  # generated text
    data = "data"  # a data set, read from data.source
    files = "files"  # plain text files, a blank line between documents


class TokenizerKind(Enum):
    """The subword algorithm."""

    wordpiece = "wordpiece"  # WordPiece (arXiv:1609.08144)
    bpe = "bpe"  # byte-level BPE (arXiv:1508.07909)
    unigram = "unigram"  # unigram language model (arXiv:1804.10959)


class TrainedOn(Enum):
    """Whose text a tokenizer is trained on; auto: the corpus where there is pretraining, else the task."""

    auto = "auto"
    task = "task"
    corpus = "corpus"


class Provider(Enum):
    """Whose implementation runs published weights."""

    auto = "auto"  # native if it supports the family, else transformers
    native = "native"  # harness/models, whose keys can be changed
    transformers = "transformers"  # the library's own code, unchanged


class Rule(Enum):
    """What decides the label of a generated row; `harness/tasks/synthetic/` says what each one requires of a model."""

    bag = "bag"
    order = "order"
    distance = "distance"
    left_context = "left_context"
    pairs = "pairs"
    induction = "induction"
    brackets = "brackets"
    needle = "needle"
    word_sense = "word_sense"


class TaskKind(Enum):
    """What a task predicts for a text, and so which head the model has; one module of `harness/tasks/` each."""

    classification = "classification"
    regression = "regression"
    tokens = "tokens"  # one class per word
    spans = "spans"  # answer to a question, as a span of the text
    multiple_choice = "multiple_choice"  # the right one of several endings
    minimal_pairs = "minimal_pairs"  # the likelier of two sentences, by a language model, without fine-tuning
    multilabel = "multilabel"  # any number of classes per text
    similarity = "similarity"  # similarity of two texts, by the cosine of their vectors, without fine-tuning
    retrieval = "retrieval"  # paragraph that answers a question, by cosine; trained only with finetune.in_batch_negatives


UNTRAINED = (TaskKind.minimal_pairs, TaskKind.similarity, TaskKind.retrieval)
"""Kinds of tasks that score a model without training."""


class Until(Enum):
    """When a sweep ends."""

    seeds = "seeds"  # all seeds have run
    resolved = "resolved"  # the headline of every arm is better, worse or the same; seeds are added until then


class KeepBest(Enum):
    """The split whose score selects the epoch whose weights are kept."""

    none = "none"  # the last epoch
    tune = "tune"  # task.tune_share of the training rows, which are not trained on
    validation = "validation"  # the reported rows, which makes their score optimistic


class Optimizer(Enum):
    """An optimizer of torch.optim, with its own defaults where no key of the same name is set."""

    adamw = "adamw"  # Adam with decoupled weight decay (arXiv:1711.05101)
    adam = "adam"  # adaptive moments (arXiv:1412.6980)
    nadam = "nadam"  # Adam with Nesterov momentum
    radam = "radam"  # Adam with rectified variance (arXiv:1908.03265)
    adamax = "adamax"  # Adam with the infinity norm (arXiv:1412.6980)
    adagrad = "adagrad"  # scales by all past squared gradients
    adadelta = "adadelta"  # Adagrad over a moving window (arXiv:1212.5701)
    adafactor = "adafactor"  # factored second moments (arXiv:1804.04235); the rate is relative to the size of the parameters
    rmsprop = "rmsprop"  # scales by a moving average of squared gradients
    sgd = "sgd"  # stochastic gradient descent
    muon = "muon"  # for matrices of layers, with rates that match AdamW's (arXiv:2502.16982); AdamW for the rest


class Schedule(Enum):
    """Learning rate schedule after warm-up."""

    linear = "linear"  # linear decay to 0 over decay_fraction
    cosine = "cosine"  # cosine decay to 0 over decay_fraction (arXiv:1608.03983)
    constant = "constant"  # no decay
    wsd = "wsd"  # constant, then linear decay to 0 in the last fifth, or decay_fraction (arXiv:2405.18392)


class DeviceSharding(Enum):
    """What several devices of one run divide among them."""

    none = "none"  # the rows of a batch (data parallel)
    full = "full"  # also parameters, gradients and optimizer states


class Keep(Enum):
    """Which weights a fine-tuning leaves in its folder `checkpoint/`."""

    auto = "auto"  # last; in a sweep none
    none = "none"  # no weights
    last = "last"  # the weights evaluated at the end
    best = "best"  # the weights that finetune.keep_best selects


class Products(Enum):
    """Library of the float32 matrix products of linear layers on a CPU; auto: the faster one on this processor."""

    auto = "auto"
    torch = "torch"  # what torch was built with, usually MKL
    onednn = "onednn"


class Dtype(Enum):
    """Arithmetic of the forward pass: float32 throughout, or bfloat16 by autocast over float32 weights; auto: the faster."""

    fp32 = "fp32"
    bf16 = "bf16"
    auto = "auto"


class Device(Enum):
    """The device of the model."""

    cpu = "cpu"
    cuda = "cuda"


class MatchOn(Enum):
    """The cost in which a variant matches the baseline."""

    none = "none"
    params = "params"  # parameters, with the head of the task
    flops = "flops"  # forward FLOPs over measure.length tokens
    memory = "memory"  # memory of a training step, by formula
    latency = "latency"  # measured latency of one text of measure.length tokens


class MatchBy(Enum):
    """The dimension that is resized to match."""

    hidden_size = "hidden_size"  # hidden size, with intermediate_size in proportion
    num_hidden_layers = "num_hidden_layers"
    intermediate_size = "intermediate_size"


class Sampler(Enum):
    """How a search chooses its trials."""

    random = "random"  # independent draws, the same for every arm
    tpe = "tpe"  # tree-structured Parzen estimator, guided by earlier scores (arXiv:2304.11127)
    grid = "grid"  # every combination of the listed values, or search.part of them


class Statistic(Enum):
    """The statistic over seeds that a paper reports."""

    mean = "mean"
    median = "median"
    best = "best"  # maximum


class Backend(Enum):
    """The runtime of a served model."""

    torch = "torch"
    compile = "compile"  # torch.compile
    onnxruntime = "onnxruntime"


class Scenario(Enum):
    """The arrival pattern of texts at a served model (arXiv:1911.02549, section IV-A)."""

    single_stream = "single_stream"  # one text at a time
    server = "server"  # texts arrive at random times
    offline = "offline"  # all texts at once


class Precision(Enum):
    """The precision of a served model's weights."""

    fp32 = "fp32"
    bf16 = "bf16"  # linear layers, LSTMs, embeddings and products
    int8_dynamic = "int8_dynamic"  # linear layers; inputs are quantised at run time
    int8_weights = "int8_weights"  # linear layers; products are float32
