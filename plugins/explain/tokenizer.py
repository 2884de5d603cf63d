"""How tokenizers cut a text: `python -m harness tokenizer task=sst2 [kinds=wordpiece,bpe] [tokenizer.vocab_size=4096]`.

Trains each kind on the same text to the same size, and shows pieces a word, unknown ones, lengths and the words that are split
most, on held-out text; with text= each word of that text. RUN, `model.init_from=FOLDER`, `tokenizer.file=FILE` or
`tokenizer.vocab_file=FILE` shows a tokenizer that exists. Words are runs of letters and digits and each punctuation mark, as
BERT finds them. N texts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tokenizers import Encoding, Tokenizer
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
from harness.data import tokenizer as tokenizers
from harness.data.tokenizer import SPECIAL, special_ids
from harness.errors import InputError, writing
from harness.paths import replaced
from harness.plugins.explain.options import TOKENIZERS
from harness.plugins.explain.options import Tokenizer as Options
from harness.plugins.explain.pictures import CENTRED, STYLE, breadth, drawable, fitted, name_of_text, rounded, save, sheet
from harness.plugins.explain.used_pieces import restricted
from harness.tasks.rows import load_table, with_labels
from harness.terminal import WIDTH, Countdown, LiveLine, Row, live_line, table, wrapped

EXISTING = "this one"
"""Name of the tokenizer that is not trained here."""

PIECES = 8
"""Pieces of a word that are listed."""

FIRST_BIN = 8
"""Words of the shortest texts that share a row; each further row has texts up to twice as long."""

LISTED = 4
"""Words that are shown of those split most, and of those unknown most often."""

MOST = 4
"""Pieces of a word from which on they are counted together."""

LINES = (("#000000", "-"), ("#0072B2", "--"), ("#D55E00", "-."), ("#009E73", ":"), ("#7A7A7A", "-"))
GREYS = ("#F2F2F2", "#CFCFCF", "#A3A3A3", "#787878")
"""Colours of words in 1, 2, ... pieces."""

PIECE_COLOURS = {"word": "#F1EFEA", "first": "#D3EBD3", "further": "#D6E6F4", "unknown": "#F6CFD8"}
ACROSS, ROW, BETWEEN, WIDEST = 11.0, 0.42, 0.16, 3.0
"""Inches of words side by side; of a row of boxes; between two words, and between two lines of them; of the longest word."""

MOST_WORDS = 200
"""Words of a text of the user, all of which are drawn."""


POINTS = 12
"""Groups of texts by their number of words, each with about as many texts."""

ROOM = 0.05
"""Share of all words from which a part of a bar has room for its number."""

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
    if options.run is None and (checkpoint := checkpoint_of(configs[0])) is not None:
        config = replace(config, tokenizer=checkpoint.tokenizer)
    with mpl.rc_context(STYLE):
        print(of_held_out(options, config) if options.text is None else of_own_text(options, config))
    return 0


def of_held_out(options: Options, config: RunConfig) -> str:
    """What is printed of the held-out text of a task or corpus; writes the picture."""
    is_corpus = "corpus" in options.texts
    train, held_out = texts_of(config, is_corpus, "train"), texts_of(config, is_corpus, "validation")
    text = text_of(held_out, options.characters)
    if not text.texts:
        raise InputError("the held-out text has no words: choose another task= or corpus=")
    counts = []
    with live_line("training tokenizers") as line:
        for name, tokenizer in _tokenizers(options, config, train, line):
            counts.append(count(name, tokenizer, text))
    name = f"corpus {config.corpus.name}" if is_corpus else f"task {config.task.name}"
    longest = config.pretrain.length if is_corpus else config.task.max_length  # a corpus is a stream, its lines are counted
    paths = save(draw(counts, text, name), options.to, name.replace(" ", "-"))
    title = _title(config, options.run, name, counts, text)
    return "\n\n".join([title, _of_words(counts), _of_lengths(counts, text, longest), _examples(counts), paths])


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
    return f"{small.get_vocab_size():,} of {whole.get_vocab_size():,} pieces are used: tokenizer.file={path} beside the weights"


def _used(options: Options, configs: list[RunConfig], line: LiveLine) -> Iterator[str]:
    """Every text of every split that the runs read."""
    for config in configs:
        config = replace(resolve(config, Found()), corpus=config.corpus)
        if "task" in options.texts:
            line.show(f"task {config.task.name}")
            tests = ["test"] if config.task.test_split else []
            for split in ("train", "validation", *config.task.more_validation, *tests):
                yield from texts_of(config, False, split)
    if "corpus" in options.texts:
        for split in ("train", "validation"):
            line.show(f"corpus {configs[0].corpus.name}, {split}")
            yield from texts_of(configs[0], True, split)


def texts_of(config: RunConfig, is_corpus: bool, split: str) -> Iterable[str]:
    """The texts of a split of the corpus or of the task; those of a corpus are read again in every iteration."""
    if is_corpus:
        return Lines(config, split)
    examples = tasks.kind_of(config.task).examples(config.task, load_table(with_labels(config), split))
    if config.task.kind is TaskKind.tokens:
        return [" ".join(words) for words in examples.texts]
    return [text for texts in examples.texts for text in texts]


def _tokenizers(options: Options, config: RunConfig, train: Iterable[str], line: LiveLine) -> Iterator[tuple[str, Tokenizer]]:
    """The tokenizer that exists, then those that are trained, to its size."""
    settings = config.tokenizer
    if options.run is not None:
        folder = find_run.weights_folder(options.run, "RUN", config.output, config.tracking.uri)
        settings = replace(settings, file=str(folder / native.TOKENIZER), vocab_file=None)
    exists = bool(settings.file or settings.vocab_file)
    if exists:
        built = tokenizers.build(settings, ())
        yield EXISTING, built
        settings = replace(settings, file=None, vocab_file=None, vocab_size=built.get_vocab_size())
    kinds = dict.fromkeys(options.kinds or TOKENIZERS)
    countdown = Countdown(len(kinds))
    for kind in kinds if options.kinds or not exists else ():
        line.show(countdown.part(f"training {kind}"))
        try:
            yield kind, _trained(kind, settings, train)
        except tokenizers.TooFewPiecesError as error:
            if exists:
                raise InputError(f"kinds: {kind} needs more than the {settings.vocab_size} pieces of this one") from error
            raise InputError(f"{error}; or leave {kind} out of kinds={','.join(kinds)}") from error


def _trained(kind: str, settings: TokenizerConfig, train: Iterable[str]) -> Tokenizer:
    if kind == "words":
        built = plain_words(settings, tokenizers.limited(train, settings.train_characters))
        if (least := built.get_vocab_size()) > settings.vocab_size:
            raise tokenizers.TooFewPiecesError(
                f"tokenizer.vocab_size={settings.vocab_size} is too small: expected at least {least}"
            )
        return built
    return tokenizers.build(replace(settings, kind=TokenizerKind[kind]), train)


# A text of the user


@dataclass(frozen=True)
class Cut:
    """One text as one tokenizer cuts it: the pieces of each word, and all with the special ones around."""

    name: str
    words: list[tuple[str, list[str], list[int]]]  # word, pieces, ids
    pieces: list[str]
    ids: list[int]
    unknown: int | None
    vocab_size: int

    @property
    def boxes(self) -> list[list[tuple[str, str]]]:
        """The pieces of each word, each with its kind in PIECE_COLOURS."""
        boxes = []
        for _, pieces, ids in self.words:
            kinds = (
                "unknown" if number == self.unknown else "further" if place else "first" for place, number in enumerate(ids)
            )
            boxes.append(list(zip(pieces, kinds, strict=True)))
        return boxes

    @property
    def count(self) -> int:
        """Pieces of all words."""
        return sum(len(pieces) for _, pieces, _ in self.words)

    @property
    def whole(self) -> int:
        """Words that are one piece, and a known one."""
        return sum(len(ids) == 1 and ids != [self.unknown] for _, _, ids in self.words)


def of_own_text(options: Options, config: RunConfig) -> str:
    """What is printed of each word of text=, its pieces and ids by each tokenizer; writes the picture."""
    is_corpus = "corpus" in options.texts
    train = texts_of(config, is_corpus, "train") if options.texts else ()
    trained_on = f"corpus {config.corpus.name}" if is_corpus else f"task {config.task.name}"
    with live_line("training tokenizers") as line:
        every = list(_tokenizers(options, config, train, line))
    added = {piece.content for _, tokenizer in every for piece in tokenizer.get_added_tokens_decoder().values()}
    cuts = [cut_of(name, tokenizer, options.text, added) for name, tokenizer in every]
    parts = [f"text: {options.text}"]
    for cut in cuts:
        existing = options.run or config.tokenizer.file or config.tokenizer.vocab_file
        title = f"{EXISTING}: {existing}" if cut.name == EXISTING else f"{cut.name}, trained on {trained_on}"
        rows = [(word, str(len(pieces)), " ".join(pieces), " ".join(map(str, ids))) for word, pieces, ids in cut.words]
        rows.append((f"all {len(cut.words)}", str(cut.count), "", ""))
        notes = [
            f"as a model reads it: {' '.join(cut.pieces)}",
            f"ids: {' '.join(map(str, cut.ids))}",
            f"{cut.whole} of {len(cut.words)} words are whole; to a tokenizer of whole words the others are unknown",
        ]
        listed = table(("word", "pieces", "", "ids"), rows, "lrl")
        parts += [f"{title}, {cut.vocab_size:,} pieces", listed, "\n".join(map(wrapped, notes))]
    return "\n\n".join([*parts, save(draw_cuts(cuts), options.to, name_of_text("text", options.text))])


def cut_of(name: str, tokenizer: Tokenizer, text: str, added: Iterable[str] = ()) -> Cut:
    """An `added` piece is one word, as special ones are. InputError for no words, and for more than can be drawn."""
    tokenizer.no_truncation()
    words = {span: word for word, span in BertPreTokenizer().pre_tokenize_str(text)}
    starts, ends = {start for start, _ in words}, {end for _, end in words}
    for found in re.finditer("|".join(map(re.escape, sorted({*SPECIAL, *added}, key=len, reverse=True))), text):
        if found.start() in starts and found.end() in ends:  # `[`, `MASK` and `]` are one piece
            words = {span: word for span, word in words.items() if span[1] <= found.start() or found.end() <= span[0]}
            words[found.span()] = found[0]
    words = [(words[span], span) for span in sorted(words)]
    if not 0 < len(words) <= MOST_WORDS:
        raise InputError(
            f"text= has {len(words):,} words: expected 1 to {MOST_WORDS}; longer texts are read by task= or corpus="
        )
    row, whole = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
    cut = [
        (word, [row.tokens[place] for place in places], [row.ids[place] for place in places])
        for (word, _), places in zip(words, pieces_of(row.offsets, [span for _, span in words]), strict=True)
    ]
    return Cut(name, cut, whole.tokens, whole.ids, special_ids(tokenizer)["unk"], tokenizer.get_vocab_size())


# Counts


@dataclass(frozen=True)
class Word:
    """One word of the text, how often it is there, and its pieces."""

    text: str
    count: int
    pieces: tuple[str, ...]
    unknown: bool


@dataclass(frozen=True)
class Counts:
    """What one tokenizer makes of one text."""

    name: str
    vocab_size: int
    pieces_per_word: float
    characters_per_piece: float
    unknown_pieces: float  # share of all pieces
    unknown_words: float  # share of all words that have an unknown piece
    shares: tuple[float, ...]  # of words with 1, 2, ... pieces, the last one MOST or more; without unknown ones
    lengths: np.ndarray  # (N,) pieces of each text, without special ones
    split: tuple[Word, ...]  # words in most pieces, the more frequent first
    missed: tuple[Word, ...]  # words with an unknown piece, the most frequent first


@dataclass(frozen=True)
class Text:
    """The texts that are counted, cut into words."""

    texts: list[str]
    words: list[list[tuple[str, Span]]]  # of each text
    lengths: np.ndarray  # (N,) words of each text

    @property
    def characters(self) -> int:
        """Letters of all words, without spaces."""
        return sum(len(word) for words in self.words for word, _ in words)


def text_of(texts: Iterable[str], characters: int) -> Text:
    """The first texts with so many characters; a text without words is left out."""
    read, words = [], []
    cut = BertPreTokenizer().pre_tokenize_str
    for text in texts:
        beginning = text[:characters]
        if its_words := cut(beginning):
            read.append(beginning)
            words.append(its_words)
        characters -= len(beginning)
        if characters <= 0:
            break
    return Text(read, words, np.array([len(its_words) for its_words in words]))


def plain_words(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """A piece for each of the most frequent words; every other word is unknown."""
    tokenizer = Tokenizer(WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=config.lowercase), BertPreTokenizer()
    trainer = WordLevelTrainer(
        vocab_size=config.vocab_size, min_frequency=config.min_frequency, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def count(name: str, tokenizer: Tokenizer, text: Text) -> Counts:
    """What the tokenizer makes of the text."""
    tokenizer.no_truncation()
    unknown = special_ids(tokenizer)["unk"]
    encoded = tokenizer.encode_batch(text.texts, add_special_tokens=False)
    lengths = np.array([len(row.ids) for row in encoded])
    pieces = int(lengths.sum())
    missing = sum(row.ids.count(unknown) for row in encoded)
    words, total = _words(encoded, text, unknown), int(text.lengths.sum())
    missed = [word for word in words if word.unknown]
    shares = [0] * MOST
    for word in words:
        if not word.unknown:
            shares[min(max(len(word.pieces), 1), MOST) - 1] += word.count
    split = sorted(
        (word for word in words if len(word.pieces) > 1), key=lambda word: (-len(word.pieces), -word.count, word.text)
    )
    return Counts(
        name=name,
        vocab_size=tokenizer.get_vocab_size(),
        pieces_per_word=pieces / total,
        characters_per_piece=text.characters / pieces,
        unknown_pieces=missing / pieces,
        unknown_words=sum(word.count for word in missed) / total,
        shares=tuple(share / total for share in shares),
        lengths=lengths,
        split=tuple(split[:LISTED]),
        missed=tuple(sorted(missed, key=lambda word: (-word.count, word.text))[:LISTED]),
    )


def _words(encoded: list[Encoding], text: Text, unknown: int | None) -> list[Word]:
    """Each word with its pieces as they are in the text, equal ones counted together."""
    numbers: Counter[tuple[str, tuple[str, ...], bool]] = Counter()
    for row, words in zip(encoded, text.words, strict=True):
        for (word, _), places in zip(words, pieces_of(row.offsets, [span for _, span in words]), strict=True):
            pieces = tuple(row.tokens[place] for place in places)
            numbers[word, pieces, any(row.ids[place] == unknown for place in places)] += 1
    return [Word(word, number, pieces, is_unknown) for (word, pieces, is_unknown), number in numbers.items()]


def pieces_of(offsets: list[Span], words: list[Span]) -> list[list[int]]:
    """The places of the pieces that cover some of each word; both in the order of the text.

    A piece may cover several words, and one that marks the beginning of a word covers no character.
    """
    of_words, first = [], 0
    for start, end in words:
        while first < len(offsets) and offsets[first][1] <= start and not _is_mark(offsets[first], start):
            first += 1
        place, mine = first, []
        while place < len(offsets) and offsets[place][0] < end:
            if offsets[place][1] > start or _is_mark(offsets[place], start):
                mine.append(place)
            place += 1
        of_words.append(mine)
    return of_words


def _is_mark(piece: Span, start: int) -> bool:
    return piece == (start, start)


# Text


def _title(config: RunConfig, run: str | None, name: str, counts: list[Counts], text: Text) -> str:
    case = "lower case" if config.tokenizer.lowercase else "case kept"
    trained = any(tokenizer.name != EXISTING for tokenizer in counts)
    size = next((tokenizer.vocab_size for tokenizer in counts if tokenizer.name == EXISTING), config.tokenizer.vocab_size)
    existing = run or config.tokenizer.file or config.tokenizer.vocab_file
    parts = [
        f"tokenizers on the held-out text of {name}: "
        f"{text.lengths.sum():,} words and punctuation marks in {len(text.texts):,} texts",
        f"trained on its training text to at most {size:,} pieces, {case}" if trained else "",
        f"this one: {existing}" if existing else "",
    ]
    return "\n".join(wrapped(part) for part in parts if part)


def _of_words(counts: list[Counts]) -> str:
    head = ("tokenizer", "pieces", "pieces a word", "letters a piece", "whole words", "unknown pieces", "unknown words")
    rows = []
    for it in counts:
        numbers = f"{it.vocab_size:,}", f"{it.pieces_per_word:.3f}", f"{it.characters_per_piece:.2f}"
        rows.append((it.name, *numbers, *map(percent, (it.shares[0], it.unknown_pieces, it.unknown_words))))
    return table(head, rows)


def _of_lengths(counts: list[Counts], text: Text, limit: int) -> str:
    """Mean pieces of texts by their number of words, and the share of texts that are longer than a run reads."""
    head = ("pieces of a text", "texts", *(it.name for it in counts))
    rows: list[Row] = []
    for name, inside in bins(text.lengths).items():
        rows.append((name, f"{inside.sum():,}", *(f"{it.lengths[inside].mean():.1f}" for it in counts)))
    rows.append(("longest", "", *(f"{it.lengths.max():,}" for it in counts)))
    rows.append((f"above {limit}", "", *(percent(float((it.lengths > limit).mean())) for it in counts)))
    return table(head, rows)


def bins(lengths: np.ndarray) -> dict[str, np.ndarray]:
    """`9-16 words` -> which texts have as many, of each range that has texts."""
    ranges, low, high = {}, 1, FIRST_BIN
    while low <= lengths.max():
        inside = (lengths >= low) & (lengths <= high)
        ranges |= {f"{low}-{high} words": inside} if inside.any() else {}
        low, high = high + 1, high * 2
    return ranges


def _examples(counts: list[Counts]) -> str:
    """The words that are split most, and those that are unknown most often."""
    lines = []
    for it in counts:
        split = "; ".join(f"{word.text} ({word.count}): {_pieces(word)}" for word in it.split) or "no word is split"
        lines += wrap(f"{it.name}, most split: {split}", WIDTH, subsequent_indent="    ")
        if it.missed:
            missed = ", ".join(f"{word.text} ({word.count})" for word in it.missed)
            lines += wrap(f"{it.name}, unknown: {missed}", WIDTH, subsequent_indent="    ")
    return "\n".join(lines)


def _pieces(word: Word) -> str:
    listed = " ".join(word.pieces[:PIECES])
    return f"{listed} ... {len(word.pieces)} pieces" if len(word.pieces) > PIECES else listed


def percent(share: float) -> str:
    """With two digits behind the point below one percent."""
    if 0 < share < 5e-5:
        return "< 0.01 %"
    return f"{100 * share:.1f} %" if share >= 0.01 or share == 0 else f"{100 * share:.2f} %"


# Picture


def draw(counts: Sequence[Counts], text: Text, source: str) -> Figure:
    """Lengths to the left, words to the right."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    figure.suptitle(f"Tokenizers on the held-out text of {source}", fontweight="bold", fontsize=12)
    left, right = figure.subplots(1, 2)
    _draw_lengths(left, counts, text)
    _draw_words(right, counts)
    return figure


def draw_cuts(cuts: Sequence[Cut]) -> Figure:
    """A row of words above a row of pieces for each tokenizer, in lines of whole words; further pieces of a word are blue."""
    rows = {f"{len(cuts[0].words)} words": [[(word, "word")] for word, _, _ in cuts[0].words]}
    rows |= {f"{cut.name}: {cut.count} pieces": cut.boxes for cut in cuts}
    wide = [
        max(sum(_box(piece) for piece, _ in boxes) for boxes in column) + BETWEEN for column in zip(*rows.values(), strict=True)
    ]
    lines: list[list[int]] = [[]]
    for place, width in enumerate(wide):
        if lines[-1] and sum(wide[other] for other in lines[-1]) + width > ACROSS:
            lines.append([])
        lines[-1].append(place)
    left, top = 0.4 + max(breadth(name, 9) for name in rows), (len(rows) * ROW + BETWEEN) * len(lines)
    figure, axes = sheet(max(4.0, left + max(sum(wide[place] for place in line) for line in lines)), top + 0.65)
    axes.text(0.2, top + 0.35, "Words and their pieces", fontsize=12, fontweight="bold", va="center")
    y = top
    for line in lines:
        for name, words in rows.items():
            y -= ROW
            axes.text(0.2, y + 0.15, name, va="center", color="#444444")
            of_word = left
            for place in line:
                x, of_word = of_word, of_word + wide[place]
                for piece, kind in words[place]:
                    rounded(axes, x, y, _box(piece) - 0.04, 0.3, facecolor=PIECE_COLOURS[kind])
                    label, size = fitted(piece, WIDEST, 9)
                    axes.text(x + (_box(piece) - 0.04) / 2, y + 0.15, label, fontsize=size, **CENTRED)
                    x += _box(piece)
        y -= BETWEEN
    return figure


def _box(piece: str) -> float:
    """Inches that a word or piece takes."""
    return min(breadth(drawable(piece), 9), WIDEST) + 0.2


def _draw_lengths(axes: Axes, counts: Sequence[Counts], text: Text) -> None:
    axes.set_title("pieces of a text by its words, means", loc="left")
    edges = np.unique(np.quantile(text.lengths, np.linspace(0, 1, POINTS + 1)))[1:-1]
    columns = {"words of a text": text.lengths, **{it.name: it.lengths for it in counts}}
    means = pd.DataFrame(columns).groupby(np.searchsorted(edges, text.lengths)).mean()  # texts of one length are in one group
    for (colour, dashes), it in zip(LINES, counts, strict=False):
        style = {"color": colour, "linestyle": dashes, "marker": "o", "markersize": 3, "linewidth": 1.4, "label": it.name}
        axes.plot(means["words of a text"], means[it.name], **style)
    axes.set(xlabel="words and punctuation marks", ylabel="pieces", ylim=(0, None), xlim=(0, None))
    axes.legend(loc="upper left", handlelength=4)


def _draw_words(axes: Axes, counts: Sequence[Counts]) -> None:
    axes.set_title("words by their number of pieces, share of all words", loc="left")
    rows, names = range(len(counts)), [*map(str, range(1, MOST)), f"{MOST} or more", "unknown"]
    shares = np.array([(*it.shares, it.unknown_words) for it in counts])  # (tokenizers, names)
    starts = shares.cumsum(axis=1) - shares
    for place, (name, colour) in enumerate(zip(names, (*GREYS, "white"), strict=True)):
        style = {"color": colour, "edgecolor": "#444444", "linewidth": 0.6, "hatch": "////" if name == "unknown" else None}
        bars = axes.barh(rows, shares[:, place], 0.62, left=starts[:, place], label=name, **style)
        texts = [f"{100 * share:.0f}" if share >= ROOM else "" for share in shares[:, place]]
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"} if name == "unknown" else None
        dark = "white" if place == MOST - 1 else "black"
        axes.bar_label(bars, texts, label_type="center", color=dark, fontsize=8, bbox=box)
    axes.set_yticks(rows, [f"{it.name}\n{it.pieces_per_word:.2f} a word" for it in counts])
    axes.set(xlim=(0, 1), xlabel="share")
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines.left.set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(names), fontsize=8)
