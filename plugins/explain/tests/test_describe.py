"""What `python -m harness describe` prints and draws. The whole command runs, in this process."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import pytest
import zoo
from transformers import BertConfig, BertModel, LongformerConfig, LongformerModel
from variants import VARIANTS, variant

from harness.__main__ import main
from harness.config.schema import RunConfig
from harness.measure.size import count
from harness.models.config import EncoderConfig, NormPlace, Position, Sharing
from harness.models.heads import on_meta
from harness.models.objectives.config import ObjectiveName
from harness.plugins.explain import describe, describe_picture
from harness.plugins.explain.describe_picture import Architecture, Group, architecture_of
from harness.plugins.explain.pictures import STYLE, content
from harness.plugins.shared import pretraining_heads as heads
from harness.plugins.shared.pretraining_heads import TIED

SMALL = {"num_hidden_layers": 6, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 90}


def drawn(**changes) -> Architecture:
    return architecture_of(on_meta(EncoderConfig(**{**SMALL, **changes}), 2), "title", "subtitle")


def groups(of: Architecture) -> list[Group]:
    return [group for column in of.columns for group in column if group.note]


def parameters(of: Architecture) -> int:
    every = [group for column in of.columns for group in column]
    return sum(copies * part.parameters for group in every for part, copies in zip(group.parts, group.copies, strict=True))


# The command


@pytest.fixture
def described(said, monkeypatch):
    """What is printed without the picture."""
    monkeypatch.setattr(describe, "save", lambda *_: "")
    return lambda *arguments: said("describe", *arguments, "to=.")


@pytest.mark.long
def test_albert_is_told_by_its_difference_from_base(said):
    text = said("describe", "model=albert", "scale=base", "to=.")
    lines = [line.split() for line in text.splitlines()]
    counted = (
        "Counted with 30,522 and 30,000 vocabulary pieces; built-in tasks train a smaller one: python -m harness plan shows"
    )
    assert counted in " ".join(text.split())
    first = lines.index(["setting", "base", "albert"])
    assert sorted(" ".join(line) for line in lines[first + 2 : lines.index([], first)]) == [
        "attention_probs_dropout_prob 0.1 0",
        "classifier_dropout null 0.1",
        "embedding_fraction 1 0.1667",
        "embedding_width (computed) 768 128",
        "hidden_act gelu gelu_tanh",
        "hidden_dropout_prob 0.1 0",
        "num_hidden_groups null 1",
        "vocab_size 30522 30000",
    ]
    assert ["total", "109,483,778", "11,685,122", "−89.3", "%"] in lines
    assert ["effective", "109,483,778", "89,651,714", "−18.1", "%"] in lines
    assert ["embedding_projection", "-", "99,072", "new"] in lines
    assert lines[-2:] == [["albert-base.png"], ["albert-base.svg"]]
    assert Path("albert-base.png").is_file()
    assert "one layer" in Path("albert-base.svg").read_text()


def heads_of(out: str) -> dict[str, list[str]]:
    """Component -> what the table of pretraining heads says of base, of the variant and of their change."""
    (table,) = (part.splitlines() for part in out.split("\n\n") if part.startswith("pretraining heads"))
    return {name: columns for name, *columns in (re.split(r"\s{2,}", line) for line in table[2:])}


@pytest.mark.long
def test_output_matrix_that_is_the_token_embedding_looks_unlike_one_of_its_own(described):
    roberta = ("model=roberta", "scale=base")
    tied, own = heads_of(described(*roberta)), heads_of(described(*roberta, "model.tie_masked_lm_head=false"))
    assert tied["masked_head.output"] == [TIED, TIED, "="]
    assert own["masked_head.output"] == [TIED, "38,603,520", "new"]
    assert tied["masked_head"] == own["masked_head"] == ["622,650", "642,393", "+3.2 %"]
    both = heads_of(described("model=deberta", "scale=tiny", "pretrain=mlm"))
    assert both["masked_head.decoder"] == ["-", "65,536", "new"]


@pytest.mark.long
def test_heads_are_those_of_the_configured_objective_or_the_reason_why_not(described):
    assert heads_of(described("scale=tiny", "pretrain=cbow", "model=static"))["lm_head.output"] == ["-", TIED, "-"]
    out = described("scale=tiny", "pretrain=cbow")
    assert "no pretraining heads: pretrain.objective=cbow cannot be combined with model.body=transformer" in out
    heal = replace(RunConfig().pretrain, objective=ObjectiveName.distillation, soft_weight=0.0, masked_weight=0.0)
    run = RunConfig(model=variant("base"), pretrain=heal, arm="heal")
    assert describe.pretraining_heads(run, run.model) == "no pretraining heads: heal learns from hidden states alone"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["base", "albert", "electra", "deberta_v3", "gpt2", "xlnet", "bilstm", "static"])
def test_heads_are_all_that_a_pretraining_trains_beside_the_encoder(name, tied):
    objective = heads.shapes(variant(name, tie_masked_lm_head=tied), RunConfig().pretrain)
    numbers = [value for value in heads.components(objective).values() if value != TIED]
    assert sum(numbers) == count(objective) - count(objective.encoder) > 0


@pytest.mark.long
def test_difference_is_from_base_at_the_same_scale(described):
    rows = [line.split() for line in described("model=enhanced_shallow", "scale=tiny").splitlines()]
    assert ["num_hidden_layers", "2", "1"] in rows
    assert not any(row[:1] == ["hidden_size"] for row in rows)
    assert "change" not in described("scale=tiny")


@pytest.mark.long
def test_sweep_describes_every_variant_and_brackets_are_none(described):
    out = described("-m", "model=base,swiglu", "scale=tiny")
    assert [line for line in out.splitlines() if " at scale " in line] == ["base at scale tiny", "swiglu at scale tiny"]
    assert described("scale=tiny", "enhancement=[swiglu,shared]").startswith("base+shared+swiglu at scale tiny")


@pytest.mark.long
def test_own_models_and_scales_are_found(described):
    for folder, text in (("model", "gated_feed_forward: true"), ("scale", "# @package model\nhidden_size: 96")):
        Path(folder).mkdir()
        Path(folder, "mine.yaml").write_text(text)
    out = described("--config-dir", ".", "model=mine", "scale=mine")
    assert "gated_feed_forward" in out
    assert "hidden_size" not in out


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_every_model_can_be_described_to_the_last_parameter(monkeypatch, name):
    seen, draw = [], describe_picture.draw
    monkeypatch.setattr(describe_picture, "draw", seen.append)
    monkeypatch.setattr(describe, "save", lambda *_: "")
    run = RunConfig(arm=name, scale_name="tiny", model=variant(name))
    out = describe.describe(run, variant("base"), "tiny", Path())
    lines = out.partition("\nparameters")[2].partition("\n\n")[0].strip().splitlines()[2:]
    rows = {cells[0]: cells[min(2, len(cells) - 1)].replace(",", "") for cells in (re.split("  +", line) for line in lines)}
    total = int(rows.pop("total"))
    assert int(rows.pop("effective", total)) >= total
    assert sum(int(value) for value in rows.values() if value != "-") == total == parameters(seen[0])
    draw(seen[0])


@pytest.mark.long
def test_an_encoder_that_needs_values_is_described_with_its_windows(described):
    shape = SMALL | {"num_hidden_layers": 1, "vocab_size": 128, "attention_window": 4, "max_position_embeddings": 20}
    LongformerModel(LongformerConfig(**shape)).save_pretrained("weights")
    zoo.save_tokenizer(Path("weights"))
    out = described("model.init_from=weights", "model.provider=transformers")
    assert re.search(r"windows, sharing +windows of 4 tokens", out)
    assert re.search(r"query_global +\[1, B, D\]", out)


@pytest.mark.long
def test_weights_to_start_from_are_described_with_their_own_shape(said, capsys):
    shape = {"vocab_size": 500, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 96}
    BertModel(BertConfig(**shape, max_position_embeddings=40)).save_pretrained("weights")
    Path("weights", "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    out = said("describe", "model.init_from=weights", "scale=mini", "to=.")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith(("hidden_size", "token_embedding")))
    assert "weights at scale L3-H64, compared with base at scale mini" in out
    assert rows["hidden_size"].split() == ["256", "64"]
    assert rows["token_embedding"].split()[:2] == [f"{30522 * 256:,}", "32,000"]
    assert main(["describe", "scales", "model.init_from=weights"]) == 2
    assert "weights have only one scale" in capsys.readouterr().err


# The architecture


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_window": 4, "global_layer_every": 3, "norm_place": NormPlace.pre, "num_hidden_layers": 8},
        {"num_hidden_groups": 4},
        {"num_hidden_groups": 2, "sharing": Sharing.attention},
        {"position": Position.bucketed, "norm_place": NormPlace.pre},
    ],
)
def test_boxes_hold_all_parameters(changes):
    assert parameters(drawn(**changes)) == count(on_meta(EncoderConfig(**{**SMALL, **changes}), 2))


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, ["× 6"]),
        ({"num_hidden_groups": 1}, ["one layer,\nruns 6 times"]),
        ({"num_hidden_groups": 4}, ["4 layers,\nrun 6 times"]),
        ({"num_hidden_groups": 1, "sharing": Sharing.attention}, ["× 6,\npartly\nshared"]),
        ({"attention_window": 4, "global_layer_every": 3}, ["layers 1, 4", "layers 2, 3,\n5, 6"]),
    ],
)
def test_layers_that_look_the_same_are_one_group_that_says_how_often_it_runs(changes, notes):
    assert [group.note for group in groups(drawn(**changes))] == notes


def test_norm_stands_where_the_config_puts_it():
    after, before = (groups(drawn(norm_place=place))[-1] for place in (NormPlace.post, NormPlace.pre))
    assert [part.title for part in after.parts][:2] == ["Full self-attention", "Add, LayerNorm"]
    assert [part.title for part in before.parts][:3] == ["LayerNorm", "Full self-attention", "Add"]


@pytest.mark.long
def test_same_architecture_is_the_same_file_byte_by_byte():
    with mpl.rc_context(fname=STYLE):
        figures = [describe_picture.draw(drawn(attention_window=window)) for window in (4, 4, 6)]
        one, other, changed = ([content(figure, ending) for ending in ("png", "svg")] for figure in figures)
    assert one == other
    assert one[1] != changed[1]


@pytest.mark.long
@pytest.mark.parametrize("name", ["base", "modern", "encoder_decoder", "longformer", "xlnet", "bilstm"])
def test_no_text_leaves_the_picture_and_none_covers_another(name, style, boxes_inside):
    architecture = architecture_of(on_meta(variant(name, "large"), 2), f"{name} " * 20, "subtitle")
    boxes = boxes_inside(describe_picture.draw(architecture))
    assert not any(box.overlaps(other) for box, other in combinations(boxes, 2))
