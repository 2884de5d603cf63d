"""How to read the tables: the marks, and how changes are computed."""

import math

from harness.metrics import HIGHEST_FLOOR, MARGINS, RELATIVE_MARGIN
from harness.paired import CONFIDENCE
from harness.verdict_rules import FEWEST_REPLICATES
from reports.comparison.evidence import FEWEST_EXACT
from reports.comparison.study import Study
from reports.writing.chapter import Chapter
from reports.writing.formats import POINTS, escape

LEGEND = """\
A value is the mean over replicates, ± its sample standard deviation where there are several (of latency and inference
throughput over launches), and below it the change against {baseline}: in percent of the baseline's value, for a score or a
share in points (1 point = 0.01), and in percent of a baseline of 0.1 or more. Replicates are pretrainings and the
fine-tunings that start from each. Changes compare means over the replicates that both have, and of latency and inference
throughput over the launches of one session. A latency is the mean of the medians of its launches. Times, rates and memories are
compared by ratios: their means are geometric, and value and change are both divided by the reference workload or both not. The
fine-tunings of one pretraining count as one cluster, not as independent evidence.

| mark | meaning |
| :-- | :-- |
| ▲ better / ▼ worse | The triangle judges; it does not say that the number rose or fell. Less is better for parameters, \
FLOPs, time, memory and losses, more for throughput, scores and masked accuracy. Filled: counted exactly, or t test below \
{level:.0f} % after Holm's correction for all arms of the table in that metric. Scores and losses take {replicates} \
replicates; the error of a score holds the share of the validation items beside that of the seeds, from the predictions of \
both arms where these are there. Rounds are compared with the mean of the baseline and its A/A replicate; a training or \
its memory must exceed what an A/A replicate differs by. From {fewest} pairs on the exact sign-flip test must agree. |
| △ better? / ▽ worse? | One seed or launch only: a direction, which is no evidence. It exceeds the floor, or the margin where \
no floor is known. |
| ≈ same within X | Counts that differ by less than the margin. Of what is measured: no difference was found, and two \
one-sided t tests at {level:.0f} % each show that it is below the \
margin: {margins}. That is an interval of {inner:.0f} %, uncorrected, within the margin: it is the one shown, marked \
({inner:.0f} %). No score is called the same on a task that both arms solve, and no time whose noise floor exceeds the margin. |
| ~ not resolved | Neither: the difference may be 0 or above the margin. How many seeds, rounds or pretrainings in all must \
show one or the other, at the scatter measured, and the minutes that they take; or what more of them does not help against: \
a floor or items that leave more than the margin open, or a task that both arms solve. |
| = | No change. |
| – | Not measured, or nothing to compare with. Behind the change of a timing: no verdict, for it was not measured \
side by side or no noise floor is known. A noise floor above {floor:.0f} % supports no verdict either. Behind the change \
of a score: neither arm is shown to beat the constant answer. |

k, M, G, T and P are powers of ten (1 MB = 10^6 bytes); one multiply-add is 2 FLOP."""


OF_ONE = """\
A value is the mean over replicates, ± its sample standard deviation where there are several (of latency and inference
throughput over launches). Replicates are pretrainings and the fine-tunings that start from each. Means of times, rates and
memories are geometric. {arm} is the only arm: with another one in the study (`-m model=A,B`) the report compares them. –
is what was not measured.

k, M, G, T and P are powers of ten (1 MB = 10^6 bytes); one multiply-add is 2 FLOP."""


def chapter(study: Study) -> Chapter:
    """Always there; of one arm alone without what compares."""
    if len(study.comparison.labels) == 1:
        return Chapter(["## How to read the tables", OF_ONE.format(arm=escape(study.comparison.labels[0]))])
    text = LEGEND.format(
        baseline=escape(study.comparison.baseline),
        level=100 * (1 - CONFIDENCE),
        inner=100 * (2 * CONFIDENCE - 1),
        fewest=FEWEST_EXACT,
        replicates=FEWEST_REPLICATES,
        margins=margins(),
        floor=100 * math.expm1(HIGHEST_FLOOR),
    )
    return Chapter(["## How to read the tables", text])


def margins() -> str:
    """Every margin that is declared."""
    score, nats, bits = POINTS * MARGINS["score"].size, MARGINS["nats"].size, MARGINS["bits/byte"].size
    absolute = f"{score:g} point of a score or a share, {nats:g} nats, {bits:g} bits a byte"
    return f"{absolute}, {100 * RELATIVE_MARGIN.size:g} % of anything else"
