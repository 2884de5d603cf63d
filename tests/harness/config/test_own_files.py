"""YAML files of the user: one line with the file and the place, before anything is built from them."""

import json
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.config import own_files
from harness.errors import InputError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

UNSOUND = {
    "syntax": (b"attention_window: [1,\n", "line 2, column 1: expected the node content, but found '<stream end>'"),
    "a word that is false": (b"labels: [no, maybe]\n", "line 1, column 10: YAML reads no as true or false: quote it, 'no'"),
    "key twice": (
        b"attention_window: 3\nattention_window: 4\n",
        "line 2, column 1: the key 'attention_window' is a duplicate",
    ),
    "latin 1": ("# plain\n# é\n".encode("latin1"), "line 2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
    "utf 16": ("attention_window: 3\n".encode("utf16"), "line 1: byte 0xff is not UTF-8; save the file as UTF-8"),
    "depth": (b"a: " + b"[" * 3000 + b"]" * 3000, "line 1, column 53: nested deeper than 50 levels"),
    "alias bomb": (BOMB.encode(), "more than 20,000 values, counting aliases"),
    "alias of itself": (b"a: &a [*a]\n", "line 1, column 4: the alias refers to its own container"),
    "unknown alias": (b"a: *x\n", "line 1, column 4: found undefined alias 'x'"),
    "tag": (b"a: !!python/object/apply:os.system ['touch pwned']\n", "the tag !!python/object/apply:os.system is not allowed"),
    "own tag": (b"a: !mine 3\n", "line 1, column 4: the tag !mine is not allowed: plain values only"),
    "NUL": (b"a: \0\n", "is not YAML: unacceptable character #x0000"),
    "list": (b"- 1\n", "line 1, column 1: expected keys with values"),
    "text": (b"hello\n", "line 1, column 1: expected keys with values"),
    "tab": (b"a:\n\t- b\n", "line 2, column 1: found character '\\t' that cannot start any token"),
    "size": (b"# " + b"x" * 1_000_000, "has 1,000,002 bytes: expected at most 1,000,000"),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my" / "model" / "mine.yaml"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.long
@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_file_is_refused_with_its_place(file, name):
    content, line = UNSOUND[name]
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        own_files.refuse_unsound(file)
    assert str(refused.value).startswith(str(file))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "content", [b"", b"# nothing\n", b"\xef\xbb\xbfa: 1\n", b"a: &a [1]\nb: *a\nc: *a\n", b"b: &b {x: 1}\nc: {<<: *b}\n"]
)
def test_a_sound_file_is_taken(file, content):
    file.write_bytes(content)
    own_files.refuse_unsound(file)


@pytest.mark.long
def test_the_home_folder_is_written_in_a_file_as_on_the_command_line(compose, file, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    file.write_text("init_from: ~/weights\n")
    assert [run.model.init_from for run in compose("--config-dir", "my", "model=mine", "task=bag")] == ["/home/me/weights"]


@pytest.mark.long
def test_a_package_behind_a_byte_order_mark_is_read(compose, tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_bytes(b"\xef\xbb\xbf# @package _global_\r\nstudy: mine\r\n")
    assert [run.study for run in compose("--config-dir", str(tmp_path), "+experiment=mine", "task=bag")] == ["mine"]


@pytest.mark.parametrize("name", ["key twice", "latin 1", "alias bomb", "tag"])
def test_the_command_ends_with_one_line_and_leaves_nothing(file, capsys, name):
    file.write_bytes(UNSOUND[name][0])
    assert main(["--config-dir", "my", "model=mine", "task=bag"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), f"{file}" in err) == (1, True)
    assert [path.name for path in Path().rglob("*") if path.is_file()] == ["mine.yaml"]


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"attention_window: " + b"9" * 5000, "cannot be read: Exceeds the limit"),
        (b"_target_: os.system\ncommand: touch pwned\n", "_target_"),
    ],
)
def test_values_that_no_config_has_are_one_line(file, capsys, content, fragment):
    file.write_bytes(content)
    assert main(["--config-dir", "my", "model=mine", "task=bag"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), fragment in err) == (1, True), err
    assert not Path("pwned").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"# @package _global_\npretrain: {from: abc}\n", "unknown key 'pretrain.from'; did you mean 'pretrain.checkpoint'?"),
        (b"# @package _global_\nmodel: albert\n", "choose it by `- override /GROUP: NAME` in `defaults`"),
        (b"seed: 1\n", "'experiment' is a group without keys of its own: choose one by experiment=NAME; a file of it begins"),
    ],
)
def test_an_experiment_that_is_written_like_a_command_says_what_to_write(file, capsys, content, line):
    file.parent.with_name("experiment").mkdir()
    (file.parent.with_name("experiment") / "mine.yaml").write_bytes(content)
    assert main(["--config-dir", "my", "+experiment=mine", "task=bag"]) == 2
    assert line in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("row", "fragment"),
    [
        ('{"sentence": ' + "[" * 100_000, "line 1: not JSON (maximum recursion depth exceeded"),
        ('{"sentence": "a", "label": ' + "9" * 5000 + "}", "line 1: not JSON (Exceeds the limit (4300 digits)"),
        ('{"sentence": "a", "label": }', "line 1: not JSON (Expecting value: line 1 column 28"),
    ],
)
def test_rows_that_no_json_has_are_one_line(file, capsys, row, fragment):
    Path("rows.jsonl").write_text(row + "\n")
    files = ["task.train_file=rows.jsonl", "task.train_split='train[:50%]'", "task.validation_split='train[50%:]'"]
    assert main(["task=own", *files, "task.fields=[sentence]", "task.label=label"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), fragment in err) == (1, True), err


@pytest.mark.long
def test_a_tokenizer_with_a_piece_beyond_its_size_is_refused(file, capsys):
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 4_000_000_000}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    Path("huge.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], **empty, "model": model}))
    assert main(["task=bag", "tokenizer.file=huge.json"]) == 2
    assert "tokenizer.file='huge.json' gives a piece the id 4,000,000,000: expected 0 to 5" in capsys.readouterr().err
