"""A page of help: on a terminal in colours, and in a pager where it is longer than the screen."""

import contextlib
import os

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme


class _Page(RegexHighlighter):
    """Titles in the first column, names two columns further, then the keys, commands and sources in a line."""

    base_style = "help."
    highlights = (
        r"(?m)^(?P<title>[A-Z][\w ]*)(?=$|:| \()",
        r"(?m)^  (?P<name>[*\w$-](?:[ ]?\S)*)",
        r"(?P<source>arXiv:[\d.]+)",
    )


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """The command ends as any other whose reader has ended."""
        raise BrokenPipeError


STYLES = Theme({"help.title": "bold", "help.name": "cyan", "help.source": "dim"})


def show(text: str) -> None:
    """Prints the text; NO_COLOR and PAGER are obeyed, less leaves what it showed on the screen."""
    console = _Console(highlighter=_Page(), theme=STYLES, soft_wrap=True, markup=False, emoji=False)
    os.environ.setdefault("LESS", "FRX")
    is_long = console.is_terminal and text.count("\n") + 1 >= console.height
    with console.pager(styles=True) if is_long else contextlib.nullcontext():
        console.print(text)
