"""A name is a promise: an arm is built as its name says, from whatever it starts, or refused by name."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from published_bert import LETTERS, SPECIAL, save_bert
from variants import WEIGHTS

from harness import paths
from harness.__main__ import main
from harness.checkpoints import huggingface, native, start
from harness.config.resolve import Checkpoint, Found, pretraining_of, refuse_changes, resolve, started_from
from harness.config.schema import HardwareConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier, on_meta
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.build import OBJECTIVES
from harness.paths import conf_directory
from harness.reports.__main__ import main as report
from harness.study import execute
from harness.study.identity import Inputs
from harness.study.plan import plan
from harness.tasks import prepared as cache
from harness.tracking.run_log import RunLog
from harness.training import pretrain

CONF = conf_directory()
GROUPS = [
    pytest.param(group, path.stem, id=f"{group}={path.stem}")
    for group in ("model", "enhancement", "scale")
    for path in sorted((CONF / group).glob("*.yaml"))
    if (group, path.stem) not in {("model", name) for name in WEIGHTS} | {("enhancement", "three_groups")}
]
"""All but published weights, and what needs more layers than the two of scale=tiny."""
CANNOT_DERIVE = {
    ("model", name)
    for name in (
        *("bilstm", "deberta", "deberta_v3", "encoder_decoder", "gpt", "gpt2", "longformer", "modern", "qk_norm", "roberta"),
        *("static", "t5", "t5_full", "transformer_xl", "xlnet"),
    )
}
"""Variants with a part that no weights of BERT become: other bodies, norms, or positions between two tokens."""

PIECES = [*SPECIAL, *LETTERS]
KEYS = {field.name for field in fields(EncoderConfig)}


def said_by(group: str, choice: str) -> dict:
    """Keys of the encoder that the file of a choice sets, with their values; without those of the tokenizer."""
    node = OmegaConf.load(CONF / group / f"{choice}.yaml")
    values = OmegaConf.to_container(node.model if group == "enhancement" else node) or {}
    return {key: value for key, value in values.items() if key in KEYS - {"vocab_size"}}


def values_of(shape: EncoderConfig, keys) -> dict:
    return {key: getattr(value := getattr(shape, key), "value", value) for key in keys}


def override(group: str, choice: str) -> str:
    return f"{group}=[{choice}]" if group == "enhancement" else f"{group}={choice}"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A plain BERT of the dimensions of scale=tiny."""
    tiny = {"hidden_size": 128, "intermediate_size": 512, "max_position_embeddings": 512}
    return save_bert(tmp_path_factory.mktemp("weights") / "small-bert", pieces=PIECES, **tiny)


@pytest.mark.long
@pytest.mark.parametrize(("group", "choice"), GROUPS)
def test_a_randomly_initialised_arm_and_the_encoder_that_is_pretrained_are_what_the_name_says(compose, group, choice):
    scale = {"scale": [], "enhancement": ["scale=mini"]}.get(group, ["scale=tiny"])  # at tiny, word vectors have 128 numbers
    (run,) = compose("task=bag", *scale, override(group, choice), "pretrain=mlm")
    config, said = resolve(run, Found()), said_by(group, choice)
    assert values_of(on_meta(config.model, 2).encoder.config, said) == said
    assert choice in {config.model_name, config.scale_name, *config.label.split("+")}
    config = pretraining_of(config)
    vocabulary = Vocabulary(60, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(60, dtype=torch.bool))
    with torch.device("meta"):
        encoder = OBJECTIVES[config.pretrain.objective](config.pretrain, config.model, vocabulary).encoder
    assert values_of(encoder.config, said) == said


@pytest.mark.long
@pytest.mark.parametrize(("group", "choice"), GROUPS)
def test_a_group_beside_published_weights_changes_them_as_it_says_or_is_refused(compose, published, group, choice):
    (run,) = compose("task=bag", f"model.init_from={published}", override(group, choice))
    said = said_by(group, choice)
    if (group, choice) in CANNOT_DERIVE or (group == "scale" and choice != "tiny"):
        with pytest.raises(InputError) as error:
            resolve(run, start.read(run))
        no_effect = f"{override(group, choice)} has no effect: the encoder is that of model.init_from={published}"
        cannot = f"model.init_from={published}: cannot derive from these weights: model."
        assert str(error.value).startswith(no_effect if group == "scale" else cannot)
        return
    config = resolve(run, start.read(run))
    model = build_classifier(config.model, 2, 0)
    huggingface.load_weights(config, model)
    assert values_of(model.encoder.config, said) == said
    assert config.label == "small-bert" + ("" if (group, choice) in {("model", "base"), ("scale", "tiny")} else f"+{choice}")


@pytest.mark.long
@pytest.mark.parametrize("weights", ["model.init_from=WEIGHTS", "pretrain.from=RUN"])
def test_keys_beside_weights_need_not_fit_the_default_scale(compose, weights):
    """Which has 2 layers of 128 features; what fits the weights is known when they are read."""
    (run,) = compose("task=bag", weights, "model.num_attention_heads=6", "model.num_hidden_groups=5")
    assert (run.model.num_attention_heads, run.model.num_hidden_groups) == (6, 5)
    with pytest.raises(InputError, match=r"model.hidden_size=128 must be a multiple of"):
        compose("task=bag", "model.num_attention_heads=6")


@pytest.mark.long
def test_a_variant_that_a_file_of_the_user_chooses_is_in_the_name_of_the_changed_weights(compose, published, tmp_path):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    chosen = "# @package _global_\ndefaults:\n  - override /model: windowed\n"
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(chosen)
    given = ["--config-dir", str(tmp_path / "conf"), "+experiment=mine", "task=bag", f"model.init_from={published}"]
    (run,) = compose(*given)
    config = resolve(run, start.read(run))
    assert (config.label, config.model.attention_window) == ("small-bert+windowed", 8)


HEAD, VOCABULARY = "model: {pooling: mean, num_attention_heads: 1}\n", "tokenizer: {vocab_size: 300}\n"
IN_FILES = {
    "experiment/mine": ["+experiment=mine"],
    "experiment/within": ["+experiment=outer"],
    "recipe/mine": ["recipe=mine"],
    "primary": ["--config-name", "primary"],
}
"""A file of the user -> how a command reads it."""


def files_of_the_user(folder: Path, file: str, text: str) -> list[str]:
    """The file, with what reads it, below a folder; the options that search there."""
    beginning = "defaults:\n  - config\n  - _self_\n" if file == "primary" else "# @package _global_\n"
    outer = "# @package _global_\ndefaults:\n  - within\n"
    for name, written in {file: beginning + text, "experiment/outer": outer}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(written)
    return ["--config-dir", str(folder)]


@pytest.mark.long
@pytest.mark.parametrize("file", IN_FILES)
def test_keys_of_a_file_of_the_user_change_weights_as_typed_ones_do(compose, published, tmp_path, file):
    given = [*files_of_the_user(tmp_path, file, HEAD), *IN_FILES[file], "task=bag", f"model.init_from={published}"]
    (run,) = compose(*given)
    config = resolve(run, start.read(run))
    head = {"pooling": "mean", "num_attention_heads": 1, "hidden_size": 128}
    assert values_of(config.model, head) == head
    (typed,) = compose(*given, "model.pooling=cls")
    assert values_of(resolve(typed, start.read(typed)).model, ["pooling"]) == {"pooling": "cls"}


@pytest.mark.long
def test_keys_that_an_experiment_sweeps_change_weights(compose, published, tmp_path):
    swept = "hydra:\n  mode: MULTIRUN\n  sweeper: {params: {model.pooling: 'mean,last'}}\n"
    given = files_of_the_user(tmp_path, "experiment/mine", swept)
    chosen = ["+experiment=mine", "task=bag", f"model.init_from={published}"]
    runs = [resolve(run, start.read(run)) for run in compose(*given, *chosen)]
    assert [(run.label, run.model.pooling.value) for run in runs] == [
        ("small-bert pooling=mean", "mean"),
        ("small-bert pooling=last", "last"),
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "key"),
    [(VOCABULARY, "tokenizer.vocab_size"), ("defaults:\n  - override /tokenizer: bpe\n", "tokenizer")],
)
def test_keys_of_an_experiment_that_weights_have_already_are_refused(compose, published, tmp_path, text, key):
    given = files_of_the_user(tmp_path, "experiment/mine", text)
    (run,) = compose(*given, "+experiment=mine", "task=bag", f"model.init_from={published}")
    with pytest.raises(InputError) as error:
        start.read(run)
    line = f"{key} of experiment/mine has no effect: model.init_from={published} has its own; leave it out"
    assert str(error.value) == line


@pytest.mark.long
def test_a_key_of_an_experiment_that_nothing_reads_is_refused(compose, tmp_path):
    given = files_of_the_user(tmp_path, "experiment/mine", "model: {rotary_theta: 500}\n")
    with pytest.raises(InputError, match=r"model\.rotary_theta=500.* has no effect in this model: it needs"):
        compose(*given, "+experiment=mine", "task=bag")


@pytest.mark.long
def test_a_variant_that_is_weights_names_the_arm_and_its_changes(compose, published, tmp_path):
    """A file of conf/model with `init_from` is the published encoder itself; one without says what weights become."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text(f"# our weights\ninit_from: {published}\n")
    (tmp_path / "model" / "near.yaml").write_text("# looks at neighbours\nattention_window: 2\n")
    given = ["--config-dir", str(tmp_path), "task=bag"]
    names = {
        "ours": ["model=ours"],
        "ours+windowed": ["model=ours", "enhancement=[windowed]"],
        "ours num_attention_heads=1": ["model=ours", "model.num_attention_heads=1"],
        "small-bert+near": ["model=near", f"model.init_from={published}"],
    }
    for name, chosen in names.items():
        (run,) = compose(*given, *chosen)
        config = resolve(run, start.read(run))
        assert (config.label, config.model.vocab_size, config.model.hidden_size) == (name, len(PIECES), 128)
    assert config.model.attention_window == 2
    with pytest.raises(InputError, match=r"^model=ours and model\.init_from=other both name initial weights: leave one out$"):
        compose(*given, "model=ours", "model.init_from=other")


@pytest.mark.long
def test_random_weights_are_the_control_of_published_ones(compose, published):
    """Shape and tokenizer of the weights, values from the seed, also before a pretraining; without weights it means nothing."""
    given = ["task=bag", f"model.init_from={published}", "model.num_hidden_layers=1", "model.random_weights=true"]
    (run,) = compose(*given)
    config = resolve(run, start.read(run))
    assert (config.label, config.model.depth) == ("small-bert num_hidden_layers=1 random_weights=true", 1)
    model, random = execute._build(config, Inputs()), build_classifier(config.model, 2, config.seed)
    assert all(torch.equal(random.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    (run,) = compose(*given, "pretrain=mlm", "recipe=bert")
    config = pretraining_of(resolve(run, start.read(run)))
    vocabulary = Vocabulary(config.model.vocab_size, 0, 2, 3, 4, torch.ones(config.model.vocab_size, dtype=torch.bool))
    encoder, expected = pretrain.build(config, vocabulary).encoder, build_classifier(config.model, 2, config.pretrain.seed)
    assert all(torch.equal(expected.encoder.state_dict()[name], tensor) for name, tensor in encoder.state_dict().items())
    with pytest.raises(InputError, match=r"random_weights=true needs weights to replace: add model.init_from"):
        compose("task=bag", "model.random_weights=true")


@pytest.mark.long
@pytest.mark.parametrize("control", [False, True])
def test_after_a_pretraining_its_encoder_counts_and_the_pooler_of_the_weights(compose, published, tmp_path, control):
    """Healing trains no pooler: it is that of the published weights, or of the seed in their control."""
    given = ["task=bag", f"model.init_from={published}", f"model.random_weights={str(control).lower()}", "pretrain=mlm"]
    (run,) = compose(*given, "recipe=bert")
    config = resolve(run, start.read(run))
    before, healed = execute._build(config, Inputs()).state_dict(), build_classifier(config.model, 2, 99)
    encoder = {f"encoder.{name}": tensor for name, tensor in healed.encoder.state_dict().items()}
    pooler = {} if control else {name: before[name] for name in before if name.startswith("pooler.")}
    native.save(paths.pretrained_weights(tmp_path, None), encoder | pooler, config.model)
    after = execute._build(config, Inputs(pretrained=str(tmp_path))).state_dict()
    assert all(torch.equal(after[name], encoder.get(name, before[name])) for name in after)
    assert not torch.equal(before["pooler.dense.weight"], healed.state_dict()["pooler.dense.weight"])


ENHANCED = [("model", "base"), ("model", "albert"), ("enhancement", "windowed"), ("enhancement", "shared")]


@pytest.mark.long
@pytest.mark.parametrize("pretrained", ["model=base", "model=albert", "enhancement=[windowed]"])
@pytest.mark.parametrize(("group", "choice"), [*ENHANCED, ("scale", "tiny"), ("scale", "small")])
def test_a_group_beside_an_earlier_run_fits_it_or_changes_it_or_is_refused(compose, pretrained, group, choice):
    (source,) = compose("task=none", "pretrain=mlm", "scale=tiny", pretrained)
    checkpoint = Checkpoint(source.arm, "RUN", source.model, source.tokenizer, source)
    (run,) = compose("task=bag", "pretrain.from=RUN", override(group, choice))
    said = said_by(group, choice)
    fits = override(group, choice) in {pretrained, "scale=tiny"} or (pretrained, choice) == ("model=albert", "shared")
    if choice in ("base", "small") and not fits:
        with pytest.raises(InputError) as error:
            refuse_changes(run, checkpoint)
        assert str(error.value).startswith(f"{override(group, choice)} has no effect: the encoder is that of pretrain.from=RUN")
        return
    refuse_changes(run, checkpoint)
    config = started_from(run, checkpoint)
    assert values_of(config.model, said) == said
    more = [] if fits else [choice]
    assert config.label == "+".join([source.label, *more])
    assert config.enhancements == source.enhancements | dict.fromkeys(more if group == "enhancement" else [], True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed", "where"),
    [
        (["match=params"], "match=params cannot resize the weights of model.init_from="),
        (["tokenizer=bpe"], "tokenizer=bpe has no effect: model.init_from="),
        (["tokenizer.vocab_size=300"], "tokenizer.vocab_size=300 has no effect: model.init_from="),
        (
            ["pretrain=mlm", "recipe=bert", "pretrain.neighbour_heads=true"],
            "pretrain.neighbour_heads=true has no effect: model.init_from=",
        ),
    ],
)
def test_other_groups_and_keys_beside_published_weights_are_refused(compose, published, typed, where):
    with pytest.raises(InputError) as error:
        plan(compose("task=bag", f"model.init_from={published}", *typed))
    assert str(error.value).startswith(where)


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["pretrain=clm"], "pretrain=clm has no effect: the pretraining is that of pretrain.from=RUN; leave it out"),
        (["recipe=bert"], "recipe=bert has no effect: pretrain.from=RUN has its own; leave it out"),
        (["corpus=wikitext"], "corpus=wikitext has no effect: pretrain.from=RUN has its own; leave it out"),
        (["tokenizer.lowercase=false"], "tokenizer.lowercase=false has no effect: pretrain.from=RUN has its own; leave it out"),
    ],
)
def test_what_an_earlier_run_has_already_is_refused_beside_it(compose, typed, line):
    (source,) = compose("task=none", "pretrain=mlm", "scale=tiny")
    (run,) = compose("task=bag", "pretrain.from=RUN", *typed)
    with pytest.raises(InputError) as error:
        refuse_changes(run, Checkpoint(source.arm, "RUN", source.model, source.tokenizer, source))
    assert str(error.value) == line


@pytest.mark.long
def test_published_weights_are_pretrained_on_without_heads_that_look_at_neighbours(compose, published):
    (run,) = compose("task=none", "pretrain=mlm", "pretrain.learning_rate=1e-4", f"model.init_from={published}")
    assert run.pretrain.neighbour_heads
    assert not resolve(run, start.read(run)).pretrain.neighbour_heads


@pytest.mark.long
def test_two_arms_that_are_one_run_are_refused(compose, tmp_path):
    small = ("task=bag", "scale=tiny", "data.train_examples=40", f"output={tmp_path}")
    with pytest.raises(
        InputError, match=r"^'base' and 'base recipe=bert' are the same run: their difference has no effect here"
    ):
        plan(compose("-m", *small, "recipe=small,bert"))


@pytest.mark.long
def test_one_model_under_two_names_is_said(compose, tmp_path):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "same.yaml").write_text("attention_window: null\n")
    small = ("task=bag", "scale=tiny", "data.train_examples=40", f"output={tmp_path}")
    items = plan(compose("-m", "--config-dir", str(tmp_path / "conf"), *small, "model=base,same,albert"))
    assert [note for item in items for note in item.notes] == [
        "'base' and 'same' are the same model and recipe under two names"
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed", "first", "again"),
    [
        (
            ["model=base,windowed", "model.attention_window=1024"],
            "base attention_window=1024",
            "windowed attention_window=1024",
        ),
        (["model.depth_fraction=1,0.5", "model.num_hidden_layers=1"], "base", "base depth_fraction=0.5"),
        (["model.embedding_size=null,128"], "base", "base embedding_size=128"),
        (
            ["finetune.optimizer=sgd,adamw", "finetune.adam_eps=1e-8,1e-6"],
            "base optimizer=sgd",
            "base optimizer=sgd adam_eps=1e-06",
        ),
    ],
)
def test_arms_of_which_the_same_is_built_are_said(typed, first, again, compose, tmp_path):
    items = plan(compose("-m", "scale=tiny", "task=bag", "data.train_examples=40", f"output={tmp_path}", *typed))
    (note,) = [note for item in items for note in item.notes]
    assert all(repr(name) in note.replace(" num_hidden_layers=1", "") for name in (first, again))
    assert note.endswith("are the same model and recipe under two names")
    assert len([item for item in items if item.same_as]) == 1


@pytest.mark.long
def test_reading_and_changing_weights_is_no_memory_of_inference(compose, published, tmp_path, monkeypatch):
    """They are loaded after the peak: a decomposition of a word table takes several times the model."""
    (run,) = compose("task=bag", f"model.init_from={published}", "finetune=none", f"output={tmp_path}")
    config, peaks, load = resolve(run, start.read(run)), {}, huggingface.load_weights
    run_log = RunLog(tmp_path)

    def loading(*arguments):
        peaks["temporary"] = torch.ones(256 << 18).sum().item()  # 256 MiB
        return load(*arguments)

    monkeypatch.setattr(huggingface, "load_weights", loading)
    monkeypatch.setattr(run_log, "value", peaks.__setitem__)
    execute.run_task(config, Inputs(data=cache.prepare(config)), Machine(HardwareConfig(threads=1)), run_log)
    run_log.finish("finished")
    assert peaks["temporary"]
    assert 0 < peaks["inference/peak_memory_bytes"] < 128 << 20
    assert peaks["model/params_random"] == 0


@pytest.mark.long
def test_weights_changed_and_healed_by_two_commands_stand_in_one_table(published, tmp_path, capsys):
    """The commands of the README in small: as they are and changed, then healed; the report compares all three."""
    given = ["-m", f"model.init_from={published}", "task=bag", "data.train_examples=64", "finetune.max_steps=1", "seed=0,1,2"]
    output = ["study=half", f"output={tmp_path}", "measure=none", "report=false"]
    heal = ["pretrain=distillation", "recipe=heal", "pretrain.steps=1", "pretrain.batch_size=2", "pretrain.length=32"]
    small = ["pretrain.eval_sequences=2", "pretrain.probe_steps=1", "corpus=builtin", "corpus.documents=50"]
    assert main([*given, "enhancement=[],[half_depth]", *output]) == 0
    assert main([*given, "enhancement=[half_depth]", *heal, *small, *output]) == 0
    assert report(["--output", str(tmp_path), "--study", "half", "--baseline", "small-bert"]) == 0
    text = (tmp_path / "reports" / "half" / "report.md").read_text()
    first = text[text.index("| arm |") :].split("\n\n")[0].splitlines()
    assert [line.split(" | ")[0] for line in first[2:]] == [
        "| small-bert", "| half_depth", "| half_depth+distillation",
    ]  # fmt: skip
    assert all(" points " in line for line in first[3:])
    assert "sets of conditions" not in text
