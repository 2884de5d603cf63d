"""Draws docs/design/imports.svg from the imports of the code: `python tests/docs/import_picture.py`.

A box is a package. Loose modules of `harness` that others import are `foundations` where models need them, too, else
`contracts`. A line leads to what a package
imports; lines that follow from others are left out. A row imports only from the rows below it.
"""

import functools
import graphlib
import re
from collections import defaultdict
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "design" / "imports.svg"
ENTRIES = {"__main__", "command"}
WIDTH, BOX, ROW, HEIGHT = 900, 128, 76, 34


def imports() -> dict[str, set[str]]:
    """Package -> packages that it imports directly, without the entry modules, which import everything when it is needed."""
    graph = grimp.build_graph("harness", exclude_type_checking_imports=True, cache_dir=None)
    folders = {
        path.name for folder in ("harness", ".") for path in (ROOT / folder).iterdir() if (path / "__init__.py").is_file()
    }

    foundations = {name.split(".")[1] for name in graph.find_upstream_modules("harness.models", as_package=True) if "." in name}

    def package(module: str) -> str:
        part = module.split(".")[1]
        if part in folders - {"processes", "terminal"}:
            return part
        return "foundations" if part in foundations else "contracts"

    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        if module.count(".") and module.split(".")[1] not in ENTRIES:
            targets = {package(target) for target in graph.find_modules_directly_imported_by(module) if target.count(".")}
            found[package(module)] |= targets - {package(module)}
    return found


def drawn(edges: dict[str, set[str]]) -> str:
    """The picture as SVG; ValueError where packages import each other."""
    graphlib.TopologicalSorter(edges).prepare()

    @functools.cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(edges.get(name, ())).union(*(reached(target) for target in edges.get(name, ())))

    @functools.cache
    def depth(name: str) -> int:
        return 1 + max((depth(target) for target in edges.get(name, ())), default=-1)

    names = sorted({*edges, *(target for targets in edges.values() for target in targets)})
    rows = [[name for name in names if depth(name) == number] for number in range(max(map(depth, names)) + 1)]
    place = {
        name: (WIDTH * (2 * column + 1) / (2 * len(row)), ROW * (len(rows) - 1 - number) + HEIGHT)
        for number, row in enumerate(rows)
        for column, name in enumerate(row)
    }
    lines = [
        (place[name], place[target])
        for name in names
        for target in sorted(edges.get(name, ()))
        if not any(target in reached(other) for other in edges[name] - {target})
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * len(rows)}"',
        ' font-family="sans-serif" font-size="15">',
        "<title>Packages and what they import</title>",
        f'<rect width="{WIDTH}" height="{ROW * len(rows)}" fill="#fff"/>',
        *(f'<path d="M{x:.0f} {y + HEIGHT / 2:.0f}L{u:.0f} {v - HEIGHT / 2:.0f}" stroke="#888"/>' for (x, y), (u, v) in lines),
    ]
    for name, (x, y) in place.items():
        corner = f'x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" height="{HEIGHT}" rx="5"'
        parts.append(f'<rect {corner} fill="#e8eef7" stroke="#456"/>')
        parts.append(f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def boxes(picture: str) -> set[str]:
    return set(re.findall(r"<text[^>]*>(.*?)</text>", picture))


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(imports()), encoding="utf-8")
    print(PICTURE)
