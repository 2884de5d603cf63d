"""The chapter on items of regression, tagging and spans on which errors differ, from the files of runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from harness import paths
from harness.comparison import items
from harness.comparison.compare import compare
from harness.comparison.items import CLASSES
from harness.comparison.items import TAGS as WRONG_TAGS
from harness.plugins.chapters import predictions
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.study import Study

TEXTS = ["good film", "bad <script>", "long film"]
LABELS = [1.0, 3.0, 5.0]
TAGS = {"item": ["x", "x", "x", "y", "z", "z"], "position": [0, 1, 2, 0, 0, 1], "label": [0, 1, 1, 0, 2, 2]}
ANSWERS = [["The cat", "a dog"], [], ["1990"]]


@pytest.fixture
def run(make_run, tmp_path):
    """Makes a run whose folder holds this table of predictions."""
    data = paths.data_folder(str(tmp_path), "k1")
    data.mkdir(parents=True)
    words = sorted({word for text in TEXTS for word in text.split()})
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(data / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    starts = np.cumsum([0, *map(len, ids)])
    save_file({"ids": np.concatenate(ids).astype(np.int32), "starts": starts}, data / "validation.safetensors")

    def made(arm: str, table: dict[str, list] | bytes, seed: int = 0):
        identity = {"fingerprint": f"{arm}-{seed}-fingerprint", "study": "s", "attempt": f"{arm}{seed}"}
        one = make_run(arm, seed, {"eval/score": 0.5}, **identity)
        folder = paths.run_folder(str(tmp_path), "s", f"{arm}-tiny-sst2-{seed}-{identity['fingerprint'][:8]}")
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"attempt": identity["attempt"], "inputs": {"data": "k1"}}))
        if isinstance(table, bytes):
            (folder / "predictions.parquet").write_bytes(table)
        else:
            parquet.write_table(pyarrow.table(table), folder / "predictions.parquet")
        return one

    return made


def regression(predicted: list[float]) -> dict[str, list]:
    return {"item": [7, 8, 9], "label": LABELS, "prediction": predicted, "logit_0": predicted}


def test_arms_without_errors_to_pair_are_named_with_the_reason(run, tmp_path):
    values = regression([1.0, 2.0, 5.0])
    runs = [run("base", values), run("other", values), run("apart", values, 7), run("lost", b"")]
    study = Study(compare("s", runs, errors=errors_in(tmp_path)), output=tmp_path)
    text = "\n".join(predictions.ERRORS.chapter(study).paragraphs)
    assert "Not paired with the baseline, no seed in common: apart." in text
    assert "No predictions of the same items, neither in the archive nor in the run folders: lost." in text


def chapter(runs: list, output: Path) -> str:
    return "\n".join(predictions.ERRORS.chapter(Study(compare("s", runs, errors=errors_in(output)), output=output)).paragraphs)


def test_regression_counts_items_and_shows_those_that_differ_most(run, tmp_path):
    text = chapter([run("base", regression([1.0, 3.0, 4.0])), run("other", regression([1.0, 1.0, 4.5]))], tmp_path)
    assert "| arm | seeds | base: distance from the label | the arm | smaller error on | equal on | larger on |" in text
    assert "| other | 1 | 0.333 | 0.833 | 1 | 1 | 1 |" in text
    assert "- 8 (baseline 0.00, arm 2.00): bad &lt;script&gt;" in text
    assert "- 9 (baseline 1.00, arm 0.50): long film" in text
    assert text.index("other has a larger error than base") < text.index("base has a larger error than other")


def test_replicates_are_averaged(run, tmp_path):
    runs = [run("base", regression(LABELS), seed) for seed in (0, 1)]
    runs += [run("other", regression([2.0, 3.0, 5.0]), 0), run("other", regression([1.0, 3.0, 5.0]), 1)]
    text = chapter(runs, tmp_path)
    assert "| other | 2 | 0.000 | 0.167 | 0 | 2 | 1 |" in text
    assert "- 7 (baseline 0.00, arm 0.50): good film" in text


def test_tags_are_wrong_by_their_share_of_an_items_words(run, tmp_path):
    one = run("base", TAGS | {"prediction": [0, 1, 0, 0, 1, 1], "logit_0": [0.0] * 6, "logit_1": [0.0] * 6})
    found = errors_in(tmp_path)(one)
    assert (found.what, found.items) == (WRONG_TAGS, ("x", "y", "z"))
    assert found.values == pytest.approx([1 / 3, 0, 1])


def test_spans_are_right_up_to_case_punctuation_and_articles(run, tmp_path):
    table = {"item": ["q1", "q2", "q3"], "prediction": ["cat!", "", "in 1990"], "answers": ANSWERS}
    found = errors_in(tmp_path)(run("base", table))
    assert found.values.tolist() == [0.0, 0.0, 1.0]
    said = errors_in(tmp_path)(run("said", table | {"prediction": ["A DOG", "something", "1990"]}))
    assert said.values.tolist() == [0.0, 1.0, 0.0]


def test_classifications_and_files_that_are_no_parquet_have_no_such_errors(run, tmp_path):
    classes = {"item": [1], "label": [0], "prediction": [0], "logit_0": [0.0], "logit_1": [0.0]}
    assert errors_in(tmp_path)(run("classes", classes)).what == CLASSES
    assert errors_in(tmp_path)(run("torn", b"no parquet")) is None
    assert chapter([run("base", classes), run("other", classes)], tmp_path) == ""


def test_other_items_do_not_meet(run, tmp_path):
    assert chapter([run("base", regression(LABELS)), run("other", regression(LABELS) | {"item": [1, 2, 3]})], tmp_path) == ""


@pytest.mark.parametrize(("headline", "labels"), [("f1", "['a', 'b']"), ("entity_f1", "['O', 'B-x', 'I-x']")])
def test_the_error_of_f1_is_that_of_its_counts(run, tmp_path, headline: str, labels: str):
    """One arm misses two of the three rows or entities of the class, the other one none: 2 TP / (2 TP + FP + FN)."""
    right = [1, 1, 1] + [0] * 57
    tables = [
        {"item": [*range(60)], "label": right, "prediction": [1, 0, 0] + [0] * 57},
        {"item": [*range(60)], "label": right, "prediction": right},
    ]
    if headline == "entity_f1":
        tables = [table | {"position": [0] * 60} for table in tables]
    runs = [
        replace(one, params=one.params | {"task.headline": headline, "task.labels": labels})
        for one in map(run, ("base", "other"), tables)
    ]
    both = items.of_both([tuple(errors_in(tmp_path)(one) for one in runs)])
    # F1 is 1/2, of counts of 4: moved by (2 - 2 / 2, -1 / 2, -1 / 2) x 60 / 4; one item more by 60 / 4
    assert both.error_of(headline) == pytest.approx(np.sqrt(1 + 0.25 + 0.25 + 1) / 4)
    assert both.error_of("accuracy") is None
