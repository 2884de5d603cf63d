"""Keys that no run of a command reads: a command that types or sweeps one would name arms by what they do not differ in."""

import functools
import itertools
from operator import attrgetter

from harness.config.conditions import PRETRAINING
from harness.config.schema import RunConfig, key_of, stated_keys
from harness.errors import InputError
from harness.models.ranges import Refused, When


def unread_by(run: RunConfig) -> list[str]:
    """Keys that this run does not read."""
    return [key for key in stated_keys() if not all(holds(run, key, when) for when in stated_keys()[key].read)]


def holds(run: RunConfig, key: str, when: When) -> bool:
    """Whether a condition of this key holds; also where the section of the key is left out."""
    section, _, _ = key.rpartition(".")
    owner = attrgetter(section)(run) if section else run
    return owner is None or bool(when.holds(run, owner))


def refuse_unread_parts(runs: list[RunConfig], overrides: list[str]) -> None:
    """InputError for a key, typed or swept by a file, that none of the runs reads."""
    typed = {key_of(override): override.lstrip("+") for override in overrides}
    swept, weights = runs[0].swept, runs[0].pretrain.checkpoint
    for said_key, said in ({key: key for key in swept} | typed).items():
        above = itertools.accumulate(said_key.split("."), "{}.{}".format)
        key = max((name for name in above if name in stated_keys()), key=len, default="")
        for when in stated_keys()[key].read if key else ():
            is_refused = said_key in swept or not (when.refused is Refused.swept or stated_keys()[key].section)
            if not is_refused or any(holds(run, key, when) for run in runs):
                continue
            choice = when.choice.format(section=key.partition(".")[0])
            reason = f"no run of this command {when.why}: add {choice}"
            if when is PRETRAINING and weights is not None:
                reason = f"the pretraining is that of pretrain.from={weights}: name a pretraining with that setting"
            raise InputError(f"{said} has no effect, because {reason}, or leave it out")


@functools.cache
def _refused_everywhere() -> list[tuple[str, object, When]]:
    """Keys with their defaults and conditions; a sweep checks them for each of its runs."""
    pairs = ((key, stated.field.default, when) for key, stated in stated_keys().items() for when in stated.read)
    return [(key, default, when) for key, default, when in pairs if when.refused is Refused.everywhere]


def refuse_idle(config: RunConfig) -> None:
    """InputError for a key with another value than its default, in a command or a file, that only other runs could read."""
    for key, default, when in _refused_everywhere():
        if (value := attrgetter(key)(config)) != default and not holds(config, key, when):
            choice = when.choice.format(section=key.partition(".")[0])
            raise InputError(f"{key}={value} is read only by a run that {when.why}: add {choice}, or leave it out")
