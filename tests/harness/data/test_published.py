"""Tokenizers of published folders: the pieces are those of transformers' own classes, or one line names what is refused."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from drawn_tokenizers import SPECIAL, SPLIT, Drawn, ids_of_transformers, ours
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data import published
from harness.data.tokenizer import build
from harness.errors import InputError
from harness.tasks.base import Examples
from harness.tasks.tagging import Tokens

FOLDERS = 400
TAGGED, ROW = TaskConfig(name="tags", max_length=512), Examples([SPLIT], [[0] * len(SPLIT)], [0], "here")


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(50)
    yield
    transformers.logging.set_verbosity(level)


def compare(tmp_path: Path, seeds: range) -> int:
    """Number of folders that both read, each to equal pieces; the others are refused in one line that names the folder."""
    equal = 0
    for seed in seeds:
        folder = Drawn(tmp_path / str(seed), seed).folder
        expected, found = ids_of_transformers(folder), ours(folder)
        if isinstance(found, str):
            assert str(folder) in found
            assert "\n" not in found
        elif expected is not None:
            assert found == expected, f"seed {seed}, {folder}"
            tagged = Tokens().encode(TAGGED, build(TokenizerConfig(file=str(folder)), ()), ROW)
            assert tagged.ids.tolist() == expected[-1][0], f"seed {seed}, {folder}"
            equal += 1
    return equal


@pytest.mark.long
def test_drawn_folders_have_the_pieces_of_transformers_or_one_line(tmp_path):
    assert compare(tmp_path, range(FOLDERS // 5)) > FOLDERS // 5 * 0.5


@pytest.mark.long
def test_many_drawn_folders_have_the_pieces_of_transformers_or_one_line(tmp_path):
    assert compare(tmp_path, range(FOLDERS // 5, FOLDERS)) > FOLDERS * 0.4


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all values in a JSON object, but for pieces of the vocabulary."""
    members = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for name, member in members:
        yield (*path, name)
        yield from () if name in ("vocab", "merges") else places(member, (*path, name))


@pytest.mark.parametrize("seed", range(40))
def test_wrong_values_are_read_or_one_line(tmp_path, seed):
    folder, draw = Drawn(tmp_path / "a", seed).folder, random.Random(seed)
    path = draw.choice(sorted(folder.glob("*.json")))
    content = json.loads(path.read_text())
    *inside, last = draw.choice([*places(content)])
    at = content
    for name in inside:
        at = at[name]
    at[last] = draw.choice([None, True, -1, 1.5, "x", "", [], [1], {}, {"a": 1}, 10**30])
    path.write_text(json.dumps(content))
    found = ours(folder)
    assert not isinstance(found, str) or (str(folder) in found and "\n" not in found)


def test_what_tokenizer_json_says_otherwise_is_noted(tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    whole = Tokenizer(WordPiece({piece: number for number, piece in enumerate([*SPECIAL.values(), "Fox", "fox"])}))
    whole.normalizer, whole.pre_tokenizer = normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()
    whole.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert published.read(folder)[1] == ()
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    text, (note,) = published.read(folder)
    assert Tokenizer.from_str(text).encode("Fox").tokens == ["[CLS]", "fox", "[SEP]"]
    assert note.endswith("its normalizer differs from BertTokenizer as tokenizer_config.json sets it, which is read")


@pytest.mark.parametrize("names", [None, ["input_ids", "token_type_ids"], ["input_ids", "attention_mask"]])
def test_a_second_text_has_the_type_that_the_model_gets(tmp_path, names):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL.values(), "fox"]))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_input_names": names} if names else {}))
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path)
    found = Tokenizer.from_str(published.read(tmp_path)[0]).encode("fox", "fox")
    assert (found.ids, found.type_ids) == (
        reader("fox", "fox")["input_ids"],
        reader("fox", "fox").get("token_type_ids", [0] * 5),
    )


def words_of(folder: Path, kind: str | None, **settings: object) -> Path:
    """A folder of whole words."""
    whole = Tokenizer(WordPiece({piece: number for number, piece in enumerate([*SPECIAL.values(), "fox"])}))
    whole.add_special_tokens([*SPECIAL.values()])
    whole.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": kind} if kind else {}))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("kind", ["mra", "fnet", "qwen3", "of_nobody", None])
def test_a_model_type_without_a_class_here_is_read_as_transformers_does(tmp_path, kind):
    folder = words_of(tmp_path, kind)
    assert ours(folder) == ids_of_transformers(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fast_tokenizer_files": ["tokenizer.4.0.0.json"]}, "fast_tokenizer_files=.* cannot be kept: expected"),
        ({"cls_token": None}, "cls_token=None cannot be read: expected a piece, which BertTokenizer needs"),
        ({"unk_token": None}, "unk_token=None cannot be read: expected a piece, which BertTokenizer needs"),
    ],
)
def test_settings_that_lead_elsewhere_are_refused(tmp_path, settings, message):
    assert isinstance(ours(words_of(tmp_path, "bert", fast_tokenizer_files=["tokenizer.json"], cls_token="[CLS]")), list)
    with pytest.raises(InputError, match=message):
        published.read(words_of(tmp_path, "bert", **settings))


def test_a_file_on_which_the_library_panics_is_one_line(tmp_path):
    folder = words_of(tmp_path, "roberta")
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "continuing_subword_prefix": "##"}
    whole = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(whole | {"model": model}))
    with pytest.raises(InputError, match=r"no tokenizer can be built of its files \(PanicException: "):
        published.read(folder)


def test_a_broken_sentencepiece_file_is_refused_with_the_cure(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    (tmp_path / "spiece.model").write_bytes(b"x")
    with pytest.raises(InputError, match=r"only transformers reads spiece\.model .*; nor by transformers \("):
        published.read(tmp_path)
