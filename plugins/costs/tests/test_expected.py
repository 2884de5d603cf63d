"""What a command will take: counts that the runs then reach, earlier runs, and probes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness import tags
from harness.measure.launch import Outcome
from harness.measure.records import Measured
from harness.measure.subject import step_shape
from harness.plugins.costs import expected as expectations
from harness.plugins.costs.expected import Group, Timing, Work
from harness.plugins.shared import memory_formula
from harness.study import forecast, run_folder, timing_session
from harness.study.forecast import Pace
from harness.study.plan import plan
from harness.tracking import run_log

pytestmark = pytest.mark.long

SMALL = ["scale=tiny", "hardware.threads=1"]
BAG = ["task=bag", "task.grammar.train_examples=90", "task.grammar.validation_examples=20"]
TEXT = ["corpus.documents=40", "tokenizer.vocab_size=300", "pretrain.length=16", "pretrain.batch_size=4"]
TEXT += ["pretrain.eval_sequences=4", "pretrain.evaluations=2"]


def in_one_group(compose, output, *arguments: str, probing=None) -> Group:
    (found,) = expectations.groups(plan(compose(*SMALL, *arguments, f"output={output}")), probing)
    return found


def results(output, pattern: str) -> list[dict[str, float]]:
    return [run_log.result(path.parent)["metrics"] for path in output.glob(f"{pattern}/result.json")]


def test_counts_are_those_that_the_run_reaches(compose, run_harness, output):
    arguments = [*BAG, "finetune.epochs=1.5", "finetune.batch_size=16", "measure=none"]
    expected = in_one_group(compose, output, *arguments).work
    assert run_harness(*SMALL, *arguments, f"output={output}", "report=false").returncode == 0
    (found,) = results(output, "default/*")
    assert expected.flops == found["finetune/flops"] > 0
    assert expected.parameters == found["model/params_total"]
    assert expected.steps == 9


@pytest.mark.parametrize("budget", ["pretrain.tokens=800", "pretrain.steps=5", "pretrain.flops=1e8"])
def test_counts_of_a_pretraining_are_those_that_it_reaches(compose, run_harness, output, budget):
    arguments = [*TEXT, "pretrain=mlm", "task=none", budget]
    expected = in_one_group(compose, output, *arguments).work
    assert run_harness(*SMALL, *arguments, f"output={output}").returncode == 0
    (found,) = results(output, "pretrained/*")
    assert expected.parameters == found["model/params_total"]
    assert expected.steps == found["pretrain/steps"]
    assert expected.flops == pytest.approx(found["pretrain/flops"])


def test_a_budget_of_seconds_has_no_flops(compose, output):
    expected = in_one_group(compose, output, *TEXT, "pretrain=mlm", "task=none", "pretrain.seconds=7").work
    assert (expected.flops, expected.steps, expected.seconds) == (None, 0, 7.0)


def test_a_fine_tuning_of_seconds_takes_them_and_says_no_flops(compose, run_harness, output):
    arguments = [*BAG, "finetune.seconds=1.5", "measure=none"]
    group = in_one_group(compose, output, *arguments, probing=expectations.probe)
    assert (group.work.flops, group.work.steps, group.work.seconds) == (None, 0, 1.5)
    assert group.pace.seconds > 1.5
    assert run_harness(*SMALL, *arguments, f"output={output}", "report=false").returncode == 0
    (found,) = results(output, "default/*")
    assert found["finetune/duration_s"] >= 1.5
    assert found["finetune/flops"] > 0


def test_a_finished_replicate_tells_the_pace_and_nothing_is_probed(compose, run_harness, output):
    arguments = [*BAG, "finetune.max_steps=2", "measure=none"]
    assert run_harness(*SMALL, *arguments, "seed=1", f"output={output}", "report=false").returncode == 0
    group = in_one_group(compose, output, "-m", *arguments, "seed=1,2", probing=lambda item, needed: pytest.fail("probed"))
    assert [item.config.seed for item in group.open] == [2]
    (found,) = results(output, "default/*")
    assert group.pace.memory_bytes == found["finetune/peak_memory_bytes"]
    assert group.pace.seconds > found["finetune/duration_s"]
    assert group.pace.source == "1 earlier run"
    planned = plan(compose("-m", *SMALL, *arguments, "seed=1,2,3", "model=base,albert", f"output={output}"))
    line = forecast.opening(planned)
    assert line.startswith("6 runs, 1 already finished; about ")
    assert line.endswith(" left for 2 of them, judging by earlier runs")
    (folder,) = (path.parent for path in output.glob("default/*/run.json"))
    lines = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(
        lines + next(line for line in lines.splitlines(True) if '"stage": "finetune"' in line)
    )
    assert forecast.earlier({str(output)}) == {}  # a second worker went on with it, after nobody knows how long
    (folder / "metrics.jsonl").write_text(lines)
    assert forecast.earlier({str(output)}) != {}
    other = in_one_group(compose, output, *arguments, "finetune.batch_size=8")
    assert other.pace is None  # other work: nothing is known of it


@pytest.mark.parametrize("of", [BAG, [*TEXT, "pretrain=mlm", "task=none", "pretrain.steps=400"]])
def test_a_probe_trains_a_few_steps_and_leaves_nothing(compose, output, of):
    (item,) = plan(compose(*SMALL, *of, "measure=none", f"output={output}"))
    item.config = replace(item.config, finetune=replace(item.config.finetune, epochs=200))
    pace = expectations.probe(item, expectations.work(item))
    assert pace.seconds > 0
    assert pace.memory_bytes > 0
    assert pace.source == f"a probe of {expectations.MOST_STEPS} steps"
    assert expectations.work(item).steps > expectations.MOST_STEPS
    assert not item.folder.exists()
    assert list(output.glob(".probe-*")) == []


def test_a_worker_that_fails_tells_no_pace(compose, output):
    (item,) = plan(compose(*SMALL, *BAG, "measure=none", f"output={output}"))
    item.inputs = replace(item.inputs, data="not-there")
    assert expectations._run_shortened(item, _made(output / "probe"), 2, False) is None


def _made(folder):
    folder.mkdir()
    return folder


def test_a_probe_is_extrapolated_over_all_steps_and_examples(compose, output):
    (item,) = plan(compose(*SMALL, *BAG, "measure=none", f"output={output}"))
    found = {"finetune/duration_s": 2.0, "finetune/samples_per_s": 10.0, "finetune/peak_memory_bytes": 5e6, "steps": 4.0}
    pace = expectations._extrapolated(item, Work(1, 40, 1e9), 3.0, found)
    assert pace == Pace(pytest.approx(1.0 + 20.0 + 20 / 10 / 3), 5e6, "a probe of 4 steps")


def test_the_memory_of_a_probe_is_raised_to_that_of_the_largest_batch(compose, output):
    (item,) = plan(compose(*SMALL, *BAG, "measure=none", f"output={output}"))
    found = {"finetune/duration_s": 2.0, "finetune/samples_per_s": 10.0, "finetune/peak_memory_bytes": 5e6, "steps": 4.0}
    measured = [replace(item.config, measure=replace(item.config.measure, length=length)) for length in (8, 64)]
    short, long = (memory_formula.parts(step_shape(one, 8), one.hardware, False).total for one in measured)
    assert long > 1.3 * short
    needed = Work(1, 40, 1e9, batches=((8, 8),) * 4 + ((8, 64),) * 36)
    assert expectations._extrapolated(item, needed, 3.0, found).memory_bytes == pytest.approx(5e6 * long / short)


def test_a_launch_is_timed_without_the_import_of_its_libraries(compose, output, monkeypatch):
    planned = plan(compose("-m", *SMALL, *BAG, "model=base,albert", "seed=1", f"output={output}"))
    now, takes = [0.0], iter([20.0, 2.0])

    def launched(*_):
        now[0] += next(takes)
        return Outcome(Measured(), 0, output / "log.txt")

    monkeypatch.setattr(expectations, "launch", launched)
    monkeypatch.setattr(expectations, "time", SimpleNamespace(monotonic=lambda: now[0]))
    output.mkdir(exist_ok=True)
    assert expectations.of_session(planned, probing=True).launch_s == 2.0


def test_timing_counts_shapes_once_and_replicates(compose, output):
    planned = plan(compose("-m", *SMALL, *BAG, "model=base,albert", "seed=1,2,3", f"output={output}"))
    found = expectations.of_session(planned, probing=False)
    assert (found.variants, found.replicates, found.rounds, found.seconds()) == (2, 1, (4, 9), None)
    assert Timing(2, 1, (4, 5), 1.5).seconds() == (18.0, 22.5)
    untimed = plan(compose(*SMALL, *BAG, "measure=none", f"output={output}"))
    assert expectations.of_session(untimed, probing=False) is None


def test_timing_counts_the_launches_of_the_session(compose, output):
    """Tasks of one shape share their A/A replicate; a baseline that was timed earlier is launched again beside what is new."""
    arguments = [*SMALL, *BAG, "task=bag,order", "model=base,albert", f"output={output}"]
    planned = plan(compose("-m", *arguments))
    found = expectations.of_session(planned, probing=False)
    assert (found.variants, found.replicates) == (2, 1)
    for item in planned:
        record = run_folder.new_record(item.config, item.inputs, item.lifted)
        record["tags"] |= {tags.SESSION: "earlier"} if item.config.label == "base" else {}
        run_folder.prepare(item.folder, item.config, record)
        run_log.RunLog(item.folder).finish("finished", record["started"])
    found, launched = expectations.of_session(planned, probing=False), timing_session.Session(planned)
    assert (found.variants, found.replicates) == (2, 1)
    assert [timed.is_aa_replicate for timed in launched.timed.values()].count(True) == 1
    assert len(launched.timed) == 3
