"""`python -m harness inspect text=... word=bank`, and `texts=...`: one word in numbers. The whole command runs."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F
from variants import VARIANTS, variant

from harness.__main__ import main
from harness.checkpoints import native
from harness.config.schema import TokenizerConfig
from harness.data.tokenizer import build
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, initialise
from harness.plugins.explain.attention import maps_of, places_of, vectors_of

TEXTS = ["The bank was robbed", "a river bank", "banks, and the bank again"]
WITHOUT_ONE_PRODUCT = {"longformer", "windowed", "enhanced", "enhanced_shallow"}
"""Variants with layers that cut a text of 40 pieces into blocks, or that have products of their own for global tokens."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return build(TokenizerConfig(vocab_size=60, min_frequency=1), TEXTS)


@pytest.fixture
def encoder(tokenizer: Tokenizer) -> Encoder:
    """Also in the folder `weights`, with its tokenizer."""
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    made = Encoder(EncoderConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=32, **shape))
    initialise(made, 0.5, 0)
    native.save(Path("weights"), {f"encoder.{name}": value for name, value in made.state_dict().items()}, made.config)
    tokenizer.save(str(Path("weights", native.TOKENIZER)))
    return made.eval()


def tables(out: str) -> list[dict[str, list[str]]]:
    """Row -> its numbers, of each table."""
    blocks = [block.splitlines() for block in out.split("\n\n") if "\n---" in block and "[CLS]" not in block.split("\n")[0]]
    return [
        {" ".join(line.split()[:-columns]): line.split()[-columns:] for line in block[2:]}
        for block in blocks
        for columns in [len([part for part in block[0].split("  ") if part]) - 1]
    ]


@pytest.mark.long
@torch.inference_mode()
def test_products_and_weights_are_those_of_the_first_layer(said, encoder, tokenizer):
    out = said("inspect", "checkpoint=weights", "text=The bank was robbed", "word=bank", "layer=1")
    row = tokenizer.encode("The bank was robbed")
    place = row.tokens.index("bank")
    hidden = encoder.hidden_states(Batch(torch.tensor([row.ids]), torch.tensor([row.type_ids])))[0]
    query, key, _ = encoder.layers.execution_order()[0][0].attention.query_key_value(hidden).view(-1, 3, 2, 8).unbind(1)
    scores = torch.einsum("hk,thk->th", query[place], key) / 8**0.5  # (T, H)
    products, weights = tables(out)
    assert list(products) == [f"{number} {piece}" for number, piece in enumerate(row.tokens)]
    for table, expected in ((products, scores), (weights, scores.softmax(dim=0))):
        for numbers, values in zip(table.values(), expected.tolist(), strict=True):
            assert [float(number) for number in numbers] == pytest.approx([sum(values) / 2, *values], abs=6e-4)


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_weights_are_the_softmax_of_the_products(name):
    encoder = Encoder(variant(name)).eval()
    maps = maps_of(encoder, Batch(torch.arange(2, 42)[None]))
    assert any(one.scores is None for one in maps) == (name in WITHOUT_ONE_PRODUCT)
    for one in maps:
        if one.scores is not None:
            torch.testing.assert_close(one.scores.softmax(dim=-1), one.weights, atol=1e-5, rtol=1e-4)


@pytest.mark.long
def test_word_of_several_pieces_is_the_mean_of_their_places(said, encoder, tokenizer):
    out = said("inspect", "checkpoint=weights", "text=a bank was rob", "word=ROB", "layer=1")
    row = tokenizer.encode("a bank was rob")
    places = places_of("ROB", ["a bank was rob"], row)
    assert len(places) > 1
    assert "".join(row.tokens[place].removeprefix("##") for place in places) == "rob"
    assert f"mean of the places {', '.join(map(str, places))}, layer 1" in out


@pytest.mark.long
def test_causal_word_has_a_dash_for_what_it_never_sees(said, encoder):
    choices = ["model=gpt", "scale=tiny", f"tokenizer.file={Path('weights', native.TOKENIZER)}"]
    out = said("inspect", *choices, "text=The bank was robbed", "word=bank")
    for table in tables(out):
        later = [numbers for name, numbers in table.items() if int(name.split()[0]) > 2]
        assert len(later) >= 2
        assert all(number == "-" for numbers in later for number in numbers)


def test_word_of_the_second_text_of_a_pair(tokenizer):
    row = tokenizer.encode("the bank", "was robbed")
    (first, *_) = places_of("was", ["the bank", "was robbed"], row)
    assert row.tokens[first].startswith("w")
    assert row.sequence_ids[first] == 1
    assert places_of("bank", TEXTS[2:], tokenizer.encode(TEXTS[2]))[0] > 2  # not in `banks`


@pytest.mark.long
def test_vectors_of_a_word_differ_by_context_but_not_its_token_embedding(said, encoder, tokenizer):
    out = said("inspect", "checkpoint=weights", "word=bank", f"texts={' ||| '.join(TEXTS)}")
    before, after = tables(out)
    assert list(before) == list(after) == ["1 and 2", "1 and 3", "2 and 3"]
    rows = [tokenizer.encode(text) for text in TEXTS]
    vectors = [vectors_of(encoder, row, places_of("bank", [text], row)) for text, row in zip(TEXTS, rows, strict=True)]
    for pair, numbers in after.items():
        one, other = (vectors[int(number) - 1] for number in pair.split(" and "))
        expected = [F.cosine_similarity(*both, dim=0).item() for both in zip(one, other, strict=True)]
        assert [float(number) for number in numbers] == pytest.approx(expected, abs=6e-4)
        assert numbers[0] == before[pair][0] == "1.000"
        assert float(numbers[-1]) < 0.999
    assert before != after


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text=The bank was robbed", "word=tree"], "word='tree' is not a word of 'The bank was robbed'"),
        (
            ["text=The bank was robbed", "word=bank", "layer=3"],
            "layer=3 does not exist; choices: 1 to 2, or from the end -1 to -2",
        ),
        (["text=The bank was robbed", "word=bank", "layer=0"], "layer=0 does not exist"),
        (["texts=a bank", "word=bank"], "texts= names 1 texts: expected two or more, with ' ||| ' between them"),
        (["texts=a bank ||| the river", "word=bank"], "word='bank' is not a word of 'the river'"),
        (["texts=a bank ||| the bank", "text=a bank", "word=bank"], "text= and texts= both name what is shown"),
    ],
)
def test_what_cannot_be_shown_is_one_line(capsys, encoder, arguments, message):
    assert main(["inspect", "checkpoint=weights", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
