"""The whole page: its policy, style, contents, main part and script, in one file that loads nothing."""

import base64
import hashlib
import html
from collections.abc import Mapping
from pathlib import Path

from reports.html.body import Page, body
from reports.html.picture import dark_rules

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


def page(title: str, text: str, files: Mapping[str, bytes]) -> bytes:
    """The page of a report in Markdown, with the pictures among `files` that it shows."""
    made = Page(files)
    main = body(text, made)
    style = (
        _read("page.css")
        + f"@media screen and (prefers-color-scheme: dark) {{\n{dark_rules(main, BACKGROUND, FOREGROUND)}\n}}\n"
    )
    script = _read("page.js")
    contents = "\n".join(f'<li><a href="#{anchor}">{html.escape(name)}</a></li>' for name, anchor in made.chapters)
    parts = {"title": html.escape(title), "contents": contents, "main": main, "style": style, "script": script}
    return PAGE.format(policy=policy(style, script), **parts).encode()


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def policy(style: str, script: str) -> str:
    """Content security policy: nothing is loaded from anywhere, and no other style or script runs."""
    return f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
