"""The last pages: runs that do not count, how to read the tables, the commands, and what was run on what."""

import math
import shlex
from collections.abc import Iterable

from harness import tags
from harness.comparison.compare import Comparison
from harness.comparison.labels import in_order, seed_order
from harness.comparison.paired import CONFIDENCE, grouped
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

NOT_RUN = "Planned and not started, {count} of them; a budget of time (`sweep.budget_minutes`) leaves such runs out: {names}."
MOST_RUNS = 50
SUPERSEDED = "superseded by a newer run"


def left_out(study: Study) -> Chapter:
    """A table of these runs by name and state; empty where every run counts."""
    reasons = ((run, run.tags.get(tags.REASON)) for run in study.comparison.left_out)
    runs = [(run, f"{run.status}: {reason}" if reason else run.status) for run, reason in reasons]
    runs += [(run, SUPERSEDED) for run in study.comparison.superseded]
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
A value is the mean over replicates, ± its sample standard deviation where there are several (of latency and inference
throughput over launches), and below it the change against {baseline}: in percent of the baseline's value, for a score or a
share in points (1 point = 0.01), and in percent of a baseline of 0.1 or more. Replicates are pretrainings and the
fine-tunings that start from each. Changes compare means over the replicates that both have, and of latency and inference
throughput over the launches of one session. A latency is the mean of the medians of its launches. Times, rates and memories are
compared by ratios: their means are geometric, and value and change are both divided by the reference workload or both not. The
fine-tunings of one pretraining count as one cluster, not as independent evidence."""
MARKS = {
    "▲ better / ▼ worse": """\
The triangle judges; it does not say that the number rose or fell. Less is better for parameters, \
FLOPs, time, memory and losses, more for throughput, scores and masked accuracy. Filled: counted exactly, or t test below \
{level:.0f} % after Holm's correction for all arms of the table in that metric. Scores and losses take {replicates} \
replicates; score intervals include test-set sampling error, from the predictions of both arms where these are kept. \
Rounds are compared with the mean of the baseline and its A/A replicate; a training or \
its memory must exceed what an A/A replicate differs by. From {fewest} pairs on the exact sign-flip test must agree.""",
    "△ better? / ▽ worse?": """\
One seed or launch only: a direction, which is no evidence. It exceeds the floor, or the margin where \
no floor is known.""",
    "≈ same within X": """\
Counts that differ by less than the margin. Of what is measured: no difference was found, and two \
one-sided t tests at {level:.0f} % each show that it is below the \
margin: {margins}. That is an interval of {inner:.0f} %, uncorrected, within the margin: it is the one shown, marked \
({inner:.0f} %). No score is called the same on a task that both arms solve, and no time whose noise floor exceeds the \
margin.""",
    "~ inconclusive": """\
Neither: the difference may be 0 or above the margin. How many seeds, rounds or pretrainings in all must \
show one or the other, at the scatter measured, and the minutes that they take; or what more of them does not help against: \
a floor or items that leave more than the margin open, or a task that both arms solve.""",
    "=": "No change.",
    DASH: """\
Not measured, or nothing to compare with. Behind the change of a timing: no verdict, for it was not measured \
side by side or no noise floor is known. A noise floor above {floor:.0f} % supports no verdict either. Behind the change \
of a score: neither arm is shown to beat the majority baseline.""",
}
"""Mark of a verdict -> what it says."""
UNITS = "k, M, G, T and P are powers of ten (1 MB = 10^6 bytes); one multiply-add is 2 FLOP."


OF_ONE = """\
A value is the mean over replicates, ± its sample standard deviation where there are several (of latency and inference
throughput over launches). Replicates are pretrainings and the fine-tunings that start from each. Means of times, rates and
memories are geometric. {arm} is the only arm: with another one in the study (`-m model=A,B`) the report compares them. –
is what was not measured."""


def legend(study: Study) -> Chapter:
    """Always there; a single arm's has no comparison."""
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
    compared = [VALUES.format(baseline=baseline), formats.table(["mark", "meaning"], marks, left=2)]
    values = compared if len(labels) > 1 else [OF_ONE.format(arm=escape(next(iter(labels), "")))]
    return Chapter([Section("How to read the tables", [*values, UNITS], detail=True)])


AGAIN_HEADING = "Run it again"
AGAIN_INTRO = """\
The commands of the runs that count, in their order; arms of one command are timed in one session. What has finished is skipped:
`rerun=true` runs it again, `sweep.retime=true` times it again. Relative paths begin where the command was typed."""
MOST_ARMS = 6
"""Arms that are named."""
AGAIN = ("rerun=true", "sweep.retime=true", "sweep.quiet=true", "-q", "--quiet")
"""Words that repeat what is finished, or print less."""


def reproduce(study: Study) -> Chapter:
    """One row per command; empty where no run says its own."""
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
        (shlex.join(["python", "-m", *(word for word in words if word.lstrip("+") not in AGAIN)]), run)
        for words, run in typed
        if words
    )


SHOWN_ELSEWHERE = (*("device", "dtype", "threads", "compile", "git_commit", "git_dirty", "load_average", "measure_version"),)
"""Facts of the environment that another line of the header, or the conditions, show already."""


def conditions(study: Study) -> Chapter:
    """Always there."""
    return Chapter([Section("Conditions", [header(study.comparison)])])


def header(comparison: Comparison) -> Bullets:
    """What was run on what."""
    runs = comparison.runs

    def first_of(values: Iterable[str]) -> str:
        return listed(values, most=SHOWN_VALUES)

    recorded = [run.params.get("environment.load_average", "") for run in runs]
    loads = [float(value) for value in recorded if value.replace(".", "", 1).isdigit()]
    commits = [run.tags.get(tags.GIT_COMMIT, "not recorded")[:12] for run in runs]
    dirty = [" with uncommitted changes" * (run.tags.get(tags.GIT_DIRTY) == "true") for run in runs]
    of_pretraining = sorted({run.replicate.pretrain_seed for run in runs} - {""}, key=seed_order)
    seeds = listed(sorted({run.replicate.seed for run in runs if not run.is_pretraining}, key=seed_order))
    facts = {
        "study": escape(comparison.study),
        "newest run": formats.date(max(run.started for run in runs)),
        "baseline": escape(comparison.baseline),
        "arms": listed(comparison.labels),
        "tasks": listed(section.task for section in comparison.tasks) or "none",
        "seeds": f"{seeds or 'none'} (of pretraining: {listed(of_pretraining)})" if of_pretraining else seeds,
        "runs": f"{len(runs)} counted, {len(comparison.left_out)} left out",
        "hardware": first_of(run.tags.get(tags.HARDWARE, "not recorded") for run in runs),
        "code": first_of(map("".join, zip(commits, dirty, strict=True))),
        "load average": f"{min(loads):.1f} to {max(loads):.1f}" if loads else "not recorded",
    }
    if any(tags.DESIGN in run.tags for run in runs):  # results of other tools: what they do not say is no line
        return Bullets([f"**{name}**: {facts[name]}" for name in ("study", "newest run", "baseline", "arms", "tasks", "seeds")])
    if comparison.superseded:
        facts["runs"] += f", {len(comparison.superseded)} superseded"
    facts["versions"] = ", ".join(
        f"{escape(key.removeprefix('environment.'))} {first_of(run.params.get(key, 'not recorded') for run in runs)}"
        for key in sorted({key for run in runs for key in run.params if key.startswith("environment.")})
        if key.removeprefix("environment.") not in SHOWN_ELSEWHERE
    )
    return Bullets([f"**{name}**: {fact}" for name, fact in facts.items()])
