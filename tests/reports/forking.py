"""Pictures drawn by a second process: the same files, and what goes wrong there is said.

These tests fork, so test_apart.py runs them in a process of one thread: a lock that another thread holds at a fork, such as
that of SQLite's memory, is never released in the forked process, which then waits for ever.
"""

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest
from child_processes import wait_for

from harness.comparison.compare import compare
from harness.errors import InputError
from harness.reports import render
from harness.reports.chapters import chapters
from harness.reports.read import connect


@pytest.fixture(autouse=True)
def one_thread():
    """Refuses to fork beside other threads."""
    assert threading.active_count() == 1, "run these tests by tests/reports/test_apart.py"


@pytest.fixture
def study(make_run, study_of, monkeypatch):
    monkeypatch.setattr(render, "can_fork", lambda: True)  # whatever this machine has
    runs = [make_run(arm, seed=seed) for arm in ("base", "albert") for seed in (0, 1)]
    curves = {run.run_id: {step: 1 / step for step in (1, 2, 3)} for run in runs}
    return replace(study_of(compare("s", runs), {"finetune/loss": curves}), forkable=True)


def _in_another_process(monkeypatch, what):
    """A chapter of pictures that does this where it is drawn by a forked process."""
    here, (*others, drawn) = os.getpid(), render.drawn_chapters()
    calls = []

    def chapter(study):
        if os.getpid() != here:
            what()
        calls.append(os.getpid())
        return drawn(study)

    monkeypatch.setattr(render, "drawn_chapters", lambda: [*others, chapter])
    monkeypatch.setattr(render, "chapters", lambda: tuple(chapter if one is drawn else one for one in chapters()))
    return calls


def test_files_are_the_same_byte_for_byte(study, monkeypatch):
    here = render.render(replace(study, forkable=False))
    assert "loss.svg" in here
    calls = _in_another_process(monkeypatch, lambda: None)
    assert render.render(study) == here
    assert list(render.render(study)) == list(here)
    assert calls == []  # not drawn in this process


def test_png_files_are_made_by_this_process(study, monkeypatch):
    calls = _in_another_process(monkeypatch, lambda: None)
    assert "loss.png" in render.render(study, "md,png")
    assert calls == [os.getpid()]


def test_an_error_of_a_chapter_is_raised_as_it_is(study, monkeypatch):
    def fails():
        raise InputError("what a chapter says")

    _in_another_process(monkeypatch, fails)
    with pytest.raises(InputError, match="what a chapter says"):
        render.render(study)


def test_a_killed_process_is_one_line(study, monkeypatch):
    _in_another_process(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(InputError, match="the process that draws the pictures was killed, probably for lack of memory"):
        render.render(study)


def test_an_error_of_this_process_does_not_wait_for_the_pictures(study, monkeypatch):
    _in_another_process(monkeypatch, lambda: time.sleep(600))

    def fails(study):
        raise InputError("another chapter says so")

    monkeypatch.setattr(render, "chapters", lambda: (fails, *chapters()))
    with pytest.raises(InputError, match="another chapter says so"):
        render.render(study)
    assert multiprocessing.active_children() == []


def test_it_ends_with_the_report_that_started_it(study, monkeypatch):
    read, written = os.pipe()

    def waits():
        os.write(written, f"{os.getpid()}\n".encode())
        time.sleep(600)

    _in_another_process(monkeypatch, waits)
    reporting = os.fork()
    if not reporting:
        render.render(study)
    drawing = int(os.read(read, 20))
    os.kill(reporting, signal.SIGKILL)
    os.waitpid(reporting, 0)
    wait_for(lambda: not psutil.pid_exists(drawing) or psutil.Process(drawing).status() == psutil.STATUS_ZOMBIE)
    os.close(read)
    os.close(written)


def test_a_forked_process_has_its_own_connection(tracking, typical):
    tracking.log_timed("base", [10.0, 10.1, 9.9], 0, typical(1, 0.8))
    reader = connect(None)
    assert reader.forkable
    database = reader._database
    run = next(run for number in reader.studies().values() for run in reader.runs(number))
    expected = reader.history(run.run_id, "timing/latency_ms")
    read, written = os.pipe()
    child = os.fork()
    if not child:
        same = reader._database is database
        os.write(written, repr((same, reader.history(run.run_id, "timing/latency_ms") == expected)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() == "(False, True)"
    assert reader._database is database
    os.close(read)
    os.close(written)
