"""A protocol is a file: its settings for each task are what its sources say, and those of one task do not make another arm."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file

from harness.config import protocols
from harness.config.choices import Keep, KeepBest, Sampler
from harness.config.help import names
from harness.config.resolve import pretraining_of
from harness.config.schema import OF_ARM, stated_keys, within
from harness.errors import InputError
from harness.paths import conf_directory
from harness.plugins.tuning import search
from harness.study import plan, supervisor, tracked_study

SAID = OmegaConf.to_container(OmegaConf.load(Path(__file__).with_name("protocols.yaml")))
GLUE = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")
BASE = ("data=local", "scale=base", "model=base")
SEARCHED = {"rate": "finetune.learning_rate", "batch": "finetune.batch_size", "decay": "finetune.weight_decay"}


def composed_of(run) -> dict[str, object]:
    """What a run of a protocol says, in the words of the fixture."""
    finetune, searched, reported = run.finetune, run.search, KeepBest.validation
    grid = {one.key: sorted(one.choices) for one in search.dimensions(run)} if searched.space else {}
    assert not grid or searched.sampler is Sampler.grid
    fixed = {"rate": finetune.learning_rate, "batch": finetune.batch_size, "decay": finetune.weight_decay}
    return {name: grid.get(key, fixed[name]) for name, key in SEARCHED.items()} | {
        "epochs": finetune.epochs,
        "warmup": finetune.warmup_fraction,
        "length": run.task.max_length,
        "seeds": run.protocol.seeds,
        "schedule": finetune.schedule.value,
        "rows": run.data.train_examples,
        "reported": reported in (finetune.keep_best, searched.selected_on if grid else None),
        "clipped": finetune.max_grad_norm == 1,
        "scores": run.protocol.scores,
        "starts": run.protocol.starts_from,
        "statistic": run.protocol.statistic.value,
    }


def stated_for(task: str, said: dict) -> dict[str, object]:
    """What the fixture says of a task."""
    own = {"schedule": "linear", "rows": None} | said["all"] | said.get("tasks", {}).get(task, {})
    decoupled = own.pop("decoupled", None)
    own |= {} if decoupled is None else {"decay": pytest.approx(decoupled / own["rate"])}
    return {key: sorted(value) if isinstance(value, list) and key != "seeds" else value for key, value in own.items()} | {
        "scores": said.get("scores", {}).get(task, []),
        "starts": "mnli" if task in said.get("starts", ()) else None,
        "statistic": said.get("statistic", "mean"),
    }


ALL = pytest.param("all", marks=pytest.mark.long)


@pytest.mark.long
@pytest.mark.parametrize("which", ["mrpc,rte", ALL])
@pytest.mark.parametrize("name", names("protocol"))
def test_a_protocol_says_of_each_task_what_its_sources_say(compose, name, which):
    said = SAID[name]
    every = {*said.get("tasks", GLUE), *said.get("also", ())}
    tasks = every if which == "all" else {*which.split(",")}
    runs = compose("-m", f"task={','.join(sorted(tasks))}", f"+protocol={name}", *BASE)
    tasks |= {"mnli"} if tasks & {*said.get("starts", ())} else set()  # which is trained first
    assert {run.task.name for run in runs} == tasks
    assert {run.label for run in runs} == {f"base protocol={name}"}
    for run in runs:
        assert composed_of(run) == stated_for(run.task.name, said), run.task.name
        assert {task.partition("/")[0] for task in run.protocol.average} == every
    seeds = {task: [run.seed for run in runs if run.task.name == task] for task in tasks}
    assert seeds == {task: stated_for(task, said)["seeds"] for task in tasks}


def test_every_protocol_names_its_sources_and_says_nothing_of_other_tasks():
    for name in names("protocol"):
        file = OmegaConf.load(conf_directory() / "protocol" / f"{name}.yaml")
        assert file.sources, name
        assert {*file.tasks} == {*SAID[name].get("tasks", GLUE), *SAID[name].get("also", ())}, name


@pytest.mark.long
def test_of_a_set_of_tasks_those_run_that_the_protocol_has(compose):
    tasks = [run.task.name for run in compose("task=glue", "+protocol=babylm2025", *BASE)]
    assert tasks == ["mrpc", "qqp", "mnli", "rte"]


def test_no_setting_of_one_task_belongs_to_the_arm():
    of_tasks = [key for key in stated_keys() if key.partition(".")[0] in protocols.OF_TASKS]
    assert of_tasks
    assert not [key for key in of_tasks if within(key, OF_ARM)]


@pytest.mark.long
def test_what_is_typed_goes_before_the_protocol_and_what_is_typed_for_a_task_before_what_is_typed_for_all(compose):
    typed = ("finetune.epochs=7", "task.rte.finetune.epochs=9", "task.rte.task.max_length=64", "seed=5")
    runs = [run for run in compose("-m", "task=rte,cola", "+protocol=modernbert", *typed, *BASE) if run.task.name != "mnli"]
    found = {run.task.name: (run.finetune.epochs, run.finetune.learning_rate, run.task.max_length, run.seed) for run in runs}
    assert found == {"rte": (9.0, 5e-5, 64, 5), "cola": (7.0, 8e-5, 256, 5)}
    assert {run.label for run in runs} == {"base protocol=modernbert"}
    for run in runs:  # each is repeated by its own overrides
        (*_, again) = compose(*run.overrides)
        assert (again.finetune, again.task, again.protocol) == (run.finetune, run.task, run.protocol)


@pytest.mark.long
def test_protocols_are_compared_as_arms_each_with_its_own_seeds(compose):
    runs = compose("-m", "+protocol=modernbert,mosaicbert", "task=rte", *BASE)
    assert [(run.label.removeprefix("base protocol="), run.task.name, run.seed) for run in runs] == [
        *(("modernbert", task, seed) for task in ("mnli", "rte") for seed in (42, 314, 1234)),
        ("mosaicbert", "mnli", 19),
        *(("mosaicbert", "rte", seed) for seed in (19, 8364, 717, 10536, 90166)),
    ]


@pytest.mark.long
def test_the_keys_that_a_protocol_stands_for_are_printed(run_harness):
    printed = run_harness("+protocol=modernbert", "task=rte", "--cfg", "job").stdout
    assert {"protocol_name: modernbert", "  learning_rate: 5.0e-05", "  starts_from: mnli"} <= {*printed.splitlines()}


@pytest.mark.long
def test_protocols_share_a_pretraining(compose):
    runs = compose("-m", "+protocol=modernbert,mosaicbert", "task=cola", "pretrain=mlm", "seed=1", *BASE)
    assert [run.label for run in runs] == ["base+mlm protocol=modernbert", "base+mlm protocol=mosaicbert"]
    first, second = map(pretraining_of, runs)
    assert (first.label, first.protocol_name) == (second.label, second.protocol_name) == ("base+mlm", "")


FILE = """
sources: [a paper]
settings: {protocol: {seeds: [3, 4]}, finetune: {epochs: 3}}
tasks: {bag: {finetune: {epochs: 4}, search: {sampler: grid, space: ["finetune.batch_size=choice(8,16)"]}}, order: }
"""


@pytest.fixture
def own(tmp_path):
    """Writes a protocol of the user; returns what names it."""

    def write(text: str) -> tuple[str, ...]:
        for folder, content in {
            "protocol": text,
            "experiment": "# @package _global_\ndefaults: [override /task: bag]\n",
        }.items():
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "mine.yaml").write_text(content)
        return ("--config-dir", str(tmp_path), "+protocol=mine", "scale=tiny")

    return write


@pytest.mark.long
def test_a_protocol_may_be_a_file_of_the_user_and_the_task_that_of_an_experiment(compose, own):
    words = own(FILE)
    assert [(run.task.name, run.seed, run.finetune.epochs) for run in compose(*words)] == [
        *(("bag", seed, 4.0) for seed in (3, 4)),
        *(("order", seed, 3.0) for seed in (3, 4)),
    ]
    runs = compose(*words, "+experiment=mine", "task.bag.finetune.batch_size=4")
    assert [(run.task.name, run.finetune.epochs, run.finetune.batch_size) for run in runs] == [("bag", 4.0, 4)] * 2


@pytest.mark.long
def test_a_protocol_that_searches_on_some_of_its_tasks_is_one_arm_and_its_runs_are_repeated_without_the_search(compose, own):
    pytest.importorskip("optuna")
    words = own(FILE)
    searches = search.Searches(compose(*words))
    for trials, _ in searches.rounds():
        searches.take([{"status": "finished", "metrics": {"tune/score": one.finetune.batch_size / 100}} for one in trials])
    found = searches.tuned()
    assert {run.label for run in found} == {"base protocol=mine"}
    again = compose(*words[:2], *found[0].overrides)
    assert [(run.finetune.batch_size, run.search.space) for run in again] == [(16, [])] * 2


STAGED = """
sources: [a paper]
settings: {protocol: {seeds: [4, 3]}, task: {max_length: 16}, finetune: {max_steps: 3}, data: {train_examples: 24}}
tasks: {order: {protocol: {seeds: [3]}}, bag: {protocol: {starts_from: order}, finetune: {learning_rate: 1e-30, keep: last}}}
"""


@pytest.mark.long
def test_a_task_that_another_one_starts_from_is_trained_first_and_shared(compose, own, tmp_path):
    words = (*own(STAGED), "hardware.threads=1", f"output={tmp_path / 'out'}")
    first, *others = plan.plan(compose(*words, "task=bag"))
    assert [(run.config.task.name, run.config.seed) for run in (first, *others)] == [("order", 3), ("bag", 3), ("bag", 4)]
    assert [run.needs for run in others] == [first, first]
    assert (first.needs_weights, first.config.finetune.keep) == ([first.folder / "checkpoint"], Keep.last)
    assert "bag starts from the fine-tuned weights of order (base protocol=mine)" in others[0].notes
    (alone,) = plan.plan(compose(*words, "task=order"))
    assert alone.folder == first.folder  # the same run, also in a command of its own


@pytest.mark.long
def test_each_arm_starts_from_its_own_run_of_the_other_task_and_from_no_other(compose, own, tmp_path):
    words = (*own(STAGED), "-m", "finetune.optimizer=adamw,nadam", "seed=3", f"output={tmp_path / 'out'}")
    composed = compose(*words, "task=bag")
    starts = {run.config.label: run.needs.config.label for run in plan.plan(composed) if run.config.task.name == "bag"}
    assert starts == {label: label for label in ("base protocol=mine", "base protocol=mine optimizer=nadam")}
    plain = compose("-m", "scale=tiny", "task=bag", "seed=3", f"output={tmp_path / 'out'}", "finetune.max_steps=3")
    named = [*plain, *composed]
    assert (
        tracked_study.baselines(plan.plan(named))[-1] == named[0].label != composed[0].label
    )  # though order is trained before it
    with pytest.raises(InputError, match="on bag starts from order, which is not among these runs"):
        plan.plan([run for run in composed if run.task.name == "bag"])


@pytest.mark.long
def test_a_pretrained_arm_starts_from_the_other_task_and_not_from_its_pretraining(compose, own, tmp_path):
    text = ("pretrain=mlm", "pretrain.steps=2", "corpus.documents=30", "tokenizer.vocab_size=300", "pretrain.length=16")
    words = (*own(STAGED), *text, "scale=tiny", "task=bag", "seed=3", f"output={tmp_path / 'out'}")
    needs = [(run.config.task.name, run.needs and run.needs.config.task.name) for run in plan.plan(compose(*words))]
    assert needs == [("none", None), ("order", "none"), ("bag", "order")]


@pytest.mark.long
def test_its_weights_are_what_the_other_task_starts_with(run_harness, own, tmp_path):
    run_harness(*own(STAGED), "task=bag", "measure=none", "report=false", f"output={tmp_path / 'out'}")
    found = {path.parent.parent.name: load_file(path) for path in tmp_path.glob("out/*/*/checkpoint/model.safetensors")}
    first, *others = (found[name] for name in sorted(found, key=lambda name: "-bag-" in name))
    assert len(others) == 2
    for other in others:  # which hardly learned: its rate is 1e-30
        encoder = [name for name in first if name.startswith("encoder.")]
        assert encoder
        for name in encoder:
            torch.testing.assert_close(other[name], first[name], rtol=0, atol=1e-6, msg=name)


@pytest.mark.long
def test_a_trial_is_run_where_the_task_that_it_starts_from_has_more_seeds(compose, own, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    one = "bag: {search: {sampler: grid, seed: 3, space: [finetune.batch_size=choice(8)]}, "
    words, ran = own(STAGED.replace("seeds: [3]", "seeds: [3, 4]").replace("bag: {", one)), []
    first, others = plan.stages(compose(*words, "task=bag", f"output={tmp_path / 'out'}"))
    monkeypatch.setattr(supervisor, "_begun", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(supervisor, "run_in_order", lambda planned, *_: ran.extend(planned))
    result = {"status": "finished", "metrics": {"tune/score": 0.5}}
    monkeypatch.setattr(supervisor.run_log, "result", lambda _: result)
    supervisor._tuned(others, first, None, None)
    assert [(run.config.task.name, run.config.seed) for run in ran] == [("bag", 3)]


@pytest.mark.long
def test_after_a_search_the_arms_stand_as_they_were_named(compose, own, tmp_path, monkeypatch):
    words, asked = (*own(STAGED), "-m", "search=grid", f"output={tmp_path / 'out'}"), []
    searched = compose("-m", "task=bag", "seed=3", *words[3:])  # no protocol, named first
    staged = [replace(run, search=searched[0].search) for run in compose(*words[:3], "scale=tiny", "task=bag")]
    for name in ("_opened", "_begun", "prepare_workers", "refuse_as_one_command"):
        monkeypatch.setattr(supervisor, name, lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(supervisor, "_tuned", lambda stage, *_: stage)
    monkeypatch.setattr(supervisor, "run_in_order", lambda *_, **__: True)
    monkeypatch.setattr(supervisor, "plan", lambda configs, *_: asked.append(configs) or [])
    supervisor.run_study([*searched, *staged])
    assert [run.label for run in asked[-1]] == [run.label for run in (*searched, *staged)]
    assert asked[0][0].label == staged[0].label  # what others start from is trained first


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("setings: {}", "protocol=mine: Object contains unknown field `setings`"),
        ("tasks: [bag]", "protocol=mine: Expected `object`, got `array` - at `$.tasks`"),
        ("tasks: {order: }", "protocol=mine has no task 'bag': expected one of order"),
        ("tasks: {bag: {finetune: {epoch: 3}}}", "unknown key 'finetune.epoch'"),
        ("tasks: {bag: {protocol: {seed: [3]}}}", "unknown key 'protocol.seed'"),
        ("tasks: {bag: {hydra: {searchpath: [a]}}}", "unknown section 'hydra.searchpath'"),
        ("tasks: {bag: {model: {hidden_size: 8}}}", "unknown section 'model.hidden_size'"),
    ],
)
def test_a_wrong_file_is_one_line(compose, own, text, said):
    with pytest.raises(InputError) as error:
        compose(*own(f"sources: [a paper]\n{text}"), "task=bag")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("+protocol=brt",), "unknown protocol 'brt'; did you mean 'bert'?"),
        (("+protocol=bert", "finetune=quick"), "finetune=quick and protocol=bert both say how runs train"),
        (("task.cola.finetune.epochs=1",), "no run is on this task: add task=cola"),
        (("-m", "task.rte.finetune.epochs=1,2"), "sweeps a key of one task"),
        (("task.rte.model.hidden_size=8",), "unknown section 'model'; choices for `task.rte`: data, finetune, task"),
        (("task.rte.finetune.lr=1",), "did you mean 'finetune.learning_rate'?"),
    ],
)
def test_what_cannot_be_said_of_a_task_is_one_line(compose, words, said):
    with pytest.raises(InputError) as error:
        compose("task=rte", *words, *BASE)
    assert said in str(error.value)
