"""Gives the site of `mkdocs build` the paths of the repository: its pages, and every file that they link to."""

import re
import subprocess
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"\]\(([^)#\s:]+)[^)]*\)")


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
    return Files([*(file for file in files if file.src_dir != config.docs_dir), *own])
