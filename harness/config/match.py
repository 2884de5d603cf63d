"""Fair comparisons: how a variant is resized before it runs; without effect on a run beyond the shape that it gets."""

from dataclasses import dataclass

from harness.config.choices import MatchBy, MatchOn
from models.ranges import number


@dataclass
class MatchConfig:
    """A variant resized until it costs as much as the baseline of the command; read in `harness/study/match.py`."""

    cost: MatchOn = MatchOn.none  # what a variant is to have as much of as the baseline
    to: str = "base"  # the baseline: a model of the command, without enhancements, of the same scale
    by: MatchBy = MatchBy.hidden_size  # what is resized for it
    within: float = number(0.01, above=0, below=1)  # share of the baseline's cost that is close enough to go without a note
    tolerance: float = number(0.05, above=0, below=1)  # share from which on the command is refused
    rounds: int = number(5, at_least=3)  # of match=latency: launches of both variants for each shape that is tried
