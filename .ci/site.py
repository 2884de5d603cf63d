"""Gives the site of `mkdocs build` the paths of the repository: its pages, what they link to, and a page of all keys."""

import os
import re
import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from harness.config.help import GROUPS
from harness.config.keys import known_keys, page_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"\]\(([^)#\s:]+)[^)]*\)")
BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
COMMENTED = re.compile(r"^    (\S(?:.|\\\n)*?) {2,}# (.*)\n", re.MULTILINE)
FITS = 100
"""Characters of a command with its comment that fit beside the contents."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The theme's files, the pages, and what is linked from these, also by several steps."""
    tracked = set(subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n"))
    waiting = [*PAGES, *sorted(name for name in tracked if name.startswith("docs/"))]
    paths = set()
    while waiting:
        path = waiting.pop()
        if path in paths:
            continue
        paths.add(path)
        if path.endswith(".md"):
            links = ((ROOT / path).parent / link for link in LINK.findall((ROOT / path).read_text(encoding="utf-8")))
            targets = (link.resolve().relative_to(ROOT).as_posix() for link in links if link.resolve().is_relative_to(ROOT))
            waiting.extend(target for target in targets if target in tracked)
    own = [File(path, str(ROOT), config.site_dir, use_directory_urls=False) for path in sorted(paths)]
    own.append(File.generated(config, "docs/keys.md", content=keys()))
    return Files([*(file for file in files if file.src_dir != config.docs_dir), *own])


def on_page_markdown(markdown: str, **_: object) -> str:
    """Comments above the commands of a block where one would wrap beside its command; outputs, whose lines stay whole."""

    def above(block: re.Match[str]) -> str:
        wraps = any(max(map(len, one[0].splitlines())) > FITS for one in COMMENTED.finditer(block[0]))
        parts = COMMENTED.sub(r"\n    # \2\n    \1\n\n", block[0])
        return re.sub(r"\n{3,}", "\n\n", parts).strip("\n") + "\n" if wraps else block[0]

    return BLOCK.sub(above, markdown).replace("```text\n", "```output\n")


def keys() -> str:
    """Every group and section of keys, as `--help` prints it."""
    os.environ["COLUMNS"] = "80"
    topics = dict.fromkeys([*GROUPS, *(key.partition(".")[0] for key in known_keys())])
    pages = "".join(f"\n## {topic}\n\n```text\n{page_of(topic)}\n```\n" for topic in topics)
    return f"# Keys\n\nWhat `python -m harness --help GROUP` prints of each group. Type `GROUP.KEY=VALUE`.\n{pages}"
