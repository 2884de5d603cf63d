"""The hash of a text is kept as long as no file of it changes, and never taken for that of another text."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import paths
from harness.config.choices import CorpusSource, DataSource
from harness.config.schema import CorpusConfig, DataConfig, RunConfig
from harness.corpus import documents as module
from harness.corpus.documents import text_hash

WORDS = ["a fox", "an owl", "a hare", "a vole", "a wolf", "a newt", "a crow", "a toad"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The splits whose documents are read."""
    seen: list[str] = []
    read = module.documents
    monkeypatch.setattr(module, "documents", lambda config, split: seen.append(split) or read(config, split))
    return seen


@pytest.fixture(params=["files", "data"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> RunConfig:
    """A corpus of plain files, or of a local data set."""
    if request.param == "files":
        for name in ("a.txt", "b.txt"):
            (tmp_path / name).write_text("\n\n".join(WORDS))
        corpus = CorpusConfig(name="own", source=CorpusSource.files, files=[str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])
        return RunConfig(corpus=replace(corpus, validation_share=0.5), output=str(tmp_path / "out"))
    folder = tmp_path / "root" / "texts" / "data"
    folder.mkdir(parents=True)
    for shard in range(2):
        pq.write_table(
            pa.table({"text": [f"{word} {shard}" for word in WORDS]}), folder / f"train-0000{shard}-of-00002.parquet"
        )
    corpus = CorpusConfig(name="own", source=CorpusSource.data, folder="texts", validation_split="", validation_share=0.5)
    data = DataConfig(source=DataSource.local, root=str(tmp_path / "root"))
    return RunConfig(corpus=corpus, data=data, output=str(tmp_path / "out"))


def last_file(config: RunConfig) -> Path:
    names = config.corpus.files or sorted(Path(config.data.root).rglob("*.parquet"))
    return Path(names[-1])


def test_unchanged_files_are_read_once(config, reads):
    first = text_hash(config)
    assert reads == ["train", "validation"]
    assert text_hash(config) == text_hash(replace(config, seed=1)) == first
    assert reads == ["train", "validation"]


def test_a_file_that_changes_without_its_size_or_date_is_read_again(config, reads):
    first, path = text_hash(config), last_file(config)
    before, content = path.stat(), path.read_bytes()
    assert b"toad" in content
    path.write_bytes(content.replace(b"toad", b"frog"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert text_hash(config) != first
    assert len(reads) == 4


def test_a_copy_has_the_same_hash(config, tmp_path):
    first, path = text_hash(config), last_file(config)
    shutil.copy(path, tmp_path / "copy")
    shutil.move(tmp_path / "copy", path)
    assert text_hash(config) == first


def test_other_settings_have_hashes_of_their_own(config, reads):
    first = text_hash(config)
    assert text_hash(replace(config, corpus=replace(config.corpus, train_documents=3))) != first
    assert len(reads) == 4


def test_a_corrupt_hash_is_read_anew(config, reads):
    first = text_hash(config)
    (kept,) = (paths.cache_folder(config.output) / "texts").iterdir()
    kept.write_bytes(kept.read_bytes()[:-3])
    assert text_hash(config) == first
    assert len(reads) == 4


def test_generated_text_is_not_kept(tmp_path, reads):
    config = RunConfig(corpus=CorpusConfig(name="b", source=CorpusSource.builtin, documents=20), output=str(tmp_path))
    assert text_hash(config) == text_hash(config)
    assert len(reads) == 4
    assert not (paths.cache_folder(config.output) / "texts").exists()


def test_files_behind_a_linked_folder_are_seen_to_change(tmp_path: Path):
    far, texts = tmp_path / "far", tmp_path / "root" / "texts"
    far.mkdir()
    texts.mkdir(parents=True)
    (texts / "data").symlink_to(far)
    (far / "again").symlink_to(far)  # a circle
    corpus = CorpusConfig(name="own", source=CorpusSource.data, folder="texts", validation_split="", validation_share=0.5)
    config = RunConfig(corpus=corpus, data=DataConfig(DataSource.local, str(tmp_path / "root")), output=str(tmp_path / "out"))
    hashes = []
    for number in range(2):
        pq.write_table(pa.table({"text": [f"{word} {number}" for word in WORDS]}), far / "train-00000-of-00001.parquet")
        hashes.append(text_hash(config))
    assert hashes[0] != hashes[1]
