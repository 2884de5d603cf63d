"""Running text of numbered words, each of which is one piece."""

from pathlib import Path

from harness.config.choices import CorpusSource
from harness.config.schema import CorpusConfig, RunConfig, TokenizerConfig
from harness.corpus import prepare, sequences
from harness.corpus.sequences import Corpus
from harness.data.tokenizer import SPECIAL


def words(first: int, last: int) -> str:
    """`w5 w6 w7` for 5 and 8."""
    return " ".join(f"w{number}" for number in range(first, last))


def config_on(folder: Path, train: str, held_out: str, count: int, *more: str, sentinels: int = 0, **sections) -> RunConfig:
    """A run on these texts, of so many words and of more pieces before them."""
    for name, content in (
        ("a.txt", train),
        ("b.txt", held_out),
        ("vocab.txt", "\n".join([*SPECIAL, *more, *words(0, count).split()])),
    ):
        (folder / name).write_text(content)
    files = {"files": [str(folder / "a.txt")], "validation_files": [str(folder / "b.txt")]}
    corpus = CorpusConfig(name="own", source=CorpusSource.files, **files)
    tokenizer = TokenizerConfig(vocab_file=str(folder / "vocab.txt"), sentinels=sentinels)
    return RunConfig(corpus=corpus, tokenizer=tokenizer, output=str(folder / "out"), **sections)


def read(config: RunConfig) -> Corpus:
    """Its text, prepared."""
    return sequences.read(config.output, prepare.prepare(config))
