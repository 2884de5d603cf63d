"""`python -m harness describe numpy text=...`: BERT in NumPy, stage by stage beside torch, and trained on 50 sentences."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn
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

    @property
    def order(self) -> list[int]:
        """The layers in the order in which they run; a shared one more than once."""
        return [list(self.encoder.layers.attentions).index(block) for block, _ in self.encoder.layers.execution_order()]

    def arrays(self) -> Arrays:
        """Copies of all parameters, a tied one once."""
        return {name: one.detach().numpy().copy() for name, one in self.named_parameters()}


def numpy(config: RunConfig, text: str, out: Path) -> str:
    """What is printed; writes the curve of the training to `out`. InputError for a variant that is not written out."""
    refuse_other(config.model)
    words, sentences = words_of(text), [words_of(row["sentence_good"]) for row in paradigms.generate(3, "train")[:SENTENCES]]
    vocabulary = [*SPECIAL, *sorted({*words, *(word for sentence in sentences for word in sentence)})]
    longest = max(map(len, [words, *sentences])) + 2
    if longest > config.model.longest_text:
        raise InputError(f"text= has {longest} tokens, model.max_position_embeddings holds {config.model.longest_text}")
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "init_from": None}
    model = Toy(replace(config.model, vocab_size=len(vocabulary), pad_token_id=PAD, **off), config.seed)
    seen = list(stages(model, *encoded([words], vocabulary)))
    head = f"{config.label}, random weights, one text of {len(words) + 2} tokens, {len(vocabulary)} words"
    stages_text = table(("stage", "shape", "first numbers of its first token", "from torch"), seen, "lllr")
    losses, torch_losses = train(model, *encoded(sentences, vocabulary))
    apart = max(abs(ours - theirs) for ours, theirs in zip(losses, torch_losses, strict=True))
    rows = [(str(step), f"{losses[step]:.3f}", f"{torch_losses[step]:.3f}") for step in range(0, STEPS + 1, STEPS // 10)]
    trained = f"masked words of {SENTENCES} sentences, {SHARE * 100:.0f} % anew at each step; Adam at {RATE:g}, in NumPy"
    ends = f"at most {apart:.1e} nats between the two; guessing has {np.log(len(vocabulary)):.3f}"
    curve = table(("step", "loss, NumPy", "loss, torch"), rows, "r")
    paths = save(drawn(losses, len(vocabulary)), out, "numpy")
    return "\n\n".join([head, stages_text, wrapped(trained), curve, ends, paths])


def refuse_other(model: EncoderConfig) -> None:
    """InputError for keys that the NumPy code does not follow."""
    plain = EncoderConfig()
    other = [key for key in keys_read(model) if key not in FREE and getattr(model, key, None) != getattr(plain, key, None)]
    if other:
        raise InputError(f"describe numpy is written out for BERT: model.{other[0]} has another value; expected model=base")


def words_of(text: str) -> list[str]:
    """Words and signs in lower case; InputError where there are none."""
    if words := re.findall(r"\w+|[^\w\s]", text.lower()):
        return words
    raise InputError("text= has no words")


def encoded(texts: list[list[str]], vocabulary: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Ids and which of them are no padding, both (B, T)."""
    places, longest = {word: place for place, word in enumerate(vocabulary)}, max(map(len, texts)) + 2
    rows = [[CLS, *(places[word] for word in text), SEP] for text in texts]
    ids = np.array([row + [PAD] * (longest - len(row)) for row in rows])
    return ids, ids != PAD


def stages(model: Toy, ids: np.ndarray, mask: np.ndarray) -> Iterator[tuple[str, str, str, str]]:
    """Rows of the table: what NumPy computes, in its order, and how far torch is from it where it has the same tensor."""
    p = model.arrays()
    with torch.no_grad():
        theirs = [one.numpy() for one in model.encoder.hidden_states(batch_of(ids, mask))]
        scores = model.head(torch.from_numpy(theirs[-1])).numpy()
    hidden, (embedded, layers, order) = forward(model, p, ids, mask)
    logits, (_, _, _, inner, active, normed) = written_out.masked_lm(hidden, np.nonzero(mask), p, "head.")
    yield _row("token ids", ids)
    yield _row("tokens + positions + types", embedded[0])
    yield _row("  normed", written_out.layer_norm(embedded[0], p, "encoder.embeddings.norm."), theirs[0])
    for number, (first, second, (_, query, key, value, weights, joined), (middle, wide)) in enumerate(layers, 1):
        yield (f"layer {number}", "", "", "")
        for name, one in (("queries", query), ("keys", key), ("values", value), ("weights, softmax of q k / √K", weights)):
            yield _row(f"  {name}", one)
        yield _row("  weights times values, heads joined", joined)
        yield _row("  projected, added to the input", first)
        yield _row("  normed", middle)
        yield _row("  feed-forward, inside", wide)
        yield _row("  GELU", written_out.gelu(wide))
        yield _row("  out again, added", second)
        norm = f"encoder.layers.feed_forwards.{order[number - 1]}.norm."
        yield _row("  normed", written_out.layer_norm(second, p, norm), theirs[number])
    for name, one in (("head: dense", inner), ("  GELU", active), ("  normed", normed)):
        yield _row(name, one)
    yield _row("  scores of all words", logits, scores[mask])


def _row(name: str, ours: np.ndarray, theirs: np.ndarray | None = None) -> tuple[str, str, str, str]:
    first = ours.reshape(-1)[:SHOWN]
    numbers = " ".join(f"{number}" if ours.dtype.kind == "i" else f"{number:+.3f}" for number in first)
    apart = "" if theirs is None else f"{np.abs(ours - theirs).max():.0e}"
    return name, " × ".join(map(str, ours.shape)), numbers, apart


def batch_of(ids: np.ndarray, mask: np.ndarray) -> Batch:
    """As the torch model reads it."""
    return Batch(torch.from_numpy(ids), torch.zeros(ids.shape, dtype=torch.int64), torch.from_numpy(mask))


def forward(model: Toy, p: Arrays, ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, tuple]:
    """Hidden states (B, T, D), and what the backward pass needs."""
    heads = model.encoder.config.num_attention_heads
    return written_out.encoder(ids, np.zeros_like(ids), mask, p, "encoder.", heads, model.order)


def gradients(model: Toy, p: Arrays, ids: np.ndarray, mask: np.ndarray, hidden_words: np.ndarray) -> tuple[float, Arrays]:
    """Loss in nats of the words at `hidden_words`, (B, T) bool, that are replaced by [MASK]; and its gradients."""
    places = np.nonzero(hidden_words)
    hidden, trace = forward(model, p, np.where(hidden_words, MASK, ids), mask)
    logits, head_trace = written_out.masked_lm(hidden, places, p, "head.")
    loss, labels = written_out.cross_entropy(logits, ids[places]), ids[places]
    found: Arrays = {}
    dhidden = written_out.masked_lm_backward(written_out.cross_entropy_backward(logits, labels), p, "head.", head_trace, found)
    written_out.encoder_backward(dhidden, p, "encoder.", trace, found)
    return float(loss), found


def train(model: Toy, ids: np.ndarray, mask: np.ndarray) -> tuple[list[float], list[float]]:
    """Losses of STEPS steps and of one more batch, by NumPy's gradients and Adam, and by torch's, from the same weights."""
    p, draws, ours, theirs = model.arrays(), np.random.default_rng(0), [], []
    optimiser = torch.optim.Adam(model.parameters(), RATE, BETAS, EPS)
    first, second = ({name: np.zeros_like(one) for name, one in p.items()} for _ in range(2))
    for step in tqdm(range(1, STEPS + 2), desc="training", leave=False, disable=None):
        hidden_words = (draws.random(ids.shape) < SHARE) & mask & (ids != CLS) & (ids != SEP)
        loss, found = gradients(model, p, ids, mask, hidden_words)
        ours.append(loss)
        for name, gradient in found.items():
            first[name] = BETAS[0] * first[name] + (1 - BETAS[0]) * gradient
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * gradient**2
            mean, square = first[name] / (1 - BETAS[0] ** step), second[name] / (1 - BETAS[1] ** step)
            p[name] -= RATE * mean / (np.sqrt(square) + EPS)
        hidden = model.encoder(batch_of(np.where(hidden_words, MASK, ids), mask))
        loss = F.cross_entropy(model.head(hidden[torch.from_numpy(hidden_words)]), torch.from_numpy(ids[hidden_words]))
        theirs.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return ours, theirs


def drawn(losses: list[float], words: int) -> Figure:
    """The loss by step, and that of guessing."""
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(losses, color="#0072B2", linewidth=1.4)
    axes.axhline(np.log(words), color="0.5", linestyle=(0, (4, 3)), linewidth=1)
    axes.annotate("guessing", (len(losses), np.log(words)), (0, 3), textcoords="offset points", ha="right", color="0.35")
    axes.set(xlabel="step", ylabel="loss of masked words, nats", ylim=(0, None), title=f"{SENTENCES} sentences, in NumPy")
    return figure
