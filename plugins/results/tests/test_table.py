"""Tables of any tool: columns by their names or by flags, values as written, one line for what cannot be read."""

from functools import partial

import pandas as pd
import pytest

from harness.errors import InputError
from harness.plugins.judge import results
from harness.plugins.judge.results import Asked
from harness.plugins.results.table import TABLE

LONG = 'Model,task,seed,score,item,extra\nbase,RTE,1,0.5,q1,\n"wide, new",RTE,1,1e-1,q1,x\n'
ROWS = {
    "arm": ["base", "wide, new"],
    "task": ["RTE", "RTE"],
    "seed": ["1", "1"],
    "value": [0.5, 0.1],
    "item": ["q1", "q1"],
    "metric": ["score", "score"],
}
JSON = [
    '{"Model": "base", "task": "RTE", "seed": 1, "score": 1, "item": "q1"}',
    '{"Model": "wide, new", "task": "RTE", "seed": 1, "score": 0.5, "item": "q1", "deep": [[]]}',
]
PAPER = "model,s1,s2,note\nbase,0.5,0.75,\nwide,0.625,,diverged\n"


def read(folder, name, content, **asked):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    rows = TABLE.rows(folder / name, Asked(**asked))
    return None if rows is None else rows.to_dict("list")


@pytest.mark.parametrize(
    "content",
    [
        LONG,
        LONG.replace("\n", "\r\n"),
        "\ufeff" + LONG,
        LONG.replace(",", ";").replace("wide;", "wide,"),
        LONG.replace(",", "\t").replace("wide\t", "wide,"),
    ],
)
def test_a_table_is_read_by_the_names_of_its_columns(tmp_path, content):
    assert read(tmp_path, "a.csv", content) == ROWS


@pytest.mark.parametrize(
    ("content", "columns", "values"),
    [
        ('model,task,answer,correct\na,t,"two\nlines",True\nb,t,,False\n', {"value": "correct"}, [1.0, 0.0]),
        ("\n\tmodel\ttask\tscore\n0\ta\tt\t 1e-1 \n1\tb\tt\t.5\n", {}, [0.1, 0.5]),
        (
            '"Name","State","data.task","model","seed","eval/accuracy","_runtime"\n'
            '"warm-sun-1","finished","rte","base","1","0.5","3"\n"late-fog-2","finished","rte","wide","1","0.75","4"\n',
            {"value": "eval/accuracy", "task": "data.task"},
            [0.5, 0.75],
        ),
    ],
    ids=["predictions by pandas", "tabs with an index", "runs of Weights & Biases as their page exports them"],
)
def test_tables_as_other_programs_write_them(tmp_path, content, columns, values):
    assert read(tmp_path, "a.csv", content, columns=columns)["value"] == values


@pytest.mark.parametrize(
    ("column", "states"),
    [("State", "finished,crashed,running"), ("Status", "FINISHED,FAILED,RUNNING"), ("state", "COMPLETE,PRUNED,FAIL")],
)
def test_runs_that_did_not_finish_are_left_out_and_said(tmp_path, capsys, column, states):
    rows = "".join(f"m{number},t,0.{number},{state}\n" for number, state in enumerate(states.split(","), 1))
    assert read(tmp_path, "a.csv", f"model,task,score,{column}\n{rows}")["arm"] == ["m1"]
    assert capsys.readouterr().err.endswith("a.csv: left out 2 runs that did not finish\n")


def test_a_column_of_other_states_leaves_nothing_out(tmp_path):
    assert read(tmp_path, "a.csv", "model,task,score,state\na,t,1,CA\nb,t,1,running\n")["arm"] == ["a", "b"]


def test_json_and_parquet_are_tables_too(tmp_path):
    rows = ROWS | {"value": [1.0, 0.5]}
    assert read(tmp_path, "a.jsonl", "\n".join(JSON)) == read(tmp_path, "a.json", f"[{','.join(JSON)}]") == rows
    table = pd.DataFrame(rows).rename(columns={"arm": "model"}).drop(columns="metric")
    table.astype({"model": "category"}).assign(when=pd.Timestamp(0), score=table.pop("value")).to_parquet(
        tmp_path / "a.parquet"
    )
    assert TABLE.rows(tmp_path / "a.parquet", Asked(columns={"value": "score"})).to_dict("list") == rows


@pytest.mark.parametrize(
    ("columns", "flags", "rows"),
    [
        (
            {"seed": "s1+s2"},
            {"task": "RTE", "metric": "accuracy"},
            [
                ("base", "RTE", "s1", "accuracy", 0.5),
                ("wide", "RTE", "s1", "accuracy", 0.625),
                ("base", "RTE", "s2", "accuracy", 0.75),
            ],
        ),
        (
            {"metric": "s1+s2"},
            {"task": "RTE", "seed": "7"},
            [("base", "RTE", "7", "s1", 0.5), ("wide", "RTE", "7", "s1", 0.625), ("base", "RTE", "7", "s2", 0.75)],
        ),
        (
            {"value": "s1", "arm": "model", "path": "{task}/seed{seed}.csv"},
            {"arm": "not read"},
            [("base", "rte", "3", "s1", 0.5), ("wide", "rte", "3", "s1", 0.625)],
        ),
    ],
)
def test_flags_name_columns_of_values_and_what_paths_say(tmp_path, columns, flags, rows):
    (tmp_path / "rte").mkdir()
    found = pd.DataFrame(read(tmp_path / "rte", "seed3.csv", PAPER, columns=columns, **flags))
    assert [*found[["arm", "task", "seed", "metric", "value"]].itertuples(index=False, name=None)] == rows


@pytest.mark.parametrize(
    ("name", "content", "asked", "said"),
    [
        (
            "a.csv",
            "model,variant,task,score\na,b,t,1\n",
            {},
            "model and variant may each be the arm: expected columns=arm=NAME",
        ),
        (
            "a.csv",
            "model,task,score,f1\na,t,1,1\n",
            {},
            r"score and f1 may each be the value.*columns=metric=A\+B.*are model, task, score, f1$",
        ),
        ("a.csv", PAPER, {"task": "t"}, r"no column is known to be the value.*columns=seed=A\+B.*are model, s1, s2, note$"),
        ("a.csv", PAPER, {"columns": {"value": "s1"}}, "the task: expected columns=task=NAME, task=TEXT, columns=path="),
        ("a.csv", LONG, {"columns": {"arm": "Modell"}}, "columns=arm=Modell: expected NAME=COLUMN.*are Model, task"),
        ("a.csv", LONG, {"columns": {"arms": "Model"}}, "columns=arms=Model: expected NAME=COLUMN with a NAME of arm, task"),
        ("a.csv", PAPER, {"columns": {"seed": "s1+s2", "value": "note"}}, r"COLUMN\+COLUMN for at most one NAME"),
        ("a.csv", LONG, {"columns": {"path": "{arm}/b.csv"}}, "does not match columns=path="),
        ("a.csv", "model;task;score\na;t;0,5\n", {}, "the column score has '0,5', which is not a number: expected digits"),
        ("a.csv", "model,task,score\na,t,84%\n", {}, "the column score has '84%', which is not a number"),
        ("a.csv", 'model,task,score\na,t,"1,200"\n', {}, "'1,200', which is not a number.*thousands separators"),
        ("a.csv", "model,task,score\na,t,0,5\n", {}, "Expected 3 columns, got 4"),
        ("a.csv", LONG.encode("utf-16"), {}, "can't decode byte"),
        ("a.csv", LONG.encode().replace(b"wide", b"\xff"), {}, "invalid UTF8"),
        ("a.csv", "\n\n", {}, "is empty: expected a table"),
        ("a.json", "[]", {}, "is empty: expected a table"),
        ("a.jsonl", JSON[0] + '\n{"Model": "x", "score": 0.', {}, "is not JSON: Expecting"),
        (
            "a.jsonl",
            JSON[0] + "\n" + JSON[0].replace('"score": 1', f'"score": {"[" * 100_000}{"]" * 100_000}'),
            {},
            "is not JSON: maximum recursion",
        ),
        ("a.jsonl", JSON[0].replace('"q1"}', "[" * 100_000), {}, "is not JSON"),
        ("a.json", "[" * 100_000, {}, "is not JSON"),
        ("a.json", f"[{JSON[0][:-1]}, " + '"score": 2}]', {}, "is not JSON: two keys 'score' in one object"),
        ("a.json", f"[{JSON[0]}, 3]", {}, "has 3 among its rows: expected objects"),
        ("a.jsonl", f"{JSON[0]}\n3", {}, "must hold an object"),
        ("a.jsonl", JSON[0].replace('"seed": 1', '"score": 2'), {}, "two keys 'score' in one object"),
        ("a.parquet", b"PAR1PAR1", {}, "cannot be read as results of tables"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, name, content, asked, said):
    with pytest.raises(InputError, match=said) as error:
        read(tmp_path, name, content, **asked)
    assert str(error.value).isprintable()


def test_rows_of_json_lines_may_lack_a_column_and_begin_with_a_mark(tmp_path):
    first, second = '{"Model": "base", "task": "RTE", "seed": null, "score": 1}', '{"Model": "wide", "task": "RTE", "item": 3}'
    rows = read(tmp_path, "a.jsonl", f"\ufeff{first}\n{second[:-1]}, " + '"seed": 1, "score": 0.5}')
    assert (rows["seed"][1], rows["item"][1], rows["value"]) == ("1", "3", [1.0, 0.5])
    mixed = first.replace("null", '"1", "norm": NaN') + "\n" + second[:-1] + ', "seed": 1, "score": "0.5"}'
    assert read(tmp_path, "a.jsonl", mixed)["value"] == [1.0, 0.5]
    assert read(tmp_path, "a.json", f"\ufeff[{first}]")["value"] == [1.0]


def test_two_splits_are_refused_unless_they_are_tasks(tmp_path):
    rows = [
        f"{row},{arm},0,{split},0.5"
        for row, arm, split in ((1, "a", "train"), (2, "b", "test"), (3, "a", "test"), (4, "b", "train"))
    ]
    (tmp_path / "a.csv").write_text("\n".join(["id,model,seed,Split,accuracy", *rows]))

    def checked(**asked):
        return results.checked([results.rows_of(tmp_path / "a.csv", Asked(**asked))], Asked(**asked)).rows

    with pytest.raises(InputError, match=r"^the column split has \['test', 'train'\]: expected one, or columns=task=NAME$"):
        checked(task="t")
    assert {*checked(columns={"task": "Split"})["task"]} == {"train", "test"}


def test_a_run_with_several_epochs_is_refused_though_its_rows_are_numbered(tmp_path):
    rows = [f"{4 * arm + epoch},{'ab'[arm]},0,{epoch},0.5" for arm in (0, 1) for epoch in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(["id,model,seed,Epoch,accuracy", *rows]))
    with pytest.raises(InputError, match=r"^the column epoch has several values for one run: expected one, such as the last"):
        results.checked([results.rows_of(tmp_path / "a.csv", Asked(task="t"))], Asked(task="t"))


def test_lists_of_other_columns_are_passed_over_and_other_files_are_of_other_tools(tmp_path):
    deep = JSON[1].replace("[[]]", "[" * 100 + "]" * 100)
    assert read(tmp_path, "a.jsonl", f"{JSON[0]}\n{deep}")["value"] == [1.0, 0.5]
    assert read(tmp_path, "a.json", '{"results": []}') is None
    assert read(tmp_path, "a.txt", LONG) is None
    assert TABLE.rows(tmp_path, Asked()) is None


def test_a_page_of_parquet_that_is_torn_is_one_line(tmp_path):
    pd.DataFrame({"model": ["a"], "task": ["t"], "score": [0.5]}).to_parquet(tmp_path / "whole.parquet")
    content = (tmp_path / "whole.parquet").read_bytes()
    with pytest.raises(InputError, match="cannot be read as Parquet: Couldn't deserialize thrift") as error:
        read(tmp_path, "torn.parquet", content[:4] + b"\xff" * 16 + content[20:])
    assert str(error.value).isprintable()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_runs_none_of_which_finished_are_left_out_of_every_table(tmp_path, name):
    rows = pd.DataFrame({"model": ["a", "b"], "task": "t", "score": [0.1, 0.2], "state": ["crashed", "running"]})
    as_lines = partial(rows.to_json, orient="records", lines=True)
    written = {"csv": rows.to_csv, "parquet": rows.to_parquet, "jsonl": as_lines}[name[2:]]
    for states, kept in (("crashed running", []), ("crashed finished", ["b"]), ("TX running", ["a", "b"])):
        rows["state"] = states.split()
        written(tmp_path / name)
        assert TABLE.rows(tmp_path / name, Asked())["arm"].tolist() == kept


def test_a_metric_that_is_not_read_is_named_and_the_flag_reads_it(tmp_path, capsys):
    content = "model,task,seed,accuracy,latency_ms,note\na,t,0,0.5,7.5,x\nb,t,0,0.75,8,y\n"
    assert read(tmp_path, "a.csv", content)["value"] == [0.5, 0.75]
    assert capsys.readouterr().err.endswith("a.csv: read accuracy, not latency_ms: metric=NAME reads another\n")
    timed = read(tmp_path, "a.csv", content, metric="latency_ms")
    assert (timed["value"], timed["metric"]) == ([7.5, 8.0], ["latency_ms"] * 2)
    assert read(tmp_path, "a.csv", content, columns={"metric": "accuracy+latency_ms"})["value"] == [0.5, 0.75, 7.5, 8.0]
    assert capsys.readouterr().err == ""
