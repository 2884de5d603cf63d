"""Puts the report together: the files' names and their whole content, before anything is written."""

from collections.abc import Sequence

from reports import details, diagnostics, glue, noise, notes, plots, pretrain_plots, pretraining, tables
from reports.chapter import Chapter
from reports.compare import Comparison, Section
from reports.formats import escape
from reports.pretrain_plots import Curves
from reports.statistics import CONFIDENCE, sign_flip_floor
from reports.summary import summary

LEGEND = """\
**How to read the tables.** A cell shows the mean over seeds, ± its sample standard deviation where several seeds ran (of
latency p50 and inference throughput over launches), and below it the change against {baseline}: in percent of the baseline's
value, for a score or a share in points (1 point = 0.01) and percent. Changes compare means over the seeds that both have, and
of latency p50 and inference throughput over the launches of one session.

| mark | meaning |
| :-- | :-- |
| ▲ better / ▼ worse | The triangle judges; it does not say that the number rose or fell. Less is better for parameters, \
FLOPs, time, memory and losses, more for throughput, scores and masked accuracy. Filled: counted exactly, or the \
{level:.0%} interval of the differences paired by seed or by round leaves 0 out, and a timing exceeds the noise floor. |
| △ better? / ▽ worse? | One seed or launch only: a direction. One carries no evidence. |
| ~ | Unclear: the {level:.0%} interval includes 0. |
| ≈ | Within noise: a timing that changed by no more than the noise floor of its session, or whose {level:.0%} interval \
includes 0. No difference. |
| = | No change. |
| – | Not measured, or nothing to compare with. Behind the change of a timing: no verdict, for it was not measured \
side by side or no noise floor is known. |

k, M, G, T and P are powers of ten (1 MB = 10^6 bytes); one multiply-add is 2 FLOP."""
OVERVIEW = "The headline score of every task, mean ± standard deviation over seeds."
OF_PRETRAINING = " Of pretraining, the share of masked held-out tokens that are told; its head is not in the parameters."
DIFFERENCES = """\
Differences, variant minus {baseline}, paired by seed (launches by round, in percent): mean [{level:.0%} t interval],
verdict{p}. No interval is corrected for the number of comparisons."""
P = ", and p of the exact sign-flip test (which {pairs} pairs cannot bring below {floor:.2g})"
COMPONENTS = "The components add up to the total; *effective* counts a shared layer once for every use."
CAPTIONS = {
    "score_parameters.svg": "Score against parameters; error bars are one standard deviation over seeds",
    "score_latency.svg": "Score against latency; error bars are one standard deviation over seeds, of latency over launches",
    "masked_loss.svg": "Pretraining: loss and accuracy on masked held-out tokens against what was spent, mean over seeds",
    "pretrain_loss.svg": "Pretraining: training loss against tokens, one panel an objective (losses of two do not compare)",
    "loss.svg": "Training loss, mean over seeds at the steps that all have, smoothed over a twentieth of the curve",
    "parameters.svg": "Parameters by component",
}
TRAINING_LOSS = "finetune/loss"
CURVES = (TRAINING_LOSS, *pretrain_plots.CURVES)
"""Metrics whose history a report shows."""
PHASES = {"model": "at the dimensions that were run", "published": "at the published dimensions (BERT-base)"}


def render(
    comparison: Comparison,
    curves: Curves,
    glue_without: tuple[str, ...] = glue.LEFT_OUT,
    chapters: Sequence[Chapter] = (),
) -> dict[str, bytes]:
    """File name -> content of `report.md`, `summary.csv` and those pictures that there are numbers for.

    `glue_without` names tasks that the average over GLUE leaves out; chapters stand before the pictures.
    """
    of_glue = glue.glue_of(comparison, glue_without)
    groups = component_groups(comparison)
    pictures = _pictures(comparison, groups, curves)
    parts = [
        f"# Report: {escape(comparison.study)}",
        notes.header(comparison),
        *_overview(comparison),
        *diagnostics.part(comparison),
        *noise.part(comparison),
        LEGEND.format(baseline=escape(comparison.baseline), level=CONFIDENCE),
        *(_glue(of_glue) if of_glue else []),
        *(part for section in comparison.sections for part in _section(comparison, section)),
        *(paragraph for chapter in chapters for paragraph in chapter.paragraphs),
        *_pictured("Pictures", [name for name in pictures if name != "parameters.svg"]),
        *_components(groups),
        *_pictured("", [name for name in pictures if name == "parameters.svg"]),
    ]
    if comparison.left_out:
        parts += ["## Runs that do not count", notes.left_out(comparison.left_out)]
    report = "\n\n".join(parts) + "\n"
    for chapter in chapters:
        pictures |= chapter.files
    return pictures | {
        "summary.csv": summary(comparison, glue.summary_lines(of_glue) if of_glue else []),
        "report.md": report.encode(),
    }


def _overview(comparison: Comparison) -> list[str]:
    if len(comparison.sections) < 2:
        return []
    return [
        "## Overview",
        OVERVIEW + (OF_PRETRAINING if any(section.is_pretraining for section in comparison.sections) else ""),
        tables.overview(comparison),
    ]


def _glue(of_glue: glue.Glue) -> list[str]:
    differences = glue.differences(of_glue)
    parts = ["## GLUE", glue.table(of_glue), glue.rule(of_glue)]
    sections = of_glue.sections
    return parts + ([_differences_intro(max(sections, key=_pairs)), differences] if differences else [])


def _section(comparison: Comparison, section: Section) -> list[str]:
    protocols = notes.protocol_differences(comparison, section)
    differences = tables.differences(section)
    parts = [f"## {tables.section_name(comparison, section)}: before and after", f"Protocol {escape(section.protocol)}."]
    parts += [protocols] if protocols else []
    parts.append(tables.before_after(section))
    told = [*pretraining.notes(comparison, section), *notes.section_notes(section), *noise.notes(section), *glue.notes(section)]
    parts += ["\n".join(f"- {note}" for note in told)] if told else []
    parts += [_differences_intro(section), differences] if differences else []
    return parts + details.part(section)


def _differences_intro(section: Section) -> str:
    pairs = _pairs(section)
    p = P.format(pairs=pairs, floor=sign_flip_floor(pairs)) if pairs > 1 else ""
    return DIFFERENCES.format(baseline=escape(section.baseline), level=CONFIDENCE, p=p)


def _pairs(section: Section) -> int:
    """The most seeds that a variant shares with the baseline."""
    before = section.before.runs.keys() if section.before else set()
    return max((len(row.runs.keys() & before) for row in section.rows if row is not section.before), default=0)


def component_groups(comparison: Comparison) -> list[tuple[str, str, Section]]:
    """(heading, phase, section) for each distinct table of components; sections whose rows are all alike share one."""
    groups = []
    for phase, where in PHASES.items():
        shared: list[list[Section]] = []
        for section in sorted(comparison.sections, key=lambda section: -len(section.rows)):
            counts = tables.component_counts(section, phase)
            home = next((group for group in shared if counts <= tables.component_counts(group[0], phase)), None)
            if home:
                home.append(section)
            elif counts:
                shared.append([section])
        for group in shared:
            names = ", ".join(tables.section_name(comparison, section) for section in group)
            groups.append((where + (f": {names}" if len(shared) > 1 else ""), phase, group[0]))
    return groups


def _components(groups: list[tuple[str, str, Section]]) -> list[str]:
    headed = [
        part
        for heading, phase, section in groups
        for part in (f"### {heading[0].upper()}{heading[1:]}", tables.components(section, phase))
    ]
    return ["## Parameters by component", COMPONENTS, *headed] if groups else []


def _pictures(comparison: Comparison, groups: list[tuple[str, str, Section]], curves: Curves) -> dict[str, bytes]:
    names = plots.panel_names(comparison)
    drawn = {
        "masked_loss.svg": plots.draw(pretrain_plots.masked_loss, comparison, names, curves),
        "pretrain_loss.svg": plots.draw(pretrain_plots.training_loss, comparison, names, curves),
        "score_parameters.svg": plots.draw(plots.score_against, comparison, names, "model/params_total"),
        "score_latency.svg": plots.draw(plots.score_against, comparison, names, "inference/latency_ms_p50"),
        "loss.svg": plots.draw(plots.loss_curves, comparison, names, curves.get(TRAINING_LOSS, {})),
        "parameters.svg": plots.draw(plots.parameter_bars, groups),
    }
    return {name: picture for name, picture in drawn.items() if picture}


def _pictured(heading: str, names: list[str]) -> list[str]:
    shown = [f"![{CAPTIONS[name]}]({name})\n\n*{CAPTIONS[name]}.*" for name in names]
    return [f"## {heading}", *shown] if heading and shown else shown
