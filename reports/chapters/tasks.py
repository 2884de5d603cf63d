"""Every task before and after: its table, notes, differences and details."""

from reports.chapters import glue, pretraining, timing
from reports.comparison.compare import Study
from reports.writing import section_text
from reports.writing.formats import Chapter


def chapter(study: Study) -> Chapter:
    """Empty where the study has pretrainings alone."""
    comparison = study.comparison
    return Chapter(
        [
            paragraph
            for section in comparison.sections
            if not section.is_pretraining
            for paragraph in section_text.paragraphs(
                comparison,
                section,
                first=pretraining.notes_of_task(comparison, section),
                last=[*timing.notes(section), *glue.notes(section)],
            )
        ]
    )
