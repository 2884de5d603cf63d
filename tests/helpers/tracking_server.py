"""MLflow's own server in a thread of the test, which does what the test says before each answer."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server


class _Silent(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Nothing: tests read the console."""


@contextlib.contextmanager
def serving(store: Path, before: Callable[[str], None]) -> Iterator[str]:
    """Address of a server for this SQLite file; `before` gets the path of each request, in a thread of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports at its first search
        from mlflow import server
        from mlflow.server import handlers

        with contextlib.suppress(ImportError):  # of mlflow[auth], which the server then does without
            from mlflow.server import auth  # noqa: F401

    def application(environ: dict, start: Callable) -> Iterable[bytes]:
        before(environ["PATH_INFO"])
        return server.app(environ, start)

    with pytest.MonkeyPatch.context() as patch:
        files = str(store.parent / "served")
        patch.setenv(server.BACKEND_STORE_URI_ENV_VAR, f"sqlite:///{store}")
        patch.setenv(server.ARTIFACT_ROOT_ENV_VAR, "mlflow-artifacts:/")
        patch.setenv(server.ARTIFACTS_DESTINATION_ENV_VAR, files)
        patch.setenv(server.SERVE_ARTIFACTS_ENV_VAR, "true")
        patch.setattr(handlers, "_tracking_store", None)  # that of an earlier test
        patch.setattr(handlers, "_artifact_repo", None)
        patch.setattr(handlers, "_model_registry_store", None)
        patch.setattr(handlers.registry_utils, "set_registry_uri", lambda uri: None)  # clients here would pass the server by
        made = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Silent)
        made.daemon_threads = True
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            thread.join()
