"""The chapter on items that are right here and wrong there, from the files of runs."""

import json
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
from harness.plugins.chapters import predictions
from harness.reports.reading.predictions import errors_in
from harness.reports.reading.study import Study

WORDS = ["[UNK]", "good", "bad", "<script>", "film", "long"]
TEXTS = ["good film", "bad film", "<script> bad", "good long film", "bad long film", "bad bad long film"]
LABELS = [1, 0, 0, 1, 0, 0]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A folder of results, with prepared data of six texts."""
    data = paths.data_folder(str(tmp_path), "k1")
    data.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(data / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    starts = np.cumsum([0, *map(len, ids)])
    save_file({"ids": np.concatenate(ids).astype(np.int32), "starts": starts}, data / "validation.safetensors")
    return tmp_path


@pytest.fixture
def run(make_run, output):
    """Makes a run whose folder holds these predictions."""

    def made(arm: str, predicted: list[int] | None, seed: int = 0, **columns: list):
        identity = {"fingerprint": f"{arm}-{seed}-fingerprint", "study": "s", "attempt": f"{arm}{seed}"}
        labels = {"task.labels": "['negative', 'positive']"}
        one = make_run(arm, seed, {"eval/score": 0.5}, labels, **identity)
        folder = paths.run_folder(str(output), "s", f"{arm}-tiny-sst2-{seed}-{identity['fingerprint'][:8]}")
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"attempt": identity["attempt"], "inputs": {"data": "k1"}}))
        if predicted is not None:
            table = {"item": list(range(len(predicted))), "label": LABELS[: len(predicted)], "prediction": predicted}
            table |= {"logit_0": [0.0] * len(predicted), "logit_1": [0.0] * len(predicted)} | columns
            parquet.write_table(pyarrow.table(table), folder / "predictions.parquet")
        return one

    return made


def chapter(runs: list, output: Path | None) -> str:
    return "\n".join(
        predictions.DISAGREEMENTS.chapter(Study(compare("s", runs, errors=errors_in(output)), output=output)).paragraphs
    )


def test_items_are_counted_and_shown_with_their_text(run, output):
    text = chapter([run("base", LABELS), run("other", [1, 0, 1, 0, 0, 0])], output)
    assert "| other | 1 | 4 | 2 | 0 | 0 |" in text
    assert "- 2 (negative): &lt;script&gt; bad" in text
    assert "- 3 (positive): good long film" in text
    assert "other right, base wrong" not in text


def test_replicates_are_averaged_and_a_minority_is_no_example(run, output):
    runs = [run("base", LABELS, seed) for seed in range(3)]
    runs += [run("other", [1, 0, 1, 1, 0, 0], 0), run("other", LABELS, 1), run("other", [0, 0, 0, 1, 0, 1], 2)]
    text = chapter(runs, output)
    assert "| other | 3 | 5.0 | 1.0 | 0.0 | 0.0 |" in text
    assert "base right, other wrong" not in text


def test_folder_that_another_attempt_wrote_is_not_read(run, output):
    runs = [run("base", LABELS), run("other", LABELS)]
    (folder,) = output.glob("s/other-*")
    (folder / "run.json").write_text(json.dumps({"attempt": "later", "inputs": {"data": "k1"}}))
    assert chapter(runs, output) == ""


def test_arm_without_predictions_is_named(run, output):
    text = chapter([run("base", LABELS), run("other", LABELS), run("lost", None)], output)
    assert "No predictions of the same items, neither in the archive nor in the run folders: lost." in text


def test_an_arm_without_a_seed_in_common_is_unpaired_and_not_without_predictions(run, output):
    text = chapter([run("base", LABELS), run("other", LABELS), run("apart", LABELS, seed=7)], output)
    assert "Not paired with the baseline, no seed in common: apart." in text
    assert "No predictions" not in text


def test_without_the_prepared_data_there_are_counts_alone(run, output):
    runs = [run("base", LABELS), run("other", [0, 0, 0, 1, 0, 0])]
    (output / "cache" / "k1" / "tokenizer.json").unlink()
    text = chapter(runs, output)
    assert "| other | 1 | 5 | 1 | 0 | 0 |" in text
    assert predictions.NO_TEXTS in text


@pytest.mark.parametrize("content", [b"", b"PAR1", None])
@pytest.mark.parametrize("file", ["predictions.parquet", "run.json"])
def test_a_corrupt_file_of_a_run_is_named_and_the_others_are_counted(run, output, file, content):
    runs = [run("base", LABELS), run("other", LABELS), run("third", [1, 0, 1, 0, 0, 0])]
    (path,) = output.glob(f"s/other-*/{file}")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    text = chapter(runs, output)
    assert f"Corrupt run files, left out: s/{path.parent.name}/{file}." in text
    assert f"{predictions.MISSING}: other." in text
    assert "| third | 1 | 4 | 2 | 0 | 0 |" in text


def test_texts_that_cannot_be_read_are_not_shown(run, output):
    runs = [run("base", LABELS), run("other", [0, 0, 0, 1, 0, 0])]
    path = paths.data_folder(str(output), "k1") / "validation.safetensors"
    assert predictions.NO_TEXTS not in chapter(runs, output)
    path.write_bytes(path.read_bytes()[:-3])
    assert predictions.NO_TEXTS in chapter(runs, output)


def test_other_kinds_of_tasks_and_other_items_are_left_out(run, output):
    base = run("base", LABELS)
    tagged = run("tagger", LABELS, position=list(range(6)))
    fewer = run("fewer", LABELS[:5])
    assert chapter([base, tagged], output) == ""
    assert chapter([base, fewer], output) == ""


def test_without_folders_there_is_no_chapter(make_run):
    assert chapter([make_run("base"), make_run("other")], None) == ""


def test_at_most_five_replicates_are_read(run, output):
    runs = [run(arm, LABELS, seed) for arm in ("base", "other") for seed in range(7)]
    section = compare("s", runs, errors=errors_in(output)).sections[0]
    assert len(section.errors_of_both("other").before) == items.MOST_PAIRS
