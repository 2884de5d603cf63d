"""`python -m harness inspect`: tables of made items of every kind, attention as the model has it, pictures, wrong inputs."""

import contextlib
import io
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import torch
from matplotlib.colors import to_rgba

from harness import paths
from harness.checkpoints import native
from harness.config.choices import DataSource, TaskKind
from harness.config.resolve import Found, resolve
from harness.config.schema import DataConfig, ModelConfig, RunConfig, TaskConfig, TokenizerConfig
from harness.data.tokenizer import SPECIAL, build
from harness.errors import InputError
from harness.grammar import parse
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, Position
from harness.models.encoder import Encoder, initialise
from harness.models.heads import SequenceClassifier
from harness.plugins.explain import attention, inspect
from harness.plugins.explain.attention import AttentionMap, maps_of
from harness.plugins.explain.inspect import InputSequence, as_table, sequences_of, trained_tokenizer
from harness.plugins.explain.options import Inspect
from harness.tasks.synthetic.families import FAMILIES

PIECES = [*SPECIAL, "the", "cat", "sat", "on", "mat", "##s", "a", "dog", "."]
SHAPE = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": len(PIECES)}
ROOT = Path(__file__).resolve().parents[3]
ROWS = {
    "pairs": [{"a": "the cat sat", "b": "dogs", "label": 1}, {"a": "the mats", "b": "a dog sat .", "label": 0}],
    "scale": [{"a": "the cat", "label": 2.5}],
    "words": [{"words": ["the", "mats", "sat"], "label": ["O", "B-thing", "O"]}],
    "spans": [{"a": "on", "b": "the cat sat on the mat .", "label": {"text": ["the mat"], "answer_start": [15]}}],
}
TASKS = {
    "pairs": TaskConfig(name="pairs", fields=["a", "b"], labels=["other", "same"], scores=["accuracy"], headline="accuracy"),
    "scale": TaskConfig(name="scale", kind=TaskKind.regression, fields=["a"], scores=["pearson"], headline="pearson"),
    "words": TaskConfig(
        name="words", kind=TaskKind.tokens, fields=["words"], labels=["O", "B-thing"], scores=["accuracy"], headline="accuracy"
    ),
    "spans": TaskConfig(
        name="spans",
        kind=TaskKind.spans,
        fields=["a", "b"],
        scores=["f1"],
        headline="f1",
        max_length=9,
        stride=1,
    ),
}


@pytest.fixture
def config_of(tmp_path: Path):
    """A run on one of TASKS, whose rows lie in a file."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))

    def config(name: str, **model: object) -> RunConfig:
        files = {f"{split}_file": tmp_path / f"{name}-{split}.jsonl" for split in ("train", "validation")}
        for path in files.values():
            path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
        return RunConfig(
            task=replace(TASKS[name], **{key: str(path) for key, path in files.items()}),
            data=DataConfig(source=DataSource.local),
            model=ModelConfig(**{**SHAPE, **model}),
            tokenizer=TokenizerConfig(vocab_file=str(tmp_path / "vocab.txt")),
        )

    return config


def encoder_of(seed: int = 0, **changes: object) -> Encoder:
    encoder = Encoder(EncoderConfig(**{**SHAPE, **changes})).eval()
    initialise(encoder, 0.4, seed)
    return encoder


def text_of(length: int) -> Batch:
    ids = torch.arange(length)[None] * 7 % len(PIECES)
    return Batch(ids, (torch.arange(length)[None] > length // 2).long())


# The table


def test_pair_has_two_segments_and_one_label(config_of):
    (sequence,) = sequences_of(config_of("pairs"), "validation", "0", None)
    assert as_table(sequence).split("\n\n")[1].splitlines() == [
        "piece     [CLS]  the  cat  sat  [SEP]  dog  ##s  [SEP]",
        "------------------------------------------------------",
        "id            2    5    6    7      3   12   10      3",
        "segment       0    0    0    0      0    1    1      1",
        "position      0    1    2    3      4    5    6      7",
        "mask          1    1    1    1      1    1    1      1",
    ]
    assert as_table(sequence).splitlines()[:4] == ["pairs, validation, item 0", "a: the cat sat", "b: dogs", "label: 1 (same)"]


@pytest.mark.parametrize(
    ("name", "label", "note"),
    [
        ("scale", None, "label: 2.5"),
        ("words", ("-", "O", "B-thing", "-", "O", "-"), "label: a tag at the first piece of each word"),
    ],
)
def test_label_of_a_text_is_a_note_and_tags_stand_below_the_first_pieces(config_of, name, label, note):
    (sequence,) = sequences_of(config_of(name), "validation", "0", None)
    assert sequence.notes[0] == note
    assert sequence.rows.get("label") == label


def test_answer_is_marked_in_the_window_that_holds_it(config_of):
    first, *_, last = sequences_of(config_of("spans"), "validation", "0", None)
    assert last.rows["piece"] == ("[CLS]", "on", "[SEP]", "the", "mat", ".", "[SEP]")
    assert last.rows["label"] == ("-", "-", "-", "start", "end", "-", "-")
    assert "the answer is 'the mat'" in last.notes[0]
    assert first.rows["label"] == ("start, end", *"-" * 8)
    assert "cut by this window" in first.notes[0]
    assert first.title == "spans, validation, item 0, window 1 of 2"


def test_long_table_goes_on_below_and_loses_nothing(config_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    (sequence,) = sequences_of(config_of("pairs"), "validation", "1", None)
    blocks = as_table(sequence).split("\n\n")[1:]
    assert len(blocks) > 2
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 30
    pieces = [cell for block in blocks for cell in block.splitlines()[0].split()[1:]]
    assert tuple(pieces) == sequence.rows["piece"]


@pytest.mark.parametrize(
    ("changes", "added", "note"),
    [
        ({}, ("id", "segment", "position"), "full self-attention: 2 heads of 4"),
        ({"type_vocab_size": 0}, ("id", "position"), "position embedding: 512 × 8, learned, added"),
        ({"type_vocab_size": 1}, ("id", "segment", "position"), "type embedding: 1 × 8, added"),
        ({"position": Position.sinusoidal}, ("id", "segment", "position"), "sinusoidal positions: computed, added"),
        ({"position": Position.rotary}, ("id", "segment"), "rotary positions"),
        ({"position": Position.disentangled}, ("id", "segment"), "disentangled positions"),
        ({"position": Position.relative, "type_vocab_size": 0}, ("id",), "relative positions"),
        ({"position": Position.none, "body": Body.lstm}, ("id", "segment"), "two lstm directions"),
        ({"position": Position.none, "body": Body.static}, ("id", "segment"), "attention: none"),
        ({"embedding_size": 4}, ("id", "segment", "position"), "embedding projection: 4 → 8"),
    ],
)
def test_only_what_the_variant_adds_is_added(config_of, changes, added, note):
    (sequence,) = sequences_of(config_of("pairs", **changes), "validation", "0", None)
    assert sequence.added == added
    assert any(note in each for each in sequence.notes)
    assert ("position" in sequence.rows) == ("position" in added)


def test_embeddings_of_the_rows_that_are_shown_are_what_the_model_sums(config_of):
    config = config_of("pairs", position_offset=2, embedding_norm=False)
    (sequence,) = sequences_of(config, "validation", "0", None)
    embeddings = encoder_of(position_offset=2, embedding_norm=False).embeddings
    tables = {"id": "token_embedding", "segment": "type_embedding", "position": "position_embedding"}
    rows = {name: torch.tensor([int(cell) for cell in sequence.rows[name]]) for name in sequence.added}
    summed = sum(getattr(embeddings, tables[name]).weight[row] for name, row in rows.items())
    torch.testing.assert_close(embeddings(sequence.batch)[0], summed)


@pytest.mark.long
def test_words_of_a_generated_task_are_whole_as_in_a_run(compose):
    config = resolve(*compose("scale=tiny", "task=bag", "task.grammar.train_examples=8"), Found())
    tokenizer = trained_tokenizer(config)
    assert all(
        len(tokenizer.encode(word, add_special_tokens=False).ids) == 1 for word in FAMILIES[config.task.grammar.rule].words
    )


# Attention

FULL = [
    {},
    {"causal": True},
    {"position": Position.alibi},
    {"position": Position.disentangled},
    {"position": Position.relative, "type_vocab_size": 0},
    {"num_hidden_groups": 1},
    {"head_size": 6},
    {"body": Body.encoder_decoder},
]
WINDOWED = [
    {"attention_window": 4},
    {"attention_window": 4, "position": Position.rotary, "global_layer_every": 2},
    {"attention_window": 4, "position": Position.bucketed, "causal": True},
]
VALUES = {"query_key_value": 3, "key_value": 2, "value": 1}


@pytest.mark.parametrize("changes", [*FULL, *WINDOWED])
@pytest.mark.parametrize("length", [9, 37])
def test_weights_over_values_are_what_attention_gives_out(changes, length):
    encoder, said = encoder_of(**changes), []
    batch = text_of(length)
    maps = maps_of(encoder, batch)
    for module in encoder.modules():
        if hasattr(module, "output") and any(hasattr(module, name) for name in VALUES):
            module.register_forward_hook(lambda module, given, output: said.append((module, given, output[0])))
    encoder(batch)
    assert len(said) == len(maps) > 1
    for found, (module, given, output) in zip(maps, said, strict=True):
        assert found.weights.shape == (2, length, length)
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(2, length))
        name = next(name for name in VALUES if hasattr(module, name))
        over = given[1] if "over the encoder" in found.title else given[0]
        values = getattr(module, name)(over)[0].chunk(VALUES[name], dim=-1)[-1].view(length, 2, -1).transpose(0, 1)
        mixed = (found.weights @ values).transpose(0, 1).reshape(length, -1)
        assert (module.output(mixed) - output).abs().max() <= 1e-5


def test_text_of_several_segments_is_refused():
    encoder = encoder_of(position=Position.relative, causal=True, type_vocab_size=0, segment_length=16, memory_length=16)
    assert len(maps_of(encoder, text_of(16))) == 2
    with pytest.raises(InputError, match=r"at most model.segment_length=16 pieces, got 17; shorten the text"):
        maps_of(encoder, text_of(17))


@pytest.mark.parametrize("length", [9, 37])
def test_weights_are_zero_outside_of_the_window_alone(length):
    first, second = maps_of(encoder_of(**WINDOWED[1]), text_of(length))
    places = torch.arange(length)
    outside = (places[:, None] - places).abs() > 2
    assert (second.weights[:, outside] == 0).all()
    assert (second.weights[:, ~outside] > 0).all()
    assert (first.weights > 0).all()


def test_global_tokens_are_seen_and_see_outside_of_the_window():
    found, _ = maps_of(encoder_of(attention_window=4, global_tokens=2), text_of(37))
    assert (found.weights[:, :2] > 0).all()
    assert (found.weights[:, :, :2] > 0).all()
    assert (found.weights[:, 20, 30] == 0).all()


def test_asking_leaves_no_trace_in_the_model():
    encoder, batch = encoder_of(), text_of(9)
    before = encoder(batch)
    maps_of(encoder, batch)
    assert torch.equal(encoder(batch), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in encoder.modules())


def test_layers_of_encoder_and_decoder_are_numbered_apart():
    titles = [found.title for found in maps_of(encoder_of(body=Body.encoder_decoder), text_of(5))]
    assert titles[:3] == ["encoder layer 1", "encoder layer 2", "decoder layer 1"]
    assert titles[3] == "decoder layer 1, over the encoder"


@pytest.mark.parametrize("body", [Body.lstm, Body.static])
def test_body_without_attention_has_no_maps(body):
    assert maps_of(encoder_of(body=body), text_of(5)) == []


# The pictures


def long_sequence(count: int) -> InputSequence:
    piece = tuple(["[CLS]", "a", "##incomprehensibilities", "$x_1$", "猫", "﷽", "W"][place % 7] for place in range(count))
    rows = {"piece": piece, "id": ("30521",) * count, "segment": ("0",) * 5 + ("1",) * (count - 5)}
    rows |= {"position": tuple(map(str, range(count))), "label": ("B-creative-work",) * count}
    return InputSequence("title " * 60, (), rows, ("id", "segment", "position"), ("told " * 90, "short"), text_of(3))


@pytest.mark.long
@pytest.mark.parametrize("count", [7, 60])
def test_no_text_leaves_the_picture_or_covers_its_neighbour(style, boxes_inside, count):
    boxes = boxes_inside(inspect.draw(long_sequence(count)))
    for box, other in combinations(boxes, 2):
        assert not box.shrunk(0.98, 0.98).overlaps(other.shrunk(0.98, 0.98))


@pytest.mark.long
@pytest.mark.parametrize(("count", "heads"), [(9, 2), (9, 12), (44, 4), (130, 8)])
def test_no_text_leaves_the_attention_picture(style, boxes_inside, count, heads):
    maps = [
        AttentionMap(f"decoder layer {number}, over the encoder", torch.eye(count).repeat(heads, 1, 1)) for number in (1, 2)
    ]
    boxes_inside(attention.draw(maps, long_sequence(count).rows["piece"], "title " * 60))


def test_zero_is_drawn_apart_from_little(style):
    weights = torch.tensor([[[0.999, 0.001], [0.0, 1.0]]])
    (image,) = attention.draw([AttentionMap("layer 1", weights)], ["a", "b"], "title").axes[0].images
    colours = image.to_rgba(image.get_array())
    assert tuple(colours[1, 0]) == to_rgba(attention.NEVER)
    assert tuple(colours[0, 1]) != to_rgba(attention.NEVER)


# The command


@pytest.fixture
def checkpoint(tmp_path: Path, config_of) -> Path:
    """Weights of ours with the tokenizer of PIECES."""
    shape = EncoderConfig(**SHAPE, attention_window=4)
    model = SequenceClassifier(shape, 2)
    initialise(model, 0.5, 0)
    folder = tmp_path / "run"
    native.save(folder / paths.WEIGHTS, model.state_dict(), shape)
    build(config_of("pairs").tokenizer, ()).save(str(folder / paths.WEIGHTS / native.TOKENIZER))
    return folder


def shown(config: RunConfig, *arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert inspect.main(parse([*arguments, "task=pairs"], Inspect, "inspect"), [config]) == 0
    return out.getvalue()


@pytest.mark.long
def test_pictures_are_written_and_the_same_again(config_of, checkpoint):
    arguments = ("item=0", str(checkpoint), "attention=true", "png=true")
    out = shown(config_of("pairs"), *arguments, "to=one")
    names = [f"pairs-validation-item_0{part}.{ending}" for part in ("", "-attention") for ending in ("svg", "png")]
    assert out.splitlines()[-4:] == [str(Path("one") / name) for name in names]
    shown(config_of("pairs"), *arguments, "to=two")
    for name in names:
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


@pytest.mark.long
def test_input_is_that_of_the_weights_that_are_named(config_of, checkpoint):
    config = config_of("pairs", position=Position.rotary)
    assert "2 tokens to each side" in shown(config, "item=0", str(checkpoint))
    assert "rotary positions" in shown(config, "item=0")


def test_what_does_not_fit_the_item_or_the_weights_is_refused(config_of, checkpoint):
    config, named = config_of("pairs"), ("item=0", str(checkpoint))
    with pytest.raises(InputError, match=r"item='7' is not an id of task 'pairs', validation; choices: 0, 1$"):
        shown(config, "item=7")
    for changes, arguments, message in (
        ({"body": Body.lstm}, [*named, "attention=true"], "has no attention"),
        ({"max_position_embeddings": 20}, named, r"task\.max_length=128 must be at most the 20 that the model takes"),
    ):
        shape = EncoderConfig(**SHAPE, **changes)
        native.save(checkpoint / paths.WEIGHTS, SequenceClassifier(shape, 2).state_dict(), shape)
        with pytest.raises(InputError, match=message):
            shown(config, *arguments)
