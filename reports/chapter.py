"""What a part of the report adds to it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Chapter:
    """Markdown paragraphs, and the files that stand beside the report; a chapter without paragraphs is not there."""

    paragraphs: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
