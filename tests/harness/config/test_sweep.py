"""The runs of a sweep and their order are those of Hydra's own sweeper; replicates differ in seeds alone."""

import itertools

import pytest

from harness.errors import InputError

SWEEPS = {
    "task=bag model=base,albert seed=3,1": [("model", ["base", "albert"]), ("seed", [3, 1])],
    "task=bag seed=3,1 model=base,albert": [("seed", [3, 1]), ("model", ["base", "albert"])],
    "task=bag seed=2,4 pretrain.seed=0,1 pretrain=mlm": [("seed", [2, 4]), ("pretrain.seed", [0, 1])],
    "task=bag seed=range(4,0,-2) pretrain.seed=7 pretrain=mlm": [("seed", [4, 2]), ("pretrain.seed", [7])],
    "task=bag seed=range(0,3) model='choice(albert,base)'": [("seed", [0, 1, 2]), ("model", ["albert", "base"])],
    "task=bag model=glob(b*,exclude=bil*)": [("model", ["base"])],
    "task=builtin seed=0,1": [("seed", [0, 1]), ("task", ["bag", "order", "distance"])],
    "task=bag seed=9 model=base,albert seed=1,2": [("seed", [1, 2]), ("model", ["base", "albert"])],
}


@pytest.mark.long
@pytest.mark.parametrize("words", SWEEPS)
def test_the_last_sweep_changes_fastest(compose, words):
    keys, values = zip(*SWEEPS[words], strict=True)
    runs = compose("-m", *words.replace("'", "").split())
    by_key = [
        {"model": run.model_name, "seed": run.seed, "pretrain.seed": run.pretrain.seed, "task": run.task.name} for run in runs
    ]
    assert [tuple(one[key] for key in keys) for one in by_key] == list(itertools.product(*values))
    assert "pretrain.seed=" in words or all(run.pretrain.seed == run.seed for run in runs)


@pytest.mark.long
def test_each_run_knows_what_the_command_sweeps(compose):
    assert {tuple(run.swept) for run in compose("-m", "task=bag", "model=base,albert", "seed=5,6")} == {("model", "seed")}


@pytest.mark.long
def test_a_replicate_is_the_run_of_its_seed_alone(compose):
    swept = compose("-m", "task=bag", "model=albert", "seed=5,6")
    for run, seed in zip(swept, (5, 6), strict=True):
        (alone,) = compose("-m", "task=bag", "model=albert", f"seed={seed}")
        assert alone.model == run.model
        assert (alone.seed, alone.pretrain.seed, alone.overrides) == (run.seed, run.pretrain.seed, run.overrides)


@pytest.mark.long
def test_a_value_may_name_the_seed_of_its_run(compose):
    assert [run.study for run in compose("-m", "task=bag", "seed=5,6", "study=s${seed}")] == ["s5", "s6"]


@pytest.mark.long
def test_seeds_of_an_experiment_are_replicates(compose):
    runs = compose("+experiment=positions", "model.position=learned,rotary", "data.root=nowhere")
    assert [(run.model.position.value, run.seed) for run in runs] == [
        (position, seed) for position in ("learned", "rotary", "learned") for seed in (0, 1, 2)
    ]  # the last one is the control


@pytest.mark.long
def test_a_setting_of_swept_choices_alone_may_stand_beside_them(compose, tmp_path):
    """The default task has no grammar; those of the sweep have one, on the command line or in a file."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {task: 'bag,order'}}}\n"
    )
    for swept in (["-m", "task=bag,order"], ["+experiment=mine", f"--config-dir={tmp_path}"]):
        configs = compose(*swept, "task.grammar.train_examples=400")
        assert [(config.task.name, config.task.grammar.train_examples) for config in configs] == [("bag", 400), ("order", 400)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("places", "names"),
    [
        (["a/checkpoint-60", "b/checkpoint-60"], ["a/checkpoint-60", "b/checkpoint-60"]),
        (["a/x/last", "b/x/last", "c"], ["a/x/last", "b/x/last", "c"]),
    ],
)
def test_folders_of_one_name_are_told_apart_by_their_paths(compose, tmp_path, places, names):
    folders = ",".join(str(tmp_path / place) for place in places)
    assert [run.label for run in compose("-m", "task=bag", f"model.init_from={folders}")] == names


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (
            ["small/tokenizer.json", "large/tokenizer.json"],
            ["base file=small/tokenizer.json", "base file=large/tokenizer.json"],
        ),
        (["small/tokenizer.json", "small/other.json"], ["base file=tokenizer.json", "base file=other.json"]),
        (["null", "small/tokenizer.json"], ["base", "base file=tokenizer.json"]),
    ],
)
def test_files_of_one_name_are_told_apart_by_their_paths(compose, values, labels):
    assert [run.label for run in compose("-m", "task=bag", f"tokenizer.file={','.join(values)}")] == labels


def test_a_setting_of_hydra_cannot_be_swept(compose):
    with pytest.raises(InputError, match=r"hydra\.verbose=true,false: hydra\.verbose cannot be set: expected one value of"):
        compose("-m", "task=bag", "hydra.verbose=true,false")


@pytest.mark.long
def test_one_name_for_settings_of_one_model_is_no_mistake(compose):
    labels = [run.label for run in compose("-m", "task=bag", "scale=tiny", "finetune.epochs=1,3", "arm=same", "seed=1,2")]
    assert labels == ["same epochs=1"] * 2 + ["same epochs=3"] * 2
