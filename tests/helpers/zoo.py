"""Every type of encoder of transformers that has a sequence classifier, tiny, in a folder with a tokenizer."""

from pathlib import Path
from typing import Any

import torch
import transformers
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers.models.auto import modeling_auto

CLASSIFIERS = modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
TABLE = yaml.safe_load((Path(__file__).parent / "zoo.yaml").read_text())
SIZES = {name: size for size, names in TABLE["sizes"].items() for name in names.split()}
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", *(f"w{number}" for number in range(123))]


def tiny(model_type: str) -> Any:
    """Its config with small sizes, by the names of its attributes."""
    kind = transformers.CONFIG_MAPPING[model_type]
    config = kind(**_merged(_small(kind()), TABLE["overrides"].get(model_type, {})))
    config.architectures = ["FunnelModel"] if model_type == "funnel" else None  # of its two classes that with one state a token
    return config


def _small(config: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            found[name] = _small(value)
        elif name in SIZES and not isinstance(value, bool) and (value is not None or name in TABLE["also_where_null"]):
            found[name] = SIZES[name]
    return found


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {name: _merged(first[name], second[name]) for name in first.keys() & second.keys() if isinstance(first[name], dict)}
    return first | second | both


def saved(model_type: str, folder: Path) -> nn.Module:
    """Writes weights and a tokenizer to the folder; the class of transformers that computes them, of a pair the encoder."""
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(tiny(model_type)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # no row that padding alone reads is left at zero
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model.get_encoder() if model.config.is_encoder_decoder else model


def save_tokenizer(folder: Path) -> None:
    whole = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [(word, WORDS.index(word)) for word in ("<s>", "</s>")]
    whole.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", special)
    names = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=whole, model_max_length=60, model_input_names=inputs, **names
    ).save_pretrained(folder)
