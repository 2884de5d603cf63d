"""One word in numbers: `python -m harness inspect RUN text="The bank was robbed" word=bank [layer=1]`.

Prints the products of the queries of the word with the keys of all pieces, and the weights of attention that they become, by
head. With `texts="The bank was robbed ||| The river bank"` in place of text= it prints how alike the vectors of the word are in
these texts, from the token embedding, which is the same everywhere, to the last layer, before a training and after it.
H heads, T pieces, L layers, D hidden.
"""

import re
from itertools import combinations

import torch
from tokenizers import Encoding, Tokenizer
from torch.nn import functional as F

from harness.commands.predict import SEPARATOR
from harness.commands.vectors import Source
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.encoder import Encoder
from harness.plugins.explain.inspect_pictures import AttentionMap
from harness.terminal import DASH, Row, table, wrapped

MOST_HEADS = 12
"""Heads that have columns of their own; of more the mean is printed alone."""

DECIMALS = 3

MOST_STATES = 8
"""Layers that have columns, evenly spaced where there are more."""


def attention_of(
    word: str, layer: int, texts: list[str], source: Source, ids: list[int], maps: list[AttentionMap]
) -> list[str]:
    """Both tables, of the word's pieces in a text of these ids; InputError for a word or a layer that is not there."""
    if not 1 <= (number := layer if layer > 0 else len(maps) + 1 + layer) <= len(maps):
        raise InputError(f"layer={layer} is not there; choices: 1 to {len(maps)}, or from the end -1 to -{len(maps)}")
    shown, row = maps[number - 1], source.tokenizer.encode(*texts)
    if row.ids != ids:
        raise InputError("word= needs a text that is one sequence of pieces: shorten text=, or leave word= out")
    places = places_of(word, texts, row)
    where = f"{'place' if len(places) == 1 else 'mean of the places'} {', '.join(map(str, places))}, {shown.title}"
    names = [f"{place} {piece}" for place, piece in enumerate(row.tokens)]
    scale = "query · key, scaled and with its bias, before softmax" if shown.scores is not None else None
    titles = {
        "weights of attention, the softmax of these; a column adds up to 1" if scale else "weights of attention": shown.weights
    }
    if scale:
        titles = {scale: shown.scores} | titles
    parts = [f"{word!r} ({where})"]
    for title, values in titles.items():
        mine = values[:, places].float().mean(dim=1)  # (H, T)
        rows = [_row(name, column) for name, column in zip(names, mine.T.tolist(), strict=True)]
        heads = [f"head {head}" for head in range(1, len(mine) + 1)] if len(mine) <= MOST_HEADS else []
        parts.append(f"{title}\n\n{table(('piece', 'mean', *heads), rows)}")
    if not scale:
        parts.append(wrapped("products of queries and keys: not shown, this attention has no single one for a pair of pieces"))
    return parts


def _row(name: str, of_heads: list[float]) -> Row:
    """A piece with the mean over heads and each head; a dash for a piece that is not seen."""
    values = [sum(of_heads) / len(of_heads), *(of_heads if len(of_heads) <= MOST_HEADS else [])]
    return (
        name,
        *(DASH if value in (0, float("-inf")) else f"{round(value, DECIMALS) + 0.0:.{DECIMALS}f}" for value in values),
    )


def places_of(word: str, texts: list[str], row: Encoding) -> list[int]:
    """Pieces of the first occurrence of the word, upper and lower case aside; InputError where it is not there whole."""
    for number, text in enumerate(texts):
        if match := re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE):
            places = {row.char_to_token(character, number) for character in range(*match.span())} - {None}
            if not places:
                raise InputError(f"word={word!r} is not among the {len(row.ids)} pieces that are read of {text!r}")
            return sorted(places)
    raise InputError(f"word={word!r} is not a word of {' and '.join(map(repr, texts))}")


# In several texts


def alike(word: str, texts: str, tokenizer: Tokenizer, encoders: dict[str, Encoder], longest: int) -> str:
    """Cosines of the word's vectors between every two texts, of each encoder; InputError for fewer than two texts."""
    several = texts.split(SEPARATOR)
    if len(several) < 2 or not all(text.strip() for text in several):
        raise InputError(f"texts= names {len(several)} texts: expected two or more, with {SEPARATOR!r} between them")
    tokenizer.enable_truncation(longest)
    rows = [tokenizer.encode(text) for text in several]
    places = [places_of(word, [text], row) for text, row in zip(several, rows, strict=True)]
    listed = [
        f"{number}  {text}  ({' '.join(row.tokens[place] for place in mine)} at {', '.join(map(str, mine))})"
        for number, (text, row, mine) in enumerate(zip(several, rows, places, strict=True), 1)
    ]
    parts = [f"vectors of {word!r}, cosine between texts", "\n".join(wrapped(line, 3) for line in listed)]
    for name, encoder in encoders.items():
        vectors = [
            vectors_of(encoder, row, mine) for row, mine in zip(rows, places, strict=True)
        ]  # of each text (1 + L + 1) vectors
        states = len(vectors[0])
        shown = sorted({round(step * (states - 1) / (MOST_STATES - 1)) for step in range(MOST_STATES)} | {0, 1})
        heads = ["token" if state == 0 else "input" if state == 1 else f"layer {state - 1}" for state in shown]
        lines = []
        for first, second in combinations(range(len(several)), 2):
            cosines = [F.cosine_similarity(vectors[first][state], vectors[second][state], dim=0).item() for state in shown]
            lines.append((f"{first + 1} and {second + 1}", *(f"{cosine:.3f}" for cosine in cosines)))
        parts.append(f"{name}\n\n{table(('texts', *heads), lines)}")
    note = "token: the token embedding, the same in every text; input: with segment and position; layer: in its context"
    return "\n\n".join([*parts, wrapped(note)])


@torch.inference_mode()
def vectors_of(encoder: Encoder, row: Encoding, places: list[int]) -> list[torch.Tensor]:
    """Means over the word's pieces: of the token embedding, of the input of the first layer, and of the output of each."""
    batch = Batch(torch.tensor([row.ids]), torch.tensor([row.type_ids]))
    tokens = encoder.embeddings.token_embedding(batch.input_ids)
    return [states[0, places].mean(dim=0) for states in (tokens, *encoder.hidden_states(batch))]
