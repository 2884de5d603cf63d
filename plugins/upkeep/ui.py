"""Opens the tracking store in MLflow's UI: prints the address of each study's table, sorted by score, and serves until Ctrl-C.

python -m harness ui [output=multirun] [port=5000]
"""

import os
import socket
import sys
from typing import NoReturn

from harness import paths
from harness.errors import InputError, present
from harness.plugins.trackers import pages, sqlite_store
from harness.plugins.upkeep.options import Ui
from harness.tracking import database


def main(options: Ui) -> NoReturn:
    """Does not return; InputError where there is no store, or the port is taken."""
    uri = paths.database_uri(options.output)
    if not sqlite_store.exists(uri):
        raise InputError(f"output={options.output!r} has no tracking store; expected {uri.removeprefix(sqlite_store.SCHEME)}")
    try:
        database.refuse_foreign(present(database.path_of(uri)))
        sqlite_store.follow_the_folder(uri, paths.artifact_folder(options.output))
        studies = sqlite_store.studies(uri)
    except database.BrokenStoreError as error:
        raise InputError(str(error)) from error
    try:
        socket.create_server(("127.0.0.1", options.port)).close()
    except OSError as error:
        raise InputError(f"port={options.port} cannot be used ({error}): choose another one") from error
    for name, number in studies.items():
        print(f"{name}: {pages.table_address(number, f'http://127.0.0.1:{options.port}')}", flush=True)
    # in place of this process, so that whatever ends it ends the server; one worker, as four answer a tenth as fast
    settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    address = ["--host", "127.0.0.1", "--port", str(options.port)]
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1", *address, "--backend-store-uri", uri]
    os.execve(sys.executable, command, os.environ | settings)
