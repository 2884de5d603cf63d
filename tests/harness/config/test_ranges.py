"""Every number of the schema has a range, and a value outside of it is refused before anything runs."""

import functools
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from harness.config.compose import outside_of_a_command
from harness.config.rules import refuse_impossible
from harness.config.schema import GrammarConfig, RunConfig
from harness.errors import InputError
from harness.models.ranges import Range


def numeric(schema: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(key, metadata) of every number; those of a dictionary are results, such as what a match found."""
    hints = get_type_hints(schema)
    for one in fields(schema):
        kinds = {hints[one.name], *get_args(hints[one.name])}
        section = next((kind for kind in kinds if is_dataclass(kind)), None)
        if section is not None:
            yield from numeric(section, f"{prefix}{one.name}.")
        elif kinds & {int, float} and get_origin(hints[one.name]) is not dict:
            yield prefix + one.name, (one.metadata, any(get_origin(kind) is list for kind in kinds))


NUMBERS = {key: metadata for key, (metadata, _) in numeric(RunConfig) if not key.startswith("published.")}
LISTS = {key for key, (_, is_list) in numeric(RunConfig) if is_list}


def test_every_number_of_the_schema_states_its_range():
    assert len(NUMBERS) > 100
    assert [key for key, metadata in NUMBERS.items() if not isinstance(metadata.get("range"), Range)] == []


@pytest.fixture(scope="module")
def plain():
    """A composed run."""
    run = outside_of_a_command(["task=bag", "scale=tiny"], None)
    run.task.grammar = run.task.grammar or GrammarConfig()
    return run


def beyond(allowed: Range) -> list[float]:
    """Values next to each bound that are outside of the range, and some that are in none."""
    ends = [allowed.above, allowed.below, allowed.at_least - 1, allowed.at_most + 1, allowed.limit * 2]
    return [*(end for end in ends if math.isfinite(end)), math.nan, math.inf, -math.inf, -1e30, 1e300]


@pytest.mark.parametrize("key", NUMBERS)
def test_every_value_out_of_the_range_of_its_key_is_refused(plain, key):
    allowed = NUMBERS[key]["range"]
    *sections, name = key.split(".")
    owner = functools.reduce(getattr, sections, plain)
    before = getattr(owner, name)
    try:
        for value in beyond(allowed):
            setattr(owner, name, [value] if key in LISTS else value)
            with pytest.raises(InputError, match=f"^{key}=") as refused:
                refuse_impossible(plain)
            assert allowed.expected(value) in str(refused.value)
    finally:
        setattr(owner, name, before)
