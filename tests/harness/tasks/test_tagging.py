"""Tags of words: labels stand at first pieces, and every word of every item is answered and scored."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors

from harness import tasks
from harness.config.choices import TaskKind, TokenizerKind
from harness.config.schema import RunConfig, TaskConfig, TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.losses import IGNORED
from harness.tasks.base import Examples, Split
from harness.tasks.batches import pieces
from harness.tasks.rows import Table, load_table
from harness.training.finetune import step_of

LABELS = ["O", "B-place", "I-place"]
WORDS = [["They", "saw", "Rio", "de", "Janeiro", "."], ["don't", "go"], ["\u200b", "Oslo"]]
TAGS = [[0, 0, 1, 2, 2, 0], [0, 0], [0, 1]]


def task(**changes) -> TaskConfig:
    fields = {"scores": ["entity_f1", "accuracy"], "headline": "entity_f1", "max_length": 32, "labels": LABELS} | changes
    return TaskConfig(name="places", kind=TaskKind.tokens, fields=["words"], label="tags", **fields)


def table(words: list, tags: list) -> Table:
    return Table({"words": words, "tags": tags}, [f"row-{row}" for row in range(len(words))], "task 'places', train")


@pytest.fixture(scope="module")
def pieces_of() -> Tokenizer:
    """Cuts words into letters and few longer pieces."""
    texts = [word for words in WORDS for word in words]
    return tokenizer.build(TokenizerConfig(vocab_size=60), texts)


def encoded(cut: Tokenizer, **changes) -> Split:
    config = task(**changes)
    kind = tasks.kind_of(config)
    return kind.encode(config, cut, kind.examples(config, table(WORDS, TAGS)))


def logits_of(split: Split, tags: list[list[int]]) -> np.ndarray:
    """(N, 3) logits that say these tags at first pieces and the last class everywhere else."""
    logits = np.zeros((len(split.ids), 3), dtype=np.float32)
    logits[:, 2] = 5.0
    for sequence, start in enumerate(split.starts[:-1]):
        for place in range(start, split.starts[sequence + 1]):
            if split.numbers["words"][place] >= 0:
                logits[place] = np.eye(3)[tags[sequence][split.numbers["words"][place]]]
    return logits


def answers(split: Split, tags: list[list[int]], **changes):
    return tasks.kind_of(task()).predictions(task(**changes), split, logits_of(split, tags), majority=0)


def test_a_label_stands_at_the_first_piece_of_its_word(pieces_of):
    split = encoded(pieces_of)
    assert split.lengths.max() > 2 + max(map(len, WORDS)), "no word has several pieces"
    for sequence, tags in enumerate(TAGS):
        span = slice(split.starts[sequence], split.starts[sequence + 1])
        labels, words = split.labels[span], split.numbers["words"][span]
        kept = [tag for word, tag in enumerate(tags) if WORDS[sequence][word] != "\u200b"]  # which has no piece
        assert labels[labels != IGNORED].tolist() == kept
        firsts = [pieces_of.id_to_token(number) for number in split.ids[span][words >= 0]]
        assert not any(piece.startswith("##") for piece in firsts)
        assert labels[0] == labels[-1] == IGNORED


def test_right_logits_give_the_tags_back_in_order(pieces_of):
    split = encoded(pieces_of)
    made = answers(split, [[0, 0, 1, 2, 2, 0], [0, 0], [0, 1]])
    assert made.predicted == made.labels == [[LABELS[tag] for tag in tags] for tags in TAGS]
    assert made.baseline == [["O"] * len(tags) for tags in TAGS]
    assert tasks.kind_of(task()).majority(task(), Examples(WORDS, [[2, 2, 0], [2]], [0, 1], "here")) == 2


def test_words_that_are_cut_off_or_have_no_piece_are_predicted_outside(pieces_of):
    split = encoded(pieces_of, max_length=12)
    kept_words = set(split.numbers["words"][: split.starts[1]].tolist()) - {-1}
    assert 2 in kept_words
    assert 4 not in kept_words
    made = answers(split, [[1] * 6, [1] * 2, [1] * 2])
    assert made.predicted[0] == ["B-place" if word in kept_words else "O" for word in range(6)]
    assert made.predicted[2] == ["O", "B-place"]
    assert made.labels[0] == [LABELS[tag] for tag in TAGS[0]]


def test_a_word_that_is_cut_off_is_outside_wherever_that_label_is_listed(pieces_of):
    labels, order = ["B-place", "O", "I-place"], [1, 0, 2]
    config = task(labels=labels, max_length=12)
    kind, tags = tasks.kind_of(config), [[order[tag] for tag in row] for row in TAGS]
    split = kind.encode(config, pieces_of, kind.examples(config, table(WORDS, tags)))
    made = kind.predictions(config, split, logits_of(split, [[0] * 6, [0] * 2, [0] * 2]), majority=1)
    seen = set(split.numbers["words"][: split.starts[1]].tolist()) - {-1}
    assert made.predicted[0] == ["B-place" if word in seen else "O" for word in range(6)]
    assert "O" in made.predicted[0]


def test_words_of_a_row_without_text_are_outside(pieces_of):
    """Such a row is in data sets of others, and among rows to predict."""
    config, words, tags = task(), [["", " "], *WORDS], [[1, 2], *TAGS]
    kind = tasks.kind_of(config)
    split = kind.encode(config, pieces_of, kind.examples(config, table(words, tags)))
    assert split.numbers["words"][: split.starts[1]].tolist() == [-1, -1]
    made = kind.predictions(config, split, logits_of(split, tags), majority=1)
    assert made.predicted == [["O", "O"], *([LABELS[tag] for tag in row] for row in TAGS)]


def test_one_row_a_word_with_its_own_item_and_no_logits_where_it_was_not_seen(pieces_of):
    split = encoded(pieces_of)
    columns = answers(split, TAGS).columns
    assert columns["item"] == ["row-0"] * 6 + ["row-1"] * 2 + ["row-2"] * 2
    assert columns["position"].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 0, 1]
    assert columns["label"].tolist() == columns["prediction"].tolist() == [tag for tags in TAGS for tag in tags]
    assert columns["logit_1"].to_pylist() == [0, 0, 1, 0, 0, 0, 0, 0, None, 1]


def test_loss_is_the_mean_over_labelled_words(pieces_of):
    split = encoded(pieces_of)
    logits = logits_of(split, TAGS)
    labelled = split.labels != IGNORED
    chances = np.exp(logits[labelled]) / np.exp(logits[labelled]).sum(axis=1, keepdims=True)
    expected = -np.log(chances[np.arange(labelled.sum()), split.labels[labelled]]).mean()
    assert answers(split, TAGS).loss == pytest.approx(expected, rel=1e-5)


def test_pieces_of_a_step_weigh_by_their_labelled_words():
    labels = torch.tensor([[1, 2, 1, IGNORED], [IGNORED, 1, IGNORED, IGNORED]])
    batch = Batch(torch.zeros(2, 4, dtype=torch.int64), labels=labels)
    kind = tasks.kind_of(task())
    step = step_of(batch, 2, kind.num_targets)
    assert step.weights == [3 / 4, 1 / 4]
    assert [kind.num_targets(piece) for piece in pieces(batch, 2)] == [3, 1]


@pytest.mark.parametrize(
    ("words", "tags", "expected"),
    [
        ([["a"], ["a", "b"]], [[0], [0]], "row 1: 2 words, but 1 tags in column 'tags', task.label"),
        ([["a"], ["b"]], [[0], 0], "row 1: 1 words, but 0 tags in column 'tags', task.label"),
        ([["a"], []], [[0], []], "row 1: expected a list of words in column 'words', task.fields"),
        ([["", " "]], [[0, 0]], "the texts of all 1 rows are empty"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_row_and_key(words, tags, expected):
    with pytest.raises(InputError, match=f"^task 'places', train.*{expected}"):
        tasks.kind_of(task()).examples(task(), table(words, tags))


def test_all_rows_with_other_tags_are_refused_by_their_places_in_the_file():
    """Rows of a part of a file, as with task.tune_share, have other numbers there."""
    rows = replace(table([["a"], ["b", "c"], []], [[0, 0], [0], []]), places=["line 4", "line 7", "line 9"])
    with pytest.raises(InputError, match=r"line 4: 1 words, but 2 tags.*line 7: 2 words, but 1 tags.*line 9: expected a list"):
        tasks.kind_of(task()).examples(task(), rows)


@pytest.mark.parametrize(
    ("words", "tags", "expected"),
    [
        (["a", "b"], [0, 3], "label 3 is not among 0 to 2, task.labels"),
        ("a b", [0, 0], r"expected lists of words \(task.fields\), got 'a b' in 'words'"),
        (["a", None], [0, 0], r"expected lists of words \(task.fields\), got \['a', None\] in 'words'"),
    ],
)
def test_values_of_a_file_that_do_not_fit_are_refused_by_line_and_key(tmp_path, words, tags, expected):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"words": words, "tags": tags}))
    with pytest.raises(InputError, match=rf"^task 'places', train \(train.jsonl\), line 1: {expected}"):
        load_table(RunConfig(task=task(train_file=str(path))), "train")


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("trims", [True, False])
def test_pieces_are_those_of_running_text(prefix, trims):
    words = ["Ana", "Kova", "", "lives", " in ", "Mel", "\u200b", "."]
    cut = tokenizer.build(TokenizerConfig(kind=TokenizerKind.bpe, vocab_size=300, min_frequency=1), [" ".join(words)] * 9)
    cut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    byte_level = processors.ByteLevel(trim_offsets=trims)
    cut.post_processor = processors.Sequence([byte_level, processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))])
    config, running = task(), "Ana Kova lives in Mel \u200b ."
    split = tasks.kind_of(config).encode(config, cut, Examples([words], [[0] * len(words)], ["row"], "here"))
    assert split.ids.tolist() == cut.encode(running).ids
    firsts = {int(word): cut.id_to_token(split.ids[place]) for place, word in enumerate(split.numbers["words"]) if word >= 0}
    assert [*firsts] == [0, 1, 3, 4, 5, 6, 7]
    assert all(piece.startswith("Ġ") for word, piece in firsts.items() if word or prefix)
