"""All pairs of arms in results of any tool, as a terminal shows them."""

import pandas as pd
import pytest

from harness import reports

LEVELS = {"base": 2.0, "new": 1.0, "other": 1.01}
NOISE = (0.0, 0.02, -0.01, 0.01)


@pytest.fixture
def losses() -> pd.DataFrame:
    """Three arms on four tasks with one number each."""
    return pd.DataFrame(
        {"arm": arm, "task": f"task{task}", "metric": "loss", "value": level + noise * (1 + task)}
        for place, (arm, level) in enumerate(LEVELS.items())
        for task, noise in enumerate(NOISE[place:] + NOISE[:place])
    )


@pytest.mark.long
def test_lower_is_better_and_tasks_repeat_where_each_arm_has_one_number(losses):
    verdicts = reports.judge(losses, all_pairs=True)
    shown = [line.split() for line in verdicts.text[verdicts.text.index("All pairs and ranks") :].splitlines()]
    assert [line[:6] for line in shown if len(line) > 5 and line[0] in LEVELS and line[2].isdigit()] == [
        ["new", "1.01", "1", "[1,", "2]", "a"],
        ["other", "1.03", "2", "[1,", "2]", "a"],
        ["base", "2.01", "3", "[3,", "3]", "b"],
    ]
    assert "2 of 3 pairs differ significantly." in verdicts.text
    (files,) = verdicts.files("md").values()
    assert b"## All pairs and ranks" in files["report.md"]
    assert "All pairs" not in reports.judge(losses).text


@pytest.mark.long
def test_tasks_as_a_sample_of_others_are_one_table(losses):
    seeds = pd.concat([losses.assign(seed=seed, value=losses["value"] + 0.001 * seed) for seed in range(3)])
    shown = reports.judge(seeds, random_tasks=True).text
    assert "Tasks are the unit of replication" in shown
    assert shown.count("pairs differ significantly") == 1
    assert reports.judge(seeds, all_pairs=True).text.count("pairs differ significantly") == 1 + 4
