"""A tokenizer with the pieces of some texts alone: `harness tokenizer keep=used`."""

import json
from collections.abc import Iterable

from tokenizers import Tokenizer

from harness.errors import InputError


def restricted(tokenizer: Tokenizer, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer with the pieces of these texts alone, with special pieces and with single characters, in their order.

    It cuts the texts as before: the longest piece that fits is still there, and no longer one is new. InputError for pieces
    that are chosen in another way than WordPiece's.
    """
    content = json.loads(tokenizer.to_str())
    if content["model"]["type"] != "WordPiece":
        raise InputError(f"keep=used cuts WordPiece vocabularies only, not {content['model']['type']}")
    inside, special = content["model"]["continuing_subword_prefix"], tokenizer.get_added_tokens_decoder()
    kept = {piece.content for piece in special.values()} | {content["model"]["unk_token"]}
    for text in texts:
        kept.update(tokenizer.encode(text, add_special_tokens=False).tokens)
    ordered = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    pieces = [piece for piece, _ in ordered if piece in kept or len(piece.removeprefix(inside)) == 1]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    content["model"]["vocab"] = {piece: number for piece, number in numbers.items() if piece in content["model"]["vocab"]}
    for added in content["added_tokens"]:
        added["id"] = numbers[added["content"]]
    _renumber(content["post_processor"], numbers)
    content["truncation"] = content["padding"] = None
    return Tokenizer.from_str(json.dumps(content))


def _renumber(part: object, numbers: dict[str, int]) -> None:
    """In the template around texts, special pieces by name have new numbers; in both forms that the library writes."""
    if isinstance(part, dict):
        if "ids" in part and "tokens" in part:
            part["ids"] = [numbers[piece] for piece in part["tokens"]]
        for role in ("cls", "sep"):
            if isinstance(part.get(role), list):
                part[role] = [part[role][0], numbers[part[role][0]]]
        for value in part.values():
            _renumber(value, numbers)
    elif isinstance(part, list):
        for value in part:
            _renumber(value, numbers)
