"""The order in which a command executes its runs."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from harness.config.choices import KeepBest
from harness.corpus import prepare
from harness.errors import InputError
from harness.study.identity import Inputs
from harness.study.plan import Cache, run_order


@dataclass
class Item:
    """The fields of a planned run that its place in the order depends on."""

    arm: str
    seed: int
    task: str | None  # None: a pretraining
    config: SimpleNamespace = field(init=False)
    inputs: Inputs = field(init=False)

    def __post_init__(self) -> None:
        self.config = SimpleNamespace(task=SimpleNamespace(name=self.task), seed=self.seed)
        self.inputs = Inputs(data=self.task)


VARIANTS = "abcdefgh"
SWEEP = [Item(name, seed, task) for name in VARIANTS for seed in (1, 2, 3) for task in ("bag", "order")]


def blocks(items: list[Item]) -> list[list[Item]]:
    size = len(VARIANTS)
    return [items[start : start + size] for start in range(0, len(items), size)]


def test_all_arms_of_a_task_and_seed_run_next_to_each_other():
    for block in blocks(run_order(SWEEP)):
        assert sorted(item.arm for item in block) == list(VARIANTS)
        assert len({(item.task, item.seed) for item in block}) == 1


def test_all_tasks_have_run_once_before_the_second_seed():
    seeds = [block[0].seed for block in blocks(run_order(SWEEP))]
    assert seeds == [1, 1, 2, 2, 3, 3]


def test_no_arm_always_has_the_same_place_and_the_order_is_that_of_the_last_time():
    orders = [tuple(item.arm for item in block) for block in blocks(run_order(SWEEP))]
    assert len(set(orders)) > 3
    assert len({order[0] for order in orders}) > 1
    assert run_order(list(SWEEP)) == run_order(list(SWEEP))


def test_pretrainings_come_first_in_the_order_that_they_were_asked_for():
    first, second = Item("z", 1, None), Item("y", 1, None)
    assert run_order([SWEEP[0], first, SWEEP[1], second])[:2] == [first, second]


def test_text_and_rows_are_prepared_once_for_equal_settings_and_again_for_others(small_config, monkeypatch):
    """And what is prepared is said before."""
    prepared_texts, shown = [], []
    cache = Cache(shown.append)
    monkeypatch.setattr(prepare, "prepare", lambda config: prepared_texts.append(config) or str(len(prepared_texts)))
    larger = replace(small_config, tokenizer=replace(small_config.tokenizer, vocab_size=small_config.tokenizer.vocab_size + 1))
    assert cache.text(small_config) == cache.text(replace(small_config, seed=5)) != cache.text(larger)
    assert cache.task(small_config) == cache.task(replace(small_config, seed=5))
    text, rows = (f"preparing the text {small_config.corpus.name}", f"preparing data of {small_config.task.name}")
    assert shown == [text, text, rows]
    by_tune = replace(small_config, finetune=replace(small_config.finetune, keep_best=KeepBest.tune))
    with pytest.raises(InputError, match=r"finetune\.keep_best=tune needs rows held out"):
        cache.task(by_tune)
