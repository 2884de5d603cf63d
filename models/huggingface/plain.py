"""Published tensors as the family's own class names and stores them, whatever it was wrapped in when they were saved."""

import re
from collections import Counter

from torch import Tensor

from harness.models.huggingface.families import names_of
from harness.models.huggingface.names import ConfigJson, listed
from harness.models.huggingface.task_heads import names_head

WRAPPER = r"(?<![^.])(?:_orig_mod|module|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
"""What torch puts before the names of a module that is compiled, copied to devices or divided among them."""

EMBEDDING = "encoder.embeddings.token_embedding"
TIED = (
    *("lm_head.weight", "lm_head.decoder.weight", "cls.predictions.decoder.weight", "predictions.decoder.weight"),
    *("vocab_projector.weight", "generator_lm_head.weight", "decoder.weight", "lm_loss.weight"),
)
"""Output matrices under which a file may hold the token embedding, where both are one tensor."""


def plain(state: dict[str, Tensor], config_json: ConfigJson) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors in float32 without prefixes of wrappers, and notes on what was done.

    What is beside a wrapped model is left out. ValueError for two encoders in one file.
    """
    encoder, notes = _modules(config_json), []
    out = {re.sub(WRAPPER, "", name): tensor for name, tensor in state.items()}
    if len(out) < len(state):
        raise ValueError("tensors of one name, but for the prefixes of wrappers: expected one model")
    removed = {match for name in state for match in re.findall(WRAPPER, name)}
    matches = (encoder.fullmatch(name) for name in out)
    counted = Counter((match["wrapper"], match["base"]) for match in matches if match)
    ((prefix, base), most), *others = counted.most_common() or [(("", ""), 0)]
    if others and 2 * others[0][1] > most:
        raise ValueError(f"two encoders, {prefix + base!r} and {''.join(others[0][0])!r}: expected the weights of one")
    if prefix:
        beside = {name: tensor for name, tensor in out.items() if not name.startswith(prefix)}
        out = {name.removeprefix(prefix): tensor for name, tensor in out.items() if name.startswith(prefix)}
        if not base and names_head(config_json):  # in place of the family's own prefix, so that the head is beside it
            out |= beside
        elif beside:
            notes.append(f"not read, as it is outside of {prefix!r}: {listed([*beside])}")
    if prefixes := sorted(removed | {prefix} - {""}):
        notes.insert(0, f"prefix {' and '.join(map(repr, prefixes))} left out")
    if any(name.endswith((".gamma", ".beta")) for name in out):
        notes.append("norms by their old names, gamma and beta")
    dtypes = {str(t.dtype).removeprefix("torch.") for t in out.values() if t.is_floating_point()} - {"float32"}
    if dtypes:
        notes.append(f"{' and '.join(sorted(dtypes))} read as float32")
        out = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in out.items()}
    return _with_embedding(out, config_json, notes), notes


def _modules(config_json: ConfigJson) -> re.Pattern[str]:
    """What a name of a tensor of the encoder looks like, in any wrapper."""
    names = names_of(config_json)
    known = "|".join(pattern for pattern, ours in names.modules.items() if pattern and ours.startswith("encoder."))
    return re.compile(rf"(?P<wrapper>(?:.+?\.)??)(?P<base>(?:{names.prefix})?)(?:{known})\.[^.]+")


def _with_embedding(state: dict[str, Tensor], config_json: ConfigJson, notes: list[str]) -> dict[str, Tensor]:
    """With the token embedding that a file holds as the output matrix alone."""
    names = names_of(config_json)
    table = next(pattern for pattern, ours in names.modules.items() if ours == EMBEDDING).partition("|")[0]
    tied = next((name for name in TIED if name in state), None)
    if tied is None or not config_json.get("tie_word_embeddings", True):
        return state
    if any(re.fullmatch(rf"(?:{names.prefix})?{table}\.weight", name) for name in state):
        return state
    notes.append(f"token embedding: {tied}, to which it is tied")
    return state | {f"{table.replace(chr(92), '')}.weight": state[tied]}
