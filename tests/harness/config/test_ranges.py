"""Every number of the schema has a range, and a value outside of it is refused before anything runs."""

import functools
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from harness.config.compose import outside_of_a_command
from harness.config.resolve import refuse_impossible
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
    return outside_of_a_command(["task=bag", "scale=tiny"], None)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -1e30, 1e300])
def test_nan_infinite_and_absurd_values_are_refused_by_their_key(plain, value):
    plain.task.grammar = plain.task.grammar or GrammarConfig()
    for key in NUMBERS:
        *sections, name = key.split(".")
        section = functools.reduce(getattr, sections, plain)
        before = getattr(section, name)
        setattr(section, name, [value] if key in LISTS else value)
        with pytest.raises(InputError) as refused:
            refuse_impossible(plain)
        assert str(refused.value).startswith(f"{key}=")
        setattr(section, name, before)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("finetune.learning_rate=inf", "finetune.learning_rate=inf must be a finite number above 0"),
        ("finetune.adam_betas=[0.9]", "finetune.adam_betas=[0.9] must be 2 numbers, each at least 0 and below 1"),
        ("finetune.adam_eps=0", "finetune.adam_eps=0.0 must be above 0"),
        ("finetune.weight_decay=-1", "finetune.weight_decay=-1.0 must be at least 0"),
        ("seed=-1", "seed=-1 must be at least 0"),
        ("seed=4294967296", "seed=4294967296 must be at most 4294967295"),
        ("model.layer_norm_eps=nan", "model.layer_norm_eps=nan must be a finite number at least 0"),
        ("model.initializer_range=inf", "model.initializer_range=inf must be a finite number at least 0"),
        ("model.num_hidden_layers=100000000", "model.num_hidden_layers=100000000 must be at most 100000"),
        ("task.grammar.length=1e3", "task.grammar.length"),
        ("task.grammar.distance=1", "task.grammar.distance=1 must be at least 2"),
        ("task.grammar.symbols=1", "task.grammar.symbols=1 must be at least 2"),
        ("task.grammar.pairs=1", "task.grammar.pairs=1 must be at least 2"),
        ("task.grammar.length=10", "task.grammar.length=10 must be at least 16"),
        ("task.grammar.validation_examples=1", "task.grammar.validation_examples=1 must be at least 2"),
        ("task.tune_share=1.0", "task.tune_share=1.0 must be at least 0 and below 1"),
        ("task.tune_share=-0.1", "task.tune_share=-0.1 must be at least 0"),
        ("task.stride=-1", "task.stride=-1 must be at least 0"),
        ("task.max_answer_length=0", "task.max_answer_length=0 must be at least 1"),
        ("corpus.validation_share=1.0", "corpus.validation_share=1.0 must be above 0 and below 1"),
        ("corpus.train_documents=0", "corpus.train_documents=0 must be at least 1"),
        ("pretrain.length=7", "pretrain.length=7 must be at least 8"),
        ("measure.lengths=[1.5]", "measure.lengths"),
    ],
)
@pytest.mark.parametrize("sweep", [False, True], ids=["one", "sweep"])
def test_a_value_is_refused_before_any_run_of_a_sweep(compose, override, expected, sweep):
    with pytest.raises(InputError) as refused:
        compose(*(["-m", "model=base,albert"] if sweep else []), "task=bag", "scale=tiny", override)
    assert str(refused.value).startswith(expected)


@pytest.mark.parametrize(
    ("swept", "expected"),
    [
        ("finetune.learning_rate=1e-3,inf,1e-4", "finetune.learning_rate=inf"),
        ("seed=1,99999999999999999999", "seed=99999999999999999999 must be at most"),
        ("pretrain.seed=1,4294967296", "pretrain.seed=4294967296 must be at most"),
    ],
)
def test_one_wrong_value_of_several_stops_the_sweep_before_it_starts(compose, swept, expected):
    with pytest.raises(InputError) as refused:
        compose("-m", "task=bag", "scale=tiny", "pretrain=mlm", swept)
    assert str(refused.value).startswith(expected)
