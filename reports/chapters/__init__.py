"""The chapters of the report, in order: each is one file with a function `chapter(study) -> Chapter` and one line here."""

from reports.chapters import (
    along_pretraining,
    audit,
    components,
    conditions,
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
    glue.chapter,
    tasks.chapter,
    pretraining.chapter,
    diagnostics.chapter,
    components.chapter,
    scales.chapter,
    along_pretraining.chapter,
    scaling.chapter,
    cost.chapter,
    pictures.chapter,
    audit.chapter,
    timing.chapter,
    left_out.chapter,
    legend.chapter,
    conditions.chapter,
)
