"""Shapes that `python -m harness describe` measures: of every model, and of what an objective adds."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from variants import VARIANTS, variant

from harness.checkpoints import native
from harness.config.schema import MeasureConfig, PretrainConfig, RunConfig
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import Body, EncoderConfig, Position
from harness.models.encoder import Encoder
from harness.models.heads import MaskedLMHead, on_meta
from harness.models.objectives.config import ObjectiveName
from harness.plugins.explain import describe, describe_shapes
from harness.plugins.explain.describe_shapes import Seen, Traced, of_model, of_objective, rows, trace


def composed(name: str, **changes: object) -> RunConfig:
    measure, pretrain = MeasureConfig(length=24, batch_size=3), PretrainConfig(length=24, batch_size=3)
    return RunConfig(arm=name, scale_name="tiny", model=variant(name, **changes), measure=measure, pretrain=pretrain)


def trained(name: str, objective: ObjectiveName, **changes: object) -> RunConfig:
    run = composed(name)
    return replace(run, pretrain=replace(run.pretrain, objective=objective, **changes))


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def states(run: RunConfig) -> list[tuple[int, ...]]:
    """Shapes of the embeddings and of each layer of a real pass."""
    encoder = Encoder(replace(run.model, vocab_size=50)).eval()
    return [tuple(state.shape) for state in encoder.hidden_states(Batch(torch.ones(3, 24, dtype=torch.int64)))]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_model_shows_shapes_of_a_real_pass_by_symbols_and_numbers(name):
    run = composed(name)
    text = of_model(run)
    assert text.splitlines()[0].startswith("shapes of one forward pass over B=3 texts of T=24 tokens")
    head, table = text.split("\n\n")
    assert max(map(len, [*head.splitlines(), *table.splitlines()])) <= 105
    shown = lines(table)
    assert shown[2].startswith("embeddings input ids [B, T] 3 × 24")
    assert any("token_embedding [B, T, " in line for line in shown)
    assert shown[-1].startswith("head output [B, C] 3 × 2")
    assert set(states(run)) == {(3, 24, run.model.hidden_size)}
    attending = run.model.body in (Body.transformer, Body.encoder_decoder)
    ends = [line for line in shown if line.startswith("layer output")]
    assert all(line == f"layer output [B, T, D] 3 × 24 × {run.model.hidden_size}" for line in ends)
    assert bool(ends) == attending
    assert any("scores [B, H, T, T] 3 × 2 × 24 × 24" in line for line in shown) == attending


@pytest.mark.parametrize("name", VARIANTS)
def test_parameters_of_rows_are_those_of_the_model(name):
    run = composed(name)
    model = on_meta(run.model, 2)
    traced = describe_shapes._classified(run, 3, 24)
    counted = {(one.owner, one.layer, one.stage, one.name): one.parameters for one in traced.seen if one.parameters}
    leaves = [module for module in model.modules() if not list(module.children())]
    own = sum(parameter.numel() for module in leaves for parameter in module.parameters(recurse=False))
    shared = run.model.groups != run.model.depth or run.model.position is Position.bucketed  # one bias for all layers
    assert sum(counted.values()) == own or (shared and sum(counted.values()) > own)


@pytest.mark.long
def test_layers_that_see_less_have_a_line_of_their_own():
    run = composed("base", num_hidden_layers=6, attention_window=4, global_layer_every=3)
    run = replace(run, measure=replace(run.measure, length=64))
    shown = lines(of_model(run))
    assert "layers 1, 4" in shown
    assert "layers 2, 3, 5, 6" in shown
    assert any(line.startswith("scores [4B, H, 16, 20]") for line in shown)


@pytest.mark.long
def test_shared_layers_and_gates_are_told():
    shown = lines(of_model(composed("enhanced")))
    assert "layers 1-2, shared" in shown
    (inner,) = (line for line in shown if line.startswith("activated"))
    assert inner.startswith("activated [B, T, F]")
    assert any(line.startswith("feed-forward input [B, T, 2F]") for line in shown)


@pytest.mark.long
def test_parameters_of_a_module_that_runs_for_each_segment_are_shown_once():
    shown = lines(of_model(composed("transformer_xl", segment_length=8, memory_length=8)))
    keys = [line for line in shown if line.startswith("key_value")]
    assert len(keys) > 1
    assert [line.endswith("32,768") for line in keys] == [True] + [False] * (len(keys) - 1)


@pytest.mark.long
def test_decoder_is_numbered_apart_and_shows_its_attention_over_the_encoder():
    shown = lines(of_model(composed("encoder_decoder")))
    assert [line for line in shown if "layers" in line] == ["encoder layers 1-2", "decoder layers 1-2"]
    assert sum(line.startswith("attention over the encoder") for line in shown) == 1


def test_dimension_that_grows_with_neither_is_looked_up_and_otherwise_a_number():
    encoder = Encoder(EncoderConfig(hidden_size=24, num_attention_heads=3, vocab_size=99, num_hidden_layers=1))

    def symbols(shape: tuple[int, ...], again: tuple[int, ...]) -> tuple[str, ...]:
        passes = [
            Traced({"B": B, "T": T}, {"encoder": encoder}, [Seen("encoder", 0, "attention", "output", size)])
            for B, T, size in ((24, 40, shape), (25, 39, again))
        ]
        return [*rows(*passes)][1][1:4]

    assert symbols((24, 40, 24), (25, 39, 24)) == ("output", "[B, T, D]", "24 × 40 × 24")
    assert symbols((80, 7, 24), (78, 7, 24))[1] == "[2T, 7, D]"
    assert symbols((80, 7, 24), (80, 7, 24))[1] == "[80, 7, D]"


def test_embeddings_that_two_encoders_share_are_seen_where_they_are_called():
    shared = torch.nn.Embedding(5, 4)
    roots = {"one": torch.nn.Sequential(shared), "two": torch.nn.Sequential(shared)}
    ids = torch.zeros(2, 3, dtype=torch.int64)
    seen = trace(roots, lambda: roots["two"](ids))
    assert [(one.owner, one.tied) for one in seen] == [("two", True)]


# The objective

ADDED = {
    ("base", ObjectiveName.mlm): ["masked_head dense [B, P, D]", "output [B, P, V] 3 × 4 × 30522 30,522 + tied"],
    ("base", ObjectiveName.mlm_nsp): ["pair_head output [B, 2] 3 × 2"],
    ("base", ObjectiveName.clm): ["lm_head dense [B, P, D] 3 × 23 × 128"],
    ("electra", ObjectiveName.rtd): [
        "generator layers 1-2",
        "generator_head dense [B, P, E]",
        "detection_head dense [B, T, D]",
    ],
    ("xlnet", ObjectiveName.plm): ["encoder, as above input ids [B, T+P] 3 × 28"],
    ("static", ObjectiveName.cbow): ["lm_head dense [B, P, D]"],
    ("bilstm", ObjectiveName.bidirectional_lm): ["lm_head dense [B, P, D] 3 × 46 × 128"],
    ("deberta", ObjectiveName.mlm): ["masked_head dense [B, P, D]"],
}


@pytest.mark.long
@pytest.mark.parametrize(("choice", "expected"), ADDED.items())
def test_objective_shows_what_it_adds(choice, expected):
    text = of_objective(trained(*choice))
    assert text.splitlines()[0].startswith(f"shapes of what {choice[1].value} adds: B=3 sequences of T=24 tokens")
    shown = lines(text)
    for begin in expected:
        assert any(line.startswith(begin) for line in shown), text
    assert shown[-1] == "loss nats [] one number"
    assert not any(line.startswith("layers") for line in shown)


@pytest.fixture
def teacher(tmp_path: Path) -> str:
    """The weights of a masked-LM of 40 pieces and one layer."""
    sizes = {"hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
    shape = EncoderConfig(vocab_size=40, max_position_embeddings=64, **sizes)
    encoder = Encoder(shape)
    head = MaskedLMHead(shape, encoder.embeddings.token_embedding)
    state = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    state |= {f"masked_head.{name}": tensor for name, tensor in head.state_dict().items() if name != "output.weight"}
    native.save(tmp_path / "checkpoint", state, shape)
    return str(tmp_path)


@pytest.mark.long
def test_distillation_shows_the_teacher_that_is_named(teacher):
    text = of_objective(trained("base", ObjectiveName.distillation, teacher=teacher))
    assert "teacher.encoder: D=128 hidden, H=4 heads, K=32 head size, F=32 feed-forward, V=40 pieces" in text
    assert any(line.startswith("teacher.encoder layer 1") for line in lines(text))
    assert any(line.startswith("teacher.head dense [B, P, D] 3 × 4 × 128") for line in lines(text))


def test_teacher_of_another_size_is_one_line(teacher):
    run = trained("base", ObjectiveName.distillation, teacher=teacher)
    run = replace(run, model=replace(run.model, hidden_size=64))
    with pytest.raises(InputError, match=r"has a hidden size of 128, not model\.hidden_size=64"):
        describe.added_by_objective(run)


def test_objective_is_shown_only_where_one_is_named_and_fits():
    assert describe.added_by_objective(composed("base")) == []
    assert describe.added_by_objective(trained("base", ObjectiveName.cbow)) == []
