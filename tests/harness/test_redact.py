"""An address with a secret is refused, and what others print of secrets is hidden."""

import pytest

from harness import redact
from harness.errors import InputError

OF_MLFLOW = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
REFUSED = {
    "http://ada:secret@host:5000": OF_MLFLOW,
    "HTTPS://secret@host": OF_MLFLOW,
    'http://ada:it\'s a "se,cret"@host:5000': OF_MLFLOW,
    "http://ada:se?cr#et/=@host": OF_MLFLOW,
    "http://host?access_token=secret": OF_MLFLOW,
    "http://host:5000/x#secret": OF_MLFLOW,
    "postgresql://ada:secret@host:5432/db": "set PGPASSWORD",
    "postgresql://ada:sec/ret@host/db": "set PGPASSWORD",
    "postgresql://host/db?user=ada&sslmode=require&sslpassword=secret": "set PGPASSWORD",
    "ada:secret@host:5000": "set PGPASSWORD",
    "http:/ada:secret@host": "set PGPASSWORD",
}


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_with_a_secret_is_refused_with_the_variables_to_set(address):
    with pytest.raises(InputError, match=REFUSED[address]) as refused:
        redact.refuse_credentials(address)
    assert "secret" not in str(refused.value).replace("may hold a secret", "")


@pytest.mark.parametrize(
    "address",
    ["http://[::1]:5000/x", "postgresql://ada@host:5432/db?sslmode=require", "sqlite:////tmp/a b@c/x:y@z/mlflow.db", "foo", ""],
)
def test_other_addresses_are_taken(address):
    redact.refuse_credentials(address)


def test_users_of_addresses_in_a_text_are_hidden_and_the_rest_stays():
    assert redact.redacted("see http://ada:se/cret@host:5000, 'x://T@h?a=b'") == "see http://***@host:5000, 'x://***@h?a=b'"
    text = "task.validation_split=train[80%:] at 12:30 a@b.c in sqlite:////tmp/x@y/mlflow.db"
    assert redact.redacted(text) == text


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("+tracking.uri='http://u:p@h'", "+tracking.uri='http://***@h'"),
        ("hydra.launcher.api_key=x", "hydra.launcher.api_key=***"),
        ("hydra.x={a: [{'password': x}]}", "hydra.x=***"),
        ("hydra.x={a: [b], tokens: 3}", "hydra.x={a: [b], tokens: 3}"),
        ("pretrain.tokens=1e6", "pretrain.tokens=1e6"),
        ("tracking.uri='${oc.env:URI}'", "tracking.uri='${oc.env:URI}'"),
        ("task.validation_split=train[80%:]", "task.validation_split=train[80%:]"),
        ("-m", "-m"),
    ],
)
def test_words_of_a_command_are_shown_without_secrets(word, shown):
    assert redact.words([word]) == redact.words([shown]) == [shown]


def test_secrets_of_the_environment_are_known():
    """Also as an address or Python writes them. Short values, and the working directory, stand in too many texts."""
    redact.learn({"WANDB_API_KEY": "0123456789", "PGPASSWORD": "it's longer", "PWD": "/home/ada/x", "MY_TOKEN": "1"})
    assert redact.redacted("0123456789 it's longer it%27s+longer /home/ada/x 1") == "*** *** *** /home/ada/x 1"
