"""Passwords in addresses are hidden, and come back only where they are needed."""

import pytest

from harness.config import redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ada:secret@host:5432/db", "postgresql://ada:***@host:5432/db"),
        ("http://ada:se%40cr/et@host:5000/x", "http://ada:***@host:5000/x"),
        ("http://ada:a@b@host", "http://ada:***@host"),
        ("http://:secret@host", "http://:***@host"),
        ("mysql://host/db?user=ada&password=secret&x=1", "mysql://host/db?user=ada&password=***&x=1"),
        ("pg://host/db?sslpassword=secret", "pg://host/db?sslpassword=***"),
        ("no answer from 'http://ada:secret@host:5000': gone", "no answer from 'http://ada:***@host:5000': gone"),
        ("sqlite:////tmp/a b/mlflow.db", "sqlite:////tmp/a b/mlflow.db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("http://ada@host:5000", "http://ada@host:5000"),
        ("task.validation_split=train[80%:] at 12:30 a@b.c", "task.validation_split=train[80%:] at 12:30 a@b.c"),
    ],
)
def test_only_passwords_are_hidden(text, shown):
    assert redact.redacted(text) == shown
    assert redact.redacted(shown) == shown
    assert redact.hide(text) == shown
    assert redact.whole(shown) == text


def test_unknown_address_is_whole():
    assert redact.whole("http://ada:***@elsewhere") == "http://ada:***@elsewhere"
