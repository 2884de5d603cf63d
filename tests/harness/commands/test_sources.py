"""Every table, number and picture that the documents on BERT show has a command that shows it alive. Cheap ones run here.

Each command runs whole, in this process; what it must print is what its model, text or vocabulary really gives.
"""

import json
import shlex
import sys
from pathlib import Path

import pytest

from harness.__main__ import main

DATA = Path(__file__).parents[4] / "shared" / "data"
VOCABULARY = DATA / "vocab" / "bert-base-uncased" / "vocab.txt"
BASE, TINY = "scale=base to=out", "scale=tiny to=out"
BANK = "text='The bank was robbed' word=bank layer=1"
SENSES = "'texts=I went to the bank to deposit money ||| The river bank was very scenic ||| The bank was robbed yesterday'"

COMMANDS = {
    # four enhancements of BERT
    "components of the original": (f"describe {BASE}", "23,440,896", "85,054,464", "109,483,778"),
    "components of the enhanced, and their reduction": (f"describe model=enhanced {BASE}", "3,906,816", "-83.3 %", "590,592"),
    "both totals": ("audit claims=notebook-original-total,notebook-enhanced-total", "2 refuted"),
    "embedding 768 to 128": ("audit claims=factorized-embedding-83", "confirmed"),
    "one layer in place of twelve": ("audit claims=sharing-92", "-91.7 %"),
    "SwiGLU": ("describe activations to=out", "silu is SwiGLU"),
    # lessons on the architecture
    "BERT vs GPT vs Transformer": (
        f"describe model=base,gpt,encoder_decoder {BASE}",
        *("encoder only", "decoder only", "encoder and decoder", "left to right", "understanding", "seen.png", "221,918,210"),
    ),
    "BERT-base and BERT-large": ("describe scale=base,large to=out", "335,143,938", "4,096", "2x", "parameters.png"),
    "specifications of BERT-base": ("audit claims=bert-base-dimensions", "12 (key layers)", "3,072", "confirmed"),
    "four days on 16 accelerators": ("audit claims=bert-base-4-days", "confirmed", "42.6e9 tokens"),
    "GLUE before BERT and after": ("audit --glue", "93.5", "before GPT", "arXiv:1810.04805"),
    "training time": (
        f"describe model=base,albert {BASE} pretrain=own pretrain.steps=1000000 pretrain.batch_size=256 pretrain.length=512 "
        "flops_per_second=1e13",
        *("131 G tokens", "79.9 EFLOP", "92 d 11 h"),
    ),
    # small BERTs
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
    "sizes of the relatives": ("audit claims=albert-12m,roberta-125m,distilbert-66m,electra-small-14m", "4 confirmed"),
    "initialisation by depth": ("--help model.init", "scaled_by_depth"),
    # pictures
    "masks of two models": (f"describe model=base,windowed {TINY}", "both ways", "seen.svg"),
    "learned positions and sinusoids": (f"describe positions {BASE}", "512 x 768", "393,216", "sines and cosines"),
    "GELU against ReLU": ("describe activations to=out", "gelu -0.170", "relu 0.000", "activations.png"),
    "tanh form of GELU": ("audit claims=gelu-tanh-approximation", "confirmed"),
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


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["harness"])
    monkeypatch.chdir(tmp_path)


def shown(capsys, command: str) -> str:
    code = main(shlex.split(command))
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def refuse_missing(printed: str, expected: tuple[str, ...]) -> None:
    """Lines may break anywhere, and columns be of any width."""
    printed = " ".join(printed.split())
    missing = [text for text in expected if text not in printed]
    assert not missing, f"{missing} not in\n{printed}"


@pytest.mark.long
@pytest.mark.parametrize("row", COMMANDS)
def test_row_of_the_sources_is_shown(capsys, row):
    command, *expected = COMMANDS[row]
    refuse_missing(shown(capsys, command), tuple(expected))


@pytest.mark.long
@pytest.mark.skipif(not VOCABULARY.is_file(), reason=f"needs {VOCABULARY}")
@pytest.mark.parametrize("row", WITH_VOCABULARY)
def test_row_with_the_published_vocabulary_is_shown(capsys, row):
    command, *expected = WITH_VOCABULARY[row]
    refuse_missing(shown(capsys, f"{command} tokenizer.vocab_file={VOCABULARY}"), tuple(expected))


@pytest.mark.long
@pytest.mark.skipif(not VOCABULARY.is_file(), reason=f"needs {VOCABULARY}")
def test_vectors_of_the_sample_text_as_the_sources_type_it(capsys, tmp_path):
    """A vocabulary, a bert_config.json and a text, without weights."""
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 30522}
    (tmp_path / "bert_config.json").write_text(json.dumps(shape))
    text = DATA / "bert_reference" / "sample_text.txt"
    command = f"predict output=vectors input={text} to=f.jsonl bert_config_file=bert_config.json max_length=128"
    printed = shown(capsys, f"{command} tokenizer.vocab_file={VOCABULARY}")
    refuse_missing(printed, ("randomly initialised (seed 0)", "all 33", "64 x 3 x 16"))
    first = (tmp_path / "f.jsonl").read_text().splitlines()[0]
    assert first.startswith('{"linex_index": 0, "features": [{"token": "[CLS]", "layers": [{"index": -1, "values": [')
