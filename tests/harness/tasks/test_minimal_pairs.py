"""Minimal pairs as they are read and encoded, and as answers become scores."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness import tasks
from harness.config.choices import DataSource, TaskKind
from harness.config.schema import DataConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.tasks import scores
from harness.tasks.base import Split
from harness.tasks.prepared import split_names
from harness.tasks.rows import load_table

SHARED = {"kind": TaskKind.minimal_pairs, "scores": ["accuracy"], "headline": "accuracy", "folder": "pairs", "max_length": 32}
BLIMP = TaskConfig(
    name="blimp", fields=["sentence_good", "sentence_bad"], label="UID", validation_split="train", subset="*", **SHARED
)
EWOK = TaskConfig(
    name="ewok", fields=["Context1", "Context2", "Target1", "Target2"], label="Domain", validation_split="test", **SHARED
)
GOOD, BAD = ["The cats are here.", "Who left?", "The dog was seen."], ["The cats is here.", "Left who?", "The dog were seen."]
PARADIGMS = ["agreement", "questions", "agreement"]
ROW = {
    "Domain": "space",
    "Context1": "The unhappily boxed cat is left of it.",
    "Context2": "The cat is right of it.",
    "Target1": "It is left.",
    "Target2": "It is right.",
}


@pytest.fixture(scope="module")
def cut() -> Tokenizer:
    """Every word of the rows is one piece, but for `unhappily`, which is several."""
    texts = [*GOOD, *BAD, *(ROW[name] for name in ROW)] * 5
    return tokenizer.build(TokenizerConfig(vocab_size=200), [text.replace("unhappily", "un happily") for text in texts])


def config(task: TaskConfig, root: Path) -> RunConfig:
    return RunConfig(task=task, data=DataConfig(source=DataSource.local, root=str(root)))


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def pairs(paradigm: bool = True) -> list[dict]:
    rows = zip(GOOD, BAD, PARADIGMS, strict=True)
    return [{"sentence_good": good, "sentence_bad": bad} | ({"UID": name} if paradigm else {}) for good, bad, name in rows]


def read(task: TaskConfig, root: Path, cut: Tokenizer) -> Split:
    kind = tasks.kind_of(task)
    assert split_names(config(task, root)) == ["validation"]
    return kind.encode(task, cut, kind.examples(task, load_table(config(task, root), "validation")))


def test_a_folder_of_blimps_form_is_read_with_all_its_files(tmp_path, cut):
    for row in pairs():
        write(tmp_path / "pairs" / f"{len(row['sentence_good'])}.jsonl", [row])
    split = read(BLIMP, tmp_path, cut)
    assert sorted(split.texts["good"]) == sorted(GOOD)
    assert sorted(split.texts["paradigm"]) == sorted(PARADIGMS)
    of = split.texts["good"].index(GOOD[0])
    ids = split.ids[split.starts[of] : split.starts[of + 1]]
    assert cut.decode(ids.tolist()) == "the cats are here."
    bad = split.numbers["bad_ids"][split.numbers["bad_starts"][of] : split.numbers["bad_starts"][of + 1]]
    assert cut.decode(bad.tolist()) == "the cats is here."
    words = split.numbers["good_words"][split.starts[of] : split.starts[of + 1]]
    assert words[0] == words[-1] == -1
    assert words[1:-1].tolist() == [0, 1, 2, 3, 4]


def test_all_subsets_of_a_data_set_are_read_as_the_hub_has_them(tmp_path, cut):
    for name in ("agreement", "questions"):
        write(tmp_path / "pairs" / name / "rows.jsonl", [row for row in pairs() if row["UID"] == name])
    entries = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/rows.jsonl\n"
        for name in ("agreement", "questions")
    )
    (tmp_path / "pairs" / "README.md").write_text(f"---\nconfigs:\n{entries}---\n")
    assert read(BLIMP, tmp_path, cut).texts["paradigm"] == ["agreement", "agreement", "questions"]


def test_a_file_of_ones_own_needs_no_paradigms(tmp_path, cut):
    write(tmp_path / "mine.jsonl", pairs(paradigm=False))
    task = TaskConfig(name="mine", fields=BLIMP.fields, label="UID", validation_file=str(tmp_path / "mine.jsonl"), **SHARED)
    assert read(task, tmp_path, cut).texts["paradigm"] == ["mine"] * 3


def test_ewoks_form_scores_each_target_after_both_contexts(tmp_path, cut):
    write(tmp_path / "pairs" / "test.jsonl", [ROW])
    split = read(EWOK, tmp_path, cut)
    assert split.items == ["0.1", "0.2"]
    assert split.texts["good"] == [f"{ROW['Context1']} {ROW['Target1']}", f"{ROW['Context2']} {ROW['Target2']}"]
    assert split.texts["bad"] == [f"{ROW['Context2']} {ROW['Target1']}", f"{ROW['Context1']} {ROW['Target2']}"]
    sides = (
        (split.ids, split.starts, split.numbers["good_words"]),
        tuple(split.numbers[f"bad_{name}"] for name in ("ids", "starts", "words")),
    )
    for ids, starts, words in sides:
        for item, target in enumerate((ROW["Target1"], ROW["Target2"])):
            own = slice(starts[item], starts[item + 1])
            assert cut.decode(ids[own][words[own] >= 0].tolist()) == target.lower()


def test_the_pieces_of_a_word_share_its_number(tmp_path, cut):
    write(tmp_path / "pairs" / "a.jsonl", [{"sentence_good": "unhappily seen", "sentence_bad": "seen unhappily", "UID": "a"}])
    split = read(BLIMP, tmp_path, cut)
    number = len(cut.encode("unhappily", add_special_tokens=False).ids)
    assert number > 1
    assert split.numbers["good_words"].tolist() == [-1, *[0] * number, 1, -1]
    assert split.numbers["bad_words"].tolist() == [-1, 0, *[1] * number, -1]


def test_a_sentence_that_is_too_long_is_refused_with_its_item(tmp_path, cut):
    write(tmp_path / "pairs" / "a.jsonl", [*pairs(), {"sentence_good": "the " * 40, "sentence_bad": "a", "UID": "a"}])
    with pytest.raises(InputError, match=r"item 3: a sentence has 42 tokens, more than task.max_length=32: raise it"):
        read(BLIMP, tmp_path, cut)


def test_other_columns_are_refused(tmp_path):
    write(tmp_path / "pairs" / "a.jsonl", pairs())
    with pytest.raises(InputError, match="UIDs"):
        load_table(config(TaskConfig(**vars(BLIMP) | {"label": "UIDs"}), tmp_path), "validation")


def test_accuracy_is_the_mean_over_paradigms_and_a_tie_is_decided_by_place(tmp_path, cut):
    write(tmp_path / "pairs" / "a.jsonl", pairs())
    task, split = BLIMP, read(BLIMP, tmp_path, cut)
    nats = np.array(  # (S, 2, 2): by way of scoring, of the right and the wrong sentence
        [[[-1.0, -2.0], [-2.0, -1.0]], [[-3.0, -1.0], [-1.0, -3.0]], [[-2.0, -2.0], [-1.0, -2.0]]]
    )
    answers = tasks.kind_of(task).predictions(task, split, nats, majority=0)
    assert answers.columns["label"].tolist() == [0, 0, 1]  # in turn in each paradigm
    assert answers.columns["prediction"].tolist() == [0, 1, 0]  # right, wrong, and a tie whose right sentence is the second
    assert answers.columns["logit_0"].tolist() == [-1.0, -3.0, -2.0]
    assert answers.columns["logit_1"].tolist() == [-2.0, -1.0, -2.0]
    assert scores.compute(task.kind, "accuracy", answers.labels, answers.predicted) == (0.5 + 0.0) / 2
    assert scores.compute(task.kind, "accuracy_by_piece", answers.labels, answers.predicted) == (0.5 + 1.0) / 2
    assert scores.compute(task.kind, "accuracy", answers.labels, answers.baseline) == (0.5 + 1.0) / 2


@pytest.mark.parametrize(("task", "row"), [(BLIMP, {"sentence_bad": f"{GOOD[0]} "}), (EWOK, {"Context2": ROW["Context1"]})])
def test_a_pair_of_equal_sentences_is_refused(tmp_path, cut, task, row):
    first = pairs()[0] if task is BLIMP else ROW
    write(tmp_path / "pairs" / f"{task.validation_split}.jsonl", [first | row])
    with pytest.raises(InputError, match=r"\(task\.fields\) are equal, so neither is right; remove the pair"):
        read(replace(task, subset=None), tmp_path, cut)
