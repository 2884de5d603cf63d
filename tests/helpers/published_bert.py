"""Small encoders as transformers saves them, with a vocabulary of letters."""

from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
KINDS = {kind.__name__: kind for kind in (BertForMaskedLM, BertForSequenceClassification, BertModel)}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def save_bert(folder: Path, kind: str = "BertForSequenceClassification", pieces: list[str] = PIECES, **shape: object) -> Path:
    """The folder, with the weights of a BERT of this class of transformers."""
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(pieces), **{"max_position_embeddings": 96} | SIZES | shape)
    KINDS[kind](config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(pieces))
    return folder
