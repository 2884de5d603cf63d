"""A sweep is composed once for all its replicates, and is the sweep that Hydra would make."""

import pytest

from harness.config import compose as composition
from harness.config.sweep import Sweep
from harness.errors import InputError


def facts(runs):
    return [(run.model_name, run.seed, run.pretrain.seed, run.task.name, run.label, run.swept) for run in runs]


@pytest.mark.parametrize(
    "arguments",
    [
        ("task=bag", "model=base,albert", "seed=3,1"),
        ("task=bag", "seed=3,1", "model=base,albert"),
        ("task=bag", "seed=2,4", "pretrain.seed=0,1", "pretrain=mlm"),
        ("task=bag", "seed=2,4", "pretrain.seed=7", "pretrain=mlm"),
        ("task=builtin", "seed=0,1"),
    ],
)
def test_the_runs_and_their_order_are_those_of_hydra(compose, monkeypatch, arguments):
    ours = compose("-m", *arguments)
    monkeypatch.setattr(Sweep, "without_replicates", lambda sweep, jobs: jobs)
    theirs: list = []
    composition.main(["-m", *arguments], lambda runs: theirs.extend(runs) or 0)
    assert facts(ours) == facts(theirs)
    assert ours == theirs


def test_replicates_are_composed_once(compose, monkeypatch):
    composed: list = []
    runs_of = composition.runs_of

    def spy(node, swept):
        composed.append((node.seed, swept))
        return runs_of(node, swept)

    monkeypatch.setattr(composition, "runs_of", spy)
    runs = compose("-m", "task=bag", "model=base,albert", "seed=5,6,7")
    assert [(run.model_name, run.seed) for run in runs] == [(model, seed) for model in ("base", "albert") for seed in (5, 6, 7)]
    assert composed == [(5, ["model", "seed"])] * 2


def test_a_wrong_seed_is_refused(compose):
    with pytest.raises(InputError, match=r"seed"):
        compose("-m", "task=bag", "seed=0,one")


def test_seeds_of_an_experiment_are_replicates(compose):
    runs = compose("+experiment=positions", "model.position=learned,rotary", "data.root=nowhere")
    assert [(run.model.position.value, run.seed) for run in runs] == [
        (position, seed) for position in ("learned", "rotary") for seed in (0, 1, 2)
    ]


def test_a_setting_of_swept_choices_alone_may_stand_beside_them(compose):
    """The default task has no grammar; those of the sweep have one."""
    configs = compose("-m", "task=bag,order", "task.grammar.train_examples=400")
    assert [(config.task.name, config.task.grammar.train_examples) for config in configs] == [("bag", 400), ("order", 400)]


def test_a_setting_that_one_of_the_swept_choices_lacks_is_refused(compose):
    with pytest.raises(InputError, match=r"task\.grammar\.train_examples=400: task\.grammar is null with this task"):
        compose("-m", "task=bag,sst2", "task.grammar.train_examples=400")
