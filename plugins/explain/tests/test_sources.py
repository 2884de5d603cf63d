"""Tables, numbers and pictures of the documents on BERT, alive: what a model, a text or a vocabulary really gives."""

import shlex
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

VOCABULARY = Path(__file__).parents[4] / "shared" / "data" / "vocab" / "bert-base-uncased" / "vocab.txt"
BASE, TINY = "scale=base to=out", "scale=tiny to=out"
BANK = "text='The bank was robbed' word=bank layer=1"
SENSES = "'texts=I went to the bank to deposit money ||| The river bank was very scenic ||| The bank was robbed yesterday'"

COMMANDS = {
    "components of the original": (f"describe {BASE}", "23,440,896", "85,054,464", "109,483,778"),
    "components of the enhanced, and their reduction": (f"describe model=enhanced {BASE}", "3,906,816", "−83.3 %", "590,592"),
    "SwiGLU": ("describe activations to=out", "silu is SwiGLU"),
    "BERT vs GPT vs Transformer": (
        f"describe model=base,gpt,encoder_decoder {BASE}",
        *("encoder only", "decoder only", "encoder and decoder", "left to right", "understanding", "seen.png", "221,918,210"),
    ),
    "BERT-base and BERT-large": ("describe scale=base,large to=out", "335,143,938", "4,096", "2x", "parameters.png"),
    "training time": (
        f"describe model=base,albert {BASE} pretrain=own pretrain.steps=1000000 pretrain.batch_size=256 pretrain.length=512 "
        "flops_per_second=1e13",
        *("131 G tokens", "79.9 EFLOP", "92 d 11 h"),
    ),
    "Mini-BERT beside Larger-BERT": (
        "describe scale=mini_bert,larger_bert to=out",
        "8,192",
        "50,000",
        "6.1x",
        "2,957,954",
        "49,444,690",
    ),
    "shapes of Mini-BERT": (
        "describe scale=mini_bert measure.batch_size=8 measure.length=64 pretrain=mlm to=out",
        *("8 × 64 × 192", "8 × 64 × 768", "[B, P, V]"),
    ),
    "BERT in NumPy": (f"describe numpy {TINY}", "softmax of q k / √K", "first numbers"),
    "initialisation by depth": ("--help model.init", "scaled_by_depth"),
    "masks of two models": (f"describe model=base,windowed {TINY}", "both ways", "seen.svg"),
    "learned positions and sinusoids": (f"describe positions {BASE}", "512 x 768", "393,216", "sines and cosines"),
    "GELU against ReLU": ("describe activations to=out", "gelu -0.170", "relu 0.000", "activations.png"),
}
WITH_VOCABULARY = {
    "ids of a text": ("tokenizer text='The bank was robbed' to=out", "ids: 101 1996 2924 2001 20114 102"),
    "word pieces": (
        "tokenizer text='playing unhappiness embeddings TensorFlow transformer' to=out",
        *("un ##ha ##pp ##iness", "em ##bed ##ding ##s", "tensor ##flow", "transform ##er", "1 of 5 words are whole"),
    ),
    "words against word pieces": ("tokenizer text='I love playing basketball unhappily' to=out", "all 5", "un ##ha ##pp ##ily"),
    "two sentences and the three embeddings": (
        f"inspect text='The cat sat ||| It was tired' {TINY}",
        *("[CLS] the cat sat [SEP]", "segment 0 0 0 0 0 1 1 1 1"),
    ),
    "scores of bank": (f"inspect {BANK} {TINY}", "query · key", "a column adds up to 1", "2 bank", "4 robbed"),
    "scores of bank from left to right": (f"inspect model=gpt {BANK} {TINY}", "causal self-attention"),
    "senses of bank": (f"inspect word=bank {SENSES} {TINY}", "randomly initialised", "1 and 3 1.000"),
}


def assert_shown(printed: str, expected: list[str]) -> None:
    """Lines may break anywhere, and columns be of any width."""
    printed = " ".join(printed.split())
    assert [text for text in expected if text not in printed] == [], printed


@pytest.mark.parametrize("row", COMMANDS)
def test_row_of_the_sources_is_shown(said, row):
    command, *expected = COMMANDS[row]
    assert_shown(said(*shlex.split(command)), expected)


@pytest.mark.skipif(not VOCABULARY.is_file(), reason=f"needs {VOCABULARY}")
@pytest.mark.parametrize("row", WITH_VOCABULARY)
def test_row_with_the_published_vocabulary_is_shown(said, row):
    command, *expected = WITH_VOCABULARY[row]
    assert_shown(said(*shlex.split(command), f"tokenizer.vocab_file={VOCABULARY}"), expected)
