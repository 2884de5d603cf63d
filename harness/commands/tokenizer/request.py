"""The keys of `python -m harness tokenizer`, read from the command line."""

from dataclasses import dataclass
from pathlib import Path

from harness.commands.arguments import whole_number
from harness.errors import unknown

KINDS = ("wordpiece", "bpe", "unigram", "words")
"""What is compared; `words` has the most frequent words as its pieces, all others are unknown."""

KEYS = {
    "kinds": f"what is trained and compared ({','.join(KINDS)})",
    "run": "folder, name or id of a run of ours: its tokenizer",
    "characters": "of held-out text that is counted, at most (1000000)",
    "out": "folder of the picture (multirun/tokenizer)",
    "runs": "folder of the runs, to find a name or id in (multirun)",
}


@dataclass(frozen=True)
class Request:
    """The command line; `kinds` is empty where only a tokenizer that exists is shown."""

    kinds: tuple[str, ...]
    named: bool  # the kinds are typed
    run: str | None
    characters: int
    out: Path
    runs: str
    is_corpus: bool  # the text is that of the corpus, not of the task


def request_of(values: dict[str, str], is_corpus: bool) -> Request:
    """InputError for a value that cannot be used."""
    kinds = tuple(kind.strip() for kind in values.get("kinds", ",".join(KINDS)).strip("[]").split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS, "kinds")
    return Request(
        kinds=tuple(dict.fromkeys(kinds)),
        named="kinds" in values,
        run=values.get("run"),
        characters=whole_number("characters", values.get("characters", "1000000"), limit=1e12),
        out=Path(values.get("out") or Path("multirun", "tokenizer")),
        runs=values.get("runs", "multirun"),
        is_corpus=is_corpus,
    )
