"""What is computed once for each object and its arguments, and never shared between objects."""

from dataclasses import dataclass, field, replace

from harness.comparison import cached_method


@dataclass(frozen=True)
class Counting:
    """Not hashable, as the rows of a comparison are not."""

    factor: int
    calls: list[tuple[int, ...]] = field(default_factory=list)

    @cached_method
    def product(self, *numbers: int) -> int | None:
        self.calls.append(numbers)
        return self.factor * numbers[0] if numbers[0] else None


def test_each_result_is_computed_once():
    one = Counting(3)
    assert [one.product(2), one.product(2), one.product(4), one.product(2, 4)] == [6, 6, 12, 6]
    assert one.calls == [(2,), (4,), (2, 4)]


def test_none_is_a_result_that_is_kept():
    one = Counting(3)
    assert [one.product(0), one.product(0)] == [None, None]
    assert one.calls == [(0,)]


def test_objects_and_copies_share_nothing():
    one = Counting(3)
    assert one.product(2) == 6
    assert Counting(5).product(2) == 10
    assert replace(one, factor=7).product(2) == 14
