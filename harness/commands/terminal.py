"""Plain text for a terminal."""

Row = tuple[str, ...]


def table(head: Row, rows: list[Row], aligned: str) -> str:
    """Columns under their heads, `l` to the left and `r` to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    sides = {"l": str.ljust, "r": str.rjust}
    texts = ([sides[side](text, width) for text, side, width in zip(line, aligned, widths, strict=True)] for line in lines)
    printed = ["  ".join(line).rstrip() for line in texts]
    return "\n".join([printed[0], "-" * (sum(widths) + 2 * len(widths) - 2), *printed[1:]])
