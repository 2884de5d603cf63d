"""How tokenizers cut a text: `python -m harness tokenizer task=sst2 [kinds=wordpiece,bpe] [tokenizer.vocab_size=4096]`.

Trains each kind on the same text to the same size, and shows pieces per word, unknown ones, lengths and the words that are
split most, on held-out text; with text= each word of that text. RUN, `model.init_from=FOLDER`, `tokenizer.file=FILE` or
`tokenizer.vocab_file=FILE` shows a tokenizer that exists. Words are runs of letters and digits and each punctuation mark, as
BERT finds them. N texts.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordLevelTrainer

from harness import tasks
from harness.checkpoints import find_run, native
from harness.checkpoints.start import checkpoint_of
from harness.config.choices import TaskKind, TokenizerKind
from harness.config.resolve import Found, resolve
from harness.config.schema import RunConfig, TokenizerConfig
from harness.corpus.prepare import Lines
from harness.data import one_file
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import SPECIAL, special_ids
from harness.errors import InputError, present, writing
from harness.paths import replaced
from harness.plugins.explain.options import TOKENIZERS
from harness.plugins.explain.options import Tokenizer as Options
from harness.plugins.explain.pictures import STYLE, save
from harness.plugins.shared.countdown import Countdown
from harness.tasks.rows import load_table, with_labels
from harness.terminal import LiveLine, live_line, table, wrapped

EXISTING = "this one"
"""Name of the tokenizer that is not trained here."""

LISTED = 4
"""Words that are shown of those split most, and of those unknown most often."""

MOST = 4
"""Pieces of a word from which on they are drawn together."""

MOST_WORDS = 200
"""Words of a text of the user."""

Span = tuple[int, int]
"""First character, and the one after the last."""


def main(options: Options, configs: list[RunConfig]) -> int:
    """Prints the tables and writes the picture; 0. InputError for several texts, and for what cannot be read or written."""
    if options.keep:
        print(keep_used(options, configs))
        return 0
    if len(configs) > 1:
        raise InputError(f"the command line names {len(configs)} runs: expected one text")
    config = replace(resolve(configs[0], Found()), corpus=configs[0].corpus)  # without a pretraining no corpus is kept
    if options.run is not None:
        folder = find_run.weights_folder(options.run, "RUN", config.output, config.tracking.uri)
        config = replace(config, tokenizer=replace(config.tokenizer, file=str(folder / native.TOKENIZER), vocab_file=None))
    elif (checkpoint := checkpoint_of(configs[0])) is not None:
        config = replace(config, tokenizer=checkpoint.tokenizer)
    print(of_held_out(options, config) if options.text is None else of_own_text(options, config, options.text))
    return 0


def of_held_out(options: Options, config: RunConfig) -> str:
    """What is printed of the held-out text of a task or corpus; writes the picture."""
    is_corpus = "corpus" in options.texts
    name = f"corpus {config.corpus.name}" if is_corpus else f"task {config.task.name}"
    text = text_of(texts_of(config, is_corpus, "validation"), options.characters)
    if not text.texts:
        raise InputError("the held-out text has no words: choose another task= or corpus=")
    counts = [count(kind, tokenizer, text) for kind, tokenizer in all_tokenizers(options, config)]
    title = (
        f"tokenizers on the held-out text of {name}: {text.words:,} words and punctuation marks in {len(text.texts):,} texts"
    )
    parts = [title]
    if counts[-1].name != EXISTING:
        size = counts[0].vocab_size if counts[0].name == EXISTING else config.tokenizer.vocab_size
        case = "lower case" if config.tokenizer.lowercase else "case kept"
        parts.append(f"trained on its training text to at most {size:,} pieces, {case}")
    if counts[0].name == EXISTING:
        parts.append(f"{EXISTING}: {options.run or config.tokenizer.file or config.tokenizer.vocab_file}")
    limit = config.pretrain.length if is_corpus else config.task.max_length  # a corpus is a stream, its lines are counted
    letters = sum(end - start for spans in text.spans for start, end in spans)
    columns, examples = [], []
    for it in counts:
        columns.append(
            {
                "pieces": f"{it.vocab_size:,}",
                "pieces per word": f"{it.lengths.sum() / text.words:.3f}",
                "letters per piece": f"{letters / it.lengths.sum():.2f}",
                "whole words": percent(it.shares[0]),
                "unknown pieces": percent(it.unknown_pieces),
                "unknown words": percent(it.unknown_words),
                "pieces of a text, mean": f"{it.lengths.mean():.1f}",
                "pieces of a text, most": f"{it.lengths.max():,}",
                f"texts above {limit} pieces": percent(float((it.lengths > limit).mean())),
            }
        )
        split = "; ".join(f"{word} ({number}): {shorten(' '.join(pieces), 40)}" for (word, pieces), number in it.split)
        examples.append(f"{it.name}, most split: {split or 'no word is split'}")
        if it.missed:
            examples.append(f"{it.name}, unknown: {', '.join(f'{word} ({number})' for (word, _), number in it.missed)}")
    with mpl.rc_context(fname=STYLE):
        paths = save(draw(counts, name), options.to, name.replace(" ", "-"))
    rows = [(title, *(column[title] for column in columns)) for title in columns[0]]
    listed = table(("tokenizer", *(it.name for it in counts)), rows)
    return "\n\n".join(["\n".join(map(wrapped, parts)), listed, "\n".join(map(wrapped, examples)), paths])


def keep_used(options: Options, configs: list[RunConfig]) -> str:
    """Writes the tokenizer of the weights with the pieces of all texts that the runs read; what is printed of it."""
    checkpoint = checkpoint_of(configs[0])
    if checkpoint is None and not (configs[0].tokenizer.file or configs[0].tokenizer.vocab_file):
        raise InputError(
            "keep=used needs a tokenizer: set model=minilm, model.init_from, tokenizer.file or tokenizer.vocab_file"
        )
    whole = tokenizers.build(configs[0].tokenizer if checkpoint is None else checkpoint.tokenizer, ())
    with live_line("reading texts") as line:
        small = restricted(whole, _used(options, configs, line))
    path = options.to / native.TOKENIZER
    with writing(options.to):
        options.to.mkdir(parents=True, exist_ok=True)
        with replaced(path) as temporary:
            temporary.write_text(small.to_str(pretty=True), encoding="utf-8")
    return (
        f"{small.get_vocab_size():,} of {whole.get_vocab_size():,} pieces are used; set tokenizer.file={path} with the weights"
    )


def _used(options: Options, configs: list[RunConfig], line: LiveLine) -> Iterator[str]:
    """Every text of every split that the runs read."""
    for config in configs if "task" in options.texts else ():
        config = resolve(config, Found())
        line.show(f"task {config.task.name}")
        for split in ("train", "validation", *config.task.more_validation, *["test"] * bool(config.task.test_split)):
            yield from texts_of(config, False, split)
    for split in ("train", "validation") if "corpus" in options.texts else ():
        line.show(f"corpus {configs[0].corpus.name}, {split}")
        yield from texts_of(configs[0], True, split)


def texts_of(config: RunConfig, is_corpus: bool, split: str) -> Iterable[str]:
    """The texts of a split of the corpus or of the task; those of a corpus are read again in every iteration."""
    if is_corpus:
        return Lines(config, split)
    config = replace(config, task=one_file.with_splits(config) or config.task)
    examples = tasks.kind_of(config.task).examples(config.task, load_table(with_labels(config), split))
    if config.task.kind is TaskKind.tokens:
        return [" ".join(words) for words in examples.texts]
    return [text for texts in examples.texts for text in texts]


def all_tokenizers(options: Options, config: RunConfig) -> Iterator[tuple[str, Tokenizer]]:
    """The tokenizer that exists, then those that are trained, to its size."""
    settings = config.tokenizer
    exists = bool(settings.file or settings.vocab_file)
    if exists:
        built = tokenizers.build(settings, ())
        yield EXISTING, built
        settings = replace(settings, file=None, vocab_file=None, vocab_size=built.get_vocab_size())
        if not options.kinds:
            return
    kinds = dict.fromkeys(options.kinds or TOKENIZERS)
    train = texts_of(config, "corpus" in options.texts, "train")
    countdown = Countdown(len(kinds))
    with live_line("training tokenizers") as line:
        for kind in kinds:
            line.show(countdown.part(f"training {kind}"))
            try:
                yield kind, _trained(kind, settings, train)
            except tokenizers.TooFewPiecesError as error:
                if exists:
                    raise InputError(f"kinds: {kind} needs more than the {settings.vocab_size} pieces of this one") from error
                raise InputError(f"{error}; or leave {kind} out of kinds={','.join(kinds)}") from error


def _trained(kind: str, settings: TokenizerConfig, train: Iterable[str]) -> Tokenizer:
    """`words` has a piece for each of the most frequent words; every other word is unknown."""
    if kind != "words":
        return tokenizers.build(replace(settings, kind=TokenizerKind[kind]), train)
    tokenizer = Tokenizer(WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=bool(settings.lowercase)), BertPreTokenizer()
    size, rarest = present(settings.vocab_size), settings.min_frequency
    trainer = WordLevelTrainer(vocab_size=size, min_frequency=rarest, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(tokenizers.limited(train, settings.train_characters), trainer)
    if (least := tokenizer.get_vocab_size()) > size:
        raise tokenizers.TooFewPiecesError(f"tokenizer.vocab_size={size} is too small: expected at least {least}")
    return tokenizer


# Pieces that texts use


def restricted(tokenizer: Tokenizer, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer with the pieces of these texts alone, with special pieces and with single characters, in their order.

    It cuts the texts as before: the longest piece that fits is still there, and no longer one is new. InputError for pieces
    that are chosen in another way than WordPiece's.
    """
    content = json.loads(tokenizer.to_str())
    if content["model"]["type"] != "WordPiece":
        raise InputError(f"keep=used cuts WordPiece vocabularies only, not {content['model']['type']}")
    inside, special = content["model"]["continuing_subword_prefix"], tokenizer.get_added_tokens_decoder()
    kept = {piece.content for piece in special.values()} | {content["model"]["unk_token"]}
    for text in texts:
        kept.update(tokenizer.encode(text, add_special_tokens=False).tokens)
    ordered = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    pieces = [piece for piece, _ in ordered if piece in kept or len(piece.removeprefix(inside)) == 1]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    content["model"]["vocab"] = {piece: number for piece, number in numbers.items() if piece in content["model"]["vocab"]}
    for added in content["added_tokens"]:
        added["id"] = numbers[added["content"]]
    _renumber(content["post_processor"], numbers)
    content["truncation"] = content["padding"] = None
    return Tokenizer.from_str(json.dumps(content))


def _renumber(part: object, numbers: dict[str, int]) -> None:
    """In the template around texts, special pieces by name have new numbers; in both forms that the library writes."""
    if isinstance(part, dict):
        if "ids" in part and "tokens" in part:
            part["ids"] = [numbers[piece] for piece in part["tokens"]]
        for role in ("cls", "sep"):
            if isinstance(part.get(role), list):
                part[role] = [part[role][0], numbers[part[role][0]]]
        for value in part.values():
            _renumber(value, numbers)
    elif isinstance(part, list):
        for value in part:
            _renumber(value, numbers)


# A text of the user


def of_own_text(options: Options, config: RunConfig, text: str) -> str:
    """What is printed of each word of text=, its pieces and ids by each tokenizer."""
    trained_on = f"corpus {config.corpus.name}" if "corpus" in options.texts else f"task {config.task.name}"
    tokenizers = dict(all_tokenizers(options, config))
    added = {piece.content for each in tokenizers.values() for piece in each.get_added_tokens_decoder().values()}
    words = words_of(text, added)
    parts = [f"text: {text}"]
    for name, tokenizer in tokenizers.items():
        existing = options.run or config.tokenizer.file or config.tokenizer.vocab_file
        title = f"{EXISTING}: {existing}" if name == EXISTING else f"{name}, trained on {trained_on}"
        tokenizer.no_truncation()
        row, read = tokenizer.encode(options.text, add_special_tokens=False), tokenizer.encode(options.text)
        places = pieces_of(row.offsets, list(words))
        rows = [
            (word, str(len(mine)), " ".join(row.tokens[at] for at in mine), " ".join(str(row.ids[at]) for at in mine))
            for word, mine in zip(words.values(), places, strict=True)
        ]
        unknown = special_ids(tokenizer)["unk"]
        whole = sum(len(mine) == 1 and row.ids[mine[0]] != unknown for mine in places)
        notes = [
            f"as a model reads it: {' '.join(read.tokens)}",
            f"ids: {' '.join(map(str, read.ids))}",
            f"{whole} of {len(words)} words are whole; to a tokenizer of whole words the others are unknown",
        ]
        rows.append((f"all {len(words)}", str(sum(map(len, places))), "", ""))
        parts += [f"{title}, {tokenizer.get_vocab_size():,} pieces", table(("word", "pieces", "", "ids"), rows, "lrl")]
        parts.append("\n".join(map(wrapped, notes)))
    return "\n\n".join(parts)


def words_of(text: str, added: Iterable[str]) -> dict[Span, str]:
    """Place -> word. An `added` piece is one word, as special ones are. InputError for no words, and for very many."""
    words = {span: word for word, span in BertPreTokenizer().pre_tokenize_str(text)}
    starts, ends = {start for start, _ in words}, {end for _, end in words}
    for piece in re.finditer("|".join(map(re.escape, sorted({*SPECIAL, *added}, key=len, reverse=True))), text):
        if piece.start() in starts and piece.end() in ends:  # `[`, `MASK` and `]` are one piece
            words = {span: word for span, word in words.items() if span[1] <= piece.start() or piece.end() <= span[0]}
            words[piece.span()] = piece[0]
    if not 0 < len(words) <= MOST_WORDS:
        raise InputError(
            f"text= has {len(words):,} words: expected 1 to {MOST_WORDS}; longer texts are read by task= or corpus="
        )
    return dict(sorted(words.items()))


# Counts

Words = list[tuple[tuple[str, tuple[str, ...]], int]]
"""Words with their pieces, and how often each is there."""


@dataclass(frozen=True)
class Counts:
    """What one tokenizer makes of one text."""

    name: str
    vocab_size: int
    unknown_pieces: float  # share of all pieces
    unknown_words: float  # share of all words that have an unknown piece
    shares: list[float]  # of words with 1, 2, ... pieces, the last one MOST or more; without unknown ones
    lengths: np.ndarray  # (N,) pieces of each text, without special ones
    split: Words  # words in most pieces, the more frequent first
    missed: Words  # words with an unknown piece, the most frequent first


@dataclass(frozen=True)
class Text:
    """The texts that are counted, with the places of their words."""

    texts: list[str]
    spans: list[list[Span]]  # of each text

    @property
    def words(self) -> int:
        return sum(map(len, self.spans))


def text_of(texts: Iterable[str], characters: int) -> Text:
    """The first texts with so many characters; a text without words is left out."""
    read = Text([], [])
    for text in texts:
        beginning = text[:characters]
        if words := BertPreTokenizer().pre_tokenize_str(beginning):
            read.texts.append(beginning)
            read.spans.append([span for _, span in words])
        characters -= len(beginning)
        if characters <= 0:
            break
    return read


def count(name: str, tokenizer: Tokenizer, text: Text) -> Counts:
    """What the tokenizer makes of the text."""
    tokenizer.no_truncation()
    unknown = special_ids(tokenizer)["unk"]
    encoded = tokenizer.encode_batch(text.texts, add_special_tokens=False)
    words: Counter[tuple[str, tuple[str, ...]]] = Counter()
    missed: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for row, written, spans in zip(encoded, text.texts, text.spans, strict=True):
        for (start, end), places in zip(spans, pieces_of(row.offsets, spans), strict=True):
            is_unknown = any(row.ids[place] == unknown for place in places)
            (missed if is_unknown else words)[written[start:end], tuple(row.tokens[place] for place in places)] += 1
    numbers = np.zeros(MOST)
    for (_, pieces), number in words.items():
        numbers[min(max(len(pieces), 1), MOST) - 1] += number
    split = sorted((words | missed).items(), key=lambda item: (-len(item[0][1]), -item[1], item[0]))
    lengths = np.array([len(row.ids) for row in encoded])
    return Counts(
        name=name,
        vocab_size=tokenizer.get_vocab_size(),
        unknown_pieces=sum(piece == unknown for row in encoded for piece in row.ids) / lengths.sum(),
        unknown_words=missed.total() / text.words,
        shares=(numbers / text.words).tolist(),
        lengths=lengths,
        split=[item for item in split if len(item[0][1]) > 1][:LISTED],
        missed=sorted(missed.items(), key=lambda item: (-item[1], item[0]))[:LISTED],
    )


def pieces_of(offsets: list[Span], words: list[Span]) -> list[list[int]]:
    """The places of the pieces that cover some of each word; both in the order of the text.

    A piece may cover several words, and one that marks the beginning of a word covers no character.
    """
    begins, ends = [begin for begin, _ in offsets], [max(end, begin + 1) for begin, end in offsets]
    return [[*range(bisect_right(ends, start), bisect_left(begins, end))] for start, end in words]


def percent(share: float) -> str:
    """With two digits behind the point below one percent."""
    return f"{100 * share:.1f} %" if share >= 0.01 or share == 0 else f"{100 * share:.2g} %"


def draw(counts: Sequence[Counts], source: str) -> Figure:
    """Shares of words by their number of pieces."""
    figure = Figure(figsize=(7, 3.4))
    axes = figure.subplots()
    axes.set(xlim=(0, 1), xlabel="share of all words", title=f"Pieces of the words of the held-out text of {source}")
    names = [it.name for it in counts]
    shares = np.array([(*it.shares, it.unknown_words) for it in counts])  # (tokenizers, numbers of pieces)
    starts = shares.cumsum(axis=1) - shares
    labels = [*map(str, range(1, MOST)), f"{MOST} or more", "unknown"]
    for place, (label, colour) in enumerate(zip(labels, ("#F2F2F2", "#CFCFCF", "#A3A3A3", "#787878", "white"), strict=True)):
        hatch = "////" if label == "unknown" else None
        axes.barh(names, shares[:, place], left=starts[:, place], color=colour, edgecolor="#444444", hatch=hatch, label=label)
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=len(labels), handlelength=2)
    return figure
