"""What earlier runs tell of those to come."""

import pytest

from harness import records, tags
from harness.study import forecast, run_folder
from harness.study.forecast import Pace
from harness.study.plan import plan
from harness.tracking import run_log

pytestmark = pytest.mark.long

SMALL = ["scale=tiny", "hardware.threads=1"]
BAG = ["task=bag", "task.grammar.train_examples=90", "task.grammar.validation_examples=20"]


def test_neither_a_second_timing_nor_a_run_that_was_killed_once_tells_a_pace(compose, output):
    """A second timing of the baseline has its kind and trains nothing; a retry begins with the time of the killed worker."""
    (item,) = plan(compose(*SMALL, *BAG, "measure=none", f"output={output}"))
    took = {"run": (60, {}), "replicate": (0, {}), "killed": (600, {tags.RETRIES: ["signal 9"]})}
    for name, (seconds, more) in took.items():
        record = run_folder.new_record(item.config, item.inputs, item.lifted) | more
        record["tags"] |= {tags.REPLICATE: "true"} if name == "replicate" else {}
        folder = item.folder.with_name(name)
        run_folder.prepare(folder, item.config, record)
        log = run_log.RunLog(folder)
        log.finish("finished", record["started"] + 1000 * seconds)
    (pace,) = forecast.earlier({str(output)}).values()
    assert pace == Pace(60.0, None, "1 earlier run")


def test_runs_that_finished_unmeasured_are_named_before_they_train_again(compose, output):
    arguments = ["-m", *SMALL, *BAG, "seed=1,2", f"output={output}"]
    first, second = plan(compose(*arguments, "measure=none"))
    first.folder.mkdir(parents=True)
    records.write(first.folder / run_log.RESULT, {"status": "finished", "metrics": {}})
    assert forecast.opening([first, second]) == "2 runs, 1 already finished"
    assert forecast.opening(plan(compose(*arguments))).startswith("2 runs, 0 already finished (1 more with measure=none: ")


@pytest.mark.parametrize("name", ["run.json", "result.json"])
def test_a_corrupt_file_of_another_study_stops_no_sweep(compose, run_harness, output, name):
    arguments = [*BAG, "finetune.max_steps=2", "measure=none", "report=false"]
    assert run_harness(*SMALL, *arguments, "study=other", f"output={output}").returncode == 0
    (corrupt,) = output.glob(f"other/*/{name}")
    corrupt.write_text(corrupt.read_text()[:-40])
    assert forecast.earlier({str(output)}) == {}
    planned = plan(compose("-m", *SMALL, *arguments, "seed=1,2", f"output={output}"))
    assert forecast.opening(planned) == "2 runs, 0 already finished"
