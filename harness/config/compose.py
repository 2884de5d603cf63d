"""From a command line to validated runs: Hydra composes `conf/` over the typed schema.

A whole sweep is composed before its first run starts, so that a wrong value stops it before anything has run.
"""

import codecs
import contextlib
import copy
import functools
import io
import itertools
import logging
import os
import pickle
import re
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import hydra
import msgspec
from hydra._internal import config_loader_impl
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import ResultDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus, configure_log
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from harness import extensions
from harness.config import command_line, mistakes, own_files, protocols
from harness.config.choices import TrainedOn, Until
from harness.config.conditions import depends_on_seed, has_task, starts_from_weights
from harness.config.help import GROUPS, default_choices, listed_groups
from harness.config.keys import unknown_choice
from harness.config.resolve import from_node, unchecked
from harness.config.rules import refuse_misfit, refuse_unread_parts
from harness.config.schema import (
    OF_ARM,
    PATH_KEYS,
    SEEDS,
    FinetuneConfig,
    ModelConfig,
    RunConfig,
    flatten,
    key_of,
    short_name,
    within,
    without,
)
from harness.config.sweep import OF_NO_ARM, Replicate, controls, jobs
from harness.errors import InputError, unknown
from harness.metrics import FEWEST_REPLICATES
from harness.models.keys import refuse_unread
from harness.models.objectives.config import ObjectiveName
from harness.paths import OF_TRIALS, at_home, conf_directory, in_use
from harness.redact import MLFLOW
from harness.terminal import console, live_line

Run = Callable[[list[RunConfig]], int]

KEYS_IN_ARM_NAME = (
    *("model", "model.init_from", "enhancement", "pretrain", "pretrain.objective", "pretrain.checkpoint", "task"),
    *("match", "match.cost", "search"),
    *SEEDS,
)
"""Keys and groups that are in the name of an arm already, and the seeds, which are replicates."""

SHOWN_BY_HYDRA = {"--cfg", "--resolve", "--info", "--shell-completion"}
"""Options with which Hydra prints something and nothing runs."""

SETS_HYDRA = ("experiment", "hydra", "--config-dir", "--config-name", "--config-path")
"""Groups and options with which settings of Hydra come from a file; all others are on the command line."""

DEFAULTS: dict[str, Any] = {"version_base": "1.3"} if hydra.__version__.startswith("1.3.") else {}
"""Whose defaults Hydra takes; from 1.4 on it has its own alone, and warns of the argument."""

LOG = logging.getLogger(__name__)


def main(
    arguments: list[str], run: Run, conclude: Run | None = None, reads_as_runs: bool = True, replicates: bool = False
) -> int:
    """Composes every run that the command line names and passes them to `run`; returns its exit code.

    Keys that none of the runs reads are refused where `run` reads no others. `replicates`: arms that are compared run with
    several seeds where none is named, as if they had been typed.
    InputError for what cannot be composed. A launcher plug-in (joblib, submitit) calls `run` in its own processes, for one job
    after the other; `conclude` gets the runs of all its jobs here.
    """
    command = command_line.read(arguments)
    sys.argv[1:] = command.words  # a run is tracked with the command that was typed
    with _errors_on_one_line(command.words):
        if "--shell-completion" in command.options:  # of words that may be unfinished
            return _shown_by_hydra()
        typed = OverridesParser.create().parse_overrides(command.overrides)
        mistakes.refuse_twice(command.overrides)
        _refuse_typed(typed)
        source = Source.of(command.options, typed)
        if SHOWN_BY_HYDRA & command.options.keys():
            with source.opened():
                plain = [str(override.input_line) for override in typed if not override.is_hydra_override()]
                source.compose(plain)
                sys.argv[1:] = [*(word for word in command.words if word not in command.overrides), *source.words(plain)]
            return _shown_by_hydra()
        with source.opened():
            sweep = Sweep.of(command.options, typed, source)
            if replicates and sweep.lacks_seeds():
                seeds = [*map(str, range(FEWEST_REPLICATES))]
                added, multirun = f"seed={','.join(seeds)}", () if "--multirun" in command.options else ("-m",)
                note = f"{len(seeds)} seeds per arm ({added}), as a verdict needs three; seed=0 runs one"
                command = command_line.read([*multirun, added, *arguments])
                sys.argv[1:] = command.words  # so that the recorded command repeats these runs whatever the default becomes
                sweep = replace(sweep, jobs=[(f"seed={seed}", *job) for seed in seeds for job in sweep.jobs], note=note)
            if sweep.has_launcher:
                return sweep.launched(command.words, run, conclude)
            with live_line("composing the runs"):
                runs = sweep.runs()
    models: dict[str, str] = {}
    for one in runs:
        other = models.setdefault(one.label, one.model_name)
        if other != one.model_name:  # the report would take two models of one name for one
            raise InputError(
                f"arm={one.arm!r} names model={other} and model={one.model_name}: leave it out, or compare one model"
            )
    if reads_as_runs:
        refuse_unread_parts(runs, command.words)
    with contextlib.ExitStack() as stack:
        for output in {one.output for one in runs}:
            stack.enter_context(in_use(Path(output)))
        stack.enter_context(
            console.headed("\n".join(filter(None, [sweep.note, *(f"left out: {why}" for why in sweep.left_out)])))
        )
        return run(runs)


def _shown_by_hydra() -> int:
    _make_known_to_hydra()
    OwnFolder.path = None  # Hydra reads the option itself
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()) as output:  # Hydra has a traceback where its reader has ended
        try:
            with contextlib.redirect_stderr(said):
                hydra.main(config_path=str(conf_directory()), config_name="config", **DEFAULTS)(lambda _: None)()
        except SystemExit as error:
            *_, line = ["", *said.getvalue().splitlines()]
            raise InputError(line.partition("error: ")[2] or line) from error
    print(output.getvalue(), end="")
    return 0


@contextlib.contextmanager
def _errors_on_one_line(words: list[str]) -> Iterator[None]:
    """InputError, with what was typed, for what Hydra and OmegaConf raise, and for a value that the schema refuses."""
    try:
        yield
    except InputError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise mistakes.naming(words, mistakes.one_line(error)) from error
    except RecursionError as error:
        raise mistakes.naming(words, InputError("the defaults list includes its own file: remove the cycle")) from error
    except (ArithmeticError, AssertionError, AttributeError, TypeError, ValueError) as error:  # they check little
        raise mistakes.of_library(words, error) from error


def _refuse_typed(overrides: list[Override]) -> None:
    """InputError for what Hydra would take in another sense, or not refuse in time."""
    for override in overrides:
        group, value, word = override.key_or_group, override.value(), str(override.input_line)
        own_files.refuse_typed_setting(word, override.package or group, override.is_sweep_override())
        if of_task := protocols.TYPED.fullmatch(word):
            if of_task[3] not in protocols.OF_TASKS:
                raise unknown("section", of_task[3], protocols.OF_TASKS, f"task.{of_task[1]}")
            if override.is_sweep_override():
                raise InputError(f"{word} sweeps a key of one task: expected one value, or search=grid")
        if override.is_delete() and group in GROUPS.keys() - listed_groups() - mistakes.WITHOUT_DEFAULT:
            raise mistakes.left_out(group)
        if group == "output" and isinstance(value, str) and "${" not in value:
            command_line.refuse_output(value)
        choices = value.list if isinstance(value, ChoiceSweep) else [] if override.is_sweep_override() else [value]
        if group in ("model", "model.encoder") and (classes := [one for one in choices if isinstance(one, str) and ":" in one]):
            extensions.allow(classes)
            for name in classes if group == "model" else ():  # model=MODULE:CLASS
                ConfigStore.instance().store(name=f"{name}.yaml", group="model", node={"encoder": name}, package="model")
        if group == "model.remote_code":
            extensions.allow(map(str, choices))
        for choice in choices if group in GROUPS and not override.is_delete() else []:
            mistakes.refuse_choices(word, group, choice)


@dataclass(frozen=True)
class Source:
    """The sources of a composition: the primary config, the folders that Hydra searches, and Hydra's own settings."""

    folder: str = str(conf_directory())
    name: str = "config"
    own_folder: str | None = None  # of --config-dir
    settings: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: dict[str, str], overrides: Iterable[Override] = ()) -> "Source":
        """The search path of a command line; InputError for a folder that does not exist."""
        folder = options.get("--config-dir")
        if folder is not None and not Path(folder).is_dir():
            raise InputError(f"--config-dir={folder!r} is not a folder: expected one with groups, such as model/NAME.yaml")
        return cls(
            str(Path(options.get("--config-path", cls.folder)).absolute()),
            options.get("--config-name", cls.name),
            folder and str(Path(folder).absolute()),
            tuple(str(override.input_line) for override in overrides if override.is_hydra_override()),
        )

    @property
    def is_shipped(self) -> bool:
        """Whether the primary config is ours, and no folder of the user is searched."""
        mine = (self.folder, self.name, self.own_folder) != (Source.folder, Source.name, None)
        return not mine and "hydra.searchpath" not in map(key_of, self.settings)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Initialises Hydra with this source."""
        _make_known_to_hydra()
        OwnFolder.path = self.own_folder
        CheckedRepository.own.clear()
        private.CachingConfigRepository = CheckedRepository
        try:
            with hydra.initialize_config_dir(self.folder, **DEFAULTS):
                yield
        finally:
            private.CachingConfigRepository = Repository

    def compose(self, overrides: Iterable[str]) -> tuple[DictConfig, DictConfig]:
        """The composed config, and Hydra's own; InputError for one that names code or a folder."""
        node = self.checked(overrides)
        HydraConfig.instance().set_config(node)  # for `${hydra:...}`
        of_hydra = node.hydra
        with open_dict(node):
            del node["hydra"]
        return node, of_hydra

    def checked(self, overrides: Iterable[str]) -> DictConfig:
        """The composed config with that of Hydra; InputError as of `compose`."""
        words = self.words(overrides)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a folder that is not there, a name in the place of another
            try:
                node = hydra.compose(self.name, words, return_hydra_config=True)
            except UserWarning as error:
                raise InputError(" ".join(str(error).split())) from error
        if not self.is_shipped:
            launcher = OmegaConf.select(node, "hydra.runtime.choices.hydra/launcher") or "basic"
            of_runs = {"overrides.hydra": [*self.settings], "overrides.task": words[len(self.settings) :]}
            own_files.refuse_settings(node, _settings_without_files(self.settings, launcher) | of_runs)
        return node

    def words(self, overrides: Iterable[str]) -> list[str]:
        """The overrides as Hydra takes them, after the settings of Hydra itself and those of a protocol."""
        task, typed = protocols.of_task(overrides)
        name = protocols.named(typed)
        stated = self.protocol(name).overrides(name, task) if name else []
        words = [*self.settings, *without(stated, ("search.",) if "search=none" in typed else ())]
        for override in without(typed, ("protocol",)):  # pretrain=[clm,mlm] -> pretrain=mlm pretrain.phases=[clm,mlm]
            listed = re.fullmatch(r"(\+*pretrain)=(\[(?:.*,)?\s*(\w+)\s*\])", override)
            words += [f"{listed[1]}={listed[3]}", f"pretrain.phases={listed[2]}"] if listed else [override]
        return words

    def protocol(self, name: str) -> protocols.Protocol:
        """The config of a file, refusing what a user's file must not have; InputError if there is none."""
        loader: Any = GlobalHydra.instance().config_loader()
        result = CheckedRepository(loader.repository).load_config(f"protocol/{name}")
        if result is None:
            raise unknown_choice("protocol", name, self.names("protocol"))
        try:
            return msgspec.convert(OmegaConf.to_container(result.config), protocols.Protocol)
        except msgspec.ValidationError as error:
            raise InputError(f"protocol={name}: {error}") from error

    def entries(self, overrides: Iterable[str]) -> list[ResultDefault]:
        """The files of a composition with the section that each one sets."""
        loader = GlobalHydra.instance().config_loader()
        entries: list[ResultDefault] = loader.compute_defaults_list(self.name, self.words(overrides), RunMode.RUN).defaults
        return entries

    def names(self, group: str) -> list[str]:
        """The choices of a group, for `glob(...)`."""
        return GlobalHydra.instance().config_loader().get_group_options(group, overrides=list(self.settings))


@functools.cache
def _settings_without_files(settings: tuple[str, ...], launcher: str) -> dict[str, Any]:
    """Settings of Hydra, key -> value, with those of the command line and without any folder of the user."""
    loader: Any = GlobalHydra.instance().config_loader()
    search_path = copy.deepcopy(loader.get_search_path())
    search_path.get_path()[:] = [one for one in search_path.get_path() if one.provider in ("hydra", "schema")]
    search_path.prepend("main", f"file://{conf_directory()}")
    words = [*without(settings, ("hydra.searchpath", "hydra/launcher")), f"hydra/launcher={launcher}"]
    node = type(loader)(search_path).load_configuration("config", words, RunMode.RUN)
    return flatten(OmegaConf.to_container(node.hydra, resolve=False, enum_to_str=True))


private: Any = config_loader_impl
# A private name of Hydra: it copies its repository and reads all files for every composition, a third of the time.
Repository: Any = private.CachingConfigRepository


class CheckedRepository(Repository):  # type: ignore[misc]
    """Files that are read once for all compositions of a command, and once in a process where they are shipped.

    A file of the user is checked before anything is built from it.
    """

    shipped: ClassVar[dict[tuple[str, ...], tuple[ConfigResult | None, bytes]]] = {}
    own: ClassVar[dict[tuple[str, ...], tuple[ConfigResult | None, bytes]]] = {}

    def __init__(self, delegate: Any) -> None:
        self.delegate = copy.copy(delegate)
        self.cache: dict[str, ConfigResult | None] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """A composition takes the nodes of what it reads, so each gets its own: a pickle is copied faster than they are."""
        if config_path not in self.cache:
            folders = [source.path for source in self.get_sources() if source.scheme() == "file"]
            read = self.shipped if {*folders} == {str(conf_directory())} else self.own
            key = (config_path, *(source.path for source in self.get_sources()))
            if key not in read:
                name = config_path if config_path.endswith((".yaml", ".yml")) else f"{config_path}.yaml"
                path = next((file for folder in folders if (file := Path(folder, name)).exists()), None)
                is_mine = path is not None and not path.resolve().is_relative_to(conf_directory().resolve())
                result = self._checked(config_path, path) if path and is_mine else super().load_config(config_path)
                read[key] = (result, pickle.dumps(result and result.config))
            result, config = read[key]
            self.cache[config_path] = result and replace(result, config=pickle.loads(config))  # noqa: S301 - pickled above
        return self.cache[config_path]

    def _checked(self, config_path: str, path: Path) -> ConfigResult:
        if ".." in Path(config_path).parts:
            raise InputError(f"{config_path!r} is not the name of a choice: expected one below a folder of configs")
        own_files.refuse_unsound(path)
        try:
            result: ConfigResult = super().load_config(config_path)
        except ValueError as error:  # such as a number of 5,000 digits
            raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
        if path.read_bytes().startswith(codecs.BOM_UTF8):  # of an editor on Windows; Hydra finds no `# @package` behind it
            result.header = ConfigSource._get_header_dict(path.read_text("utf-8-sig"))
        for key, value in flatten(OmegaConf.to_container(result.config, resolve=False)).items():
            own_files.refuse_resolvers(str(value), f"{path}, {key}")
            if key.startswith("hydra.searchpath"):  # before what it names is searched, or imported
                raise InputError(f"{path}: hydra.searchpath cannot be set by a file: type it, or --config-dir=FOLDER")
            if isinstance(value, str) and value != (at := at_home(value)):
                OmegaConf.update(result.config, key, at)
        return result


@dataclass(frozen=True)
class Sweep:
    """The jobs of a command; without -m there is one."""

    source: Source
    jobs: list[tuple[str, ...]]
    swept: list[str]  # keys and groups with several values
    typed: tuple[str, ...]  # settings of the runs on the command line
    has_launcher: bool = False  # of a plug-in, which starts the jobs
    composed: dict[tuple[str, ...], tuple[list[RunConfig], bool]] = field(default_factory=dict)  # by a job without its seeds
    note: str = ""  # printed before anything runs
    left_out: list[InputError] = field(default_factory=list)  # why jobs are none

    @classmethod
    def of(cls, options: dict[str, str], overrides: list[Override], source: Source) -> "Sweep":
        """The settings of a command line and of the files that it names."""
        typed = [override for override in overrides if not override.is_hydra_override()]
        plain = tuple(str(override.input_line) for override in typed)
        is_multirun, has_launcher, several = "--multirun" in options, False, typed
        named = {*options, *(override.key_or_group for override in typed)}
        if len(typed) < len(overrides) or not named.isdisjoint(SETS_HYDRA):
            # values of keys are left out: a file may sweep the group that has them
            groups = [one for one in typed if "." not in one.key_or_group and one.key_or_group != "protocol"]
            settings = source.compose(jobs(groups, source.names)[0])[1]
            configure_log(settings.job_logging, settings.verbose)
            LOG.debug("configuration is read from %s", ", ".join(one.path for one in settings.runtime.config_sources))
            is_multirun |= settings.mode == RunMode.MULTIRUN
            has_launcher = is_multirun and not settings.launcher._target_.endswith(".BasicLauncher")
            params = settings.sweeper.get("params") or {}
            several = [*of_file([f"{key}={value}" for key, value in params.items()], "hydra.sweeper.params"), *typed]
        if not is_multirun:
            return cls(source, [plain], [], plain)
        swept = sorted({override.key_or_group for override in several if override.is_sweep_override()})
        return cls(source, jobs(several, source.names), swept, plain, has_launcher)

    def runs_of(self, others: tuple[str, ...]) -> tuple[list[RunConfig], bool]:
        """The runs of a job, composed once for all of its seeds; and whether their pretraining has the seed of the run."""
        if others not in self.composed:
            self.composed[others] = runs_of(self.source, others, self.swept)
        return self.composed[others]

    def lacks_seeds(self) -> bool:
        """Whether arms are compared that depend on the seed, and neither the command nor a file names one."""
        overrides = {override for job in self.jobs for override in job}
        of_runs = re.compile(r"pretrain\.checkpoint=.*?-(\d+)(-[0-9a-f]{8})?\W*")  # names of their folders end in a seed
        pretrainings = {match[1] for override in overrides if (match := of_runs.fullmatch(override))}
        if len(pretrainings) > 1 or any(key_of(override) in (*SEEDS, "protocol") for override in overrides):
            return False
        (first, *_), follows = self.runs_of(self.jobs[0])
        if not follows or "seed" in itertools.chain(*first.said_keys.values()) or first.sweep.until is Until.resolved:
            return False
        arms = {tuple(override for override in job if key_of(override) not in OF_NO_ARM) for job in self.jobs}
        is_compared = len(arms) > 1 or self.controls(first)
        return bool(is_compared) and any(depends_on_seed(run) for job in self.jobs for run in self.runs_of(job)[0])

    def of_job(self, job: tuple[str, ...]) -> list[RunConfig]:
        """The runs of a job, with its seed, or with those of its protocol where it names none."""
        replicate = Replicate.of(job)
        of_others, follows = self.runs_of(replicate.others)
        starts = dict.fromkeys(run.protocol.starts_from for run in of_others if run.protocol.starts_from)
        for task in [one for one in starts if one not in {run.task.name for run in of_others}]:
            of_others = [*self.runs_of((*without(replicate.others, ("task",)), f"task={task}"))[0], *of_others]
        return [one.of_run(run, follows) for run in of_others for one in replicate.with_seeds(run.protocol.seeds)]

    def runs(self) -> list[RunConfig]:
        """All runs, in the order of the sweep."""
        runs: list[RunConfig] = []
        for job in self.jobs:
            try:
                runs += self.of_job(job)
            except protocols.OtherTaskError as error:  # of several protocols one may have fewer tasks
                self.left_out.append(error)
        if not runs:
            raise self.left_out[0]
        runs += itertools.chain(*map(self.of_job, self.controls(runs[0])))
        if runs[0].protocol_name:  # several tasks may start from one
            runs = [*{(*sorted(run.overrides), str(run.seed)): run for run in runs}.values()]
        if any(run.sweep.until is Until.resolved for run in runs):
            if "pretrain.seed" in self.swept:
                raise InputError("sweep.until=resolved adds seeds: do not sweep pretrain.seed, which follows seed")
            seeds, most = {run.seed for run in runs}, max(run.sweep.most_seeds for run in runs)
            for seed in range(max(seeds) + 1, max(seeds) + 1 + most - len(seeds)):
                for others, (of_job, follows) in self.composed.items():
                    runs += [Replicate({"seed": seed}, others).of_run(run, follows) for run in of_job]
        return self.apart(runs)

    def apart(self, runs: list[RunConfig]) -> list[RunConfig]:
        """The runs, labelled with as many parts of a path as tell it from the other values of its key in the command."""
        typed = [(key_of(override), _parts(override.partition("=")[2])) for job in self.jobs for override in job]

        def label(key: str, parts: tuple[str, ...]) -> str:
            others = {other for of, other in typed if of == key} - {parts}
            lengths = (n for n in range(1, len(parts)) if all(other[-n:] != parts[-n:] for other in others))
            return "/".join(parts[-next(lengths, len(parts)) :])

        named = []
        for run in runs:
            arm, parts, settings = run.arm, _parts(run.model.init_from or ""), dict(run.settings)
            if parts and f"{arm}+".startswith(f"{parts[-1]}+"):
                arm = label("model.init_from", parts) + arm.removeprefix(parts[-1])
            for key in [key for key in settings if key in PATH_KEYS and "/" in label(key, _parts(settings[key]))]:
                arm += f" {short_name(key)}={label(key, _parts(settings.pop(key)))}"
            named.append(replace(run, arm=arm, settings=settings))
        return named

    def controls(self, first: Any) -> list[tuple[str, ...]]:
        """Jobs that sweep.control adds, by what the first job composes; InputError where it is typed and has nothing to add."""
        weights = (first.model.init_from, first.pretrain.checkpoint)
        is_trained = first.pretrain.objective is not ObjectiveName.none or any(weights)
        if first.sweep.control and is_trained and has_task(first) and not first.model.random_weights:
            return controls(self.jobs, any(weights))
        if "sweep.control=true" in self.typed:
            raise InputError(
                "sweep.control=true compares pretrained arms with random weights: expected a task, "
                "with pretrain=NAME, model.init_from or pretrain.from"
            )
        return []

    def launched(self, words: list[str], run: Run, conclude: Run | None) -> int:
        """Runs every job by the plug-in, once the settings of all are checked; returns the exit code of the command."""
        first, sweep = self.source.checked(self.jobs[0]), uuid.uuid4().hex
        every = [*self.jobs, *self.controls(first)]
        for overrides in every if not self.source.is_shipped else []:  # a launcher configures logging by them
            self.source.checked(overrides)

        def job(_: DictConfig) -> tuple[list[RunConfig], int, InputError | None]:
            settings = HydraConfig.get()
            with command_line.job(words, sweep, f"{settings.job.num + 1}/{len(every)}"):
                try:
                    with _errors_on_one_line(words):
                        composed = self.apart(self.of_job(tuple(settings.overrides.task)))
                except InputError as error:
                    return [], 2, error
                return composed, run(composed), None

        ignored = lambda **_: None  # noqa: E731 - callbacks are refused, as code that a setting names
        callbacks: Any = SimpleNamespace(on_job_start=ignored, on_job_end=ignored)
        context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=callbacks)
        launcher = Plugins.instance().instantiate_launcher(context, job, first)
        if self.note:
            console.plain(self.note)
        ended = [one.return_value for one in launcher.launch(every, initial_job_idx=0) if one.status == JobStatus.COMPLETED]
        if conclude is not None and (ran := [config for runs, _, _ in ended for config in runs]):
            conclude(ran)
        for _, _, error in ended:
            if error is not None:
                raise error
        return max((code for _, code, _ in ended), default=0)


def of_file(words: list[str], place: str) -> list[Override]:
    """Overrides in a file; InputError for settings of Hydra, and for functions in `${NAME:...}`."""
    with _errors_on_one_line(words):
        overrides = OverridesParser.create().parse_overrides(words)
    for one in overrides:
        own_files.refuse_resolvers(str(one.input_line), place)
        if one.is_hydra_override():
            raise InputError(f"{place}: {one.input_line!r} is a Hydra setting: expected keys of a run")
    return overrides


def _parts(path: str) -> tuple[str, ...]:
    return Path(path.strip("'\"")).parts


class OwnFolder(SearchPathPlugin):
    """The folder of --config-dir, searched after the shipped one."""

    path: str | None = None

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Adds the folder."""
        if self.path is not None:
            search_path.append("command-line", f"file://{self.path}")


@functools.cache
def _make_known_to_hydra() -> None:
    """Schema and folder; in a notebook or a test, for all commands at once."""
    ConfigStore.instance().store(name="run_config", node=RunConfig(finetune=FinetuneConfig(learning_rate=None)))
    Plugins.instance().register(OwnFolder)


def runs_of(source: Source, overrides: tuple[str, ...], swept: list[str]) -> tuple[list[RunConfig], bool]:
    """One run for a task, or one for each member of a set of tasks; and whether their pretraining has the seed of the run."""
    members, name = _members_of_shipped(source, overrides), protocols.named(overrides)
    composed = source.compose(without(overrides, ("protocol",))) if members is None else None
    if composed is not None:
        members = OmegaConf.select(composed[0], "task.members")
    if name is not None or any(map(protocols.TYPED.fullmatch, overrides)):
        every = members or (composed and [composed[1].runtime.choices.task]) or []  # the task may be that of a file
        members = [task for task in every if name is None or task in source.protocol(name).tasks] or every
    filled = overrides if any(override.startswith("task=") for override in overrides) else (*overrides, "task=")  # the default
    of_members = [tuple(f"task={member}" if word.startswith("task=") else word for word in filled) for member in members or ()]
    runs = []
    for own in of_members or [overrides]:
        node, of_hydra = composed if composed is not None and not of_members else source.compose(own)
        follows = OmegaConf.select(node, "pretrain.seed") is None
        said = keys_of_files(source, of_hydra, own)
        typed, lifts = (overrides, swept) if name is None else (own, [*dict.fromkeys([*swept, "protocol"])])
        run = named(from_node(_beside_weights(node, overrides, said)), source, of_hydra, typed, lifts, said)
        if run.study.endswith(OF_TRIALS):
            raise InputError(f"study={run.study!r} must not end in {OF_TRIALS}: a search keeps its trials in such a study")
        uri = None if "tracking.uri" in map(key_of, overrides) else run.tracking.uri
        if uri is not None and (variable := next((name for name in MLFLOW if os.environ.get(name)), None)):
            raise InputError(
                f"tracking.uri={uri} is set by a file, and {variable} would be sent there: "
                "type tracking.uri=... if it is yours, or unset the variable"
            )
        runs.append(replace(run, overrides=overrides_to_reproduce(protocols.of_task(own)[1])))
    return runs, follows


def keys_of_files(source: Source, of_hydra: DictConfig, overrides: Iterable[str]) -> dict[str, list[str]]:
    """Name of an experiment, or of another file of the user -> keys and groups that it sets for the whole config or the model.

    They are meant as typed ones are; what a model or an enhancement sets, its name says.
    """
    if source.is_shipped and "experiment" not in of_hydra.runtime.choices:
        return {}
    folders = [Path(one.path) for one in of_hydra.runtime.config_sources if one.schema == "file"]
    keys: dict[str, list[str]] = {}
    for entry in source.entries(overrides):
        name, section = str(entry.config_path), entry.package
        if section not in ("", "model") or name.partition("/")[0] in ("model", "enhancement", "scale"):
            continue
        file = next((file for folder in folders if (file := folder / f"{name}.yaml").is_file()), None)
        if file is None or (file.is_relative_to(conf_directory()) and not name.startswith("experiment/")):
            continue
        values = _loaded(file)
        values.pop("hydra", None)
        choices = [key for one in values.pop("defaults", []) if isinstance(one, dict) for key in one]
        keys[name] = [key.removeprefix("override").strip(" /") for key in choices if key.startswith("override ")]
        keys[name] += flatten(values, f"{section}." if section else "")
    return keys


def _beside_weights(node: DictConfig, overrides: Sequence[str], said: dict[str, list[str]]) -> DictConfig:
    """The node; with weights, whose sizes are read later, those of the default scale refuse no heads and no groups."""
    typed = {*map(key_of, overrides), *itertools.chain(*said.values())}
    model, weights = node.model, (OmegaConf.select(node, key) for key in ("model.init_from", "pretrain.checkpoint"))
    if not any(weights) or "scale" in typed:
        return node
    if "model.num_attention_heads" in typed and "model.hidden_size" not in typed:
        OmegaConf.update(node, "model.hidden_size", 64 * model.num_attention_heads)
    if model.num_hidden_groups and "model.num_hidden_layers" not in typed:
        OmegaConf.update(node, "model.num_hidden_layers", max(model.num_hidden_layers, 2 * model.num_hidden_groups))
    return node


def _members_of_shipped(source: Source, overrides: tuple[str, ...]) -> list[str] | None:
    """The members of the set of tasks that a command names; None where composition says it.

    Saves a composition of each job of a set.
    """
    if source != Source() or any("experiment" in override or override.startswith("task.members") for override in overrides):
        return None
    named = [override.removeprefix("task=") for override in overrides if override.startswith("task=")]
    path = conf_directory() / "task" / f"{[default_choices()['task'], *named][-1]}.yaml"
    return (_loaded(path).get("members") or None) if path.is_file() else None


def _loaded(path: Path) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    return dict(values)


def overrides_to_reproduce(overrides: Iterable[str]) -> list[str]:
    """The overrides that reproduce the run in another command, which has seeds and trackers of its own."""
    return without(overrides, (*SEEDS, "rerun", "sweep.", "tracking."))


def named(
    config: RunConfig,
    source: Source,
    of_hydra: DictConfig,
    overrides: Sequence[str],
    swept: list[str],
    files: dict[str, list[str]],
) -> RunConfig:
    """The run with the name of its arm, the choices behind it, and the same model at BERT-base dimensions."""
    choices = dict(of_hydra.runtime.choices)
    for group in GROUPS.keys() - listed_groups() - mistakes.WITHOUT_DEFAULT:
        if choices.get(group) is None:
            raise InputError(f"{group} takes one choice, but a file has a list or nothing: expected {group}=NAME")
    weights = config.model.init_from
    keys = [*dict.fromkeys([*map(key_of, overrides), *itertools.chain(*files.values())])]
    model_keys = [key.removeprefix("model.") for key in keys if key.startswith("model.")]
    refuse_misfit(config, choices.get("recipe"), keys, swept)
    is_control = config.tokenizer.trained_on is TrainedOn.corpus and not config.pretrains
    if config.model.random_weights and not (is_control or starts_from_weights(config)):
        raise InputError("model.random_weights=true needs weights to replace: add model.init_from or pretrain.from")
    chosen = (("model", choices["model"]), *(("enhancement", name) for name in config.enhancements))
    said: dict[str, list[str]] = {}  # by each of them, in whichever folder that is searched its file is
    for group, name in chosen:
        places = (Path(source.path, group, f"{name}.yaml") for source in of_hydra.runtime.config_sources)
        nodes = [_loaded(place) for place in places if place.is_file()]
        said[f"{group}={name}"] = [str(key) for node in nodes for key in node.get("model", node)]
    if weights is None and config.pretrain.checkpoint is None:
        refuse_unread(config.model, model_keys)
        for choice, of_choice in said.items():  # with a key that is not read it would be another model by name alone
            try:
                refuse_unread(config.model, of_choice)
            except ValueError as error:
                raise InputError(f"{choice}: {error}") from error
    parts, is_weights = [choices["model"]], "init_from" in said[f"model={choices['model']}"]
    if is_weights and "init_from" in model_keys:
        raise InputError(f"model={choices['model']} and model.init_from={weights} both name initial weights: leave one out")
    if weights is not None and not is_weights:
        parts = [Path(weights).name, *(parts if parts != [default_choices()["model"]] else [])]
    parts += sorted(config.enhancements)
    if config.pretrains:
        parts.append(config.pretrain.title)
    from_run = config.pretrain.checkpoint is not None  # named after that run
    dimensions = {f"model.{key}" for key in _loaded(conf_directory() / "scale" / "base.yaml")}
    shaping = (word for word in overrides if within(key_of(word), ("model", "enhancement", "model.")))
    return replace(
        config,
        arm=config.arm or ("" if from_run else "+".join(parts)),
        settings=settings((choices, config), source, overrides, swept),
        swept=swept,
        overrides=overrides_to_reproduce(overrides),
        model_keys=model_keys,
        said_keys=said | files,
        model_name=choices["model"],
        scale_name=choices["scale"],
        published=_published(source, tuple(without(shaping, dimensions))),
    )


Composed = tuple[dict[str, str], RunConfig]
"""The choice of each group, and the values."""


def settings(composed: Composed, source: Source, overrides: Sequence[str], swept: list[str]) -> dict[str, str]:
    """Settings of the arm besides its choices: swept keys, and keys of the model and its objective, with their typed values.

    A value that equals the default of the run is left out, so that a sweep may include the unchanged model.
    """
    candidates = {}
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key not in KEYS_IN_ARM_NAME and (key in swept or (within(key, OF_ARM) and key != "model.remote_code")):
            candidates[override] = (key, value)
    if not candidates:
        return {}
    changed = dict(candidates.values())
    with contextlib.suppress(ValueError):  # what is left makes no model: then every value changes something
        plain = _composed(source, tuple(override for override in overrides if override not in candidates))
        changed = {key: value for key, value in changed.items() if _value(composed, key) != _value(plain, key)}
    return {key: value.lower() if value in ("True", "False") else value for key, value in changed.items()}


def _value(composed: Composed, key: str) -> Any:
    """The choice of a group, or the value of a dotted key."""
    choices, value = composed
    part: Any = value
    for name in key.split("."):
        part = part.get(name) if isinstance(part, dict) else getattr(part, name, None)
    return choices.get(key, part)


@functools.lru_cache(maxsize=256)
def _composed(source: Source, overrides: tuple[str, ...]) -> Composed:
    """A null that another key replaces is that value."""
    node, of_hydra = source.compose(overrides)
    return dict(of_hydra.runtime.choices), unchecked(node)


@functools.lru_cache(maxsize=256)
def _published(source: Source, overrides: tuple[str, ...]) -> ModelConfig:
    """The model at scale base."""
    model: Any = OmegaConf.to_object(hydra.compose(source.name, [*source.settings, *overrides, "task=bag", "scale=base"]).model)
    return model if isinstance(model, ModelConfig) else ModelConfig(**model)


def outside_of_a_command(overrides: list[str], config_dir: str | None) -> RunConfig:
    """The run that these overrides compose, without a label; `config_dir` is searched too. InputError for a wrong override."""
    source = Source.of({} if config_dir is None else {"--config-dir": config_dir})
    with _errors_on_one_line(overrides), source.opened():
        _refuse_typed(OverridesParser.create().parse_overrides(overrides))
        return from_node(source.compose(overrides)[0])
