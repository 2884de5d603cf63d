"""The exponent of cost against length, worked by hand."""

import pytest

from harness.plugins.chapters.growth import fit


def test_a_length_counts_as_the_geometric_mean_of_its_launches():
    """10 is that of 1 and 100, so ten times the length is ten times the cost; by their arithmetic mean it would be twice."""
    found = fit({10: [1.0, 100.0], 100: [100.0, 100.0]})
    assert found.exponent == pytest.approx(1)
    assert found.last == pytest.approx(1)
