"""`python -m harness describe numpy text=...`: BERT in NumPy, compared with torch stage by stage, and trained on 50
sentences.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.encoder import Encoder, initialise
from harness.models.heads import MaskedLMHead
from harness.models.keys import keys_read
from harness.models.stack import Stack
from harness.plugins.explain import numpy_encoder as written_out
from harness.plugins.explain.numpy_encoder import Floats, Integers, Piece
from harness.plugins.explain.pictures import save
from harness.tasks.synthetic import paradigms
from harness.terminal import table, wrapped

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
PAD, CLS, SEP, MASK = range(len(SPECIAL))
SENTENCES, STEPS, RATE, SHARE = 50, 100, 1e-3, 0.15
"""Texts of every training step, steps of Adam, their rate, share of the words that are masked."""
BETAS, EPS = (0.9, 0.999), 1e-8
FREE: tuple[str, ...] = ("hidden_size", "num_hidden_layers", "depth_fraction", "num_hidden_groups", "initializer_range", "init")
FREE += (
    "max_position_embeddings",
    "num_attention_heads",
    "intermediate_size",
    "pad_token_id",
    "pooling",
    "pooler",
    "vocab_size",
)
FREE += ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "pooler_bias", "classifier_bias")
"""Keys that the NumPy code follows, or that it has no part for; dropout is off."""
SHOWN = 4
"""Numbers of a tensor that are printed, those of the first token."""


class Toy(nn.Module):
    """An encoder with the head for masked tokens, in float64."""

    def __init__(self, config: EncoderConfig, seed: int) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.head = MaskedLMHead(config, self.encoder.embeddings.token_embedding)
        initialise(self, config.initializer_range, seed, config.init, config.init_depth)
        self.double()

    def arrays(self) -> dict[str, Floats]:
        """Copies of all parameters, a tied one once."""
        return {name: parameter.detach().numpy().copy() for name, parameter in self.named_parameters()}

    def forward(self, ids: Integers, mask: NDArray[np.bool_]) -> list[Tensor]:
        """The states before the first and after every layer, (B, T, D) each."""
        batch = Batch(torch.from_numpy(ids), torch.zeros(ids.shape, dtype=torch.int64), torch.from_numpy(mask))
        return [*self.encoder.hidden_states(batch)]

    def in_numpy(
        self, p: Piece, ids: Integers, mask: NDArray[np.bool_], places: tuple[Integers, ...]
    ) -> tuple[Floats, Callable[[Floats], None]]:
        """The scores of all words at these places by NumPy, and their backward."""
        layers = cast(Stack, self.encoder.layers)
        attentions = list(layers.attentions)
        order = [attentions.index(block) for block, _ in layers.execution_order()]  # a shared one more than once
        heads = self.encoder.config.num_attention_heads
        hidden, backward = written_out.encoder(ids, np.zeros_like(ids), mask, p.part("encoder"), heads, order)
        table = p.part("encoder.embeddings.token_embedding")
        scores, head_backward = written_out.masked_lm(hidden, places, p.part("head"), table)
        return scores, lambda dscores: backward(head_backward(dscores))


def numpy(config: RunConfig, text: str, out: Path) -> str:
    """What is printed; writes the curve of the training to `out`. InputError for a variant that is not written out."""
    shape, plain = config.model, EncoderConfig()
    other = [key for key in keys_read(shape) if key not in FREE and getattr(shape, key, None) != getattr(plain, key, None)]
    if other:
        raise InputError(f"describe numpy covers BERT only: model.{other[0]} has another value; expected model=base")
    rows = [text, *(row["sentence_good"] for row in paradigms.generate(3, "train")[:SENTENCES])]
    words, *sentences = (re.findall(r"\w+|[^\w\s]", row.lower()) for row in rows)
    if not words:
        raise InputError("text= has no words")
    vocabulary = [*SPECIAL, *sorted({word for sentence in (words, *sentences) for word in sentence})]
    longest = max(map(len, [words, *sentences])) + 2
    if longest > shape.longest_text:
        raise InputError(f"text= has {longest} tokens, more than model.max_position_embeddings={shape.longest_text}")
    shape = replace(shape, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, init_from=None)
    model = Toy(replace(shape, vocab_size=len(vocabulary), pad_token_id=PAD), config.seed)
    stages_text = table(
        ("stage", "shape", "first numbers of its first token", "from torch"),
        list(stages(model, *encoded([words], vocabulary))),
        "lllr",
    )
    losses = train(model, *encoded(sentences, vocabulary))  # (2, STEPS + 1)
    figure = Figure(figsize=(5, 3))
    axes = figure.subplots()
    axes.plot(losses[0], label="in NumPy")
    axes.axhline(np.log(len(vocabulary)), color="0.5", linestyle="--", label="guessing")
    axes.set(xlabel="step", ylabel="loss of masked words, nats", ylim=(0, None), title=f"{SENTENCES} sentences")
    axes.legend()
    curve = [(str(step), *(f"{loss:.3f}" for loss in losses[:, step])) for step in range(0, STEPS + 1, STEPS // 10)]
    parts = [
        f"{config.label}, random weights, one text of {len(words) + 2} tokens, {len(vocabulary)} words",
        stages_text,
        wrapped(f"masked words of {SENTENCES} sentences, {SHARE * 100:.0f} % anew at each step; Adam at {RATE:g}, in NumPy"),
        table(("step", "loss, NumPy", "loss, torch"), curve, "r"),
        f"at most {np.ptp(losses, axis=0).max():.1e} nats between the two; guessing has {np.log(len(vocabulary)):.3f}",
        save(figure, out, "numpy"),
    ]
    return "\n\n".join(parts)


def encoded(texts: list[list[str]], vocabulary: list[str]) -> tuple[Integers, NDArray[np.bool_]]:
    """Ids and which of them are no padding, both (B, T)."""
    ids = np.full((len(texts), max(map(len, texts)) + 2), PAD)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text) + 2] = [CLS, *map(vocabulary.index, text), SEP]
    return ids, ids != PAD


def stages(model: Toy, ids: Integers, mask: NDArray[np.bool_]) -> Iterator[tuple[str, str, str, str]]:
    """Rows of the table: what NumPy computes, in its order, and how far torch is from it where it has the same tensor."""
    with torch.no_grad():
        states = model(ids, mask)
        names = [*(f"layer {number}, its input" for number in range(1, len(states))), written_out.OUTPUT]
        theirs = {name: state.numpy() for name, state in zip(names, states, strict=True)}
        theirs["scores of all words"] = model.head(states[-1]).numpy()[mask]
    p = Piece(model.arrays())
    p.stages.append(("token ids", ids))
    model.in_numpy(p, ids, mask, np.nonzero(mask))
    for name, ours in p.stages:
        numbers = (f"{number}" if ours.dtype.kind == "i" else f"{number:+.3f}" for number in ours.reshape(-1)[:SHOWN])
        apart = f"{np.abs(ours - theirs[name]).max():.0e}" if name in theirs else ""
        yield name if apart else f"  {name}", " × ".join(map(str, ours.shape)), " ".join(numbers), apart


def train(model: Toy, ids: Integers, mask: NDArray[np.bool_]) -> Floats:
    """(2, STEPS + 1) losses of all steps and of one more batch, by NumPy's gradients and Adam, and by torch's."""
    arrays, draws, losses = model.arrays(), np.random.default_rng(0), []
    optimiser = torch.optim.Adam(model.parameters(), RATE, BETAS, EPS)
    first, second = ({name: np.zeros_like(array) for name, array in arrays.items()} for _ in range(2))
    for step in tqdm(range(1, STEPS + 2), desc="training", leave=False, disable=None):
        masked = (draws.random(ids.shape) < SHARE) & mask & (ids != CLS) & (ids != SEP)
        p, inputs = Piece(arrays), np.where(masked, MASK, ids)
        scores, backward = model.in_numpy(p, inputs, mask, np.nonzero(masked))
        loss, dscores = written_out.cross_entropy(scores, ids[masked])
        backward(dscores)
        for name, gradient in p.gradients.items():
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * gradient
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * gradient**2
            mean, square = first[name] / (1 - BETAS[0] ** step), second[name] / (1 - BETAS[1] ** step)
            arrays[name] -= RATE * mean / (np.sqrt(square) + EPS)
        hidden = model(inputs, mask)[-1]
        theirs = F.cross_entropy(model.head(hidden[torch.from_numpy(masked)]), torch.from_numpy(ids[masked]))
        losses.append((loss, theirs.item()))
        optimiser.zero_grad()
        theirs.backward()
        optimiser.step()
    return np.transpose(losses)
