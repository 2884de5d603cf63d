"""Keys, words and switches of the commands that explain."""

import re
from pathlib import Path
from typing import ClassVar

from harness.config.help import names
from harness.errors import InputError
from harness.grammar import Composed, arguments, group_of, key, word
from harness.models.ranges import Range
from harness.plugins.shared.options import ABOVE_ZERO, RUN, Weights

MODELS = [f"model={name}" for name in names("model")]
"""What a word that is not a topic may mean."""

IN_ONE_VALUE = re.compile(r"\[.*?\]|\{.*?\}|\(.*?\)|'.*?'|\".*?\"")
"""Brackets, in which a comma does not separate values: `enhancement=[swiglu,shared]`."""

TOKENIZERS = ("wordpiece", "bpe", "unigram", "words")
"""What `tokenizer` compares; `words` has the most frequent words as its pieces, all others are unknown."""


@arguments
class Tour:
    """Ten steps from the pieces of a text to a comparison with a verdict, in a few minutes, without network: what to look at,
    the command, and what it shows. In a terminal Enter turns the page. Finished steps are kept in multirun/tour, below the
    folder of `to` where that is set.
    """

    text: str = key(
        "The old keeper of the bank was robbed yesterday.", "Text, or a file with one; ` ||| ` separates a second text."
    )
    to: Path = key(Path("multirun", "tour", "tour.html"), "HTML page with all steps.")
    all: bool = key(False, "Print all steps without waiting for Enter.")


@arguments
class Describe(Composed):
    """Describes a variant, or several side by side: model=base,gpt,encoder_decoder

    TOPIC is `variant`: difference from base, parameters, shapes, a picture; `beside`: several variants in one table, their
    architectures, parameters and pictures of attention; `scales`: parameters, FLOPs and memory of the
    variant at every scale, with factors; `activations`: a picture of all non-linearities and their derivatives;
    `positions`: learned vectors of positions next to sinusoids; `coordinates`: sizes of activations over widths after a few
    steps, with and without pretrain.mup_base_width; or `numpy`: BERT written out in NumPy, every stage of a text next to
    torch, and a training on 50 sentences.

    Everything else chooses the variant: model=albert scale=base 'enhancement=[swiglu]' pretrain=rtd model.KEY=VALUE. Commas
    without -m are `beside`, with -m every variant has its own pages.
    """

    topics: ClassVar[tuple[str, ...]] = ("variant", "beside", "scales", "activations", "positions", "coordinates", "numpy")
    topic: str = word(
        "TOPIC", "variant", "What to show; the topics are explained below.", choices=topics, called="topic", instead=MODELS
    )
    text: str = key("The boys were ready in the field.", "Text for `numpy`, and for the attention pictures of `beside`.")
    flops_per_second: float | None = key(
        None, "FLOP/s of a device, from which `beside` estimates the time of the published pretraining.", range=ABOVE_ZERO
    )
    to: Path = key(Path("multirun", "describe"), "Folder of the pictures, in `output` if that is set.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flops_per_second is not None and self.topic != "beside" and not self.is_implied_sweep:
            raise InputError("flops_per_second= needs `describe beside` or several variants")

    @property
    def is_implied_sweep(self) -> bool:
        """Whether variants are named with commas, without -m and without a topic."""
        swept = any("," in IN_ONE_VALUE.sub("", choice) for choice in self.choices)
        return self.topic == "variant" and not self.is_sweep and swept

    def overrides(self) -> list[str]:
        sweep = self.is_implied_sweep or (self.topic == "beside" and not self.is_sweep)
        return [*(["-m"] if sweep else []), *super().overrides()]


@arguments
class Inspect(Weights):
    """Shows the inputs of a model for an item of a task or a text of your own, as a table and as a picture.

    Everything else chooses task, model and tokenizer: task=mrpc model=roberta data=local ...
    """

    item: str | None = key(None, "Id of the row in its data set.")
    text: str | None = key(None, "Text instead of an item; ` ||| ` separates the texts of a pair.")
    split: str = key("validation", "Split of the task.")
    to: Path = key(Path("multirun", "inspect"), "Folder of the pictures, in `output` if that is set.")
    png: bool = key(False, "Write PNG files as well as SVG.")
    attention: bool = key(False, "Also show the attention of every layer and head.")
    word: str | None = key(None, "Word of text= whose attention scores and weights are printed as numbers.")
    layer: int = key(-1, "Layer for word=: 1 is the first, -1 the last.", range=Range(at_least=-1000, limit=1000))
    texts: str | None = key(None, "Texts, separated by ` ||| `, in which the vectors of word= are compared.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(value is not None for value in (self.text, self.texts, self.item)) > 1:
            names = " and ".join(f"{name}=" for name in ("item", "text", "texts") if getattr(self, name) is not None)
            raise InputError(f"{names} both name what is shown: give one of them")
        if self.texts is not None and (self.word is None or self.attention):
            raise InputError("texts= needs the word whose vectors are compared, word=bank, without attention=true")
        if self.word is not None and self.item is not None:
            raise InputError("word= needs text= or texts= in place of item=")
        if self.texts is not None:
            return
        if self.text is None and not self.sets("task"):
            raise InputError("task= is missing: expected the task whose item is shown, such as task=mrpc")
        if self.text is None and self.item is None:
            raise InputError("item= is missing: expected the id of the row, as its data set has it, or text=")
        if self.attention and not self.source and self.text is None:
            raise InputError("attention=true needs weights: give RUN or checkpoint=FOLDER")


@arguments
class Tokenizer(Composed):
    """Shows how tokenizers cut a text: trained on it to the same size, or one that exists.

    Everything else chooses text and training: task=sst2 data=local, or corpus=wikitext; tokenizer.vocab_size=4096. A tokenizer
    that exists is that of RUN, model.init_from=FOLDER, tokenizer.file=FILE or tokenizer.vocab_file=FILE.
    """

    reads_as_runs: ClassVar[bool] = False

    run: str | None = word("RUN", None, f"{RUN.capitalize()}, whose tokenizer is shown.")
    kinds: tuple[str, ...] | None = key(
        None, f"Tokenizers to train and compare. Default: {','.join(TOKENIZERS)}.", choices=TOKENIZERS, called="kind"
    )
    text: str | None = key(None, "Text to show word by word, instead of held-out text.")
    characters: int = key(1_000_000, "Maximum characters of held-out text.", range=Range(at_least=1, limit=1e12))
    keep: str | None = key(
        None, "used: write a tokenizer with only the pieces that these texts use.", choices=("used",), called="choice"
    )
    to: Path = key(Path("multirun", "tokenizer"), "Folder of the picture or tokenizer, in `output` if that is set.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text is not None and len(self.texts) < 2 and not self.keep:
            exists = self.run or self.sets("tokenizer.file", "tokenizer.vocab_file", "model.init_from", "pretrain.from")
            if not self.texts and (self.kinds or not exists):
                if self.kinds:
                    raise InputError("kinds= trains tokenizers: name the text to train on (task=, corpus=)")
                raise InputError(
                    "text= needs a tokenizer: give RUN, tokenizer.vocab_file=FILE or tokenizer.file=FILE, or "
                    "model.init_from=FOLDER, or name the text that one is trained on (task=, corpus=)"
                )
            return
        if len(self.texts) != 1 and not (self.keep and self.texts):
            problem = "both name a text" if self.texts else "are missing"
            raise InputError(f"task= and corpus= {problem}: expected one of them, such as task=sst2 or corpus=wikitext")

    @property
    def texts(self) -> set[str]:
        """The groups that name a text, `task` or `corpus`."""
        return {group_of(choice) for choice in self.choices if "." not in choice.partition("=")[0]} & {"task", "corpus"}
