"""A format of the report: the names of its files."""

from harness.reports.render import Format

NAMES = Format(lambda report: {"names.txt": "\n".join(report.files).encode()})
