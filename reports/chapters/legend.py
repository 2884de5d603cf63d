"""How to read the tables: the marks, and how changes are computed."""

from harness.paired import CONFIDENCE
from reports.formats import escape
from reports.study import Chapter, Study

LEGEND = """\
**How to read the tables.** A value is the mean over replicates, ± its sample standard deviation where there are several (of
latency p50 and inference throughput over launches), and below it the change against {baseline}: in percent of the baseline's
value, for a score or a share in points (1 point = 0.01) and percent. Replicates are pretrainings and the fine-tunings that
start from each. Changes compare means over the replicates that both have, and of latency p50 and inference throughput over the
launches of one session. The fine-tunings of one pretraining count as one cluster, not as independent evidence.

| mark | meaning |
| :-- | :-- |
| ▲ better / ▼ worse | The triangle judges; it does not say that the number rose or fell. Less is better for parameters, \
FLOPs, time, memory and losses, more for throughput, scores and masked accuracy. Filled: counted exactly, or the \
{level:.0%} interval of the differences paired by seed or by round leaves 0 out, and a timing exceeds the noise floor. |
| △ better? / ▽ worse? | One seed or launch only: a direction, which is no evidence. |
| ~ | Unclear: the {level:.0%} interval includes 0. |
| ≈ | Within noise: a timing that changed by no more than the noise floor of its session, or whose {level:.0%} interval \
includes 0. No difference. |
| = | No change. |
| – | Not measured, or nothing to compare with. Behind the change of a timing: no verdict, for it was not measured \
side by side or no noise floor is known. |

k, M, G, T and P are powers of ten (1 MB = 10^6 bytes); one multiply-add is 2 FLOP."""


def chapter(study: Study) -> Chapter:
    """Always there."""
    return Chapter([LEGEND.format(baseline=escape(study.comparison.baseline), level=CONFIDENCE)])
