"""What is changed of Hydra while it runs, and put back afterwards."""

import contextlib
import gc
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.hydra import Hydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import ConfigCompositionException
from hydra.plugins.sweeper import Sweeper
from hydra.types import RunMode
from omegaconf import BooleanNode, DictConfig, OmegaConf
from omegaconf.errors import ValidationError

from harness.config import foreign_code, hydra_reads, launched, mistakes, own_files
from harness.config.sweep import Sweep
from harness.errors import InputError
from harness.paths import conf_directory

FULL_ERROR = "HYDRA_FULL_ERROR"

SETS_MODE = r"\+*(experiment|hydra)\b|-(-config|c[dpn])"
"""Beginning of an argument with which hydra.mode may be set: files of the user may set it too."""


REFUSALS = (ConfigCompositionException, AssertionError, AttributeError, TypeError, ValueError)
"""What Hydra raises for a setting that does not fit; the last four where OmegaConf checks too little."""


class _Launcher:
    """A launcher of a plugin that says how many jobs there are, and keeps what they give back."""

    def __init__(self, launcher: Any, jobs: launched.Jobs, count: int) -> None:
        self._launcher, self._jobs = launcher, jobs
        jobs.count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs a batch of jobs."""
        done = self._launcher.launch(job_overrides, initial_job_idx=initial_job_idx)
        self._jobs.ended += [one.return_value for one in done if one.status == JobStatus.COMPLETED]
        return done


@contextlib.contextmanager
def made(sweep: Sweep, jobs: launched.Jobs, overrides: list[str]) -> Iterator[None]:
    """All changes, for the composition of a sweep."""
    with (
        _without_note(overrides),
        reading(),
        _foreign_code_refused(),
        _hydra_raises(),
        _without_repetition(sweep, jobs, overrides),
        _settings_of_jobs_alone(),
        _without_collections(),
    ):
        yield


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """What is changed of how Hydra reads files and values."""
    with _own_files_checked(), hydra_reads.shared(), _strict_booleans():
        yield


@contextlib.contextmanager
def _own_files_checked() -> Iterator[None]:
    """While Hydra runs: InputError for a file outside of the shipped ones that is no sound YAML, before it is built."""
    load = ConfigRepository.load_config

    def load_checked(repository: ConfigRepository, config_path: str) -> Any:
        source = repository._find_object_source(config_path, ObjectType.CONFIG)
        path = Path(source.path, source._normalize_file_name(config_path)) if source and source.scheme() == "file" else None
        if path is None or path.resolve().is_relative_to(conf_directory().resolve()):
            return load(repository, config_path)
        own_files.refuse_unsound(path)
        mistakes.refuse_misfits(path, config_path.partition("/")[0])
        try:
            return load(repository, config_path)
        except ValueError as error:  # such as a number of 5,000 digits
            raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from error

    ConfigRepository.load_config = load_checked
    try:
        yield
    finally:
        ConfigRepository.load_config = load


@contextlib.contextmanager
def _strict_booleans() -> Iterator[None]:
    """While Hydra runs: a key that is true or false takes these two alone; OmegaConf takes any whole number, and `y`."""
    convert = BooleanNode._validate_and_convert_impl

    def convert_checked(node: BooleanNode, value: Any) -> bool:
        if not isinstance(value, bool) and str(value).lower() not in ("true", "false"):
            raise ValidationError("Value '$VALUE' is not a valid bool (type $VALUE_TYPE)")
        return convert(node, value)

    BooleanNode._validate_and_convert_impl = convert_checked
    try:
        yield
    finally:
        BooleanNode._validate_and_convert_impl = convert


@contextlib.contextmanager
def _foreign_code_refused() -> Iterator[None]:
    """While Hydra runs: InputError for a composed setting that names code or a folder, before it is used."""
    load = ConfigLoaderImpl.load_configuration

    def load_checked(loader: ConfigLoaderImpl, *arguments: Any, **options: Any) -> Any:
        composed = load(loader, *arguments, **options)
        foreign_code.refuse(composed)
        return composed

    ConfigLoaderImpl.load_configuration = load_checked
    try:
        yield
    finally:
        ConfigLoaderImpl.load_configuration = load


@contextlib.contextmanager
def _without_note(overrides: list[str]) -> Iterator[None]:
    """The command line of Hydra, which then makes no folder with a note on the sweep before the sweep is checked.

    For a launcher or sweeper that the command line names, it is in `output`, where their own files are.
    """
    save = OmegaConf.save  # Hydra loads the module of its sweeper anew: the class is the same there
    if any(re.match(r"\+*hydra[./](launcher|sweep)", override) for override in overrides):
        sys.argv[1:] = overrides
    else:
        OmegaConf.save, sys.argv[1:] = staticmethod(lambda *_: None), [*overrides, "hydra.sweep.dir=."]
    try:
        yield
    finally:
        OmegaConf.save, sys.argv[1:] = staticmethod(save), overrides  # a run is tracked with the command that was typed


@contextlib.contextmanager
def _settings_of_jobs_alone() -> Iterator[None]:
    """Before a sweep Hydra composes without the groups that it sweeps, where a key of one of their choices may be missing.

    Such a setting is left out there: every job is composed with all of them, and refuses what is wrong.
    """
    compose, apply = Hydra.compose_config, ConfigLoaderImpl._apply_overrides_to_config

    def apply_possible(overrides: list[Override], config: DictConfig) -> None:
        for override in overrides:
            with contextlib.suppress(*() if override.is_hydra_override() else REFUSALS):
                apply([override], config)

    def compose_possible(self: Hydra, *arguments: Any, run_mode: RunMode, **options: Any) -> DictConfig:
        chosen = apply_possible if run_mode == RunMode.MULTIRUN else apply
        ConfigLoaderImpl._apply_overrides_to_config = staticmethod(chosen)
        try:
            return compose(self, *arguments, run_mode=run_mode, **options)
        finally:
            ConfigLoaderImpl._apply_overrides_to_config = staticmethod(apply)

    Hydra.compose_config = compose_possible
    try:
        yield
    finally:
        Hydra.compose_config = compose


@contextlib.contextmanager
def _hydra_raises() -> Iterator[None]:
    """Sets the variable that makes Hydra raise errors instead of printing them, and restores its value."""
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FULL_ERROR]
        else:
            os.environ[FULL_ERROR] = before


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Without garbage collection, a quarter of the time of Hydra."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _without_repetition(sweep: Sweep, jobs: launched.Jobs, overrides: list[str]) -> Iterator[None]:
    """While Hydra runs: its own launcher gets one job for all that differ in seeds alone, and no sweep is checked before.

    Other launchers (joblib, submitit) get every job, with its number. Hydra composes everything to read hydra.mode: here not
    where nothing may set it.
    """
    check, read_mode = Sweeper.validate_batch_is_legal, Hydra.get_mode
    mode_may_be_set = any(re.match(SETS_MODE, override) for override in overrides)

    def before_launch(sweeper: Sweeper, batch: Any) -> None:
        if not batch:
            several = ", ".join(override for override in overrides if re.search(r"[(,]", override))
            raise InputError(f"the sweep has no runs: a range or a list of values on the command line is empty: {several}")
        launcher = sweeper.launcher
        if type(launcher).__name__ != "BasicLauncher":
            check(sweeper, batch)
            if not isinstance(launcher, _Launcher):
                batches = getattr(sweeper, "overrides", None) or [batch]  # of a sweeper that learns, more may follow
                sweeper.launcher = _Launcher(launcher, jobs, sum(map(len, batches)))
        elif "launch" not in vars(launcher):  # a sweep may come in batches
            launch = launcher.launch
            launcher.launch = lambda jobs, initial_job_idx: launch(sweep.without_replicates(jobs), initial_job_idx)

    def mode(self: Hydra, config_name: str | None, overrides: list[str]) -> Any:
        return read_mode(self, config_name, overrides) if mode_may_be_set else None

    Sweeper.validate_batch_is_legal, Hydra.get_mode = before_launch, mode
    try:
        yield
    finally:
        Hydra.get_mode = read_mode
        Sweeper.validate_batch_is_legal = check
