"""Every key states its role and its conditions; lists of keys, and refusals of what nothing reads, follow from them."""

from copy import deepcopy
from dataclasses import fields
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.compose import main, outside_of_a_command
from harness.config.conditions import DECAYING
from harness.config.rules import holds, refuse_idle, refuse_unread_parts, unread_by
from harness.config.schema import (
    ADDED,
    DERIVED_KEYS,
    NEUTRAL_KEYS,
    OF_ARM,
    PATH_KEYS,
    SEEDS,
    GrammarConfig,
    RunConfig,
    flatten,
    stated_keys,
    to_dict,
    within,
)
from harness.errors import InputError
from harness.models.objectives.config import ObjectiveConfig
from harness.models.ranges import Refused, Role, When

KEYS = [key for key, stated in stated_keys().items() if not stated.section]
CONDITIONS = {when: key for key in reversed(KEYS) for when in stated_keys()[key].read}
"""Condition -> the first of the keys that state it."""

OTHERWISE = {
    "fine-tunes": ["finetune=none"],
    "fine-tunes random weights at a rate that is not set otherwise": ["model.init_from=NAME"],
    "has a budget in steps": ["pretrain=mlm", "pretrain.seconds=9"],
    "has an optimizer with adam_betas": ["pretrain=mlm", "pretrain.optimizer=sgd"],
    "has an optimizer with adam_eps": ["pretrain=mlm", "pretrain.optimizer=sgd"],
    "has an optimizer with momentum": ["pretrain=mlm"],
    "has learned positions": ["pretrain=mlm", "model.position=rotary"],
    "generates its text": ["pretrain=mlm", "corpus=wikitext"],
    "is measured as it is served": ["task=minimal_pairs", "pretrain=mlm"],
    "is timed": ["measure=none"],
    "joins pieces by how often they meet": ["tokenizer.kind=unigram"],
    "times training steps": ["measure.train_steps=0"],
    "trains by epochs": ["finetune.seconds=9"],
    "trains its tokenizer": ["tokenizer.file=a.json"],
    "trains layers of the encoder": ["finetune.trains=head"],
    "trains on a CPU": ["hardware=gpu"],
    "learns a teacher's probabilities": ["pretrain=distillation", "pretrain.teacher=RUN", "pretrain.soft_weight=0"],
    "learns a teacher's hidden states": ["pretrain=distillation", "pretrain.teacher=RUN"],
    "needs a probe for masked tokens": ["pretrain=mlm"],
    "predicts masked tokens": ["pretrain=clm"],
    "masks spans of words": ["pretrain=mlm"],
    "samples what is predicted": ["pretrain=clm"],
    "has phases": ["pretrain=mlm"],
    "has a ramp": ["pretrain=mlm"],
    "reads text files": ["pretrain=mlm"],
    "reads a column of texts": ["pretrain=mlm"],
    "reads the text of a data set": ["pretrain=mlm"],
    "is resized by latency": ["match=params"],
    "is timed under the load of a server": ["measure.load=[offline]"],
    "reads the rows of its task": [],
} | {f"pretrains by {name}": ["pretrain=mlm"] for name in ("span_corruption", "rtd", "plm", "distillation", "cbow")}
"""What no run does -> a command whose runs do all else that the key needs; by default the shortest one."""

CHOICES = {
    "fine-tunes": ["finetune=standard"],
    "is measured as it is served": ["task=bag"],
    "reads the rows of its task": ["task=sst2"],
    "pretrains by span_corruption": ["pretrain=span_corruption", "model=t5_full"],
    "pretrains by distillation": ["pretrain=distillation", "pretrain.teacher=RUN"],
    "scores pairs of sentences": ["task=minimal_pairs", "pretrain=mlm"],
    "reads a column of texts": ["corpus=wikitext"],
    "learns pairs among a batch": ["task=retrieval", "finetune.in_batch_negatives=true"],
    "trains its tokenizer": ["tokenizer.file=null"],
    "starts from weights": ["pretrain.from=RUN"],
    "fine-tunes published weights at a rate that is not set otherwise": ["model.init_from=NAME", "model.finetune_rate=1e-4"],
    "fine-tunes random weights at a rate that is not set otherwise": ["model.init_from=null"],
}
"""What no run does -> settings that make it so, where the refusal names more than settings."""


def typed(value: object) -> str:
    plain = to_dict(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(plain, list):
        return f"[{','.join(map(str, plain))}]"
    return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(plain)


def default_of(key: str) -> object:
    one = stated_keys()[key].field
    return one.default_factory() if callable(one.default_factory) else one.default


def composed(*words: str) -> list[RunConfig]:
    runs: list[RunConfig] = []
    task = [] if any(word.startswith("task=") for word in words) else ["task=bag"]
    main([*task, *words], lambda found: runs.extend(found) or 0)
    return runs


def test_every_key_of_a_run_states_a_role():
    run = RunConfig()
    run.task.grammar = GrammarConfig()
    tracked = {key for key in flatten(to_dict(run)) if not key.startswith("published.")}
    assert tracked == {key for key in KEYS if not isinstance(default_of(key), dict)}


def test_the_keys_of_each_role():
    """A key that is missing here splits comparable runs, or joins runs that are none: a change is a decision."""
    sections = {key.rpartition(".")[0]: stated.role for key, stated in stated_keys().items() if stated.role is Role.condition}
    assert {*sections} - {""} == {
        *("task", "task.grammar", "data", "corpus", "tokenizer", "pretrain", "finetune", "measure", "hardware")
    }
    assert SEEDS == ("seed", "pretrain.seed")
    assert {key for key in PATH_KEYS if not key.endswith(".")} == {
        *(
            "data.source",
            "data.root",
            "task.hub",
            "task.folder",
            "task.subset",
            "task.dataset",
            "corpus.hub",
            "corpus.folder",
            "corpus.subset",
        ),
        *("task.train_file", "task.validation_file", "task.test_file", "corpus.files", "corpus.validation_files"),
        *("tokenizer.vocab_file", "tokenizer.file", "model.init_from", "pretrain.checkpoint", "pretrain.teacher"),
        "finetune.teacher",
    }
    assert {key for key in NEUTRAL_KEYS if not key.endswith(".")} == {
        *("model.objective", "model.tokenizer", "model.recipe", "model.finetune_rate", "model.scratch_rate"),
        *("finetune.keep", "pretrain.keep", "pretrain.checkpoint_every_s"),
    }
    assert {key for key in DERIVED_KEYS if not key.endswith(".")} == {
        "model.vocab_size",
        "model.pad_token_id",
        "finetune.submit",
    }
    assert all(within(f"pretrain.{one.name}", OF_ARM) for one in fields(ObjectiveConfig))


def test_values_of_records_that_lack_a_key():
    """They are what such a run did; the default of a key may change later, and these may not."""
    optimiser = {"optimizer": "adamw", "schedule": "linear", "momentum": None, "ema_decay": None}
    assert {
        "model.keep_layers": None,
        "model.vector_pooling": "mean",
        "model.random_weights": False,
        "model.finetune_rate": None,
        "model.base_head_size": None,
        **{f"model.{key}": None for key in ("attention", "feed_forward", "layers")},
        "finetune.soft_weight": 1.0,
        "finetune.temperature": 2.0,
        "finetune.hidden_weight": 0.0,
        "finetune.seconds": None,
        "finetune.in_batch_negatives": False,
        "finetune.cosine_temperature": 0.05,
        "finetune.trains": "all",
        "finetune.lora_rank": 8,
        "finetune.freeze_layers": None,
        "finetune.layer_decay": 1.0,
        "finetune.decay_fraction": None,
        "finetune.evaluations_per_epoch": 1,
        "finetune.early_stopping": None,
        "finetune.class_weights": None,
        **{f"{phase}.{key}": value for phase in ("finetune", "pretrain") for key, value in optimiser.items()},
        "task.pairs": None,
        "task.plugin": None,
        "task.dataset": "",
        "task.label_separator": None,
        "corpus.shuffled_words": False,
        "pretrain.hidden_weight": 0.0,
        "pretrain.matched_layers": "all",
        "pretrain.relation_weight": 0.0,
        "pretrain.mup_base_width": None,
        "pretrain.phases": [],
        "pretrain.shares": [],
        "pretrain.decay_fraction": 1.0,
        "pretrain.noise_density": 0.15,
        "pretrain.mean_noise_span_length": 3.0,
        "tokenizer.sentinels": 0,
        "measure.backend": "torch",
        "measure.precision": "fp32",
        "measure.load": [],
        "measure.load_share": 0.5,
        "measure.load_texts": 200,
    } == ADDED


@pytest.mark.parametrize("when", [when for when in CONDITIONS if when is not DECAYING], ids=lambda when: when.why)
def test_a_refusal_names_a_choice_that_makes_the_key_read(when: When):
    key = CONDITIONS[when]
    before = OTHERWISE.get(when.why, [])
    runs = composed(*before)
    assert not any(holds(run, key, when) for run in runs)
    assert key in unread_by(runs[0])
    if when.refused is Refused.swept:
        for run in runs:
            run.swept = [key]
    word = f"{key}={typed(default_of(key))}"
    with pytest.raises(InputError) as error:
        refuse_unread_parts(runs, [] if when.refused is Refused.swept else [word])
    choice = when.choice.format(section=key.partition(".")[0])
    said = key if when.refused is Refused.swept else word
    assert str(error.value) == f"{said} has no effect, because no run of this command {when.why}: add {choice}, or leave it out"
    changed = {word.partition("=")[0]: word for word in [*before, *CHOICES.get(when.why, choice.split())]}
    refuse_unread_parts(composed(*changed.values()), [word])


RUN = outside_of_a_command(["task=bag", "scale=tiny"], None)
STRICT = {key: when for when, key in CONDITIONS.items() if when.refused is Refused.everywhere}


@given(key=st.sampled_from(sorted(STRICT)), value=st.one_of(st.integers(2, 9), st.floats(0.01, 0.99), st.text(min_size=1)))
def test_an_idle_key_with_any_value_but_its_default_is_refused_on_one_line(key, value):
    section, _, name = key.rpartition(".")
    run = to_run(section, name, value)
    if value == default_of(key) or holds(run, key, STRICT[key]):
        refuse_idle(run)
        return
    with pytest.raises(InputError) as error:
        refuse_idle(run)
    assert str(error.value).startswith(f"{key}=")
    assert "is read only by a run that" in str(error.value)


def to_run(section: str, name: str, value: object) -> RunConfig:
    run = deepcopy(RUN)
    owner = getattr(run, section)
    setattr(owner, name, value)
    return run
