"""Tuned arms and what their searches found."""

import json

import pytest
from texts import rows

from harness.comparison.compare import compare
from harness.plugins.chapters import tuning
from harness.reports.writing import tables


def tuned(scores: list[float | None], sampler: str = "random", short: list[bool] | None = None) -> dict[str, str]:
    return {
        "tuned.settings": json.dumps({"finetune.learning_rate": 0.000316, "finetune.batch_size": 16}),
        "tuned.scores": json.dumps(scores),
        "tuned.short": json.dumps(short or [False] * len(scores)),
        "tuned.given": "{}",
        "search.sampler": sampler,
    }


@pytest.fixture
def chapter(make_run, study_of):
    def make(**arms: dict[str, str]):
        runs = [make_run("base", seed, {"eval/score": 0.8}) for seed in (0, 1)]
        runs += [
            make_run(f"{name} (tuned)", seed, {"eval/score": 0.8}, params, model=name)
            for name, params in arms.items()
            for seed in (0, 1)
        ]
        return tuning.chapter(study_of(compare("s", runs, "base")))

    return make


def test_arms_are_marked_and_the_expectation_is_that_of_their_trials(chapter):
    made = chapter(base=tuned([0.5, 0.9, 0.7]), albert=tuned([0.6, 0.6, 0.6]))
    found = rows(made.paragraphs[2])
    assert found["arm"][1:] == ["settings", "trials", "after 1", "after 2", "after 3"]
    assert "base" not in found
    assert made.paragraphs[3] == "Not tuned: base."
    assert found["base (tuned)"][1:] == ["learning_rate=0.000316, batch_size=16", "3", "0.700", "0.789", "0.833"]
    assert found["albert (tuned)"][3:] == ["0.600"] * 3
    assert "baseline='base (tuned)'" in made.paragraphs[1]
    assert "base (tuned)" in made.files["tuning.svg"].decode()


def test_trials_that_are_no_independent_draws_have_a_dash(chapter):
    made = chapter(
        albert=tuned([0.5, 0.9], sampler="tpe"), shared=tuned([0.5, 0.9], short=[True, False]), swiglu=tuned([0.5, None])
    )
    found = rows(made.paragraphs[2])
    assert found["albert (tuned)"][2:] == ["2", "–", "–"]
    assert found["shared (tuned)"][2:] == ["2 (1)", "–", "–"]
    assert found["swiglu (tuned)"][2:] == ["2 ‡", "0.500", "0.500"]
    assert tuning.DEPENDENT in made.paragraphs
    assert tuning.WHOLE in made.paragraphs
    assert tuning.WHOLE not in chapter(base=tuned([0.5, 0.9])).paragraphs
    assert tuning.FAILED in made.paragraphs
    assert tables.SELECTED_NOTE not in made.paragraphs


def test_setting_that_the_reported_rows_selected_is_marked(chapter):
    made = chapter(base=tuned([0.5, 0.9]) | {"tuned.selected_on": "validation"}, albert=tuned([0.5, 0.9]))
    found = rows(made.paragraphs[2])
    assert [found[f"{name} (tuned)"][1].endswith(" §") for name in ("base", "albert")] == [True, False]
    assert tables.SELECTED_NOTE in made.paragraphs


def test_a_study_without_a_search_has_no_such_chapter(chapter):
    assert chapter().sections == []
