"""Every key states its role and its conditions; lists of keys, and refusals of what nothing reads, follow from them."""

from copy import deepcopy
from dataclasses import fields
from enum import Enum
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.config.compose import main, outside_of_a_command
from harness.config.conditions import DECAYING
from harness.config.rules import holds, refuse_idle, refuse_unread_parts, unread_by
from harness.config.schema import (
    ADDED,
    OF_ARM,
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

DATA = yaml.safe_load(Path(__file__).with_name("schema.yaml").read_text())
OTHERWISE = DATA["otherwise"]
"""What no run does -> a command whose runs do all else that the key needs; by default the shortest one."""

CHOICES = DATA["choices"]
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
    assert all(within(f"pretrain.{one.name}", OF_ARM) for one in fields(ObjectiveConfig))


def test_values_of_records_that_lack_a_key():
    """They are what such a run did; the default of a key may change later, and these may not."""
    assert DATA["values_of_records_that_lack_a_key"] == ADDED


@pytest.mark.long
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


@pytest.mark.long
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
