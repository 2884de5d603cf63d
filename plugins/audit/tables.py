"""Scores of published tables against finished runs of the same weights under the same protocol."""

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from statistics import fmean, stdev

from harness import tags
from harness.comparison import arms
from harness.comparison.paired import t_quantile
from harness.comparison.runs import Run
from harness.config.protocols import OF_TASKS
from harness.models.keys import NEEDS
from harness.paths import OF_TRIALS
from harness.plugins.audit.claims import TableScore
from harness.plugins.audit.scores import plain
from harness.plugins.audit.verdicts import Measured, Point
from harness.plugins.protocols.chapter import STATISTICS
from harness.records import shipped

UNCHANGED = shipped(__file__, dict[str, str])
"""What a run of published weights under a protocol has, unless the protocol states it."""

COMPARED = (*(f"{section}." for section in OF_TASKS), "protocol.starts_from", "protocol.statistic", "search.")
"""Keys of a protocol that shape the scores of a run."""

SAID = ("model_keys", "said_keys.model=", "said_keys.enhancement=")
"""Parameters that list keys of the model which a command, or a choice of it, sets."""

ROUNDED = 0.05
"""Points by which a published score may be off, as it has one decimal."""


def compare(row: TableScore, runs: list[Run], protocol: Mapping[str, str]) -> Measured:
    """Difference to as many runs here, in points, with the 95 % interval of what other seeds give; why it is not comparable.

    `protocol` has the settings that the protocol states for the task. The interval is that of the difference between two
    means, of our seeds and of the published ones. A median, or a best score, varies less than a single run, whose variance
    takes the place of theirs.
    """
    metrics = [f"eval/{name}" for name in row.metric.split("+")]
    found = [
        run
        for run in runs
        if PurePath(run.params.get("model.init_from", "").partition("@")[0]).name == PurePath(row.model).name
        and (run.params.get("protocol_name"), run.tags[tags.TASK]) == (row.protocol, row.task)
        and not run.tags[tags.STUDY].endswith(OF_TRIALS)
        and run.params.get("protocol.statistic") in STATISTICS
        and run.metrics.keys() >= {*metrics}
    ]
    if not found:
        return Measured()
    found = [run for run in found if not _changed(run, protocol)] or found
    by_seed = {run.tags[tags.SEED]: 100 * fmean(run.metrics[name] for name in metrics) for run in found}
    scores, statistic = [*by_seed.values()], found[-1].params["protocol.statistic"]
    value, half = STATISTICS[statistic](scores), math.inf
    if len(scores) > 1:
        share = 1 / len(scores) + 1 / row.seeds if statistic == "mean" else 2
        half = t_quantile(len(scores) - 1) * stdev(scores) * math.sqrt(share) + ROUNDED
    changed = ([] if row.split == "validation" else ["data.split=validation"]) + _changed(found[-1], protocol)
    rows = "on other rows" if any(text.startswith("data.") for text in changed) else "with other settings"
    missing = f"run {rows}: {', '.join(changed)}" if changed else ""
    weights = found[-1].params["model.init_from"].partition("@")[0]
    note = "" if weights == row.model else f"{row.model} is compared with the weights {weights}, by the end of their name"
    return Measured((Point(value, {"seeds": len(scores)}, value - half, value + half),), missing=missing, note=note)


def command(rows: list[TableScore]) -> str:
    """The study of these rows, which are of one model; empty where no protocol is named."""
    model, protocol = rows[0].model, rows[0].protocol
    tasks = ",".join(dict.fromkeys(row.task for row in rows))
    words = ["python", "-m", "harness", "-m", f"+protocol={protocol}", f"model.init_from={model}", f"task={tasks}"]
    return shlex.join(words) if protocol else ""


def _changed(run: Run, protocol: Mapping[str, str]) -> list[str]:
    """What differs from the published weights and from the protocol: `data.train_examples=400`."""
    stated = UNCHANGED | {key: value.strip('"') for key, value in protocol.items() if key.startswith(COMPARED)}
    said = " ".join(value for key, value in run.params.items() if key.startswith(SAID))
    stated |= {f"model.{key}": "as published" for key in re.findall(r"\w+", said) if key in (*NEEDS, "keep_layers")}
    params = arms.stated(run.params)
    found = {key: params.get(key, "not recorded").replace("'", '"') for key in stated}
    changed = [f"{key}={found[key]}" for key, value in stated.items() if plain(found[key]) != plain(value)]
    return changed if "model_keys" in run.params else [*changed, "model_keys=not recorded"]
