"""What a pretraining begins with: initial values and dropout of the recipe, in place of the model's."""

from dataclasses import replace

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from harness.config.schema import PretrainConfig, RunConfig
from harness.models.config import EncoderConfig
from harness.models.norms import Dropout
from harness.models.objectives.base import Vocabulary
from harness.models.objectives.config import ObjectiveName
from harness.training.pretrain import build

V = 60
VOCABULARY = Vocabulary(V, pad=0, cls=2, sep=3, mask=4, word_start=torch.ones(V, dtype=torch.bool))
SHAPE = {"vocab_size": V, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
FIRST = "encoder.layers.attentions.0.attention.query_key_value.weight"


def objective_of(shape: dict | None = None, **options: object):
    run = RunConfig(pretrain=PretrainConfig(objective=ObjectiveName.mlm, seed=5, **options))
    run = replace(run, model=replace(run.model, **SHAPE | (shape or {})))
    return build(run, VOCABULARY)


def test_without_a_recipe_the_model_says_both():
    objective = objective_of()
    assert objective.get_parameter(FIRST).std().item() == pytest.approx(EncoderConfig().initializer_range, rel=0.1)
    assert {module.probability for module in objective.encoder.modules() if isinstance(module, Dropout)} == {0.1}


def test_initial_values_and_dropout_are_those_of_the_recipe():
    objective = objective_of(initializer_range=0.07, dropout=0.0)
    assert objective.get_parameter(FIRST).std().item() == pytest.approx(0.07, rel=0.1)
    assert {module.probability for module in objective.encoder.modules() if isinstance(module, Dropout)} == {0.0}
    assert {block.attention.dropout for block in objective.encoder.layers.attentions} == {0.0}
    assert torch.allclose(objective.get_parameter(FIRST), objective_of().get_parameter(FIRST) * 3.5)  # the same draws


def test_heads_that_look_at_neighbours_begin_so_where_the_recipe_says_it():
    plain, begun = objective_of(), objective_of(neighbour_heads=True)
    changed = [n for n, value in begun.named_parameters() if not torch.equal(value, plain.get_parameter(n))]
    assert changed == ["encoder.embeddings.position_embedding.weight", FIRST]


def test_weights_win_over_heads_that_look_at_neighbours(tmp_path):
    torch.manual_seed(3)
    published = BertForMaskedLM(BertConfig(**SHAPE, max_position_embeddings=32))
    published.save_pretrained(tmp_path)
    objective = objective_of(
        shape={"init_from": str(tmp_path), "max_position_embeddings": 32}, neighbour_heads=True, initializer_range=0.07
    )
    theirs = published.state_dict()
    table = objective.encoder.embeddings.position_embedding.weight
    assert torch.equal(table, theirs["bert.embeddings.position_embeddings.weight"])
    names = (f"bert.encoder.layer.0.attention.self.{part}.weight" for part in ("query", "key", "value"))
    assert torch.equal(objective.get_parameter(FIRST), torch.cat([theirs[name] for name in names]))
    assert objective.get_parameter(FIRST).std().item() == pytest.approx(0.02, rel=0.1)
