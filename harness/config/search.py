"""A search for settings of fine-tuning, with the same number of trials for every arm."""

from dataclasses import dataclass, field

from harness.config.choices import Sampler
from models.ranges import LARGEST_SEED, number


@dataclass
class SearchConfig:
    """Each arm is tuned on rows of its training data that its trials are not trained on; read in `harness/study/search/`."""

    space: list[str] = field(
        default_factory=list
    )  # KEY=interval(LOW,HIGH), KEY=tag(log,interval(LOW,HIGH)) or KEY=choice(A,B) of each key; empty: no search
    trials: int = number(10, at_least=1, limit=10000)  # of each arm on each task
    sampler: Sampler = Sampler.random  # how the trials are chosen
    tune_share: float = number(0.1, above=0, below=1)  # of train, which trials are scored on; task.tune_share where that is set
    seed: int = number(1000, at_least=0, limit=LARGEST_SEED)  # of the sampler and of the trials' fine-tuning
    reduction: int | None = number(
        None, at_least=2, limit=100
    )  # successive halving: of the trials that reach a budget, one in so many gets this many times as much (arXiv:1810.05934)
