"""What a chapter gives."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Chapter:
    """A part of the report; a chapter without paragraphs is left out."""

    paragraphs: list[str] = field(default_factory=list)  # Markdown
    files: dict[str, bytes] = field(default_factory=dict)  # written beside the report
    summary: list[dict[str, object]] = field(default_factory=list)  # further rows of summary.csv
