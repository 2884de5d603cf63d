"""Leases of runs in MLflow, for machines that share a tracking server but no folder.

A lease is a registered model, because that is the only thing of which MLflow makes no two with one name. It is called
`lease.STUDY.RUN.TERM`, the first two in hashes. Who holds the highest term holds the run, renews it while it runs, writes there
that it has a result, and deletes it once that is in the store. A lease without a result that is not renewed for EXPIRES_S has
expired, and the next term may be made. That time is measured by the clock of the process that waits: clocks need not agree.
"""

import contextlib
import hashlib
import itertools
import threading
import time
from typing import Any

from harness import tags
from harness.errors import InputError
from harness.redact import redacted, whole
from harness.tracking import attempts
from harness.tracking.background import one_line
from harness.tracking.mlflow_store import MlflowClient, MlflowException
from harness.tracking.states import State

RENEWED_S, EXPIRES_S = 30.0, 300.0
"""Seconds between two renewals of a lease, and without one after which it has expired."""

HOLDER, RENEWED, STATE = "process", "renewed", "state"
"""Tags of a lease: the process that holds it, how often it was renewed, and the state of the run once it has a result."""

RESULTS = (State.finished, State.diverged)

MOST_TERMS = 1000
"""Of one run that one search finds."""


class StoreError(OSError):
    """The store does not answer, so that a run can be neither leased nor known to be free."""


class Leases:
    """Those of a study that this process holds or waits for; a run is named by its fingerprint.

    StoreError from a call that the store does not answer.
    """

    def __init__(self, uri: str, study: str, renewed_s: float = RENEWED_S, expires_s: float = EXPIRES_S) -> None:
        """InputError where there is no store."""
        self._client, self._renewed_s, self._expires_s = MlflowClient(tracking_uri=whole(uri)), renewed_s, expires_s
        self._study, self._short = study, hashlib.sha256(study.encode()).hexdigest()[:8]
        self._held: dict[str, int] = {}  # run -> its term
        self._lost: set[str] = set()
        self._seen: dict[str, tuple[str, float]] = {}  # lease -> its last renewal, and when it was first seen
        self._lock = threading.Lock()
        try:
            self._client.search_registered_models(max_results=1)
        except MlflowException as error:
            text = f"sweep.lease=tracking needs the store {redacted(uri)}, which does not answer: {one_line(error)}"
            raise InputError(text) from error
        threading.Thread(target=self._renew, name="leases", daemon=True).start()

    def take(self, run: str, title: str) -> bool:
        """Whether this process holds the lease of the run from now on; no other process does then."""
        try:
            term = 0
            for one in self._terms(run)[-1:]:
                if not self._has_expired(one):
                    return False
                term = _term(one) + 1
            known = {HOLDER: attempts.this_process(), RENEWED: "0"}
            self._client.create_registered_model(self._name(run, term), known, f"{title}: is run by {known[HOLDER]}")
        except MlflowException as error:
            if error.error_code == "RESOURCE_ALREADY_EXISTS":  # another process was faster
                return False
            raise _unanswered(error) from error
        with self._lock:
            self._lost.discard(run)
            self._held[run] = term
        return True

    def is_lost(self, run: str) -> bool:
        """Whether a lease that this process held has expired, so that another process may hold it now."""
        return run in self._lost

    def end(self, run: str, state: State) -> None:
        """Says that the run has ended, before that is in the store."""
        if state in RESULTS and run in self._held:
            with contextlib.suppress(MlflowException):  # a store that is away: the others wait until it is back
                self._client.set_registered_model_tag(self._name(run, self._held[run]), STATE, state.value)

    def release(self, run: str) -> None:
        """Gives the lease back; where the store does not answer, it expires by itself."""
        with self._lock:
            term = self._held.pop(run, -1)
        try:
            for one in self._terms(run):
                if _term(one) <= term:
                    self._client.delete_registered_model(one.name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":  # somebody has deleted it
                raise _unanswered(error) from error

    def result(self, run: str) -> tuple[State, str] | None:
        """State and host of this run, where it has a result in the store or on its way there."""
        try:
            found = [one.tags | {tags.STATUS: one.tags.get(STATE)} for one in self._terms(run)]
            if experiment := self._client.get_experiment_by_name(self._study):
                condition = f"tags.{tags.FINGERPRINT} = '{run}' and tags.{tags.ROLE} = '{tags.ROLE_RUN}'"
                found += [one.data.tags for one in self._client.search_runs([experiment.experiment_id], condition)]
        except MlflowException as error:
            raise _unanswered(error) from error
        ended = [known for known in found if known.get(tags.STATUS) in RESULTS]
        return (State(ended[0][tags.STATUS]), ended[0].get(HOLDER, "").partition(":")[0]) if ended else None

    def _name(self, run: str, term: int | str) -> str:
        return f"lease.{self._short}.{run}.{term}"

    def _terms(self, run: str) -> list[Any]:
        """All leases of the run, the highest term last."""
        found = self._client.search_registered_models(f"name LIKE '{self._name(run, '%')}'", MOST_TERMS)
        return sorted(found, key=_term)

    def _has_expired(self, lease: Any) -> bool:
        """Whether its holder, on this machine, is gone, or has not renewed it for EXPIRES_S since it was first seen."""
        if lease.tags.get(STATE):
            return False
        if attempts.is_gone(lease.tags.get(HOLDER)):
            return True
        renewed, now = lease.tags.get(RENEWED, ""), time.monotonic()
        before, since = self._seen.get(lease.name, ("", now))
        if renewed != before:
            since = now
        self._seen[lease.name] = (renewed, since)
        return now - since > self._expires_s

    def _renew(self) -> None:
        for count in itertools.count(1):
            time.sleep(self._renewed_s)
            for run, term in list(self._held.items()):
                try:
                    highest = [_term(one) for one in self._terms(run)][-1:]
                    if highest == [term]:
                        self._client.set_registered_model_tag(self._name(run, term), RENEWED, str(count))
                        continue
                except MlflowException:  # the store is away for a moment: many more renewals come before the lease expires
                    continue
                with self._lock:
                    if self._held.get(run) == term:  # it was not released meanwhile
                        del self._held[run]
                        self._lost.add(run)


def _term(lease: Any) -> int:
    return int(lease.name.rpartition(".")[2])


def _unanswered(error: MlflowException) -> StoreError:
    return StoreError(f"the tracking store that leases runs does not answer: {one_line(error)}")
