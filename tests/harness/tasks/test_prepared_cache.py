"""Prepared data: what its key depends on, and that its cache holds whole entries alone."""

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer

from harness import paths
from harness.config.choices import DataSource
from harness.config.schema import DataConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.tasks import prepared as cache
from harness.tasks.rows import load_table

README = """\
---
configs:
- config_name: tiny
  data_files: [{split: train, path: tiny/train*}, {split: validation, path: tiny/validation*}]
---
"""


@pytest.fixture
def local(tmp_path: Path) -> Callable[..., RunConfig]:
    """A config on a small local data set that is written first."""

    def make(root: str, words: str = "a fine film") -> RunConfig:
        folder = tmp_path / root / "set" / "tiny"
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "README.md").write_text(README)
        for split in ("train", "validation"):
            rows = {"text": [f"{words} {index % 3}" for index in range(12)], "label": [index % 2 for index in range(12)]}
            parquet.write_table(pyarrow.table(rows), folder / f"{split}-00000-of-00001.parquet")
        task = TaskConfig(name="tiny", folder="set", subset="tiny", fields=["text"], labels=["no", "yes"], scores=["accuracy"])
        task.headline = "accuracy"
        source = DataConfig(source=DataSource.local, root=str(tmp_path / root))
        return RunConfig(task=task, data=source, output=str(tmp_path / "out"))

    return make


def entries(config: RunConfig) -> list[str]:
    """What the cache holds, locks aside."""
    folder = paths.cache_folder(config.output)
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.mark.long
def test_the_key_of_files_is_that_of_their_content(local):
    assert cache.prepare(local("here")) == cache.prepare(local("there")) != cache.prepare(local("there", "a dull film"))


@pytest.mark.long
def test_what_shapes_the_data_is_part_of_the_key_and_nothing_else(small_config, tmp_path, monkeypatch):
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwarm\n")
    tokenizers = [TokenizerConfig(vocab_size=100), TokenizerConfig(lowercase=False)]
    tokenizers += [TokenizerConfig(vocab_file=str(tmp_path / name)) for name in ("one.txt", "two.txt")]
    task = small_config.task
    configs = [small_config, *(replace(small_config, tokenizer=tokenizer) for tokenizer in tokenizers)]
    configs.append(replace(small_config, task=replace(task, max_length=6)))
    configs.append(replace(small_config, task=replace(task, grammar=replace(task.grammar, seed=1))))
    first, *others, content, same, cut, seeded = [cache.prepare(config) for config in configs]
    assert content == same
    assert len({first, *others, content, cut, seeded}) == 6
    assert cache.read(configs[-2], cut).train.lengths.max() == 6
    monkeypatch.setattr(cache, "_fill", lambda *_: pytest.fail("written again"))
    other = replace(small_config, seed=9, model=replace(small_config.model, hidden_size=64))
    assert cache.prepare(other) == first


def test_the_same_rows_of_a_generated_task_and_of_files_have_two_keys(small_config):
    """The vocabulary of a generated task is that of all of them, that of files their own."""
    task = small_config.task
    tables = {split: load_table(small_config, split) for split in cache.split_names(small_config)}
    own = replace(small_config, task=replace(task, grammar=None))
    assert task.grammar is not None
    assert cache._key(own, tables, []) != cache._key(small_config, tables, [])


def test_prepared_rows_decode_to_the_texts(small_config):
    prepared = cache.read(small_config, cache.prepare(small_config))
    folder = paths.cache_folder(small_config.output) / prepared.key
    decoder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    table = load_table(small_config, "validation")
    pairs = zip(table.columns["sentence1"], table.columns["sentence2"], strict=True)
    for index, (first, second) in enumerate(pairs):
        span = slice(prepared.validation.starts[index], prepared.validation.starts[index + 1])
        ids, types = prepared.validation.ids[span], prepared.validation.types[span]
        assert decoder.decode(ids[types == 0].tolist()) == first
        assert decoder.decode(ids[types == 1].tolist()) == second
    assert prepared.validation.labels.tolist() == table.columns["label"]
    assert prepared.validation.items == table.items


@pytest.mark.parametrize(
    ("labels", "headline", "constant"),
    [([1, 1, 0, 1, 0], "accuracy", 1), ([0, 1, 0, 1, 0], "accuracy", 0), ([0, 1, 0, 1, 0], "f1", 1)],
)
def test_constant_class_is_the_one_of_train_that_scores_best(local, labels, headline, constant):
    """F1 is of class 1: this answer to every text scores no lower than the most frequent class."""
    config = local("here")
    config = replace(config, task=replace(config.task, scores=[headline], headline=headline))
    path = Path(config.data.root) / "set" / "tiny" / "train-00000-of-00001.parquet"
    parquet.write_table(pyarrow.table({"text": ["x"] * 5, "label": labels}), path)
    assert cache.read(config, cache.prepare(config)).majority == constant


def test_first_examples_alone_are_taken_where_asked(small_config):
    config = replace(small_config, data=replace(small_config.data, train_examples=7))
    prepared = cache.read(config, cache.prepare(config))
    assert (len(prepared.train), len(prepared.validation)) == (7, 60)
    few, whole = load_table(config, "train"), load_table(small_config, "train")
    assert [whole.items.index(item) for item in few.items] == sorted(whole.items.index(item) for item in few.items)
    assert {0, 1} == {*few.columns["label"]}


@pytest.mark.long
def test_processes_side_by_side_make_one_entry(small_config):
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        keys = pool.map(cache.prepare, [small_config, small_config], chunksize=1)
    assert keys[0] == keys[1]
    assert entries(small_config) == [keys[0]]
    assert len(cache.read(small_config, keys[0]).train) == 100


@pytest.mark.long
def test_labels_named_otherwise_than_the_data_set_are_refused(compose, shared_data):
    (config,) = compose("task=rte", "data=local", f"data.root={shared_data}", "task.labels=[not_entailment,entailment]")
    with pytest.raises(ValueError, match="must be the data set's own: \\['entailment', 'not_entailment'\\]"):
        load_table(config, "validation")
