"""Links of the pages lead somewhere, pages that code names exist, and what is read first is short."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def dead_links(page: Path, text: str) -> list[str]:
    """Relative links of a page to no file, or to no heading of theirs."""
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"\w+:", link) or (target.exists() and (not anchor or anchor in anchors(target))):
            continue
        dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert dead_links(page, page.read_text()) == []


def test_a_link_to_no_file_and_one_to_no_heading_are_found():
    text = "[a](docs/nowhere.md) [b](README.md#nothing) [c](#install) [d](https://arxiv.org/abs/1810.04805)"
    assert dead_links(ROOT / "README.md", text) == ["docs/nowhere.md", "README.md#nothing"]


@pytest.mark.long
def test_pages_that_code_names_exist():
    sources = [path for folder in ("conf", "harness", "models", "reports") for path in (ROOT / folder).rglob("*.*")]
    named = {
        name
        for path in sources
        if path.suffix in (".py", ".yaml")
        for name in re.findall(r"\bdocs/[\w/]+\.md\b", path.read_text())
    }
    assert "docs/recipes.md" in named
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_every_promise_on_security_names_tests_that_exist():
    """A file, or a function of the file that is named last."""
    promised = (ROOT / "docs" / "security.md").read_text().partition("## What is promised")[2].partition("## What is not")[0]
    rows = [line.split("|")[2] for line in promised.splitlines() if line.startswith("| ") and "`test" in line]
    assert len(rows) > 8
    files = [path for folder in ("tests", "plugins") for path in (ROOT / folder).rglob("test_*.py")]
    sources = "".join(path.read_text() for path in files)
    for name in re.findall(r"`((?:plugins/\w+/)?tests?[\w/.:]+)`", "".join(rows)):
        file, _, function = name.rpartition("::") if "::" in name else (name, "", "") if "/" in name else ("", "", name)
        assert not file or (ROOT / file).is_file(), name
        assert not function or f"def {function}(" in (sources if not file else (ROOT / file).read_text()), name


def test_every_page_is_linked_from_the_readme_or_from_a_page_that_it_links():
    linked = {PAGES[0]}
    for _ in range(2):
        for page in list(linked):
            targets = re.findall(r"\]\(([^)#\s]+\.md)[#)]", page.read_text())
            linked |= {target for one in targets if (target := (page.parent / one).resolve()).is_file()}
    assert set(PAGES) <= linked


def test_what_is_read_first_is_short():
    read = re.sub(r"<!-- .* -->|\]\([^)]*\)", "", (ROOT / "README.md").read_text())  # comments and addresses are not shown
    assert sum(any(map(str.isalnum, word)) for word in read.split()) <= 700
    assert len((ROOT / "docs" / "use.md").read_text().splitlines()) <= 200
    for folder in ("guides", "concepts"):
        assert all(len(page.read_text().splitlines()) <= 60 for page in (ROOT / "docs" / folder).glob("*.md"))
