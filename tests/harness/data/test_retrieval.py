"""Queries, a corpus and judgements: what is read, how it is scored, and what does not fit."""

import gzip
import json
import shutil

import numpy as np
import pytest
from datasets import Dataset

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.tasks import kind_of, refuse_impossible, scores
from harness.tasks.rows import load_table

CORPUS = {"d0": ("Cats", "they sleep"), "d1": ("", "dogs run"), "q2": (None, "birds"), "d3": ("", "fish")}
QUERIES = {"q0": "who sleeps", "q1": "who runs", "q2": "birds", "unjudged": "what"}
GRADES = [("q0", "d0", 2), ("q0", "d1", 1), ("q0", "d3", 0), ("q1", "d1", 1), ("q2", "d0", 1), ("q2", "q2", 3)]
HEADER = ("query-id", "corpus-id", "score")


@pytest.fixture
def folder(tmp_path):
    """In the files of BEIR."""
    return plain(tmp_path / "beir")


def plain(folder):
    corpus = [{"_id": name, "title": title, "text": text, "metadata": {}} for name, (title, text) in CORPUS.items()]
    queries = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = "".join("\t".join(map(str, row)) + "\n" for row in [HEADER, *GRADES])
    (folder / "qrels" / "test.tsv").write_text(lines)
    return folder


def of_the_hub(folder, before="", judgements="default", grade=int):
    """The same in the layout of MTEB's repositories."""
    corpus = {"_id": [*CORPUS], "title": [a or "" for a, _ in CORPUS.values()], "text": [b for _, b in CORPUS.values()]}
    queries = {"_id": [*QUERIES], "text": [*QUERIES.values()]}
    judged = {name: [row[at] for row in GRADES] for at, name in enumerate(HEADER)}
    judged["score"] = [*map(grade, judged["score"])]
    parts = {"corpus": ("corpus", corpus), "queries": ("queries", queries), judgements: ("test", judged)}
    card = "---\nlicense: cc-by-4.0\nconfigs:\n"
    for name, (split, columns) in parts.items():
        (folder / name).mkdir(parents=True)
        Dataset.from_dict(columns).to_parquet(str(folder / name / f"{split}-0.parquet"))
        named = name if name == "default" else before + name
        card += f"- config_name: {named}\n  data_files:\n  - {{split: {split}, path: {name}/{split}-*}}\n"
    (folder / "README.md").write_text(card + "---\n")
    return folder


def config_of(folder, **keys) -> RunConfig:
    keys = {"fields": ["text"], "validation_split": "test", "test_split": "test"} | keys
    names = ["ndcg_at_10", "recall_at_10"]
    return RunConfig(
        task=TaskConfig(
            name="own", kind=TaskKind.retrieval, dataset=str(folder), scores=names, headline="ndcg_at_10", max_length=16, **keys
        )
    )


@pytest.mark.long
def test_every_layout_gives_the_judged_queries_and_the_whole_corpus(folder, tmp_path):
    texts = {"d0": "Cats they sleep", "d1": "dogs run", "q2": "birds", "d3": "fish"}
    table = load_table(config_of(folder), "validation")
    assert (table.items, table.columns["text"]) == (["q0", "q1", "q2"], ["who sleeps", "who runs", "birds"])
    assert table.columns["label"] == [{0: 2, 1: 1}, {1: 1}, {0: 1, 2: 3}]
    assert (table.corpus, table.origin) == (texts, "beir, licence not stated")
    packed = shutil.copytree(folder, tmp_path / "packed")
    (packed / "qrels" / "test.tsv.gz").write_bytes(gzip.compress((packed / "qrels" / "test.tsv").read_bytes()))
    (packed / "qrels" / "test.tsv").unlink()
    hub = of_the_hub(tmp_path / "hub")
    english = of_the_hub(tmp_path / "languages", "en-", "qrels")
    for other, keys in ((packed, {}), (hub, {}), (english, {"subset": "en"})):
        again = load_table(config_of(other, **keys), "validation")
        assert (again.items, again.columns, again.corpus) == (table.items, table.columns, table.corpus)
    assert load_table(config_of(hub), "validation").origin == "hub, configuration default, licence cc-by-4.0"


def test_scores_are_those_of_trec_eval(folder):
    """The gain is the grade itself; a run leaves the document out that the query is, as BEIR does."""
    config = config_of(folder)
    kind, table = kind_of(config.task), load_table(config, "validation")
    cut = tokenizer.build(TokenizerConfig(vocab_size=120, min_frequency=1), [*QUERIES.values()])
    split = kind.encode(config.task, cut, kind.examples(config.task, table))
    assert split.numbers["itself"].tolist() == [-1, -1, 2]
    cosines = np.array([[0.2, 0.3, 0.9, 0.1], [0.5, 0.4, 0.3, 0.6], [0.1, 0.2, 1.0, 0.0]], dtype=np.float32)
    answers = kind.predictions(config.task, split, cosines, 0)
    assert [ranked[:3] for ranked in answers.predicted] == [[2, 1, 0], [3, 0, 1], [1, 0, 3]]
    log = np.log2(np.arange(2, 6))
    first = (1 / log[1] + 2 / log[2]) / (2 / log[0] + 1 / log[1])
    third = (1 / log[1]) / (3 / log[0] + 1 / log[1])
    expected = (first + 1 / log[2] + third) / 3
    assert scores.compute(TaskKind.retrieval, "ndcg_at_10", answers.labels, answers.predicted) == pytest.approx(expected)
    assert scores.compute(TaskKind.retrieval, "recall_at_10", answers.labels, answers.predicted) == 5 / 6
    assert scores.compute(TaskKind.retrieval, "ndcg_at_10", [{}], [[1]]) == 0
    assert answers.columns["grades"] == [[2, 1], [1], [1, 3]]


@pytest.mark.parametrize(
    ("file", "content", "keys", "expected"),
    [
        (
            "qrels/test.tsv",
            "q0\tnone\t1",
            {},
            "(test.tsv), line 8: 'none' is not among the 4 ids of the corpus: remove the row",
        ),
        ("qrels/test.tsv", "none\td0\t1", {}, "(test.tsv), line 8: 'none' is not among the 4 ids of the queries"),
        ("qrels/test.tsv", "q1\td0\thigh", {}, "line 8: expected a whole number in 'score', got 'high'"),
        ("qrels/test.tsv", "q0\td0\t1", {}, "line 8: 'q0' and 'd0' have the grade 2 in an earlier row: remove one of them"),
        ("corpus.jsonl", '{"_id": "d4"}', {}, "(corpus.jsonl), line 5: expected an `_id` and text in 'text' (task.fields)"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}', {}, "(corpus.jsonl), line 5: the id 'd1' is that of an earlier row"),
        ("corpus.jsonl", "{", {}, "(corpus.jsonl), line 5: not JSON"),
        (
            "",
            "",
            {"validation_split": "dev"},
            "unknown split of task 'own', validation: 'dev'; choices for `task.validation_split`",
        ),
        ("", "", {"dataset": "no/such/folder"}, "task.dataset='no/such/folder' is neither a folder nor"),
    ],
)
def test_what_does_not_fit_is_one_line(folder, file, content, keys, expected):
    if file:
        with (folder / file).open("a") as opened:
            opened.write(content + "\n")
    config = config_of(keys.pop("dataset", folder), **keys)
    with pytest.raises(InputError) as error:
        load_table(config, "validation")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.long
def test_a_grade_is_a_whole_number_whatever_its_type(tmp_path):
    floats, shares = (of_the_hub(tmp_path / name, grade=grade) for name, grade in (("a", float), ("b", lambda one: one / 2)))
    assert load_table(config_of(floats), "validation").columns["label"] == [{0: 2, 1: 1}, {1: 1}, {0: 1, 2: 3}]
    with pytest.raises(InputError, match=r"\(default\), row 1: expected a whole number in 'score', got 0\.5"):
        load_table(config_of(shares), "validation")


def test_a_header_or_a_configuration_that_is_missing_is_named(folder, tmp_path):
    (folder / "qrels" / "test.tsv").write_text("a\tb\tc\nq0\td0\t1\n")
    with pytest.raises(InputError, match="expected the columns query-id, corpus-id, score, got a, b, c"):
        load_table(config_of(folder), "validation")
    with pytest.raises(
        InputError, match=r"unknown configuration of .*: 'de-corpus'; .*`task.subset`: corpus, default, queries"
    ):
        load_table(config_of(of_the_hub(tmp_path / "hub"), subset="de"), "validation")
    refuse_impossible(config_of(folder).task)
    with pytest.raises(InputError, match="must name two columns of texts"):
        refuse_impossible(TaskConfig(**vars(config_of(folder).task) | {"dataset": "", "train_file": "a.csv"}))


@pytest.mark.long
def test_a_corpus_is_encoded_once(run_harness, folder, tmp_path):
    """A second split of queries takes the vectors that are kept; another model has others."""
    (folder / "qrels" / "dev.tsv").write_text("\t".join(HEADER) + "\nq1\td3\t1\n")
    common = ["task=own", "task.kind=retrieval", f"task.dataset={folder}", "finetune=none", "tokenizer.trained_on=corpus"]
    for more in ("test", "dev"):
        assert run_harness(*common, f"task.validation_split={more}").returncode == 0
    kept = [*tmp_path.rglob("vectors.npy")]
    assert len(kept) == 1
    assert np.load(kept[0]).shape[0] == len(CORPUS)
    assert run_harness(*common, "task.validation_split=dev", "seed=1").returncode == 0
    assert len([*tmp_path.rglob("vectors.npy")]) == 2
