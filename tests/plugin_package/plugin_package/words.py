"""The command `words`."""

from dataclasses import dataclass

from harness.grammar import key


@dataclass(frozen=True)
class Words:
    """Counts the words of a text."""

    text: str = key(meaning="the text")


def main(options: Words) -> int:
    """0."""
    print(f"{len(options.text.split())} words")
    return 0
