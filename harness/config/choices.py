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
    """Where the rows of a task come from, unless a grammar generates them."""

    hub = "hub"
    local = "local"


class CorpusSource(Enum):
    """Where running text comes from."""

    builtin = "builtin"  # generated, `harness/corpus/generated.py`
    data = "data"  # a data set, from where `data` says: the hub or a local folder
    files = "files"  # plain text, a blank line between documents


class TokenizerKind(Enum):
    """How words are cut into pieces."""

    wordpiece = "wordpiece"  # arXiv:1609.08144
    bpe = "bpe"  # of bytes (arXiv:1508.07909)
    unigram = "unigram"  # arXiv:1804.10959


class TrainedOn(Enum):
    """Whose text a tokenizer is trained on; auto: the corpus where there is pretraining, else the task."""

    auto = "auto"
    task = "task"
    corpus = "corpus"


class Provider(Enum):
    """Whose code computes published weights."""

    auto = "auto"  # native where it reads the family, else transformers
    native = "native"  # harness/models, whose keys can be changed
    transformers = "transformers"  # the library's own code, as it is


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
    tokens = "tokens"  # a class for every word
    spans = "spans"  # start and end of the answer to a question in the text
    multiple_choice = "multiple_choice"  # which of several endings a text has
    minimal_pairs = "minimal_pairs"  # which of two sentences is likelier to a language model, without fine-tuning
    multilabel = "multilabel"  # any number of classes for a text
    similarity = "similarity"  # how alike two texts are, by the cosine of their vectors, without fine-tuning
    retrieval = "retrieval"  # which paragraph belongs to a question, likewise, or trained with finetune.in_batch_negatives


UNTRAINED = (TaskKind.minimal_pairs, TaskKind.similarity, TaskKind.retrieval)
"""Kinds of tasks that score a model as it is."""


class Until(Enum):
    """When a sweep ends."""

    seeds = "seeds"  # once all its seeds have run
    resolved = "resolved"  # once the headline of every arm is better, worse or the same: until then it adds seeds


class KeepBest(Enum):
    """By which split the epoch is chosen whose weights are kept."""

    none = "none"  # the last one is
    tune = "tune"  # task.tune_share of the rows of train, which are not trained on
    validation = "validation"  # the rows that are reported, which makes their score too optimistic


class Optimizer(Enum):
    """An optimizer of torch.optim, with its own defaults where no key of the same name is set."""

    adamw = "adamw"  # arXiv:1711.05101
    adam = "adam"  # arXiv:1412.6980
    nadam = "nadam"
    radam = "radam"  # arXiv:1908.03265
    adamax = "adamax"  # arXiv:1412.6980
    adagrad = "adagrad"
    adadelta = "adadelta"  # arXiv:1212.5701
    adafactor = "adafactor"  # arXiv:1804.04235; its rate is that of the config, relative to the size of the parameters
    rmsprop = "rmsprop"
    sgd = "sgd"
    muon = "muon"  # for matrices of layers, with rates that match AdamW's (arXiv:2502.16982), and adamw for all others


class Schedule(Enum):
    """How the rate goes on after its warm-up."""

    linear = "linear"  # falls to 0 in a straight line, over decay_fraction of the budget
    cosine = "cosine"  # falls to 0 as half a cosine (arXiv:1608.03983), over decay_fraction of the budget
    constant = "constant"  # stays
    wsd = "wsd"  # stays, and falls to 0 in a straight line in the last fifth, or decay_fraction (arXiv:2405.18392)


class DeviceSharding(Enum):
    """What several devices of one run divide among them."""

    none = "none"  # the rows of a batch
    full = "full"  # parameters, gradients and moments of the optimiser as well


class Keep(Enum):
    """Which weights a fine-tuning leaves in its folder `checkpoint/`."""

    none = "none"
    last = "last"  # the weights that are evaluated at the end
    best = "best"  # the same, but finetune.keep_best must select the best epoch


class Products(Enum):
    """Library of the float32 matrix products of linear layers on a CPU; auto: the faster one on this processor."""

    auto = "auto"
    torch = "torch"  # what torch was built with, mostly MKL
    onednn = "onednn"


class Dtype(Enum):
    """Arithmetic of the forward pass: float32 throughout, or bfloat16 by autocast over float32 weights; auto: the faster."""

    fp32 = "fp32"
    bf16 = "bf16"
    auto = "auto"


class Device(Enum):
    """What runs the model."""

    cpu = "cpu"
    cuda = "cuda"


class MatchOn(Enum):
    """In which cost a variant is made equal to the baseline."""

    none = "none"
    params = "params"  # of the model with the head of its task
    flops = "flops"  # of one forward pass over measure.length tokens
    memory = "memory"  # of a training step, by formula
    latency = "latency"  # of one text of measure.length tokens, measured


class MatchBy(Enum):
    """What is resized."""

    hidden_size = "hidden_size"  # and intermediate_size in proportion
    num_hidden_layers = "num_hidden_layers"
    intermediate_size = "intermediate_size"


class Sampler(Enum):
    """How a search chooses its trials."""

    random = "random"  # independent draws: the same ones for every arm
    tpe = "tpe"  # tree-structured Parzen estimator: later trials follow earlier scores (arXiv:2304.11127)
    grid = "grid"  # every combination of the listed values, or search.part of them


class Statistic(Enum):
    """What a paper reports of the scores of several seeds."""

    mean = "mean"
    median = "median"
    best = "best"  # of all of them


class Backend(Enum):
    """What runs a model as it is served."""

    torch = "torch"
    compile = "compile"  # torch.compile
    onnxruntime = "onnxruntime"


class Scenario(Enum):
    """When texts come to a served model (arXiv:1911.02549, section IV-A)."""

    single_stream = "single_stream"  # one at a time
    server = "server"  # at random moments
    offline = "offline"  # all at once


class Precision(Enum):
    """In what the weights of a served model are kept."""

    fp32 = "fp32"
    bf16 = "bf16"  # of linear layers, LSTMs and embeddings, as are products
    int8_dynamic = "int8_dynamic"  # of linear layers; their inputs are rounded to 8 bits as they come
    int8_weights = "int8_weights"  # of linear layers; products are of float32
