"""A BERT-like encoder and its gradients in plain NumPy: what `describe numpy` shows, and a check on `models/` from outside.

B sequences, T tokens, D hidden, F feed-forward, H heads, K = D / H head size, V vocabulary, N predicted places, C classes.

Every function returns what comes out and its backward. There `dx` means the gradient of the loss with respect to `x`; it has
the shape of `x`. A backward takes `dy`, the gradient of what came out, returns that of what went in, and adds those of the
parameters to their piece.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Backward = Callable[[Floats], Floats]

EPSILON = 1e-12
"""Added to the variance in a layer norm, as BERT."""

OUTPUT = "output of the last layer, input of the head"


@dataclass(frozen=True)
class Piece:
    """A piece of the model: the parameters whose names in the state dict begin with `at`.

    The gradient of a shared layer, or of a table used twice, is the sum over its uses. `stages` are the tensors on the way.
    """

    values: dict[str, Floats]
    at: str = ""
    gradients: dict[str, Floats] = field(default_factory=dict)
    stages: list[tuple[str, NDArray[np.float64 | np.int64]]] = field(default_factory=list)

    def part(self, name: str) -> "Piece":
        """A piece of this one, such as `layers.attentions.0`."""
        return Piece(self.values, f"{self.at}{name}.", self.gradients, self.stages)

    def __getitem__(self, name: str) -> Floats:
        return self.values[self.at + name]

    def add(self, **gradients: Floats) -> None:
        """Adds these gradients to the sums."""
        for name, value in gradients.items():
            self.gradients[self.at + name] = self.gradients.get(self.at + name, 0) + value

    def stage(self, name: str, value: Floats) -> Floats:
        """The value, kept under this name for whoever looks at the stages."""
        self.stages.append((name, value))
        return value


# One operation


def linear(x: Floats, p: Piece) -> tuple[Floats, Backward]:
    """y = x W^T + b with W (out, in): (..., in) -> (..., out)."""

    def backward(dy: Floats) -> Floats:
        """dx = dy W, dW = dy^T x, db = dy, the last two summed over every row."""
        dy_rows, x_rows = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
        p.add(weight=dy_rows.T @ x_rows, bias=dy_rows.sum(0))
        return dy @ p["weight"]

    return x @ p["weight"].T + p["bias"], backward


def layer_norm(x: Floats, p: Piece) -> tuple[Floats, Backward]:
    """y = g z + b with z = (x - mean x) / sqrt(var x + eps), over the last axis: (..., D) -> (..., D)."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    z = (x - x.mean(-1, keepdims=True)) / deviation

    def backward(dy: Floats) -> Floats:
        """dz = g dy; dx = (dz - mean dz - z mean(dz z)) / sqrt(var x + eps); dg = dy z and db = dy, summed over every row.

        The two means are the parts of dz that cannot reach x: z keeps mean 0 and variance 1 whatever x does.
        """
        rows = tuple(range(dy.ndim - 1))
        p.add(weight=(dy * z).sum(rows), bias=dy.sum(rows))
        dz = dy * p["weight"]
        return (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True)) / deviation

    return p["weight"] * z + p["bias"], backward


def gelu(x: Floats) -> tuple[Floats, Backward]:
    """y = x P(x), P the cumulative normal distribution (1 + erf(x / sqrt 2)) / 2 (arXiv:1606.08415).

    Exactly: the tanh formula in wide use is an approximation of it. NumPy has no erf; SciPy's is used.
    """
    cumulative = (1 + erf(x / math.sqrt(2))) / 2

    def backward(dy: Floats) -> Floats:
        """dx = dy (P(x) + x P'(x)), P' the normal density."""
        density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        return dy * (cumulative + x * density)

    return x * cumulative, backward


def softmax(s: Floats) -> tuple[Floats, Backward]:
    """p_i = exp s_i / sum_j exp s_j over the last axis; a score of minus infinity gets probability 0."""
    powers = np.exp(s - s.max(-1, keepdims=True))
    p = powers / powers.sum(-1, keepdims=True)

    def backward(dp: Floats) -> Floats:
        """ds_i = p_i (dp_i - sum_j dp_j p_j)."""
        return p * (dp - (dp * p).sum(-1, keepdims=True))

    return p, backward


def cross_entropy(logits: Floats, labels: Integers) -> tuple[float, Floats]:
    """Mean over N rows of -log softmax(logits)[label]: (N, C), (N,) -> number, in nats.

    With its gradient: dlogits = (softmax(logits) - one-hot label) / N.
    """
    rows, (probabilities, _) = np.arange(len(labels)), softmax(logits)
    loss = -np.log(probabilities[rows, labels]).mean()
    probabilities[rows, labels] -= 1
    return loss, probabilities / len(labels)


# Attention


def split_heads(x: Floats, heads: int) -> Floats:
    """(B, T, D) -> (B, H, T, K): head h owns features hK to (h + 1)K - 1."""
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).transpose(0, 2, 1, 3)


def join_heads(x: Floats) -> Floats:
    """(B, H, T, K) -> (B, T, D), the inverse of `split_heads` and therefore its backward."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def attention(x: Floats, p: Piece, mask: NDArray[np.bool_], heads: int) -> tuple[Floats, Backward]:
    """softmax(Q K^T / sqrt K) V per head, joined and projected (arXiv:1706.03762): (B, T, D) -> (B, T, D).

    One matrix makes all three: its 3D output rows are those of the query, then the key, then the value, each of them H
    heads of K rows. `mask` (B, T) is true for real tokens: padding is seen by nobody.
    """
    fused, fused_backward = linear(x, p.part("query_key_value"))
    q, k, v = (split_heads(part, heads) for part in np.split(fused, 3, axis=-1))
    for name, value in (("queries", q), ("keys", k), ("values", v)):
        p.stage(name, value)
    root = math.sqrt(q.shape[-1])
    scores = np.where(mask[:, None, None, :], q @ k.swapaxes(-1, -2) / root, -np.inf)  # (B, H, T, T)
    weights, softmax_backward = softmax(scores)
    p.stage("weights, softmax of q k / √K", weights)
    context = p.stage("weights times values, heads joined", join_heads(weights @ v))
    y, output_backward = linear(context, p.part("output"))

    def backward(dy: Floats) -> Floats:
        """With A the weights and S the scores: dV = A^T dY, dA = dY V^T, dQ = dS K / sqrt K, dK = dS^T Q / sqrt K."""
        dcontext = split_heads(output_backward(dy), heads)
        dscores = softmax_backward(dcontext @ v.swapaxes(-1, -2)) / root
        parts = dscores @ k, dscores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ dcontext
        return fused_backward(np.concatenate([join_heads(d) for d in parts], axis=-1))  # (B, T, 3D)

    return y, backward


# Feed-forward and layer


def feed_forward(x: Floats, p: Piece) -> tuple[Floats, Backward]:
    """gelu(x W1^T + b1) W2^T + b2: (B, T, D) -> (B, T, F) -> (B, T, D)."""
    inner, inner_backward = linear(x, p.part("input"))
    active, gelu_backward = gelu(p.stage("feed-forward, inside", inner))
    y, output_backward = linear(p.stage("GELU", active), p.part("output"))
    return y, lambda dy: inner_backward(gelu_backward(output_backward(dy)))


def layer(x: Floats, attending: Piece, feeding: Piece, mask: NDArray[np.bool_], heads: int) -> tuple[Floats, Backward]:
    """a = norm(x + attention(x)), y = norm(a + feed_forward(a)): the norm comes after the sum; both halves have their names."""
    attended, attention_backward = attention(x, attending.part("attention"), mask, heads)
    first = attending.stage("projected, added to the input", x + attended)
    middle, first_backward = layer_norm(first, attending.part("norm"))
    fed, feed_forward_backward = feed_forward(attending.stage("normed", middle), feeding.part("feed_forward"))
    y, second_backward = layer_norm(feeding.stage("out again, added", middle + fed), feeding.part("norm"))

    def backward(dy: Floats) -> Floats:
        """A sum hands its gradient to both terms, so each residual adds its own path to that of its branch."""
        dsecond = second_backward(dy)
        dfirst = first_backward(dsecond + feed_forward_backward(dsecond))
        return dfirst + attention_backward(dfirst)

    return y, backward


# Encoder


def embeddings(ids: Integers, types: Integers, p: Piece) -> tuple[Floats, Callable[[Floats], None]]:
    """norm(token + position + type), each the rows of its table: (B, T), (B, T) -> (B, T, D)."""
    places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    indices = {"token_embedding": ids, "position_embedding": places, "type_embedding": types}
    total = sum(p.part(name)["weight"][index] for name, index in indices.items())
    y, norm_backward = layer_norm(p.stage("tokens + positions + types", total), p.part("norm"))

    def backward(dy: Floats) -> None:
        """Every row of a table gets the sum of dy over the places where it was looked up."""
        dtotal = norm_backward(dy)
        for name, index in indices.items():
            table = p.part(name)
            dtable = np.zeros_like(table["weight"])
            np.add.at(dtable, index, dtotal)
            table.add(weight=dtable)

    return y, backward


def encoder(
    ids: Integers, types: Integers, mask: NDArray[np.bool_], p: Piece, heads: int, order: Sequence[int]
) -> tuple[Floats, Callable[[Floats], None]]:
    """Embeddings, then the layers that `order` lists, a shared one more than once: (B, T) -> (B, T, D)."""
    hidden, embeddings_backward = embeddings(ids, types, p.part("embeddings"))
    layers = []
    for number, index in enumerate(order, 1):
        p.stage(f"layer {number}, its input", hidden)
        halves = p.part(f"layers.attentions.{index}"), p.part(f"layers.feed_forwards.{index}")
        hidden, layer_backward = layer(hidden, *halves, mask, heads)
        layers.append(layer_backward)
    p.stage(OUTPUT, hidden)

    def backward(dhidden: Floats) -> None:
        """The layers in reverse, then the embeddings, below which no gradient is needed."""
        for layer_backward in reversed(layers):
            dhidden = layer_backward(dhidden)
        embeddings_backward(dhidden)

    return hidden, backward


# Head


def masked_lm(hidden: Floats, places: tuple[Integers, ...], p: Piece, table: Piece) -> tuple[Floats, Backward]:
    """norm(gelu(h W^T + b)) E^T + c at the chosen places, E the table of token embeddings: (B, T, D) -> (N, V).

    `places` is two (N,) arrays, the rows and columns of (B, T) to predict (arXiv:1810.04805, section 3.1).
    """
    inner, dense_backward = linear(hidden[places], p.part("dense"))  # (N, D)
    active, gelu_backward = gelu(p.stage("dense", inner))
    normed, norm_backward = layer_norm(p.stage("GELU", active), p.part("norm"))
    logits = p.stage("normed", normed) @ table["weight"].T + p["output.bias"]

    def backward(dlogits: Floats) -> Floats:
        """-> dhidden (B, T, D), zero where nothing was predicted; dE = dlogits^T z, (V, D)."""
        p.part("output").add(bias=dlogits.sum(0))
        table.add(weight=dlogits.T @ normed)
        dhidden = np.zeros(hidden.shape)
        np.add.at(dhidden, places, dense_backward(gelu_backward(norm_backward(dlogits @ table["weight"]))))
        return dhidden

    return p.stage("scores of all words", logits), backward
