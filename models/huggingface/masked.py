"""The head for masked tokens of a published checkpoint."""

from typing import Any

import torch
from torch import Tensor

from harness.models.config import EncoderConfig
from harness.models.heads import MaskedLMHead
from harness.models.huggingface.families import module_of
from harness.models.huggingface.names import Names, refuse_misfits, renamed

HEAD = "masked_head."
EMBEDDING, OUTPUT = "encoder.embeddings.token_embedding.weight", f"{HEAD}output.weight"


def masked_head_of(state: dict[str, Tensor], config_json: dict[str, Any], config: EncoderConfig) -> dict[str, Tensor]:
    """Tensors of MaskedLMHead as `masked_head.`, its output matrix included, which is the token embedding where both are tied.

    ValueError for a family without such a head, for tensors that are missing or of another shape, and for a non-linearity
    that the family's head does not share with its layers.
    """
    family = config_json["model_type"]
    layout = getattr(module_of(config_json), "LAYOUTS", {}).get(family)
    if layout is None or not layout.masked:
        raise ValueError(f"model_type={family!r} has no head for masked tokens that ours can express")
    if layout.masked_act not in (None, config.hidden_act):
        raise ValueError(
            f"model_type={family!r} has {layout.masked_act.value} in its head, but hidden_act={config.hidden_act.value}"
        )
    bias = {layout.masked_bias.replace(".", r"\."): "masked_head.output"} if layout.masked_bias else {}
    base = layout.base.replace(".", r"\.")
    tensors = renamed(state, Names(prefix=base, modules=layout.inside | layout.masked | bias))
    head = {name: tensor for name, tensor in tensors.items() if name.startswith(HEAD)}
    if config.tie_masked_lm_head and EMBEDDING in tensors:
        head.setdefault(OUTPUT, tensors[EMBEDDING])
    with torch.device("meta"):
        ours = MaskedLMHead(config, torch.nn.Embedding(config.vocab_size, config.embedding_width)).state_dict(prefix=HEAD)
    refuse_misfits(f"model_type={family!r} tensors do not fit a head for masked tokens", ours, head)
    return head


def expresses_masked_head(family: str) -> bool:
    """Whether a checkpoint of the family has a place for MaskedLMHead."""
    return bool(module_of({"model_type": family}).LAYOUTS[family].masked)
