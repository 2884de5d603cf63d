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


def bert(draw: random.Random) -> dict:
    heads = draw.choice([2, 4])
    return {
        "vocab_size": VOCABULARY,
        "num_attention_heads": heads,
        "hidden_size": heads * draw.choice([4, 6, 8]),
        "num_hidden_layers": draw.choice([1, 2, 3]),
        "intermediate_size": draw.choice([20, 48]),
        "max_position_embeddings": 40,
        "type_vocab_size": draw.choice([1, 2, 3]),
        "hidden_act": draw.choice(["gelu", "gelu", "relu", "silu", "gelu_new"]),
        "layer_norm_eps": draw.choice([1e-12, 1e-5]),
    }


def albert(draw: random.Random) -> dict:
    drawn = bert(draw)
    groups = draw.choice(range(1, drawn["num_hidden_layers"] + 1))
    return drawn | {
        "embedding_size": draw.choice([6, 10]),
        "num_hidden_groups": groups,
        "inner_group_num": draw.choice([1, 1, 1, 2]),
    }


def roberta(draw: random.Random) -> dict:
    return bert(draw) | {"pad_token_id": draw.choice([0, 1]), "type_vocab_size": 1}


def distilbert(draw: random.Random) -> dict:
    drawn = bert(draw)
    return {
        "vocab_size": VOCABULARY,
        "dim": drawn["hidden_size"],
        "n_layers": drawn["num_hidden_layers"],
        "n_heads": drawn["num_attention_heads"],
        "hidden_dim": drawn["intermediate_size"],
        "max_position_embeddings": 40,
        "activation": draw.choice(["gelu", "relu"]),
        "sinusoidal_pos_embds": draw.choice([True, False]),
    }


def electra(draw: random.Random) -> dict:
    return bert(draw) | {"embedding_size": draw.choice([6, 16, 24])}


def longformer(draw: random.Random) -> dict:
    return bert(draw) | {"pad_token_id": 1, "type_vocab_size": 1, "attention_window": draw.choice([4, 8, 32])}


def modernbert(draw: random.Random) -> dict:
    drawn = {key: value for key, value in bert(draw).items() if key not in ("type_vocab_size", "hidden_act", "layer_norm_eps")}
    return (
        drawn
        | SPECIAL
        | {
            "pad_token_id": 0,
            "hidden_size": 4 * drawn["num_attention_heads"],
            "local_attention": draw.choice([4, 8, 64]),
            "global_attn_every_n_layers": draw.choice([1, 2, 3]),
            "norm_bias": draw.choice([True, False]),
            "mlp_bias": draw.choice([True, False]),
            "attention_bias": draw.choice([True, False]),
            "classifier_bias": draw.choice([True, False]),
            "classifier_pooling": draw.choice(["cls", "mean"]),
            "classifier_activation": draw.choice(["gelu", "relu"]),
            "hidden_activation": draw.choice(["gelu", "silu"]),
        }
    )


def gpt(draw: random.Random) -> dict:
    heads = draw.choice([2, 4])
    return {
        "vocab_size": VOCABULARY,
        "n_embd": heads * draw.choice([4, 8]),
        "n_layer": draw.choice([1, 2, 3]),
        "n_head": heads,
        "n_positions": 40,
        "pad_token_id": 0,
        "afn": draw.choice(["gelu", "relu"]),
    }


def gpt2(draw: random.Random) -> dict:
    drawn = {key: value for key, value in gpt(draw).items() if key != "afn"}
    more = {"n_inner": draw.choice([None, 20]), "scale_attn_weights": draw.choice([True, False])}
    unread = {"scale_attn_by_inverse_layer_idx": draw.choice([False, False, False, True])}
    return (
        drawn | more | unread | {"bos_token_id": 1, "eos_token_id": 2, "activation_function": draw.choice(["gelu_new", "relu"])}
    )


def t5(draw: random.Random) -> dict:
    heads = draw.choice([2, 4])
    return {
        "vocab_size": VOCABULARY,
        "d_model": 16,
        "d_kv": draw.choice([4, 6, 8]),
        "num_heads": heads,
        "d_ff": draw.choice([20, 40]),
        "num_layers": draw.choice([1, 2, 3]),
        "feed_forward_proj": draw.choice(["relu", "gated-gelu", "gated-silu"]),
        "relative_attention_num_buckets": draw.choice([8, 32]),
    }


def deberta(draw: random.Random) -> dict:
    more = {
        "type_vocab_size": draw.choice([0, 2]),
        "relative_attention": True,
        "position_biased_input": draw.choice([False, False, False, True]),
        "pos_att_type": draw.choice([["c2p"], ["p2c"], ["c2p", "p2c"]]),
        "max_relative_positions": draw.choice([-1, 12]),
        "pooler_hidden_act": draw.choice(["gelu", "tanh"]),
        "pooler_dropout": 0,
    }
    drawn = bert(draw) | more
    return drawn | {"pooler_hidden_size": drawn["hidden_size"]}


def deberta_v2(draw: random.Random) -> dict:
    later = {"share_att_key": draw.choice([True, False]), "norm_rel_ebd": draw.choice(["none", "layer_norm"])}
    return deberta(draw) | later | {"position_buckets": draw.choice([-1, 8])}


def xlnet(draw: random.Random) -> dict:
    heads = draw.choice([2, 4])
    return {
        "vocab_size": VOCABULARY,
        "d_model": heads * draw.choice([4, 8]),
        "n_layer": draw.choice([1, 2, 3]),
        "n_head": heads,
        "d_inner": draw.choice([20, 40]),
        "ff_activation": draw.choice(["gelu", "relu"]),
        "summary_type": draw.choice(["last", "first", "mean"]),
        "summary_use_proj": draw.choice([True, True, False]),
        "summary_activation": draw.choice(["tanh", "gelu"]),
        "summary_first_dropout": 0,
    }


@dataclass(frozen=True)
class Family:
    """How a family of transformers is drawn."""

    name: str  # in the names of its classes
    draw: Callable[[random.Random], dict]
    heads: tuple[str, ...]
    lengths: tuple[int, ...] = LENGTHS
    spread: float = 0.25


ALL = (TEXT, TOKENS, SPANS, MASKED)
FAMILY = {
    "bert": Family("Bert", bert, ALL),
    "albert": Family("Albert", albert, ALL),
    "roberta": Family("Roberta", roberta, ALL),
    "xlm-roberta": Family("XLMRoberta", roberta, ALL),
    "camembert": Family("Camembert", roberta, ALL),
    "distilbert": Family("DistilBert", distilbert, ALL),
    "electra": Family("Electra", electra, ALL),
    "longformer": Family("Longformer", longformer, ALL),
    "modernbert": Family("ModernBert", modernbert, ALL, spread=0.15),
    "openai-gpt": Family("OpenAIGPT", gpt, (TEXT,)),
    "gpt2": Family("GPT2", gpt2, (TEXT, TOKENS, SPANS), spread=0.15),
    "t5": Family("T5", t5, (TEXT, TOKENS, SPANS), spread=0.15),
    "deberta": Family("Deberta", deberta, ALL),
    "deberta-v2": Family("DebertaV2", deberta_v2, ALL),
    "xlnet": Family("XLNet", xlnet, (TEXT, TOKENS, SPANS, "QuestionAnsweringSimple"), lengths=(24,) * 3),  # it pools padding
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
    config = getattr(transformers, f"{family.name}Config")(**family.draw(draw), num_labels=outputs)
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
