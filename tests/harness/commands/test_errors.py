"""A wrong input is one line on stderr and exit code 2, before anything runs."""

import os
import shutil
from pathlib import Path

import pyarrow
import pytest
import yaml
from pyarrow import parquet
from refusals import assert_refused

from harness.__main__ import main
from harness.errors import InputError, unknown
from harness.paths import conf_directory

README = """\
---
configs:
- config_name: sst2
  data_files:
  - {split: train, path: sst2/train*}
  - {split: validation, path: sst2/validation*}
---
"""


MODELS = ", ".join(sorted(path.stem for path in conf_directory().glob("model/*.yaml"))) + "\n"
EXPERIMENTS = ", ".join(sorted(path.stem for path in conf_directory().glob("experiment/*.yaml"))) + "\n"
TYPED = yaml.safe_load(Path(__file__).with_name("errors.yaml").read_text()) | {
    "model=bse": ["unknown model 'bse'", "did you mean 'base'", "all choices: python -m harness --help model\n"],
    "-m model=base,nope": ["unknown model 'nope'", MODELS],
    "enhancement=[swiglu,window]": [
        "'window'",
        "did you mean 'windowed'",
        "all choices: python -m harness --help enhancement\n",
    ],
    "+experiment=all": ["unknown experiment 'all'", EXPERIMENTS],
    "finetune.batch_size=" + "9" * 400: ["finetune.batch_size=999", "must be at most 1000000000"],
    "study=\udcff": ["study=\\udcff is not UTF-8: expected text\n"],
    "model.init_from=" + "x" * 300: ["model.init_from=xxx", "(File name too long)"],
}


@pytest.mark.long
@pytest.mark.parametrize("typed", TYPED)
def test_wrong_input_is_one_line(tell, typed):
    printed = tell(*typed.split(" "))
    printed.left = [path for path in printed.left if not path.startswith(("cache/corpus-", ".made-by"))]  # text prepared
    assert_refused(printed, *TYPED[typed])


@pytest.mark.long
@pytest.mark.parametrize("option", ["--config-dir", "-cd", "--config-dir="])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_user_folder_with_an_unknown_key_is_refused(tell, tmp_path, option, place):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "mine.yaml").write_text("# mine\nhidden_sise: 128\n")
    folder = str(tmp_path / "conf")
    arguments = ["model=mine", "seed=1"]
    arguments[place:place] = [option + folder] if option.endswith("=") else [option, folder]
    assert_refused(tell(*arguments), "hidden_sise")


@pytest.mark.long
def test_run_is_the_command_that_needs_no_name(capsys):
    assert (main(["run", "modle=base"]), main(["modle=base"])) == (2, 2)
    one, two = capsys.readouterr().err.splitlines()
    assert one == two
    assert one.startswith("harness: unknown key 'modle'")


def test_option_without_its_value_is_one_line(capsys):
    assert main(["model=base", "--config-dir"]) == 2
    assert capsys.readouterr().err == "harness: --config-dir needs a value, such as --config-dir FOLDER\n"


@pytest.mark.long
def test_full_error_shows_the_traceback_before_the_line(monkeypatch, capsys):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert main(["finetune.lr=1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any("omegaconf" in line and line.startswith("  File ") for line in lines), "Hydra's own frames are there"
    assert lines[-1].startswith("harness: unknown key 'finetune.lr'")
    assert main(["epochs=0"]) == 2
    assert capsys.readouterr().err.startswith("Traceback")


@pytest.mark.long
def test_verbose_shows_the_traceback_and_where_configuration_is_read_from(run_module):
    done = run_module("harness", "task=bag", "finetune.epochs=0", "hydra.verbose=true")
    assert done.returncode == 2
    assert "[harness.config.compose][DEBUG] configuration is read from " in done.stderr
    assert "Traceback (most recent call last):" in done.stderr
    assert done.stderr.splitlines()[-1] == "harness: finetune.epochs=0 must be above 0"


@pytest.mark.parametrize("value", [None, "0"])
def test_variables_of_the_user_are_left_alone(monkeypatch, capsys, value):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    if value is not None:
        monkeypatch.setenv("HYDRA_FULL_ERROR", value)
    assert main(["modle=base", "hydra.verbose=false"]) == 2
    assert os.environ.get("HYDRA_FULL_ERROR") == value
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.long
def test_one_bad_value_in_a_sweep_stops_all_of_it_in_a_process_too(run_module, tmp_path):
    """The same as in this process, and nothing of Hydra's own is printed or left."""
    done = run_module("harness", "-m", "model=base,nope", "task=bag")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("harness: unknown model 'nope'; choices for `model`: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "refused",
    [
        *(["-m", "seed=range(1,0)"], ["-m", "model=base,nope"], ["-m", "model=base,albert", "arm=same"]),
        *(["-m", "seed=1,2", "finetune.adam_betas=[0.9]"], ["-m", "seed=1,2", "study=a,b/c"], ["seed=1,2", "-m", "study=.."]),
    ],
)
def test_a_refused_sweep_leaves_nothing(monkeypatch, capsys, tmp_path, refused):
    monkeypatch.chdir(tmp_path)
    assert main(["task=bag", *refused]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["seed=1,2"], "'seed=1,2' names several values: add -m to sweep over them; a list is KEY=[A,B]\n"),
        (["seed=range(1,4)"], "'seed=range(1,4)' names several values: add -m to sweep over them"),
        *(
            ([word], f"{word!r} cannot be read as KEY=VALUE: close brackets and quotation marks, put commas between")
            for word in ("task.grammar=[1,", "task.headline=${", "seed=1,2,", "task.fields=[a,,b,]", "study='a")
        ),
        (["output=/tmp/" + "x" * 300], "output=/tmp/xxxx"),
        (["~model"], "~model leaves out a group that every run needs: choose model=NAME instead"),
        (["output=/proc/x"], "output='/proc/x' must be a writable folder: /proc: No such file or directory"),
    ],
)
def test_an_override_that_cannot_be_used_is_named_in_our_words(monkeypatch, capsys, tmp_path, arguments, line):
    monkeypatch.chdir(tmp_path)
    assert main(["task=bag", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"harness: {line}")
    assert list(tmp_path.iterdir()) == []


ROWS = {"sentence": ["a fine film", "a dull film", "good", "bad"] * 10, "label": [1, 0, 1, 0] * 10, "idx": list(range(40))}


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A folder with one small data set, laid out as the hub's repositories."""
    root = tmp_path / "data"
    (root / "glue" / "sst2").mkdir(parents=True)
    (root / "glue" / "README.md").write_text(README)
    for split in ("train", "validation"):
        write(root, split, ROWS)
    return root


def file_of(root: Path, split: str) -> Path:
    return root / "glue" / "sst2" / f"{split}-00000-of-00001.parquet"


def write(root: Path, split: str, rows: dict) -> None:
    parquet.write_table(pyarrow.table(rows), file_of(root, split))


def on_local(root: Path, *more: str) -> list[str]:
    of_root = [] if any(word.startswith("data.root=") for word in more) else [f"data.root={root}"]
    return ["task=sst2", "data=local", *of_root, *more]


@pytest.mark.long
def test_local_data_is_accepted_to_begin_with(compose, local, tmp_path):
    from harness.tasks import prepared

    (config,) = compose(*on_local(local, f"output={tmp_path / 'out'}"))
    assert len(prepared.read(config, prepared.prepare(config)).train) == 40


DATA = {
    "root that nobody set": ([], ["data=local", "set data.root"], ["data.root=null"]),
    "missing folder": ([], ["gleu", "task.folder", "glue"], ["task.folder=gleu"]),
    "root one folder too high": (
        [],
        ["data.root='.' has no folder 'glue' (task.folder); did you mean data.root=data?"],
        ["data.root=."],
    ),
    "missing subset": ([], ["sst3", "sst2"], ["task.subset=sst3"]),
    "missing split": ([], ["dev", "validation", "train"], ["task.validation_split=dev"]),
    "truncated file": (
        ["train", lambda content: content[:-100]],
        ["train-00000", "not a readable parquet file", "data.root"],
        [],
    ),
    "empty file": (["validation", lambda content: b""], ["validation-00000"], []),
    "missing column": (
        ["train validation", {"text": ROWS["sentence"], "label": ROWS["label"]}],
        ["'sentence'", "task.fields", "label, text"],
        [],
    ),
    "label out of range": (
        ["validation", ROWS | {"label": [*ROWS["label"][:-1], 2]}],
        ["validation, row 39", "label 2", "task.labels", "0 to 1"],
        [],
    ),
    "hidden label": (["validation", ROWS | {"label": [*ROWS["label"][:-1], -1]}], ["row 39", "label -1", "hidden labels?"], []),
    "missing label": (
        ["train", ROWS | {"label": [None, *ROWS["label"][1:]]}],
        ["train, row 0: there is no label in 'label'"],
        [],
    ),
    "missing text": (
        ["train", ROWS | {"sentence": [*ROWS["sentence"][:5], None, *ROWS["sentence"][6:]]}],
        ["train, row 5"],
        [],
    ),
    "no rows": (["validation", {name: values[:0] for name, values in ROWS.items()}], ["sst2", "cannot be loaded"], []),
}
"""What is wrong -> a split with its rows, or what becomes of its file; what the line has; and settings."""


@pytest.mark.long
@pytest.mark.parametrize("wrong", DATA)
def test_wrong_data_is_one_line(tell, local, wrong):
    changed, fragments, settings = DATA[wrong]
    if changed:
        splits, content = changed
        for split in splits.split():
            if isinstance(content, dict):
                write(local, split, content)
            else:
                file_of(local, split).write_bytes(content(file_of(local, split).read_bytes()))
    assert_refused(tell(*on_local(local, *settings)), *fragments)


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        (None, ["No such file"]),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nfilm\n", ["lacks", "[MASK]"]),
        (b"\xff\xfe\x00", ["UTF-8"]),
    ],
)
def test_wrong_vocabulary_is_one_line(tell, tmp_path, content, fragments):
    path = tmp_path / "vocab.txt"
    if content is not None:
        path.write_bytes(content)
    assert_refused(tell("task=bag", f"tokenizer.vocab_file={path}"), str(path), *fragments)


def test_data_root_without_the_data_names_it_and_what_is_there(tell, local):
    (local / "glue").rename(local / "other")
    assert_refused(tell(*on_local(local)), f"data.root='{local}' has no folder 'glue' (task.folder); folders there: other\n")


@pytest.mark.long
def test_torn_data_is_one_line_in_a_process_too(run_module, local):
    """Where the libraries' own logging has not been captured by a test."""
    path = file_of(local, "train")
    path.write_bytes(path.read_bytes()[:-100])
    done = run_module("harness", *on_local(local))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"harness: task 'sst2', train: {path} is not a readable parquet file")


def test_hub_out_of_reach_points_to_local_data(tell):
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert_refused(tell("task=sst2"), "hub cannot be reached", "nyu-mll/glue", "data=local data.root=FOLDER")


def test_wrong_data_in_a_later_run_stops_the_sweep_before_the_first(tell, local):
    shutil.rmtree(local / "glue")
    assert_refused(tell("-m", "task=sst2,sst2", "data=local", f"data.root={local}", "seed=1,2"), "task.folder")


def test_interrupt_before_any_run_leaves_with_130(monkeypatch, capsys):
    from harness.config import compose

    def interrupt(*_: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compose, "main", interrupt)
    assert main([]) == 130
    assert capsys.readouterr().err == "harness: interrupted\n"


def test_unknown_names_nearest_and_all_choices():
    error = unknown("dish", "sup", ["soup", "salad"], "menu.first")
    assert isinstance(error, InputError)
    assert str(error) == "unknown dish 'sup'; did you mean 'soup'? choices for `menu.first`: salad, soup"


def test_beside_a_near_name_many_choices_are_left_to_a_page_of_help():
    many = [f"soup{number}" for number in range(20)]
    line = str(unknown("dish", "soup1x", many, "menu", page="--help menu"))
    assert line == "unknown dish 'soup1x'; did you mean 'soup1'? all choices: --help menu"
    for few in (unknown("dish", "soup1x", many[:5], "menu", page="--help menu"), unknown("dish", "tea", many, "", page="x")):
        assert str(few).endswith(f": {', '.join(sorted(many[:5] if 'soup1x' in str(few) else many))}")


def test_unknown_without_choices_says_none():
    assert str(unknown("dish", "sup", [], "menu")) == "unknown dish 'sup'; choices for `menu`: none"
