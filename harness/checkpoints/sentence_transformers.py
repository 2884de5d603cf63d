"""Folders of Sentence Transformers (arXiv:1908.10084): `modules.json` lists the encoder, how it is pooled, and what follows."""

from pathlib import Path, PurePosixPath
from typing import Any

from harness.checkpoints.native import json_of
from harness.errors import InputError
from harness.models.config import Pooling

KEY = "model.init_from"
"""The key that names a folder whose vectors are read."""

MODULES, POOLING, SETTINGS = "modules.json", "*/config.json", "config_sentence_transformers.json"
READINGS = [
    f"sentence_{kind}_config.json" for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
]
"""How texts are cut, of which the first that is there is read."""
FILES = [MODULES, POOLING, SETTINGS, *READINGS]

OWN = "sentence_transformers."
"""What the types of its modules begin with; others are code of the folder."""

POOLINGS = {"cls": Pooling.cls, "mean": Pooling.mean, "max": Pooling.max, "lasttoken": Pooling.last}
POOLINGS |= {"mean_sqrt_len": Pooling.mean}  # another length of the same direction
"""What `pooling_mode` names -> ours, where vectors have length 1."""

COSINE = ("cosine", None)

PLAIN: dict[str, Any] = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}
"""Settings next to `max_seq_length` of an encoder whose last hidden states are pooled."""


def encoder_folder(root: Path, key: str) -> Path:
    """The folder of the encoder, which is the first module; `root` where there are no modules."""
    modules = _modules(root, key)
    return root / modules[0][1] if modules else root


def pooling_of(root: Path) -> Pooling | None:
    """The pooling that makes vectors of texts; None if the folder lists no modules.

    InputError for anything but one pooled vector that is compared by cosine.
    """
    modules = _modules(root, KEY)
    if not modules:
        return None
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise InputError(
            f"{KEY}: {root / MODULES}: the modules {', '.join(kinds)} are not supported: expected Transformer and Pooling, "
            "optionally Normalize"
        )
    path = root / modules[1][1] / "config.json"
    if not path.is_file():
        raise InputError(f"{KEY}: {path}, which {MODULES} names, is missing: it says how vectors are pooled")
    settings = json_of(path, KEY)
    stated = settings.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for name, value in settings.items()
        if name.startswith("pooling_mode_") and value is True
    ]
    (mode, *more) = [
        str(name).removesuffix("_tokens") for name in (stated if isinstance(stated, list) and stated else [stated or "none"])
    ]
    if more or mode not in POOLINGS:
        raise InputError(
            f"{KEY}: {path}: pooling by {' and '.join([mode, *more])} is not supported: expected one of {', '.join(POOLINGS)}"
        )
    reading, reads = _reading(root / modules[0][1])
    if reads.get("do_lower_case"):
        raise InputError(f"{KEY}: {reading}: do_lower_case=true is not supported: set it in tokenizer_config.json")
    for name, value in reads.items():
        if value and name not in ("max_seq_length", "unpad_inputs") and value != PLAIN.get(name):
            raise InputError(f"{KEY}: {reading}: {name}={value!r:.60} is not supported: leave it out")
    path = root / SETTINGS
    settings, prompts = _settings(root)
    similarity = settings.get("similarity_fn_name")
    if prompt := prompts.get(str(settings.get("default_prompt_name"))):
        raise InputError(
            f"{KEY}: {path}: the default prompt {prompt!r} before every text is not supported: set default_prompt_name to null"
        )
    if width := settings.get("truncate_dim"):
        raise InputError(f"{KEY}: {path}: truncate_dim={width!r} is not supported: vectors are compared whole; set it to null")
    if similarity not in COSINE and (similarity, len(kinds)) != ("dot", 3):
        raise InputError(
            f"{KEY}: {path}: similarity_fn_name={similarity!r} is not supported: vectors are compared by cosine here"
        )
    return POOLINGS[mode]


def prompts_of(root: Path) -> list[str]:
    """Names of the prompts that the folder states for some texts, such as queries."""
    return sorted(name for name, prompt in _settings(root)[1].items() if prompt)


def _settings(root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """And the prompts among them, by name; InputError for prompts of another form."""
    path = root / SETTINGS
    settings = json_of(path, KEY) if path.is_file() else {}
    prompts = settings.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise InputError(f"{KEY}: {path}: expected prompts by name, got {prompts!r:.60}")
    return settings, prompts


def longest_text(root: Path) -> int | None:
    """Maximum tokens per text; None if the folder states none."""
    limit = _reading(encoder_folder(root, KEY))[1].get("max_seq_length")
    return limit if isinstance(limit, int) else None


def _reading(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file that says how texts are cut, and what it says; empty without one."""
    path = next((folder / name for name in READINGS if (folder / name).is_file()), folder)
    return path, json_of(path, KEY) if path != folder else {}


def _modules(root: Path, key: str) -> list[tuple[str, str]]:
    """Kind and folder of each module, in their order; InputError for a folder outside of `root`."""
    path = root / MODULES
    if not path.is_file():
        return []
    modules = json_of(path, key, list)
    try:
        found = [(str(module["type"]), str(module["path"])) for module in modules]
    except (TypeError, KeyError) as error:
        raise InputError(f"{key}: {path} must list modules with type and path") from error
    for _, folder in found:
        if PurePosixPath(folder).is_absolute() or ".." in PurePosixPath(folder).parts:
            raise InputError(f"{key}: {path}: path={folder!r} is outside of the folder")
    return [(kind.rpartition(".")[2] if kind.startswith(OWN) else kind, folder) for kind, folder in found]
