"""Writes tests/versions.lock, the content of each part of `harness.versions` by hash: `make versions`."""

import ast
import hashlib
import json
from pathlib import Path

from harness.versions import FILES, VERSIONS

ROOT = Path(__file__).parents[1]
LOCK = Path(__file__).with_name("versions.lock")


def content(files: dict[str, str]) -> str:
    """Hash of these sources, by path; comments, layout and docstrings do not count."""
    return hashlib.sha256(
        "\n".join(f"{path} {_code(text) if path.endswith('.py') else text}" for path, text in sorted(files.items())).encode()
    ).hexdigest()


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [one for one in node.body if not _is_docstring(one)]
    return ast.dump(tree)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def locked() -> dict[str, dict[str, int | str]]:
    """Part -> its version and the hash of its files, as they are now."""
    files = {part: {p.relative_to(ROOT).as_posix() for glob in FILES[part] for p in ROOT.glob(glob)} for part in VERSIONS}
    return {
        part: {"version": version, "content": content({path: (ROOT / path).read_text("utf-8") for path in files[part]})}
        for part, version in VERSIONS.items()
    }


if __name__ == "__main__":
    LOCK.write_text(json.dumps(locked(), indent=2) + "\n")
    print(f"wrote {LOCK.relative_to(ROOT)}: {', '.join(f'{part} {version}' for part, version in VERSIONS.items())}")
