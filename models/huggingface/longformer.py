"""Longformer (arXiv:2004.05150): RoBERTa with a window and a first token that sees and is seen by all."""

from typing import Any

from torch import Tensor

from harness.models.config import EncoderConfig
from harness.models.huggingface.bert import ATTENTION, BERT_LAYER, EMBEDDINGS, HEADS, of_roberta, without_other_pooler
from harness.models.huggingface.names import Names, refuse, renamed

GLOBAL = {
    r"encoder\.layer\.(\d+)\.attention\.self\.query_global": f"{ATTENTION}.attention.global_query_key_value.query",
    r"encoder\.layer\.(\d+)\.attention\.self\.key_global": f"{ATTENTION}.attention.global_query_key_value.key_value#0",
    r"encoder\.layer\.(\d+)\.attention\.self\.value_global": f"{ATTENTION}.attention.global_query_key_value.key_value#1",
}
NAMES = Names(prefix=r"longformer\.", modules=EMBEDDINGS | BERT_LAYER | GLOBAL | HEADS, ignored=r"^lm_head\.")


def config(config_json: dict[str, Any]) -> EncoderConfig:
    """With global attention on the first token; ValueError for windows that differ from layer to layer."""
    refuse(config_json, {"is_decoder": False, "position_embedding_type": "absolute"})
    config_json = {"pad_token_id": 1} | config_json
    windows = config_json.get("attention_window", 512)
    windows = {windows} if isinstance(windows, int) else set(windows)
    if len(windows) > 1:
        raise ValueError(f"attention_window={config_json['attention_window']} cannot be expressed: only one for all layers can")
    return EncoderConfig(**of_roberta(config_json), attention_window=windows.pop(), global_tokens=1)


def tensors(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Under our names."""
    return renamed(without_other_pooler(state), NAMES)
