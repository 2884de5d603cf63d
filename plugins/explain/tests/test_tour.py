"""The tour: its steps are commands that work, a finished one is kept, and the page shows what they printed and drew."""

import base64
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml
from browser import axe_core, chromium
from child_processes import started, wait_for
from filelock import FileLock
from small_disk import fill, mounted

from harness import grammar, paths
from harness.__main__ import main
from harness.commands import find, imported, is_command
from harness.plugins.explain import tour
from harness.plugins.explain.options import Tour
from harness.plugins.explain.tour import SECOND, STEPS, Ran, Result, steps_of, texts, write_page
from harness.terminal import live_line

TEXT = """It's 5 o'clock {text} "now"; $HOME"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="700" height="50" viewBox="0 0 700 50"><path d="M0 0h700v50z"/></svg>'
TOUR = "import sys; from pathlib import Path; from harness.plugins.explain import tour; tour.STEPS = Path(sys.argv[1])\n"
TOUR += "from harness.__main__ import main; sys.exit(main(['tour', *sys.argv[2:]]))"
"""The tour of another file of steps, in a process of its own."""


@pytest.fixture
def tour_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable:
    """Runs the tour with these commands, a step each, in an empty folder: exit code, what is printed, and the page."""

    def run(*commands: str, to: str = "multirun/tour/tour.html") -> tuple[int, str, str]:
        monkeypatch.setattr(tour, "STEPS", steps_file(Path(), *commands))
        code = main(["tour", *([f"to={to}"] if Path(to) != Tour.to else [])])
        return code, capsys.readouterr().out, Path(to).read_text()

    return run


def steps_file(folder: Path, *commands: str) -> Path:
    """Steps of one command each."""
    steps = [{"title": f"Step {n}", "text": "Look.", "commands": [one]} for n, one in enumerate(commands, 1)]
    (folder / "steps.yaml").write_text(yaml.safe_dump(steps))
    return folder / "steps.yaml"


def steps() -> list[tour.Step]:
    return steps_of("A bank was robbed.", "It rained.", STEPS)


# Steps


def test_ten_steps_have_texts_and_their_reports_are_of_studies_of_the_tour():
    assert len({step.title for step in steps() if step.text and step.commands}) == 10
    commands = [command for step in steps() for command in step.commands]
    by_reports = {True: set(), False: set()}
    for command in commands:
        by_reports["reports" in command] |= {word.removeprefix("study=") for word in command if word.startswith("study=")}
    drawn = {Path(path).parent.name for step in steps() for path in step.pictures}
    assert by_reports[False] == by_reports[True] == drawn
    assert tour.PRETRAINING in drawn


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, 11))
def test_commands_of_a_step_are_understood(number, compose, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / tour.FOLDER / "conf" / "model").mkdir(parents=True)
    (tmp_path / tour.FOLDER / "conf" / "model" / "wide.yaml").write_text(tour.VARIANT)
    for command in steps()[number - 1].commands:
        words = command[3:]
        if command[:3] != ["python", "-m", "harness"]:
            assert command[:3] == ["python", "-m", "reports"] or command[0] in ("cat", "head")
        elif is_command(words[0]):
            parsed = grammar.parse(words[1:], imported(find(words[0]).options), words[0])
            assert not isinstance(parsed, grammar.Composed) or compose(*parsed.overrides())
        else:
            assert compose(*words)


def test_texts_of_the_reader_reach_the_commands_as_they_are():
    first, *_, last = steps_of(TEXT, "{masked}", STEPS)
    assert first.commands[0][-1] == f"text={TEXT}"
    assert steps_of(TEXT, "{masked}", STEPS)[1].commands[0][-1] == f"text={TEXT} ||| {{masked}}"
    assert not any(TEXT in word for command in last.commands for word in command)


def test_longest_word_is_masked_unless_the_text_has_a_mask():
    def masked(text: str) -> str:
        return steps_of(text, "", STEPS)[6].commands[-1][-1]

    assert masked("The robber ran.") == "text=The [MASK] ran."
    assert masked("The [MASK] ran away.") == "text=The [MASK] ran away."


# Texts


def test_text_is_that_of_a_file_on_one_line_and_cut(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("One\n two\tthree.\n" + "word " * 100)
    first, second = texts(str(file))
    assert first.startswith("One two three. word word")
    assert (len(first.split()), second) == (tour.WORDS, SECOND)
    assert texts("It rained. ||| We left.") == ("It rained.", "We left.")
    assert texts("word " * 5000)[0] == " ".join(["word"] * tour.WORDS)  # no path


# Running


@pytest.mark.long
def test_output_of_the_command_is_printed_and_on_the_page(tour_of):
    code, printed, made = tour_of("python -m harness --version", "sh -c 'echo a; echo \"<b>\" >&2'")
    assert code == 0
    assert re.search(r"\$ python -m harness --version\n\nharness \S+\n", printed)
    assert "a\n<b>\n" in printed
    assert "a\n&lt;b&gt;</pre>" in made
    assert "Has not run yet" not in made
    assert "Enter" not in printed  # without a terminal nothing waits


@pytest.mark.long
def test_finished_step_is_kept_and_not_run_again_by_the_same_code(tour_of, monkeypatch):
    command = "sh -c 'echo once >> log; echo done'"
    first, again = tour_of(command), tour_of(command)
    assert first == again
    assert Path("log").read_text() == "once\n"
    assert tour_of(command.replace("done", "other"))[0] == 0
    monkeypatch.setitem(tour.versions.VERSIONS, "models", 1000)
    tour_of(command)
    assert Path("log").read_text() == "once\n" * 3


@pytest.mark.long
def test_failed_step_is_named_and_the_others_go_on(tour_of):
    commands = ("sh -c 'echo one'", "sh -c 'test -e there || (echo broken; exit 3)'", "sh -c 'echo three'")
    code, printed, made = tour_of(*commands)
    assert code == 1
    assert "broken\n\n[exit code 3: failed]" in printed
    assert "failed: step 2 of 3; repeat the command to retry\n" in printed
    assert "three\n" in printed
    assert "failed with exit code 3" in made
    Path("there").touch()
    code, printed, made = tour_of(*commands)
    assert (code, "failed" in printed, "failed" in made) == (0, False, False)


def test_pretraining_that_is_missing_fails_its_step_in_one_line(tour_of):
    code, printed, _ = tour_of("python -m harness inspect {run}")
    assert code == 1
    assert f"study '{tour.PRETRAINING}' has no run\n" in printed


@pytest.mark.parametrize(("ending", "shown"), [(".svg", ["a.svg", "a-attention.svg"]), ("-attention.svg", ["a-attention.svg"])])
def test_pictures_that_a_command_names_are_on_the_page(ending, shown):
    Path("a.svg").write_text(SVG)
    Path("a-attention.svg").write_text(SVG.replace("700", "800"))
    step = tour.Step("One", "Look.", [["echo", "a.svg\na-attention.svg"]], ending=ending)
    with live_line("One") as line:
        step.result = tour.run_step(step, Path(), line)
    write_page([step], Path("tour.html"))
    pictures = re.findall(r"data:image/svg\+xml;base64,([^\"]+)", Path("tour.html").read_text())
    assert [base64.b64decode(picture).decode() for picture in pictures] == [Path(name).read_text() for name in shown]


@pytest.mark.long
def test_variant_that_the_reader_changed_stays(tour_of):
    tour_of("sh -c 'echo one'")
    own = tour.FOLDER / "conf" / "model" / "wide.yaml"
    assert own.read_text() == tour.VARIANT
    own.write_text("attention_window: 8\n")
    assert "attention_window: 8\n" in tour_of(f"cat {own}")[1]


def test_own_page_and_all_beside_it_are_written_where_to_says(tour_of):
    _, said, made = tour_of("sh -c 'mkdir -p multirun/inspect; touch multirun/inspect/picture'", to="pages/mine.html")
    assert "<pre" in made
    assert "commands run in pages" in said
    assert Path("pages", "multirun", "inspect", "picture").exists()  # as all that it keeps and its commands write
    assert not Path("multirun").exists()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(tour.__file__).parents[2])}


def is_running(number: int) -> bool:
    """Whether the process does something: nobody may have asked how it ended."""
    return psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "harness tour: interrupted\n"), (signal.SIGKILL, -signal.SIGKILL, "")]
)
def test_ended_tour_leaves_no_process_and_the_same_command_runs_what_is_left(number, code, said, tmp_path):
    second = "sh -c 'test -e pid && exec echo two; echo $$ > pid; exec sleep 600'"
    file, page = steps_file(tmp_path, "sh -c 'echo one | tee -a log'", second), tmp_path / "multirun" / "tour" / "tour.html"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started([sys.executable, "-c", TOUR, str(file)], cwd=tmp_path, env=environment(), **streams) as process:
        child = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), process))
        process.send_signal(number)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (code, said)
    wait_for(lambda: not is_running(child))
    kept = json.loads((page.parent / "steps.json").read_text())
    assert ["echo one" in key for key in kept] == [True]
    assert page.read_text().count("Has not run yet") == 1
    with started([sys.executable, "-c", TOUR, str(file)], cwd=tmp_path, env=environment(), **streams) as process:
        printed, _ = process.communicate()
    assert (process.returncode, "\ntwo\n" in printed) == (0, True)
    assert (tmp_path / "log").read_text() == "one\n"
    assert "Has not run yet" not in page.read_text()


def test_second_tour_in_the_same_folder_is_one_line_and_changes_nothing(tour_of, capsys):
    tour_of("sh -c 'echo one'")
    before = {path: path.read_bytes() for path in tour.FOLDER.rglob("*") if path.is_file()}
    with FileLock(tour.FOLDER / paths.LOCK):
        assert main(["tour", "text=Another text."]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), err.startswith("harness tour: another tour is running in ")) == (1, True)
    assert {path: path.read_bytes() for path in tour.FOLDER.rglob("*") if path.is_file()} == before


@pytest.mark.long
@pytest.mark.parametrize("begun", [True, False])
def test_full_disk_is_one_line_and_leaves_nothing_half_written(begun, tmp_path, monkeypatch, capsys):
    commands = ("sh -c 'echo one >> ../log; echo one'", "sh -c 'test -e small || seq 200000'")
    with mounted(tmp_path / "disk", 1 << 20) as disk, monkeypatch.context() as patch:
        patch.chdir(disk)
        patch.setattr(tour, "STEPS", steps_file(tmp_path, *commands))
        filler = None if begun else fill(disk, 0)
        assert main(["tour"]) == 1
        err = capsys.readouterr().err
        assert (err.count("\n"), err.endswith(": free some, and the same command continues\n")) == (1, True), err
        files = {str(path.relative_to(tour.FOLDER)) for path in tour.FOLDER.rglob("*") if path.is_file()} - {".lock"}
        assert files == ({"conf/model/wide.yaml", "steps.json", "tour.html"} if begun else set())
        if begun:
            assert len(json.loads((tour.FOLDER / "steps.json").read_text())) == 1
            assert Path(Tour.to).read_text().count("Has not run yet") == 1
        else:
            filler.unlink()
        Path("small").touch()
        assert main(["tour"]) == 0
        assert (tour.FOLDER / "conf" / "model" / "wide.yaml").read_text() == tour.VARIANT
        assert (tmp_path / "log").read_text() == "one\n"


@pytest.mark.long
@pytest.mark.parametrize(("words", "stops"), [((), 1), (("--all",), 0)])
def test_enter_begins_the_next_step_in_a_terminal(words, stops, tmp_path):
    file = steps_file(tmp_path, "sh -c 'echo one'", "sh -c 'echo two'")
    leader, follower = pty.openpty()
    streams = {"stdin": follower, "stdout": follower, "stderr": subprocess.DEVNULL}
    with started([sys.executable, "-c", TOUR, str(file), *words], cwd=tmp_path, env=environment(), **streams) as process:
        os.close(follower)
        shown = ""
        for turned in range(stops):
            while shown.count("-- Enter") <= turned:
                shown += os.read(leader, 1 << 16).decode()
            assert "\r\ntwo\r\n" not in shown
            os.write(leader, b"\n")
        while "\r\ntwo\r\n" not in shown:
            shown += os.read(leader, 1 << 16).decode()
        assert process.wait() == 0
    os.close(leader)
    assert shown.count("-- Enter") == stops
    assert "\r\ntwo\r\n" in shown


# The page


@pytest.mark.long
def test_page_fits_the_window_loads_nothing_and_is_accessible(tmp_path):
    wide = Ran(f"python -m harness {'word' * 50}", f"{'x' * 500}\n" * 41, 1.0, 0)
    first, *others = steps()
    first.result = Result([wide, Ran("cat <a>", "short", 0.1, 0)], [SVG, SVG])
    write_page([first, *others], Path("tour.html"))
    address = Path("tour.html").absolute().as_uri()
    with chromium(tmp_path / "profile") as tab:
        for width in (400, 1200):
            tab.show(width)
            tab.open(address)
            assert tab.errors == []
            assert [request for request in tab.requests() if not request.startswith("data:")] == [address]
            assert tab.run("[...document.querySelectorAll('details')].map(one => one.open)") == [False, True]
            assert tab.run("[...document.images].every(one => one.naturalWidth > 0)")
            tab.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
            assert tab.run("document.documentElement.scrollWidth") <= width
        tab.run(axe_core())
        serious = "found.violations.filter(one => ['serious', 'critical'].includes(one.impact)).map(one => one.id)"
        assert tab.run(f"axe.run(document).then(found => {serious})") == []


@pytest.mark.slow
def test_every_step_runs_and_shows_what_it_says(tmp_path, monkeypatch, capsys):
    """The real commands, with less to train."""
    monkeypatch.chdir(tmp_path)
    text = STEPS.read_text().replace("pretrain.tokens=1e6", "pretrain.tokens=2e4").replace("rounds=5", "rounds=2")
    (tmp_path / "steps.yaml").write_text(text)
    monkeypatch.setattr(tour, "STEPS", tmp_path / "steps.yaml")
    code = main(["tour", "text=The bank was robbed."])
    printed = capsys.readouterr().out
    assert code == 0, printed
    titles = "|".join(one.title for one in steps())
    pages = re.split(rf"^\d+\. (?:{titles})$", printed, flags=re.MULTILINE)
    shown = {
        1: ("[CLS]  the   b", "wordpiece"),
        2: (SECOND.lower().split()[1], "segment"),
        3: ("full self-attention", "causal self-attention"),
        4: ("weights, softmax of q k", "loss, NumPy"),
        5: ("encoder and decoder", "left to right", "beside-base-distilbert-albert-gpt-encoder_decoder", "GFLOP", "10 claims"),
        6: ("forward FLOPs", "A/A", "activations"),
        7: ("prediction at 2: ", "text: The bank was [MASK]."),
        8: ("base causal=true", "points ▼"),
        9: ("# Report: tour_comparison", "| base causal=true |"),
        10: ("attention_window: 32", "wide at scale tiny", "12 runs: 0 done, 12 to do"),
    }
    for number, expected in shown.items():
        assert [one for one in expected if one not in pages[number]] == [], pages[number]
    kept = json.loads(Path("multirun", "tour", "steps.json").read_text())
    pictures = [len(one["pictures"]) for one in kept.values()]
    assert pictures == [2, 1, 2, 2, 2, 0, 3, 0, 2, 1]
    assert Path("multirun", "tour", "tour.html").read_text().count("<img ") == sum(pictures)
    for one in kept.values():
        for ran in one["ran"]:
            assert shlex.join(shlex.split(ran["command"])) == ran["command"]
