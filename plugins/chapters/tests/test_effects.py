"""The chapter on effects of combined changes."""

import pytest

from harness.comparison.compare import compare
from harness.plugins.chapters import effects


@pytest.fixture
def chapter(make_run, study_of):
    """Of arms given by their enhancements."""

    def made(arms: list[tuple[str, ...]], seeds: int = 3):
        runs = []
        for arm in arms:
            settings = {f"model.{name}": "1" for name in arm} | {f"enhancements.{name}": "True" for name in arm}
            for seed in range(seeds):
                score = 0.7 + 0.02 * len(arm) + 0.001 * ((seed * (1 + len(arm))) % 3)
                values = {"eval/score": score, "eval/examples": 1000.0, "model/params_total": 100.0 * 2 ** len(arm)}
                runs.append(make_run("~".join(["base", *arm]), seed, values, settings))
        return effects.chapter(study_of(compare("s", runs)))

    return made


FULL = [(), ("shared",), ("swiglu",), ("shared", "swiglu")]


def test_table_has_a_line_an_effect_and_the_picture_is_drawn(chapter):
    made = chapter(FULL)
    text = "\n".join(made.paragraphs)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + 2 * 3 + 1 + 1
    assert "| main effect | shared | +1.9 [−2.7, +6.6] points" in text
    assert "| +100.0 % |" in text
    assert "missing" not in text
    assert set(made.files) == {"effects.svg"}
    assert b"main effect: shared" in made.files["effects.svg"]
    assert b"<title>main effect: shared" in made.files["effects.svg"]


def test_missing_arms_are_named(chapter):
    three = [(), ("shared",), ("swiglu",), ("windowed",), ("shared", "swiglu", "windowed")]
    text = "\n".join(chapter(three).paragraphs)
    assert "these combinations were not run: shared + swiglu, shared + windowed, swiglu + windowed." in text
    assert "| stacking | all together |" in text
    assert "| main effect |" not in text


def test_one_seed_has_counts_and_no_picture(chapter):
    made = chapter(FULL, seeds=1)
    assert "| alone | shared | – | +100.0 % |" in "\n".join(made.paragraphs)
    assert made.files == {}


def test_study_that_combines_nothing_has_no_such_chapter(chapter):
    assert chapter([(), ("shared",), ("swiglu",)]).sections == []
