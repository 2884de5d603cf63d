"""What a study expects, written down before its first run: one text a study, with the time at which it was recorded."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from harness import paths, records, tags
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.terminal import counted
from harness.tracking import run_log
from harness.tracking.run_log import Record

FILE = "hypothesis.json"
"""In the folder of a study: text, and time in ms since 1970."""

LONGEST = 1000
"""Letters of a hypothesis: it is a tag of every run."""


class Recorded(TypedDict):
    """What a study expects, and since when, in ms since 1970."""

    text: str
    time: int


def refuse_late(configs: Iterable[RunConfig]) -> None:
    """InputError for a text that is not the recorded one of its study, or that comes after the first run began."""
    texts: dict[Path, str] = {}
    for config in configs:
        folder, text, advice = paths.study_folder(config.output, config.study), config.hypothesis, "leave it out, or set study"
        recorded = records.read(folder / FILE, Recorded)["text"] if (folder / FILE).exists() else None
        expected = recorded or texts.setdefault(folder, text)
        if text and text != expected:  # a command may leave out what is recorded
            raise InputError(f"hypothesis={text!r}: study {config.study!r} has another one, {expected!r}; {advice}")
        if len(text) > LONGEST:
            raise InputError(f"hypothesis has {len(text):,} characters: expected at most {LONGEST:,}")
        if text and recorded is None:
            folders = [folder, paths.study_folder(config.output, paths.PRETRAINED)]  # of pretrainings that studies share
            runs = [records.read(path, Record) for one in folders for path in one.glob(f"*/{run_log.RECORD}")]
            if begun := sum(run.get("tags", {}).get(tags.STUDY) == config.study for run in runs):
                raise InputError(
                    f"hypothesis={text!r}: study {config.study!r} has {counted(begun, 'run')} that began before it, but a "
                    f"hypothesis must come first; {advice}"
                )


def write(config: RunConfig) -> None:
    """Records the text in the folder of the study, which exists, unless there is one or the command has none."""
    path = paths.study_folder(config.output, config.study) / FILE
    if config.hypothesis and not path.exists():
        records.write(path, {"text": config.hypothesis, "time": run_log.now_ms()})


def tags_of(config: RunConfig) -> dict[str, str]:
    """Tags of a run of a study with a hypothesis: text and time; empty without one."""
    path = paths.study_folder(config.output, config.study) / FILE
    if not path.exists():
        return {}
    recorded = records.read(path, Recorded)
    return {tags.HYPOTHESIS: recorded["text"], tags.HYPOTHESIS_TIME: str(recorded["time"])}
