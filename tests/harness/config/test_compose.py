"""From files and a command line to runs."""

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from variants import VARIANTS

from harness.config import resolve
from harness.config import schema as configs
from harness.config.schema import ModelConfig
from harness.paths import conf_directory

CONF = conf_directory()
SINGLE = ("factorized", "windowed", "swiglu", "shared")
GROUPED = sorted(
    path
    for path in CONF.glob("*/*.yaml")
    if path.parent.name not in ("claims", "enhancement", "experiment", "protocol", "reference")
)
SETS = [path for path in GROUPED if path.parent.name == "task" and "members:" in path.read_text()]
FILES = {
    group: [path for path in paths if path not in SETS]
    for group, paths in itertools.groupby(GROUPED, lambda path: path.parent.name)
}
TINY = ("task=bag", "scale=tiny")
BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def rows(*groups: str) -> list[tuple[Path, ...]]:
    """Files that are composed together: one choice of each group as long as it has another."""
    return [tuple(filter(None, row)) for row in itertools.zip_longest(*([*FILES[group]] for group in groups))]


TOGETHER = [
    *rows("task", "model", "data", "hardware", "measure"),
    *rows("pretrain", "corpus", "scale", "recipe", "match", "finetune", "tracking"),
    *rows("tokenizer", "search"),
]


def line_of(files: tuple[Path, ...]) -> list[str]:
    choices = {"task": "bag"} | {path.parent.name: path.stem for path in files}
    choices |= {"task": "retrieval"} if choices.get("finetune") == "contrastive" else {}
    more = ["pretrain.teacher=a_folder"] if choices.get("pretrain") == "distillation" else []
    return [*(f"{group}={choice}" for group, choice in choices.items()), *more]


LINES = {path.stem: line_of(files) for files in TOGETHER for path in files if path.parent.name == "model"}
"""Model -> the command line with it, which several tests look at."""


def test_every_group_is_composed():
    assert {path.parent.name for path in itertools.chain(*TOGETHER)} == {path.parent.name for path in GROUPED}


@pytest.mark.long
@pytest.mark.parametrize("files", TOGETHER, ids=lambda files: " ".join(f"{path.parent.name}={path.stem}" for path in files))
def test_every_choice_is_what_its_file_says(compose, files):
    (run,) = compose(*line_of(files))
    flat = configs.flatten(configs.to_dict(run))
    for path in files:
        section = {"scale": "model", "recipe": "pretrain"}.get(path.parent.name, path.parent.name) + "."
        section = "" if "@package _global_" in path.read_text() else section
        said = configs.flatten(OmegaConf.to_container(OmegaConf.load(path)) or {})
        said |= {"objective": "mlm_nsp"} if (section, path.stem) == ("pretrain.", "own") else {}  # of the default model
        if section == "tokenizer.":  # the default model states none
            default = configs.to_dict(configs.TokenizerConfig())
            said |= {key: default[key] for key, value in said.items() if value is None}
        said = {key: flat[value[2:-1]] if str(value).startswith("${") else value for key, value in said.items()}
        assert {key: flat[f"{section}{key}"] for key in said} == said, path


def test_a_set_of_tasks_names_tasks():
    assert {member for path in SETS for member in OmegaConf.load(path).members} <= {path.stem for path in FILES["task"]}


@pytest.mark.parametrize("path", sorted(CONF.glob("experiment/*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_chooses_what_there_is(path):
    file = OmegaConf.load(path)
    chosen = [(key.removeprefix("override /"), name) for one in file.get("defaults", []) for key, name in one.items()]
    chosen += [("task", task) for task in file.hydra.sweeper.params.get("task", "bag").split(",")]
    assert all((CONF / group / f"{name}.yaml").is_file() for group, name in chosen)


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(CONF.glob("experiment/*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_is_the_sweep_it_says(compose, path):
    file = OmegaConf.load(path)
    needed = ["pretrain.teacher=TEACHER"] if "pretrain.teacher=T " in path.read_text() else []  # its second command
    task = "qqp" if path.stem == "protocols" else "bag"  # one that all protocols have
    runs = compose(f"+experiment={path.stem}", f"task={task}", "seed=4", *needed)
    swept = {
        key: re.split(r",(?![^\[]*\])", values)
        for key, values in file.hydra.sweeper.params.items()
        if key not in ("task", "seed")
    }
    chosen = {group: choice for one in file.get("defaults", []) for group, choice in one.items()}
    models = swept.pop("model", [chosen.get("override /model", "base")])
    pretrained = swept.pop("pretrain", [chosen.get("override /pretrain", "none")])
    objectives = [objective.strip("[]").replace(",", "-") for objective in pretrained]
    others = math.prod(len(values) for values in swept.values())
    found = [(run.model_name, run.pretrain.title, run.seed, run.study, run.task.name) for run in runs]
    own = {model: OmegaConf.load(CONF / "model" / f"{model}.yaml").get("objective", "mlm_nsp") for model in models}
    pairs = [(model, own[model] if objective == "own" else objective) for model in models for objective in objectives]
    wanted = [pair for pair in pairs for _ in range(others)]
    wanted += [(models[0], "none")] if OmegaConf.select(file, "sweep.control") else []
    assert found == [(*dimensions, 4, path.stem, task) for dimensions in wanted]


@pytest.mark.long
def test_enhancements_are_tried_in_every_combination(compose):
    every = {frozenset(names) for size in range(5) for names in itertools.combinations(SINGLE, size)}
    runs = compose("+experiment=enhancements", "task=bag", "seed=4")
    assert {frozenset(run.enhancements) for run in runs} == every
    assert len(runs) == 16


@pytest.mark.long
def test_no_arm_of_the_comparison_of_positions_begins_with_a_head_start(compose):
    runs = compose("+experiment=positions", "data.root=nowhere", "seed=0")
    scales = {run.model.position.value: run.model.token_scale for run in runs}
    assert scales == {"learned": 1, "sinusoidal": 128**0.5, "rotary": 1, "alibi": 1, "bucketed": 1}
    assert not any(run.pretrain.neighbour_heads for run in runs)


@pytest.mark.long
def test_sinusoids_beside_token_vectors_that_are_not_scaled_are_in_the_name(compose):
    (run,) = compose("task=bag", "scale=tiny", "model.position=sinusoidal", "model.embedding_scale=false")
    assert (run.label, run.model.token_scale) == ("base position=sinusoidal embedding_scale=false", 1)


SMALL_BERT = {"hidden_act": "relu", "tie_masked_lm_head": False, "init": "scaled_by_depth"}
RECIPES = {
    "scale=mini_bert model=base": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "init": "flat"},
    "scale=mini_bert model=swiglu": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "hidden_act": "silu"},
    "scale=mini_bert model=distilbert": {"hidden_dropout_prob": 0.0, "classifier_dropout": 0.2},
    "scale=larger_bert model=base": SMALL_BERT | {"hidden_dropout_prob": 0.1, "initializer_range": 0.02},
    "scale=larger_bert model=windowed": SMALL_BERT,
    "scale=larger_bert model=albert": SMALL_BERT | {"hidden_act": "gelu_tanh", "hidden_dropout_prob": 0.0},
    "model=albert scale=larger_bert": SMALL_BERT | {"hidden_act": "gelu_tanh", "hidden_dropout_prob": 0.0},
    "scale=larger_bert enhancement=[swiglu]": SMALL_BERT | {"hidden_act": "silu"},
    "model.hidden_act=gelu scale=larger_bert": SMALL_BERT | {"hidden_act": "gelu"},
    "scale=mini model=base": {"hidden_act": "gelu", "tie_masked_lm_head": True, "init": "flat", "hidden_dropout_prob": 0.1},
}


@pytest.mark.long
@pytest.mark.parametrize("arguments", RECIPES)
def test_scale_states_its_recipe_and_what_a_model_says_itself_wins(compose, arguments):
    (run,) = compose("task=bag", *arguments.split())
    flat = configs.flatten(configs.to_dict(run))
    assert {key: flat[f"model.{key}"] for key in RECIPES[arguments]} == RECIPES[arguments]


@pytest.mark.long
def test_recipe_of_a_scale_is_not_that_of_the_model_at_published_dimensions(compose):
    for scale in ("mini_bert", "larger_bert"):
        (run,) = compose("task=bag", f"scale={scale}")
        assert run.published == compose("task=bag", "scale=base")[0].model


@pytest.mark.long
def test_an_override_that_changes_nothing_is_not_in_the_name(compose):
    same = ["model.attention_window=null", "model.layer_norm_eps=1e-12"]
    (run,) = compose("task=bag", "scale=tiny", *same, "model.pooler=null")
    assert run.label == "base pooler=null"


def test_the_experiment_of_all_variants_names_every_model():
    models = OmegaConf.load(CONF / "experiment" / "variants.yaml").hydra.sweeper.params.model
    assert set(models.split(",")) == {*VARIANTS}


@pytest.mark.long
def test_without_arguments_the_built_in_tasks_run(compose):
    assert [(run.model_name, run.scale_name, run.task.name) for run in compose()] == [
        ("base", "tiny", "bag"),
        ("base", "tiny", "order"),
        ("base", "tiny", "distance"),
    ]


@pytest.mark.long
def test_user_folder_adds_a_model(compose, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("# mine\nattention_window: 32\n")
    (run,) = compose("--config-dir", str(tmp_path), "model=mine", "task=bag")
    assert (run.label, run.model.attention_window, run.published.attention_window) == ("mine", 32, 32)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ([], "base"),
        (["model=albert"], "albert"),
        (["enhancement=[windowed,swiglu]"], "base+swiglu+windowed"),
        (["model=albert", "enhancement=[swiglu]"], "albert+swiglu"),
        (["model.attention_window=32"], "base attention_window=32"),
        (["enhancement=[swiglu]", "model.attention_window=32"], "base+swiglu attention_window=32"),
        (["arm=before"], "before"),
        (["scale=tiny", "seed=3"], "base"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_arm_is_named_after_what_was_chosen(compose, arguments, label):
    (run,) = compose("task=bag", *arguments)
    assert run.label == label


@pytest.mark.long
@pytest.mark.parametrize("name", SINGLE)
def test_an_enhancement_on_base_is_the_model_of_its_name(compose, name):
    (stacked,), (named,) = compose("task=bag", "scale=tiny", f"enhancement=[{name}]"), compose(*TINY, f"model={name}")
    assert stacked.model == named.model
    assert stacked.published == named.published


@pytest.mark.long
def test_all_four_enhancements_are_the_enhanced_model_in_any_order(compose):
    (enhanced,) = compose("task=bag", "model=enhanced")
    for order in (SINGLE, SINGLE[::-1]):
        (stacked,) = compose("task=bag", f"enhancement=[{','.join(order)}]")
        assert stacked.model == enhanced.model


@pytest.mark.long
def test_published_twin_is_the_variant_at_bert_base_dimensions(compose):
    every = compose("-m", "task=bag", "scale=base", f"model={','.join(VARIANTS)}")
    for model, full in zip(VARIANTS, every, strict=True):
        (small,) = compose(*LINES[model])
        assert (small.model_name, small.scale_name, full.model_name, full.scale_name) == (model, "tiny", model, "base")
        assert small.published == full.model
        if (conf_directory() / "model" / "published" / f"{model}_base.yaml").exists():  # its own published size
            continue
        other = ("num_hidden_layers",) if model in ("enhanced_shallow", "bilstm") else ()
        assert all(getattr(small.published, key) == value for key, value in BERT_BASE.items() if key not in other), model


def test_base_at_scale_base_is_bert_base_as_published(compose):
    (run,) = compose("task=bag", "scale=base")
    assert run.model == run.published == ModelConfig()


@pytest.mark.long
def test_an_arm_is_named_after_keys_without_which_its_choices_make_no_model(compose):
    (run,) = compose("task=bag", "scale=tiny", "enhancement=[three_groups]", "model.num_hidden_layers=6")
    assert (run.label, run.model.depth) == ("base+three_groups num_hidden_layers=6", 6)


@pytest.mark.long
def test_published_twin_leaves_typed_dimensions_out_and_keeps_the_rest(compose):
    (run,) = compose("task=bag", "model.hidden_size=64", "model.num_hidden_layers=3", "model.attention_window=32")
    assert (run.model.hidden_size, run.model.num_hidden_layers) == (64, 3)
    assert run.published == replace(ModelConfig(), attention_window=32)


@pytest.mark.long
def test_a_set_of_tasks_is_a_run_for_each_with_everything_else_kept(compose):
    other = ("seed=5", "model=windowed", "finetune.learning_rate=0.01", "hardware.dtype=bf16")
    runs = compose("task=builtin", *other)
    assert [run.task.name for run in runs] == ["bag", "order", "distance"]
    assert compose("task=distance", *other) == [runs[2]]
    assert {(run.seed, run.finetune.learning_rate, run.model.attention_window) for run in runs} == {(5, 0.01, 8)}


@pytest.mark.long
def test_keys_of_a_task_reach_every_member_of_a_set(compose):
    assert [run.task.max_length for run in compose("task=builtin", "task.max_length=48")] == [48, 48, 48]


@pytest.mark.long
def test_a_saved_config_loads_equal(compose, tmp_path: Path):
    (run,) = compose(
        "task=sst2", "model=albert", "enhancement=[windowed]", "hardware.dtype=bf16", "data=local", "data.root=/data"
    )
    resolve.save(run, tmp_path / "config.yaml")
    assert resolve.load(tmp_path / "config.yaml") == run


@pytest.mark.long
def test_a_saved_config_loads_equal_with_texts_that_look_like_references(compose, tmp_path: Path):
    """Words that were typed are kept as they are; a config of others reads no variable of the environment."""
    (run,) = compose("task=bag")
    texts = ["arm=${seed}", "x='${oc.env:HOME}'", r"b\${seed}", "${oc.env:HOME}${seed}", r"\\x"]
    resolve.save(replace(run, overrides=texts), tmp_path / "config.yaml")
    assert resolve.load(tmp_path / "config.yaml").overrides == texts


@pytest.mark.long
def test_a_published_size_is_composed_after_the_model_and_before_what_is_typed(compose):
    (run,) = compose("model=modern", "scale=base", "task=bag")
    assert (run.model.num_hidden_layers, run.model.feed_forward_size) == (22, 1152)
    (typed,) = compose("model=modern", "scale=base", "task=bag", "model.num_hidden_layers=3")
    assert (typed.model.num_hidden_layers, typed.model.feed_forward_size) == (3, 1152)
    (other,) = compose("model=modern", "scale=tiny", "task=bag")
    assert (other.model.num_hidden_layers, other.model.feed_forward_size) == (2, None)
