"""Claims as YAML files have them: conf/claims/, those that variants carry (conf/model/claims/NAME.yaml is that of
conf/model/NAME.yaml), the same of the user's own folder, and files by their path. A CSV file in conf/claims/tables/
is a table of a paper.

A reading is a dataclass of its kind, whose fields are the keys in the file. `of` and `against` are choices and keys as on the
command line: `model=albert scale=base model.hidden_size=1024`. A wrong file is an InputError that names the file, the key and
what was expected.
"""

import csv
import difflib
import math
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, field
from omegaconf import OmegaConf
from yaml import YAMLError

from harness.config import own_files
from harness.errors import InputError, on_one_line, unknown
from harness.metrics import METRICS, SCORE_TITLES
from harness.models.ranges import Range
from harness.paths import CLAIMS, LARGEST_RECORD, conf_directory
from harness.paths import read as content_of

TOLERATED = 0.01
"""Share by which assumptions of a claim may differ, as rounded as sources state them."""

Positive = Annotated[float, Meta(gt=0, le=1e30)]
Margin = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Names = Annotated[list[str], Meta(min_length=1)]


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
    """A part of the memory of a training step."""

    total = "total"
    activations = "activations"


class Shared(msgspec.Struct, kw_only=True):
    """Values that a claim states for its readings, unless a reading states its own."""

    claimed: Any = None  # a number, or one for each measured point
    relation: Relation = Relation.equal
    tolerance: Margin = 0.0  # share of the claimed value
    margin: Margin = 0.0  # differences below it do not matter, in the unit of the metric


class Reading(Shared, kw_only=True):
    """One way to read a claim."""

    measure: str = ""
    beside: bool = False  # explains the claim, and does not decide it; a claim has one reading that decides


class Parameters(Reading, kw_only=True):
    """Parameters on the meta device, each tensor once; with `against` the relative change."""

    of: str
    against: str | None = None
    parts: list[str] = field(default_factory=lambda: ["total"])
    apart: bool = False  # a point for each part, in place of their sum
    bytes_each: Count | None = None  # null counts parameters, 4 the bytes of float32 weights


class Flops(Reading, kw_only=True):
    """FLOPs of one text by length, counted from the operators that run; with `against` the relative change."""

    of: str
    against: str | None = None
    part: ModelPart = ModelPart.model
    training: bool = False  # forward and backward
    rate: bool = False  # the relative change of speed, if time were as the FLOPs
    lengths: list[Count] = field(default_factory=lambda: [128])


class TrainingMemory(Reading, kw_only=True):
    """Bytes of weights, gradients, AdamW's moments and activations of one training step in float32, by formula."""

    of: str
    part: MemoryPart = MemoryPart.total
    lengths: list[Count] = field(default_factory=lambda: [128])
    batch_sizes: list[Count] = field(default_factory=lambda: [1])


class OutputBytes(Reading, kw_only=True):
    """Bytes of the encoder's output in float32, for texts of so many tokens."""

    of: str
    lengths: list[Count]


class Config(Reading, kw_only=True):
    """Keys of the model, or what follows from them, such as `longest_text`: a point for each."""

    of: str
    keys: Names


class Directions(Reading, kw_only=True):
    """To which sides the tokens of each stack read in their own text, by gradients of the built layers: a point for each."""

    of: str


class ActivationDifference(Reading, kw_only=True):
    """Largest absolute difference of two non-linearities between `low` and `high`."""

    of: str
    against: str
    low: float = -4.0
    high: float = 4.0


class Ids(Reading, kw_only=True):
    """Number of ids of each text with [CLS] and [SEP], the fewest there can be in any vocabulary."""

    texts: Names


class Encoded(Reading, kw_only=True):
    """Each text by the WordPiece vocabulary of the command line, vocab_file=FILE."""

    texts: Names
    pieces: bool = False  # its pieces, in place of the ids with [CLS] and [SEP]


class PretrainingDays(Reading, kw_only=True):
    """Days that a pretraining would take, by counted FLOPs and FLOP/s of one device: an extrapolation.

    Its texts are steps x batch size, or follow from the tokens; where all three are stated, they must agree.
    """

    of: str
    steps: Positive | None = None
    batch_size: Count | None = None
    tokens: Positive | None = None  # of all epochs together
    devices: Count = 1
    shares: dict[Count, Annotated[float, Meta(ge=0, le=1)]] = field(default_factory=lambda: {128: 1.0})  # of steps, by length
    flops_per_s: list[Positive] = []  # that one device sustains; empty: the peak measured here

    def sequences(self) -> float:
        """How many texts are trained on; ValueError where nothing says it, or where what is stated does not agree."""
        length = math.fsum(share * tokens for tokens, share in self.shares.items())
        if not math.isclose(total := math.fsum(self.shares.values()), 1, abs_tol=TOLERATED):
            raise ValueError(f"shares={self.shares} must add up to 1, not {total:g}")
        by_steps = self.steps * self.batch_size if self.steps and self.batch_size else None
        if (self.steps is None) != (self.batch_size is None) or not (by_steps or self.tokens):
            raise ValueError("expected the amount of training: steps and batch_size, or tokens")
        if by_steps and self.tokens and not math.isclose(by_steps * length, self.tokens, rel_tol=TOLERATED):
            raise ValueError(
                f"tokens={self.tokens:g} contradicts steps, batch_size and shares, which make {by_steps * length:.4g}: "
                "leave tokens out"
            )
        return by_steps or (self.tokens or 0) / length


class Speed(Reading, kw_only=True):
    """Relative change of time, timed with `--measure`: interleaved rounds in this process, by length."""

    of: str
    against: str
    part: ModelPart = ModelPart.model
    training: bool = False  # forward and backward
    rate: bool = False  # the relative change of speed, not of time
    lengths: list[Count] = field(default_factory=lambda: [128])
    batch_size: Count = 1


class Score(Reading, kw_only=True):
    """Difference of two arms in a metric, over finished runs of the tracking store, paired by seed."""

    of: str
    against: str | Names  # an arm, or a list of them
    metric: str = "eval/score"
    tasks: list[str] = []  # empty: all
    needs: str = ""  # what the runs of both arms must have, such as `pretrain=mlm`
    study: str = ""  # scale, data and budget of the study that would settle it; runs of others count, too


def arms_of(against: str | list[str]) -> list[str]:
    """All arms that a score is compared with."""
    return against if isinstance(against, list) else [against]


class Published(Reading, kw_only=True):
    """A number that a paper states, with its place; nothing is measured."""

    stated: str  # arXiv id, table or section, and page
    values: Annotated[dict[str, int | float | str], Meta(min_length=1)]  # such as a split or a task: the figure, or a word
    against: dict[str, int | float] = {}  # figures that are subtracted
    rate: bool = False  # the relative change of speed, where both are times
    by: str = ""  # what the names in `values` are; one alone needs none
    unit: str = ""


class NotTestable(Reading, kw_only=True):
    """A reading that cannot be measured here."""

    reason: str


class TableScore(Reading, kw_only=True, rename={"claimed": "score"}):
    """A row of the CSV file of a published table: a score in points, against finished runs of the same weights and protocol."""

    measure: str = "table_score"
    model: str  # name on the hub
    task: str
    metric: str  # of the task, without `eval/`; of `accuracy+f1` the mean
    claimed: Annotated[float, Meta(ge=-100, le=100)]
    split: str  # whose rows are scored, validation or test
    seeds: Count
    protocol: str  # of conf/protocol/; empty: none is that of the paper
    paper: str
    table: str


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


class ClaimEntry(Shared, kw_only=True):
    """A claim as its file has it."""

    claim: str  # in our words
    conditions: str = ""  # under which the source claims it
    note: str = ""
    readings: dict[str, dict[str, Any]] = {}  # name: a kind of measuring with its keys


class ClaimFile(msgspec.Struct):
    """All claims of one source."""

    source: str
    claims: dict[str, dict[str, Any]] = {}


class Claim(msgspec.Struct, frozen=True):
    """One claim with its readings, by name; every reading has claimed value, relation, tolerance and margin."""

    name: str
    source: str
    text: str
    conditions: str
    note: str
    readings: dict[str, Reading]  # one of which decides; of a table, all scores of a model
    file: Path


def read_all(names: list[str], config_dir: str | None) -> list[Claim]:
    """Claims by name of a file, of a claim, or by path; all of both folders without names. InputError for an unknown one."""
    folders = [conf_directory(), *([Path(config_dir)] if config_dir else [])]
    places = [folder / below / CLAIMS for folder in folders for below in ("", "model")]
    paths = [path for place in places for kind in ("*.yaml", "tables/*.csv") for path in sorted(place.glob(kind))]
    is_path = {name: name.endswith((".yaml", ".yml", ".csv")) for name in names}
    candidates = [] if names and all(is_path.values()) else [claim for path in paths for claim in read(path)]
    if not names:
        return candidates
    selected = []
    for name in names:
        if is_path[name]:
            selected += read(Path(name))
            continue
        named = [claim for claim in candidates if name in (claim.name, claim.file.stem)]
        if not named:
            near = difflib.get_close_matches(name, {claim.name for claim in candidates}, n=1)
            raise unknown("claim", name, {claim.file.stem for claim in candidates}, "claims", near or None)
        selected += named
    return list({(claim.file, claim.name): claim for claim in selected}.values())


def read(path: Path) -> list[Claim]:
    """The claims of one file."""
    if path.suffix == ".csv":
        return read_table(path)
    try:
        values = _printable(path, OmegaConf.to_container(own_files.load(path)))
    except InputError:
        raise
    except (OSError, YAMLError, ValueError) as error:
        raise InputError(f"{path}: expected a YAML file of claims ({' '.join(str(error).split())})") from error
    own = {}
    if path.parent.parts[-2:] == ("model", CLAIMS):  # those that a variant carries
        own = {"of": f"model={path.stem}"}
        values = {"source": f"the variant {path.stem}"} | values
    file = _typed(path, "the file", ClaimFile, values)
    if not file.claims:
        raise InputError(f"{path}: claims: expected at least one claim, NAME: {{claim: ..., readings: ...}}")
    return [_claim(path, file.source, name, value, own) for name, value in file.claims.items()]


def _printable(path: Path, value: Any) -> Any:
    """The value, without the line break after a block of text; InputError for texts that are not printed on one line."""
    if isinstance(value, dict):
        return {_printable(path, key): _printable(path, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_printable(path, one) for one in value]
    if isinstance(value, str) and not (value := value.removesuffix("\n")).isprintable():
        raise InputError(f"{path}: {on_one_line(value, 60)!r}: expected text on one line, without control characters")
    return value


def read_table(path: Path) -> list[Claim]:
    """One claim for each model of a published table, with a reading for each of its scores."""
    try:
        table = csv.DictReader(content_of(path, LARGEST_RECORD).decode("utf-8-sig").splitlines(), strict=True)
        names, lines = table.fieldnames or (), _printable(path, [*table])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: expected a CSV file of published scores ({error})") from error
    if not lines:
        raise InputError(
            f"{path}: expected a row for each score, below model,task,metric,score,split,seeds,protocol,paper,table"
        )
    if len({*names}) < len(names):
        raise InputError(f"{path}: two columns {max(names, key=names.count)!r}: expected one")
    claims = {}
    texts: dict[str, list[str]] = {}  # of each model
    for number, line in enumerate(lines, 1):
        row = _typed(path, f"row {number}", TableScore, line, strict=False)
        if other := [name for name in row.metric.split("+") if f"eval/{name}" not in METRICS]:
            raise InputError(f"{path}: {unknown('metric', other[0], SCORE_TITLES, f'row {number}.metric')}")
        if row.split not in ("validation", "test"):
            raise InputError(f"{path}: {unknown('split', row.split, ('validation', 'test'), f'row {number}.split')}")
        if 0 < abs(row.claimed) <= 1:
            raise InputError(f"{path}: row {number}: score {row.claimed:g} looks like a share: expected points, such as 90.2")
        source, name, own = f"{row.paper}, {row.table}", f"{path.stem}-{row.model}", texts.setdefault(row.model, [])
        text = f"{row.model} on the {row.split} rows, protocol {row.protocol or 'unknown'} ({source})"
        if text not in claims:
            own.append(text)
            claims[text] = Claim(name if len(own) == 1 else f"{name}-{len(own)}", source, text, "", "", {}, path)
        if (score := f"{row.task} {row.metric}") in claims[text].readings:
            raise InputError(f"{path}: row {number}: a second score of {score} for {text}; expected one")
        claims[text].readings[score] = row
    return [*claims.values()]


def _claim(path: Path, source: str, name: str, value: dict[str, Any], own: dict[str, str]) -> Claim:
    """`own` are keys that a reading has unless it states them, as far as its kind knows them."""
    entry = _typed(path, f"claims.{name}", ClaimEntry, value)
    readings, place = {}, f"claims.{name}.readings"
    if not entry.readings:
        raise InputError(f"{path}: {place}: expected at least one reading, NAME: {{measure: ..., ...}}")
    for title, stated in entry.readings.items():
        key, kind = f"{place}.{title}", KINDS.get(str(measure := stated.get("measure")))
        if kind is None:
            raise InputError(f"{path}: {unknown('measure', measure, KINDS, f'{key}.measure')}")
        known = {each: own[each] for each in own.keys() & {*kind.__struct_fields__}}
        known |= {each: value[each] for each in Shared.__struct_fields__ if each in value}
        readings[title] = _typed(path, key, kind, known | {each: of for each, of in stated.items() if of is not None})
        try:
            _refuse_unusable(readings[title])
        except ValueError as error:
            raise InputError(f"{path}: {key}{error}") from error
    deciding = [title for title, reading in readings.items() if not reading.beside]
    if len(deciding) != 1:
        raise InputError(
            f"{path}: {place}: expected one reading that decides the claim and `beside: true` in all others, got "
            f"{len(deciding)} that decide{': ' if deciding else ''}{', '.join(deciding)}"
        )
    return Claim(name, source, entry.claim, entry.conditions, entry.note, readings, path)


def _refuse_unusable(reading: Reading) -> None:
    """ValueError for what contradicts itself, which begins with the key that is meant."""
    against = getattr(reading, "against", None)
    if isinstance(reading, NotTestable):
        return
    if isinstance(reading, PretrainingDays):
        try:
            reading.sequences()
        except ValueError as error:
            raise ValueError(f": {error}") from error
    if isinstance(reading, Published):
        if not all(_is_number(figure) or isinstance(figure, () if against else str) for figure in reading.values.values()):
            raise ValueError(f".values: expected NAME: FIGURE, all finite, not {reading.values!r}")
        if against and against.keys() != reading.values.keys():
            raise ValueError(f".against: expected the names of values, {', '.join(reading.values)}, not {against!r}")
        if len(reading.values) > 1 and not reading.by:
            raise ValueError(".by: expected what the names in values are, such as split or task")
    is_relative = reading.relation in (Relation.better, Relation.no_difference)
    signed = isinstance(reading, Score) or getattr(reading, "rate", False) or (isinstance(reading, Published) and against)
    if reading.relation is Relation.better and not signed:
        raise ValueError(
            ".relation: better applies to scores, rates and published differences: expected `rate: true`, `against` or another"
        )
    if isinstance(reading, Score) and not is_relative:
        raise ValueError(f".relation: expected better or no_difference for a score, not {reading.relation.value}")
    values = reading.claimed if isinstance(reading.claimed, list) else [reading.claimed]
    words = str if isinstance(reading, Encoded | Config | Directions | Published) else ()
    if not is_relative and not (values and all(_is_number(value) or isinstance(value, words) for value in values)):
        raise ValueError(f".claimed: expected a number, or a list of them, all finite, not {reading.claimed!r}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and Range(limit=1e100).has(value)


Shape = TypeVar("Shape", bound=msgspec.Struct)


def _typed(path: Path, key: str, shape: type[Shape], values: dict[str, Any], strict: bool = True) -> Shape:
    """The values as this class; every error names file and key."""
    names = shape.__struct_encode_fields__
    for name in values:
        if name not in names:
            of_reading = shape is ClaimEntry and any(name in kind.__struct_fields__ for kind in KINDS.values())
            near = [f"{key}.readings.NAME.{name}"] if of_reading else None
            raise InputError(f"{path}: {unknown('key', name, names, key, near)}")
    try:
        return msgspec.convert(values, shape, strict=strict)
    except msgspec.ValidationError as error:
        text = str(error).replace("$", key)
        if "enum" in text:
            text += f"; choices: {', '.join(each.value for kind in (Relation, ModelPart, MemoryPart) for each in kind)}"
        raise InputError(f"{path}: {text if key in text else f'{key}: {text}'}") from error
