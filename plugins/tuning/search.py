"""A search: trials of every arm side by side, chosen by optuna and run as all runs are, then the best settings of each arm.

Samplers and trials have fixed seeds, so that the same command has the same trials: those that have finished are skipped, and
a search that was killed continues. Trials are scored on rows of train that they are not trained on.
"""

import functools
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, get_args, get_type_hints

from harness import paths
from harness.config.choices import Keep, KeepBest, Sampler, Until
from harness.config.rules import refuse_impossible
from harness.config.schema import FinetuneConfig, RunConfig, SearchConfig, without
from harness.config.sweep import values_of
from harness.errors import InputError, unknown
from harness.extensions import library
from harness.study import plan_file
from harness.terminal import console, counted
from harness.tracking.run_log import Result, State

SECTION = "finetune."
"""Prefix of searchable keys: trials share their data and their pretraining."""

Settings = dict[str, Any]
"""Key -> value of one trial."""


@dataclass(frozen=True)
class Dimension:
    """One key that is searched: between `low` and `high`, evenly on a logarithmic scale if `log`, or among `choices`."""

    key: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[float, ...] = ()

    @property
    def ends(self) -> tuple[float, ...]:
        """Values at which no run may be impossible."""
        return self.choices or (self.low, self.high)


def dimensions(config: RunConfig) -> list[Dimension]:
    """The space of the run's search; InputError for an invalid space, or one whose ends no run could have."""
    if config.search.selected_on is KeepBest.none:
        raise InputError("search.selected_on=none selects nothing: expected tune or validation")
    if config.finetune.keep_best is KeepBest.validation and config.search.selected_on is KeepBest.tune:
        raise InputError("search must not see the rows that are reported: set finetune.keep_best=tune or none")
    space = [_dimension(text) for text in config.search.space]
    if len({dimension.key for dimension in space}) < len(space):
        raise InputError(f"search.space={config.search.space} names a key twice: expected each once")
    for dimension in space:
        if config.search.sampler is Sampler.grid and not dimension.choices:
            raise InputError(f"search.sampler=grid needs listed values: expected {dimension.key}=choice(A,B), not an interval")
        for value in dimension.ends:
            refuse_impossible(with_settings(config, {dimension.key: value}))
    return space


def _dimension(text: str) -> Dimension:
    """The dimension of `KEY=choice(...)` and the like, as Hydra reads them."""
    wrong = InputError(
        f"search.space: {text!r} is not a range: expected KEY=interval(LOW,HIGH), KEY=tag(log,interval(LOW,HIGH)) "
        "or KEY=choice(A,B)"
    )
    parsed = values_of(text)
    if parsed is None:
        raise wrong
    key, choices, ends, marks = parsed
    if key not in _numbers():
        raise unknown("key", key, _numbers(), "search.space")
    if not (marks <= {"log"} and all(type(value) in (int, float) for value in choices)):
        raise wrong
    if _numbers()[key] and (part := next((value for value in (*choices, *ends) if value % 1), None)):
        raise InputError(f"search.space: {text!r} has {part}: expected whole numbers for {key}")
    if choices:
        return Dimension(key, choices=choices)
    (low, high), log = ends, "log" in marks
    if not low < high or (log and low <= 0):
        raise InputError(f"search.space: {text!r} needs LOW below HIGH{', and above 0 on a logarithmic scale' if log else ''}")
    return Dimension(key, low, high, log)


def grid(config: RunConfig) -> list[Settings]:
    """The combinations of listed values that a search of a grid runs: `search.part` of them all, drawn by `search.seed`."""
    search, space = config.search, dimensions(config)
    every = itertools.product(*([(one.key, value) for value in one.choices] for one in space))
    combinations = [dict(settings) for settings in every]
    return random.Random(search.seed).sample(combinations, max(1, round(search.part * len(combinations))))


def trials_of(config: RunConfig) -> int:
    """How many trials the search of this run has."""
    return len(grid(config)) if config.search.sampler is Sampler.grid else config.search.trials


@functools.cache
def _numbers() -> dict[str, bool]:
    """Key of a number of fine-tuning -> whether it takes whole numbers alone."""
    kinds = {key: {*(get_args(kind) or (kind,))} for key, kind in get_type_hints(FinetuneConfig).items()}
    return {f"{SECTION}{key}": float not in kind for key, kind in kinds.items() if kind & {int, float}}


def with_settings(config: RunConfig, settings: Settings) -> RunConfig:
    """The run with these values of its keys."""
    values: dict[str, Any] = {
        key.removeprefix(SECTION): int(value) if _numbers()[key] else value for key, value in settings.items()
    }
    return replace(config, finetune=replace(config.finetune, **values))


def value_text(value: float) -> str:
    """As it is typed, with three digits: `0.000316`; whole numbers with all: `1847`."""
    return str(value) if isinstance(value, int) else f"{value:.3g}"


SCORES = {KeepBest.tune: "tune/score", KeepBest.validation: "eval/score"}
"""Rows that trials are scored on -> the metric."""

SETTINGS = "settings"
"""Attribute of a trial of optuna: its settings, rounded as they are run."""

RUNGS = 3
"""Budgets of successive halving: the whole one, and two shorter ones."""


@dataclass
class Search:
    """The trials of one arm on one task, one after the other."""

    config: RunConfig  # of the arm, with the settings given
    dimensions: list[Dimension]
    study: Any  # optuna's, which keeps settings and scores of the trials
    _trial: Any = None

    @functools.cached_property
    def trials(self) -> int:
        """How many there are."""
        return trials_of(self.config)

    @property
    def rungs(self) -> int:
        """Budgets that a trial may be run with."""
        return rungs_of(self.config.search)

    def ask(self) -> None:
        """Chooses the settings of the next trial."""
        self._trial = self.study.ask()
        self._trial.set_user_attr(SETTINGS, {one.key: _suggested(self._trial, one) for one in self.dimensions})

    def run_of(self, rung: int) -> RunConfig | None:
        """The current trial with the budget of this rung; None where it has ended."""
        if self._trial is None:
            return None
        search, settings = self.config.search, self._trial.user_attrs[SETTINGS]
        config = with_settings(self.config, settings)
        finetune, share = config.finetune, 1.0 if search.reduction is None else search.reduction ** (rung + 1 - RUNGS)
        unit = "epochs" if finetune.seconds is None else "seconds"
        budget = {unit: getattr(finetune, unit) * share}
        values = {**settings, **({f"finetune.{unit}": budget[unit]} if share < 1 else {})}
        task = config.task
        if search.selected_on is KeepBest.tune:
            task = replace(task, tune_share=task.tune_share or search.tune_share)
        if finetune.max_steps is not None:
            budget["max_steps"] = max(1, round(finetune.max_steps * share))
        return replace(
            config,
            study=config.study + paths.OF_TRIALS,
            seed=search.seed,
            report=False,
            finetune=replace(finetune, **budget, submit=False, keep=Keep.none),
            measure=replace(config.measure, enabled=False),
            task=task,
            search=replace(search, space=[]),
            sweep=replace(config.sweep, budget_minutes=None, until=Until.seeds),
            settings=config.settings | {key: value_text(value) for key, value in values.items()},
            overrides=_overrides(config, values),
        )

    def take(self, result: Result | None, rung: int) -> None:
        """Takes the result of the current trial after this rung."""
        name = SCORES[self.config.search.selected_on]
        score = result["metrics"].get(name) if result is not None and result["status"] == State.finished else None
        states = _optuna().trial.TrialState
        if score is None:
            self.study.tell(self._trial, state=states.FAIL)
        elif rung == self.rungs - 1:
            self.study.tell(self._trial, score)
        else:
            self._trial.report(score, step=(self.config.search.reduction or 1) ** rung)
            if not self._trial.should_prune():
                return
            self.study.tell(self._trial, state=states.PRUNED)
        self._trial = None

    def best(self) -> RunConfig:
        """The arm with the settings of the trial that scored best with the whole budget; InputError where none finished."""
        try:
            best = self.study.best_trial  # of equal ones the first
        except ValueError as error:
            raise InputError(
                f"search: no trial of {self.config.label} on {self.config.task.name} finished; "
                f"why: {plan_file.called(self.config.output, self.config.study + paths.OF_TRIALS)}"
            ) from error
        settings, arm = best.user_attrs[SETTINGS], self.config.arm
        arm += "" if self.config.protocol_name else " (tuned)"  # a protocol may search on some of its tasks alone
        trials, pruned = self.study.trials, _optuna().trial.TrialState.PRUNED
        tuned_by = {
            "settings": json.dumps(settings),
            "scores": json.dumps([trial.value for trial in trials]),  # null: diverged or failed
            "short": json.dumps([one.state is pruned or len(one.intermediate_values) < self.rungs - 1 for one in trials]),
            "selected_on": self.config.search.selected_on.value,
            "given": json.dumps({key: getattr(self.config.finetune, key.removeprefix(SECTION)) for key in settings}),
        }
        tuned = with_settings(self.config, settings)
        return replace(tuned, arm=arm, tuned=tuned_by, overrides=[*_overrides(self.config, settings), f"arm='{arm}'"])


def rungs_of(search: SearchConfig) -> int:
    """Budgets that a trial may be run with."""
    return 1 if search.reduction is None else RUNGS


class Searches:
    """The searches of a command, one of each arm on each task; InputError for a wrong space."""

    def __init__(self, composed: list[RunConfig]) -> None:
        self._composed = composed
        self._searches: dict[tuple[str, ...], Search] = {}
        self._running: list[Search] = []  # searches whose trials are run now, with the budget of this rung
        self._rung = 0
        for config in composed:
            if config.search.space and key_of(config) not in self._searches:
                self._searches[key_of(config)] = Search(config, dimensions(config), _optuna_study(config))

    def rounds(self) -> Iterator[tuple[list[RunConfig], str]]:
        """The next trials of all arms, with one budget, and a heading; `take` is to be called with their results."""
        every = [*self._searches.values()]
        for number in range(max((search.trials for search in every), default=0)):
            searches = [search for search in every if number < search.trials]
            for search in searches:
                search.ask()
            for rung in range(RUNGS):
                trials = [(search, run) for search in searches if rung < search.rungs and (run := search.run_of(rung))]
                if trials:
                    self._running, self._rung = [search for search, _ in trials], rung
                    budget = f", budget {rung + 1} of {RUNGS}" if trials[0][0].rungs > 1 else ""
                    most = max(search.trials for search in searches)
                    yield [run for _, run in trials], f"search: trial {number + 1} of {most}{budget}"

    def take(self, results: list[Result | None]) -> None:
        """Takes the results of the trials, None for one that failed."""
        for search, result in zip(self._running, results, strict=True):
            search.take(result, self._rung)

    def tuned(self) -> list[RunConfig]:
        """The runs of the command, those with a search with the best settings of their arm on their task."""
        best = {key: search.best() for key, search in self._searches.items()}
        for config in best.values():
            settings = " ".join(f"{key}={value_text(value)}" for key, value in json.loads(config.tuned["settings"]).items())
            console.plain(f"search: {config.label}, {config.task.name}: {settings}")
        return [
            replace(best[key_of(run)], seed=run.seed, pretrain=run.pretrain) if run.search.space else run
            for run in self._composed
        ]


def key_of(config: RunConfig) -> tuple[str, ...]:
    """Equal for the runs of one arm on one task, which share a search."""
    return (config.study, config.label, config.scale_name, config.task.name)


def announced(composed: list[RunConfig]) -> str | None:
    """One line on the trials that a command runs first; None without a search."""
    searches = [*{key_of(config): config for config in composed if config.search.space}.values()]
    if not searches:
        return None
    for config in searches:
        dimensions(config)
    trials = [trials_of(config) for config in searches]
    fewest = sum(trials)
    most = sum(number * rungs_of(config.search) for number, config in zip(trials, searches, strict=True))
    runs = counted(fewest, "run") if most == fewest else f"{fewest:,} to {most:,} runs"  # a trial may end at any budget
    scored = " or ".join(dict.fromkeys(map(_scored, searches)))
    arms = len({key_of(config)[:-1] for config in searches})
    each = counted(trials[0], "trial") if len({*trials}) == 1 else f"{min(trials)} to {max(trials)} trials"
    return (
        f"search: {each} of each of {counted(arms, 'arm')}, on each task, come first, "
        f"{runs} in all without measurements, {scored}; the table is of the settings given"
    )


def _scored(config: RunConfig) -> str:
    """On which rows the trials of this run are scored, and which part of its grid they are."""
    search, share = config.search, config.task.tune_share or config.search.tune_share
    part = f" ({100 * search.part:g} % of the grid, drawn by search.seed={search.seed})" if search.part < 1 else ""
    if search.selected_on is KeepBest.validation:
        return f"scored on the reported rows (search.selected_on=validation){part}"
    return f"trained on {100 * (1 - share):g} % of the rows of train and scored on the others{part}"


def _overrides(config: RunConfig, settings: Settings) -> list[str]:
    """What another command needs for the run: without its search, with these settings."""
    others = without(config.overrides, ("search", "search.", "arm", *settings))
    without_search = ["search=none"] if config.protocol_name else []  # which would search again
    return [*others, *without_search, *(f"{key}={value:g}" for key, value in settings.items())]


def _suggested(trial: Any, dimension: Dimension) -> float:
    """The value of this key, of three digits: what is shown is what is run."""
    if dimension.choices:
        value: float = trial.suggest_categorical(dimension.key, dimension.choices)
        return value
    if _numbers()[dimension.key]:
        whole: int = trial.suggest_int(dimension.key, int(dimension.low), int(dimension.high), log=dimension.log)
        return whole
    return float(value_text(trial.suggest_float(dimension.key, dimension.low, dimension.high, log=dimension.log)))


def _optuna_study(config: RunConfig) -> Any:
    """A study of optuna, in memory: the folders of the runs are what is kept."""
    optuna, search = _optuna(), config.search
    sampler = (optuna.samplers.TPESampler if search.sampler is Sampler.tpe else optuna.samplers.RandomSampler)(seed=search.seed)
    pruner = optuna.pruners.NopPruner()
    if search.reduction is not None:
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=search.reduction)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    for settings in grid(config) if search.sampler is Sampler.grid else ():
        study.enqueue_trial(settings)  # GridSampler stops a study, which needs its own loop over trials
    return study


def _optuna() -> ModuleType:
    """InputError where it is not installed."""
    optuna = library("optuna", extra="optuna")  # more than a second
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
