"""A command ends in order, whatever surrounds it: signals, closed streams, other encodings, no memory, a removed folder."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import paths
from harness.command import INTERRUPTED, exit_code
from harness.errors import InputError, refused_paths
from harness.terminal import wrapped


def ended(error: BaseException, capsys) -> tuple[int, str]:
    def call() -> int:
        raise error

    code = exit_code("harness plan", [], call)
    return code, capsys.readouterr().err


def test_an_interrupt_is_one_line(capsys):
    assert ended(KeyboardInterrupt(), capsys) == (INTERRUPTED, "harness plan: interrupted\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
)
def test_refused_memory_is_one_line(error, capsys):
    code, said = ended(error, capsys)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("harness plan: out of memory (")


def test_what_is_unexpected_keeps_its_traceback(capsys):
    code, said = ended(RuntimeError("a bug"), capsys)
    assert (code, "Traceback" in said) == (1, True)
    with pytest.raises(RuntimeError):
        exit_code("harness", [], lambda: (_ for _ in ()).throw(RuntimeError("a bug")).__next__(), called=True)


PRINTS = "import sys; from harness.command import exit_code, open_streams; open_streams(); "
PRINTS += "sys.stdin.isatty(); sys.exit(exit_code('h', [], lambda: print('−0.5 ± 0.1 ▼ ü') or 0))"


def test_a_character_that_the_terminal_lacks_is_one_like_it_or_escaped(run_python, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = run_python("-c", PRINTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-0.5 +- 0.1 v \\xfc\n", "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(closed, tmp_path):
    done = subprocess.run(f'"{sys.executable}" -c "{PRINTS}" {closed}', shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["harness", "reports"])
def test_a_removed_working_directory_is_one_line(module, tmp_path):
    (tmp_path / "gone").mkdir()
    words = {"harness": "status", "reports": "--study s"}[module]
    command = f'cd gone && rmdir ../gone && "{sys.executable}" -m {module} {words}'
    environment = os.environ | {"PYTHONPATH": str(Path(paths.__file__).parents[1])}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "the working directory was removed" in done.stderr


def test_text_is_wrapped_on_a_terminal_of_one_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    assert wrapped("three short words", 4).split() == ["three", "short", "words"]


@pytest.mark.parametrize(
    ("words", "path", "named"),
    [
        (["seed=s", "output=/a/results"], "/a/results/x", "output=/a/results"),
        (["s", "to=out"], "/home/s/sets/out/file", "to=out"),
        (["s", "task=a"], "/x/bass/y", "/x/bass/y"),
        (["study=.", "input='a b/c'"], "/x/a b/c", "input='a b/c'"),
    ],
)
def test_an_unusable_path_is_said_by_the_word_that_names_it(words, path, named):
    with pytest.raises(ValueError, match="not a usable path") as caught, refused_paths(words):
        raise OSError(errno.ENOTDIR, "Not a directory", path)
    assert str(caught.value).startswith(f"{named}: ")


WRITES = """
import signal, sys, time
from pathlib import Path
from harness import paths

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever has started the tests may ignore it
from harness.command import exit_code

def write():
    with getattr(paths, sys.argv[1])(Path("target")) as temporary:
        print("writing", flush=True)
        time.sleep(60)
    return 0

sys.exit(exit_code("harness", [], write))
"""


@pytest.fixture(params=["replaced", "whole"])
def writer(request, start_process, tmp_path, monkeypatch):
    """A process that is writing `target`, a file or a folder; and how it writes."""
    monkeypatch.chdir(tmp_path)
    process = start_process("-c", WRITES, request.param)
    assert process.stdout.readline() == "writing\n"
    assert len([*tmp_path.glob(".target.*")]) == 1
    return process, getattr(paths, request.param)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_nothing_half_written(number, writer, tmp_path):
    process, _ = writer
    process.send_signal(number)
    assert process.wait() == INTERRUPTED
    assert [*tmp_path.iterdir()] == []


def test_what_a_killed_writer_left_goes_with_the_next_write(writer, tmp_path):
    process, writing = writer
    with writing(tmp_path / "other"):
        pass
    assert [*tmp_path.glob(".target.*")]
    process.send_signal(signal.SIGKILL)
    process.wait()
    with writing(tmp_path / "target"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"target", "other"}


def test_what_a_living_writer_writes_stays(writer, tmp_path):
    _, writing = writer
    with writing(tmp_path / "target"):
        pass
    assert [*tmp_path.glob(".target.*")]


@pytest.mark.long
def test_clean_waits_for_no_command_and_commands_wait_for_clean(start_process, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = paths.made(tmp_path / "out")
    uses = "from pathlib import Path\nfrom harness import paths\nwith paths.in_use(Path('out')): print('used', flush=True)"
    refused = pytest.raises(BlockingIOError)
    with paths.in_use(folder), paths.in_use(folder), refused, paths.in_use(folder, alone=True):  # as many as there are
        pass
    with paths.in_use(folder, alone=True):
        process = start_process("-c", uses)
        time.sleep(0.5)
        assert process.poll() is None
    assert process.stdout.readline() == "used\n"


def test_a_command_that_writes_nothing_leaves_the_folder_to_one_that_uses_it(start_process, tmp_path, monkeypatch):
    """`clean` would take the folder of the other for an unused one, were its mark made anew."""
    monkeypatch.chdir(tmp_path)
    uses = "import sys\nfrom pathlib import Path\nfrom harness import paths\n"
    uses += "with paths.begun(Path('out')): print('used', flush=True), sys.stdin.readline()"
    with paths.begun(Path("out")):
        other = start_process("-c", uses, stdin=subprocess.PIPE)
        assert other.stdout.readline() == "used\n"
    with pytest.raises(BlockingIOError), paths.in_use(paths.made(Path("out")), alone=True):
        pass
    assert other.communicate("\n") == ("", "")


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-", "<&- >&-"])
@pytest.mark.parametrize("module", ["harness", "harness.reports"])
def test_commands_end_without_streams_and_no_file_takes_their_numbers(module, closed, tmp_path):
    opens = "import sys, runpy, atexit; sys.argv[1:] = ['--help']; atexit.register(lambda: open('written', 'w').write(str("
    opens += "open(sys.executable).fileno())))"
    (tmp_path / "start.py").write_text(f"{opens}\nrunpy.run_module('{module}', run_name='__main__')\n")
    done = subprocess.run(f'"{sys.executable}" start.py {closed}', shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert int((tmp_path / "written").read_text()) > 2


@pytest.mark.parametrize("kind", ["link", "FIFO"])
def test_a_mark_that_is_no_file_is_refused(kind, tmp_path):
    mark = tmp_path / "out" / paths.MARK
    mark.parent.mkdir()
    os.mkfifo(mark) if kind == "FIFO" else mark.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=str(mark)), paths.begun(mark.parent):
        pass
    assert not (tmp_path / "elsewhere").exists()
