"""Passwords in addresses: no file, database, worker or console line gets them, only the call that connects.

An address is hidden where it enters: on the command line and where a config is composed. The process that composed it
remembers the whole one, and `whole` gives it back.
"""

import re

HIDDEN = "***"

_PASSWORD = re.compile(r"(?<=://)([^\s/:@'\"]*):[^\s'\"]*@|(?i:(?<=[?&])(\w*password|passwd|pwd|token)=[^\s&'\"]+)")
"""Of `scheme://user:password@host`, and of `?password=...`."""

_whole: dict[str, str] = {}
"""Hidden address -> the whole one, in the memory of this process alone."""


def redacted(text: str) -> str:
    """The text with *** in place of the passwords of the addresses in it."""
    return _PASSWORD.sub(lambda found: f"{found[2]}={HIDDEN}" if found[2] else f"{found[1]}:{HIDDEN}@", text)


def hide(address: str) -> str:
    """The address without its password, from which `whole` gives it back in this process."""
    shown = redacted(address)
    if shown != address:
        _whole[shown] = address
    return shown


def whole(address: str) -> str:
    """The address that was hidden; any other as it is."""
    return _whole.get(address, address)
