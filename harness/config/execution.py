"""How the runs of a command are executed; without effect on what any of them measures."""

from dataclasses import dataclass

from models.ranges import number

ON_FAILURE = ("continue", "stop")
"""Values of sweep.on_failure."""

REMOVED = {
    "sweep.lease": "sweep.lease was removed: leave it out; machines that run one sweep share the folder `output`, or are given "
    "its runs by hydra/launcher=submitit_slurm or ray"
}
"""Key of an earlier version -> what is said where it is set."""


@dataclass
class SweepConfig:
    """What happens to a run that does not end well, and to those after it; read in `harness/study/`."""

    on_failure: str = "continue"  # with the other runs; stop: at the first run that does not finish
    same_failures: int = number(5, at_least=0)  # failures of one kind in a row after which the sweep stops; 0: never
    timeout_minutes: float | None = number(None, above=0)  # longest time of a run; null: no limit
    silent_minutes: float | None = number(60.0, above=0)  # longest time without progress of any kind; null: no limit
    budget_minutes: float | None = number(
        None, above=0
    )  # of all runs together, finished ones included: seeds that do not fit are left out; null: no limit
    timing: bool = True  # times what has finished; false leaves that to a later command, as where several share a sweep
    retime: bool = False  # times again what an earlier session has timed, and trains nothing again
    retries: int = number(0, at_least=0)  # times that a run whose worker was killed from outside is run again at once
    quiet: bool = False  # shows only problems and where the results are; every line is in sweep.log of the study (-q)
