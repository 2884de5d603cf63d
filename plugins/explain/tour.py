"""Ten steps through an encoder on a text of the reader: `python -m harness tour [text=TEXT or FILE] [to=FILE.html]`.

A step is a few commands, as they are typed, with what they print and draw: pages in the terminal, and one HTML file. The steps,
in `tour.yaml`, run in order while the reader is on an earlier page. A finished one is kept, and is not run again.
"""

import base64
import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import yaml
from filelock import FileLock, Timeout
from rich.console import Console

from harness import paths, records, versions
from harness.errors import InputError
from harness.plugins.explain.options import Tour
from harness.study import status
from harness.terminal import counted, duration, live_line, wrapped

FOLDER = Path("multirun", "tour")
TEMPLATE = Path(__file__).with_suffix(".html")
STEPS = TEMPLATE.with_suffix(".yaml")
PRETRAINING, RUN = "tour_pretraining", "{run}"
"""Study of the pretraining, and what stands for its run in a command."""

WORDS = 30
"""Most words of the reader's text that are shown: pictures of more cannot be read."""

SECOND = "The keeper found the window open."
"""In place of a second text of the reader."""

FOLDED, COLUMNS = 40, 100
"""Lines of an output that the page folds if there are more, and characters of a line."""

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_NUM_THREADS": "1"}
"""Environment of the commands: threads that wait for each other leave the processor to what runs beside the tour."""

VARIANT = "# base with attention to 16 tokens on each side\nattention_window: 32\n"


@dataclass(frozen=True)
class Step:
    """What to look at, the commands, pictures that they write without saying so, and which ending shown ones have."""

    title: str
    text: str
    commands: list[list[str]]
    pictures: list[str] = field(default_factory=list)
    ending: str = ".svg"


@dataclass(frozen=True)
class Ran:
    """A command as it is typed, what it printed, and its exit code."""

    command: str
    output: str
    seconds: float
    code: int


@dataclass(frozen=True)
class Result:
    """The commands of a step that ran, the last one may have failed; and the pictures, SVG."""

    ran: list[Ran]
    pictures: list[str]

    @property
    def failed(self) -> bool:
        return self.ran[-1].code != 0


def main(options: Tour) -> int:
    """0; 1 when a step failed. InputError for a text without words, and for a page that cannot be written."""
    steps = steps_of(*texts(options.text), STEPS)
    if options.to.suffix != ".html":
        raise InputError(f"to={str(options.to)!r} ends in {options.to.suffix!r}: expected .html")
    if options.to.parent.exists() and not options.to.parent.is_dir():
        raise InputError(f"to={str(options.to)!r}: {options.to.parent} is a file, expected a folder")
    root = Path() if options.to == Tour.to else options.to.parent
    folder = root / FOLDER
    (folder / "conf" / "model").mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / paths.LOCK, timeout=0):
            return run(steps, options, root)
    except Timeout as error:
        raise InputError(
            f"another tour runs in {folder.absolute()}: wait for its end, or begin one in another folder"
        ) from error


def run(steps: list[Step], options: Tour, root: Path) -> int:
    """Runs what is not kept and shows all of it; the exit code, as of `main`. Commands run, and write, in the folder `root`."""
    if not (own := root / FOLDER / "conf" / "model" / "wide.yaml").exists():  # the reader may have changed it
        with paths.replaced(own) as new:
            new.write_text(VARIANT)
    runner = Runner(steps, options.to, root)
    is_paged = sys.stdin.isatty() and sys.stdout.isatty() and not options.all
    place = "" if root == Path() else f"; commands run in {root}"
    print(
        f"{counted(len(steps), 'step')}, a few minutes in all; the page of those that are done: {options.to}{place}\n",
        flush=True,
    )
    with ThreadPoolExecutor(1) as pool:
        try:
            futures = [pool.submit(runner.run, step) for step in steps]
            for number, (step, future) in enumerate(zip(steps, futures, strict=True), 1):
                with live_line(step.title) as line:
                    while not wait([future], timeout=1).done:
                        line.show(f"step {number} of {len(steps)}, {step.title}: {runner.latest}")
                is_paged = show(number, step, future.result(), is_paged, number == len(steps))
        except BaseException:
            runner.stop()
            pool.shutdown(cancel_futures=True)
            raise
    failed = [str(number) for number, future in enumerate(futures, 1) if future.result().failed]
    print(f"page: {options.to}")
    if failed:
        print(f"failed: step {', '.join(failed)} of {len(steps)}; the same command runs what failed again")
    return int(bool(failed))


def texts(text: str) -> tuple[str, str]:
    """The first words of the text, or of the file that it names, and of a second text after ` ||| `."""
    if os.path.isfile(text):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"text={text!r} is a file that cannot be read ({error}): expected text in UTF-8") from error
    elif text.endswith(".txt"):
        raise InputError(f"text={text!r} is no file: expected a sentence or a file with one")
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    first, _, second = printable.partition(" ||| ")
    first, second = (" ".join(part.split()[:WORDS]) for part in (first, second))
    if not re.search(r"\w", first):
        raise InputError("text= has no words: expected a sentence or a file with one")
    return first, second or SECOND


def steps_of(text: str, second: str, file: Path) -> list[Step]:
    """The steps of a file with these texts in their commands."""
    longest = max(re.findall(r"\w+", text), key=len)
    hidden = text if "[MASK]" in text else text.replace(longest, "[MASK]", 1)

    def filled(word: str) -> str:
        names = {"{text}": text, "{second}": second, "{masked}": hidden}
        return re.sub(r"\{(text|second|masked)\}", lambda name: names[name[0]], word)

    steps = yaml.safe_load(file.read_text(encoding="utf-8"))
    for step in steps:
        step["commands"] = [[filled(word) for word in shlex.split(command)] for command in step["commands"]]
    return [Step(**step) for step in steps]


class Runner:
    """Runs steps one after the other, keeps the finished ones, and writes the page after each."""

    def __init__(self, steps: list[Step], to: Path, root: Path = Path()) -> None:
        """Commands run in the folder `root`."""
        self.latest = ""  # the last line that a command printed
        self._steps, self._to, self._root, self._results = steps, to, root, {}
        self._process: subprocess.Popen | None = None
        self._stopped, self._lock = False, threading.Lock()
        self._kept_in = root / FOLDER / "steps.json"
        self._kept = records.read_or_set_aside(self._kept_in, dict[str, Any], {})
        to.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def run(self, step: Step) -> Result:
        """The result, a kept one where these commands have finished with this version of the code."""
        key = json.dumps([step.commands, step.pictures, step.ending, versions.VERSIONS])
        if key in self._kept:
            kept = self._kept[key]
            result = Result([Ran(**ran) for ran in kept["ran"]], kept["pictures"])
        else:
            result = self._run(step)
        if not result.failed:
            self._kept[key] = asdict(result)
            records.write(self._kept_in, self._kept)
        self._results[step.title] = result
        self._write()
        return result

    def stop(self) -> None:
        """Interrupts the command that runs; none begins afterwards."""
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)

    def _run(self, step: Step) -> Result:
        ran: list[Ran] = []
        for words in step.commands:
            try:
                ran.append(self._command([_pretrained(self._root) if word == RUN else word for word in words]))
            except InputError as error:
                ran.append(Ran(shlex.join(words), f"{error}\n", 0.0, 2))
            if self._stopped:
                raise KeyboardInterrupt
            if ran[-1].code:
                break
        named = [line.strip() for one in ran for line in one.output.splitlines() if line.strip().endswith(step.ending)]
        files = [path for path in (self._root / name for name in (*named, *step.pictures)) if path.is_file()]
        return Result(ran, [path.read_text(encoding="utf-8") for path in files] if not ran[-1].code else [])

    def _command(self, words: list[str]) -> Ran:
        code, began, lines = str(Path(__file__).resolve().parents[2]), time.monotonic(), []
        searched = os.pathsep.join(filter(None, [code, os.environ.get("PYTHONPATH")]))
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        environment = WAITING | os.environ | {"PYTHONPATH": searched, "COLUMNS": str(COLUMNS)}
        program = [sys.executable if word == "python" and not place else word for place, word in enumerate(words)]
        bound = [sys.executable, "-P", "-m", "harness.processes.bound", str(os.getpid()), *program]
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            # in a group of its own, so that Ctrl-C reaches it once, by `stop`
            self._process = subprocess.Popen(bound, env=environment, cwd=self._root, process_group=0, **streams)
        with self._process as process:
            for line in process.stdout:
                self.latest = line.strip() or self.latest
                lines.append(line)
        return Ran(shlex.join(words), "".join(lines), time.monotonic() - began, process.returncode)

    def _write(self) -> None:
        with paths.replaced(self._to) as new:
            new.write_text(page(self._steps, self._results), encoding="utf-8")


def _pretrained(root: Path) -> str:
    """Name of the tour's pretraining; InputError where there is none."""
    commands = status.of_study(str(root / "multirun"), PRETRAINING)
    if not commands:
        raise InputError(f"study {PRETRAINING!r} has no run")
    return commands[-1].runs[0].folder.name


def show(number: int, step: Step, result: Result, is_paged: bool, is_last: bool) -> bool:
    """Prints a step, a screen at a time if paged; whether the reader wants the next one so, too."""
    screen = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    screen.print(f"{number}. {step.title}", style="bold")
    lines = [*wrapped(step.text).splitlines(), ""]
    for ran in result.ran:
        end = f"[exit code {ran.code}: failed] " if ran.code else ""
        lines += [f"$ {ran.command}", "", *ran.output.rstrip().splitlines(), "", f"{end}[{duration(ran.seconds)}]", ""]
    height = max(1, screen.size.height - 3) if is_paged else len(lines)
    for start in range(0, len(lines), height):
        screen.print("\n".join(lines[start : start + height]))
        is_end = start + height >= len(lines)
        if is_paged and not (is_end and is_last):
            try:
                what = "next step" if is_end else "more"
                print(f"-- Enter: {what}; Ctrl-C ends --", end="", flush=True)  # `input` would print it to stderr
                input()
            except EOFError:  # Ctrl-D: the rest at once
                is_paged = False
    return is_paged


def page(steps: list[Step], results: dict[str, Result]) -> str:
    """The HTML page, which loads nothing; steps that have not run yet are named."""
    parts = []
    for number, step in enumerate(steps, 1):
        parts.append(f"<section><h2>{number}. {html.escape(step.title)}</h2><p>{html.escape(step.text)}</p>")
        if step.title not in results:
            parts.append("<p class=quiet>Has not run yet.</p>")
        else:
            result = results[step.title]
            parts += [_command_of(ran) for ran in result.ran]
            images = "".join(_image(picture, f"{step.title}, picture {n}") for n, picture in enumerate(result.pictures, 1))
            parts.append(f"<div class=pictures>{images}</div>" if images else "")
        parts.append("</section>")
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(main="\n".join(parts))


def _command_of(ran: Ran) -> str:
    output, count = html.escape(ran.output.rstrip()), len(ran.output.rstrip().splitlines())
    took = f"{counted(count, 'line')}, {duration(ran.seconds)}" + (f", failed with exit code {ran.code}" if ran.code else "")
    is_open = " open" if count <= FOLDED or ran.code else ""
    name = html.escape(ran.command)
    return (
        f'<pre class=command tabindex=0 role=group aria-label="command">{name}</pre>'
        f"<details{is_open}><summary>{took}</summary>"
        f'<pre tabindex=0 role=group aria-label="output of {name}">{output}</pre></details>'
    )


def _image(picture: str, name: str) -> str:
    """A picture that is twice as wide as high has a row of its own."""
    width, height = map(float, re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+) ([\d.]+)"', picture).groups())
    label, kind = html.escape(name), " class=wide" if width > 2 * height else ""
    data = base64.b64encode(picture.encode()).decode()
    image = f'<img alt="{label}" src="data:image/svg+xml;base64,{data}">'
    return f'<div{kind} tabindex=0 role=group aria-label="{label}">{image}</div>'
