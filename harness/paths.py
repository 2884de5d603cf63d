"""Paths: the shipped configuration, and results below `output`."""

import contextlib
import fcntl
import glob
import hashlib
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import InputError, on_one_line

PRETRAINED = "pretrained"
"""Folder of all pretrainings, which studies share."""

WEIGHTS = "checkpoint"
"""In the folder of a run: its final weights."""

KEPT = "kept"
"""In the folder of a pretraining: intermediate weights, each in a folder of its own."""

SHAPE = "model.json"
"""In a native checkpoint: the shape of the model."""

CHECKPOINTS = "checkpoints"
"""In the folder of an unfinished run: checkpoints to resume from."""

MARK = ".made-by-harness"
"""In `output`, each cache folder and each timing session: marks a folder that the harness made."""

PLAN = "plan.json"
"""In the folder of a study: the newest plan of each of its commands."""

OF_TRIALS = "-search"
"""Suffix of the study that holds another one's search trials."""

SESSION = "session.json"
"""In the folder of a timing session: what it times, and whether that was added to the runs."""

LOCK, WORKER_LOCK, TRACKING_LOCK = ".lock", ".worker.lock", ".tracking.lock"
"""In the folder of a run: held by the command that runs it, by the worker as long as it writes there, and by a process that
looks for the run in a tracker and adds it."""

RESERVED = (PRETRAINED, "cache", "sessions", "reports", "artifacts", "audit", "tensorboard", "wandb", "mlflow.db")
"""Reserved names in `output`, which no study can have."""

CLAIMS = "claims"
"""Folder of claims, below conf/ and below a folder of the user; no group of choices."""

LARGEST_RECORD = 1 << 24
"""Bytes of the largest record of a run; JSON takes up to 25 times as much memory as it has bytes."""

LARGEST_LOG = 1 << 30
"""Bytes of the largest log of a run, and of its timing: a line for each point of a curve."""

LARGEST_HEADER = 1 << 24
"""Bytes of the largest list of tensors before their values, for more than 100,000 of them."""

LARGEST_PLAN = 1 << 26
"""Bytes of the largest plan of a study, which has a command for each run."""

TABLES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
"""Endings of files with a row of named values for each text."""

WORDS = (".conll", ".conllu", ".iob", ".bio")
"""Endings of files with a word and its tag on a line, and a blank line after each sentence."""


def ending(path: Path) -> str:
    """`.csv` of a.csv, A.CSV and a.csv.gz."""
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def at_home(text: str) -> str:
    """`key=/home/me/runs` of `key=~/runs`: a shell expands `~` at the beginning of a word alone."""
    return re.sub(r"(^|(?<=[=,['\"]))~(?=/|$)", lambda _: os.path.expanduser("~"), text)


def conf_directory() -> Path:
    """`conf/`, next to the package in a checkout and inside it in a wheel."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def named(folder: Path, *names: object) -> Path:
    """The path below a folder of untrusted names: tags, records, plans. InputError for one that leads elsewhere."""
    for name in names:
        if not isinstance(name, str) or not name.isprintable() or name in ("", ".", "..") or {*name} & {*"/\\"}:
            raise InputError(f"{str(name)!r} is not the name of a file or folder in {folder}: expected a name without slashes")
    return folder.joinpath(*map(str, names))


def is_linked(path: Path, root: Path) -> bool:
    """Whether the path, or a folder between it and the root, is a link: what it names may be anywhere."""
    parts = path.relative_to(root).parts
    return any(root.joinpath(*parts[: count + 1]).is_symlink() for count in range(len(parts)))


def opened(path: Path, most: int) -> BinaryIO:
    """A regular file of at most `most` bytes, open for reading; InputError for another, such as a FIFO, which may never end.

    OSError where there is none. Links are followed: `is_linked` tells them.
    """
    name = on_one_line(str(path))
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may already do something
        raise InputError(f"{name!r} is not a regular file: expected one of at most {most:,} bytes")
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if (size := os.fstat(file.fileno()).st_size) > most:
        file.close()
        raise InputError(f"{name!r} has {size:,} bytes: expected at most {most:,}")
    return file


def read(path: Path, most: int) -> bytes:
    """Content of a regular file of at most `most` bytes; errors as of `opened`, also where the file grows meanwhile."""
    with opened(path, most) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{on_one_line(str(path))!r} has over {most:,} bytes: expected at most {most:,}")
    return content


def read_object(path: Path, kind: type = dict) -> Any:
    """The JSON object, or list, in a regular file of at most LARGEST_RECORD bytes; InputError, with the path, for others."""
    return object_of(read(path, LARGEST_RECORD), path, kind)


def object_of(content: bytes, path: Path, kind: type = dict) -> Any:
    """The JSON object, or list, of this content; InputError, with its path, for any other."""
    try:
        values = json.loads(content, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, numbers of thousands of digits; nested too deep
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, kind):
        raise InputError(f"{path} must hold {'an object' if kind is dict else 'a list'}")
    return values


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; ValueError for a key that it has twice, whose first value would be lost."""
    if len(values := dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"two keys {on_one_line(max(names, key=names.count), 60)!r} in one object")
    return values


def not_a_link(path: str, flags: int) -> int:
    """Opener of `open` for a file that is added to: OSError if it is a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of the path after the block; where the block fails, nothing of it is left.

    What killed processes left half-written for this path is removed.
    """
    with _unfinished(path, os.O_RDWR | os.O_CREAT) as (temporary, file):
        yield temporary
        os.fsync(file)
        temporary.replace(path)


@contextlib.contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """As `replaced`, a new folder, which gets this name after the block."""
    _temporary(folder).mkdir(parents=True, exist_ok=True)
    with _unfinished(folder, os.O_RDONLY) as (building, _):
        yield building
        for path in below(building):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file)
        building.rename(folder)


@contextlib.contextmanager
def _unfinished(path: Path, flags: int) -> Iterator[tuple[Path, int]]:
    """The temporary file or folder of the path, open with these flags, and its descriptor.

    It is locked for as long as its process lives, by which others know those of killed ones.
    """
    temporary = _temporary(path)
    file = os.open(temporary, flags, 0o666)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        for other in path.parent.glob(f".{glob.escape(path.name)}.*"):
            if other != temporary and other.suffix[1:].isdigit() and not other.is_symlink():
                _remove_abandoned(other)
        yield temporary, file
    finally:
        os.close(file)
        _remove(temporary)


TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)")
"""Name of a file or folder while a process writes it: a dot, its later name, the process id."""


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _remove_abandoned(path: Path) -> None:
    """Removes it where no process has locked it."""
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(file)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # as that of a block that writes it, which is the one to say
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def made(folder: Path) -> Path:
    """The folder, which is made where it does not exist, with the mark of the harness in it; InputError for a link as mark."""
    folder.mkdir(parents=True, exist_ok=True)
    if (mark := folder / MARK).is_symlink():
        raise InputError(f"{on_one_line(str(mark))!r} is a symbolic link, which is not followed: remove it")
    if not mark.exists():
        mark.write_text("Made by encoder-variant-harness: `python -m harness clean` may remove what no run needs.\n")
    return folder


@contextlib.contextmanager
def in_use(output: Path, alone: bool = False, begins: bool = False) -> Iterator[None]:
    """While the block runs, no `clean` removes anything below this folder of results; one that does is waited for.

    `alone`: the block removes; BlockingIOError where another command uses the folder. Only one with a mark is kept.
    `begins`: a folder that is not there is made.
    """
    with contextlib.ExitStack() as stack:
        while begins or (output / MARK).exists():
            with contextlib.suppress(FileNotFoundError):  # another command has just removed what it had made
                mark = stack.enter_context(opened((made(output) if begins else output) / MARK, LARGEST_RECORD))
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(mark.fileno()), os.stat(output / MARK)):
                    break
        yield


@contextlib.contextmanager
def begun(output: Path) -> Iterator[None]:
    """As `in_use`, of a folder that is made where there is none; where the block writes nothing to it, nothing of it stays,
    unless another command uses it.
    """
    output = output.absolute()
    above = next(folder for folder in (output, *output.parents) if folder.exists())
    is_new = not (output / MARK).exists()
    try:
        with in_use(output, begins=True):
            yield
    finally:
        with contextlib.suppress(BlockingIOError), in_use(output, alone=True) if is_new else contextlib.nullcontext():
            if is_new and [path for path in below(output) if path.suffix != ".lock" and not path.is_dir()] == [output / MARK]:
                (output / MARK).unlink()
                with contextlib.suppress(OSError):  # locks are left in it
                    for folder in itertools.takewhile(lambda folder: folder != above, (output, *output.parents)):
                        folder.rmdir()


def is_ours(output: Path) -> bool:
    """Whether it is an `output` of the harness: by a mark, or, where it was made without one, by a plan or record of ours."""
    if (output / MARK).is_file() or any(output.glob(f"cache/*/{MARK}")):
        return True
    return any(map(planned, output.glob(f"*/{PLAN}"))) or any(map(is_record, matching(output, "*/*/run.json")))


def is_record(path: Path) -> bool:
    """Whether the file is a record of a run."""
    return {"attempt", "tags", "parameters", "inputs"} <= {*object_or_empty(path)}


def planned(path: Path, study: str = "") -> list[str]:
    """Names of the folders of a study, by default its own, that this plan lists; none if it is not a plan of ours."""
    plans = [one for one in object_or_empty(path).values() if isinstance(one, dict) and {"time", "folder", "runs"} <= {*one}]
    entries = (entry for plan in plans if isinstance(plan["runs"], list) for entry in plan["runs"])
    places = (Path(entry["folder"]) for entry in entries if isinstance(entry, dict) and isinstance(entry.get("folder"), str))
    return [place.name for place in places if place.parts[:-1] == (study or path.parent.name,)]


def object_or_empty(path: Path) -> dict[str, object]:
    """The JSON object in the file; empty for anything else."""
    try:
        return dict(object_of(read(path, LARGEST_PLAN), path))
    except (OSError, InputError):
        return {}


def cache_folder(output: str) -> Path:
    """The folder of tokenised data, keyed by content."""
    return Path(output).absolute() / "cache"


def data_folder(output: str, key: str) -> Path:
    """The folder of prepared data."""
    return named(cache_folder(output), key)


def run_folder(output: str, study: str, name: str) -> Path:
    """The folder of a run; `name` is made safe for any file system."""
    return named(Path(output).absolute(), study, file_name(name))


def file_name(text: str) -> str:
    """The text as a file name, with unusual characters replaced."""
    return re.sub(r"[^A-Za-z0-9_.+@-]+", "_", text)


def study_folder(output: str, study: str) -> Path:
    """The folder of a study: its runs, plan and log."""
    return named(Path(output).absolute(), study)


def planned_folder(output: str, place: str) -> Path:
    """The folder of a run as a plan names it, `STUDY/RUN`."""
    return named(Path(output).absolute(), *str(place).split("/"))


def run_name(names: Iterable[str], fingerprint: str) -> str:
    """Name of a run's folder: what it is, and the beginning of its fingerprint."""
    return "-".join([*names, fingerprint[:8]])


def pretrained_weights(folder: Path, tokens: float | None) -> Path:
    """The weights of a pretraining, kept after so many tokens, or at its end."""
    return folder / WEIGHTS if tokens is None else folder / KEPT / f"tokens-{tokens:.0f}"


def sessions_folder(output: str) -> Path:
    """The folder of all timing sessions."""
    return Path(output).absolute() / "sessions"


def audit_file(output: str) -> Path:
    """The file with the verdicts of the last audit, which the report shows."""
    return Path(output).absolute() / "audit" / "audit.json"


def report_folder(output: str, study: str) -> Path:
    """The report on a study, where `python -m reports` writes it by default.

    Unusual characters of its name are replaced, and a hash of the name is added, so that no two studies share the folder.
    """
    name = re.sub(r"[^\w.-]|^\.+", "_", study)
    unique = "" if name == study else f"-{hashlib.sha256(study.encode()).hexdigest()[:8]}"
    return Path(output).absolute() / "reports" / f"{name}{unique}"


def report_stamp(output: str, study: str) -> Path:
    """The file next to the report's folder that says from which runs a sweep made it."""
    folder = report_folder(output, study)
    return folder.with_name(f".{folder.name}.json")


def timing_lock(output: str) -> Path:
    """Lock for timing, so that concurrent runs do not disturb each other's measurements."""
    return Path(output).absolute() / ".timing.lock"


def database_uri(output: str) -> str:
    """The default tracking store; absolute, because the default of MLflow depends on the working directory."""
    return f"sqlite:///{Path(output).absolute() / 'mlflow.db'}"


def artifact_folder(output: str) -> Path:
    """The default folder of tracked files."""
    return Path(output).absolute() / "artifacts"


def share(*files: Path) -> None:
    """Gives files the permissions of their folders: safetensors makes them for their owner alone, whatever the umask."""
    for file in files:
        file.chmod(file.parent.stat().st_mode & 0o666)


def below(folder: Path) -> list[Path]:
    """All files and folders below it, sorted, also while others are made and removed: what has gone is left out.

    `Path.rglob` fails where a folder goes while it is read.
    """
    return sorted(Path(root, name) for root, folders, files in os.walk(folder) for name in (*folders, *files))


def matching(folder: str | Path, pattern: str) -> list[Path]:
    """The paths that match, sorted and absolute, without hidden ones; as in `below`, what has gone meanwhile is left out."""
    return [Path(folder, name).absolute() for name in sorted(glob.iglob(pattern, root_dir=folder))]
