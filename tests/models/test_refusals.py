"""What cannot be is refused by its keys: shapes, objectives on shapes, and published configs (`refusals.yaml`)."""

from pathlib import Path

import pytest
import transformers
import yaml

from harness.models.config import Body, EncoderConfig, Position
from harness.models.huggingface import config_of
from harness.models.objectives.build import refuse_misfit
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

REFUSED = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text())
KINDS = {"position": Position, "body": Body}
PUBLISHED = {
    "GPT2": {"n_embd": 32, "n_head": 4},
    "ModernBert": {"num_hidden_layers": 5},
    "Longformer": {"num_hidden_layers": 3},
    "DebertaV2": {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]},
}
"""What a config of a family must say beside its defaults, so that ours can express it."""


def shape(keys: dict[str, object]) -> EncoderConfig:
    return EncoderConfig(**{key: KINDS.get(key, lambda value: value)(value) for key, value in keys.items()})


@pytest.mark.parametrize(("keys", "said"), REFUSED["shapes"])
def test_a_shape_that_cannot_be_is_refused_by_its_keys(keys, said):
    with pytest.raises(ValueError, match=said):
        shape(keys)


@pytest.mark.parametrize(("name", "keys", "pair"), REFUSED["objectives"])
def test_an_objective_that_cannot_train_a_shape_is_refused_by_both_keys(name, keys, pair):
    with pytest.raises(ValueError, match=f"^pretrain.objective={name} cannot be combined with model.{pair}"):
        refuse_misfit(ObjectiveConfig(ObjectiveName(name)), shape(keys))


@pytest.mark.parametrize(("family", "key", "value"), REFUSED["published"])
def test_a_published_config_that_ours_cannot_express_is_refused_by_its_key(family, key, value):
    given = getattr(transformers, f"{family}Config")(**PUBLISHED.get(family, {})).to_dict()
    assert config_of(given)
    with pytest.raises(ValueError, match=f"^.*{key}"):
        config_of(given | {key: value})
