"""What a run reads, as typed plain data: tasks, data sets, running text and tokenizers. Part of `schema`."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from harness.config.choices import CorpusSource, DataSource, Rule, TaskKind, TokenizerKind, TrainedOn
from models.config import LARGEST_TABLE
from models.ranges import LARGEST_SEED, number


@dataclass
class GrammarConfig:
    """A generated data set; read in `harness/tasks/synthetic/`."""

    rule: Rule = Rule.bag  # what decides the label
    train_examples: int = number(1000, at_least=1)  # rows to train on
    validation_examples: int = number(500, at_least=1)  # rows to score
    distance: int = number(20, at_least=1)  # tokens between the two words of the rule `distance`
    symbols: int = number(4, at_least=1)  # words that `pairs` matches, or that are keys in `induction`
    pairs: int = number(4, at_least=1)  # of key and value in `induction`, of opening and closing bracket in `brackets`
    depth: int = number(3, at_least=1)  # of nesting in `brackets`
    length: int = number(480, at_least=1)  # words of a document of `needle`
    seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of the rows


@dataclass
class TaskConfig:
    """One data set with its labels and scores, or a named set of tasks; read in `harness/tasks/`."""

    name: str = MISSING  # in the names of runs and in reports
    version: int = number(1, at_least=0)  # raised where the rows or scores of this name change
    kind: TaskKind = TaskKind.classification  # what is predicted for a text, and so which head the model has
    members: list[str] = field(default_factory=list)  # names of tasks: this entry is a set, which runs each of them
    grammar: GrammarConfig | None = None  # the rows are generated, whatever `data` says
    hub: str = ""  # data set on the hub
    folder: str = ""  # the same data set's folder below data.root
    subset: str = ""  # configuration of the data set
    train_split: str = "train"  # a split or a part of one: train[:80%]
    validation_split: str = "validation"  # a split or, in the notation of `datasets`, a part: train[80%:]
    more_validation: dict[str, str] = field(default_factory=dict)  # name: further split to evaluate, or SUBSET:SPLIT
    languages: dict[str, str] = field(default_factory=dict)  # name: SUBSET:SPLIT whose text a multilingual tokenizer reads too
    test_split: str = ""  # rows with hidden labels, for finetune.submit; empty: there are none
    train_file: str | None = None  # .csv, .tsv, .jsonl or .parquet, in place of hub and folder
    validation_file: str | None = None  # likewise, the rows that are scored
    test_file: str | None = None  # likewise, rows with hidden labels
    tune_share: float = number(0.0, at_least=0, below=1)  # of train, kept apart from it as the split `tune`
    tune_seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of the choice of these rows
    item: str = "idx"  # column of row ids; without it rows are numbered
    submission: str = ""  # name of the benchmark's file of predictions, as GLUE's CoLA
    more_submission: dict[str, str] = field(default_factory=dict)  # file: further split with its own file
    source: str = ""  # paper or page that defines the task
    fields: list[str] = field(default_factory=list)  # one or two text columns; a+b: the text of both
    label: str = "label"  # column of the label
    labels: list[str] = field(default_factory=list)  # class names in the order of their numbers
    scores: list[str] = field(default_factory=list)  # functions of harness/tasks/scores.py
    headline: str = ""  # the main score of the task
    max_length: int = number(128, at_least=1)  # tokens; longer texts are cut, of kind `spans` into windows
    stride: int = number(128, at_least=0)  # tokens that neighbouring windows have in common
    max_answer_length: int = number(30, at_least=1)  # longest predicted answer in tokens
    answerable_only: bool = False  # "no answer" is never predicted


@dataclass
class DataConfig:
    """Where data comes from; read in `harness/data/`."""

    source: DataSource = DataSource.hub  # the hub, or a folder with its layout (data.root)
    root: str | None = None  # folder of source=local
    train_examples: int | None = number(None, at_least=1)  # the first so many; None: all of them
    validation_examples: int | None = number(None, at_least=1)  # likewise, of the rows that are scored


@dataclass
class CorpusConfig:
    """Running text; read in `harness/corpus/`."""

    name: str = MISSING  # in the names of runs and in reports
    version: int = number(1, at_least=0)  # raised where the text of this name changes
    source: CorpusSource = CorpusSource.builtin  # generated text, a data set, or files of yours
    hub: str = ""  # data set on the hub
    folder: str = ""  # the same data set's folder below data.root
    subset: str = ""  # configuration of the data set
    train_split: str = "train"  # split of the data set that is trained on
    validation_split: str | None = "validation"  # None: validation_share of the documents is held out
    validation_share: float = number(
        0.02, at_least=0, at_most=1
    )  # share of the documents that is held out, where nothing else is
    text: str = "text"  # column
    document: str = ""  # column that is the same for all rows of a document; empty: each row is a document
    heading: str = ""  # pattern of a row that begins a document
    files: list[str] = field(default_factory=list)  # plain text, a blank line between documents
    validation_files: list[str] = field(default_factory=list)  # empty: validation_share of the documents is held out
    train_documents: int | None = number(None, at_least=1)  # the first so many; None: all of them
    documents: int = number(2000, at_least=1)  # that the grammar generates
    seed: int = number(0, at_least=0, limit=LARGEST_SEED)  # of the generated text


@dataclass
class TokenizerConfig:
    """Trained on text, or from a file; read in `harness/data/tokenizer.py`. Null: what the model or scale states."""

    kind: TokenizerKind | None = TokenizerKind.wordpiece  # how words are cut into pieces
    trained_on: TrainedOn = TrainedOn.auto  # whose text; auto: the corpus where there is pretraining, else the task
    train_characters: int = number(100_000_000, at_least=1, limit=1e12)  # at most, of the text that it is trained on
    vocab_size: int | None = number(
        8192, at_least=1, limit=LARGEST_TABLE
    )  # pieces at most; at least every letter and the special ones
    min_frequency: int = number(2, at_least=0)  # times that two pieces must meet to become one; not of kind unigram
    lowercase: bool | None = True  # text is read in lower case
    multilingual: bool | None = False  # also trained on the text of task.languages, without labels
    separators: int | None = number(1, at_least=1, limit=100)  # [SEP] between the two texts of a pair
    vocab_file: str | None = None  # one piece a line, as BERT's vocab.txt
    file: str | None = None  # a whole tokenizer of the library, tokenizer.json
