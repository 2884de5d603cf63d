"""What chapters and their parts say, as the Markdown of report.md and its details."""

from harness.document import Block, markdown


def parts(blocks: list[Block] | Block) -> list[str]:
    """Each paragraph; headings of sections are those of parts of a chapter."""
    return [text for block in (blocks if isinstance(blocks, list) else [blocks]) for text in markdown(block, 3)]


def md(blocks: list[Block] | Block) -> str:
    """All paragraphs."""
    return "\n\n".join(parts(blocks))


def lines(text: str) -> list[list[str]]:
    """Cells of each row of the tables in this text."""
    return [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in text.splitlines() if row.startswith("|")]


def line(text: str, label: str) -> list[str]:
    """Cells of the first row that begins with `label`."""
    return next(cells for cells in lines(text) if cells[0] == label)


def rows(text: str) -> dict[str, list[str]]:
    """First cell of a row -> the others."""
    return {first: others for first, *others in lines(text)}
