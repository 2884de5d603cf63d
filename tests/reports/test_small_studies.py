"""The report of a small study is an answer, a table and a picture; every chapter of a large one follows, folded."""

import re
from html.parser import HTMLParser

import msgspec
import pytest

from harness import document, tags
from harness.comparison import compare as comparing
from harness.comparison.compare import Comparison, compare
from harness.document import first_screen
from harness.reports.render import render

MOST_WORDS, MOST_LINES = 450, 32
SIZES = {"base": 5e5, "albert": 2e5, "windowed": 5e5}
EXPECTED = {"expected_reason": "reach", "expected_low": "0.6", "expected_high": "0.9", "expected_chance": "0.5"}
WARNED = {tags.WARNING: "the loss still fell at the end, from 2 to 1: raise finetune.epochs (2)", tags.NOTES: "falling"}


@pytest.fixture
def default(make_run) -> Comparison:
    """The default command: three arms, three tasks, three seeds, expectations of theory, and warnings."""
    runs = []
    for task in ("bag", "order", "distance"):
        for arm, total in SIZES.items():
            fails = (arm, task) == ("windowed", "distance")
            more = EXPECTED | {"expected": "cannot" if fails else "solves", "expected_ceiling": "1.0", "task": task}
            for seed in range(3):
                score = (0.52 if fails else 0.95) + seed / 100
                values = {"eval/score": score, "eval/majority_score": 0.5, "eval/examples": 500.0}
                values |= {"model/params_total": total, "model/params_component_layers": total, "inference/latency_ms_p50": 3.0}
                runs.append(make_run(arm, seed, values, **more, **(WARNED if seed else {})))
    return compare("default", runs)


class Visible(HTMLParser):
    """What a page shows before a reader opens anything: its elements and words; and how deep its folds are at the end."""

    def __init__(self, content: bytes):
        super().__init__()
        self.elements: list[str] = []
        self.words: list[str] = []
        self.chapters: list[bool] = []  # of each heading of a chapter, whether it is what opens a fold
        self.depth, self.in_summary = 0, False
        self.feed(content.decode().partition("<main>")[2].partition("</main>")[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "details":
            assert not attrs  # closed
            self.depth += 1
        if tag == "summary":
            self.in_summary = True
        if tag == "h2":
            self.chapters.append(self.in_summary and self.depth == 1)
        if not self.depth:
            self.elements.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"
        self.in_summary &= tag != "summary"

    def handle_data(self, data: str) -> None:
        self.words += [] if self.depth else data.split()


def chapters(markdown: str) -> list[str]:
    return re.findall(r"(?m)^## .*", markdown)


@pytest.mark.long
def test_the_first_page_is_an_answer_a_table_a_sentence_of_theory_and_a_picture(default, study_of):
    shown, fold, rest = render(study_of(default))["report.md"].decode().partition("<details>")
    assert fold
    assert chapters(shown) == []
    assert shown.count("\n| :--") == shown.count("](changes.svg)") == shown.count("![") == 1
    assert shown.split("\n\n")[1].startswith("**Score, mean of 3 tasks**: ")
    assert "**As theory expects**: base and albert solve bag, order and distance; windowed solves bag and order" in shown
    assert "windowed cannot solve distance.\n" in shown
    assert "**Warnings in 18 of 27 training runs**: the loss still fell at the end." in shown
    assert "† Some of its runs have a training warning." in shown
    assert len(shown.split()) < MOST_WORDS
    assert "raise finetune.epochs (2)" in rest
    assert "bag: accuracy" in rest


@pytest.mark.long
@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_end_of_its_sweep_fits_on_a_screen(default, study_of, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    shown = first_screen(msgspec.json.decode(render(study_of(default), "md")[document.FILE], type=document.Document).screen)
    assert 10 < len(shown.splitlines()) <= MOST_LINES
    assert max(map(len, shown.splitlines())) <= int(columns)


@pytest.mark.long
def test_every_chapter_of_a_large_study_is_in_the_fold(default, study_of, monkeypatch):
    small = render(study_of(default))
    monkeypatch.setattr(comparing, "SMALL_RUNS", 26)
    del default.__dict__["is_small"]
    large = render(study_of(default))
    of_small, of_large = (files["report.md"].decode() for files in (small, large))
    assert chapters(of_small) == ["## Task by task, arm by arm", *chapters(of_large)[1:]]
    assert chapters(of_large)[0] == "## Arm by arm"
    assert of_small.count("<details><summary>\n\n## ") == of_small.count("\n</summary>\n") == of_small.count("\n</details>\n")
    assert "<details>" not in of_large
    assert small.keys() == large.keys()
    assert small["summary.csv"] == large["summary.csv"]
    missing = [text for text in of_large.split("\n\n") if text not in of_small.split("\n\n")]
    assert all(text.startswith(("- ", "## Arm")) for text in missing)  # said in two places


@pytest.mark.long
def test_the_page_shows_the_same_and_folds_whole_chapters(default, study_of):
    files = render(study_of(default))
    page = Visible(files["report.html"])
    assert page.elements.count("table") == page.elements.count("svg") == 1
    assert len(page.words) < MOST_WORDS
    assert page.chapters == [True] * len(page.chapters)
    assert len(page.chapters) >= len(chapters(files["report.md"].decode()))
    assert page.depth == 0


@pytest.mark.parametrize("name", ["arms", "runs", "pretraining", "from a pretraining"])
def test_a_study_of_more_arms_or_runs_or_of_pretraining_is_large(make_run, pretrained, name):
    def runs(arms: int, seeds: int) -> list:
        return [
            make_run(f"arm{arm}" if arm else "base", seed, {"eval/score": 0.5}) for arm in range(arms) for seed in range(seeds)
        ]

    assert compare("s", runs(6, 6)).is_small
    large = {
        "arms": runs(7, 1),
        "runs": runs(1, 37),
        "pretraining": [*runs(2, 1), pretrained("base")],
        "from a pretraining": [*runs(2, 1), make_run("third", 0, {"eval/score": 0.5}, **{tags.PRETRAINING: "f0"})],
    }
    assert not compare("s", large[name]).is_small


@pytest.mark.long
def test_what_a_small_study_swept_is_the_one_picture(make_run, study_of):
    runs = [
        make_run(
            f"base batch_size={size}" if size > 8 else "base", seed, {"eval/score": size / 100, "model/params_total": size}
        )
        for size in (8, 16, 32)
        for seed in (0, 1)
    ]
    for run in runs:
        size = run.tags[tags.ARM].partition("=")[2] or "8"
        run.params["finetune.batch_size"], run.tags[tags.LIFTED] = size, '["finetune.batch_size"]'
    shown, _, rest = render(study_of(compare("s", runs)))["report.md"].decode().partition("<details>")
    assert re.findall(r"\]\((\w+\.svg)\)", shown) == ["along_setting.svg"]
    assert "](changes.svg)" in rest
