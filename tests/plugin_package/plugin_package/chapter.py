"""A chapter that greets the arms of a study."""

from harness.document import Section
from harness.reports.chapters import Added, timing
from harness.reports.reading.study import Study
from harness.reports.writing.formats import Chapter


def greeting(study: Study) -> Chapter:
    """Never empty."""
    return Chapter([Section("Greeting", [f"Hello, {', '.join(study.comparison.labels)}."])])


GREETING = Added(greeting, before=timing.chapter)
