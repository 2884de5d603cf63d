"""The live screen of a command: what it shows on a terminal, and that there is none elsewhere."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.study.progress import RunProgress, Screen, TimingProgress

ROOT = Path(__file__).resolve().parents[3]
SWEEP = """
import time

from harness.study.progress import RunProgress, Screen, TimingProgress
with Screen(3) as screen:
    with RunProgress("[1/3] base", screen) as run:
        loss = {"key": "finetune/loss", "step": 5, "value": 0.5, "tokens": 50, "time": 1000}
        run.show([{"stage": "finetune", "steps": 10, "time": 0}, loss])
        time.sleep(0.6)
        run.show([{"stage": "evaluate", "steps": 0, "time": 2000}])
        time.sleep(0.6)
        run.end("finished", {"metrics": {"eval/score": 0.25}}, "")
    screen.count(finished=True, ran=True)
    with RunProgress("[2/3] albert", screen) as run:
        run.end("failed", None, "KeyError: 'x' [red]")
    screen.count(finished=False, ran=True)
    with TimingProgress(4, screen) as timing:
        timing.launch("base, round 1")
        time.sleep(0.6)
    both = RunProgress("[3/3] swiglu", screen, alone=False), RunProgress("[4/4] gpt", screen, alone=False)
    with both[0] as one, both[1] as two:
        two.show([{"stage": "pretrain", "steps": 0, "time": 0}])
        time.sleep(0.6)
"""


@pytest.fixture(scope="module")
def shown() -> str:
    """What a terminal of 100 columns gets."""
    return on_a_terminal(100)


def on_a_terminal(columns: int) -> str:
    """What a terminal so wide gets, without its control characters."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": str(columns), "TERM": "xterm"}
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen([sys.executable, "-c", SWEEP], env=environment, **streams) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                found += (piece := os.read(ours, 65536))
            except OSError:  # the terminal has no writer left
                break
            if not piece:
                break
    os.close(ours)
    assert process.returncode == 0, found.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", found.decode())


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        r"all runs +\S+ +0/3 finished",
        r"\[1/3\] base +\S+ +finetune step 5/10, 1 s left, loss 0\.500, 50 tokens/s",
        r"\[1/3\] base +\S+ +evaluate",
        r"\[1/3\] base: finished in \d+ s, score 0\.2500\r",
        r"\[2/3\] albert: failed: KeyError: 'x' \[red\]\r",
        r"all runs +\S+ +2/3 finished, about \d+ s left; 1 failed",
        r"timing +\S+ +base, round 1",
        r"\[3/3\] swiglu +\S+ +starting.*\r?\n?\[4/4\] gpt +\S+ +pretrain",
    ],
)
def test_a_terminal_shows_the_sweep_what_runs_now_and_the_lines_above(shown, text):
    assert re.search(text, shown), shown


@pytest.mark.long
def test_a_narrow_terminal_shows_the_times_whole_and_no_bar():
    shown = on_a_terminal(50)
    assert re.search(r"all runs +0/3 finished +0:00:0\d", shown), shown
    assert re.search(r"\[1/3\] base +finetune step 5/10, 1 s left.*… 0:00:0\d", shown), shown


def test_elsewhere_there_is_no_screen_and_lines_are_plain(capsys):
    with Screen(1) as screen:
        assert screen.bars is None
        with RunProgress("[1/1] base", screen) as run:
            run.end("finished", {}, "")
        screen.count(finished=True, ran=True)
        with TimingProgress(2, screen) as timing:
            timing.launch("base")
    assert capsys.readouterr() == ("[1/1] base: started\n[1/1] base: finished in 0 s\n", "")
