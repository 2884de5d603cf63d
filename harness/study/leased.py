"""Runs that machines without a common folder share: each is leased in the tracking store while it runs."""

from typing import TYPE_CHECKING

from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.study.plan import PlannedRun
from harness.tracking.trackers import open_leases
from models.objectives.config import ObjectiveName

if TYPE_CHECKING:
    from harness.tracking.mlflow_leases import Leases

TRACKING = "tracking"
"""Value of sweep.lease."""


def refuse_impossible(configs: list[RunConfig]) -> None:
    """InputError where a run that another machine has finished would be missing here, or where there is no common store."""
    if TRACKING not in {config.sweep.lease for config in configs}:
        return
    config = configs[0]
    if any(config.search.space for config in configs):
        raise InputError("sweep.lease=tracking has no search: every machine would tune anew; leave out `search`, or the lease")
    if not config.tracking.mlflow or not config.tracking.uri:
        raise InputError("sweep.lease=tracking needs a store that all machines reach: expected tracking.uri=http://HOST:PORT")
    if len({config.study for config in configs}) > 1:
        raise InputError("sweep.lease=tracking has one study: expected one value of `study`")
    if config.rerun:
        raise InputError("sweep.lease=tracking runs nothing again that has finished: leave out rerun=true")
    if config.sweep.budget_minutes is not None:
        raise InputError("sweep.lease=tracking has no budget of time: leave it out, or sweep.budget_minutes")
    if any(config.pretrain.objective is not ObjectiveName.none and config.pretrain.checkpoint is None for config in configs):
        raise InputError(
            "sweep.lease=tracking has no pretraining, whose weights stay on one machine: expected pretrain=none, "
            "or sweep.lease=folder and an `output` that all machines share"
        )


def opened(planned: list[PlannedRun]) -> "Leases | None":
    """None where runs are claimed in their folders alone. InputError where the store does not answer."""
    config = planned[0].config
    return open_leases(config.tracking.uri, config.study) if config.sweep.lease == TRACKING else None
