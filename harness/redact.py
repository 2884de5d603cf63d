"""Secrets in addresses and settings: no file, database, worker or console line gets them, only the call that connects.

An address is hidden where it enters: on the command line and where a config is composed. The process that composed it
remembers the whole one, and `whole` gives it back. What libraries say of it goes through `redacted`.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

from harness.errors import InputError

HIDDEN = "***"

SHOWN = ("charset", "client_encoding", "connect_timeout", "driver", "mode", "sslmode", "timeout")
"""Keys in the query of an address whose values are no secrets."""

SECRET = re.compile(
    r"(token|password|passwd|passphrase|pwd|secret|credential|authorization|(api|access|auth|private|secret)[_-]?key)s?$", re.I
)
"""How the name of a setting or of an environment variable ends whose value is a secret."""

NOT_SECRET = re.compile(r"(^|[._])(\w*_)?tokens$|(^|[._])(pad|cls|sep|mask|bos|eos|unk)_token$", re.I)
"""Names of that form in language models."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

SHORTEST = 4
"""Characters of a secret that is replaced inside of words, too."""

LONG = 8
"""Characters of a secret in the environment: shorter values are rarely one, and stand in many texts."""

_whole: dict[str, str] = {}
"""Hidden address -> the whole one, in the memory of this process alone."""

_secrets: set[str] = set()
"""Parts of the addresses and variables that this process has read."""


def hidden(address: str) -> str:
    """The address without its user and password, its fragment, and the values of its query but those of SHOWN."""
    scheme, separator, rest = address.partition("://") if SCHEME.match(address) else ("", "", address)
    user, host, query, fragment = _parts(rest)
    hidden_address = f"{scheme}{separator}{f'{HIDDEN}@' if user else ''}{host}"
    if query:
        hidden_address += "?" + "&".join(_shown(part) for part in query.split("&"))
    return hidden_address + (f"#{HIDDEN}" if fragment else "")


def _parts(rest: str) -> tuple[str, str, str, str]:
    """User and password, host with path, query, fragment, of what follows the scheme.

    `urllib.parse` takes a password with an unescaped / ? or # for a host; here it ends at the last @ that it can end at.
    """
    before, _, fragment = rest.partition("#")
    place, _, query = before.partition("?")
    port = place.partition("/")[0].rpartition("@")[2].partition(":")[2]
    is_malformed = "@" in fragment or "@" in query.partition("=")[0] or ("@" in rest and bool(re.search(r"[^\d\]:]", port)))
    if is_malformed and "@" not in place:
        user, _, place = rest.rpartition("@")
        return user, place, "", ""
    user, _, host = ("", "", place) if place.startswith("/") else place.rpartition("@")
    return user, host, query, fragment


def _shown(part: str) -> str:
    key, equals, _ = part.partition("=")
    return part if key in SHOWN else f"{key}={HIDDEN}" if equals else HIDDEN


def hide(address: str) -> str:
    """The address as it is shown, from which `whole` gives it back in this process."""
    masked = hidden(address)
    if masked != address and HIDDEN not in _secrets_of(address):
        _whole[masked] = address
        _secrets.update(_secrets_of(address))
    return masked


def _secrets_of(address: str) -> set[str]:
    scheme = SCHEME.match(address)
    user, _, query, fragment = _parts(address[scheme.end() if scheme else 0 :])
    values = (part.partition("=") for part in query.split("&"))
    secrets = {value or key for key, _, value in values if key not in SHOWN} | {fragment, user, *user.partition(":")[::2]}
    return secrets - {""}


def whole(address: str) -> str:
    """The address that was hidden; any other as it is. InputError for one whose secrets this process never had."""
    original = _whole.get(address, address)
    if HIDDEN in original:
        raise InputError(
            f"{address}: the secrets of this address are not kept: expected the whole address, "
            "by tracking.uri=, or in a run by tracking.uri='${oc.env:NAME}' and an environment variable"
        )
    return original


def learn(words: Iterable[str], environment: Mapping[str, str] | None = None) -> None:
    """Remembers the secrets in a command line and in the environment, so that `redacted` knows them."""
    for word in words:
        key, equals, value = word.partition("=")
        if SCHEME.search(key):
            hide(word)
        elif equals and SCHEME.search(value):
            for address in addresses(value):
                hide(address)
        elif equals and is_secret(key):
            _secrets.add(value)
    for name, value in (environment or {}).items():
        secrets = _secrets_of(value) if SCHEME.match(value) else {value} if is_secret(name) and not name.endswith("PWD") else ()
        _secrets.update(one for one in secrets if len(one) >= LONG)


def addresses(value: str) -> list[str]:
    """The addresses of a sweep over them, without quotation marks."""
    return [one.strip().strip("'\"") for one in re.split(rf",\s*(?=['\"]?{SCHEME.pattern})", value)]


def is_secret(key: str) -> bool:
    """Whether a setting, or a variable of the environment, of this name has a secret."""
    return bool(SECRET.search(key)) and not NOT_SECRET.search(key)


def words(command: Iterable[str]) -> list[str]:
    """The words of a command line as they are shown."""
    return [_word(word) for word in command]


def _word(word: str) -> str:
    key, equals, value = word.partition("=")
    if SCHEME.search(key):
        return hidden(word)
    if not equals or value in ("", "null"):
        return word
    if is_secret(key):
        return f"{key}={HIDDEN}"
    if value[0] in "{[":  # of keys and values as Hydra writes them: hidden as a whole
        names = re.split(r"[\s{}\[\],:'\"]+", value)
        return f"{key}={HIDDEN}" if SCHEME.search(value) or any(map(is_secret, names)) else word
    if not SCHEME.search(value):
        return word
    mark = value[0] if value[0] in "'\"" else ""
    return f"{key}=" + ",".join(f"{mark}{hidden(one)}{mark}" for one in addresses(value))


def values(node: Any, key: str = "") -> Any:
    """Nested plain values as they are shown: without values of secret keys, and with addresses hidden."""
    if isinstance(node, dict):
        return {name: values(value, str(name)) for name, value in node.items()}
    if isinstance(node, list):
        return [values(value, key) for value in node]
    if is_secret(key) and node not in (None, ""):
        return HIDDEN
    if not isinstance(node, str):
        return node
    return _word(node) if re.match(r"[\w.@+~/-]+=", node) else hidden(node) if SCHEME.match(node) else node


def redacted(text: str) -> str:
    """A text, such as an error of a library, with *** in place of every secret that this process knows, or in any address.

    An address that this process has not read itself ends at the first blank or quotation mark.
    """
    for masked, address in sorted(_whole.items(), key=lambda pair: -len(pair[1])):
        for form in _forms(address):
            text = text.replace(form, masked)
    for secret in sorted({form for one in _secrets for form in _forms(one)}, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return re.sub(rf"{SCHEME.pattern}[^\s'\"]*", lambda found: hidden(found[0]), text)


def redact_logs() -> None:
    """Passes what libraries log in this process through `redacted`; our own lines have no secrets."""
    make = logging.getLogRecordFactory()
    if getattr(make, "redacts", False):
        return

    def made(*arguments: Any, **options: Any) -> logging.LogRecord:
        record = make(*arguments, **options)
        if not record.name.startswith("harness."):
            record.msg, record.args = redacted(record.getMessage()), ()
        return record

    made.redacts = True
    logging.setLogRecordFactory(made)


def _forms(secret: str) -> set[str]:
    """As it was given, decoded, encoded as in an address, and as Python and JSON write it."""
    plain = {secret, unquote_plus(secret)}
    encoded = {write(one) for one in plain for write in (quote, quote_plus, lambda text: quote(text, safe=""))}
    written = {write(one)[1:-1] for one in plain for write in (repr, json.dumps)}
    return (plain | encoded | written) - {""}
