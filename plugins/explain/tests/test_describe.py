"""What `python -m harness describe` prints and draws. The whole command runs, in this process."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import pytest
from omegaconf import OmegaConf
from transformers import BertConfig, BertModel
from variants import VARIANTS

from harness.__main__ import main
from harness.config.schema import ModelConfig, RunConfig
from harness.measure import pretraining_heads as heads
from harness.measure.pretraining_heads import TIED
from harness.measure.size import count
from harness.models.config import EncoderConfig, NormPlace, Position, Sharing
from harness.models.heads import on_meta
from harness.models.objectives.config import ObjectiveName
from harness.plugins.explain import describe, describe_picture
from harness.plugins.explain.describe_picture import Architecture, Box, Group, architecture_of
from harness.plugins.explain.pictures import STYLE, content

CONF = Path(__file__).parents[3] / "conf"
LONG = "num_hidden_layers=6 hidden_size=32 num_attention_heads=2 intermediate_size=64 vocab_size=90"
SMALL = {key: int(value) for key, value in (pair.split("=") for pair in LONG.split())}


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    code = main(["describe", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def drawn(**changes) -> Architecture:
    return architecture_of(on_meta(EncoderConfig(**{**SMALL, **changes}), 2), "title", "subtitle")


def composed(name: str, scale: str = "tiny") -> ModelConfig:
    """As Hydra composes it, without its seconds."""
    files = (OmegaConf.load(CONF / f"{file}.yaml") for file in (f"scale/{scale}", f"model/{name}"))
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelConfig), *files))


def groups(of: Architecture) -> list[Group]:
    return [item for column in of.columns for item in column if isinstance(item, Group)]


def parameters(of: Architecture) -> int:
    items = [item for column in of.columns for item in column]
    boxes = [box for item in items for box in (item.boxes if isinstance(item, Group) else [item])]
    return sum(box.copies * box.parameters for box in boxes)


# The command


@pytest.mark.long
def test_albert_is_told_by_its_difference_from_base(capsys, tmp_path):
    code, out, _ = said(capsys, "model=albert", "scale=base", f"to={tmp_path}")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    first = lines.index(["key", "base", "albert"])
    assert sorted(lines[first + 2 : lines.index([], first)]) == sorted(
        [
            ["vocab_size", "30522", "30000"],
            ["embedding_fraction", "1", "0.1667"],
            ["num_hidden_groups", "null", "1"],
            ["hidden_act", "gelu", "gelu_tanh"],
            ["hidden_dropout_prob", "0.1", "0"],
            ["attention_probs_dropout_prob", "0.1", "0"],
            ["classifier_dropout", "null", "0.1"],
            ["=", "embedding_width", "768", "128"],
        ]
    )
    assert ["total", "109,483,778", "11,685,122", "-89.3", "%"] in lines
    assert ["effective", "109,483,778", "89,651,714", "-18.1", "%"] in lines
    assert ["embedding_projection", "-", "99,072", "new"] in lines
    assert [[str(tmp_path / f"albert-base.{ending}")] for ending in ("png", "svg")] == lines[-2:]
    assert (tmp_path / "albert-base.png").read_bytes().startswith(b"\x89PNG")
    assert "one layer" in (tmp_path / "albert-base.svg").read_text()


def heads_of(out: str) -> dict[str, list[str]]:
    """Component -> what the table of pretraining heads says of base, of the variant and of their change."""
    (table,) = (part.splitlines() for part in out.split("\n\n") if part.startswith("pretraining heads"))
    return {name: columns for name, *columns in (re.split(r"\s{2,}", line) for line in table[2:])}


@pytest.mark.long
def test_output_matrix_that_is_the_token_embedding_looks_unlike_one_of_its_own(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(describe, "write_pictures", lambda *_: "")
    common = ["model=roberta", "scale=base", f"to={tmp_path}"]
    tied, own = (heads_of(said(capsys, *common, *more)[1]) for more in ([], ["model.tie_masked_lm_head=false"]))
    assert tied["masked_head.output"] == [TIED, TIED, "="]
    assert own["masked_head.output"] == [TIED, "38,603,520", "new"]
    assert tied["masked_head"] == own["masked_head"] == ["622,650", "642,393", "+3.2 %"]
    small = heads_of(said(capsys, "scale=larger_bert", f"to={tmp_path}")[1])
    assert small["masked_head.output"] == ["19,200,000", "19,200,000", "="]
    both = heads_of(said(capsys, "model=deberta", "scale=tiny", "pretrain=mlm", f"to={tmp_path}")[1])
    assert both["masked_head.decoder"] == ["-", "65,536", "new"]


def test_heads_are_those_of_the_configured_objective_or_the_reason_why_not(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(describe, "write_pictures", lambda *_: "")
    common = ["scale=tiny", "pretrain=cbow", f"to={tmp_path}"]
    assert heads_of(said(capsys, *common, "model=static")[1])["lm_head.output"] == ["-", TIED, "-"]
    _, out, _ = said(capsys, *common, "model=base")
    assert "no pretraining heads: pretrain.objective=cbow cannot be combined with model.body=transformer" in out


def test_a_distillation_of_hidden_states_has_no_heads():
    heal = replace(RunConfig().pretrain, objective=ObjectiveName.distillation, soft_weight=0.0, masked_weight=0.0)
    run = RunConfig(model=composed("base"), pretrain=heal, arm="heal")
    assert heads.components(heads.shapes(run.model, heal)) == {}
    assert describe.pretraining_heads(run, run.model).startswith("no pretraining heads: ")
    assert heads.components(heads.shapes(run.model, replace(heal, masked_weight=1.0)))["masked_head"] > 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "name", ["base", "albert", "distilbert", "electra", "deberta", "deberta_v3", "gpt2", "xlnet", "bilstm", "static"]
)
def test_heads_are_all_that_a_pretraining_trains_beside_the_encoder(name, tied):
    model = replace(composed(name), tie_masked_lm_head=tied)
    objective = heads.shapes(model, RunConfig().pretrain)
    numbers = [value for value in heads.components(objective).values() if value != TIED]
    assert sum(numbers) == count(objective) - count(objective.encoder) > 0


def test_tables_are_aligned(capsys, tmp_path):
    _, out, _ = said(capsys, "model=enhanced", "scale=tiny", f"to={tmp_path}")
    rows = [line for line in out.splitlines() if line.startswith(("key", "num_hidden_groups", "= feed", "hidden_act"))]
    assert len(rows) == 4
    assert all(len(one) == len(other) for one, other in pairwise(rows))


@pytest.mark.long
def test_base_has_no_difference(capsys, tmp_path):
    _, out, _ = said(capsys, "scale=tiny", f"to={tmp_path}")
    assert "no difference from base" in out
    assert "%" not in out


def test_difference_is_from_base_at_the_same_scale(capsys, tmp_path):
    _, out, _ = said(capsys, "model=enhanced_shallow", "scale=tiny", f"to={tmp_path}")
    rows = [line.split() for line in out.splitlines()]
    assert ["num_hidden_layers", "2", "1"] in rows
    assert not any(row[:1] == ["hidden_size"] for row in rows)


@pytest.mark.long
def test_sweep_describes_every_variant(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(describe, "write_pictures", lambda *_: "")
    code, out, _ = said(capsys, "-m", "model=base,swiglu", "scale=tiny", f"to={tmp_path}")
    assert code == 0
    assert [line for line in out.splitlines() if " at scale " in line] == ["base at scale tiny", "swiglu at scale tiny"]


@pytest.mark.long
def test_own_models_and_scales_are_found(capsys, tmp_path):
    for folder, text in (("model", "gated_feed_forward: true"), ("scale", "# @package model\nhidden_size: 96")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.yaml").write_text(text)
    code, out, _ = said(capsys, "--config-dir", str(tmp_path), "model=mine", "scale=mine", f"to={tmp_path}")
    assert code == 0
    assert "gated_feed_forward" in out
    assert "hidden_size" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=albrt"], "unknown model 'albrt'; did you mean 'albert'?"),
        (["model.hidden_sise=8"], "unknown key 'model.hidden_sise'; did you mean 'model.hidden_size'?"),
        (["model.attention_window=7"], "model.attention_window=7 must be even"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_two(capsys, tmp_path, arguments, message):
    code, out, err = said(capsys, *arguments, f"to={tmp_path / 'never'}")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "never").exists()


def test_folder_that_cannot_be_written_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = said(capsys, "scale=tiny", f"to={tmp_path / 'file'}")
    assert code == 2
    assert err.count("\n") == 1
    assert "to=" in err


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_every_model_can_be_described_to_the_last_parameter(tmp_path, monkeypatch, name):
    seen = []
    draw = describe_picture.draw
    monkeypatch.setattr(describe_picture, "draw", seen.append)
    monkeypatch.setattr(describe, "save", lambda *_: "")
    out = describe.describe(RunConfig(arm=name, scale_name="tiny", model=composed(name)), composed("base"), "tiny", tmp_path)
    lines = out.partition("\nparameters")[2].partition("\n\n")[0].strip().splitlines()[2:]
    rows = {line.split()[0]: line.split()[2].replace(",", "") for line in lines}
    total = int(rows.pop("total"))
    assert int(rows.pop("effective")) >= total
    assert sum(int(value) for value in rows.values() if value != "-") == total == parameters(seen[0])
    draw(seen[0])


@pytest.mark.long
def test_weights_to_start_from_are_described_with_their_own_shape(capsys, tmp_path):
    shape = {"vocab_size": 500, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 96}
    BertModel(BertConfig(**shape, max_position_embeddings=40)).save_pretrained(tmp_path / "weights")
    (tmp_path / "weights" / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    code, out, _ = said(capsys, f"model.init_from={tmp_path / 'weights'}", "scale=mini", f"to={tmp_path}")
    rows = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith(("hidden_size", "token_embedding")))
    assert code == 0
    assert "weights at scale L3-H64, beside base at scale mini" in out
    assert rows["hidden_size"].split() == ["256", "64"]
    assert rows["token_embedding"].split()[:2] == [f"{30522 * 256:,}", "32,000"]
    code, _, err = said(capsys, "scales", f"model.init_from={tmp_path / 'weights'}")
    assert (code, err.count("\n")) == (2, 1)
    assert "weights have one scale" in err


# The architecture


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_window": 4, "global_layer_every": 3},
        {"attention_window": 4, "global_layer_every": 3, "norm_place": NormPlace.pre, "num_hidden_layers": 8},
        {"num_hidden_groups": 4},
        {"num_hidden_groups": 2, "sharing": Sharing.attention},
        {"position": Position.bucketed, "norm_place": NormPlace.pre},
    ],
)
def test_boxes_hold_all_parameters(changes):
    assert parameters(drawn(**changes)) == count(on_meta(EncoderConfig(**{**SMALL, **changes}), 2))


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, "× 6"),
        ({"num_hidden_groups": 1}, "one layer,\nruns 6 times"),
        ({"num_hidden_groups": 4}, "4 layers,\nrun 6 times"),
        ({"num_hidden_groups": 1, "sharing": Sharing.attention}, "× 6,\npartly\nshared"),
    ],
)
def test_layers_that_look_the_same_are_one_group_that_says_how_often_it_runs(changes, note):
    (group,) = groups(drawn(**changes))
    assert (group.layers, group.note) == ([*range(6)], note)


def test_layers_that_see_everything_are_drawn_apart_from_windows():
    of = groups(drawn(attention_window=4, global_layer_every=3))
    assert [(group.boxes[0].title, group.note, group.boxes[0].copies) for group in of] == [
        ("Global self-attention", "layers 1, 4", 2),
        ("Windowed self-attention", "layers 2, 3,\n5, 6", 4),
    ]


def test_norm_stands_where_the_config_puts_it():
    after, before = (groups(drawn(norm_place=place))[-1] for place in (NormPlace.post, NormPlace.pre))
    assert [box.title for box in after.boxes][:2] == ["Full self-attention", "Add, LayerNorm"]
    assert [box.title for box in before.boxes][:3] == ["LayerNorm", "Full self-attention", "Add"]


# The picture


@pytest.mark.long
def test_same_architecture_is_the_same_file_byte_by_byte():
    with mpl.rc_context(STYLE):
        figures = [describe_picture.draw(drawn(attention_window=window)) for window in (4, 4, 6)]
        one, other, changed = ([content(figure, ending) for ending in ("png", "svg")] for figure in figures)
    assert one == other
    assert one[1] != changed[1]


def test_depth_does_not_change_the_size_of_the_picture():
    deep, shallow = (describe_picture.draw(drawn(num_hidden_layers=layers)).get_size_inches() for layers in (24, 2))
    assert tuple(deep) == tuple(shallow)


@pytest.mark.parametrize("name", ["base", "modern", "encoder_decoder", "longformer", "xlnet", "bilstm"])
def test_no_text_leaves_the_picture_and_none_covers_another(name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = describe_picture.draw(architecture_of(on_meta(composed(name, "large"), 2), f"{name} " * 20, "subtitle"))
    canvas = FigureCanvasAgg(figure)
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in figure.axes[0].texts if text.get_text()]
    assert len(boxes) > 8
    width, height = figure.get_size_inches() * figure.dpi
    for number, box in enumerate(boxes):
        assert 0 <= box.x0 < box.x1 <= width
        assert 0 <= box.y0 < box.y1 <= height
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_long_detail_is_wrapped_into_a_taller_box():
    short, long = Box("title", "head", "few words"), Box("title", "head", "many words " * 12)
    assert describe_picture._height(long) > describe_picture._height(short)


def test_pictures_are_in_the_folder_of_the_runs_that_is_set(run_harness, tmp_path):
    assert run_harness("describe", "activations", f"output={tmp_path / 'mine'}").returncode == 0
    assert (tmp_path / "mine" / "describe" / "activations.svg").exists()
    assert not (tmp_path / "multirun").exists()
    assert run_harness("describe", "activations", f"output={tmp_path / 'mine'}", f"to={tmp_path / 'there'}").returncode == 0
    assert (tmp_path / "there" / "activations.svg").exists()
