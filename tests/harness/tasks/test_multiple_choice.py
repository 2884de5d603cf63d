"""Which of several endings a text has: one score each, a softmax over those of a row."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMultipleChoice

from harness.config.choices import TaskKind
from harness.config.schema import RunConfig, TaskConfig, TokenizerConfig
from harness.data.tokenizer import build
from harness.errors import InputError, present
from harness.hardware.device import Machine
from harness.measure import subject
from harness.models import huggingface
from harness.models.config import Activation, EncoderConfig
from harness.models.heads import ChoiceClassifier, build_classifier
from harness.models.huggingface import task_heads
from harness.plugins.shared import memory_formula
from harness.tasks import kind_of, refuse_impossible
from harness.tasks.base import Examples
from harness.tasks.batches import collate, padded_shapes, pieces, training_batches
from harness.tasks.prepared import _tables
from harness.tasks.rows import load_table, with_labels
from harness.training.finetune import step_of

TASK = TaskConfig(
    name="made",
    kind=TaskKind.multiple_choice,
    fields=["start", "a", "b", "c"],
    labels=["a", "b", "c"],
    scores=["accuracy"],
    headline="accuracy",
)
SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
ROWS = [
    ["we", "ran", "ran far", "ran far away"],
    ["they ate", "a b c d e f", "bread", "rice"],
    ["x", "y", "z", "y z"],
    ["q q q q", "a", "b", "c"],
]


@pytest.fixture
def split(letters):
    return kind_of(TASK).encode(TASK, letters, Examples(ROWS, [2, 0, 1, 0], ["p", "q", "r", "s"], "made"))


@pytest.fixture
def letters():
    """A tokenizer with a piece for each letter."""
    return build(TokenizerConfig(vocab_size=300, min_frequency=1), [" ".join("abcdefghijklmnopqrstuvwxyz") * 2])


def test_the_endings_of_a_row_are_one_item_of_every_batch(split, letters):
    assert (len(split), split.group, len(split.starts)) == (4, 3, 13)
    batch = collate(split, np.array([1, 2]), 0)
    assert (batch.items, batch.input_ids.shape[0], batch.labels.tolist()) == (2, 6, [0, 1])
    texts = [letters.encode(first, ending).ids for first, *endings in ROWS[1:3] for ending in endings]
    real = [[number for number in row if number] for row in batch.input_ids.tolist()]
    assert real == texts
    assert [part.labels.tolist() for part in pieces(batch, 2)] == [[0], [1]]
    assert torch.equal(pieces(batch, 2)[1].input_ids, batch.input_ids[3:])
    first = next(training_batches(split, 2, 0, 0, 1))
    assert (len(first.input_ids), first.input_ids.shape[1]) == next(padded_shapes(split, 2, 0, 1, 1))
    step = step_of(first, 2, kind_of(TASK).num_targets, lambda rows, length: rows)
    assert (step.rows, step.flops, step.weights) == (2, 6, [0.5, 0.5])
    assert sorted(map(len, split.ids_of_items())) == sorted(
        sum(len(letters.encode(first, ending).ids) for ending in endings) for first, *endings in ROWS
    )


@pytest.mark.parametrize("stated", [True, False])
def test_scores_and_loss_are_those_of_transformers(split, stated):
    config = EncoderConfig(vocab_size=300, pooler=Activation.tanh, **SHAPE)
    theirs = BertForMultipleChoice(BertConfig(vocab_size=300, **SHAPE, pad_token_id=0)).eval()
    config_json = theirs.config.to_dict() | {"architectures": ["BertForMultipleChoice"] if stated else None}
    model = build_classifier(config, 1, 0, ChoiceClassifier).eval()
    state, notes = huggingface.translated(model, theirs.state_dict(), config_json, "multiple_choice", TASK.labels)
    assert not any("new" in note for note in notes)
    model.load_state_dict(state)
    batch = collate(split, np.arange(4), 0)
    inputs = [batch.input_ids, batch.attention_mask.long(), batch.token_type_ids]
    with torch.no_grad():
        expected = theirs(*(one.view(4, 3, -1) for one in inputs), labels=batch.labels)
        logits = model(batch)
    assert torch.allclose(logits, expected.logits, atol=1e-6)
    assert logits.std() > 0
    assert kind_of(TASK).loss_of(model, logits, batch).item() == pytest.approx(expected.loss.item(), abs=1e-6)
    answers = kind_of(TASK).predictions(TASK, split, expected.logits.numpy(), 1)
    assert answers.predicted.tolist() == expected.logits.argmax(1).tolist()
    assert (answers.baseline.tolist(), answers.loss) == ([1] * 4, pytest.approx(expected.loss.item()))


@pytest.mark.parametrize(
    ("architecture", "foreign"), [("BertForMultipleChoice", False), ("BertForSequenceClassification", True)]
)
def test_a_head_for_choices_is_read_as_one_alone(architecture, foreign):
    config_json = {"model_type": "bert", "architectures": [architecture]}
    assert task_heads.is_of_another_task({}, config_json, False, "multiple_choice") is foreign
    assert task_heads.is_of_another_task({}, config_json, False, "classification") is not foreign


def test_a_measured_step_has_all_endings():
    run = RunConfig(task=TASK, model=EncoderConfig(vocab_size=300, **SHAPE))
    run.measure.length = 8
    batch = subject.labelled_texts(run, 2, Machine(run.hardware))
    assert (batch.input_ids.shape, batch.items, batch.labels.shape) == ((6, 8), 2, (2,))
    subject.classifier(run).loss(subject.classifier(run)(batch), batch.labels).backward()
    shape = subject.step_shape(run, 2)
    assert (shape.tokens, shape.group) == (48, 3)
    assert present(memory_formula.parts(shape, run.hardware, False).activations) > 0


def test_endings_may_be_a_list_and_labels_their_names(tmp_path):
    rows = [{"q": f"q {n}", "choices": {"text": ["x", "y"]}, "key": "AB"[n % 2]} for n in range(4)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = replace(TASK, fields=["q", "choices.text"], label="key", labels=[], train_file=str(tmp_path / "a.jsonl"))
    config = with_labels(RunConfig(task=task))
    assert config.task.labels == ["A", "B"]
    examples = kind_of(task).examples(config.task, load_table(config, "train"))
    assert (examples.texts[0], examples.labels) == (["q 0", "x", "y"], [0, 1, 0, 1])


def test_names_of_endings_whose_order_nobody_states_are_one_line(tmp_path):
    rows = [{"q": f"q {n}", "endings": ["yes", "no", "maybe"], "key": ["yes", "no", "maybe"][n % 3]} for n in range(6)]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"train_file": str(tmp_path / "a.jsonl"), "validation_file": str(tmp_path / "b.jsonl")}
    task = replace(TASK, fields=["q", "endings"], label="key", labels=[], **files)
    with pytest.raises(InputError, match=r"^task 'made', train .*, got 'maybe'; for names, list task.labels in the order"):
        _tables(RunConfig(task=task))
    named = replace(task, labels=["yes", "no", "maybe"])
    assert load_table(RunConfig(task=named), "train").columns["key"] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"fields": ["start", "a", "b"]}, "must name the text and then a column for each of the 3 labels, or the one column"),
        ({"fields": ["start"]}, "must name the text and then a column"),
        ({"labels": ["a"], "fields": ["start", "a"]}, "must name two classes or more"),
    ],
)
def test_fields_that_do_not_fit_are_one_line(keys, expected):
    with pytest.raises(InputError, match=expected):
        refuse_impossible(replace(TASK, **keys))


def test_another_number_of_endings_names_its_row(letters):
    with pytest.raises(InputError, match=r"^made, item q: 1 endings, but task.labels has 3 names$"):
        kind_of(TASK).encode(TASK, letters, Examples([ROWS[0], ["a", "b"]], [0, 0], ["p", "q"], "made"))
