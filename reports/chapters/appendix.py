"""The last pages: runs that do not count, how to read the tables, the commands, and what was run on what."""

import math
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from harness import tags
from harness.comparison.compare import Comparison
from harness.comparison.labels import in_order, seed_order
from harness.comparison.paired import CONFIDENCE, Design, grouped
from harness.comparison.runs import Run, oldest_first
from harness.comparison.verdicts import FEWEST_EXACT
from harness.document import DASH, Block, Bullets, Section
from harness.errors import some_of
from harness.metrics import FEWEST_REPLICATES, HIGHEST_FLOOR, MARGINS, RELATIVE_MARGIN
from harness.reports.reading import folders
from harness.reports.reading.study import Study
from harness.reports.reading.untrusted import command_of
from harness.reports.writing import formats
from harness.reports.writing.formats import POINTS, SHOWN_VALUES, Chapter, code, escape, listed

NOT_RUN = "Planned but not started ({count}); a time budget (`sweep.budget_minutes`) skips such runs: {names}."
MOST_RUNS = 50
SUPERSEDED = {True: "superseded by a newer run", False: "superseded by a newer or measured run"}
"""By whether the run was measured."""


def left_out(study: Study) -> Chapter:
    """Runs that do not count, by name and state; empty if all count."""
    reasons = ((run, run.tags.get(tags.REASON)) for run in study.comparison.left_out)
    runs = [(run, f"{run.status}: {reason}" if reason else run.status) for run, reason in reasons]
    runs += [(run, SUPERSEDED[run.is_measured]) for run in study.comparison.superseded]
    missing = folders.not_run(study.comparison.study, study.output)
    rows = [
        [escape(text) for text in (run.name, *(run.tags.get(tag, DASH) for tag in (tags.ARM, tags.TASK, tags.SEED)), state)]
        for run, state in runs
    ]
    blocks: list[Block] = [formats.table(["run", "arm", "task", "seed", "state"], rows, left=5)] if rows else []
    names = some_of([*map(escape, missing)], MOST_RUNS, "; ")
    blocks += [NOT_RUN.format(count=len(missing), names=names)] if missing else []
    return Chapter([Section("Runs that do not count", blocks)] if blocks else [])


VALUES = """\
Each value is a mean over seeds ± the sample standard deviation (latency and inference throughput: over launches). Below it is
the change from {baseline} in percent; for scores and shares in points (1 point = 0.01), with percent if the baseline is at
least 0.1. Changes use {pairs}, or the launches of one session. Latency is the mean of the launches'
medians. Times, rates and memory are compared as ratios, with geometric means; both value and change are divided by the
reference workload, or neither. Fine-tuning seeds of one pretraining form one cluster, not independent evidence."""
PAIRS = {
    Design.SEEDS: "the seeds that both arms ran",
    Design.RUNS: "all runs of both arms, which do not pair",
    Design.ITEMS: "the items of one run of each arm",
    Design.TASKS: "the tasks, with one run of each arm",
}
"""What repeats -> what a change is computed from."""
MARKS = {
    "▲ better / ▼ worse": """\
The triangle is a judgement, not the direction of the number: lower is better for parameters, FLOPs, time, memory and losses, \
higher for throughput, scores and masked accuracy. Filled: counted exactly, or p < {level:.0f} % in a t test, Holm-corrected \
for all arms of the table in that metric. Scores and losses need {replicates} seeds; score intervals include test-set sampling \
error, from both arms' predictions if kept. Rounds are compared with the mean of the baseline and its A/A replicate; training \
time and memory must change by more than an A/A replicate. From {fewest} pairs, the exact sign-flip test must agree.""",
    "△ better? / ▽ worse?": """\
Single seed or launch: a direction, not evidence. It exceeds the noise floor, or the margin if no floor is known.""",
    "≈ equivalent within X": """\
Counts differ by less than the margin: {margins}. Measured values: no difference was found, and two one-sided t \
tests (TOST) at {level:.0f} % each show it to be below the margin. Their {inner:.0f} % interval, uncorrected, is the one \
shown, marked ({inner:.0f} %). Scores at ceiling are never called equivalent, nor \
are times not compared by round whose noise floor exceeds the margin.""",
    "~ inconclusive": """\
The difference may be 0 or above the margin. Stated is the total number of seeds, rounds or pretrainings that would settle it \
at the measured variance, and their minutes; or why more would not help: the noise floor or test-set sampling error is too \
large for the margin, or both arms are at ceiling.""",
    "=": "No change.",
    DASH: """\
Not measured, or nothing to compare with. After a change in timing: no verdict, as arms were not timed side by side, or the \
noise floor is unknown or above {floor:.0f} %. After a change in score: neither arm is shown to beat the majority baseline.""",
}
"""Mark of a verdict -> what it says."""
UNITS = "k, M, G, T and P are powers of ten (1 MB = 10^6 bytes); one multiply-add is 2 FLOPs."
GLOSSARY = re.findall(
    r"^\| \*\*(.+)\*\* \| (.+?)(?: \(\[how\].*)? \|$", Path(__file__).with_name("glossary.md").read_text(encoding="utf-8"), re.M
)
"""Words and meanings: a report that was sent elsewhere has no docs next to it."""


OF_ONE = """\
Each value is a mean over seeds ± the sample standard deviation (latency and inference throughput: over launches). Means of
times, rates and memory are geometric. {arm} is the only arm; add another (`-m model=A,B`) for a comparison. – means not
measured."""


def legend(study: Study) -> Chapter:
    """How to read the tables; for a single arm without comparisons."""
    score, nats, bits = POINTS * MARGINS["score"].size, MARGINS["nats"].size, MARGINS["bits/byte"].size
    absolute = f"{score:g} point of a score or a share, {nats:g} nats, {bits:g} bits a byte"
    labels, baseline = study.comparison.labels, escape(study.comparison.baseline)
    marks = [
        [
            mark,
            text.format(
                level=100 * (1 - CONFIDENCE),
                inner=100 * (2 * CONFIDENCE - 1),
                fewest=FEWEST_EXACT,
                replicates=FEWEST_REPLICATES,
                margins=f"{absolute}, {100 * RELATIVE_MARGIN.size:g} % of anything else",
                floor=100 * math.expm1(HIGHEST_FLOOR),
            ),
        ]
        for mark, text in MARKS.items()
    ]
    pairs = " or ".join(dict.fromkeys(PAIRS[section.design] for section in study.comparison.selected))
    compared = [VALUES.format(baseline=baseline, pairs=pairs), formats.table(["mark", "meaning"], marks, left=2)]
    values = compared if len(labels) > 1 else [OF_ONE.format(arm=escape(next(iter(labels), "")))]
    return Chapter(
        [Section("How to read the tables", [*values, UNITS, formats.table(["word", "meaning"], GLOSSARY, left=2)], detail=True)]
    )


AGAIN_HEADING = "Run it again"
AGAIN_INTRO = """\
Commands of the runs that count, in order; arms of one command are timed in one session. Finished runs are skipped:
`rerun=true` repeats them, `sweep.retime=true` repeats their timing. Relative paths start where the command was typed."""
MOST_ARMS = 6
"""Arms that are named."""
AGAIN = ("rerun", "sweep.retime", "sweep.quiet", "-q", "--quiet")
"""Keys and options that repeat what is finished, or print less."""


def reproduce(study: Study) -> Chapter:
    """The commands of the runs, one per row; empty if no run recorded one."""
    comparison, rows = study.comparison, []
    labels = {run.run_id: row.label for part in comparison.sections for row in part.rows for run in row.runs}
    for command, runs in commands(run for run in comparison.runs if not run.elsewhere).items():
        arms = in_order({labels[run.run_id] for run in runs}, comparison.baseline)
        rows.append([listed(arms, most=MOST_ARMS), len(runs), code(command)])
    table = formats.table(["arms", "runs", "command"], rows, left=3)
    return Chapter([Section(AGAIN_HEADING, [AGAIN_INTRO, table])] if rows else [])


def commands(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Command for a shell -> its runs, oldest first; passwords in it are hidden, and what calls no harness is left out."""
    typed = ((command_of(run.tags.get(tags.COMMAND, "")), run) for run in oldest_first(runs))
    return grouped(
        (shlex.join(["python", "-m", *(word for word in words if word.lstrip("+").partition("=")[0] not in AGAIN)]), run)
        for words, run in typed
        if words
    )


SHOWN_ELSEWHERE = ("device", "dtype", "threads", "compile", "git_commit", "git_dirty", "load_average", "measure_version")
"""Facts of the environment that another line of the header, or the conditions, show already."""


def conditions(study: Study) -> Chapter:
    """Always there."""
    return Chapter([Section("Conditions", [header(study.comparison)])])


def header(comparison: Comparison) -> Bullets:
    """Study, arms, tasks, seeds, hardware and versions."""
    runs = comparison.runs

    def first_of(values: Iterable[str]) -> str:
        return listed(values, most=SHOWN_VALUES)

    recorded = [run.params.get("environment.load_average", "") for run in runs]
    loads = [float(value) for value in recorded if value.replace(".", "", 1).isdigit()]
    commits = [run.tags.get(tags.GIT_COMMIT, "not recorded")[:12] for run in runs]
    dirty = [" with uncommitted changes" * (run.tags.get(tags.GIT_DIRTY) == "true") for run in runs]
    of_pretraining = sorted({run.replicate.pretrain_seed for run in runs} - {""}, key=seed_order)
    seeds = listed(sorted({run.replicate.seed for run in runs if not run.is_pretraining} - {""}, key=seed_order))
    facts = {
        "study": escape(comparison.study),
        "newest run": formats.date(max(run.started for run in runs)),
        "baseline": escape(comparison.baseline),
        "arms": listed(comparison.labels),
        "tasks": listed(section.task for section in comparison.tasks) or "none",
        "seeds": f"{seeds or 'none'} (of pretraining: {listed(of_pretraining)})" if of_pretraining else seeds,
        "runs": f"{len(runs)} counted, {len(comparison.left_out)} left out",
        "hardware": first_of(run.hardware for run in runs),
        "code": first_of(map("".join, zip(commits, dirty, strict=True))),
        "load average": f"{min(loads):.1f} to {max(loads):.1f}" if loads else "not recorded",
    }
    if any(tags.DESIGN in run.tags for run in runs):  # results of other tools: what they do not say is no line
        return Bullets([f"**{name}**: {facts[name]}" for name in ("study", "newest run", "baseline", "arms", "tasks", "seeds")])
    if comparison.superseded:
        facts["runs"] += f", {len(comparison.superseded)} superseded"
    facts["versions"] = ", ".join(
        f"{escape(key.removeprefix('environment.'))} {first_of(run.params.get(key, 'not recorded') for run in runs)}"
        for key in sorted(
            {key for run in runs for key in run.params if key.startswith("environment.") and run.params[key] != "None"}
        )
        if key.removeprefix("environment.") not in SHOWN_ELSEWHERE
    )
    return Bullets([f"**{name}**: {fact}" for name, fact in facts.items()])
