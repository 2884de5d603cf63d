"""Opens the tracking store in MLflow's UI: prints the address of each study's table, sorted by score, and serves until Ctrl-C.

python -m harness ui [output=multirun] [tracking.uri=sqlite:////PATH] [port=5000]
"""

import os
import signal
import socket
import sys
from typing import NoReturn

from harness import paths
from harness.command import ENDING
from harness.errors import InputError
from harness.plugins.trackers import pages, sqlite_store
from harness.plugins.trackers.mlflow_store import MlflowClient, MlflowException
from harness.plugins.upkeep.options import Ui
from harness.tracking import database
from harness.tracking.trackers import complaint


def main(options: Ui) -> NoReturn:
    """Does not return; InputError where there is no store, MLflow cannot open it, or the port is taken."""
    uri = options.uri or paths.database_uri(options.output)
    if (path := database.path_of(uri)) is None:
        raise InputError(f"tracking.uri={uri} has its own pages: expected a SQLite file, sqlite:////PATH")
    if options.uri and not path.exists():
        raise InputError(f"tracking.uri={uri}: there is no file {path}")
    if not path.exists():
        raise InputError(f"output={options.output!r} has no tracking store; expected {uri.removeprefix(sqlite_store.SCHEME)}")
    try:
        database.refuse_foreign(path)
        if not options.uri:
            sqlite_store.follow_the_folder(uri, paths.artifact_folder(options.output))
        studies = sqlite_store.studies(uri)
        MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
    except database.BrokenStoreError as error:
        raise InputError(str(error)) from error
    except MlflowException as error:  # a store of another version
        raise InputError(f"MLflow {complaint(error)}") from error
    try:
        socket.create_server(("127.0.0.1", options.port)).close()
    except OSError as error:
        raise InputError(f"port={options.port} cannot be used ({error}): choose another one") from error
    for ending in ENDING:  # a handler that was called just before the process is replaced would not run in either
        signal.signal(ending, signal.SIG_DFL)
    for name, number in studies.items():
        print(f"{name}: {pages.table_address(number, f'http://127.0.0.1:{options.port}')}", flush=True)
    # in place of this process, so that whatever ends it ends the server; one worker, as four answer a tenth as fast
    settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    address = ["--host", "127.0.0.1", "--port", str(options.port)]
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1", *address, "--backend-store-uri", uri]
    os.execve(sys.executable, command, os.environ | settings)
