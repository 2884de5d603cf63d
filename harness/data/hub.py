"""Whether the hub of data sets can be reached, asked once: its library tries for half a minute, and no setting bounds that."""

import socket
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit
from urllib.request import getproxies

from harness.errors import InputError

TIMEOUT_S = 10
"""As the library's own for the first answer."""


def refuse_unreachable(datasets: ModuleType, name: str, where: str) -> None:
    """InputError where nothing answers at the hub's address, unless a proxy is in between or the data set was loaded before."""
    settings = datasets.config
    loaded = Path(settings.HF_DATASETS_CACHE).expanduser() / name.replace("/", "___")
    address = urlsplit(settings.HF_ENDPOINT)
    if settings.HF_HUB_OFFLINE or loaded.is_dir() or {address.scheme, "all"} & getproxies().keys():
        return
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname, port), timeout=TIMEOUT_S).close()
    except OSError as error:
        raise unreachable(name, where) from error


def unreachable(name: str, where: str) -> InputError:
    """The error for a data set of the hub that cannot be had."""
    return InputError(
        f"{where}: the hub cannot be reached for the data set {name!r}; data=local data.root=FOLDER reads local folders"
    )
