"""Results of evaluation tools: values, items and errors are as they printed them, and no other file is taken for theirs.

Fixtures: those of lm-evaluation-harness 0.4.13, lighteval 0.13.0 and MTEB 2.26.24 were written by them (`make_evaluations.py`);
those of EncodEval and of the BabyLM challenge have the form of the files in their repositories.
"""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from harness.errors import InputError
from harness.plugins.judge import results
from harness.plugins.judge.frame import COLUMNS
from harness.plugins.judge.results import Asked
from harness.plugins.results.babylm import BABYLM
from harness.plugins.results.encodeval import ENCODEVAL
from harness.plugins.results.lighteval import LIGHTEVAL
from harness.plugins.results.lm_eval import LM_EVAL
from harness.plugins.results.mteb import MTEB

FIXTURES = Path(__file__).with_name("fixtures")
NAMES = ["arm", "task", "seed", "metric"]
TOOLS = {"lm_eval": LM_EVAL, "lighteval": LIGHTEVAL, "mteb": MTEB, "encodeval": ENCODEVAL, "babylm": BABYLM}
PRINTED = pd.read_csv(FIXTURES / "printed.csv", sep=";", dtype={"seed": str})
"""What the tools print of values over all items."""
SINGLE = {
    ("lm_eval", "tiny-a", "colour 1-shot", "2", "acc,none"): {0: 0, 1: 1, 2: 1, 3: 1},
    ("lm_eval", "tiny-b", "animal 1-shot", "1", "acc,none"): {0: 1, 1: 0, 2: 1},
    ("lm_eval", "tiny-b", "write", "0,1234", "exact_match,first"): {0: 0, 1: 0, 2: 0},
    ("lighteval", "tiny-b", "words:animal|0", None, "acc"): {"1": 0, "0": 1, "2": 1},
    ("encodeval", "encoder-a", "sst2", "0", "score"): {0: 1, 1: 1, 2: 0, 3: 0, 4: 0},
    ("encodeval", "encoder-b", "sst2", "1", "score"): {0: 1, 1: 1, 2: 1, 3: 0, 4: 0},
    ("encodeval", "encoder-b", "xnli fr", None, "accuracy"): {1: 1, 3: 1, 5: 1},
    ("babylm", "elcbert", "blimp_filtered", None, "accuracy"): {
        "adjunct_island": 0.5717,
        "passive_1": 0.7943,
        "wh_island": 0.6603,
    },
}
BROKEN = {
    "lm_eval": ("tiny-a/results_2026-11-28T07-00-00.0.json", '{"results": '),
    "lighteval": ("results/a/results_2026-11-28T07-00-00.0.json", '{"config_general": '),
    "mteb": ("a__b/revision/Task.json", '{"dataset_revision": '),
    "encodeval": ("a/SC/sst2/lr1e-05_sd0/results.json", '{"test": '),
    "babylm": ("a/main/zero_shot/mlm/blimp/blimp_filtered/best_temperature_report.txt", "TEMPERATURE: 1\n### AVERAGE "),
}
"""Place of a file, and its beginning."""
CONTENTS = (
    "",
    "{}}",
    "[]",
    "3",
    '{"a": {}}',
    '{"a": {"b": 3}}',
    '{"a": {"acc,none": {}}}, "group_subtasks": {}}',
    '"\\ud800"',
    "\0\n",
)
CONTENTS += ("[" * 100_000, "1" * 100_000)


def read(tool: str, path: Path, **asked: str) -> pd.DataFrame:
    rows = TOOLS[tool].rows(path, Asked(**asked))
    assert rows is not None
    assert rows["direction"].eq("higher").all() if tool in ("lm_eval", "babylm") else "direction" not in rows
    return rows.reindex(columns=[*COLUMNS]).astype(object).where(lambda one: one.notna(), None)


@pytest.mark.parametrize("tool", TOOLS)
def test_values_of_a_task_are_those_that_the_tool_printed(tool: str):
    rows = read(tool, FIXTURES / tool)
    both = [rows[rows["item"].isna()], PRINTED[PRINTED["tool"] == tool]]
    values, printed = (of.set_index(NAMES)[["value", "error", "items"]].astype(float).sort_index() for of in both)
    pd.testing.assert_frame_equal(values, printed, atol=5e-5, check_index_type=False)


@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_values_of_single_items_are_read(case: tuple[str | None, ...]):
    tool, *names = case
    rows = read(str(tool), FIXTURES / str(tool))[[*NAMES, "item", "value"]].to_numpy().tolist()
    assert {item: value for *of, item, value in rows if of == names and item is not None} == pytest.approx(SINGLE[case])


@pytest.mark.parametrize("tool", TOOLS)
def test_no_file_of_another_tool_is_read(tool: str, tmp_path: Path):
    (tmp_path / "results.json").write_text("[]")
    others = [FIXTURES / other for other in TOOLS if other != tool]
    assert all(TOOLS[tool].rows(path, Asked()) is None for path in (*others, tmp_path, tmp_path / "results.json"))
    assert results.checked([results.rows_of(FIXTURES / tool, Asked())], Asked()).rows["value"].between(0, 1).all()


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: content[:9])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_broken_file_is_refused_in_one_line(tool: str, content: str, tmp_path: Path):
    place, beginning = BROKEN[tool]
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(beginning + content)
    with pytest.raises(InputError, match=r"^[^\n]{1,600}$"):
        results.checked([results.rows_of(tmp_path, Asked())], Asked())


def copied(tool: str, to: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / tool, to / tool))


def test_a_group_counts_where_none_of_its_tasks_is_there(tmp_path: Path):
    for file in copied("lm_eval", tmp_path).rglob("results_*.json"):
        output = json.loads(file.read_text())
        output["results"] = {name: of for name, of in output["results"].items() if name not in ("colour", "animal")}
        file.write_text(json.dumps(output))
    rows = read("lm_eval", tmp_path)
    assert rows.loc[rows["task"].str.startswith("words"), "value"].tolist() == pytest.approx([4 / 7, 6 / 7, 3 / 7, 4 / 7])


def test_of_runs_with_one_seed_the_newest_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    older, *_ = sorted(copied("lm_eval", tmp_path).glob("tiny-b/results_*"))
    newer = older.with_name("results_2030-01-01T00-00-00.000000.json")
    newer.write_text(older.read_text().replace('"acc,none": 0.25', '"acc,none": 0.125'))
    rows = read("lm_eval", tmp_path)
    of_seed = rows[(rows["arm"] == "tiny-b") & (rows["task"] == "colour 1-shot") & (rows["seed"] == "1")]
    assert of_seed["value"].tolist() == [0.125]
    assert "tiny-b colour 1-shot 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "old", "new", "names"),
    [
        ("lm_eval", '"pretrained": "tiny-b"', '"pretrained": "tiny-b", "peft": "p"', ["", ", 'peft': 'p'"]),
        ("lighteval", '"revision": "main"', '"revision": "step1"', ["main", "step1"]),
        ("lighteval", '"dtype": null', '"dtype": "float16"', ["main", "main,float16"]),
    ],
)
def test_models_that_are_loaded_in_two_ways_are_two_arms(tool, old, new, names, tmp_path, capsys):
    older = min(copied(tool, tmp_path).rglob("tiny-b/results_*"))
    newer = older.with_name("results_2030-01-01T00-00-00.000000.json")
    newer.write_text(older.read_text().replace(old, new))
    whole = "{{'pretrained': 'tiny-b'{}}}" if tool == "lm_eval" else "{}"
    assert {*read(tool, tmp_path)["arm"]} == {"tiny-a", *(f"tiny-b@{whole.format(name)}" for name in names)}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("first", ["dataset_revision", "dataset_version", "mteb_dataset_name"])
def test_results_of_mteb_without_scores_are_refused(tmp_path: Path, first: str):
    older = copied("mteb", tmp_path) / "made__tiny-a" / ("0" * 39 + "1") / "Older.json"
    older.write_text(json.dumps({first: None, "mteb_version": "1.1.1", "test": {"cos_sim": {"pearson": 0.8}}}))
    with pytest.raises(InputError, match=r"Older\.json' has no scores, as before MTEB 1\.11: evaluate anew, or leave it out"):
        results.rows_of(tmp_path, Asked())


@pytest.mark.parametrize("first", ["task_name", "mteb_version", "evaluation_time", "scores"])
def test_results_of_mteb_may_begin_with_any_key(tmp_path: Path, first: str):
    expected = read("mteb", FIXTURES / "mteb")
    for file in copied("mteb", tmp_path).rglob("Colours.json"):
        output = json.loads(file.read_text())
        file.write_text(json.dumps({first: output.pop(first), **output}))
    pd.testing.assert_frame_equal(read("mteb", tmp_path / "mteb"), expected)


def test_items_of_other_documents_do_not_pair(tmp_path: Path):
    for file in copied("lm_eval", tmp_path).glob("tiny-b/samples_animal_*"):
        samples = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("\n".join(json.dumps(sample | {"doc_hash": "0"}) for sample in samples))
    with pytest.raises(InputError, match=r"^animal 1-shot, doc_id 0: doc_hash differs between the results"):
        results.checked([results.rows_of(tmp_path / "lm_eval" / arm, Asked()) for arm in ("tiny-a", "tiny-b")], Asked())


def test_accuracy_in_shares_is_not_read_as_percent(tmp_path: Path):
    expected = read("babylm", FIXTURES / "babylm")
    for file in copied("babylm", tmp_path).rglob("best_temperature_report.txt"):
        if "AVERAGE ACCURACY" in (text := file.read_text()):
            file.write_text(re.sub(r"(?m)^(\w+: )?(\d+\.\d+)$", lambda found: f"{found[1] or ''}{float(found[2]) / 100}", text))
    pd.testing.assert_frame_equal(read("babylm", tmp_path / "babylm"), expected)


def test_samples_that_are_a_link_are_left_out(tmp_path: Path):
    for tool, pattern in (("lm_eval", "samples_*"), ("lighteval", "details_*")):
        for file in copied(tool, tmp_path).rglob(pattern):
            file.rename(file.with_name("moved"))
            file.symlink_to("moved")
        assert read(tool, tmp_path / tool)["item"].isna().all()


def test_several_revisions_of_a_model_are_arms_and_another_metric_may_be_asked_for(tmp_path: Path):
    folder = copied("mteb", tmp_path) / "made__tiny-a"
    shutil.copytree(folder / f"{1:040}", folder / "later")
    (folder / "later" / "Colours.json").unlink()
    assert {*read("mteb", tmp_path)["arm"]} == {f"made/tiny-a@{1:040}", "made/tiny-a@later", "made/tiny-b"}
    pearson = read("mteb", folder / "later", metric="cosine_pearson")
    assert pearson[["arm", "metric"]].drop_duplicates().to_numpy().tolist() == [["made/tiny-a", "cosine_pearson"]]


@pytest.mark.parametrize(
    ("tool", "old", "new", "tasks"),
    [
        ("mteb", '"dataset_revision": "1"', '"dataset_revision": "2"', {"Colours@1", "Colours@2"}),
        ("lm_eval", '"colour": 1.0', '"colour": 2.0', {"colour 1-shot@1.0", "colour 1-shot@2.0"}),
    ],
)
def test_versions_of_a_task_are_tasks(tool: str, old: str, new: str, tasks: set[str], tmp_path: Path):
    for file in copied(tool, tmp_path).glob("*tiny-b/**/*.json"):
        file.write_text(file.read_text().replace(old, new))
    assert {task for task in read(tool, tmp_path)["task"] if task.lower().startswith("colour")} >= tasks


def test_seeds_may_be_taken_from_the_path(tmp_path: Path):
    for seed in "34":
        shutil.copytree(FIXTURES / "babylm", tmp_path / f"seed{seed}")
    rows = TOOLS["babylm"].rows(tmp_path, Asked({"path": "seed{seed}/{arm}/main"}))
    assert rows is not None
    assert {*rows["seed"]} == {"3", "4"}
    assert {*rows["arm"]} == {"ltgbert", "elcbert"}
