"""The chapter of all pairs and ranks, its picture, and where it is shown."""

import pytest

from harness.comparison.compare import compare
from harness.plugins.judge import ranks_chapter as ranks

LEVELS = {"base": 0.80, "albert": 0.803, "gau": 0.77, "rope": 0.75}
NOISE = (0, 2, -1, 1, -2)


@pytest.fixture
def chapter(make_run, study_of):
    """Of arms with five seeds on two tasks; the last one has a single task."""

    def made(**options: bool):
        runs = [
            make_run(arm, seed, {"eval/score": level + NOISE[(seed + place) % 5] / 1000, "eval/examples": 1e7}, task=task)
            for place, (arm, level) in enumerate(LEVELS.items())
            for task in ("rte", "cola")[: 2 - (arm == "rope")]
            for seed in range(5)
        ]
        return ranks.chapter(study_of(compare("s", runs), **options))

    return made


@pytest.mark.long
def test_tables_say_rank_letters_and_the_chance_of_being_best(chapter):
    text = "\n".join(chapter(all_pairs=True).paragraphs)
    rte = text[text.index("### rte") : text.index("### cola")]
    for line in (
        "| albert | 0.803 | 1 [1, 2] | a |",
        "| base | 0.800 | 2 [1, 2] | a |",
        "| gau | 0.770 | 3 [3, 3] | b | < 1 % |",
    ):
        assert line in rte
    assert "5 of 6 pairs differ significantly." in rte
    assert "| albert | base |" not in rte  # differences of those that are
    assert "| gau | base | −3.0 [" in rte
    assert "| rope |" not in text[text.index("### cola") :]
    assert "Left out, without a value: rope." in text[text.index("### cola") :]


@pytest.mark.long
def test_the_picture_has_every_arm_of_every_table_with_its_letters(chapter):
    picture = chapter(all_pairs=True).files["ranks.svg"].decode()
    assert picture.count(">rope<") == 1  # has no cola
    assert picture.count(">albert<") == 2
    assert ">4 [4, 4]  c<" in picture
    assert "rank 3 [3, 3]</title>" in picture


def test_without_being_asked_for_there_is_no_chapter(chapter):
    assert chapter().sections == []
