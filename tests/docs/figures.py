"""Figures and outputs in README and docs come from files: compares them, or fills them in with --write.

`figures.md.jinja` has the paragraphs and tables that hold figures, with an expression in place of each figure.
`<!-- docs/studies.md -->` names the document of those that follow. A block is found in its document by its first characters,
up to the first expression, and reaches to the next blank line.

`outputs.json` has what commands printed. A `text` block after `<!-- shows 1,2 /^total/,$ -->` has the output of the command
above it: the lines at these addresses, as of `sed`, and `...` for the others. --outputs runs these commands anew, and those
whose time the template states: some minutes, on a machine that does nothing else. --outputs TEXT runs those that contain the
text. The picture in README is the page of the study there, taken in Chromium when its command runs.
"""

import argparse
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jinja2

from harness.config.schema import HardwareConfig
from harness.hardware import facts
from harness.terminal import duration

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = Path(__file__).with_name("figures.md.jinja")
EXAMPLES = ROOT / "reports" / "examples"
RESULTS = ROOT / "tests" / "benchmarks" / "results"
OUTPUTS = TEMPLATE.with_name("outputs.json")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

PICTURE, PAGE, PIXELS = (
    ROOT / "docs" / "pictures" / "page.png",
    Path("multirun", "reports", "order", "report.html"),
    (1200, 640),
)
"""The picture in README, its width and height, and the page that it shows."""

COLUMNS = 80
"""Characters of a line that a command prints."""

SHOWN = re.compile(r"((?:^    .*\n)+)(\n<!-- shows (.+) -->\n```text\n)(?s:.*?)(?=^```$)", re.MULTILINE)
"""Commands, what is between them and the output of the last one, and the addresses of its lines."""

BEGINNING = 40
"""Characters of a block by which it is found."""


class MissingError(ValueError):
    """A figure that its file does not have, or a block that its document does not have once."""


def signed(value: float, digits: int) -> str:
    """`+0.21`, with a minus sign and not a hyphen."""
    return f"{value:+.{digits}f}".replace("-", "−")


@functools.cache
def _report(study: str) -> dict[str, dict[str, str]]:
    """Arm -> column -> cell, of all tables whose first column is the arm; the first that has a column counts."""
    rows: dict[str, dict[str, str]] = {}
    head: list[str] = []
    for line in (EXAMPLES / study / "report.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if not cells or not head:
            head = cells
        elif head[0] == "arm" and len(cells) == len(head):
            rows[cells[0]] = dict(zip(head, cells, strict=True)) | rows.get(cells[0], {})
    return rows


def cells(study: str, arm: str, *columns: str) -> str:
    """Cells of an arm as the report has them, but for the sign of a warning, which the text around says in words."""
    try:
        return " | ".join(_report(study)[arm][column].replace(" †", "") for column in columns)
    except KeyError as error:
        raise MissingError(f"{study}/report.md has no {error} for {arm}") from error


CHANGED = {
    "half_depth": "half of the layers",
    "embedding_128": "128-dimensional word vectors",
    "factorized": "64-dimensional word vectors",
    "three_groups": "three layers, each used twice",
    "shared": "one layer used six times",
    "swiglu": "SwiGLU",
    "window_64": "a window of 64",
    "window_16": "a window of 16",
    "embedding_128+half_depth": "half of the layers with 128-dimensional word vectors",
    "factorized+shared+swiglu+windowed": "all four",
}
"""Change of the published encoder -> its name in a sentence."""
HEALED = {f"minilm+{change}+distillation": name for change, name in CHANGED.items()}
"""Arm of `compress` -> its name in a sentence, as it is healed."""


def with_verdict(study: str, column: str, mark: str, arms: dict[str, str]) -> list[str]:
    """`SwiGLU (−0.1 points)` of each of these arms whose change has this mark in the report."""
    changes = {name: cells(study, arm, column).partition("<br>")[2] for arm, name in arms.items()}
    return [f"{name} ({change.removesuffix(mark).strip()})" for name, change in changes.items() if change.endswith(mark)]


def enumerated(texts: list[str]) -> str:
    """`a, b and c`; MissingError for none, of which no sentence can speak."""
    if not texts:
        raise MissingError("no arm has the verdict that a sentence is about")
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def bench(file: str, benchmark: str, name: str, digits: int = 1) -> str:
    """A ratio of a benchmark, without its unit."""
    rows = json.loads((RESULTS / f"{file}.json").read_text())["benchmarks"].get(benchmark, {}).get("rows", [])
    found = [row["value"] for row in rows if row["name"] == name]
    if len(found) != 1:
        raise MissingError(f"{file}.json: expected one row {name!r} of {benchmark}, found {len(found)}")
    return f"{found[0]:.{digits}f}"


AUDIT = EXAMPLES / "audit" / "audit.json"


@functools.cache
def _claims() -> dict[str, dict[str, object]]:
    return {claim["name"]: claim for claim in json.loads(AUDIT.read_text())["claims"]}


def audited() -> bool:
    """Whether the record of the audit is beside its report."""
    return AUDIT.is_file()


def verdicts(name: str) -> int:
    """How many claims have this verdict; all of them for an empty name."""
    return sum(name in ("", claim["verdict"]) for claim in _claims().values())


def settled(claim: str) -> str:
    """The verdict of a claim, with where it holds."""
    found = _claims()[claim]
    return found["text"].removesuffix(f" ({found['note']})") if found["verdict"] == "holds only where" else found["verdict"]


def measured(claim: str, reading: str, where: object = None, digits: int = 0, interval: bool = True) -> str:
    """`−21 % [−25, −18]`: what a reading measures, at the length, task or arm `where`."""
    readings = [one for one in _claims()[claim]["readings"] if one["name"] == reading]
    points = [point for one in readings for point in one["points"] if where is None or where in point["where"].values()]
    if len(points) != 1:
        raise MissingError(f"audit.json: expected one point of {claim}, {reading}, {where}, found {len(points)}")
    unit = readings[0]["unit"]
    factor, name = {"share": (100, " %"), "score": (100, " points"), "parameters": (1e-6, " M")}.get(unit, (1, f" {unit}"))
    write = signed if unit in ("share", "score", "nats") else lambda value, digits: f"{value:.{digits}f}"
    ends = [end for end in points[0]["interval"] if end is not None]
    between = f" [{', '.join(write(factor * end, digits) for end in ends)}]" if interval and len(set(ends)) == 2 else ""
    return write(factor * points[0]["value"], digits) + name + between


@functools.cache
def _outputs() -> dict[str, object]:
    return json.loads(OUTPUTS.read_text())


def _output(command: str) -> dict[str, object]:
    try:
        return _outputs()["commands"][command]
    except KeyError as error:
        raise MissingError(f"{OUTPUTS.name} has no {command!r}: python tests/docs/figures.py --outputs") from error


def ran(command: str) -> bool:
    """Whether the record has this command."""
    return command in _outputs()["commands"]


def took(command: str) -> str:
    """`1 min 34 s`: how long the command ran."""
    return duration(_output(command)["seconds"])


def machine() -> str:
    """Where the commands ran: `2 cores (AMD EPYC 7B13)`."""
    return f"{_outputs()['cores']} cores ({_outputs()['processor']})"


def kept(output: str, addresses: str) -> str:
    """The lines at these addresses, as of `sed`, and `...` for the others; MissingError for an address that has no line.

    `A{B` are the lines at B within A.
    """
    numbers: set[int] = set()
    for address in shlex.split(addresses):
        found = subprocess.run(
            ["sed", "-n", f"{address}={'}' * address.count('{')}"], input=output, capture_output=True, text=True, check=True
        )
        if not found.stdout:
            raise MissingError(f"no line at {address} in {output!r}")
        numbers |= set(map(int, found.stdout.split()))
    lines = [line.rstrip() if n in numbers or not line else "..." for n, line in enumerate(output.splitlines(), 1)]
    return re.sub(r"^(\.\.\.\n+)+(?=\.\.\.$)", "", "\n".join(lines).strip("\n"), flags=re.MULTILINE) + "\n"


def commands_of(block: str) -> list[str]:
    return [shlex.join(shlex.split(line, comments=True)) for line in re.sub(r"\\\n", "", block).splitlines()]


def shown() -> list[str]:
    """Commands whose output is shown, and those above them in their blocks."""
    return [one for path in DOCUMENTS for found in SHOWN.finditer(path.read_text()) for one in commands_of(found[1])]


def to_run() -> list[str]:
    """Commands whose output is shown, those above them, and those whose time the template states."""
    return list(dict.fromkeys([*shown(), *re.findall(r'took\("(.+?)"\)', TEMPLATE.read_text())]))


def run(commands: list[str], folder: Path) -> dict[str, object]:
    """What commands print that run in a folder one after the other, their seconds, the machine; RuntimeError if one fails."""
    record = {"date": time.strftime("%Y-%m-%d"), "processor": facts.device_name(HardwareConfig()), "cores": facts.cores()}
    record |= {"load": round(os.getloadavg()[0], 2), "commands": {}}
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS)}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    for name in ("docs", "reports"):  # examples
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    for command in commands:
        print(command, flush=True)
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        began = time.monotonic()
        done = subprocess.run(words, cwd=folder, env=environment, **streams)
        if done.returncode > (" gate " in command):  # 1 is a verdict of a gate
            raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
        record["commands"][command] = {"seconds": round(time.monotonic() - began, 1), "output": done.stdout}
    return record


def take_picture(page: Path) -> None:
    """The first screen of a page, into README's picture."""
    sys.path.append(str(ROOT / "tests" / "helpers"))
    import browser

    with tempfile.TemporaryDirectory() as folder, browser.chromium(Path(folder)) as tab:
        tab.call("Emulation.setScrollbarsHidden", hidden=True)
        tab.show(*PIXELS)
        tab.open(page.as_uri())
        tab.picture(PICTURE)


def blocks() -> dict[tuple[str, str], str]:
    """(Document, beginning of a block) -> the block with its figures; MissingError for a figure that no file has."""
    functions = [cells, bench, audited, verdicts, settled, measured, with_verdict, enumerated, ran, took, machine]
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True)
    environment.globals |= {one.__name__: one for one in functions} | {"HEALED": HEALED}
    found, document = {}, ""
    for block in re.split(r"\n{2,}", TEMPLATE.read_text().strip()):
        if marker := re.fullmatch(r"<!-- (\S+) -->", block):
            document = marker[1]
            continue
        lines = [line for line in block.splitlines() if not line.startswith("{%")]
        if text := environment.from_string(block).render().strip():
            found[document, lines[0].split("{{")[0][:BEGINNING]] = text
    return found


def place(text: str, beginning: str) -> tuple[int, int]:
    """Where the block with this beginning is; MissingError unless it is there once."""
    starts = [found.start() for found in re.finditer(rf"^{re.escape(beginning)}", text, re.MULTILINE)]
    if len(starts) != 1:
        raise MissingError(f"expected one block that begins with {beginning!r}, found {len(starts)}")
    end = text.find("\n\n", starts[0])
    return starts[0], len(text.rstrip()) if end < 0 else end


def filled(path: Path) -> str:
    """The text of a document with the figures and the outputs of the files."""
    shown = SHOWN.sub(
        lambda found: found[1] + found[2] + kept(_output(commands_of(found[1])[-1])["output"], found[3]), path.read_text()
    )
    for (document, beginning), block in blocks().items():
        if ROOT / document == path:
            start, end = place(shown, beginning)
            shown = shown[:start] + block + shown[end:]
    return shown


def main() -> int:
    """1 where a document differs from the files, and is not written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="writes figures and outputs into the documents")
    parser.add_argument(
        "--outputs", nargs="?", const="", metavar="TEXT", help="runs the commands that contain TEXT first; writes, too"
    )
    options = parser.parse_args()
    if options.outputs is not None:
        commands = to_run()
        with tempfile.TemporaryDirectory() as folder:
            record = run([command for command in commands if options.outputs in command], Path(folder))
            if (page := Path(folder) / PAGE).exists():
                take_picture(page)
        known = {**_outputs()["commands"], **record["commands"]}
        record["commands"] = {command: known[command] for command in commands if command in known}
        _outputs.cache_clear()
        OUTPUTS.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    write, differ = options.write or options.outputs is not None, 0
    for path in DOCUMENTS:
        if (text := filled(path)) != path.read_text():
            differ += 1
            print(f"{path.relative_to(ROOT)}: {'written' if write else 'differs from the files'}")
            if write:
                path.write_text(text)
    return int(differ > 0 and not write)


if __name__ == "__main__":
    sys.exit(main())
