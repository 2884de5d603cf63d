"""Vocabularies of the families in tasks: words, answers and pairs are where they are in the text, whatever the pieces."""

import json
from pathlib import Path

import pytest

from harness.config.choices import TaskKind, TokenizerKind
from harness.config.resolve import load
from harness.config.schema import TaskConfig, TokenizerConfig
from harness.data import tokenizer as tokenizers
from harness.tasks.base import Examples
from harness.tasks.spans import Spans
from harness.tasks.tagging import Tokens

WORDS = ["Ann", "robbed", "the", "Bank", "of", "Orléans", ",", "they", "say", "."]
CONTEXT = 'Ann  robbed the Bank of Orléans (twice), they say; it\'s "gone".'
ANSWERS = ["Ann", "Bank of Orléans", "twice", "gone", "it's"]
FAMILIES = {
    "bert": TokenizerConfig(),
    "roberta": TokenizerConfig(kind=TokenizerKind.bpe, lowercase=False, separators=2),
    "gpt": TokenizerConfig(kind=TokenizerKind.bpe, lowercase=True),
    "albert": TokenizerConfig(kind=TokenizerKind.unigram, lowercase=True),
    "xlnet": TokenizerConfig(kind=TokenizerKind.unigram, lowercase=False),
}


@pytest.fixture(params=FAMILIES)
def tokenizer(request) -> tokenizers.Tokenizer:
    return tokenizers.build(FAMILIES[request.param], [CONTEXT, " ".join(WORDS), "Who robbed the bank?"] * 3)


def test_every_word_has_its_tag_at_its_first_piece(tokenizer):
    task = TaskConfig(name="tags", labels=["O", *(f"B-{place}" for place in range(len(WORDS)))], max_length=128)
    tags = list(range(len(WORDS)))
    split = Tokens().encode(task, tokenizer, Examples([WORDS], [tags], [0], "here"))
    assert [label for label in split.labels.tolist() if label >= 0] == tags
    assert [word for word in split.numbers["words"].tolist() if word >= 0] == tags


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_labelled_pieces_of_an_answer_are_its_text(tokenizer, answer):
    task = TaskConfig(name="spans", kind=TaskKind.spans, max_length=256, stride=8)
    gold = [(answer, CONTEXT.index(answer))]
    split = Spans().encode(task, tokenizer, Examples([["Who?", CONTEXT]], [gold], [0], "here"))
    ((first, last),) = split.labels.tolist()
    offsets = split.numbers["offsets"]
    assert CONTEXT[offsets[first, 0] : offsets[last, 1]] == answer


def test_as_many_pieces_begin_a_word_as_there_are_words_and_marks(tokenizer):
    starts = tokenizers.word_starts(tokenizer)
    ids = tokenizer.encode(" ".join(WORDS), add_special_tokens=False).ids
    assert sum(starts[ids]) == len(WORDS)


@pytest.mark.parametrize("separators", [1, 2])
def test_pairs_have_the_separators_of_the_family(separators):
    tokenizer = tokenizers.build(TokenizerConfig(separators=separators), [CONTEXT])
    pair, single = tokenizer.encode("Ann", "Ann"), tokenizer.encode("Ann")
    assert pair.tokens.count("[SEP]") == separators + 1
    assert single.tokens.count("[SEP]") == 1
    assert tokenizer.num_special_tokens_to_add(True) == separators + 2
    assert pair.type_ids[-2:] == [1, 1]


@pytest.mark.long
def test_variants_are_pretrained_each_with_its_vocabulary_and_compared_by_byte(run_harness, tmp_path):
    text = "\n\n".join(f"{CONTEXT} The singer of song {number} sang in a small town by the river." for number in range(200))
    (tmp_path / "text.txt").write_text(text)
    small = ["scale=tiny", "measure=none", "hardware.threads=1", "pretrain.length=32", "pretrain.steps=2"]
    small += ["pretrain.evaluations=1", "pretrain.eval_sequences=8", "tokenizer.vocab_size=400"]
    small.append(f"corpus.files=[{tmp_path / 'text.txt'}]")
    arms = ["-m", "model=base,roberta,albert", "seed=0", "pretrain=mlm", "task=none", "corpus=files", "study=families"]
    done = run_harness(*arms, *small, f"output={tmp_path / 'out'}", "report=true")
    assert done.returncode == 0, done.stdout + done.stderr
    folders = [path.parent for path in (tmp_path / "out" / "pretrained").glob("*/result.json")]
    kinds = {load(folder / "config.yaml").tokenizer.kind for folder in folders}
    assert kinds == set(TokenizerKind)
    for folder in folders:
        assert json.loads((folder / "result.json").read_text())["metrics"]["pretrain/heldout_bits_per_byte"] > 0
    (report,) = Path(tmp_path / "out").glob("reports/*/report.md")
    said = report.read_text()
    assert "**Vocabularies differ**" in said
    assert "held-out masked bits per byte" in said.split("| base")[0]
