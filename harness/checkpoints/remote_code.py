"""Code shipped with published weights: run only if model.remote_code gives its hash.

Its config.json names classes as `auto_map`. The hash is the commit of a hub repository; for a folder, that of its .py files,
which are kept under it, so that a run can be read without the folder and later changes there are not run.
"""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

from harness import extensions, paths
from harness.errors import InputError, refused_errors

KEY, CLASSES = "remote_code", "auto_map"
"""What a config.json and `model.options` have of it: the hash, and the classes by the names of `READ`."""

READ = ("AutoConfig", "AutoModel", "AutoModelForMaskedLM")
LARGEST = 10_000_000
REFERENCE = re.compile(r"(\w[\w.-]*/\w[\w.-]*--)?\w+\.\w+")
"""`MODULE.CLASS`, behind the repository unless it is its own folder."""


def hash_of(folder: Path) -> str:
    """The first 40 digits of the SHA-256 of the names and the contents of its .py files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        code = paths.read(file, LARGEST)
        digest.update(f"{file.name} {len(code)} ".encode() + code)
    return digest.hexdigest()[:40]


def stated(config_json: dict[str, Any], folder: Path, name: str, code: str) -> dict[str, Any]:
    """The config.json of weights that were typed as `name`, with the code to run; InputError for another hash of a folder."""
    repository, found = "" if Path(name).is_dir() else f"{name.partition('@')[0]}--", hash_of(folder)
    classes = _classes(config_json, f"model.init_from={name!r}", repository)
    if code != found and not all("--" in one for one in classes.values()):
        raise InputError(f"model.{KEY}={code}: expected {found}, the hash of the .py files of {folder}: read them first")
    copy(folder, kept(found))
    return config_json | {KEY: code, CLASSES: classes}


def part_of(options: dict[str, Any]) -> dict[str, Any]:
    """The keys that say which code is run; empty where none is."""
    return {key: options[key] for key in (KEY, CLASSES) if KEY in options}


def config_class(config_json: dict[str, Any], library: Any) -> Any:
    """The class of the config, once the library's AutoModel and others make its models.

    InputError where no command says that this code may run, and for code that is not there, or cannot be imported.
    """
    code, said = str(config_json[KEY]), f"model.{KEY}={config_json[KEY]}"
    classes = _classes(config_json, said)
    repository = classes["AutoModel"].rpartition("--")[0]
    extensions.refuse_unnamed(said, repository or "a folder", code)
    if repository and (Path(repository).is_dir() or not re.fullmatch("[0-9a-f]{40}", code)):  # the library prefers the folder
        expected = f"40 hexadecimal digits, the commit of {repository} whose code you have read, and no folder of its name here"
        raise InputError(f"{said}: expected {expected}")
    if not repository and hash_of(kept(code)) != code:
        raise InputError(f"{said}: {kept(code)} does not have this code: add model.init_from=FOLDER, which has it, once")
    find = library.dynamic_module_utils.get_class_from_dynamic_module
    with refused_errors(f"{said} cannot be imported"):
        config, *models = (find(one, str(kept(code)), code_revision=code) for one in classes.values())
        for auto, model in zip(READ[1:], models, strict=False):
            getattr(library, auto).register(config, model, exist_ok=True)
    return config


def kept(code: str) -> Path:
    """The folder in which a checkpoint keeps the code."""
    cache: str = extensions.library("huggingface_hub.constants", "hub").HF_HOME
    return Path(cache, "harness", code)


def copy(source: Path, target: Path) -> None:
    """Copies the code of a folder to another one."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.py"):
        shutil.copyfile(file, target / file.name)


def _classes(config_json: dict[str, Any], said: str, repository: str = "") -> dict[str, str]:
    """By the names that are read; InputError for other ones than classes of the repository, or of one that they name."""
    named = config_json.get(CLASSES)
    classes = {auto: str(named[auto]) for auto in READ if auto in named} if isinstance(named, dict) else {}
    repositories, are_names = {one.rpartition("--")[0] for one in classes.values()}, map(REFERENCE.fullmatch, classes.values())
    if not {*READ[:2]} <= classes.keys() or len(repositories) > 1 or not all(are_names):
        said += f": expected a config.json whose {CLASSES} names MODULE.CLASS for {READ[0]} and {READ[1]}, both of one place"
        raise InputError(said)
    return {auto: one if "--" in one else f"{repository}{one}" for auto, one in classes.items()}
