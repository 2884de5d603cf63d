"""The report's own Markdown, read by a library: what the other formats are made from."""

import functools
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

BREAK = "<br>"
ALLOWED = re.compile(r"&lt;(br|/?details|/?summary)&gt;")
"""HTML that the report writes itself, after escaping; all other HTML is shown as text."""


def _only_allowed(renderer: RendererHTML, tokens: Sequence[Token], index: int, *_: object) -> str:
    return ALLOWED.sub(r"<\1>", html.escape(tokens[index].content, quote=False))


@functools.cache
def parser() -> MarkdownIt:
    """CommonMark and tables, without HTML but for line breaks and what folds."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    for kind in ("html_inline", "html_block"):
        parser.add_render_rule(kind, _only_allowed)
    return parser


def blocks(text: str) -> list[SyntaxTreeNode]:
    """Headings, paragraphs, lists and tables of a Markdown text."""
    return SyntaxTreeNode(parser().parse(text)).children


def to_html(nodes: Sequence[SyntaxTreeNode]) -> str:
    """HTML of these nodes, of blocks or within a line."""
    tokens = [token for node in nodes for token in node.to_tokens()]
    return parser().renderer.render(tokens, parser().options, {})


def lines(node: SyntaxTreeNode) -> list[str]:
    """The text of a heading, paragraph or cell without markup, cut at its line breaks."""
    texts = [""]
    for child in node.walk():
        if child.type == "hardbreak" or (child.type == "html_inline" and child.content == BREAK):
            texts.append("")
        elif not child.children:
            texts[-1] += " " if child.type == "softbreak" else child.content
    return texts


def plain(node: SyntaxTreeNode) -> str:
    """The text of a node on one line."""
    return " ".join(lines(node))


@dataclass(frozen=True)
class Table:
    """The cells of a table; of each its node, which has its text."""

    header: list[SyntaxTreeNode]
    rows: list[list[SyntaxTreeNode]]


def table(node: SyntaxTreeNode) -> Table:
    """The table of a node of that type."""
    head, *rows = [row.children for part in node.children for row in part.children]
    return Table(head, rows)


def tables(text: str) -> Iterator[tuple[list[str], Table]]:
    """All tables of a text, each with the headings above it, the nearest last."""
    above: dict[str, str] = {}
    for block in blocks(text):
        if block.type == "heading":
            above = {level: name for level, name in above.items() if level < block.tag} | {block.tag: plain(block)}
        elif block.type == "table":
            yield list(above.values()), table(block)
