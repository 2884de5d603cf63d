"""Answers in contexts: windows hold every token of the context, labels point at the answer, predictions are of the text."""

import itertools

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from harness import tasks
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.tasks.base import Examples, Split
from harness.tasks.rows import Table

LONG = " ".join(f"word{number} and" for number in range(40)) + " the  Big Ben ."
CONTEXTS = ["Ann lives in Rio de Janeiro, Bob in Oslo.", LONG, "Nothing to see here."]
QUESTIONS = ["Where does Ann live?", "What rings?", "Who?"]
ANSWERS = [["Rio de Janeiro", "Rio"], ["Big Ben"], []]


def task(**changes) -> TaskConfig:
    fields = {
        "scores": ["exact_match", "f1"],
        "headline": "f1",
        "max_length": 48,
        "stride": 8,
        "max_answer_length": 12,
    } | changes
    return TaskConfig(name="where", kind=TaskKind.spans, fields=["question", "context"], label="answers", **fields)


def pointed(context: str, texts: list[str]) -> dict[str, list]:
    return {"text": texts, "answer_start": [context.index(text) for text in texts]}


def table(contexts: list[str] = CONTEXTS, answers: list | None = None) -> Table:
    answers = [pointed(*row) for row in zip(CONTEXTS, ANSWERS, strict=True)] if answers is None else answers
    columns = {"question": QUESTIONS[: len(contexts)], "context": contexts, "answers": answers}
    return Table(columns, [f"q{row}" for row in range(len(contexts))], "task 'where', train")


def examples(**changes) -> Examples:
    config = task(**changes)
    return tasks.kind_of(config).examples(config, table())


@pytest.fixture(scope="module")
def cut() -> Tokenizer:
    return tokenizer.build(TokenizerConfig(vocab_size=110), [*CONTEXTS, *QUESTIONS])


def encoded(cut: Tokenizer, **changes) -> Split:
    return tasks.kind_of(task()).encode(task(**changes), cut, examples())


def windows_of(split: Split, item: int) -> list[slice]:
    chosen = np.flatnonzero(split.numbers["owners"] == item)
    return [slice(split.starts[window], split.starts[window + 1]) for window in chosen]


def logits_at(split: Split, spans: dict[int, tuple[int, int, float]]) -> np.ndarray:
    """(N, 2) logits, 0 but where a window's start and end have a height."""
    logits = np.zeros((len(split.ids), 2), dtype=np.float32)
    for window, (start, end, height) in spans.items():
        logits[split.starts[window] + start, 0] += height
        logits[split.starts[window] + end, 1] += height
    return logits


def answers(split: Split, logits: np.ndarray, majority: int = 0, **changes):
    return tasks.kind_of(task()).predictions(task(**changes), split, logits, majority)


def test_windows_are_short_enough_and_hold_every_token_of_the_context(cut):
    split = encoded(cut)
    whole = cut.no_truncation() or cut.encode(LONG, add_special_tokens=False)
    assert split.lengths.max() == 48
    assert len(windows_of(split, 1)) > 3
    found = [
        tuple(pair) for window in windows_of(split, 1) for pair in split.numbers["offsets"][window].tolist() if pair[1] > 0
    ]
    assert set(found) == set(whole.offsets)
    parts = [[tuple(pair) for pair in split.numbers["offsets"][window] if pair[1] > 0] for window in windows_of(split, 1)]
    assert all(one[-8:] == two[:8] for one, two in itertools.pairwise(parts)), "the stride"
    assert sorted(set(split.numbers["owners"].tolist())) == [0, 1, 2]


def test_labels_point_at_the_whole_first_answer_or_at_cls(cut):
    split = encoded(cut)
    found = set()
    for window, owner in enumerate(split.numbers["owners"]):
        offsets = split.numbers["offsets"][split.starts[window] : split.starts[window + 1]]
        start, end = split.labels[window]
        if start == split.numbers["cls"][window]:
            assert end == start
            inside = offsets[offsets[:, 1] > 0]
            place = CONTEXTS[owner].index(ANSWERS[owner][0]) if ANSWERS[owner] else None
            whole = place is not None and inside[0, 0] <= place and inside[-1, 1] >= place + len(ANSWERS[owner][0])
            assert not whole, "the window holds an answer, but is said not to"
        else:
            assert CONTEXTS[owner][offsets[start, 0] : offsets[end, 1]] == ANSWERS[owner][0]
            found.add(owner)
    assert found == {0, 1}


def test_blanks_around_an_answer_are_no_part_of_it(cut):
    context = " Ana Kova lives in Mel "
    for text, expected in (
        (" Ana Kova", "Ana Kova"),
        ("Mel ", "Mel"),
        (" lives  in "[:7], "lives"),
        (context, context.strip()),
    ):
        rows = table([context], [{"text": [text], "answer_start": [context.index(text)]}])
        kind = tasks.kind_of(task())
        split = kind.encode(task(), cut, kind.examples(task(), rows))
        start, end = split.labels[0]
        offsets = split.numbers["offsets"]
        assert context[offsets[start, 0] : offsets[end, 1]] == expected
    blank = table([context], [{"text": [" "], "answer_start": [0]}])
    assert (kind.encode(task(), cut, kind.examples(task(), blank)).labels[0] == 0).all()
    with pytest.raises(InputError, match=r"there is no answer in column 'answers'"):
        kind.examples(task(answerable_only=True), blank)
    with pytest.raises(InputError, match=r"has the empty answer '' among others: leave out the empty ones"):
        kind.examples(task(), table([context], [{"text": ["", "Ana"], "answer_start": [0, 1]}]))


def test_a_window_that_cuts_the_answer_off_points_at_cls(cut):
    first = encoded(cut).numbers["offsets"][windows_of(encoded(cut), 1)[0]]
    for begin, end in [(first[:, 1].max() - 6, first[:, 1].max() + 6), (first[:, 1].max() - 6, first[:, 1].max())]:
        rows = table()
        rows.columns["answers"][1] = {"text": [LONG[begin:end]], "answer_start": [int(begin)]}
        kind = tasks.kind_of(task())
        split = kind.encode(task(), cut, kind.examples(task(), rows))
        window = np.flatnonzero(split.numbers["owners"] == 1)[0]
        assert (split.labels[window] == split.numbers["cls"][window]).all() == (end > first[:, 1].max())


@pytest.mark.parametrize("answerable_only", [False, True])
def test_right_logits_give_the_answers_in_the_words_of_the_text(cut, answerable_only):
    split = encoded(cut)
    logits = logits_at(split, {window: (*places, 9.0) for window, places in enumerate(split.labels)})
    cls = split.starts[:-1] + split.numbers["cls"]
    logits[cls] -= 1.0 * (split.labels[:, :1] != split.numbers["cls"][:, None])
    made = answers(split, logits, answerable_only=answerable_only)
    assert made.predicted[:2] == ["Rio de Janeiro", "Big Ben"]
    assert (made.predicted[2] == "") == (not answerable_only)
    assert made.labels == ANSWERS
    assert answers(split, logits, majority=2).baseline == ["Ann lives", "word0 and", "Nothing to"]


def test_best_span_equals_a_search_through_all(cut):
    split, stream = encoded(cut), np.random.default_rng(0)
    for longest in (1, 3, 12):
        logits = stream.normal(size=(len(split.ids), 2)).astype(np.float32)
        made = answers(split, logits, max_answer_length=longest, answerable_only=True)
        for item in range(3):
            best = (-np.inf, "")
            for window in windows_of(split, item):
                offsets, (starts, ends) = split.numbers["offsets"][window], logits[window].astype(np.float64).T
                places = np.flatnonzero(offsets[:, 1] > 0)
                for start, end in itertools.product(places, places):
                    if 0 <= end - start < longest:
                        text = CONTEXTS[item][offsets[start, 0] : offsets[end, 1]]
                        best = max(best, (starts[start] + ends[end], text))
            assert made.predicted[item] == best[1]
            assert made.columns["score"][item] == pytest.approx(best[0])
            assert made.columns["start_logit"][item] + made.columns["end_logit"][item] == pytest.approx(best[0])


def test_question_and_special_tokens_are_never_an_answer(cut):
    split = encoded(cut)
    logits = np.where(split.numbers["offsets"][:, :1] < 0, 50.0, 0.0).repeat(2, axis=1).astype(np.float32)
    made = answers(split, logits, answerable_only=True)
    assert all(text and text in context for text, context in zip(made.predicted, CONTEXTS, strict=True))
    assert max(made.columns["score"]) == 0.0


def test_no_answer_needs_every_window_to_say_so(cut):
    split = encoded(cut)
    windows = np.flatnonzero(split.numbers["owners"] == 1)
    logits = np.zeros((len(split.ids), 2), dtype=np.float32)
    logits[split.starts[:-1] + split.numbers["cls"]] = 5.0
    assert answers(split, logits).predicted[1] == ""
    logits[split.starts[windows[1]] + split.numbers["cls"][windows[1]]] = -1.0
    made = answers(split, logits)
    assert made.predicted[1] != ""
    assert made.columns["null_score"][1] == -2.0
    assert made.predicted[0] == ""


def test_loss_is_the_mean_of_both_cross_entropies_over_all_windows(cut):
    split = encoded(cut)
    logits = np.random.default_rng(1).normal(size=(len(split.ids), 2)).astype(np.float32)
    losses = []
    for window, places in enumerate(split.labels):
        part = logits[split.starts[window] : split.starts[window + 1]].astype(np.float64)
        chances = np.exp(part) / np.exp(part).sum(axis=0)
        losses += [-np.log(chances[places[column], column]) for column in range(2)]
    assert answers(split, logits).loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_long_question_leaves_room_for_context(cut):
    rows = table()
    rows.columns["question"] = ["why " * 200, "Who?", "Who?"]
    kind = tasks.kind_of(task())
    split = kind.encode(task(), cut, kind.examples(task(), rows))
    window = windows_of(split, 0)[0]
    assert split.lengths.max() <= 48
    assert (split.numbers["offsets"][window][:, 1] > 0).sum() >= 48 - 24 - 3


def test_constant_answer_is_none_where_half_have_none_and_the_first_words_where_all_have_one():
    kind = tasks.kind_of(task())
    assert kind.majority(task(), Examples([["q", "a b c d"]] * 4, [[], [], [("c", 4)], [("d", 6)]], [0, 1, 2, 3], "here")) == 0
    first = Examples([["q", "x y c d"]] * 4, [[("x y", 0)]] * 4, [0, 1, 2, 3], "here")
    assert kind.majority(task(answerable_only=True), first) == 2


def test_an_empty_context_has_no_answer(cut):
    rows = Table({"question": ["Who?"], "context": [""], "answers": [{"text": [], "answer_start": []}]}, [7], "here")
    kind = tasks.kind_of(task())
    split = kind.encode(task(), cut, kind.examples(task(), rows))
    found = kind.predictions(task(answerable_only=True), split, np.ones((len(split.ids), 2), dtype=np.float32), 3)
    assert found.predicted == found.baseline == [""]
    assert found.columns["score"] == [None]


@pytest.mark.parametrize(
    ("answers", "changes", "expected"),
    [
        (
            {"text": ["Oslo"], "answer_start": [3]},
            {},
            "answer_start 3 in column 'answers', task.label, does not point at.*'Oslo'",
        ),
        ({"text": ["Ann"], "answer_start": [-41]}, {}, "answer_start -41"),
        ({"text": [""], "answer_start": [True]}, {}, "answer_start True"),
        ({"text": ["Ann", "Rio"], "answer_start": [0]}, {}, "2 answers, but 1 of answer_start"),
        ({"text": [], "answer_start": []}, {"answerable_only": True}, "set task.answerable_only=false"),
        ("Ann", {}, "expected lists `text` and `answer_start` in column 'answers', task.label"),
    ],
)
def test_answers_that_are_none_are_refused_by_row_and_key(answers, changes, expected):
    with pytest.raises(InputError, match=f"^task 'where', train, row 0: .*{expected}"):
        tasks.kind_of(task()).examples(task(**changes), table(CONTEXTS[:1], [answers]))


def test_what_leaves_no_room_or_no_place_for_no_answer_is_refused(cut):
    with pytest.raises(InputError, match=r"task\.stride=21 must be below 21, .*task\.max_length=48"):
        encoded(cut, stride=21)
    assert encoded(cut, stride=20).lengths.max() == 48
    bare = Tokenizer.from_str(cut.to_str())
    bare.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    with pytest.raises(InputError, match=r"writes \[CLS\].*tokenizer\.file"):
        encoded(bare)
