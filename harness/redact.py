"""Secrets: an address with one is refused, so that none is kept; what libraries print of others goes through `redacted`."""

import functools
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from harness.errors import InputError

HIDDEN = "***"

SECRET = re.compile(
    r"(token|password|passwd|passphrase|pwd|secret|credential|authorization|(api|access|auth|private|secret)[_-]?key)s?$", re.I
)
"""How the name of a setting or of an environment variable ends whose value is a secret."""

NOT_SECRET = re.compile(r"(^|[._])(\w*_)?tokens$|(^|[._])(pad|cls|sep|mask|bos|eos|unk)_token$", re.I)
"""Names of that form in language models."""

LONG = 8
"""Characters of a secret in the environment: shorter values are rarely secret, and occur in many texts."""

MLFLOW = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
"""Variables that MLflow sends to whatever server is named."""

_secrets: set[str] = set()
"""Values of the environment, as they are and as an address has them."""


def is_secret(key: str) -> bool:
    """Whether a setting, or a variable of the environment, of this name has a secret."""
    return bool(SECRET.search(key)) and not NOT_SECRET.search(key)


def refuse_credentials(address: str) -> None:
    """InputError for an address of a store with a password: files, workers and the list of processes would show it."""
    scheme, separator, rest = address.partition("://")
    is_server = scheme.lower() in ("http", "https")
    holds = re.search("[@?#]", rest) if is_server else re.match(r"[^/@]*:.*@", rest if separator else address, re.DOTALL)
    if holds or any(map(is_secret, re.findall("[?&]([^=&]*)", rest))):
        variables = f"{MLFLOW[0]} and {MLFLOW[1]}, or {MLFLOW[2]}" if is_server else "PGPASSWORD, or what your database reads"
        given = f"{scheme}://{HIDDEN}" if separator else HIDDEN
        raise InputError(
            f"tracking.uri={given} may hold a secret, which would be kept and shown: leave it out, and set {variables}"
        )


def refuse_address(uri: str | None) -> None:
    """InputError for an address of a store without a scheme, whose host or port none can be, or that holds a password."""
    if uri is None:
        return
    refuse_credentials(uri)
    expected = "must be an address such as http://HOST:5000 or sqlite:////FOLDER/mlflow.db"
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", uri):
        raise InputError(f"tracking.uri={uri!r} {expected}")
    try:
        parts = urlsplit(uri)
        lacks = "no host" if parts.scheme.startswith("http") and not parts.hostname else None
        lacks = "no file" if parts.scheme == "sqlite" and not parts.path.strip("/") else lacks
        _ = parts.port
    except ValueError as error:
        lacks = str(error)
    if lacks:
        raise InputError(f"tracking.uri={uri!r} {expected} ({lacks})")


def learn(environment: Mapping[str, str]) -> None:
    """Remembers the secrets of the environment, so that `redacted` knows them."""
    for name, value in environment.items():
        if is_secret(name) and not name.endswith("PWD") and len(value) >= LONG:
            _secrets.update({value, quote(value), quote(value, safe=""), quote_plus(value), repr(value)[1:-1]})


def words(command: Iterable[str]) -> list[str]:
    """The words of a command line without values of secret keys."""
    return [
        f"{word.partition('=')[0]}={HIDDEN}" if any(map(is_secret, re.findall(r"([\w.-]+)['\"]?\s*[=:]", word))) else word
        for word in map(redacted, command)
    ]


def redacted(text: str) -> str:
    """A text, such as an error of a library, with *** in place of what the environment keeps secret, and of users in addresses.

    An address ends at the first blank or quotation mark.
    """
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*://)(?!/)[^\s'\"]*@", rf"\1{HIDDEN}@", text)


def redact_logs() -> None:
    """Passes what libraries log in this process through `redacted`; our own lines have no secrets."""
    make = logging.getLogRecordFactory()
    if getattr(make, "func", None) is not _redacted_record:
        logging.setLogRecordFactory(functools.partial(_redacted_record, make))


def _redacted_record(make: Callable[..., logging.LogRecord], *arguments: Any, **options: Any) -> logging.LogRecord:
    record = make(*arguments, **options)
    if not record.name.startswith("harness."):
        record.msg, record.args = redacted(record.getMessage()), ()
    return record
