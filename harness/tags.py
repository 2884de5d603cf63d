"""Names of the tags of a run in MLflow, which the harness writes and the reports read.

MLflow's page of a run shows all its parameters, metrics and tags, so that only the main ones are kept there. The whole config,
and values and tags that are details, are in tags whose names begin with `mlflow.`, which that page leaves out. All others begin
with `harness.` there (`in_store`), apart from tags that users and other tools set.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

STUDY = "study"
HYPOTHESIS, HYPOTHESIS_TIME = "hypothesis", "hypothesis_time"
"""What the study expects, and when that was recorded, in ms since 1970; absent without one."""

ARM = "arm"
"""Readable label of what is compared: `base`, `base dtype=bf16`, `albert+mlm mask_rate=0.4`."""

SAME_AS = "same_as"
"""Another arm of the command with the same model and recipe under another name; absent otherwise."""

MODEL, SCALE, ENHANCEMENTS = "model", "scale", "enhancements"
"""The choices in conf/ for the encoder."""

TASK = "task"
PRETRAINING_TASK = "pretraining"
"""Value of the tag `task` of a pretraining."""

SEED = "seed"
"""Seed of the fine-tuning, or of the pretraining in its own run."""

PRETRAIN_SEED = "pretrain_seed"
"""Seed of the pretraining that the run starts from or is; absent without pretraining."""

CONDITIONS = "conditions"
"""Short hash of the conditions: the facts that must agree for a comparison (`harness/comparison/arms.py`)."""

LIFTED = "lifted"
"""JSON list of the dotted keys that vary between the arms of the command that ran it."""

FINGERPRINT = "fingerprint"
"""Hash of everything that affects the run's results: code, config, data, weights, versions."""

PRETRAINING = "pretraining"
"""Fingerprint of the pretraining that the run starts from; absent without one."""

RECIPE = "recipe"
"""Fingerprint of a pretraining without its seed, which all its replicates share."""

WEIGHTS_READ = "weights_read"
"""Decisions made while reading the run's published folder, in one line; absent without such a folder."""

SESSION = "session"
"""Name of the series of interleaved launches in which the run was timed; only runs of one session are paired by launch."""

LOOKS = "looks"
"""Number of interim analyses after which the session could have ended; they share the level."""

SEED_LOOKS = "seed_looks"
"""Number of interim analyses after which sweep.until=resolved could have ended; they share the level. Absent without it."""

REPLICATE = "replicate"
"""`true` for the A/A replicate: a second timing of the baseline in its session, which shows the noise."""

WARNING = "warning"
"""What went wrong in a training, with the keys to change; absent where nothing did."""

NOTES = "notes"
"""Kinds of failed training: `diverged`, `collapsed, best_first`, as `harness/study/outcome.py` names them."""

LEAKED = "leaked"
"""Share of the rows of validation that are in train, too, case and blanks aside; absent where there are none."""

ORIGIN = "data_set"
"""Name, revision, configuration and licence of the data set of the task; absent for files of the user and generated rows."""

OF_SESSION = "timing_of_session"
"""`true` if the timings of the run are relative to its session; in older versions they are of its own launches."""

STATUS = "status"
"""running, or a state of `harness.tracking.run_log`."""

REASON = "reason"
"""Why a run did not finish; empty or absent for finished runs."""

PIECES: Final = "pieces"
"""Pieces that a batch of training was cut into because the run ran out of memory with fewer; absent for others."""

PEAK: Final = "hardware/peak_flops_per_s"
"""Peak FLOP/s as measured by an earlier run of the same command; absent for the first one."""

RETRIES: Final = "retries"
"""In the record of a run: how its worker was killed, for each retry by the same command. As a tag: the number of retries."""

END: Final = "end"
"""In the record of a run: state, reason, last lines of its log and time of its end."""

ATTEMPT = "attempt"
"""Random name of one attempt at a run."""

HARDWARE, GIT_COMMIT, GIT_DIRTY = "hardware", "git_commit", "git_dirty"

COMMAND = "command"
"""The command, without passwords."""

DESIGN = "design"
"""Design of results of other tools: what repeats (`harness.comparison.paired.Design`); absent from runs of the harness."""

FIXED = "fixed"
"""`true` if published weights are scored without training, so that another seed gives the same score; absent otherwise."""

ROLE = "role"
"""`run`; `A/A replicate`; `study`: the one run that holds plan and report of its study. Absent from runs of older versions."""

ROLE_RUN, ROLE_REPLICATE, ROLE_STUDY = "run", "A/A replicate", "study"

PARAMETERS = "mlflow.harness.parameters"
"""Packed: the whole resolved config of a run, and its facts."""

METRICS = "mlflow.harness.metrics"
"""Packed: results of a run that are not separate metrics in MLflow."""

ENVIRONMENT = "mlflow.harness.environment"
"""Packed: machine, versions of packages and load, by names that begin with `environment.`."""

CLIENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "PGCONNECT_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Environment of MLflow's client, by default: a server that is dead, or never answers, would block for minutes."""

PREFIX, HIDDEN = "harness.", "mlflow.harness_"
"""Begin the names of the tags of the harness in MLflow; stores of versions before 0.6 have the bare names."""

DETAILS = (LIFTED, "expected", "selected_on", "process", SESSION, LOOKS, SEED_LOOKS, OF_SESSION, "git_", MODEL, ENHANCEMENTS)
"""Beginnings of tags that MLflow's page of a run leaves out, where tags stand above the description."""

PIECE = 5000
"""Characters of one tag; MLflow cuts those above 8,000 off."""


def in_store(of_run: Mapping[str, str]) -> dict[str, str]:
    """The tags by their names in MLflow."""
    prefixes = {key: "" if key.startswith("mlflow.") else HIDDEN if key.startswith(DETAILS) else PREFIX for key in of_run}
    return {prefixes[key] + key: value for key, value in of_run.items()}


def plain(stored: Mapping[str, str]) -> dict[str, str]:
    """Tags of MLflow by their plain names. Where a name is there twice, the tag of the harness counts."""
    names = sorted(stored, key=lambda key: (key.startswith(HIDDEN), key.startswith(PREFIX)))
    return {key.removeprefix(HIDDEN).removeprefix(PREFIX): stored[key] for key in names}


def filters(wanted: Mapping[str, str]) -> list[str]:
    """Filters of MLflow for runs with these values of tags: by the names of today, then by bare ones, as MLflow has no `or`."""
    return [" and ".join(f"tags.{prefix}{key} = '{value}'" for key, value in wanted.items()) for prefix in (PREFIX, "")]


def packed(name: str, values: Mapping[str, str | float]) -> dict[str, str]:
    """Tags `NAME.0`, `NAME.1` ... with all the values, as compressed JSON; the first one begins with their number."""
    content = base64.b64encode(zlib.compress(json.dumps(values).encode(), 9)).decode()
    pieces = [content[start : start + PIECE] for start in range(0, len(content), PIECE)]
    pieces[0] = f"{len(pieces)}:{pieces[0]}"
    return {f"{name}.{number}": piece for number, piece in enumerate(pieces)}


def unpacked(name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """The values that `packed` put into these tags; none where they hold none. ValueError for corrupt ones."""
    if f"{name}.0" not in tags:
        return {}
    count, _, first = tags[f"{name}.0"].partition(":")
    try:
        content = "".join([first, *(tags[f"{name}.{number}"] for number in range(1, int(count)))])
        values: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(content)))
    except (KeyError, ValueError, zlib.error) as error:
        raise ValueError(f"tag {name!r} is corrupt ({error!r}): expected one that a run of the harness wrote") from error
    return values


def without_packed(tags: Mapping[str, str]) -> dict[str, str]:
    """The other tags, and those of the environment."""
    others = {
        key: value for key, value in tags.items() if not key.startswith((f"{PARAMETERS}.", f"{METRICS}.", f"{ENVIRONMENT}."))
    }
    return others | {key: str(value) for key, value in unpacked(ENVIRONMENT, tags).items()}
