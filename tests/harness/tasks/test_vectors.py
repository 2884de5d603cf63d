"""Rankings and pairs: what is encoded, and scores worked out by hand and by scikit-learn."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import ndcg_score
from tokenizers import Tokenizer

from harness import tasks
from harness.config.choices import TaskKind
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.tasks import scores
from harness.tasks.base import Examples, Split
from harness.tasks.batches import padded_shapes, training_batches
from harness.tasks.rows import Table
from harness.tasks.vectors import refuse_shared_paragraphs
from harness.training.finetune import step_of

RETRIEVAL = TaskConfig(
    name="made", kind=TaskKind.retrieval, fields=["q", "p"], scores=["ndcg_at_10", "recall_at_10"], headline="ndcg_at_10"
)
SIMILARITY = TaskConfig(name="made", kind=TaskKind.similarity, fields=["q", "p"], scores=["pearson"], headline="pearson")
QUESTIONS, PARAGRAPHS = ["who", "where", "when", "who"], ["a man", "a town", "a man", "a year"]


@pytest.fixture(scope="module")
def cut() -> Tokenizer:
    return tokenizer.build(TokenizerConfig(vocab_size=80), [*QUESTIONS, *PARAGRAPHS] * 3)


def encoded(task: TaskConfig, cut: Tokenizer, labels: list) -> Split:
    kind = tasks.kind_of(task)
    return kind.encode(
        task, cut, kind.examples(task, Table({"q": QUESTIONS, "p": PARAGRAPHS, "label": labels}, [*"abcd"], "made"))
    )


def test_each_paragraph_is_encoded_once_and_a_question_has_those_of_all_its_rows(cut):
    split = encoded(RETRIEVAL, cut, PARAGRAPHS)
    assert split.labels.tolist() == [0, 1, 0, 2]
    assert split.texts["relevant"] == [[0, 2], [1], [0], [0, 2]]
    assert len(split.numbers["second_starts"]) == 3 + 1
    starts, ids = split.numbers["second_starts"], split.numbers["second_ids"]
    assert [cut.decode(ids[a:b].tolist()) for a, b in itertools.pairwise(starts)] == ["a man", "a town", "a year"]


def test_a_ranking_follows_the_cosines_and_the_constant_answer_the_number_of_questions(cut):
    split = encoded(RETRIEVAL, cut, PARAGRAPHS)
    cosines = np.array([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5], [0.3, 0.2, 0.1], [0.8, 0.1, 0.2]], dtype=np.float32)
    answers = tasks.kind_of(RETRIEVAL).predictions(RETRIEVAL, split, cosines, 0)
    assert answers.predicted == [[1, 2, 0], [1, 2, 0], [0, 1, 2], [0, 2, 1]]
    assert answers.baseline[0] == [0, 1, 2]
    # first: places 2 and 3 of two; all others are as good as can be
    second, third = 1 / np.log2(3), 1 / np.log2(4)
    expected = ((second + third) / (1 + second) + 3) / 4
    assert scores.compute(TaskKind.retrieval, "ndcg_at_10", answers.labels, answers.predicted) == pytest.approx(expected)
    assert scores.compute(TaskKind.retrieval, "recall_at_10", answers.labels, answers.predicted) == 1


def test_gain_is_that_of_scikit_learn():
    stream = np.random.default_rng(0)
    cosines, truth = stream.random((50, 30)), stream.random((50, 30)) < 0.2
    truth[:, 0] = True
    ranked = np.argsort(-cosines, axis=1)[:, :10].tolist()
    relevant = [np.flatnonzero(row).tolist() for row in truth]
    ours = scores.compute(TaskKind.retrieval, "ndcg_at_10", relevant, ranked)
    assert ours == pytest.approx(ndcg_score(truth, cosines, k=10), abs=1e-12)


def test_the_texts_of_a_pair_are_encoded_apart(cut):
    split = encoded(SIMILARITY, cut, [0.5, 1, 2, 5])
    assert split.labels.tolist() == [0.5, 1, 2, 5]
    assert [cut.decode(ids.tolist()) for ids in np.split(split.ids, split.starts[1:-1])] == QUESTIONS
    second = np.split(split.numbers["second_ids"], split.numbers["second_starts"][1:-1])
    assert [cut.decode(ids.tolist()) for ids in second] == PARAGRAPHS


def test_a_training_batch_has_the_paragraph_of_each_question_and_is_counted_with_it(cut):
    split = encoded(RETRIEVAL, cut, PARAGRAPHS)
    batches = training_batches(split, 3, 0, 0, 4)
    shapes = [tuple(side.input_ids.shape) for _ in range(4) for side in next(batches).sides]
    assert [*padded_shapes(split, 3, 0, 4, 4)] == shapes
    for batch in itertools.islice(training_batches(split, 3, 0, 0, 4), 2):
        for row, label in enumerate(batch.labels.tolist()):
            real = batch.second.input_ids[row][: split.second.lengths[label]]
            start, end = split.second.starts[label : label + 2]
            assert real.tolist() == split.second.ids[start:end].tolist()
        step = step_of(batch, 1, cost=lambda rows, length: rows * length)
        sides = batch.sides
        assert step.padded_tokens == step.flops == sum(side.input_ids.numel() for side in sides)
        assert step.tokens == sum(side.tokens for side in sides)


def test_a_paragraph_that_is_trained_on_is_not_ranked(cut):
    def of(name: str, pairs: list[tuple[str, str]]) -> Examples:
        return Examples([[*pair] for pair in pairs], [0] * len(pairs), [*range(len(pairs))], name)

    train, other = of("train", [("who", "a man"), ("where", "a town")]), of("validation", [("when", "a year")])
    refuse_shared_paragraphs({"train": train, "validation": other})
    refuse_shared_paragraphs({"validation": of("validation", [("who", "a man"), ("when", "a man")])})
    both = of("task 'made', validation", [("when", "a year"), ("which", "a town")])
    with pytest.raises(InputError, match="task 'made', validation: 1 of its paragraphs are also in train, such as 'a town'"):
        refuse_shared_paragraphs({"train": train, "validation": both})
