"""The tokenizer of a published folder, put together from its files as transformers 5 does, which is not imported.

A class of transformers builds normaliser, words and frame from `tokenizer_config.json`, and reads of `tokenizer.json` the
pieces alone, whatever else that says; a class without code of its own, such as PreTrainedTokenizerFast, reads it whole.
"""

import base64
import copy
import functools
import json
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordPiece

from harness.errors import InputError, present

WHOLE, WORDS, PAIRS, MERGES = "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"
SETTINGS, SPECIAL, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
FILES = (WHOLE, SETTINGS, SPECIAL, ADDED, WORDS, PAIRS, MERGES)
"""All files that a tokenizer is read from."""

LARGEST_BYTES = 200_000_000
"""Of the file of a tokenizer or vocabulary; those of published models have at most a tenth."""

UNLIMITED = 1e9
"""A `model_max_length` from which on there is none: transformers writes 1e30."""

OF_PIECE = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
"""What is said of a piece beside the vocabulary."""

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""Roles of named special pieces, in the order in which they are added."""

WHITE_SPACE = "".join(
    map(chr, [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000])
)
"""What is cut off at the end of a line of vocab.txt."""


def is_one(path: str | None) -> bool:
    """Whether `tokenizer.file` names a published folder."""
    return path is not None and Path(path).is_dir()


def has_files(folder: Path) -> bool:
    """Whether the folder has pieces."""
    return any((folder / name).is_file() for name in (WHOLE, WORDS, PAIRS))


def read(folder: str | Path) -> tuple[str, tuple[str, ...]]:
    """The tokenizer as a tokenizer.json, and a line on each thing that had to be decided.

    InputError naming the file and the setting that cannot be read.
    """
    paths = [Path(folder) / name for name in (*FILES, "config.json")]
    return _read(Path(folder), tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in paths if path.is_file()))


def longest_text(folder: Path) -> int | None:
    """Tokens of the longest text by `tokenizer_config.json`; None where it names no limit. InputError for no number."""
    limit = _object(folder / SETTINGS).get("model_max_length")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1):
        raise InputError(f"{folder / SETTINGS}: model_max_length={limit!r} must be a number of tokens")
    return None if limit is None or limit >= UNLIMITED else int(limit)


def bytes_of(path: Path, said: str) -> bytes:
    """Content of a file, which `said` names in the InputError for what is no file, too large or unreadable."""
    try:
        if not stat.S_ISREG((facts := path.stat()).st_mode):  # a device may have no end
            raise InputError(f"{said} is not a file")
        if facts.st_size > LARGEST_BYTES:
            raise InputError(f"{said} has {facts.st_size:,} bytes: expected at most {LARGEST_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{said} cannot be read: {error.strerror}") from error


def pieces_of(content: bytes, said: str) -> dict[str, int]:
    """Piece -> number, one a line; lines end at line feeds alone. InputError for no UTF-8 text, and for a piece twice."""
    try:
        lines = content.decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{said} is not UTF-8 text: {error.reason}") from error
    pieces = [line.rstrip(WHITE_SPACE) or line.removesuffix("\r") for line in lines]
    doubled = next((piece for piece, times in Counter(pieces).items() if piece and times > 1), None)
    if doubled is not None:
        raise InputError(f"{said} has the piece {doubled!r} twice: one piece a line, each once")
    return {piece: number for number, piece in enumerate(pieces)}


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in the file, empty without the file."""
    if not path.exists():
        return {}
    try:
        values = json.loads(bytes_of(path, str(path)).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold an object")
    return values


# Settings


@dataclass
class _Settings:
    """What the files beside the pieces say."""

    folder: Path
    values: dict[str, Any]
    special: dict[str, str | AddedToken] = field(default_factory=dict)  # role, or the name of another one, -> piece
    extra: list[str | AddedToken] | None = None  # special ones without a role
    added: dict[int, str | AddedToken] = field(default_factory=dict)  # number -> piece beside the vocabulary
    charsmap: bytes | None = None  # of SentencePiece's normaliser, in tokenizer.json

    def flag(self, key: str, default: bool) -> bool:
        """InputError for another type."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "must be true or false")
        return value

    def wrong(self, key: str, reason: str) -> InputError:
        return InputError(f"{self.folder / SETTINGS}: {key}={self.values[key]!r} {reason}")

    def name(self, role: str) -> str:
        return str(self.special[role])


def _settings(folder: Path, whole: dict[str, Any]) -> _Settings:
    said = _Settings(folder, _object(folder / SETTINGS))
    for key, kept in {"truncation_side": "right", "split_special_tokens": False}.items():
        if said.values.get(key, kept) != kept:
            raise said.wrong(key, f"cannot be kept: expected {json.dumps(kept)}")
    if (whole.get("truncation") or {}).get("direction", "Right") != "Right":
        raise InputError(f"{folder / WHOLE}: truncation.direction='Left' cannot be kept: texts are cut at their end")
    if (whole.get("model") or {}).get("dropout"):
        raise InputError(f"{folder / WHOLE}: model.dropout={whole['model']['dropout']} cuts a text at random: expected null")
    parts = whole.get("normalizer") or {}
    maps = [part["precompiled_charsmap"] for part in parts.get("normalizers", [parts]) if "precompiled_charsmap" in part]
    said.charsmap = base64.b64decode(maps[0]) if maps else None
    values = dict(said.values)
    for key in ("extra_special_tokens", "additional_special_tokens"):
        if not isinstance(values.get(key) or [], list | dict):
            raise said.wrong(key, "must be a list of pieces")
    if not values.get("extra_special_tokens"):
        values["extra_special_tokens"] = values.get("additional_special_tokens")
    if "added_tokens_decoder" in values:
        listed = values["added_tokens_decoder"]
        if not isinstance(listed, dict) or not all(map(str.isdecimal, listed)):
            raise said.wrong("added_tokens_decoder", "must be an object of numbers and their pieces")
        said.added = {int(number): _piece(said, "added_tokens_decoder", piece) for number, piece in listed.items()}
    else:
        for key, piece in _object(folder / SPECIAL).items():
            alone = isinstance(piece, dict) and key.endswith("_token")
            values[key] = _piece(said, key, piece | {"special": True}) if alone else piece
        values["extra_special_tokens"] = values["extra_special_tokens"] or values.get("additional_special_tokens")
        roles = {str(values.get(f"{role}_token")) for role in ROLES} | {*map(str, values["extra_special_tokens"] or [])}
        for piece, number in _object(folder / ADDED).items():
            said.added[number] = AddedToken(piece, normalized=piece not in roles, special=piece in roles)
        for piece in whole.get("added_tokens", []):
            said.added[piece["id"]] = _piece(said, "added_tokens", {key: it for key, it in piece.items() if key != "id"})
    by_name = {str(piece): piece for piece in said.added.values()}
    for key, piece in values.items():
        if key.endswith("_token") and isinstance(piece, str | dict | AddedToken):
            found = _piece(said, key, piece)
            role = key.removesuffix("_token")
            said.special[role] = by_name.get(str(found), found) if role in ROLES else found
    extra = values["extra_special_tokens"]
    if isinstance(extra, dict):
        said.special |= {name: _piece(said, "extra_special_tokens", piece) for name, piece in extra.items()}
    elif extra:
        said.extra = [_piece(said, "extra_special_tokens", piece) for piece in extra]
    return said


def _piece(said: _Settings, key: str, piece: Any) -> str | AddedToken:
    """InputError for what is no piece."""
    if isinstance(piece, str | AddedToken):
        return piece
    try:
        return AddedToken(**{name: piece[name] for name in OF_PIECE if name in piece})
    except (TypeError, AttributeError) as error:
        raise InputError(f"{said.folder / SETTINGS}: {key} has {piece!r:.60}, which is no piece") from error


# Classes

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class _Class:
    """A tokenizer class of transformers: how it is built, and how texts are framed, whatever tokenizer.json says of that."""

    build: Callable[[_Settings, Any, Pairs], Tokenizer]
    model: type
    special: Mapping[str, str | AddedToken]  # role -> piece, where nothing else is said
    frame: Callable[[_Settings, Tokenizer], Any]
    others: Callable[[_Settings], list[str]] = lambda _: []
    file_frames: bool = False  # the frame of tokenizer.json goes before that of the class


def _words_of_bert(said: _Settings, vocabulary: dict[str, int], _: Pairs) -> Tokenizer:
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=said.name("unk")))
    accents = said.values.get("strip_accents")
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=said.flag("tokenize_chinese_chars", True),
        strip_accents=None if accents is None else said.flag("strip_accents", False),
        lowercase=said.flag("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def _bytes(said: _Settings, vocabulary: dict[str, int], merges: Pairs) -> Tokenizer:
    tokenizer = Tokenizer(BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=said.flag("add_prefix_space", False))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _ends_of_words(said: _Settings, vocabulary: dict[str, int], merges: Pairs) -> Tokenizer:
    ends = {"continuing_subword_prefix": "", "end_of_word_suffix": "</w>"}
    tokenizer = Tokenizer(BPE(vocabulary, merges, unk_token=said.name("unk"), fuse_unk=False, **ends))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer


def _unigram(
    said: _Settings, vocabulary: list[Any], unknown: int, steps: list[Any], prepends: str, apart: bool = True
) -> Tokenizer:
    """Words apart at white space, unless not `apart`; each begins with a mark where `prepends` says so."""
    tokenizer = Tokenizer(Unigram(vocabulary, unk_id=unknown, byte_fallback=False))
    steps = steps + ([normalizers.Precompiled(said.charsmap)] if said.charsmap else [])
    tokenizer.normalizer = normalizers.Sequence(steps) if steps else None
    marks = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepends)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks]) if apart else marks
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=prepends)
    return tokenizer


def _prefix(said: _Settings) -> str:
    return "always" if said.flag("add_prefix_space", True) else "never"


def _letters(keeps_accents: bool) -> list[Any]:
    accents = [] if keeps_accents else [normalizers.NFKD(), normalizers.StripAccents()]
    return [normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), *accents]


def _albert(said: _Settings, vocabulary: list[Any], _: Pairs) -> Tokenizer:
    steps = _letters(said.flag("keep_accents", False))
    steps += [normalizers.Lowercase()] if said.flag("do_lower_case", True) else []
    return _unigram(said, vocabulary, 1, steps, _prefix(said))


def _xlnet(said: _Settings, vocabulary: list[Any], _: Pairs) -> Tokenizer:
    steps = _letters(False) + ([normalizers.Lowercase()] if said.flag("do_lower_case", False) else [])
    return _unigram(said, vocabulary, said.values.get("unk_id", 0), steps, "always")


def _t5(said: _Settings, vocabulary: list[Any], _: Pairs) -> Tokenizer:
    return _unigram(said, vocabulary, 2, [], "always")


def _xlm_roberta(said: _Settings, vocabulary: list[Any], _: Pairs) -> Tokenizer:
    return _unigram(said, vocabulary, 3, [], _prefix(said))


def _camembert(said: _Settings, vocabulary: list[Any], _: Pairs) -> Tokenizer:
    names = [piece for piece, _ in vocabulary]
    return _unigram(said, vocabulary, names.index(said.name("unk")) if said.name("unk") in names else 0, [], _prefix(said))


def _deberta_v2(said: _Settings, vocabulary: list[Any], _: Pairs) -> Tokenizer:
    unknown = (said.name("unk"), 0.0)
    number = vocabulary.index(unknown) if unknown in vocabulary else said.values.get("unk_id", 1)
    scheme = "always" if said.flag("add_prefix_space", True) else "first"
    tokenizer = _unigram(said, vocabulary, number, [], scheme, apart=False)
    lower = [normalizers.Lowercase()] if said.flag("do_lower_case", False) else []
    space, end = normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.Strip(left=False, right=True)
    tokenizer.normalizer = normalizers.Sequence([*lower, space, normalizers.NFC(), end])
    marks = [pre_tokenizers.Punctuation(behavior="isolated")] if said.flag("split_by_punct", False) else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*marks, tokenizer.pre_tokenizer])
    return tokenizer


def _template(single: str, pair: str) -> Callable[[_Settings, Tokenizer], Any]:
    """The frame around one text and two; roles in capitals stand for their pieces."""

    def frame(said: _Settings, tokenizer: Tokenizer) -> Any:
        roles = [role for role in ROLES if role.upper() in f"{single} {pair}"]
        pieces = {role.upper(): said.name(role) for role in roles}
        # as lists: a piece may contain a colon or a space
        texts = [
            [
                pieces.get(name, name) + (f":{number}" if number else "")
                for name, _, number in (part.partition(":") for part in it.split())
            ]
            for it in (single, pair)
        ]
        return processors.TemplateProcessing(
            single=texts[0], pair=texts[1], special_tokens=[(name, tokenizer.token_to_id(name)) for name in {*pieces.values()}]
        )

    return frame


def _roberta_frame(said: _Settings, tokenizer: Tokenizer) -> Any:
    return _roberta(said, tokenizer, said.flag("trim_offsets", True), said.flag("add_prefix_space", False))


def _mpnet_frame(said: _Settings, tokenizer: Tokenizer) -> Any:
    return _roberta(said, tokenizer, True, False)


def _roberta(said: _Settings, tokenizer: Tokenizer, trims: bool, spaced: bool) -> Any:
    sep, cls = ((said.name(role), present(tokenizer.token_to_id(said.name(role)))) for role in ("sep", "cls"))
    return processors.RobertaProcessing(sep, cls, trim_offsets=trims, add_prefix_space=spaced)


def _ends(said: _Settings, tokenizer: Tokenizer) -> Any:
    """A text alone, or with the ends that `add_bos_token` and `add_eos_token` ask for where there is no tokenizer.json."""
    reads = not (said.folder / WHOLE).is_file()
    adds = {role: reads and said.flag(f"add_{role}_token", False) and role in said.special for role in ("bos", "eos")}
    first, last = (f"{role.upper()}:0 " if is_added else "" for role, is_added in adds.items())
    pair = f"{first}$A:0 {last}{first.replace(':0', ':1')} $B:1 {last.replace(':0', ':1')}"
    return _template(f"{first}$A:0 {last}", pair)(said, tokenizer)


BERT_SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
DEBERTA_SPECIAL = BERT_SPECIAL | {"bos": "[CLS]", "eos": "[SEP]"}
ROBERTA_SPECIAL = {
    "bos": "<s>",
    "eos": "</s>",
    "sep": "</s>",
    "cls": "<s>",
    "unk": "<unk>",
    "pad": "<pad>",
    "mask": "<mask>",
}
STRIPPING_MASK = AddedToken("<mask>", lstrip=True)
MPNET_SPECIAL = {role: AddedToken(piece) for role, piece in ROBERTA_SPECIAL.items()} | {
    "unk": AddedToken("[UNK]"),
    "mask": STRIPPING_MASK,
}
XLNET_SPECIAL: dict[str, str | AddedToken] = {**ROBERTA_SPECIAL, "sep": "<sep>", "cls": "<cls>", "mask": STRIPPING_MASK}
CAMEMBERT_SPECIAL = ROBERTA_SPECIAL | {"mask": AddedToken("<mask>", lstrip=True, special=True)}
T5_SPECIAL = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
GPT2_SPECIAL = dict.fromkeys(("unk", "bos", "eos"), "<|endoftext|>")

BERT_FRAME = _template("CLS:0 $A:0 SEP:0", "CLS:0 $A:0 SEP:0 $B:1 SEP:1")
DEBERTA_FRAME = _template("CLS $A SEP", "CLS $A SEP SEP $B SEP")
DOUBLE_FRAME = _template("BOS $A EOS", "BOS $A EOS EOS $B EOS")

CLASSES = {
    "BertTokenizer": _Class(_words_of_bert, WordPiece, BERT_SPECIAL, BERT_FRAME),
    "MPNetTokenizer": _Class(_words_of_bert, WordPiece, MPNET_SPECIAL, _mpnet_frame),
    "RobertaTokenizer": _Class(_bytes, BPE, ROBERTA_SPECIAL, _roberta_frame),
    "GPT2Tokenizer": _Class(_bytes, BPE, GPT2_SPECIAL, _ends, file_frames=True),
    "OpenAIGPTTokenizer": _Class(_ends_of_words, BPE, {"unk": "<unk>"}, _ends, file_frames=True),
    "DebertaTokenizer": _Class(_bytes, BPE, DEBERTA_SPECIAL, DEBERTA_FRAME),
    "DebertaV2Tokenizer": _Class(_deberta_v2, Unigram, DEBERTA_SPECIAL, BERT_FRAME),
    "AlbertTokenizer": _Class(
        _albert, Unigram, DEBERTA_SPECIAL | {"unk": "<unk>", "pad": "<pad>"}, BERT_FRAME, file_frames=True
    ),
    "XLMRobertaTokenizer": _Class(_xlm_roberta, Unigram, ROBERTA_SPECIAL, DOUBLE_FRAME),
    "CamembertTokenizer": _Class(
        _camembert, Unigram, CAMEMBERT_SPECIAL, DOUBLE_FRAME, lambda _: ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
    ),
    "XLNetTokenizer": _Class(
        _xlnet,
        Unigram,
        XLNET_SPECIAL,
        _template("$A:0 SEP:0 CLS:2", "$A:0 SEP:0 $B:1 SEP:1 CLS:2"),
        lambda _: ["<eop>", "<eod>"],
    ),
    "T5Tokenizer": _Class(
        _t5,
        Unigram,
        T5_SPECIAL,
        _template("$A EOS", "$A EOS $B EOS"),
        lambda said: [f"<extra_id_{number}>" for number in range(said.values.get("extra_ids", 100))],
    ),
}
"""Name -> what is read."""

GENERIC = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend")
"""Classes that read tokenizer.json whole."""

SAME = {
    **dict.fromkeys(("DistilBert", "Electra", "ConvBert", "MobileBert", "LayoutLM", "SqueezeBert"), "BertTokenizer"),
    **dict.fromkeys(("Longformer", "Bart"), "RobertaTokenizer"),
}
"""Name without `Tokenizer` -> the class that it is another name of."""

OF_MODELS = {
    **dict.fromkeys(("bert", "distilbert", "electra", "convbert", "ernie", "nomic_bert", "squeezebert"), "BertTokenizer"),
    **dict.fromkeys(("roberta", "roberta-prelayernorm", "longformer", "ibert", "data2vec-text"), "RobertaTokenizer"),
    **dict.fromkeys(("xlm-roberta", "gte", "jina_embeddings_v3", "xmod"), "XLMRobertaTokenizer"),
    "albert": "AlbertTokenizer",
    "camembert": "CamembertTokenizer",
    "mpnet": "MPNetTokenizer",
    "t5": "T5Tokenizer",
    "deberta": "DebertaTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "xlnet": "XLNetTokenizer",
    "gpt2": "GPT2Tokenizer",
    "openai-gpt": "OpenAIGPTTokenizer",
    "modernbert": "TokenizersBackend",
}
"""`model_type` of config.json -> class where no file names one; modernbert is read whole in any case."""


def _class_of(folder: Path) -> str:
    """Name of the class, a key of CLASSES or one of GENERIC; InputError for another one, and where nothing names one."""
    model, settings = _object(folder / "config.json"), _object(folder / SETTINGS)
    registered = OF_MODELS.get(model.get("model_type") or "")
    place = SETTINGS if settings.get("tokenizer_class") else "config.json"
    stated = settings.get("tokenizer_class") or model.get("tokenizer_class")
    if registered in GENERIC or stated is None:
        name = registered or GENERIC[0]
        if registered or (folder / WHOLE).is_file():
            return name
        raise InputError(
            f"{folder / SETTINGS} names no tokenizer_class and config.json no known model_type: set tokenizer.file"
        )
    name = str(stated).removesuffix("Fast")
    name = SAME.get(name.removesuffix("Tokenizer"), name)
    if name not in (*CLASSES, *GENERIC):
        raise InputError(
            f"{folder / place}: tokenizer_class={stated!r} cannot be read: expected {', '.join(CLASSES)} or "
            f"PreTrainedTokenizerFast{_cure(folder)}"
        )
    return name


def _cure(folder: Path) -> str:
    return (
        f"; tokenizer.file={folder / WHOLE} reads that file as it is" if (folder / WHOLE).is_file() else "; set tokenizer.file"
    )


# Reading


@functools.lru_cache(maxsize=4)
def _read(folder: Path, _: tuple[Any, ...]) -> tuple[str, tuple[str, ...]]:
    try:
        return _assembled(folder)
    except InputError:
        raise
    except Exception as error:  # of files with other types than are expected, and the library raises no narrower one
        reason = " ".join(str(error).split())
        raise InputError(f"{folder}: no tokenizer can be built of its files ({type(error).__name__}: {reason})") from error


def _assembled(folder: Path) -> tuple[str, tuple[str, ...]]:
    whole = _object(folder / WHOLE)
    name, said = _class_of(folder), _settings(folder, whole)
    kind, original = CLASSES.get(name), Tokenizer.from_str(json.dumps(whole)) if whole else None
    if kind is None:
        if original is None:
            raise InputError(f"{folder} has no {WHOLE}, which tokenizer_class={name} is read from; set tokenizer.file")
        tokenizer = original
    else:
        said.special = copy.deepcopy({**kind.special}) | said.special
        said.extra = [*kind.others(said)] if said.extra is None else said.extra
        tokenizer = kind.build(said, *_vocabulary(folder, name, kind, whole))
    if whole.get("padding") and name != "GPT2Tokenizer":  # which has none
        said.special.setdefault("pad", whole["padding"]["pad_token"])
    _add(tokenizer, said)
    if kind is not None:
        frame = original.post_processor if kind.file_frames and original is not None else None
        tokenizer.post_processor = frame or kind.frame(said, tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for number, piece in said.added.items():
        if (found := tokenizer.token_to_id(str(piece))) != number:
            raise InputError(
                f"{folder} numbers the added piece {str(piece)!r} {number}: expected {found}, with no gap before it"
            )
    text, notes = tokenizer.to_str(), []
    if kind is not None and original is not None:
        mine, theirs = json.loads(text), json.loads(original.to_str())
        other = [part for part in ("normalizer", "pre_tokenizer") if mine[part] != theirs[part]]
        if other:
            notes.append(
                f"{folder / WHOLE}: its {' and '.join(other)} differs from {name} as {SETTINGS} sets it, which is read"
            )
    return text, tuple(notes)


def _vocabulary(folder: Path, name: str, kind: _Class, whole: dict[str, Any]) -> tuple[Any, Pairs]:
    """Pieces with their numbers, or scores for a unigram model, and merges. InputError where the files have others."""
    if whole:
        model = whole["model"]
        if model.get("type", kind.model.__name__) != kind.model.__name__:
            raise InputError(
                f"{folder / WHOLE} has a model of type {model['type']}, but {name} reads {kind.model.__name__}{_cure(folder)}"
            )
        merges: Any = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model.get("merges", [])]
        vocabulary = model["vocab"]
        return [tuple(scored) for scored in vocabulary] if isinstance(vocabulary, list) else vocabulary, merges
    if kind.model is WordPiece and (folder / WORDS).is_file():
        return pieces_of(bytes_of(folder / WORDS, str(folder / WORDS)), str(folder / WORDS)), []
    if kind.model is BPE and (folder / PAIRS).is_file() and (folder / MERGES).is_file():
        return BPE.read_file(str(folder / PAIRS), str(folder / MERGES))
    expected = {WordPiece: WORDS, BPE: f"{PAIRS} and {MERGES}"}.get(kind.model)
    if expected is None:
        models = ", ".join(sorted(path.name for path in folder.glob("*.model"))) or "SentencePiece's file"
        raise InputError(
            f"{folder} has no {WHOLE}, and {models} cannot be read: save it once by "
            "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    raise InputError(f"{folder} has neither {WHOLE} nor {expected}, of which {name} is read; set tokenizer.file or vocab_file")


def _add(tokenizer: Tokenizer, said: _Settings) -> None:
    """Adds the pieces beside the vocabulary, in the order of transformers."""
    there = {repr(piece) for piece in tokenizer.get_added_tokens_decoder().values()}
    new: list[str | AddedToken] = [piece for _, piece in sorted(said.added.items()) if repr(piece) not in there]
    names = {piece.content for piece in tokenizer.get_added_tokens_decoder().values()} | {*map(str, new)}
    others = [role for role in said.special if role not in ROLES]
    for piece in (*(said.special[role] for role in (*ROLES, *others) if role in said.special), *(said.extra or [])):
        if str(piece) not in names and piece not in new:
            new.append(piece)
    named = {*map(str, said.special.values())}
    for place, piece in enumerate(new):
        if isinstance(piece, str):
            new[place] = AddedToken(piece, special=True)
        elif str(piece) in named:
            piece.special = True
    tokenizer.add_tokens(new)
