"""Checkpoints of transformers with drawn configs: every family that is read, tiny, with weights large enough to matter."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from torch import Tensor

from harness.models.batch import Batch

VOCABULARY, LENGTHS = 40, (24, 17, 9, 1)
SPECIAL = {"bos_token_id": 1, "cls_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
TEXT, TOKENS, SPANS, MASKED = "SequenceClassification", "TokenClassification", "QuestionAnswering", "MaskedLM"


Choices = dict[str, object]
"""Key -> its value, a list of values to draw from, or a function that makes such a list of what is drawn already."""


def per_head(key: str, *sizes: int) -> Callable[[dict], list[int]]:
    return lambda drawn: [drawn[key] * size for size in sizes]


BERT: Choices = {
    "vocab_size": VOCABULARY,
    "num_attention_heads": [2, 4],
    "hidden_size": per_head("num_attention_heads", 4, 6, 8),
}
BERT |= {"num_hidden_layers": [1, 2, 3], "intermediate_size": [20, 48], "max_position_embeddings": 40}
BERT |= {
    "type_vocab_size": [1, 2, 3],
    "hidden_act": ["gelu", "gelu", "relu", "silu", "gelu_new"],
    "layer_norm_eps": [1e-12, 1e-5],
}
ALBERT = BERT | {"embedding_size": [6, 10], "inner_group_num": [1, 1, 1, 2]}
ALBERT |= {"num_hidden_groups": lambda drawn: range(1, drawn["num_hidden_layers"] + 1)}
ROBERTA = BERT | {"pad_token_id": [0, 1], "type_vocab_size": 1}
DISTILBERT: Choices = {"vocab_size": VOCABULARY, "n_heads": [2, 4], "dim": per_head("n_heads", 4, 6, 8), "n_layers": [1, 2, 3]}
DISTILBERT |= {"hidden_dim": [20, 48], "max_position_embeddings": 40, "activation": ["gelu", "relu"]}
DISTILBERT |= {"sinusoidal_pos_embds": [True, False]}
ELECTRA = BERT | {"embedding_size": [6, 16, 24]}
LONGFORMER = BERT | {"pad_token_id": 1, "type_vocab_size": 1, "attention_window": [4, 8, 32]}
MODERNBERT = {key: of for key, of in BERT.items() if key not in ("type_vocab_size", "hidden_act", "layer_norm_eps")} | SPECIAL
MODERNBERT |= {"pad_token_id": 0, "hidden_size": per_head("num_attention_heads", 4), "local_attention": [4, 8, 64]}
MODERNBERT |= {"global_attn_every_n_layers": [1, 2, 3], "classifier_pooling": ["cls", "mean"]}
MODERNBERT |= {"classifier_activation": ["gelu", "relu"], "hidden_activation": ["gelu", "silu"]}
MODERNBERT |= {key: [True, False] for key in ("norm_bias", "mlp_bias", "attention_bias", "classifier_bias")}
GPT2: Choices = {"vocab_size": VOCABULARY, "n_head": [2, 4], "n_embd": per_head("n_head", 4, 8), "n_layer": [1, 2, 3]}
GPT2 |= {"n_positions": 40, "pad_token_id": 0}
GPT = GPT2 | {"afn": ["gelu", "relu"]}
GPT2 |= {"n_inner": [None, 20], "scale_attn_weights": [True, False], "activation_function": ["gelu_new", "relu"]}
GPT2 |= {"scale_attn_by_inverse_layer_idx": [False, False, False, True], "bos_token_id": 1, "eos_token_id": 2}
T5: Choices = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": [4, 6, 8], "num_heads": [2, 4], "d_ff": [20, 40]}
T5 |= {"num_layers": [1, 2, 3], "feed_forward_proj": ["relu", "gated-gelu", "gated-silu"]}
T5 |= {"relative_attention_num_buckets": [8, 32]}
DEBERTA = BERT | {"type_vocab_size": [0, 2], "relative_attention": True, "position_biased_input": [False, False, False, True]}
DEBERTA |= {"pos_att_type": [["c2p"], ["p2c"], ["c2p", "p2c"]], "max_relative_positions": [-1, 12], "pooler_dropout": 0}
DEBERTA |= {"pooler_hidden_act": ["gelu", "tanh"], "pooler_hidden_size": lambda drawn: [drawn["hidden_size"]]}
DEBERTA_V2 = DEBERTA | {"share_att_key": [True, False], "norm_rel_ebd": ["none", "layer_norm"], "position_buckets": [-1, 8]}
XLNET: Choices = {"vocab_size": VOCABULARY, "n_head": [2, 4], "d_model": per_head("n_head", 4, 8), "n_layer": [1, 2, 3]}
XLNET |= {"d_inner": [20, 40], "ff_activation": ["gelu", "relu"], "summary_type": ["last", "first", "mean"]}
XLNET |= {"summary_use_proj": [True, True, False], "summary_activation": ["tanh", "gelu"], "summary_first_dropout": 0}


def drawn(choices: Choices, draw: random.Random) -> dict:
    """A config: one of the values of each key."""
    found: dict = {}
    for key, value in choices.items():
        of = value(found) if callable(value) else value
        found[key] = draw.choice(of) if isinstance(of, list | range) else of
    return found


@dataclass(frozen=True)
class Family:
    """How a family of transformers is drawn."""

    name: str  # in the names of its classes
    choices: Choices
    heads: tuple[str, ...]
    lengths: tuple[int, ...] = LENGTHS
    spread: float = 0.25


ALL = (TEXT, TOKENS, SPANS, MASKED)
FAMILY = {
    "bert": Family("Bert", BERT, ALL),
    "albert": Family("Albert", ALBERT, ALL),
    "roberta": Family("Roberta", ROBERTA, ALL),
    "xlm-roberta": Family("XLMRoberta", ROBERTA, ALL),
    "camembert": Family("Camembert", ROBERTA, ALL),
    "distilbert": Family("DistilBert", DISTILBERT, ALL),
    "electra": Family("Electra", ELECTRA, ALL),
    "longformer": Family("Longformer", LONGFORMER, ALL),
    "modernbert": Family("ModernBert", MODERNBERT, ALL, spread=0.15),
    "openai-gpt": Family("OpenAIGPT", GPT, (TEXT,)),
    "gpt2": Family("GPT2", GPT2, (TEXT, TOKENS, SPANS), spread=0.15),
    "t5": Family("T5", T5, (TEXT, TOKENS, SPANS), spread=0.15),
    "deberta": Family("Deberta", DEBERTA, ALL),
    "deberta-v2": Family("DebertaV2", DEBERTA_V2, ALL),
    "xlnet": Family("XLNet", XLNET, (TEXT, TOKENS, SPANS, "QuestionAnsweringSimple"), lengths=(24,) * 3),  # it pools padding
}
UNREADABLE = {
    *(("modernbert", head) for head in (TOKENS, SPANS, MASKED)),
    *(("t5", head) for head in (TEXT, SPANS)),
    ("xlnet", SPANS),
    ("longformer", MASKED),
}
"""Heads that are more than ours: refused by name, whatever the config."""


def reference_of(family: Family, head: str, seed: int) -> transformers.PreTrainedModel:
    """A drawn model with weights so large that attention is far from uniform."""
    draw = random.Random(seed)
    outputs = 2 if head.startswith(SPANS) else draw.choice([1, 2, 3])
    config = getattr(transformers, f"{family.name}Config")(**drawn(family.choices, draw), num_labels=outputs)
    model = getattr(transformers, f"{family.name}For{head}")(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            norm = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.1 * noise if norm else family.spread * noise)
    return model


def batch_of(family: Family, padding: int) -> Batch:
    mask = torch.arange(max(family.lengths)) < torch.tensor(family.lengths)[:, None]
    ids = torch.randint(3, VOCABULARY, mask.shape, generator=torch.Generator().manual_seed(7)).masked_fill(~mask, padding)
    return Batch(ids, None, mask)


def logits_of(reference: transformers.PreTrainedModel, batch: Batch) -> Tensor:
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask.long()}
    if type(reference).__name__.startswith("Longformer"):
        inputs["global_attention_mask"] = torch.zeros_like(batch.input_ids).index_fill(1, torch.tensor([0]), 1)
    given = reference(**inputs)
    return torch.stack([given.start_logits, given.end_logits], -1) if "start_logits" in given else given.logits
