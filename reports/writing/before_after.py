"""One section of the report: the table of one task under the same conditions, notes, differences and details."""

from reports.comparison.compare import Comparison
from reports.comparison.section import Section
from reports.writing import details, notes, tables
from reports.writing.formats import escape


def paragraphs(comparison: Comparison, section: Section, first: list[str], last: list[str]) -> list[str]:
    """Markdown; `first` and `last` are sentences around the notes that every section has."""
    other_conditions = notes.conditions_differences(comparison, section)
    differences = tables.differences(section)
    sentences = [*first, *notes.section_notes(section), *notes.without_score(comparison, section), *last]
    about = "before and after" if len(comparison.labels) > 1 else "measured"
    parts = [f"## {tables.section_name(comparison, section)}: {about}", f"Conditions {escape(section.conditions)}."]
    parts += [other_conditions] if other_conditions else []
    parts.append(tables.before_after(section))
    parts += ["\n".join(f"- {sentence}" for sentence in sentences)] if sentences else []
    parts += [tables.differences_intro(section), differences] if differences else []
    return parts + details.part(section)
