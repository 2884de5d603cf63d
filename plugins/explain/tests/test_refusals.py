"""What the commands cannot show is one line that says why, and nothing is written."""

import shlex
from pathlib import Path

import pytest
from published_bert import save_bert
from safetensors.torch import load_file, save_file

from harness.__main__ import main
from harness.config import compose

REFUSED = {
    "describe model=albrt": "unknown model 'albrt'; did you mean 'albert'?",
    "describe model.hidden_sise=8": "unknown key 'model.hidden_sise'; did you mean 'model.hidden_size'?",
    "describe model.attention_window=7": "model.attention_window=7 must be even",
    "describe scale=tiny to=file": "to=",
    "describe scale model=base": "did you mean 'scales'?",
    "describe model=base flops_per_second=1e12": "flops_per_second= needs `describe beside`",
    "describe base": "'base' is not a topic: write model=base\n",
    "describe architecture": "unknown topic 'architecture'; choices",
    "describe scals": "unknown topic 'scals'; did you mean 'scales'? choices",
    "describe beside model=base scale=tiny": "describe beside compares variants, but the command line names only one",
    "describe model=base,gpt text=bank": "text= has 1 words: expected 2 to 24",
    "describe model=base,gpt scale=tiny flops_per_second=1e12": "flops_per_second= needs the amount of training",
    "describe activations to=file": "to=",
    "describe scales -m model=base,albert": "describe scales shows one variant, but the command line names 2: leave -m out",
    "describe coordinates model=deberta": "pretrain.mup_base_width cannot be combined with model.position=disentangled",
    "describe coordinates pretrain=rtd": "expected one of them, not pretrain=rtd",
    "describe coordinates pretrain=[clm,mlm]": "expected one of them, not pretrain=clm-mlm",
    "describe positions model=t5 scale=tiny": "t5 has position=bucketed: expected a model with learned positions",
    "describe numpy model=windowed": "covers BERT only: model.attention_window has another value",
    "describe numpy 'text= '": "text= has no words",
    "describe numpy 'text=a b c d' model.max_position_embeddings=8 task.max_length=8": "more than model.max_position_",
    "inspect item=0": "task= is missing",
    "inspect item=0 task=minimal_pairs": "scores a model without a head on the encoder: choose another task",
    "inspect task=bag": "item= is missing",
    "inspect task=bag item=0 attention=true": "attention=true needs weights",
    "inspect task=bag item=0 a checkpoint=b": "both name a model",
    "inspect task=bag item=0 nowhere": "RUN='nowhere' is neither a folder nor the id",
    "inspect task=bag itm=0 item=0": "did you mean 'item'?",
    "inspect tsak=bag item=0": "unknown key 'tsak'; did you mean 'task'?",
    "inspect -m task=bag model=base,albert item=0": "expected one task and one model",
    "inspect task=none item=0": "task=none has no items",
    "inspect task=bag scale=tiny item=0 split=test": "no split 'test'",
    "inspect task=bag scale=tiny item=0 to=file": "to='file' cannot be written",
    "inspect text=a": "text= needs a tokenizer: name weights (RUN, checkpoint=), the text that one is trained on",
    "inspect text=a item=0 task=bag": "item= and text= both name what is shown",
    "inspect text=a task=bag model=static scale=tiny attention=true": "the model has no attention",
    "inspect 'texts=a bank ||| the bank'": "texts= needs the word whose vectors are compared, word=bank",
    "inspect task=bag item=0 word=bank": "word= needs text= or texts= in place of item=",
    "tokenizer": "task= and corpus= are missing: expected one of them",
    "tokenizer task=bag corpus=builtin": "task= and corpus= both name a text",
    "tokenizer task=bag kinds=bpee": "unknown kind 'bpee'; did you mean 'bpe'?",
    "tokenizer task=bag nowhere": "RUN='nowhere' is neither a folder nor the id of a run",
    "tokenizer task=bag tokenizer.file=nowhere.json": "tokenizer.file='nowhere.json' cannot be read",
    "tokenizer -m task=bag,order": "the command line names 2 runs: expected one text",
    "tokenizer task=bag tokenizer.vocab_size=60 kinds=bpe": "at least 261; or leave bpe out of kinds=bpe",
    "tokenizer task=bag tokenizer.vocab_size=3 kinds=words": "tokenizer.vocab_size=3 is too small: expected at least 5;",
    "tokenizer tsak=bag": "unknown key 'tsak'; did you mean 'task'?",
    "tokenizer text=a": "text= needs a tokenizer: give RUN, tokenizer.vocab_file=FILE or tokenizer.file=FILE",
    "tokenizer text=a tokenizer.vocab_file=vocab.txt kinds=bpe": "kinds= trains tokenizers: name the text",
    "tokenizer 'text= ' tokenizer.vocab_file=vocab.txt": "text= has 0 words: expected 1 to 200",
    "tour text=...": "text= has no words: expected a sentence",
    "tour text=bytes.txt": "text='bytes.txt' is a file that cannot be read",
    "tour text=nowhere.txt": "text='nowhere.txt' is not a file",
    "tour to=page.pdf": "to='page.pdf' must end in .html",
    "tour to=file/page.html": "to='file/page.html' cannot be written",
    "tour 'txt=A bank.'": "unknown key 'txt'; did you mean 'text'?",
}


@pytest.mark.long
@pytest.mark.parametrize(("command", "message"), REFUSED.items())
def test_refusal_is_one_line(command, message, capsys):
    Path("bytes.txt").write_bytes(b"\xff\xfe\xfa")
    Path("vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    Path("file").touch()
    assert main(shlex.split(command)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert {path.name for path in Path().iterdir()} <= {"bytes.txt", "vocab.txt", "file", "multirun"}
    assert not list(Path().rglob("*.svg"))


@pytest.mark.long
def test_describe_names_a_tensor_that_is_missing(capsys, tmp_path):
    weights = save_bert(tmp_path / "published", num_hidden_layers=1) / "model.safetensors"
    state = load_file(weights)
    del state["bert.encoder.layer.0.output.dense.weight"]
    save_file(state, weights)
    capsys.readouterr()  # the bar of transformers
    assert main(["describe", "model.init_from=published", "task=sst2", "to=pictures"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("harness describe: model.init_from=")
    assert "missing: encoder.layers.feed_forwards.0.feed_forward.output.weight" in line


def test_each_arm_is_composed_once(monkeypatch):
    """Three seeds are of what trains."""
    calls = []
    monkeypatch.setattr(compose, "main", lambda *_, **options: calls.append(options["replicates"]) or 0)
    assert main(["describe", "-m", "model=base,albert", "scale=tiny"]) == 0
    assert calls == [False]
