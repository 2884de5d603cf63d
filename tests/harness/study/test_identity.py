"""What a run is: every key counts unless an explicit list says why not, and what differs is told apart."""

import itertools
import json
import random
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import tags, versions
from harness.comparison import arms
from harness.config.choices import DeviceSharding, Dtype
from harness.config.schema import RunConfig, flatten, to_dict
from harness.study import identity
from harness.study.identity import Identity, Inputs

LISTED = yaml.safe_load(Path(__file__).with_name("identity.yaml").read_text())["not_in_fingerprint"]
NOT_IN_FINGERPRINT = {f"{section}.{key}".removeprefix("run.") for section, keys in LISTED.items() for key in keys}
"""Keys that name a run, or say where hashed content is, what `own` means, and which checkpoints are written.

What a match or a search found is in the keys of the model and of fine-tuning.
"""

NOT_A_FACT = {"model.vocab_size", "model.pad_token_id", "finetune.submit", "seed", "pretrain.seed"}
"""Keys that the fingerprint has, but that no comparison depends on: the tokenizer's, an additional file, replicates."""

INPUTS = Inputs(data="key", content={"rows": "r"})


def other(value: Any, key: str) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return next(choice for choice in type(value) if choice is not value)
    if isinstance(value, (int, float)):
        return value + 0.125 if isinstance(value, float) else value + 2
    if isinstance(value, list):
        return [*value, value[0] if value else 7]
    if isinstance(value, dict):
        return value | {"more": True if key == "enhancements" else "test"}
    return 7 if value is None and key not in TEXTS else f"{value}-other"


TEXTS = {"data.root", "model.init_from", "tokenizer.file", "tokenizer.vocab_file", "pretrain.teacher", "pretrain.checkpoint"}
SKIPPED = ("published.",)
"""A copy of the model at other dimensions, which follows from the choices."""


def paths_of(config: Any, prefix: str = "") -> list[str]:
    """Every dotted key that is no group."""
    found = []
    for field in fields(config):
        value = getattr(config, field.name)
        key = f"{prefix}{field.name}"
        found += paths_of(value, f"{key}.") if is_dataclass(value) else [key]
    return found


def changed(config: Any, path: str, value: Any) -> Any:
    """A copy with another value there, whatever the class would say to it."""
    name, _, rest = path.partition(".")
    copy = object.__new__(type(config))
    vars(copy).update(vars(config))
    setattr(copy, name, changed(getattr(config, name), rest, value) if rest else value)
    return copy


def at(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.fixture
def config(compose) -> RunConfig:
    (one,) = compose("scale=tiny", "task=bag", "pretrain=mlm", "hardware.threads=1")
    return one


@pytest.mark.long
def test_every_key_changes_the_fingerprint_unless_it_is_listed(config):
    before = Identity(config, INPUTS).fingerprint
    keys = [key for key in paths_of(config) if not key.startswith(SKIPPED)]
    assert len(keys) > 180
    unseen = {key for key in keys if Identity(changed(config, key, other(at(config, key), key)), INPUTS).fingerprint == before}
    assert unseen == NOT_IN_FINGERPRINT


@pytest.mark.long
def test_every_key_is_in_the_arm_or_in_the_conditions_unless_it_is_listed(config):
    facts = Identity(config, INPUTS).facts
    keys = [key for key in paths_of(config) if not key.startswith(SKIPPED)]
    unseen = {key for key in keys if Identity(changed(config, key, other(at(config, key), key)), INPUTS).facts == facts}
    assert unseen == NOT_IN_FINGERPRINT | NOT_A_FACT
    for key in ("hardware.dtype", "finetune.max_grad_norm", "measure.rounds", "task.max_length", "corpus.seed"):
        assert key in arms.conditions(facts, [])
        assert key in arms.of_arm(facts, [key])
        assert key not in arms.conditions(facts, [key])
    for key in ("model.attention_window", "pretrain.mask_rate", "pretrain.static_masks", "scale_name"):
        assert key in arms.of_arm(facts, [])


def test_a_key_that_finished_runs_lack_is_theirs_while_it_has_its_default(config):
    """A run from before the key is found by the same command, and compared."""
    now = Identity(config, Inputs())
    before = Identity(config, Inputs())
    vars(before)["parameters"] = {key: value for key, value in now.parameters.items() if key not in arms.ADDED}
    assert (before.fingerprint, before.facts) == (now.fingerprint, now.facts)
    assert before.described([])["tags"] == now.described([])["tags"]
    kept = replace(config, model=replace(config.model, keep_layers=[0]), pretrain=replace(config.pretrain, hidden_weight=2.0))
    assert Identity(kept, Inputs()).fingerprint != now.fingerprint
    assert arms.short_hash(Identity(kept, Inputs()).facts) != arms.short_hash(now.facts)


@pytest.mark.parametrize("inputs", [{"data": "other"}, {"corpus": "c"}, {"pretraining": "p"}, {"content": {"rows": "other"}}])
def test_content_changes_the_fingerprint(config, inputs):
    assert Identity(config, replace(INPUTS, **inputs)).fingerprint != Identity(config, INPUTS).fingerprint


def test_versions_of_libraries_change_the_fingerprint(config, monkeypatch):
    before = Identity(config, INPUTS).fingerprint
    monkeypatch.setattr(identity, "LIBRARIES", identity.LIBRARIES[:-1])
    assert Identity(config, INPUTS).fingerprint != before


def test_versions_change_fingerprint_and_conditions(config, monkeypatch):
    def both() -> tuple[str, arms.Facts]:
        return Identity(config, INPUTS).fingerprint, arms.conditions(Identity(config, INPUTS).facts, [])

    fingerprint, conditions = both()
    for part, version in versions.VERSIONS.items():
        with monkeypatch.context() as change:
            change.setitem(versions.VERSIONS, part, version + 1)
            assert both()[0] != fingerprint
            assert arms.varying([both()[1], conditions]) == [f"facts.{part}_version"]


def test_recipe_is_the_same_for_all_replicates_and_for_nothing_else(config):
    recipe, inputs = Identity(config, Inputs(corpus="c")).recipe, Inputs(corpus="c")
    assert Identity(replace(config, seed=5, pretrain=replace(config.pretrain, seed=5)), inputs).recipe == recipe
    assert Identity(replace(config, pretrain=replace(config.pretrain, mask_rate=0.4)), inputs).recipe != recipe


def test_training_is_the_same_on_other_devices_and_for_nothing_else(config):
    """By it a pretraining resumes a checkpoint of another number of devices or threads."""
    before, inputs = Identity(config, Inputs(corpus="c")).training, Inputs(corpus="c")
    on = {"devices": 2, "sharding": DeviceSharding.full, "threads": 2}
    for key, value in on.items():
        moved = replace(config, hardware=changed(config.hardware, key, value))
        assert Identity(moved, inputs).fingerprint != Identity(config, inputs).fingerprint
        assert Identity(moved, inputs).training == before
    assert Identity(replace(config, hardware=changed(config.hardware, "dtype", Dtype.bf16)), inputs).training != before


def shares(one: tuple[RunConfig, Inputs], two: tuple[RunConfig, Inputs], lifted: list[str]) -> bool:
    """Whether a report would take both for attempts at one run."""
    first, second = Identity(*one).facts, Identity(*two).facts
    if arms.conditions(first, lifted) != arms.conditions(second, lifted):
        return False
    labels = arms.distinguish(
        {"1": one[0].label, "2": two[0].label}, {"1": arms.of_arm(first, lifted), "2": arms.of_arm(second, lifted)}
    )
    seeds = [(config.seed, config.pretrain.seed) for config in (one[0], two[0])]
    return labels["1"] == labels["2"] and one[0].task.name == two[0].task.name and seeds[0] == seeds[1]


@pytest.mark.long
def test_two_runs_that_differ_never_share_arm_task_seeds_and_conditions(config):
    stream = random.Random(0)
    keys = [
        key
        for key in paths_of(config)
        if not key.startswith(SKIPPED) and key not in NOT_IN_FINGERPRINT | NOT_A_FACT - {"seed", "pretrain.seed"}
    ]
    variants = []
    for _ in range(40):
        one = config
        for key in stream.sample(keys, stream.randint(0, 3)):
            one = changed(one, key, other(at(one, key), key))
        variants.append((one, INPUTS))
    lifted = stream.sample(keys, 5)
    prints = [Identity(*run).fingerprint for run in variants]
    for (one, first), (two, second) in itertools.combinations(zip(variants, prints, strict=True), 2):
        assert shares(one, two, lifted) == (first == second), arms.varying([Identity(*one).facts, Identity(*two).facts])


@pytest.mark.long
def test_what_one_command_sweeps_is_lifted_with_what_follows_and_measuring_is_not(compose):
    runs = compose("-m", "task=bag", "scale=tiny", "model=base,albert", "hardware.dtype=fp32,bf16", "seed=1,2")
    lifted = identity.lifted(Identity(one, INPUTS) for one in runs)
    assert "hardware.dtype" in lifted
    assert all(key.startswith(("model.", "model_name", "hardware.dtype")) for key in lifted)
    measured = [Identity(one, INPUTS) for one in (runs[0], replace(runs[0], measure=replace(runs[0].measure, length=64)))]
    assert identity.lifted(measured) == []
    of_two_row_sets = [Identity(runs[0], inputs) for inputs in (INPUTS, replace(INPUTS, content={"rows": "others"}))]
    assert identity.lifted(of_two_row_sets) == []
    assert len({arms.short_hash(arms.conditions(Identity(one, INPUTS).facts, lifted)) for one in runs}) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("sweep", "labels"),
    [
        ("hardware.dtype=fp32,bf16", ["base", "base dtype=bf16"]),
        ("finetune.learning_rate=1e-4,1e-3", ["base learning_rate=0.0001", "base"]),
        ("pretrain=mlm corpus=builtin,wikitext", ["base+mlm", "base+mlm corpus=wikitext"]),
        ("scale=tiny,mini", ["base", "base scale=mini"]),
        ("model.attention_window=null,8", ["base", "base attention_window=8"]),
        ("tokenizer.vocab_size=4096,8192", ["base vocab_size=4096", "base"]),
        ("tokenizer=own,bpe", ["base", "base tokenizer=bpe"]),
        ("seed=1,2", ["base", "base"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_swept_key_is_part_of_the_name_where_it_changes_something(compose, sweep, labels):
    assert [one.label for one in compose("-m", "task=bag", *sweep.split())] == labels


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "is_fixed"),
    [
        ("model=minilm task=similarity", True),
        ("model=base task=similarity", False),
        ("model=minilm task=similarity model.random_weights=true", False),
        ("model=minilm task=similarity pretrain=distillation corpus=builtin recipe=heal", False),
        ("model=minilm task=stsb", False),
    ],
)
def test_only_published_weights_that_nothing_trains_are_fixed(compose, words, is_fixed):
    (config,) = compose(*words.split())
    assert (tags.FIXED in Identity(config, INPUTS).described([])["tags"]) is is_fixed


def test_tags_hold_arm_lifted_keys_and_both_seeds(config):
    described = Identity(config, replace(INPUTS, pretraining="p")).described(["hardware.dtype"])
    named = described["tags"]
    assert (named["arm"], named["seed"], named["pretrain_seed"], named["pretraining"]) == ("base+mlm", "0", "0", "p")
    assert json.loads(named["lifted"]) == ["hardware.dtype"]
    assert described["parameters"]["facts.rows"] == "r"
    assert set(flatten(to_dict(config))) - set(described["parameters"]) == {
        key for key in flatten(to_dict(config)) if key.startswith("published.") or key == "overrides"
    }
