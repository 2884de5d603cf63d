"""Secrets in addresses and settings are hidden, and come back only where they are needed."""

import json
import shlex

import pytest

from harness import redact
from harness.config import command_line
from harness.errors import InputError

SHOWN = {
    "postgresql://ada:secret@host:5432/db": "postgresql://***@host:5432/db",
    "postgresql://host/db?user=ada&sslmode=require&sslpassword=secret": "postgresql://host/db?user=***&sslmode=require&sslpassword=***",
    "http://ada:se%40cr/et@host:5000/x": "http://***@host:5000/x",
    "http://ada:a@b@host": "http://***@host",
    "http://:secret@host": "http://***@host",
    "http://TOKEN@host:5000": "http://***@host:5000",
    'http://ada:it\'s a "se,cret"@host:5000': "http://***@host:5000",
    "http://ada:se?cr#et@host": "http://***@host",
    "http://ada:se?cr=et@host": "http://***@host",
    "http://host?access_token=secret&key=a%20b": "http://host?access_token=***&key=***",
    "http://host/x?secret": "http://host/x?***",
    "http://host:5000/x#secret": "http://host:5000/x#***",
    "s3://KEY:SECRET@bucket/folder": "s3://***@bucket/folder",
    "http://[::1]:5000": "http://[::1]:5000",
    "http://ada@[::1": "http://***@[::1",
    "ada:secret@host:5000": "***@host:5000",
    "sqlite:////tmp/a b@c/mlflow.db": "sqlite:////tmp/a b@c/mlflow.db",
    "http://127.0.0.1:5000": "http://127.0.0.1:5000",
    "foo": "foo",
    "": "",
}


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """Each test knows the secrets of its own addresses alone."""
    monkeypatch.setattr(redact, "_whole", {})
    monkeypatch.setattr(redact, "_secrets", set())


@pytest.mark.parametrize("address", SHOWN)
def test_an_address_is_shown_without_its_secrets(address):
    shown = SHOWN[address]
    assert redact.hidden(address) == shown
    assert redact.hidden(shown) == shown
    assert redact.hide(address) == shown
    assert redact.hide(shown) == shown
    assert redact.whole(shown) == address


def test_an_address_whose_secrets_are_not_known_is_refused():
    with pytest.raises(InputError, match="the secrets of this address are not kept: expected the whole address"):
        redact.whole("http://***@elsewhere")


@pytest.mark.parametrize(
    "said",
    [
        "no answer from {address!r}: gone",
        "HTTPConnectionPool(host='h', port=5000): Max retries exceeded with url: /api?access_token=Zt%27s+it+9x",
        "password authentication failed for user Ada9x, password Zt's it 9x",
        "Zt%27s%20it%209x",
        '{{"password": {json}}}',
    ],
)
def test_what_a_library_says_has_no_secret_that_was_read(said):
    """Not even in a part of the address, or in another encoding of it."""
    address = "http://Ada9x:Zt's it 9x@h:5000"
    redact.hide(address)
    shown = redact.redacted(said.format(address=address, json=json.dumps("Zt's it 9x")))
    assert not [part for part in ("9x", "Zt") if part in shown]
    assert "***" in shown


def test_other_addresses_in_a_text_are_hidden_and_the_rest_stays():
    assert redact.redacted("see http://ada:secret@host:5000, 'x://T@h?a=b'") == "see http://***@host:5000, 'x://***@h?a=***'"
    text = "task.validation_split=train[80%:] at 12:30 a@b.c in sqlite:////tmp/x/mlflow.db"
    assert redact.redacted(text) == text


def test_short_secrets_are_replaced_as_words_alone():
    redact.hide("http://u:a@host")
    assert redact.redacted("a password of u: a; an apple") == "*** password of ***: ***; an apple"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("tracking.uri=http://u:p@h", "tracking.uri=http://***@h"),
        ("+tracking.uri='http://u:p w@h'", "+tracking.uri='http://***@h'"),
        ("tracking.uri=http://u:p@h,http://T@i", "tracking.uri=http://***@h,http://***@i"),
        ("http://u:p@h", "http://***@h"),
        ("hydra.launcher.api_key=x", "hydra.launcher.api_key=***"),
        ("hydra.job.env_set={API_KEY: x, A: b}", "hydra.job.env_set=***"),
        ("hydra.x={a: [{'password': x}]}", "hydra.x=***"),
        ("hydra.x=[http://u:p@h]", "hydra.x=***"),
        ("hydra.x={a: [b], tokens: 3}", "hydra.x={a: [b], tokens: 3}"),
        ("pretrain.tokens=1e6", "pretrain.tokens=1e6"),
        ("model.global_tokens=2", "model.global_tokens=2"),
        ("enhancement=[windowed]", "enhancement=[windowed]"),
        ("tracking.uri='${oc.env:URI}'", "tracking.uri='${oc.env:URI}'"),
        ("task.validation_split=train[80%:]", "task.validation_split=train[80%:]"),
        ("-m", "-m"),
    ],
)
def test_words_of_a_command_are_shown_without_secrets(word, shown):
    assert redact.words([word]) == [shown]
    assert redact.words([shown]) == [shown]
    assert redact.values({"overrides": [word]}) == {"overrides": [shown if "=" in word or "://" in word else word]}


def test_secrets_of_the_environment_are_known():
    """Short values, and the working directory, stand in too many texts."""
    redact.learn(
        [], {"WANDB_API_KEY": "0123456789", "http_proxy": "http://ada:longsecret@proxy", "PWD": "/home/ada", "MY_TOKEN": "1"}
    )
    assert redact.redacted("0123456789 longsecret /home/ada 1") == "*** *** /home/ada 1"


@pytest.mark.parametrize("address", [one for one in SHOWN if "://" in one and SHOWN[one] != one])
@pytest.mark.parametrize("mark", ["", "'", '"'])
def test_hydra_reads_the_hidden_address(address, mark):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    typed = address.replace("\\", "\\\\").replace(mark, f"\\{mark}") if mark else address
    (word,) = command_line.read([f"tracking.uri={mark}{typed}{mark}"]).overrides
    assert OverridesParser.create().parse_override(word).value() == SHOWN[address]
    assert redact.whole(SHOWN[address]) == address
    assert shlex.split(shlex.join([word])) == [word]
