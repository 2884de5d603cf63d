"""Files of the user's own that are torn: the line is named before a loader guesses."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig
from harness.errors import InputError
from harness.tasks import kind_of
from harness.tasks.rows import Table, load_table, with_labels

KINDS = ("csv", "tsv", "jsonl", "parquet")


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str, bytes], str]:
    """The one-line error for a file of this name with these bytes."""

    def message_of(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        task = TaskConfig(name="own", fields=["text"], label="y", labels=["neg", "pos"], train_file=str(tmp_path / name))
        with pytest.raises(InputError) as error:
            load_table(RunConfig(task=task), "train")
        assert "\n" not in str(error.value)
        return str(error.value)

    return message_of


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_of_utf_16_is_one_line_with_the_cure(refused, encoding):
    message = refused("a.csv", ("text,y\n" + "fine,pos\n" * 64).encode(encoding))
    assert message.startswith("task 'own', train (a.csv), line 1: ")
    assert "save the file of task.train_file as UTF-8" in message


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Table]:
    """The rows of a file of this name with these bytes."""

    def table_of(name: str, content: bytes, **keys: object) -> Table:
        (tmp_path / name).write_bytes(content)
        fields = {"name": "own", "fields": ["text"], "label": "y", "labels": ["neg", "pos"], "item": ""}
        task = TaskConfig(**fields | {"train_file": str(tmp_path / name)} | keys)
        return load_table(with_labels(RunConfig(task=task)), "train")

    return table_of


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"text,y\n007,pos\n1e5,neg\n"),
        ("a.csv", b"text;y\n007;pos\n1e5;neg\n"),
        ("a.csv", b"text\ty\n007\tpos\n1e5\tneg\n"),
        ("a.csv", b"text|y\n007|pos\n1e5|neg\n"),
        ("a.csv", b"y;text;a,b,c\npos;007;\nneg;1e5;\n"),
        ("A.CSV", b"\xef\xbb\xbftext,y\r\n007,pos\r\n1e5,neg\r\n"),
        ("a.tsv", b"text\ty\n007\tpos\n1e5\tneg\n"),
        ("a.csv.gz", gzip.compress(b"text,y\n007,pos\n1e5,neg\n", mtime=0)),
        ("a.jsonl", b'{"text": "007", "y": "pos"}\n{"text": "1e5", "y": "neg"}\n'),
        ("a.json", b'{"text": "007", "y": "pos"}\n{"text": "1e5", "y": "neg"}\n'),
        ("a.json", b'[{"text": "007", "y": "pos"},\n {"text": "1e5", "y": "neg"}]\n'),
        ("a.json", b'{"data": [{"text": "007", "y": "pos"}, {"text": "1e5", "y": "neg"}]}'),
    ],
)
def test_every_written_form_of_a_table_gives_the_same_rows(read, name, content):
    assert read(name, content).columns == {"text": ["007", "1e5"], "y": [1, 0]}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        *[(f"a.{kind}", b"", f"a.{kind}' is empty") for kind in KINDS],
        (
            "a.csv",
            b"text,y\nfine,pos\nna\xefve,neg\n",
            "line 3: byte 0xef is not UTF-8; save the file of task.train_file",
        ),
        ("a.jsonl", b'{"text": "a"}\n{}\n{"text": "na\xefve"}\n', "train (a.jsonl), line 3: byte 0xef is not UTF-8"),
        (
            "a.csv",
            b"text,y\nfi\0ne,pos\n",
            "line 2: there is a NUL byte; save the file of task.train_file as UTF-8",
        ),
        ("a.jsonl", b'{"text": "a"}\nfi\0ne,pos\n', "line 2: there is a NUL byte"),
        (
            "a.csv",
            b"text,y\na,pos\nc,pos,more\nd,neg\n",
            "line 3: expected 2 columns, as in the header, got 3; fix the file",
        ),
        ("a.tsv", b"text\ty\na\tpos\nc\nd\tneg\n", "(a.tsv), line 3: expected 2 columns, as in the header, got 1"),
        ("a.csv", b'text,y\na,pos\n"open,pos\nb,neg\n', "line 3: a quotation mark opens here and is not closed"),
        ("a.csv", b'text,y\n"open,pos\nb,"neg"\n', "line 2: ',' expected after '\"' in line 3"),
        ("a.csv", b"text,y,y\na,pos,neg\n", "names a column twice"),
        ("a.csv", b"text,y\na,pos\ntext,y\nb,neg\n", "line 3: the header stands here again"),
        ("a.jsonl", b'{"text": "a", "y": "pos"}\n\n{"text": "b", "y"\n', "train (a.jsonl), line 3: not JSON"),
        ("a.jsonl", b'["b", "pos"]\n', "line 1: expected an object"),
        ("a.jsonl", b'{"text": "a", "y": "pos", "y": "neg"}\n', "line 1: not JSON (two keys 'y' in one object)"),
        ("a.tsv", b"text\ty\na\rb\tpos\n", "(a.tsv), line 2: there is a carriage return without a line feed; fix the file"),
        ("a.csv.gz", gzip.compress(b"text,y\n" + b"a,pos\n" * 50, mtime=0)[:-12], "incomplete gzip file"),
        ("a.csv", b"text,y\ra,pos\r", "line 1: there is a carriage return without a line feed"),
        ("a.json", b'{"text": {"0": "a"}, "y": {"0": "pos"}}', "expected a list of objects, or SQuAD's `data`"),
        ("a.json", b'{"train": [{"text": "a", "y": "pos"}]}', "expected a list of objects, or SQuAD's `data`"),
        (
            "a.jsonl",
            b'{"text": "a", "y": "pos", "answer": "accept", "_task_hash": 1}\n'
            b'{"text": "b", "y": "pos", "answer": "ignore", "_task_hash": 2}\n',
            "line 2: answer='ignore' of Prodigy: expected accepted rows alone in the file of task.train_file",
        ),
        ("a.json", b'[{"text": ', "not JSON (Expecting value: line 1 column 11"),
        ("a.tsv", b"text,y\na,pos\n", "(a.tsv): ',' separates the columns, not a tab: name the file of task.train_file .csv"),
        ("a.json", b"[1]", "expected a list of objects, or SQuAD's `data`"),
        ("a.json", b'{"data": [{"paragraphs": [{"qas": [{"id": 1}]}]}]}', "not nested like SQuAD"),
        (
            "a.json",
            b'{"data": [{"paragraphs": [{"context": "a", "qas": [{"is_impossible": "false"}]}]}]}',
            "is_impossible='false'",
        ),
        ("a.conll", b"Ana B-PER\n", "set task.kind=tokens"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_one_line(refused, name, content, expected):
    assert expected in refused(name, content)


WORDS = [["Ana", "Kova", "lives"], ["in", "Mel"]]
TAGS = [["B-PER", "I-PER", "O"], ["O", "B-LOC"]]


@pytest.mark.parametrize(
    ("name", "content", "keys"),
    [
        ("a.conll", "-DOCSTART- -X- O\n\nAna NN B-PER\nKova NN I-PER\nlives VB O\n\n\nin IN O\nMel NN B-LOC\n", {}),
        ("a.iob", "Ana\tB-PER\nKova\tI-PER\nlives\tO\n\nin\tO\nMel\tB-LOC", {}),
        ("a.txt", "Ana B-PER x\r\nKova I-PER y\r\nlives O z\r\n\r\nin O x\r\nMel B-LOC x\r\n", {"label": "1"}),
        ("a.tsv", "text\ty\nAna\tB-PER\nKova\tI-PER\nlives\tO\n\nin\tO\nMel\tB-LOC\n", {}),
        ("a.tsv", "words\ttag\nAna\tB-PER\nKova\tI-PER\nlives\tO\n\nin\tO\nMel\tB-LOC\n", {}),
        ("a.tsv", "y\tpos\ttext\nB-PER\tN\tAna\nI-PER\tN\tKova\nO\tV\tlives\n\nO\tP\tin\nB-LOC\tN\tMel\n", {}),
        (
            "a.conllu",
            "# sent_id = 1\n1\tAna\tB-PER\n2\tKova\tI-PER\n3\tlives\tO\n\n# text = in Mel\n1\tin\tO\n2\tMel\tB-LOC\n",
            {"fields": ["1"], "label": "2"},
        ),
        (
            "a.conllu",
            "1-2\tAnaKova\t_\n1\tAna\tB-PER\n2\tKova\tI-PER\n2.1\tis\t_\n3\tlives\tO\n\n1\tin\tO\n2\tMel\tB-LOC\n",
            {},
        ),
        ("a.conll", "#\thttp://a [2009]\n1\tAna\tB-PER\n2\tKova\tI-PER\n3\tlives\tO\n\n1\tin\tO\n2\tMel\tB-LOC", {}),
        ("a.conll", "Ana\tB-PER\t\nKova\tI-PER\t\nlives\tO\t\n\t\nin\tO\t\nMel\tB-LOC\t\n", {}),
        ("a.conll", "0 Ana B-PER\n1 Kova I-PER\n2 lives O\n\n0 in O\n1 Mel B-LOC\n", {}),
        ("a.conll", "1 Ana B-PER\n2 Kova I-PER\n3 lives O\n\n4 in O\n5 Mel B-LOC\n", {}),
        ("a.tsv", "-DOCSTART- (1)\tO\n\nAna\tB-PER\nKova\tI-PER\nlives\tO\n\nin\tO\nMel\tB-LOC\n", {}),
    ],
)
def test_columns_of_words_are_sentences(read, name, content, keys):
    table = read(name, content.encode(), kind=TaskKind.tokens, labels=["O", "B-LOC", "B-PER", "I-PER"], **keys)
    words, tags = (table.columns[column] for column in (keys.get("fields", ["text"])[0], keys.get("label", "y")))
    assert (words, [[["O", "B-LOC", "B-PER", "I-PER"][tag] for tag in row] for row in tags]) == (WORDS, TAGS)


def test_a_hash_is_a_word_where_it_has_a_tag(read):
    table = read("a.conll", b"# a comment\n# O\nAna B-PER\n", kind=TaskKind.tokens, labels=["O", "B-PER"])
    assert table.columns == {"text": [["#", "Ana"]], "y": [[0, 1]]}


def test_white_space_of_other_kinds_is_part_of_a_word(read):
    table = read("a.conll", "Ana\u00a0K\u3000 B-PER\n\u2028  O\n".encode(), kind=TaskKind.tokens, labels=["O", "B-PER"])
    assert table.columns == {"text": [["Ana\u00a0K\u3000", "\u2028"]], "y": [[1, 0]]}


def test_a_line_of_words_with_other_columns_is_named(read):
    with pytest.raises(InputError, match=r"\(a\.conll\), line 2: 2 columns, but 3 before"):
        read("a.conll", b"Ana N B-PER\nlives O\n", kind=TaskKind.tokens, labels=["O", "B-PER"])
    numbers = b"1 CD O\n2 CD O\n\nAna NNP B-PER\n"
    with pytest.raises(InputError, match=r"\(a\.conll\), line 4: the words have no numbers before them"):
        read("a.conll", numbers, kind=TaskKind.tokens, labels=["O", "B-PER"])
    with pytest.raises(InputError, match=r"\(a\.conll\), line 1: the words are numbers alone: task\.fields=\[NUMBER\]"):
        read("a.conll", b"1 Ana B-PER\n1 lives O\n", kind=TaskKind.tokens, labels=["O", "B-PER"])
    columns = read("a.conll", numbers, kind=TaskKind.tokens, labels=["O", "B-PER"], fields=["0"]).columns
    assert columns["0"] == [["1", "2"], ["Ana"]]
    with pytest.raises(InputError, match=r"'text'; choices for `task\.fields`: form, pos, tag"):
        read("a.tsv", b"form\tpos\ttag\nAna\tN\tB-PER\n", kind=TaskKind.tokens, labels=["O", "B-PER"])


def test_squads_own_file_is_read(read):
    answers = [{"text": "Mel", "answer_start": 13}]
    questions = [{"id": "a", "question": "Where?", "answers": answers, "is_impossible": False}]
    questions += [{"id": "b", "question": "When?", "answers": [], "plausible_answers": answers, "is_impossible": True}]
    article = {"title": "t", "paragraphs": [{"context": "Ana lives in Mel.", "qas": questions}]}
    content = json.dumps({"version": "v2.0", "data": [article]}).encode()
    keys = {"kind": TaskKind.spans, "fields": ["question", "context"], "label": "answers", "labels": [], "item": "id"}
    table = read("dev-v2.0.json", content, **keys)
    assert table.items == ["a", "b"]
    assert table.columns["context"] == ["Ana lives in Mel."] * 2
    task = TaskConfig(name="own", **keys)
    assert kind_of(task).examples(task, table).labels == [[("Mel", 13)], []]


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0c", "\x1c"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_other_ends_of_lines_are_characters_of_a_text(tmp_path, kind, character):
    rows = {"csv": f"text,y\na{character}b,pos\n", "tsv": f"text\ty\na{character}b\tpos\n"}
    rows["jsonl"] = json.dumps({"text": f"a{character}b", "y": "pos"}, ensure_ascii=False) + "\n"
    (tmp_path / f"a.{kind}").write_bytes(rows[kind].encode())
    task = TaskConfig(name="own", fields=["text"], label="y", labels=["neg", "pos"], train_file=str(tmp_path / f"a.{kind}"))
    assert load_table(RunConfig(task=task), "train").columns["text"] == [f"a{character}b"]
