"""The opening of a report as a comment for a pull request: Markdown of at most 30 lines, for GitHub and GitLab."""

from harness.document import MOST_ARMS, Table, markdown
from harness.reports.render import Files, Format, Report
from harness.reports.writing.formats import escape

MOST_LINES = 30


def comment(report: Report) -> Files:
    """`comment.md`: what was compared, the answer, the first table, and what its signs say."""
    texts = [f"### {escape(report.study)}"]
    for block in report.document.sections[0].blocks:
        if isinstance(block, Table):
            rows = block.rows
            texts += markdown(Table(block.head, rows[:MOST_ARMS], block.left))
            more = len(rows) - MOST_ARMS
            texts += [f"and {more} more arm{'s' * (more > 1)}"] if more > 0 else []
            break
        texts += [block] if isinstance(block, str) else []
    screen = report.document.screen
    texts += [f"<sub>{' '.join(' '.join(screen.notes).split())}</sub>"] if screen else []
    lines = [line for text in texts for line in (*text.split("\n"), "")]
    return {"comment.md": "\n".join([*lines[: MOST_LINES - 1], ""]).encode()}


COMMENT = Format(comment)
