"""The number that a cell is sorted by, in base units."""

import pytest

from harness.reports.html import page, sort_value, unit_of
from harness.reports.writing import formats


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.3 ms", 12.3),
        ("−12.3 % ▲ better", -12.3),
        ("+0.30 %", 0.3),
        ("45.6 ± 0.3 MB", 45.6e6),
        ("900.7 k", 900.7e3),
        ("3.44 M", 3.44e6),
        ("1.20 GFLOP", 1.2e9),
        ("0.492 of 129.7 GFLOP/s", 0.492),
        ("129.7 GFLOP/s", 129.7e9),
        ("10,381 ± 219 tokens/s", 10381),
        ("−1.50 [−2.50, −0.50] MB", -1.5e6),
        ("13.7 ms [13.5, 13.9]", 13.7),
        ("× 1.20 [1.10, 1.31]", 1.2),
        ("× ≥ 1.20", 1.2),
        ("≤ 7.50 M", 7.5e6),
        ("3 pretrainings × 5 seeds", 3),
        ("2 of 3", 2),
        ("1 seed", 1),
        ("0", 0),
        ("5 Moss", 5),
    ],
)
def test_number_has_its_sign_and_prefix(text: str, number: float):
    assert sort_value(text) == pytest.approx(number)


@pytest.mark.parametrize(
    "text", ["–", "", "order", "20261122-060306-ad5e", "2026-11-22 06:02 UTC", "3.11.7", "albert 2", "1e5x"]
)
def test_names_dates_and_versions_are_no_numbers(text: str):
    assert sort_value(text) is None


@pytest.mark.parametrize("unit", ["parameters", "bytes", "FLOP", "FLOP/s", "tokens", "ms", "s", "score", "tokens/s", "J"])
def test_values_as_the_report_shows_them_sort_right(unit: str):
    for number in (0.0, 0.5, 7.0, 999.0, 1.2e4, 3.4e6, 5.6e9, 7.8e12, -2.5):
        spread = formats.value(number, unit, 0.01 * abs(number))
        for shown in (formats.value(number, unit), spread):
            assert sort_value(shown) == pytest.approx(number, rel=0.01, abs=0.51 if unit in formats.SCALED else 1e-3)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *(("45.6 ± 0.3 MB", "B"), ("12.3 B", "B"), ("522.5 k", ""), ("0", ""), ("0.502 ± 0.007 ‡", ""), ("3 of 3", "of")),
        *(("2.28 ± 0.06 ms", "ms"), ("4.00 s", "s"), ("1 seed", "seed"), ("3 seeds", "seed"), ("–", None), ("base", None)),
        *(("+0.7 [−9.3, +11.8] %", "%"), ("−1.2 points [−2, +1]", "point"), ("13,043 ± 684 tokens/s", "tokens/s")),
        *(("117.5 MFLOP", "FLOP"), ("12 FLOP", "FLOP"), ("2 pretrainings × 3 seeds", "pretraining")),
    ],
)
def test_the_unit_of_a_cell(text: str, unit: str | None):
    assert unit_of(text) == unit


def test_a_table_with_arms_across_sorts_no_column_of_several_units():
    """Milliseconds and megabytes have no order; a table with one unit a column has."""
    across = (
        "| arm | base | new |\n| :-- | --: | --: |\n| replicates | 3 seeds | 1 seed |\n| latency | 2.0 ms | 3.0 ms<br>+50 % |"
    )
    down = "| arm | latency | parameters |\n| :-- | --: | --: |\n| base | 2.0 ms | 522.5 k |\n| new | – | 1.2 M<br>+50 % |"
    text = page("t", f"# t\n\n{across}\n\n{down}\n", {}, set()).decode()
    assert [head.count("data-mixed") for head in text.split("<thead>")[1:]] == [2, 0]
    assert '"mixed" in head.dataset' in text
