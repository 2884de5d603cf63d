"""The report as one page that loads nothing, made from its Markdown: tables sort, pictures are in the text, detail folds."""

import base64
import hashlib
import html
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it.tree import SyntaxTreeNode

from harness.reports.html.picture import dark_rules, inline
from harness.reports.writing import markdown
from harness.reports.writing.formats import MINUS, PREFIXES, SCALED
from harness.reports.writing.tables import MARKS

_NUMBER = rf"[+\-{MINUS}]?\d[\d,]*(?:\.\d+)?"
_LETTERS = "".join(letter for _, letter in PREFIXES)
_UNITS = "|".join(sorted((re.escape(unit) for unit in SCALED.values() if unit), key=len, reverse=True))
LEADING = re.compile(
    rf"(?:[≤≥<>×↑↓≈~]\s*)*(?P<number>{_NUMBER})"  # `≤ 12.3`, `× ≥ 1.20`
    rf"(?:\s±\s{_NUMBER})?(?:\s\[[^\]]*\])?"  # ` ± 0.4`, ` [−2.3, +35.2]`
    rf"(?:\s(?P<prefix>[{_LETTERS}])(?P<scaled>{_UNITS})?)?(?![\w.:/-])"  # ` MB`, ` k`; nothing that makes it a date or a name
)


def sort_value(text: str) -> float | None:
    """`45.6 ± 0.3 MB` -> 45.6e6, `−12.3 % ▲ better` -> -12.3; None for a text that begins with no number."""
    match = LEADING.match(text.strip())
    if match is None:
        return None
    number = float(match["number"].replace(MINUS, "-").replace(",", ""))
    return number * next((factor for factor, letter in PREFIXES if letter == match["prefix"]), 1.0)


UNIT = re.compile(r"\s?([%\w/×]+)")
"""What is written behind a number that has no prefix."""


def unit_of(text: str) -> str | None:
    """`45.6 ± 0.3 MB` -> B, `1 seed` and `3 seeds` -> seed, `0.81` -> nothing; None for a text that begins with no number."""
    match = LEADING.match(text.strip())
    if match is None or match["prefix"]:
        return match and (match["scaled"] or "")
    word = UNIT.match(text.strip()[match.end() :])
    return re.sub(r"(?<=\w\w)s$", "", word[1]) if word else ""


FOLDED_CELLS = 60
"""A part of a chapter folds if it has a table of more cells; those of what the report opens with always do."""
FOLDED_ITEMS = 8
"""A list of more items folds, but for what the report opens with: its findings."""
LONG_LINE = 32
"""A longer line of a cell is broken at any space; a number in a shorter one before its verdict alone."""
VERDICTS = {"▲": "better", "▼": "worse"}
"""Mark of a verdict that is supported -> class of its cell."""
NO_BREAK = "\u00a0"
PERCENT = re.compile(r"(?<=[\d\]]) (?=%)")
_MARKS = "".join(mark[0] for mark in MARKS.values())
GLUED = re.compile(rf"(<[^>]*>)| (?![{_MARKS}] )")
"""A space that is not before a verdict in words; or a tag, whose spaces stay."""
AFTER_MARK = re.compile(rf"(<[^>]*>)|(?<=[{_MARKS}]) ")
PICTURE = "Picture: {}. Arrow keys read its values one by one."


@dataclass
class Page:
    """What a page is made of, and what was counted while making it: no two elements share an id or a name."""

    files: Mapping[str, bytes]
    folded: frozenset[str] = frozenset()  # titles of parts
    chapters: list[tuple[str, str]] = field(default_factory=list)  # (title, id)
    ids: set[str] = field(default_factory=set)
    tables: int = 0
    pictures: int = 0

    def name_of(self, title: str) -> str:
        """An id for this heading."""
        stem = name = re.sub(r"[\W_]+", "-", title.lower()).strip("-") or "part"
        number = 1
        while name in self.ids:
            number += 1
            name = f"{stem}-{number}"
        self.ids.add(name)
        return name


def body(text: str, page: Page) -> str:
    """HTML of the report's Markdown, whose pictures are among the page's files."""
    parts: list[list[SyntaxTreeNode | None]] = [[None]]  # each begins with its heading
    for block in markdown.blocks(text):
        parts += [[]] if block.type == "heading" else []
        parts[-1].append(block)
    texts, title, end = [], "", ""
    for head, *rest in parts:
        title = markdown.plain(head) if head else title
        inner = "".join(_block(page, title, *pair) for pair in _captioned(rest))
        if head:
            tables = [markdown.table(block) for block in rest if block.type == "table"]
            is_large = any(len(table.header) * len(table.rows) > FOLDED_CELLS for table in tables)
            # parts of a chapter that are detail or have a large table, and all parts of what the report opens with
            folds = title in page.folded or (head.tag > "h2" and (is_large or not page.chapters))
            name = page.name_of(title)
            page.chapters += [(title, name)] if head.tag == "h2" else []
            heading = f'<{head.tag} id="{name}">{markdown.to_html(head.children)}</{head.tag}>'
            inner = f"<details><summary>{heading}</summary>\n{inner}" if folds else f"{heading}\n{inner}"
            if head.tag > "h2":
                inner += "</details>\n" * folds
            else:  # a chapter that folds has all of its parts
                inner, end = f"{end}{inner}", "</details>\n" * folds
        texts.append(inner)
    return PERCENT.sub(NO_BREAK, "".join([*texts, end]))


def _captioned(blocks: Sequence[SyntaxTreeNode]) -> Iterator[tuple[SyntaxTreeNode, SyntaxTreeNode | None]]:
    """Each block; of a picture with the paragraph below it that is its caption."""
    is_caption = False
    for block, after in itertools.zip_longest(blocks, blocks[1:]):
        was_caption, image = is_caption, _image(block)
        is_caption = bool(image and after and markdown.plain(after) == f"{image.content}.")
        if not was_caption:
            yield block, after if is_caption else None


def _image(block: SyntaxTreeNode) -> SyntaxTreeNode | None:
    """The picture that is all of this paragraph."""
    parts = block.children[0].children if block.type == "paragraph" else []
    return parts[0] if len(parts) == 1 and parts[0].type == "image" else None


def _block(page: Page, title: str, block: SyntaxTreeNode, caption: SyntaxTreeNode | None) -> str:
    image = _image(block)
    if image and image.attrs["src"] in page.files:
        return _figure(page, image, caption)
    if block.type == "table":
        return _table(page, title, markdown.table(block))
    text = markdown.to_html([block])
    if block.type == "bullet_list" and len(block.children) > FOLDED_ITEMS and page.chapters:
        names = re.findall(r"<li>\s*(?:<p>)?<strong>(.*?)</strong>", text)  # `12 items: study, newest run, baseline, ...`
        summary = f"{len(block.children)} items" + (f": {', '.join(names)}" if names else "")
        return f"<details><summary>{summary}</summary>\n{text}</details>\n"
    return text


def _figure(page: Page, image: SyntaxTreeNode, caption: SyntaxTreeNode | None) -> str:
    page.pictures += 1
    picture = inline(page.files[image.attrs["src"]], f"p{page.pictures}", image.content)
    below = f"<figcaption>{html.escape(markdown.plain(caption))}</figcaption>\n" if caption else ""
    return f"<figure>\n{_box(PICTURE.format(image.content), picture)}{below}</figure>\n"


def _box(name: str, inner: str) -> str:
    """A named part of the page that scrolls."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{html.escape(name)}">{inner}</div>\n'


def _table(page: Page, title: str, table: markdown.Table) -> str:
    page.tables += 1
    mixed = [_is_mixed([row[index] for row in table.rows]) for index in range(len(table.header))]
    heads = "".join(
        f'<th scope="col"{_class(cell)}{" data-mixed" * one}>{markdown.to_html(cell.children)}</th>'
        for cell, one in zip(table.header, mixed, strict=True)
    )
    rows = "\n".join(f"<tr>{''.join(_cell(index, cell) for index, cell in enumerate(row))}</tr>" for row in table.rows)
    inner = f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    return _box(f"Table {page.tables}: {title}", inner)


def _is_mixed(column: list[SyntaxTreeNode]) -> bool:
    """Whether its numbers are of several units, as where arms are columns: then no order of them means anything."""
    return len({unit_of(markdown.lines(cell)[0]) for cell in column} - {None}) > 1


def _class(cell: SyntaxTreeNode, *more: str) -> str:
    names = [*(["number"] if "right" in str(cell.attrs.get("style", "")) else []), *more]
    return f' class="{" ".join(names)}"' if names else ""


def _cell(index: int, cell: SyntaxTreeNode) -> str:
    """The first of a row names it; below the value of another one is its change."""
    lines = markdown.lines(cell)
    value = sort_value(lines[0])
    classes = [name for mark, name in VERDICTS.items() if index and mark in "".join(lines)]
    classes += ["long"] if index and max(map(len, lines)) > LONG_LINE else []
    tag, scope = ("td", "") if index else ("th", ' scope="row"')
    data = "" if value is None else f' data-value="{value!r}"'
    texts = markdown.to_html(cell.children).split(markdown.BREAK)
    # a number with little beside it is not broken, but before its verdict; a mark stays beside its first word
    short = [index > 0 and len(line) <= LONG_LINE and sort_value(line) is not None for line in lines]
    spaces = [GLUED if one else AFTER_MARK for one in short]
    glued = [pattern.sub(lambda found: found[1] or NO_BREAK, text) for pattern, text in zip(spaces, texts, strict=True)]
    first, mark, below = markdown.BREAK.join(glued).partition(markdown.BREAK)
    below = f'{mark}<span class="change">{below}</span>' if mark else ""
    return f"<{tag}{scope}{_class(cell, *classes)}{data}>{first}{below}</{tag}>"


HERE = Path(__file__).parent
BACKGROUND, FOREGROUND = (0x16, 0x19, 0x1D), (0xE8, 0xE6, 0xE3)
"""Background and text in the dark, as in page.css."""
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<nav aria-label="Contents"><details><summary>Contents</summary>
<ol>
{contents}
</ol>
</details></nav>
<main>
{main}</main>
<div id="values" role="status"></div>
<script>{script}</script>
</body>
</html>
"""


def page(title: str, text: str, files: Mapping[str, bytes], folded: Iterable[str] = ()) -> bytes:
    """The page of a report in Markdown, with the pictures among `files` that it shows; parts under `folded` headings fold."""
    page = Page(files, frozenset(markdown.plain(head) for text in folded for head in markdown.blocks(text)))
    main = body(text, page)
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{dark_rules(main, BACKGROUND, FOREGROUND)}\n}}\n"
    css, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    style = css + dark
    contents = "\n".join(f'<li><a href="#{anchor}">{html.escape(name)}</a></li>' for name, anchor in page.chapters)
    parts = {"title": html.escape(title), "contents": contents, "main": main, "style": style, "script": script}
    return PAGE.format(policy=policy(style, script), **parts).encode()


def policy(style: str, script: str) -> str:
    """Content security policy: nothing is loaded from anywhere, and no other style or script runs."""
    return f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
