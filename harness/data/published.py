"""The tokenizer of a published folder, put together from its files as transformers 5 does, which is not imported.

A class of transformers builds normaliser, words and frame from `tokenizer_config.json`, and reads of `tokenizer.json` the
pieces alone, whatever else that says; a class without code of its own, such as PreTrainedTokenizerFast, reads it whole.
"""

import functools
import importlib.util
import json
import re
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tokenizers import AddedToken, Tokenizer, models, processors

from harness import extensions
from harness.errors import InputError, refused_errors
from harness.paths import object_of

WHOLE, WORDS, PAIRS, MERGES = "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"
SETTINGS, SPECIAL, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
FILES = (WHOLE, SETTINGS, SPECIAL, ADDED, WORDS, PAIRS, MERGES)
"""All files that a tokenizer is read from."""

LARGEST_BYTES = 200_000_000
"""Maximum size of a tokenizer or vocabulary file; published ones have at most a tenth."""

UNLIMITED = 1e9
"""A `model_max_length` from which on there is none: transformers writes 1e30."""

OF_PIECE = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
"""Attributes of an added piece."""

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""Roles of named special pieces, in the order in which they are added."""

GENERIC = "TokenizersBackend"
"""Class without code of its own."""

WHITE_SPACE = "".join(
    map(chr, [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000])
)
"""What is cut off at the end of a line of vocab.txt."""


def has_files(folder: Path) -> bool:
    """Whether the folder has a tokenizer or vocabulary file."""
    return any((folder / name).is_file() for name in (WHOLE, WORDS, PAIRS))


def read(folder: str | Path) -> tuple[str, tuple[str, ...]]:
    """The tokenizer as a tokenizer.json, and a line per decision made while reading it.

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
    """Content of a file, which `said` names in the InputError if it is not a file, too large or unreadable."""
    try:
        if not stat.S_ISREG((facts := path.stat()).st_mode):  # a device may have no end
            raise InputError(f"{said} is not a file")
        if facts.st_size > LARGEST_BYTES:
            raise InputError(f"{said} has {facts.st_size:,} bytes: expected at most {LARGEST_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{said} cannot be read: {error.strerror}") from error


def pieces_of(content: bytes, said: str) -> dict[str, int]:
    """Piece -> number, one per line; lines end at line feeds alone. InputError for no UTF-8 text, and for a piece twice."""
    try:
        lines = content.decode("utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{said} is not UTF-8 text: {error.reason}") from error
    pieces = [line.rstrip(WHITE_SPACE) or line.removesuffix("\r") for line in lines]
    doubled = next((piece for piece, times in Counter(pieces).items() if piece and times > 1), None)
    if doubled is not None:
        raise InputError(f"{said} has the piece {doubled!r} twice: one piece per line, each once")
    return {piece: number for number, piece in enumerate(pieces)}


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in the file, empty without the file."""
    values: dict[str, Any] = object_of(bytes_of(path, str(path)), path) if path.exists() else {}
    return values


# Settings


@dataclass
class _Settings:
    """The settings files of a tokenizer."""

    folder: Path
    values: dict[str, Any]
    special: dict[str, str | AddedToken] = field(default_factory=dict)  # role, or the name of another one, -> piece
    extra: list[str | AddedToken] | None = None  # special ones without a role
    added: dict[int, str | AddedToken] = field(default_factory=dict)  # number -> piece beside the vocabulary
    charsmap: dict[str, Any] | None = None  # SentencePiece's normaliser, of tokenizer.json

    def flag(self, key: str, default: bool | None) -> bool | None:
        """InputError for another type."""
        value = self.values.get(key, default)
        if not isinstance(value, bool) and value != default:
            raise self.wrong(key, "must be true or false")
        return value

    def wrong(self, key: str, reason: str) -> InputError:
        return InputError(f"{self.folder / SETTINGS}: {key}={self.values[key]!r} {reason}")


def _settings(folder: Path, whole: dict[str, Any]) -> _Settings:
    said = _Settings(folder, _object(folder / SETTINGS))
    for key, kept in {"truncation_side": "right", "split_special_tokens": False, "fast_tokenizer_files": [WHOLE]}.items():
        if said.values.get(key, kept) != kept:
            raise said.wrong(key, f"cannot be kept: expected {json.dumps(kept)}")
    if (whole.get("truncation") or {}).get("direction", "Right") != "Right":
        raise InputError(f"{folder / WHOLE}: truncation.direction='Left' cannot be kept: texts are cut at their end")
    if (whole.get("model") or {}).get("dropout"):
        raise InputError(f"{folder / WHOLE}: model.dropout={whole['model']['dropout']} cuts a text at random: expected null")
    parts = whole.get("normalizer") or {}
    said.charsmap = next((part for part in parts.get("normalizers", [parts]) if "precompiled_charsmap" in part), None)
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
    """InputError for an invalid piece."""
    if isinstance(piece, str | AddedToken):
        return piece
    try:
        return AddedToken(**{name: piece[name] for name in OF_PIECE if name in piece})
    except (TypeError, AttributeError) as error:
        raise InputError(f"{said.folder / SETTINGS}: {key} has {piece!r:.60}, which is not a piece") from error


# Classes


@functools.cache
def _classes() -> dict[str, dict[str, Any]]:
    """Name -> how its tokenizers are built and frame a text, whatever tokenizer.json says of that."""
    classes: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("tokenizer_classes.yaml").read_text("utf-8"))
    return classes


def _filled(part: Any, values: dict[str, Any]) -> Any:
    """Part of a class with settings in their places."""
    if isinstance(part, list):
        return [step for step in (_filled(step, values) for step in part) if step is not None]
    if not isinstance(part, dict):
        return values.get(part, part)
    if "when" in part:
        return _filled(part.get("then" if values.get(f"${part['when']}") else "else"), values)
    return {key: _filled(value, values) for key, value in part.items()}


def _built(kind: dict[str, Any], said: _Settings, vocabulary: dict[str, Any]) -> Tokenizer:
    """The tokenizer, without its frame and with these arguments of its model."""
    values = _values(kind, said)
    parts = {part: _filled(kind.get(part), values) for part in ("normalizer", "pre_tokenizer", "decoder")}
    if parts["normalizer"] == {"type": "Sequence", "normalizers": []}:
        parts["normalizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(parts | {"model": {"type": "BPE", "vocab": {}, "merges": []}}))
    options = vocabulary | _filled(kind.get("options", {}), values)
    if "unknown" in kind:
        numbers = {piece: number for number, (piece, _) in enumerate(vocabulary["vocab"])}
        ways = {"name": numbers.get(str(said.special["unk"])), "unk_id": said.values.get("unk_id")}
        options["unk_id"] = next(number for way in kind["unknown"] if (number := ways.get(way, way)) is not None)
    tokenizer.model = getattr(models, kind["pieces"])(**options)
    return tokenizer


def _values(kind: dict[str, Any], said: _Settings) -> dict[str, Any]:
    """What stands for `$NAME` in the parts of the class."""
    flags = {f"${key}": said.flag(key, default) for key, default in kind.get("flags", {}).items()}
    return flags | {"$unk": str(said.special["unk"]), "$charsmap": said.charsmap}


def _frame(kind: dict[str, Any], said: _Settings, tokenizer: Tokenizer) -> Any:
    """What the class puts around one text and two."""
    names = {role.upper(): str(piece) for role, piece in said.special.items()}
    ids = {name: tokenizer.token_to_id(name) for name in names.values()}
    pairs = {f"${role.lower()}": (name, ids[name]) for role, name in names.items()}
    frame = _filled(kind["frame"], _values(kind, said) | pairs)
    if "single" not in frame:
        return processors.RobertaProcessing(frame.pop("sep"), frame.pop("cls"), **frame)
    used, texts = set[str](), {}
    for side, parts in frame.items():
        of_roles = [part.split(":") for part in parts]
        known = [(names.get(role, role), number) for role, number in of_roles if role in names or role.startswith("$")]
        used |= {name for name, _ in known} & ids.keys()
        texts[side] = [f"{name}:{number}" for name, number in known]  # as a list: a piece may contain a colon or a space
    return processors.TemplateProcessing(**texts, special_tokens=[(name, ids[name]) for name in used])


class _OfLibraryError(InputError):
    """What is read here does not suffice, and transformers may read the folder."""


def _class_of(folder: Path) -> str:
    """Name of the class; InputError for an unknown one, and where nothing names one."""
    model, settings, classes = _object(folder / "config.json"), _object(folder / SETTINGS), _classes()
    of_models = {model: name for name, kind in classes.items() for model in kind["models"]}
    of_names = {
        other: name for name, kind in classes.items() for other in (name.removesuffix("Tokenizer"), *kind.get("named", []))
    }
    registered = of_models.get(model.get("model_type") or "")
    stated = settings.get("tokenizer_class") or model.get("tokenizer_class")
    if registered == GENERIC or stated is None:
        if registered or ((folder / WHOLE).is_file() and not model.get("model_type")):
            return registered or GENERIC
        raise _OfLibraryError(
            f"{folder / SETTINGS} names no tokenizer_class and config.json no known model_type{_cure(folder)}"
        )
    name = of_names.get(str(stated).removesuffix("Fast").removesuffix("Tokenizer"))
    if name is None:
        place = SETTINGS if settings.get("tokenizer_class") else "config.json"
        raise _OfLibraryError(
            f"{folder / place}: tokenizer_class={stated!r} cannot be read: expected {', '.join(classes)} or "
            f"PreTrainedTokenizerFast{_cure(folder)}"
        )
    return name


def _cure(folder: Path) -> str:
    return (
        f"; tokenizer.file={folder / WHOLE} reads that file unchanged" if (folder / WHOLE).is_file() else "; set tokenizer.file"
    )


# Reading


@functools.lru_cache(maxsize=4)
def _read(folder: Path, _: tuple[Any, ...]) -> tuple[str, tuple[str, ...]]:
    with refused_errors(f"{folder}: no tokenizer can be built of its files"):
        try:
            return _assembled(folder)
        except _OfLibraryError as error:
            if importlib.util.find_spec("transformers") is None:
                raise
            return _by_library(folder, error)


def _by_library(folder: Path, reason: InputError) -> tuple[str, tuple[str, ...]]:
    """As `AutoTokenizer` of transformers reads it; InputError, the `reason` that it is asked, where it cannot either."""
    _settings(folder, _object(folder / WHOLE))  # which refuses what no tokenizer keeps
    auto = extensions.library("transformers", "hub").AutoTokenizer
    with refused_errors(f"{reason}; nor by transformers"):
        read = auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if (backend := getattr(read, "backend_tokenizer", None)) is None:
        raise InputError(f"{reason}; {type(read).__name__} of transformers is Python code, which is not run")
    backend.no_padding()
    backend.no_truncation()
    return backend.to_str(), (f"tokenizer: {type(read).__name__} of transformers",)


def _assembled(folder: Path) -> tuple[str, tuple[str, ...]]:
    whole = _object(folder / WHOLE)
    name, said = _class_of(folder), _settings(folder, whole)
    kind, original = _classes()[name], Tokenizer.from_str(json.dumps(whole)) if whole else None
    if name != GENERIC:
        special = {role: _piece(said, role, piece) for role, piece in kind["special"].items()}
        for key in ("cls_token", "sep_token", *kind["options"]):
            if said.values.get(key, key) is None:
                raise said.wrong(key, f"cannot be read: expected a piece, which {name} needs")
        said.special = special | said.special
        numbered = [f"<extra_id_{number}>" for number in range(said.values.get("extra_ids", kind.get("sentinels", 0)))]
        said.extra = [*kind.get("others", []), *numbered] if said.extra is None else said.extra
        if whole:  # which says so itself
            said.values |= {"add_bos_token": False, "add_eos_token": False}
        tokenizer = _built(kind, said, _vocabulary(folder, name, kind["pieces"], whole))
    elif original is None:
        raise InputError(f"{folder} has no {WHOLE}, which a tokenizer without its own class needs; set tokenizer.file")
    else:
        tokenizer = original
    if whole.get("padding") and name != "GPT2Tokenizer":  # which has none
        said.special.setdefault("pad", whole["padding"]["pad_token"])
    _add(tokenizer, said)
    if name != GENERIC:
        frame = original.post_processor if original and "file_frames" in kind else None
        tokenizer.post_processor = frame or _frame(kind, said, tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for number, piece in said.added.items():
        if (found := tokenizer.token_to_id(str(piece))) != number:
            raise InputError(f"{folder} gives the added piece {str(piece)!r} the id {number}: expected {found}, without a gap")
    text, notes = tokenizer.to_str(), []
    if "token_type_ids" not in (said.values.get("model_input_names") or ["token_type_ids"]):  # then all are 0
        types = re.sub(r'"type_id": \d+', '"type_id": 0', json.dumps(json.loads(text)["post_processor"]))
        text = json.dumps(json.loads(text) | {"post_processor": json.loads(types)})
    if original and name != GENERIC:
        mine, theirs = json.loads(text), json.loads(original.to_str())
        other = [part for part in ("normalizer", "pre_tokenizer") if mine[part] != theirs[part]]
        if other:
            notes.append(
                f"{folder / WHOLE}: its {' and '.join(other)} differs from {name} as {SETTINGS} sets it, which is read"
            )
    return text, tuple(notes)


def _vocabulary(folder: Path, name: str, pieces: str, whole: dict[str, Any]) -> dict[str, Any]:
    """Pieces with their numbers, or scores for a unigram model, and merges. InputError where the files have others."""
    if whole:
        model = whole["model"]
        if (there := model.get("type", pieces)) != pieces:
            raise InputError(f"{folder / WHOLE} has a model of type {there}, but {name} reads {pieces}{_cure(folder)}")
        if pieces == "Unigram":
            return {"vocab": [tuple(scored) for scored in model["vocab"]]}
        merges = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model.get("merges", [])]
        return {"vocab": model["vocab"]} | ({"merges": merges} if pieces == "BPE" else {})
    if pieces == "Unigram":
        found = ", ".join(sorted(path.name for path in folder.glob("*.model"))) or "SentencePiece's file"
        raise _OfLibraryError(
            f"{folder} has no {WHOLE}, and only transformers reads {found} (pip install 'encoder-variant-harness[hub]')"
        )
    files = [folder / file for file in ((WORDS,) if pieces == "WordPiece" else (PAIRS, MERGES))]
    if not all(file.is_file() for file in files):
        expected = " and ".join(file.name for file in files)
        raise InputError(
            f"{folder} has neither {WHOLE} nor {expected}, from which {name} is read; set tokenizer.file or vocab_file"
        )
    if pieces == "WordPiece":
        return {"vocab": pieces_of(bytes_of(files[0], str(files[0])), str(files[0]))}
    return dict(zip(("vocab", "merges"), models.BPE.read_file(*map(str, files)), strict=True))


def _add(tokenizer: Tokenizer, said: _Settings) -> None:
    """Adds the added pieces, in the order of transformers."""
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
