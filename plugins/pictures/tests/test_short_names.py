"""Names of arms in pictures are short and their own."""

from harness.plugins.pictures.plots import LONGEST, short_names

MIDDLES = [f"base {'learning_rate=1e-4 ' * 3}mask_rate=0.{index} {'warmup_share=0.1 ' * 3}end" for index in range(3)]


def test_names_that_fit_stay_whole_and_of_longer_ones_the_middle_is_left_out():
    labels = ["base", "b" * LONGEST, "a" * 30 + "b" * 21]
    assert [*short_names(labels).values()] == ["base", "b" * LONGEST, "a" * 18 + "…" + "b" * 21]


def test_names_that_would_be_the_same_end_in_a_hash_that_is_the_same_beside_other_names():
    names = short_names(["base", *MIDDLES])
    assert len(set(names.values())) == 4
    assert all(len(names[label]) <= LONGEST and " #" in names[label] for label in MIDDLES)
    assert short_names(MIDDLES)[MIDDLES[0]] == short_names([MIDDLES[2], MIDDLES[0], "base"])[MIDDLES[0]]
