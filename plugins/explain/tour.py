"""Ten steps through an encoder on a text of the reader: `python -m harness tour [text=TEXT or FILE] [to=FILE.html]`.

A step, in `tour.yaml`, is a few commands as they are typed, with what they print and draw: in the terminal, where Enter begins
the next one, and on one HTML page, `tour.html`. A finished step is kept, and does not run again.
"""

import base64
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import msgspec
import yaml
from filelock import FileLock, Timeout

from harness import paths, records, versions
from harness.errors import InputError, writing
from harness.plugins.explain.options import Tour
from harness.plugins.shared import status
from harness.terminal import LiveLine, counted, duration, live_line, wrapped

FOLDER = Path("multirun", "tour")
PAGE = Path(__file__).with_suffix(".html")
STEPS = PAGE.with_suffix(".yaml")
PRETRAINING, RUN = "tour_pretraining", "{run}"
"""Study of the pretraining, and what stands for its run in a command."""

WORDS = 30
"""Most words of the reader's text that are shown: pictures of more cannot be read."""

SECOND = "The keeper found the window open."
"""In place of a second text of the reader."""

ENVIRONMENT = {"PYTHONPATH": f"{Path(__file__).resolve().parents[2]}:{os.environ.get('PYTHONPATH', '')}", "COLUMNS": "100"}
"""Additions to the environment of the tour's commands."""

VARIANT = "# base with attention to 16 tokens on each side\nattention_window: 32\n"


@dataclass(frozen=True)
class Ran:
    """A command as it is typed, what it printed, and its exit code."""

    command: str
    output: str
    seconds: float
    code: int


@dataclass(frozen=True)
class Result:
    """The commands of a step that ran, of which the last one may have failed; and the pictures, SVG."""

    ran: list[Ran] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.ran[-1].code != 0


@dataclass
class Step:
    """What to look at, the commands, pictures that they write without saying so, and which ending shown ones have."""

    title: str
    text: str
    commands: list[list[str]]
    pictures: list[str] = field(default_factory=list)
    ending: str = ".svg"
    result: Result = field(default_factory=Result)


def main(options: Tour) -> int:
    """0; 1 when a step failed. InputError for a text without words, and for a page that cannot be written."""
    steps = steps_of(*texts(options.text), STEPS)
    if options.to.suffix != ".html":
        raise InputError(f"to={str(options.to)!r} must end in .html")
    root = Path() if options.to == Tour.to else options.to.parent
    folder = root / FOLDER
    with writing(options.to, "an HTML file"):
        (folder / "conf" / "model").mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / paths.LOCK, timeout=0):
            return run(steps, options, root)
    except Timeout as error:
        raise InputError(f"another tour is running in {folder.absolute()}: wait, or use another folder") from error


def run(steps: list[Step], options: Tour, root: Path) -> int:
    """Runs what is not kept and shows all of it; the exit code, as of `main`. Commands run, and write, in the folder `root`."""
    if not (own := root / FOLDER / "conf" / "model" / "wide.yaml").exists():  # the reader may have changed it
        with paths.replaced(own) as new:
            new.write_text(VARIANT)
    file = root / FOLDER / "steps.json"
    finished = records.read_or_set_aside(file, dict[str, Result])
    waits = sys.stdin.isatty() and sys.stdout.isatty() and not options.all
    place = "" if root == Path() else f"; commands run in {root}"
    write_page(steps, options.to)
    print(f"{counted(len(steps), 'step')}, a few minutes in all; the page: {options.to}{place}\n", flush=True)
    for number, step in enumerate(steps, 1):
        key = json.dumps([step.commands, step.pictures, step.ending, versions.VERSIONS])
        with live_line(step.title) as line:
            step.result = finished[key] if key in finished else run_step(step, root, line)
        if not step.result.failed:
            finished[key] = step.result
            records.write(file, msgspec.to_builtins(finished))
        write_page(steps, options.to)
        show(number, step)
        if waits and number < len(steps):
            print("-- Enter: next step; Ctrl-C ends --", end="", flush=True)  # `input` would print it to stderr
            waits = bool(sys.stdin.readline())  # Ctrl-D: the rest at once
    print(f"page: {options.to}")
    failed = [str(number) for number, step in enumerate(steps, 1) if step.result.failed]
    if failed:
        print(f"failed: step {', '.join(failed)} of {len(steps)}; repeat the command to retry")
    return int(bool(failed))


def texts(text: str) -> tuple[str, str]:
    """The first words of the text, or of the file that it names, and of a second text after ` ||| `."""
    if os.path.isfile(text):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"text={text!r} is a file that cannot be read ({error}): expected text in UTF-8") from error
    elif text.endswith(".txt"):
        raise InputError(f"text={text!r} is not a file: expected a sentence or a file with one")
    first, _, second = "".join(letter if letter.isprintable() else " " for letter in text).partition(" ||| ")
    first, second = (" ".join(part.split()[:WORDS]) for part in (first, second))
    if not re.search(r"\w", first):
        raise InputError("text= has no words: expected a sentence or a file with one")
    return first, second or SECOND


def steps_of(text: str, second: str, file: Path) -> list[Step]:
    """The steps of a file with these texts in their commands."""
    longest = max(re.findall(r"\w+", text), key=len)
    masked = text if "[MASK]" in text else text.replace(longest, "[MASK]", 1)
    names = {"{text}": text, "{second}": second, "{masked}": masked}

    def words_of(command: str) -> list[str]:
        return [re.sub("|".join(names), lambda name: names[name[0]], word) for word in shlex.split(command)]

    steps = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Step(**step | {"commands": [*map(words_of, step["commands"])]}) for step in steps]


def run_step(step: Step, root: Path, line: LiveLine) -> Result:
    """Runs its commands up to the first that fails."""
    ran = []
    for words in step.commands:
        if RUN in words:
            commands = status.of_study(str(root / "multirun"), PRETRAINING)
            if not commands:
                ran.append(Ran(shlex.join(words), f"study {PRETRAINING!r} has no run\n", 0.0, 2))
                break
            words = [commands[-1].runs[0].folder.name if word == RUN else word for word in words]
        ran.append(run_command(words, root, line))
        if ran[-1].code:
            break
    named = [word for each in ran for word in map(str.strip, each.output.splitlines()) if word.endswith(step.ending)]
    files = [root / name for name in (*named, *step.pictures)]
    return Result(ran, [] if ran[-1].code else [file.read_text(encoding="utf-8") for file in files if file.is_file()])


def run_command(words: list[str], root: Path, line: LiveLine) -> Ran:
    """Runs it in a process that ends with this one."""
    program = [sys.executable if word == "python" and not place else word for place, word in enumerate(words)]
    bound = [sys.executable, "-P", "-m", "harness.processes.bound", str(os.getpid()), *program]
    began, output = time.monotonic(), ""
    # in a group of its own, so that Ctrl-C reaches it once
    with subprocess.Popen(
        bound,
        env=os.environ | ENVIRONMENT,
        cwd=root,
        process_group=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            for printed in process.stdout or ():
                output += printed
                line.show(f"{shlex.join(words)}: {printed.strip()}")
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
    return Ran(shlex.join(words), output, time.monotonic() - began, process.returncode)


def show(number: int, step: Step) -> None:
    """Prints a step."""
    print(f"{number}. {step.title}\n\n{wrapped(step.text)}\n")
    for ran in step.result.ran:
        end = f"exit code {ran.code}: failed] [" if ran.code else ""
        print(f"$ {ran.command}\n\n{ran.output.rstrip()}\n\n[{end}{duration(ran.seconds)}]\n")


def write_page(steps: list[Step], to: Path) -> None:
    """The HTML page, which loads nothing; steps that have not run yet are named."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"base64": lambda picture: base64.b64encode(picture.encode()).decode(), "duration": duration}
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(steps=steps)
    with writing(to, "an HTML file"), paths.replaced(to) as new:
        new.write_text(page, encoding="utf-8")
