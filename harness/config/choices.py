"""What a key may be, where it is one of a few names. Hydra refuses every other name and lists these."""

from enum import Enum


class DataSource(Enum):
    """Where the rows of a task come from, unless a grammar generates them."""

    hub = "hub"
    local = "local"


class CorpusSource(Enum):
    """Where running text comes from."""

    builtin = "builtin"  # generated, `harness/corpus/grammar.py`
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


class Rule(Enum):
    """What decides the label of a generated row; `harness/grammar/` says what each one needs of a model."""

    bag = "bag"
    order = "order"
    distance = "distance"
    left_context = "left_context"
    pairs = "pairs"
    induction = "induction"
    brackets = "brackets"
    needle = "needle"


class TaskKind(Enum):
    """What is asked of a text, and so what head the model has; one module of `harness/tasks/` each."""

    classification = "classification"
    regression = "regression"
    tokens = "tokens"  # a class for every word
    spans = "spans"  # where in the text the answer to a question stands


class KeepBest(Enum):
    """By which split the epoch is chosen whose weights are kept."""

    none = "none"  # the last one is
    tune = "tune"  # rows of train that are not trained on, as many as task.tune_share says
    validation = "validation"  # the very rows that are reported, which makes their score too good


class Dtype(Enum):
    """Arithmetic of the forward pass: float32 throughout, or bfloat16 by autocast over float32 weights."""

    fp32 = "fp32"
    bf16 = "bf16"


class Device(Enum):
    """What runs the model."""

    cpu = "cpu"
    cuda = "cuda"
