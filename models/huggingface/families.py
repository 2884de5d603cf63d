"""Which module knows which `model_type`."""

from types import ModuleType

from harness.models.config import EncoderConfig
from harness.models.huggingface import bert, deberta, gpt, longformer, modernbert, t5, xlnet
from harness.models.huggingface.names import ConfigJson, Names, refuse

FAMILIES = {
    "bert": bert,
    "albert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "camembert": bert,
    "distilbert": bert,
    "electra": bert,
    "longformer": longformer,
    "modernbert": modernbert,
    "openai-gpt": gpt,
    "gpt2": gpt,
    "t5": t5,
    "deberta": deberta,
    "deberta-v2": deberta,
    "xlnet": xlnet,
}
"""`model_type` of a checkpoint -> the module here that knows it."""


def config_of(config_json: ConfigJson) -> EncoderConfig:
    """The shape of a published checkpoint; ValueError for a model type or a key that ours cannot express."""
    module = module_of(config_json)
    refuse(config_json, {"quantization_config": None})
    return module.config(config_json)


def module_of(config_json: ConfigJson) -> ModuleType:
    """The family module; ValueError listing the known ones."""
    kind = config_json.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(f"model_type={kind!r} is none of {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]


def names_of(config_json: ConfigJson) -> Names:
    """How the family calls its tensors."""
    return module_of(config_json).NAMES
