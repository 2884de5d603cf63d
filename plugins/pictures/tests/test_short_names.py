"""Names of arms in pictures are short and their own."""

from harness.plugins.pictures.plots import LONGEST, short_names

MIDDLES = [f"base {'rate=1e-4 ' * 5}mask=0.{index} {'share=0.1 ' * 5}end" for index in range(3)]


def test_names_that_fit_stay_whole_and_of_longer_ones_the_middle_is_left_out():
    labels = ["base", "b" * LONGEST, "a" * 30 + "b" * 21]
    assert [*short_names(labels).values()] == ["base", "b" * LONGEST, "a" * 18 + "…" + "b" * 21]


def test_names_that_would_be_the_same_end_in_a_hash_that_is_the_same_beside_other_names():
    names = short_names(["bert", *MIDDLES])
    assert len(set(names.values())) == 4
    assert all(len(names[label]) <= LONGEST and " #" in names[label] for label in MIDDLES)
    assert short_names([*MIDDLES, "a"])[MIDDLES[0]] == short_names([MIDDLES[2], MIDDLES[0], "base2"])[MIDDLES[0]]
