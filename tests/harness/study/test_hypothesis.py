"""A study has one hypothesis, recorded before its first run."""

import json
from pathlib import Path

import pytest

from harness import paths, tags
from harness.config import command_line
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.study import hypothesis
from harness.tracking import run_log

TEXT = "albert's as accurate, within one point: of base"


def config(output: Path, text: str = "", study: str = "s") -> RunConfig:
    return RunConfig(output=str(output), study=study, hypothesis=text)


def begin(output: Path, place: str, study: str) -> None:
    """A run of a study, in a folder that may be another one's."""
    folder = output / place / f"run-of-{study}"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"tags": {tags.STUDY: study}}))


def test_the_first_text_stays_with_its_time(tmp_path):
    (tmp_path / "s").mkdir()
    hypothesis.write(config(tmp_path))
    assert hypothesis.tags_of(config(tmp_path)) == {}
    before = run_log.now_ms()
    hypothesis.write(config(tmp_path, TEXT))
    recorded = hypothesis.tags_of(config(tmp_path))
    assert recorded[tags.HYPOTHESIS] == TEXT
    assert before <= int(recorded[tags.HYPOTHESIS_TIME]) <= run_log.now_ms()
    hypothesis.write(config(tmp_path, "another"))
    assert hypothesis.tags_of(config(tmp_path)) == recorded


def test_another_text_is_refused_and_the_same_or_none_is_not(tmp_path):
    (tmp_path / "s").mkdir()
    hypothesis.write(config(tmp_path, TEXT))
    begin(tmp_path, "s", "s")
    hypothesis.refuse_late([config(tmp_path, TEXT), config(tmp_path), config(tmp_path, "of another study", "t")])
    with pytest.raises(InputError, match=r"hypothesis='another': study 's' has another one, \"albert's as accurate.*set study"):
        hypothesis.refuse_late([config(tmp_path, "another")])
    with pytest.raises(InputError, match="study 't' has another one, 'a'"):
        hypothesis.refuse_late([config(tmp_path, "a", "t"), config(tmp_path, "b", "t")])


@pytest.mark.parametrize("place", ["s", paths.PRETRAINED])
def test_a_text_after_the_first_run_is_refused(place, tmp_path):
    begin(tmp_path, paths.PRETRAINED, "other")  # shared by all studies, and none of this one
    hypothesis.refuse_late([config(tmp_path, TEXT)])
    begin(tmp_path, place, "s")
    hypothesis.refuse_late([config(tmp_path)])
    with pytest.raises(InputError, match="study 's' has 1 run that began before it, but a hypothesis must come first"):
        hypothesis.refuse_late([config(tmp_path, TEXT)])


def test_a_long_text_is_refused(tmp_path):
    hypothesis.refuse_late([config(tmp_path, 1000 * "a")])
    with pytest.raises(InputError, match="1,001 characters: expected at most 1,000"):
        hypothesis.refuse_late([config(tmp_path, 1001 * "a")])


@pytest.mark.long
def test_a_typed_text_is_in_runs_and_at_the_head_of_the_report_and_changes_no_run(run_harness, small, output):
    """Commas, colons and quotes are part of it; the command that `status` prints is accepted again."""
    words = [*(word for word in small if not word.startswith("report=")), "measure=none", "study=s", f"output={output}"]
    done = run_harness("-m", *words, "seed=1,2", f"hypothesis={TEXT}")
    assert (done.returncode, done.stderr) == (0, "")
    records = [json.loads(path.read_text()) for path in output.glob("s/*/run.json")]
    assert [record["tags"][tags.HYPOTHESIS] for record in records] == [TEXT, TEXT]
    report = (output / "reports" / "s" / "report.md").read_text()
    assert report.split("\n\n")[2].startswith("**Hypothesis**, written before the first run, on 2")
    assert report.split("\n\n")[2].endswith(f"UTC: {TEXT}")
    again = run_harness("-m", *words, "seed=1,2", "report=false")
    assert "2 runs, 2 already finished" in again.stdout
    other = run_harness("-m", *words, "seed=1,2", "hypothesis=other")
    assert (other.returncode, len(other.stderr.splitlines())) == (2, 1)
    assert (
        command_line.read([f"hypothesis={TEXT}"]).overrides
        == command_line.read(command_line.read([f"hypothesis={TEXT}"]).overrides).overrides
    )
