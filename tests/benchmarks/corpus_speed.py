"""Text larger than memory: sharded parquet through preparation, in MB a second of one process, and its peak memory by size.

    python tests/benchmarks/corpus_speed.py [--megabytes 100 400 ...]

The text is generated: words of a vocabulary by Zipf's law. Every size is prepared in a fresh process: the documents are
hashed, a tokenizer is trained, the text is tokenised to memory-mapped ids; then again, with files that have not changed, and
batches are read at random places.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import results  # noqa: E402
import rounds  # noqa: E402

WORDS, LETTERS = 50_000, "etaoinshrdlucmfwypvbgkqjxz"
SHARD_BYTES = 50_000_000
DOCUMENT_WORDS = 400


def measure(quick: bool) -> list[dict[str, Any]]:
    """Rates and peaks of two sizes, and how much more memory the larger one takes."""
    return of_sizes((50, 200) if quick else (200, 2000))


def of_sizes(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """The figures of texts of so many MB."""
    found: dict[int, dict[str, float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            written = generate(Path(folder) / "root" / "texts" / "data", size * 1_000_000)
            found[size] = _prepared(Path(folder))
            found[size]["megabytes_per_s"] = written / 1e6 / found[size]["seconds"]
            print(f"{size} MB: {found[size]}", file=sys.stderr, flush=True)
    rows = [
        rounds.row(f"{what}, {size} MB of text", [of[key] * scale], unit)
        for size, of in found.items()
        for what, key, scale, unit in (
            ("preparation", "megabytes_per_s", 1.0, "MB/s"),
            ("the same command again", "again_s", 1.0, "s"),
            ("peak memory of preparation", "peak_bytes", 1e-6, "MB"),
            ("1,000 batches of 32 x 128 tokens", "batches_s", 1.0, "s"),
        )
    ]
    least, most = min(sizes), max(sizes)
    growth = found[most]["peak_bytes"] / found[least]["peak_bytes"]
    return [*rows, rounds.row(f"peak memory of {most} MB / {least} MB", [growth], "x as much")]


def generate(folder: Path, size: int) -> int:
    """Parquet shards with about so many bytes of text; how many they are."""
    folder.mkdir(parents=True)
    stream = np.random.default_rng(0)
    letters = stream.integers(len(LETTERS), size=(WORDS, 12))
    words = np.array(["".join(LETTERS[one] for one in row[: 2 + number % 9]) for number, row in enumerate(letters)])
    shards, written = max(2, -(-size // SHARD_BYTES)), 0
    for shard in range(shards):
        left, texts = size // shards, []
        while left > 0:
            ranks = np.minimum(stream.zipf(1.2, DOCUMENT_WORDS), WORDS) - 1
            texts.append(" ".join(words[ranks]))
            left -= len(texts[-1])
        pq.write_table(pa.table({"text": texts}), folder / f"train-{shard:05d}-of-{shards:05d}.parquet")
        written += size // shards - left
    return written


def _prepared(folder: Path) -> dict[str, float]:
    command = [sys.executable, str(HERE / "corpus_speed.py"), "--here", str(folder)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(results.THREADS))
    out = subprocess.run(command, env=os.environ | threads, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def here(folder: Path) -> dict[str, float]:
    """The figures of the text in this folder, in this process."""

    from harness.config.choices import CorpusSource, DataSource
    from harness.config.schema import CorpusConfig, DataConfig, RunConfig, TokenizerConfig
    from harness.corpus import prepare, sequences

    corpus = CorpusConfig(
        name="generated", source=CorpusSource.data, folder="texts", validation_split="", validation_share=0.01
    )
    data = DataConfig(source=DataSource.local, root=str(folder / "root"))
    tokenizer = TokenizerConfig(train_characters=5_000_000, vocab_size=8192)
    config = RunConfig(corpus=corpus, data=data, tokenizer=tokenizer, output=str(folder / "out"))
    started = time.perf_counter()
    key = prepare.prepare(config)
    took = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    prepare.prepare(config)
    again = time.perf_counter() - started
    read = sequences.Sequences(sequences.read(config.output, key), "train", 128, None, 0)
    started = time.perf_counter()
    for number in range(1000):
        read.batch(*read.chosen(number * 32, 32))
    batches = time.perf_counter() - started
    return {"seconds": took, "again_s": again, "peak_bytes": float(peak), "batches_s": batches}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[50, 200], help="sizes of the text")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(here(options.here)))
        return
    for figure in of_sizes(tuple(options.megabytes)):
        print("{name}: {value:,.4g} {unit}".format(**figure))


if __name__ == "__main__":
    main()
