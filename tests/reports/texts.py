"""What chapters and their parts say, as the Markdown of report.md and its details."""

from harness.document import Block, markdown


def parts(blocks: list[Block] | Block) -> list[str]:
    """Each paragraph; headings of sections are those of parts of a chapter."""
    return [text for block in (blocks if isinstance(blocks, list) else [blocks]) for text in markdown(block, 3)]


def md(blocks: list[Block] | Block) -> str:
    """All paragraphs."""
    return "\n\n".join(parts(blocks))
