"""A hub that is out of reach is one line at once."""

import socket
import time

import datasets
import pytest
from huggingface_hub import logging

from harness.data.sources import Source, library, refuse_unreachable
from harness.errors import InputError


@pytest.fixture
def nobody(monkeypatch, tmp_path) -> str:
    """The address of a hub where nothing answers, of an empty cache and without a proxy."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", address)
    return address


MESSAGE = "^task 'x': the hub cannot be reached for the data set 'a/b'; data=local data.root=FOLDER reads local folders$"


def test_a_hub_where_nothing_answers_is_refused_at_once(nobody, monkeypatch):
    begin = time.monotonic()
    with pytest.raises(InputError, match=MESSAGE):
        refuse_unreachable(datasets, "a/b", "task 'x'")
    assert time.monotonic() - begin < 2
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", "https://hub.invalid")
    with pytest.raises(InputError, match=MESSAGE):
        refuse_unreachable(datasets, "a/b", "task 'x'")


def test_a_hub_that_answers_a_proxy_and_what_was_loaded_before_are_accepted(nobody, monkeypatch, tmp_path):
    with monkeypatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        patch.setattr(datasets.config, "HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        refuse_unreachable(datasets, "a/b", "task 'x'")
    for variable in ("http_proxy", "all_proxy"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "http://proxy:3128")
            refuse_unreachable(datasets, "a/b", "task 'x'")
    (tmp_path / "a___b").mkdir()
    refuse_unreachable(datasets, "a/b", "task 'x'")


def test_the_library_of_the_hub_says_nothing_of_its_own():
    before = logging.get_verbosity(), datasets.logging.get_verbosity()
    try:
        with library(Source("x", None, "here")):
            assert logging.get_verbosity() == datasets.logging.get_verbosity() == logging.CRITICAL
    finally:
        logging.set_verbosity(before[0])
        datasets.logging.set_verbosity(before[1])
