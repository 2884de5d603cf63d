"""The private words of `words.yaml` do not come back: in strings and docstrings, pages, comments of settings, and templates."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CODE = ("conf", "harness", "models", "plugins", "reports")
LISTS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text("utf-8"))
WORDS = {re.compile(words.replace(" ", r"\s+"), re.IGNORECASE): instead for words, instead in LISTS["words"].items()}
NO_PROSE = re.compile(r"^```text\n(?s:.*?)^```|`[^`\n]*`|\{[{%].*?[%}]\}|^[ \t-]*[\w./-]+ *[:=](?= )", re.MULTILINE)
COMMENT = re.compile(r"# .*")


def _of_code(text: str) -> Iterator[tuple[int, str]]:
    """First line and text of each string and docstring; the fields of f-strings are left out."""
    tree = ast.parse(text)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in parts:
            yield node.lineno, node.value


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        yield from _of_code(text)
    if path.name == "schema.py" or path.is_relative_to(ROOT / "conf"):
        yield from ((number, words[0]) for number, line in enumerate(text.splitlines(), 1) if (words := COMMENT.search(line)))
    elif path.suffix != ".py":
        yield 1, text


def _files() -> Iterator[Path]:
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".html", ".jinja", ".py", ".toml", ".yaml") and not {"tests", "examples"} & {*path.parts}:
                yield path


def findings(path: Path) -> list[str]:
    """`FILE:LINE: 'words': write ...` for each private word in the file."""
    return sorted(
        f"{path.relative_to(ROOT)}:{line + prose.count(chr(10), 0, match.start())}: {match[0]!r}: write {instead}"
        for line, text in _prose(path)
        for prose in [NO_PROSE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)]
        for words, instead in WORDS.items()
        for match in words.finditer(prose)
    )


def test_no_private_words() -> None:
    found = [finding for path in _files() if str(path.relative_to(ROOT)) not in LISTS["not_yet"] for finding in findings(path)]
    assert not found, "\n".join(found)


def test_a_private_word_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "one.py").write_text(
        '"""Fine."""\nx = f"{torn} was\nleft `torn`"\ny = """a\n  torn file"""\n'.replace("was\n", "was ")
    )
    assert findings(tmp_path / "one.py") == ["one.py:4: 'torn': write corrupt"]
