"""A command whose output nobody reads to its end: it ends quietly."""

import os
import subprocess

import pytest

from harness.standard_output import READER_ENDED, ends_with_its_reader


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], READER_ENDED),
        (["--version"], READER_ENDED),
        (["--cfg", "job", "task=bag"], READER_ENDED),  # Hydra prints
        (["sync", "--help"], 0),  # argparse prints, and ignores that nobody reads
    ],
)
def test_command_ends_quietly_where_its_reader_has_ended(start_process, arguments, code):
    read, write = os.pipe()
    os.close(read)
    process = start_process("-m", "harness", *arguments, stdout=write)
    os.close(write)
    _, err = process.communicate()
    assert (process.returncode, err) == (code, "")


def test_output_that_is_read_is_whole(run_python):
    done = run_python("-m", "harness", "--version")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


def test_wrong_input_is_still_said(start_process):
    read, write = os.pipe()
    os.close(read)
    process = start_process("-m", "harness", "epochs=3", stdout=write)
    os.close(write)
    _, err = process.communicate()
    assert (process.returncode, err.count("\n")) == (2, 1)
    assert err.startswith("harness: unknown key 'epochs'")


def test_another_pipe_that_breaks_is_an_error():
    @ends_with_its_reader
    def main() -> int:
        with subprocess.Popen(["true"], stdin=subprocess.PIPE, bufsize=0) as process:
            process.wait()
            process.stdin.write(b"nobody reads this")
        return 0

    with pytest.raises(BrokenPipeError):
        main()
