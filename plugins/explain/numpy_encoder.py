"""A BERT-like encoder and its gradients in plain NumPy: what `describe numpy` shows, and a check on `models/` from outside.

B sequences, T tokens, D hidden, F feed-forward, H heads, K = D / H head size, V vocabulary, N predicted places, C classes.

Every function is followed by its backward. There `dx` means the gradient of the loss with respect to `x`; it has the shape
of `x`. Backward functions take `dy`, the gradient of what came out, and return the gradients of what went in. The larger
pieces also return a trace, what their backward needs again.

Parameters `p` are a dict of arrays, named as in the state dict of a model; `at` is the beginning of the names of a piece, such
as `encoder.layers.attentions.0.`. Its backward adds to `gradients`, a dict of the same names (`add`), so that the gradient of a
shared layer, or of a table used twice, is the sum over its uses.
"""

import math

import numpy as np
from scipy.special import erf

EPSILON = 1e-12
"""Added to the variance in a layer norm, as BERT."""


def add(gradients, at, part):
    """Adds the gradients of a piece to those of the whole."""
    for name, value in part.items():
        gradients[at + name] = gradients.get(at + name, 0) + value


# One operation


def linear(x, p, at):
    """y = x W^T + b with W (out, in): (..., in) -> (..., out)."""
    return x @ p[at + "weight"].T + p[at + "bias"]


def linear_backward(dy, x, p, at, gradients):
    """dx = dy W, dW = dy^T x, db = dy, the last two summed over every row."""
    dy_rows, x_rows = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
    add(gradients, at, {"weight": dy_rows.T @ x_rows, "bias": dy_rows.sum(0)})
    return dy @ p[at + "weight"]


def layer_norm(x, p, at):
    """y = g z + b with z = (x - mean x) / sqrt(var x + eps), over the last axis: (..., D) -> (..., D)."""
    z, _ = normalise(x)
    return p[at + "weight"] * z + p[at + "bias"]


def layer_norm_backward(dy, x, p, at, gradients):
    """dz = g dy; dx = (dz - mean dz - z mean(dz z)) / sqrt(var x + eps); dg = dy z and db = dy, summed over every row.

    The two means are the parts of dz that cannot reach x: z keeps mean 0 and variance 1 whatever x does.
    """
    z, deviation = normalise(x)
    rows = tuple(range(dy.ndim - 1))
    add(gradients, at, {"weight": (dy * z).sum(rows), "bias": dy.sum(rows)})
    dz = dy * p[at + "weight"]
    return (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True)) / deviation


def normalise(x):
    """z and the deviation it was divided by, (..., D) and (..., 1)."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return (x - x.mean(-1, keepdims=True)) / deviation, deviation


def gelu(x):
    """y = x P(x), P the cumulative normal distribution (1 + erf(x / sqrt 2)) / 2 (arXiv:1606.08415)."""
    return x * cumulative_normal(x)


def gelu_backward(dy, x):
    """dx = dy (P(x) + x P'(x)), P' the normal density."""
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return dy * (cumulative_normal(x) + x * density)


def cumulative_normal(x):
    """P(x), exactly: the tanh formula in wide use is an approximation of it. NumPy has no erf; SciPy's is used."""
    return (1 + erf(x / math.sqrt(2))) / 2


def softmax(s):
    """p_i = exp s_i / sum_j exp s_j over the last axis; a score of minus infinity gets probability 0.

    Backward: ds_i = p_i (dp_i - sum_j dp_j p_j).
    """
    powers = np.exp(s - s.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def cross_entropy(logits, labels):
    """Mean over N rows of -log softmax(logits)[label]: (N, C), (N,) -> number, in nats.

    With its backward: dlogits = (softmax(logits) - one-hot label) / N.
    """
    rows, probabilities = np.arange(len(labels)), softmax(logits)
    loss = -np.log(probabilities[rows, labels]).mean()
    probabilities[rows, labels] -= 1
    return loss, probabilities / len(labels)


# Attention


def split_heads(x, heads):
    """(B, T, D) -> (B, H, T, K): head h owns features hK to (h + 1)K - 1."""
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    """(B, H, T, K) -> (B, T, D), the inverse of `split_heads` and therefore its backward."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def attention(x, p, at, mask, heads):
    """softmax(Q K^T / sqrt K) V per head, joined and projected (arXiv:1706.03762): (B, T, D) -> (B, T, D).

    One matrix makes all three: its 3D output rows are those of the query, then the key, then the value, each of them H
    heads of K rows. `mask` (B, T) is true for real tokens: padding is seen by nobody.
    """
    q, k, v = (split_heads(part, heads) for part in np.split(linear(x, p, f"{at}query_key_value."), 3, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, T, T)
    probabilities = softmax(np.where(mask[:, None, None, :], scores, -np.inf))
    context = join_heads(probabilities @ v)
    return linear(context, p, f"{at}output."), (x, q, k, v, probabilities, context)


def attention_backward(dy, p, at, trace, gradients):
    """With A the probabilities and S the scores: dV = A^T dY, dA = dY V^T, dQ = dS K / sqrt K, dK = dS^T Q / sqrt K."""
    x, q, k, v, probabilities, context = trace
    dcontext = split_heads(linear_backward(dy, context, p, f"{at}output.", gradients), q.shape[1])
    dv = probabilities.swapaxes(-1, -2) @ dcontext
    dprobabilities = dcontext @ v.swapaxes(-1, -2)
    dscores = probabilities * (dprobabilities - (dprobabilities * probabilities).sum(-1, keepdims=True))
    dscores /= math.sqrt(q.shape[-1])
    dq, dk = dscores @ k, dscores.swapaxes(-1, -2) @ q
    dfused = np.concatenate([join_heads(d) for d in (dq, dk, dv)], axis=-1)  # (B, T, 3D)
    return linear_backward(dfused, x, p, f"{at}query_key_value.", gradients)


# Feed-forward and layer


def feed_forward(x, p, at):
    """gelu(x W1^T + b1) W2^T + b2: (B, T, D) -> (B, T, F) -> (B, T, D)."""
    inner = linear(x, p, f"{at}input.")
    return linear(gelu(inner), p, f"{at}output."), (x, inner)


def feed_forward_backward(dy, p, at, trace, gradients):
    """The chain backwards: second matrix, gelu, first matrix."""
    x, inner = trace
    dactive = linear_backward(dy, gelu(inner), p, f"{at}output.", gradients)
    return linear_backward(gelu_backward(dactive, inner), x, p, f"{at}input.", gradients)


def layer(x, p, attending, feeding, mask, heads):
    """a = norm(x + attention(x)), y = norm(a + feed_forward(a)): the norm comes after the sum; both halves have their names."""
    attended, attention_trace = attention(x, p, f"{attending}attention.", mask, heads)
    first = x + attended
    middle = layer_norm(first, p, f"{attending}norm.")
    fed, feed_forward_trace = feed_forward(middle, p, f"{feeding}feed_forward.")
    second = middle + fed
    return layer_norm(second, p, f"{feeding}norm."), (first, second, attention_trace, feed_forward_trace)


def layer_backward(dy, p, attending, feeding, trace, gradients):
    """A sum hands its gradient to both terms, so each residual adds its own path to that of its branch."""
    first, second, attention_trace, feed_forward_trace = trace
    dsecond = layer_norm_backward(dy, second, p, f"{feeding}norm.", gradients)
    dmiddle = dsecond + feed_forward_backward(dsecond, p, f"{feeding}feed_forward.", feed_forward_trace, gradients)
    dfirst = layer_norm_backward(dmiddle, first, p, f"{attending}norm.", gradients)
    return dfirst + attention_backward(dfirst, p, f"{attending}attention.", attention_trace, gradients)


# Encoder


def embeddings(ids, types, p, at):
    """norm(token + position + type), each the rows of its table: (B, T), (B, T) -> (B, T, D)."""
    places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    indices = {"token_embedding.weight": ids, "position_embedding.weight": places, "type_embedding.weight": types}
    total = sum(p[at + name][index] for name, index in indices.items())
    return layer_norm(total, p, f"{at}norm."), (total, indices)


def embeddings_backward(dy, p, at, trace, gradients):
    """Every row of a table gets the sum of dy over the places where it was looked up."""
    total, indices = trace
    dtotal = layer_norm_backward(dy, total, p, f"{at}norm.", gradients)
    for name, index in indices.items():
        dtable = np.zeros_like(p[at + name])
        np.add.at(dtable, index, dtotal)
        add(gradients, at, {name: dtable})


def halves(at, index):
    """Where the names of a layer's two halves begin."""
    return f"{at}layers.attentions.{index}.", f"{at}layers.feed_forwards.{index}."


def encoder(ids, types, mask, p, at, heads, order):
    """Embeddings, then the layers that `order` lists, a shared one more than once: (B, T) -> (B, T, D)."""
    hidden, embeddings_trace = embeddings(ids, types, p, f"{at}embeddings.")
    traces = []
    for index in order:
        hidden, trace = layer(hidden, p, *halves(at, index), mask, heads)
        traces.append(trace)
    return hidden, (embeddings_trace, traces, order)


def encoder_backward(dhidden, p, at, trace, gradients):
    """The layers in reverse, then the embeddings, below which no gradient is needed."""
    embeddings_trace, traces, order = trace
    for index, layer_trace in zip(reversed(order), reversed(traces), strict=True):
        dhidden = layer_backward(dhidden, p, *halves(at, index), layer_trace, gradients)
    embeddings_backward(dhidden, p, f"{at}embeddings.", embeddings_trace, gradients)


# Head


TABLE = "encoder.embeddings.token_embedding.weight"
"""Name of the token embeddings, which are the output matrix, too."""


def masked_lm(hidden, places, p, at):
    """norm(gelu(h W^T + b)) E^T + c at the chosen places, E the table of token embeddings: (B, T, D) -> (N, V).

    `places` is two (N,) arrays, the rows and columns of (B, T) to predict (arXiv:1810.04805, section 3.1).
    """
    chosen = hidden[places]  # (N, D)
    inner = linear(chosen, p, f"{at}dense.")
    active = gelu(inner)
    normed = layer_norm(active, p, f"{at}norm.")
    return normed @ p[TABLE].T + p[f"{at}output.bias"], (hidden.shape, places, chosen, inner, active, normed)


def masked_lm_backward(dlogits, p, at, trace, gradients):
    """-> dhidden (B, T, D), zero where nothing was predicted; dE = dlogits^T z, (V, D)."""
    shape, places, chosen, inner, active, normed = trace
    add(gradients, "", {f"{at}output.bias": dlogits.sum(0), TABLE: dlogits.T @ normed})
    dactive = layer_norm_backward(dlogits @ p[TABLE], active, p, f"{at}norm.", gradients)
    dhidden = np.zeros(shape)
    np.add.at(dhidden, places, linear_backward(gelu_backward(dactive, inner), chosen, p, f"{at}dense.", gradients))
    return dhidden
