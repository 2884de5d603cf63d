"""The chapters of the report, in order: each is one file with a function `chapter(study) -> Chapter` and one line here."""

from reports.chapters import (
    along_pretraining,
    audit,
    components,
    cost,
    diagnostics,
    glue,
    left_out,
    legend,
    overview,
    pictures,
    pretraining,
    scales,
    scaling,
    tasks,
    timing,
)

CHAPTERS = (
    overview.chapter,
    diagnostics.chapter,
    timing.chapter,
    legend.chapter,
    glue.chapter,
    pretraining.chapter,
    tasks.chapter,
    scales.chapter,
    along_pretraining.chapter,
    scaling.chapter,
    cost.chapter,
    pictures.chapter,
    components.chapter,
    audit.chapter,
    left_out.chapter,
)
