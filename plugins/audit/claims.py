"""Claims as YAML files have them: conf/claims/, those that variants carry (conf/model/claims/NAME.yaml is that of
conf/model/NAME.yaml), the same of the user's own folder, and files by their path.

A reading is a dataclass of its kind, whose fields are the keys in the file. `of` and `against` are choices and keys as on the
command line: `model=albert scale=base model.hidden_size=1024`. A wrong file is an InputError that names the file, the key and
what was expected.
"""

import functools
import math
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from harness.config import own_files
from harness.errors import InputError, unknown
from harness.models.ranges import Range, option, refuse_out_of_range
from harness.paths import CLAIMS, conf_directory

LARGEST = 1e100
"""Claimed number."""

TOLERATED = 0.01
"""Share by which assumptions of a claim may differ, as rounded as sources state them."""

LENGTHS = {"at_least": 1, "limit": 1e6}
"""Tokens of texts."""


class Relation(Enum):
    """How the measured value relates to the claimed one."""

    equal = "equal"  # within the tolerance
    at_most = "at_most"
    at_least = "at_least"
    better = "better"  # than `against`, by more than the margin: a higher score, a lower loss, more speed
    no_difference = "no_difference"  # from `against`, beyond the margin


class ModelPart(Enum):
    """A part of a model whose time or FLOPs are measured."""

    model = "model"
    attention = "attention"  # projections and products of all layers
    attention_products = "attention_products"  # of queries with keys, and with values
    visible_pairs = "visible_pairs"  # pairs of tokens that one layer lets see each other; no FLOPs, but what they grow with


class MemoryPart(Enum):
    """What of the memory of a training step is meant."""

    total = "total"
    activations = "activations"


@dataclass
class Reading:
    """One way to read a claim; keys that are null are those of the claim."""

    measure: str = MISSING
    beside: bool = False  # explains the claim, and does not decide it; a claim has one reading that decides
    claimed: Any = field(default=None, metadata={"range": Range(limit=LARGEST)})  # a number, or one for each measured point
    relation: Relation | None = None
    tolerance: float | None = option(None, at_least=0)  # share of the claimed value
    margin: float | None = option(None, at_least=0)  # differences below it do not matter, in the unit of the metric


@dataclass
class Parameters(Reading):
    """Parameters on the meta device, each tensor once; with `against` the relative change."""

    of: str = MISSING
    against: str | None = None
    parts: list[str] = field(default_factory=lambda: ["total"])
    apart: bool = False  # a point for each part, in place of their sum
    bytes_each: int | None = option(None, at_least=1)  # null counts parameters, 4 the bytes of float32 weights


@dataclass
class Flops(Reading):
    """FLOPs of one text by length, counted from the operators that run; with `against` the relative change."""

    of: str = MISSING
    against: str | None = None
    part: ModelPart = ModelPart.model
    training: bool = False  # forward and backward
    rate: bool = False  # the relative change of speed, if time were as the FLOPs
    lengths: list[int] = option([128], **LENGTHS)


@dataclass
class TrainingMemory(Reading):
    """Bytes of weights, gradients, AdamW's moments and activations of one training step in float32, by formula."""

    of: str = MISSING
    part: MemoryPart = MemoryPart.total
    lengths: list[int] = option([128], **LENGTHS)
    batch_sizes: list[int] = option([1], at_least=1, limit=1e6)


@dataclass
class OutputBytes(Reading):
    """Bytes of the encoder's output in float32, for texts of so many tokens."""

    of: str = MISSING
    lengths: list[int] = option(MISSING, **LENGTHS)


@dataclass
class Config(Reading):
    """Keys of the model, or what follows from them, such as `longest_text`: a point for each."""

    of: str = MISSING
    keys: list[str] = MISSING


@dataclass
class Directions(Reading):
    """To which sides the tokens of each stack read in their own text, by gradients of the built layers: a point for each."""

    of: str = MISSING


@dataclass
class ActivationDifference(Reading):
    """Largest absolute difference of two non-linearities between `low` and `high`."""

    of: str = MISSING
    against: str = MISSING
    low: float = -4.0
    high: float = 4.0


@dataclass
class Ids(Reading):
    """Number of ids of each text with [CLS] and [SEP], the fewest there can be in any vocabulary."""

    texts: list[str] = MISSING


@dataclass
class Encoded(Reading):
    """Each text by the WordPiece vocabulary of the command line, vocab_file=FILE."""

    texts: list[str] = MISSING
    pieces: bool = False  # its pieces, in place of the ids with [CLS] and [SEP]


@dataclass
class PretrainingDays(Reading):
    """Days that a pretraining would take, by counted FLOPs and FLOP/s of one device: an extrapolation.

    Its texts are steps x batch size, or follow from the tokens; where all three are stated, they must agree.
    """

    of: str = MISSING
    steps: float | None = option(None, above=0, limit=1e30)
    batch_size: int | None = option(None, at_least=1)
    tokens: float | None = option(None, above=0, limit=1e30)  # of all epochs together
    devices: int = option(1, at_least=1)
    shares: dict[int, float] = field(default_factory=dict)  # length of texts: share of the steps; empty: all of 128
    flops_per_s: list[float] = option([], above=0, limit=1e30)  # that one device sustains; empty: the peak measured here

    @property
    def lengths(self) -> dict[int, float]:
        """Length of texts: share of the steps. No default of the field: what a file states would be merged into it."""
        return self.shares or {128: 1.0}

    def sequences(self) -> float:
        """How many texts are trained on; ValueError where nothing says it, or where what is stated does not agree."""
        length = math.fsum(share * tokens for tokens, share in self.lengths.items())
        if not math.isclose(total := math.fsum(self.lengths.values()), 1, abs_tol=TOLERATED):
            raise ValueError(f"shares={self.shares} must have a sum of 1, not {total:g}")
        by_steps = self.steps * self.batch_size if self.steps and self.batch_size else None
        if (self.steps is None) != (self.batch_size is None) or not (by_steps or self.tokens):
            raise ValueError("expected steps and batch_size, or tokens: how much is trained on")
        if by_steps and self.tokens and not math.isclose(by_steps * length, self.tokens, rel_tol=TOLERATED):
            raise ValueError(
                f"tokens={self.tokens:g} contradicts steps, batch_size and shares, which make {by_steps * length:.4g}: "
                "leave tokens out"
            )
        return by_steps or self.tokens / length


@dataclass
class Speed(Reading):
    """Relative change of time, timed with `--measure`: interleaved rounds in this process, by length."""

    of: str = MISSING
    against: str = MISSING
    part: ModelPart = ModelPart.model
    training: bool = False  # forward and backward
    rate: bool = False  # the relative change of speed, not of time
    lengths: list[int] = option([128], **LENGTHS)
    batch_size: int = option(1, at_least=1, limit=1e6)


@dataclass
class Score(Reading):
    """Difference of two arms in a metric, over finished runs of the tracking store, paired by seed."""

    of: str = MISSING
    against: Any = MISSING  # an arm, or a list of them
    metric: str = "eval/score"
    tasks: list[str] = field(default_factory=list)  # empty: all
    needs: str = ""  # what the runs of both arms must have, such as `pretrain=mlm`
    study: str = ""  # scale, data and budget of the study that would settle it; runs of others count, too


def arms_of(against: str | list[str]) -> list[str]:
    """All arms that a score is compared with."""
    return against if isinstance(against, list) else [against]


@dataclass
class Published(Reading):
    """What a paper states of itself, as a fact with its place: nothing is measured."""

    stated: str = MISSING  # arXiv id, table or section, and page
    values: dict[str, Any] = field(default_factory=dict)  # such as a split or a task: the figure, or a word
    against: dict[str, float] = field(default_factory=dict)  # figures that are subtracted
    rate: bool = False  # the relative change of speed, where both are times
    by: str = ""  # what the names in `values` are; one alone needs none
    unit: str = ""


@dataclass
class NotTestable(Reading):
    """What cannot be measured here."""

    reason: str = MISSING


KINDS: dict[str, type[Reading]] = {
    "parameters": Parameters,
    "flops": Flops,
    "training_memory": TrainingMemory,
    "output_bytes": OutputBytes,
    "config": Config,
    "directions": Directions,
    "activation_difference": ActivationDifference,
    "ids": Ids,
    "encoded": Encoded,
    "pretraining_days": PretrainingDays,
    "speed": Speed,
    "score": Score,
    "published": Published,
    "not_testable": NotTestable,
}
"""Name in `measure` -> the kind."""


RELATIVE = (Relation.better, Relation.no_difference)
"""Relations to `against`, which need no claimed value."""


@dataclass
class ClaimEntry:
    """A claim as its file has it."""

    claim: str = MISSING  # in our words
    claimed: Any = None  # a number, or one for each measured point
    relation: Relation = Relation.equal
    tolerance: float = option(0.0, at_least=0)  # share of the claimed value
    margin: float = option(0.0, at_least=0)  # differences below it do not matter, in the unit of the metric
    conditions: str = ""  # under which the source claims it
    note: str = ""
    readings: dict[str, Any] = field(default_factory=dict)  # name: a kind of measuring with its keys


@dataclass
class ClaimFile:
    """All claims of one source."""

    source: str = MISSING
    claims: dict[str, ClaimEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One claim with its readings, by name; every reading has claimed value, relation, tolerance and margin."""

    name: str
    source: str
    text: str
    conditions: str
    note: str
    readings: dict[str, Reading]  # one of which decides
    file: Path


def read_all(names: list[str], config_dir: str | None) -> list[Claim]:
    """Claims by name of a file, of a claim, or by path; all of both folders without names. InputError for an unknown one."""
    folders = [conf_directory(), *([Path(config_dir)] if config_dir else [])]
    places = [folder / below / CLAIMS for folder in folders for below in ("", "model")]
    paths = [path for place in places for path in sorted(place.glob("*.yaml"))]
    is_path = {name: name.endswith((".yaml", ".yml")) for name in names}
    candidates = [] if names and all(is_path.values()) else [claim for path in paths for claim in read(path)]
    if not names:
        return candidates
    selected: list[Claim] = []
    for name in names:
        if is_path[name]:
            selected += read(Path(name))
            continue
        named = [claim for claim in candidates if name in (claim.name, claim.file.stem)]
        if not named:
            raise unknown(
                "claim", name, {claim.file.stem for claim in candidates} | {claim.name for claim in candidates}, "claims"
            )
        selected += named
    return list({(claim.file, claim.name): claim for claim in selected}.values())


def read(path: Path) -> list[Claim]:
    """The claims of one file."""
    try:
        node = own_files.load(path)
    except InputError:
        raise
    except (OSError, YAMLError, ValueError) as error:
        raise InputError(f"{path}: expected a YAML file of claims ({' '.join(str(error).split())})") from error
    variant = path.stem if path.parent.parts[-2:] == ("model", CLAIMS) else None
    if variant and isinstance(node, DictConfig):
        node = OmegaConf.merge({"source": f"the variant {variant}"}, node)
    file = _typed(path, "", ClaimFile, node)
    if not file.claims:
        raise InputError(f"{path}: claims: expected at least one claim, NAME: {{claim: ..., readings: ...}}")
    return [_claim(path, file.source, name, entry, variant) for name, entry in file.claims.items()]


def _claim(path: Path, source: str, name: str, entry: ClaimEntry, variant: str | None) -> Claim:
    key = f"claims.{name}.readings"
    if not entry.readings:
        raise InputError(f"{path}: {key}: expected at least one reading, NAME: {{measure: ..., ...}}")
    own = {"of": f"model={variant}"} if variant else {}
    readings = {title: _reading(path, f"{key}.{title}", entry, value, own) for title, value in entry.readings.items()}
    deciding = [title for title, reading in readings.items() if not reading.beside]
    if len(deciding) != 1:
        raise InputError(
            f"{path}: {key}: expected one reading that decides the claim and `beside: true` in all others, got "
            f"{len(deciding)} that decide{': ' if deciding else ''}{', '.join(deciding)}"
        )
    return Claim(name, source, entry.claim, entry.conditions, entry.note, readings, path)


def _reading(path: Path, key: str, entry: ClaimEntry, value: Any, own: dict[str, str]) -> Reading:
    """`own` are keys that a reading has unless it states them, as far as its kind knows them."""
    kind = value.get("measure") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{path}: {unknown('measure', kind, KINDS, f'{key}.measure')}")
    stated = {name: own[name] for name in own.keys() & _names(KINDS[kind])}
    reading = _typed(path, key, KINDS[kind], OmegaConf.create(own_files.as_text(stated | value)))
    for name in ("claimed", "relation", "tolerance", "margin"):
        if getattr(reading, name) is None:
            setattr(reading, name, getattr(entry, name))
    try:
        refuse_out_of_range(reading, f"{key}.")
        for length, share in getattr(reading, "shares", {}).items():
            if not (Range(**LENGTHS).has(length) and Range(at_least=0, at_most=1).has(share)):
                raise ValueError(f"{key}.shares={reading.shares} must be lengths of at least 1 with shares between 0 and 1")
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    _refuse_unusable(path, key, reading)
    return reading


def _refuse_unusable(path: Path, key: str, reading: Reading) -> None:
    if reading.measure == "not_testable":
        return
    against = getattr(reading, "against", None)
    if isinstance(reading, Published):
        words = () if against else str
        if not reading.values or not all(_is_number(one) or isinstance(one, words) for one in reading.values.values()):
            raise InputError(f"{path}: {key}.values: expected NAME: FIGURE, all finite, not {reading.values!r}")
        if against and against.keys() != reading.values.keys():
            raise InputError(
                f"{path}: {key}.against: expected the names of values, {', '.join(reading.values)}, not {against!r}"
            )
        if len(reading.values) > 1 and not reading.by:
            raise InputError(f"{path}: {key}.by: expected what the names in values are, such as split or task")
    if isinstance(reading, PretrainingDays):
        try:
            reading.sequences()
        except ValueError as error:
            raise InputError(f"{path}: {key}: {error}") from error
    for name in {"keys", "texts"} & _names(type(reading)):
        if not getattr(reading, name):
            raise InputError(f"{path}: {key}.{name}: expected at least one")
    if reading.measure == "score" and not (against and all(isinstance(arm, str) for arm in arms_of(against))):
        raise InputError(f"{path}: {key}.against: expected an arm such as model=base, or a list of them, not {against!r}")
    signed = reading.measure == "score" or getattr(reading, "rate", False) or (reading.measure == "published" and against)
    if reading.relation is Relation.better and not signed:
        raise InputError(
            f"{path}: {key}.relation: better is of scores, rates and published differences, expected `rate: true`, `against` "
            "or another relation"
        )
    if reading.relation in RELATIVE:
        return
    values = reading.claimed if isinstance(reading.claimed, list) else [reading.claimed]
    words = str if isinstance(reading, Encoded | Config | Directions | Published) else ()
    if not values or not all(_is_number(value) or isinstance(value, words) for value in values):
        raise InputError(f"{path}: {key}.claimed: expected a number, or a list of them, all finite, not {reading.claimed!r}")
    if reading.measure == "score":
        raise InputError(f"{path}: {key}.relation: expected better or no_difference for a score, not {reading.relation.value}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and Range(limit=LARGEST).has(value)


def _names(kind: type) -> set[str]:
    return {one.name for one in fields(kind)}


@functools.cache
def _schema(kind: type) -> DictConfig:
    """Built once: merging into a copy of it is faster."""
    return OmegaConf.structured(kind)


def _typed(path: Path, key: str, kind: type, node: Any) -> Any:
    """The node as this dataclass; every error names file and key."""
    try:
        return OmegaConf.to_object(OmegaConf.merge(_schema(kind), node))
    except (OmegaConfBaseException, ValueError, TypeError) as error:
        inner = getattr(error, "full_key", None) or ""
        where = ".".join(part for part in (key, inner) if part)
        if isinstance(error, ConfigKeyError):
            names = _names(ClaimEntry if "." in inner else kind)
            place, _, name = where.rpartition(".")
            of_reading = kind is ClaimFile and "." in inner and any(name in _names(one) for one in KINDS.values())
            near = [f"{place}.readings.NAME.{name}"] if of_reading else None
            raise InputError(f"{path}: {unknown('key', name, names, place or 'the file', near)}") from error
        reason = " ".join(str(error).split("full_key")[0].split())
        if "missing mandatory value" in reason.lower():
            reason = "expected a value, found none"
        raise InputError(f"{path}: {where or 'the file'}: {reason}") from error
