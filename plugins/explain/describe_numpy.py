"""`python -m harness describe numpy text=...`: BERT in NumPy, stage by stage beside torch, and trained on 50 sentences."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
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
from harness.plugins.explain import numpy_encoder as written_out
from harness.plugins.explain.pictures import save
from harness.tasks.synthetic import paradigms
from harness.terminal import table, wrapped

SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
PAD, CLS, SEP, MASK = range(len(SPECIAL))
SENTENCES, STEPS, RATE, SHARE = 50, 100, 1e-3, 0.15
"""Texts of every training step, steps of Adam, their rate, share of the words that are masked."""
BETAS, EPS = (0.9, 0.999), 1e-8
FREE = ("hidden_size", "num_hidden_layers", "depth_fraction", "num_hidden_groups", "initializer_range", "vocab_size")
FREE += ("max_position_embeddings", "num_attention_heads", "intermediate_size", "pad_token_id", "pooling", "pooler", "init")
FREE += ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "pooler_bias", "classifier_bias")
"""Keys that the NumPy code follows, or that it has no part for; dropout is off."""
SHOWN = 4
"""Numbers of a tensor that are printed, those of the first token."""

Arrays = dict[str, np.ndarray]


class Toy(nn.Module):
    """An encoder with the head for masked tokens, in float64."""

    def __init__(self, config: EncoderConfig, seed: int) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.head = MaskedLMHead(config, self.encoder.embeddings.token_embedding)
        initialise(self, config.initializer_range, seed, config.init, config.init_depth)
        self.double()

    def arrays(self) -> Arrays:
        """Copies of all parameters, a tied one once."""
        return {name: parameter.detach().numpy().copy() for name, parameter in self.named_parameters()}

    def forward(self, ids: np.ndarray, mask: np.ndarray) -> list[Tensor]:
        """The states before the first and after every layer, (B, T, D) each."""
        batch = Batch(torch.from_numpy(ids), torch.zeros(ids.shape, dtype=torch.int64), torch.from_numpy(mask))
        return [*self.encoder.hidden_states(batch)]

    def in_numpy(self, p: Arrays, ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, tuple]:
        """The last state by NumPy, and what the backward pass needs."""
        attentions = list(self.encoder.layers.attentions)
        order = [attentions.index(block) for block, _ in self.encoder.layers.execution_order()]  # a shared one more than once
        heads = self.encoder.config.num_attention_heads
        return written_out.encoder(ids, np.zeros_like(ids), mask, p, "encoder.", heads, order)


def numpy(config: RunConfig, text: str, out: Path) -> str:
    """What is printed; writes the curve of the training to `out`. InputError for a variant that is not written out."""
    shape, plain = config.model, EncoderConfig()
    other = [key for key in keys_read(shape) if key not in FREE and getattr(shape, key, None) != getattr(plain, key, None)]
    if other:
        raise InputError(f"describe numpy is written out for BERT: model.{other[0]} has another value; expected model=base")
    rows = [text, *(row["sentence_good"] for row in paradigms.generate(3, "train")[:SENTENCES])]
    words, *sentences = (re.findall(r"\w+|[^\w\s]", row.lower()) for row in rows)
    if not words:
        raise InputError("text= has no words")
    vocabulary = [*SPECIAL, *sorted({word for sentence in (words, *sentences) for word in sentence})]
    longest = max(map(len, [words, *sentences])) + 2
    if longest > shape.longest_text:
        raise InputError(f"text= has {longest} tokens, model.max_position_embeddings holds {shape.longest_text}")
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "init_from": None}
    model = Toy(replace(shape, vocab_size=len(vocabulary), pad_token_id=PAD, **off), config.seed)
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


def encoded(texts: list[list[str]], vocabulary: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Ids and which of them are no padding, both (B, T)."""
    ids = np.full((len(texts), max(map(len, texts)) + 2), PAD)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text) + 2] = [CLS, *map(vocabulary.index, text), SEP]
    return ids, ids != PAD


def stages(model: Toy, ids: np.ndarray, mask: np.ndarray) -> Iterator[tuple[str, str, str, str]]:
    """Rows of the table: what NumPy computes, in its order, and how far torch is from it where it has the same tensor."""
    p = model.arrays()
    with torch.no_grad():
        states = model(ids, mask)
        theirs = [state.numpy() for state in states]
        scores = model.head(states[-1]).numpy()[mask]
    hidden, (embedded, layers, order) = model.in_numpy(p, ids, mask)
    logits, (_, _, _, inner, active, normed) = written_out.masked_lm(hidden, np.nonzero(mask), p, "head.")

    def row(name: str, ours: np.ndarray, theirs: np.ndarray | None = None) -> tuple[str, str, str, str]:
        numbers = (f"{number}" if ours.dtype.kind == "i" else f"{number:+.3f}" for number in ours.reshape(-1)[:SHOWN])
        apart = "" if theirs is None else f"{np.abs(ours - theirs).max():.0e}"
        return name, " × ".join(map(str, ours.shape)), " ".join(numbers), apart

    yield row("token ids", ids)
    yield row("tokens + positions + types", embedded[0])
    yield row("  normed", written_out.layer_norm(embedded[0], p, "encoder.embeddings.norm."), theirs[0])
    for number, (first, second, (_, query, key, value, weights, joined), (middle, wide)) in enumerate(layers, 1):
        norm = f"encoder.layers.feed_forwards.{order[number - 1]}.norm."
        yield (f"layer {number}", "", "", "")
        yield row("  queries", query)
        yield row("  keys", key)
        yield row("  values", value)
        yield row("  weights, softmax of q k / √K", weights)
        yield row("  weights times values, heads joined", joined)
        yield row("  projected, added to the input", first)
        yield row("  normed", middle)
        yield row("  feed-forward, inside", wide)
        yield row("  GELU", written_out.gelu(wide))
        yield row("  out again, added", second)
        yield row("  normed", written_out.layer_norm(second, p, norm), theirs[number])
    yield row("head: dense", inner)
    yield row("  GELU", active)
    yield row("  normed", normed)
    yield row("  scores of all words", logits, scores)


def gradients(model: Toy, p: Arrays, ids: np.ndarray, mask: np.ndarray, masked: np.ndarray) -> tuple[float, Arrays]:
    """Loss in nats of the words that are masked, (B, T) bool; and its gradients."""
    places, of_all = np.nonzero(masked), {}
    hidden, trace = model.in_numpy(p, np.where(masked, MASK, ids), mask)
    logits, head_trace = written_out.masked_lm(hidden, places, p, "head.")
    loss, dlogits = written_out.cross_entropy(logits, ids[places])
    written_out.encoder_backward(
        written_out.masked_lm_backward(dlogits, p, "head.", head_trace, of_all), p, "encoder.", trace, of_all
    )
    return float(loss), of_all


def train(model: Toy, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(2, STEPS + 1) losses of all steps and of one more batch, by NumPy's gradients and Adam, and by torch's."""
    p, draws, losses = model.arrays(), np.random.default_rng(0), []
    optimiser = torch.optim.Adam(model.parameters(), RATE, BETAS, EPS)
    first, second = ({name: np.zeros_like(array) for name, array in p.items()} for _ in range(2))
    for step in tqdm(range(1, STEPS + 2), desc="training", leave=False, disable=None):
        masked = (draws.random(ids.shape) < SHARE) & mask & (ids != CLS) & (ids != SEP)
        loss, of_all = gradients(model, p, ids, mask, masked)
        for name, gradient in of_all.items():
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * gradient
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * gradient**2
            mean, square = first[name] / (1 - BETAS[0] ** step), second[name] / (1 - BETAS[1] ** step)
            p[name] -= RATE * mean / (np.sqrt(square) + EPS)
        hidden = model(np.where(masked, MASK, ids), mask)[-1]
        theirs = F.cross_entropy(model.head(hidden[torch.from_numpy(masked)]), torch.from_numpy(ids[masked]))
        losses.append((loss, theirs.item()))
        optimiser.zero_grad()
        theirs.backward()
        optimiser.step()
    return np.transpose(losses)
