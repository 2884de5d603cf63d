"""Minimal pairs by paradigm, from the files of runs, and word frequencies beside the score along pretraining."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from texts import md

from harness import paths
from harness.comparison.compare import compare
from harness.plugins.chapters import along, minimal_pairs
from harness.reports.reading.predictions import errors_in, predictions
from harness.reports.reading.study import Study
from harness.reports.writing import tables

PARADIGMS = {"far": ([1, 1, 0, 0], 9, "left"), "own": ([1, 1, 1, 1], None, None)}
"""Paradigm -> which of its pairs are right, and what is known of it."""


@pytest.fixture
def run(make_run, tmp_path: Path):
    """Makes a run whose folder holds predictions; `wrong`: paradigm -> pairs that it errs on beside those above."""

    def made(arm: str, seed: int = 0, unigram: float | None = 0.5, torn: bool = False, **columns: list):
        identity = {"fingerprint": f"{arm}-{seed}-fingerprint", "study": "s", "attempt": f"{arm}{seed}", "task": "pairs"}
        one = make_run(arm, seed, {"eval/score": 0.75}, {}, **identity)
        folder = paths.run_folder(str(tmp_path), "s", f"{arm}-tiny-pairs-{seed}-{identity['fingerprint'][:8]}")
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"attempt": identity["attempt"], "inputs": {}}))
        rows = [
            {"item": number, "paradigm": name, "label": number % 2, "distance": distance, "side": side}
            | {"prediction": number % 2 if right != (seed == 1 and number == 0) else 1 - number % 2}
            for name, (all_right, distance, side) in PARADIGMS.items()
            for number, right in enumerate(all_right)
        ]
        rows = rows if unigram is None else [row | {"unigram": unigram} for row in rows]
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "predictions.parquet")
        if torn:
            (folder / "predictions.parquet").write_bytes(b"torn")
        return one

    return made


def text_of(runs: list, output: Path) -> str:
    return "\n".join(minimal_pairs.chapter(Study(compare("s", runs, errors=errors_in(output)), output=output)).paragraphs)


def test_each_paradigm_has_its_share_with_an_interval_and_what_it_needs(run, tmp_path):
    text = text_of([run("base"), run("base", seed=1), run("wide")], tmp_path)
    assert "| paradigm | pairs | needs | word frequencies | base | wide |" in text
    # mean of 2 / 4 and 1 / 4; Agresti and Coull: (1.5 + 2) / 8, plus and minus 1.96 roots of 0.4375 * 0.5625 / 8
    assert "| far | 4 | 9, left | 0.500 | 0.38 [0.09, 0.78] | 0.50 [0.15, 0.85] |" in text
    assert "| own | 4 | – | 0.500 | 0.88 [0.40, 0.99] | 1.00 [0.51, 1.00] |" in text
    assert "| **mean** | 8 |  | 0.500 | 0.625 | 0.750 |" in text


def test_what_is_not_known_is_a_dash_and_torn_files_are_left_out(run, tmp_path):
    runs = [run("base", unigram=None), run("wide", torn=True)]
    text = text_of(runs, tmp_path)
    assert "| far | 4 | 9, left | – | 0.50 [0.15, 0.85] |" in text
    assert "wide" not in text
    assert minimal_pairs.paradigms(predictions(runs[1], tmp_path)) == {}


def test_other_tasks_have_no_such_chapter(make_run, tmp_path):
    assert text_of([make_run("base", 0, {"eval/score": 0.5})], tmp_path) == ""


def test_word_frequencies_are_a_line_along_pretraining(make_run):
    runs = [
        make_run(
            f"base+mlm {suffix}".strip(),
            0,
            {"eval/score": score, "eval/unigram_score": 0.51, "eval/majority_score": 0.5},
            {"pretrain.at": at, "pretrain.tokens": "4000000.0", "pretrain.objective": "mlm"},
            task="pairs",
            lifted='["pretrain.at"]',
        )
        for suffix, at, score in (("at=500000", "500000.0", 0.55), ("", "None", 0.7))
    ]
    (section,) = compare("s", runs).sections
    assert along.references(section) == {"guessing": 0.5, "word frequencies": 0.51}
    below = md(tables.before_after(section)).splitlines()[-2:]
    assert [line.replace(" ", "") for line in below] == ["|*majoritybaseline*|–|0.500|", "|*wordfrequencies*|–|0.510|"]
    (picture,), files = along.along_pretraining(compare("s", runs))
    assert b"word frequencies" in files["along_pretraining.svg"]
    assert "by word frequencies alone" in picture.caption
