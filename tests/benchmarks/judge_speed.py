"""`python -m reports judge` of a table with a row for each item, 1,000,000 of them, in each format that is read.

    python tests/benchmarks/judge_speed.py [--rows 1000000]

Items are as many as they can be: five arms, one seed. Nothing here is asserted; meant are 20 s and 1 GB.
"""

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from reports_speed import KINDS, timed

ARMS = 5


def tables(folder: Path, rows: int) -> list[Path]:
    """A table of single items as CSV, Parquet and JSON lines."""
    number = np.arange(rows)
    table = pd.DataFrame({"model": number % ARMS, "task": "task", "seed": 1, "item": number // ARMS})
    table = table.assign(model="model-" + table["model"].astype(str), item="item-" + table["item"].astype(str))
    table["accuracy"] = np.random.default_rng(0).integers(0, 2, rows)
    paths = [folder / f"table.{ending}" for ending in ("csv", "parquet", "jsonl")]
    table.to_csv(paths[0], index=False)
    table.to_parquet(paths[1])
    table.to_json(paths[2], orient="records", lines=True)
    return paths


def main() -> None:
    """Prints each figure of each format."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(1) as other,
    ):  # the peak of a process begins at its parent's
        for path in other.submit(tables, Path(folder), parser.parse_args().rows).result():
            values = zip(KINDS.items(), timed("judge", str(path), "--baseline", "model-0"), strict=True)
            print(path.suffix, ", ".join(f"{kind} {value:.1f} {unit}" for (kind, unit), value in values))


if __name__ == "__main__":
    main()
